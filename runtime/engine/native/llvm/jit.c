/* jit.c: LLVM behind plugin.h, through its C API: text is parsed, optimised for this machine and laid into memory by
 * ORC's LLJIT, one resource tracker per module, so that each can be dropped.
 */
#include "engine/native/plugin.h"
#include "base/internal.h"
#include <dlfcn.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What pays on a unit's text, which has no calls to inline and no global variables: half the time of default<O2>, and
   as fast code. WIDE: of one that says (by DFI_JIT_VECTORS) that there is something to make vectors of. */
#define SIMPLIFY "instcombine<no-verify-fixpoint>"
#define PASSES "sroa,early-cse<memssa>,simplifycfg," SIMPLIFY ",loop-mssa(loop-rotate,licm),simplifycfg," SIMPLIFY \
               ",loop(loop-idiom,indvars,loop-deletion,loop-unroll-full),sroa,gvn," SIMPLIFY ",dse,adce,simplifycfg"
#define QUICK "sroa,early-cse,simplifycfg,loop-mssa(loop-rotate,licm),adce,simplifycfg"
#define WIDE ",loop-vectorize," SIMPLIFY ",simplifycfg,loop-unroll," SIMPLIFY ",loop-mssa(licm),simplifycfg"

static LLVMOrcLLJITRef jit;
static LLVMTargetMachineRef machine, quick_machine;
static char title[200], whole_title[8000];      /* the latter with what the processor can do */

/* LLVM's error as text; consumes it. */
static void tell(LLVMErrorRef e, char *error, size_t room) {
  char *text = LLVMGetErrorMessage(e);
  snprintf(error, room, "%s", text);
  LLVMDisposeErrorMessage(text);
}

static LLVMTargetMachineRef machine_new(LLVMCodeGenOptLevel level, const char **why) {
  char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures(),
       *text = NULL;
  LLVMTargetRef target;
  LLVMTargetMachineRef m = NULL;
  if (LLVMGetTargetFromTriple(triple, &target, &text)) {
    *why = "LLVM knows no such machine";
    LLVMDisposeMessage(text);
  } else
    m = LLVMCreateTargetMachine(target, triple, cpu, features, level, LLVMRelocPIC, LLVMCodeModelDefault);
  unsigned major = 0, minor = 0, patch = 0;
  LLVMGetVersion(&major, &minor, &patch);
  snprintf(title, sizeof title, "%s %s, LLVM %u.%u", triple, cpu, major, minor);
  snprintf(whole_title, sizeof whole_title, "%s.%u " PASSES WIDE " %s", title, patch, features);
  LLVMDisposeMessage(triple); LLVMDisposeMessage(cpu); LLVMDisposeMessage(features);
  return m;
}

static const char *jit_open(void) {
  const char *reason = "LLVM has no code generator for this machine";
  if (LLVMInitializeNativeTarget() || LLVMInitializeNativeAsmPrinter() || LLVMInitializeNativeAsmParser())
    return reason;
  machine = machine_new(LLVMCodeGenLevelDefault, &reason);
  quick_machine = machine_new(LLVMCodeGenLevelNone, &reason);
  return machine && quick_machine ? NULL : reason;
}

/* Made when it is first needed, which it seldom is: libdflow lays most files into memory itself. */
static bool linker_open(char *error, size_t room) {
  const char *reason = "LLVM has no linker for this machine";
  if (jit) return true;
  LLVMTargetMachineRef for_jit = machine_new(LLVMCodeGenLevelDefault, &reason);
  if (!for_jit) return snprintf(error, room, "%s", reason), false;
  LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(for_jit));
  LLVMErrorRef e = LLVMOrcCreateLLJIT(&jit, b);
  if (e) tell(e, error, room);
  return !e;
}

/* The text as an optimised module of the context; NULL: error says why. */
static LLVMModuleRef optimised(LLVMContextRef c, const char *text, size_t bytes, bool quick, char *error,
                               size_t room) {
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, bytes, "loop");
  LLVMModuleRef m = NULL;
  char *message = NULL;
  /* The reader does not ask whether what is used was computed on every way there; wrong code would be made of it. */
  if (LLVMParseIRInContext(c, buffer, &m, &message) || LLVMVerifyModule(m, LLVMReturnStatusAction, &message)) {
    snprintf(error, room, "it is not valid: %s", message);
    LLVMDisposeMessage(message);
    if (m) LLVMDisposeModule(m);
    df_assert(!*error);                               /* a mistake of what wrote the text */
    return NULL;
  }
  LLVMDisposeMessage(message);
  char *triple = LLVMGetTargetMachineTriple(machine);
  LLVMSetTarget(m, triple);
  LLVMDisposeMessage(triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(m, layout);
  LLVMDisposeTargetData(layout);
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  const bool wide = LLVMGetNamedMetadata(m, DFI_JIT_VECTORS, strlen(DFI_JIT_VECTORS)) != NULL;
  const char *passes = quick ? "function(" QUICK ")" : wide ? "function(" PASSES WIDE ")" : "function(" PASSES ")";
  LLVMErrorRef e = LLVMRunPasses(m, passes, machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!e) return m;
  tell(e, error, room);
  LLVMDisposeModule(m);
  return NULL;
}

static void *jit_compile(const char *text, size_t bytes, bool quick, size_t *size, char *error, size_t room) {
  LLVMContextRef c = LLVMContextCreate();
  LLVMModuleRef m = optimised(c, text, bytes, quick, error, room);
  const LLVMTargetMachineRef by = quick ? quick_machine : machine;
  LLVMMemoryBufferRef buffer;
  char *message = NULL;
  void *object = NULL;
  if (m && !LLVMTargetMachineEmitToMemoryBuffer(by, m, LLVMObjectFile, &message, &buffer)) {
    *size = LLVMGetBufferSize(buffer);
    if ((object = malloc(*size))) memcpy(object, LLVMGetBufferStart(buffer), *size);
    else snprintf(error, room, "out of memory");
    LLVMDisposeMemoryBuffer(buffer);
  } else if (m) snprintf(error, room, "%s", message ? message : "no code");
  if (message) LLVMDisposeMessage(message);
  if (m) LLVMDisposeModule(m);
  LLVMContextDispose(c);
  return object;
}

static void *jit_load(const void *object, size_t size, const char *symbol, void **code, char *error, size_t room) {
  if (!linker_open(error, room)) return NULL;
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(object, size, symbol);
  LLVMOrcResourceTrackerRef tracker = LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(jit));
  LLVMErrorRef e = LLVMOrcLLJITAddObjectFileWithRT(jit, tracker, buffer);
  LLVMOrcExecutorAddress at = 0;
  if (!e) e = LLVMOrcLLJITLookup(jit, &at, symbol);
  if (!e) { *code = tracker; return (void *)(uintptr_t)at; }
  tell(e, error, room);
  LLVMOrcReleaseResourceTracker(tracker);
  return NULL;
}

static void jit_drop(void *code) {
  LLVMErrorRef e = LLVMOrcResourceTrackerRemove(code);
  if (e) LLVMConsumeError(e);
  LLVMOrcReleaseResourceTracker(code);
}

static char *jit_assembly(const char *text, size_t bytes) {
  char error[200], *message = NULL, *out = NULL;
  LLVMContextRef c = LLVMContextCreate();
  LLVMModuleRef m = optimised(c, text, bytes, false, error, sizeof error);
  LLVMMemoryBufferRef buffer;
  if (m && !LLVMTargetMachineEmitToMemoryBuffer(machine, m, LLVMAssemblyFile, &message, &buffer)) {
    out = strndup(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
    LLVMDisposeMemoryBuffer(buffer);
  }
  if (message) LLVMDisposeMessage(message);
  if (m) LLVMDisposeModule(m);
  LLVMContextDispose(c);
  return out;
}

static const char *jit_target(void) { return title; }
static const char *jit_depends(void) { return whole_title; }

/* ---- the end of the process ------------------------------------------------------------------------------- */

/* What an LLVM that is linked in registers to be called at the end, as the destructors of its static objects are, would
   be called while another thread compiles. So it registers nothing: this hides the C library's function from it. Where
   LLVM is a library of its own, kernels/library.c does the same. */
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int __cxa_atexit(void (*fn)(void *), void *arg, void *library);
HIDDEN int __cxa_atexit(void (*fn)(void *), void *arg, void *library) {
  (void)fn; (void)arg; (void)library;
  return 0;
}

/* Of an LLVM of its own, what was registered while it was loaded is called. */
static bool jit_stays(void) {
  Dl_info own, llvm;
  return dladdr((void *)jit_open, &own) && dladdr((void *)LLVMGetVersion, &llvm) && own.dli_fbase == llvm.dli_fbase;
}

__attribute__((visibility("default")))
const dfi_jit_api dflow_jit = { DFI_JIT_VERSION, jit_open,     jit_compile, jit_load,
                                jit_drop,        jit_assembly, jit_target,  jit_depends, jit_stays };
