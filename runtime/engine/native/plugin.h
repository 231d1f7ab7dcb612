/* plugin.h: what libdflow and its plug-in for native code know of each other. The plug-in (llvm/jit.c) is LLVM behind
 * this table; it is loaded when the first loop has become hot, links to nothing of libdflow, and knows nothing of plans
 * and frames: it is given a module in LLVM's assembly language and gives back where its function lies.
 */
#ifndef DFLOW_PLUGIN_H
#define DFLOW_PLUGIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the table and of what compile makes: files on the disk are those of the same version. */
enum { DFI_JIT_VERSION = 6 };
typedef struct dfi_jit_api {
  int32_t version;
  /* Makes the compiler for this machine. NULL: it is ready. Else why it is not, in static memory. Called once. */
  const char *(*open)(void);
  /* Compiles `text` (`bytes` long, with a 0 behind it) to an object file: malloc's, *size bytes. quick: in less than
   * half the time, to code that takes longer, and gives the same bits. NULL: error, at most `room` bytes, says why. One
   * call at a time. */
  void *(*compile)(const char *text, size_t bytes, bool quick, size_t *size, char *error, size_t room);
  /* Lays an object file that `compile` made into memory and finds `symbol` in it, which no other has that is there.
   * Returns its address, and in *code what `drop` wants; NULL: error says why. One call at a time. */
  void *(*load)(const void *object, size_t size, const char *symbol, void **code, char *error, size_t room);
  /* The function's memory goes. No thread runs in it. */
  void (*drop)(void *code);
  /* The machine's assembly of the same text; malloc's, NULL when there is none. One call at a time, as of compile. */
  char *(*assembly)(const char *text, size_t bytes);
  const char *(*target)(void);          /* "x86_64-pc-linux-gnu sapphirerapids, LLVM 19.1"; static */
  const char *(*depends)(void);         /* all that an object file depends on but the text; static */
  /* Nothing of LLVM is taken down when the process ends: a thread may then go on compiling. */
  bool (*stays)(void);
} dfi_jit_api;
#define DFI_JIT_SYMBOL "dflow_jit"      /* of type dfi_jit_api */
#define DFI_JIT_VECTORS "dflow.vectors" /* metadata of a module: it has a loop to make vectors of */
#endif
