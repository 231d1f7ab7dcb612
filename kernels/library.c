/* library.c: see library.h.
 *
 * A C++ library registers the destructor of a static object when the object is made, often in the middle of a call.
 * exit() calls the last one first, before any handler that we could have registered earlier, and a thread in that
 * library uses what is destroyed: a compiling LLVM crashed or hung in two of three programs that ended a few
 * milliseconds after their first loop became hot. So the libraries' references to __cxa_atexit, which atexit calls,
 * too, are pointed at a function that registers nothing.
 */
#define _GNU_SOURCE
#include "library.h"
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void (*on_open)(void);

void dfk_library_on_open(void (*fn)(void)) { on_open = fn; }

static int never(void (*fn)(void *), void *arg, void *library) {
  (void)fn; (void)arg; (void)library;
  return 0;
}

/* One loaded library, as the dynamic linker describes it. */
typedef struct loaded {
  uintptr_t base;
  const ElfW(Phdr) *relro;          /* the part that is read-only by now; NULL: none */
  const ElfW(Sym) *symbols;
  const char *names;
  const ElfW(Rela) *table[2];       /* references to functions, and all others */
  size_t      entries[2];
} loaded;

static bool describe(loaded *l, const struct dl_phdr_info *info) {
  const ElfW(Dyn) *d = NULL;
  *l = (loaded){ .base = info->dlpi_addr };
  for (int32_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_DYNAMIC) d = (const ElfW(Dyn) *)(l->base + p->p_vaddr);
    if (p->p_type == PT_GNU_RELRO) l->relro = p;
  }
  for (; d && d->d_tag != DT_NULL; d++) {
    /* glibc has made addresses of the offsets, where the section can be written */
    const uintptr_t at = d->d_un.d_ptr < l->base ? l->base + d->d_un.d_ptr : d->d_un.d_ptr;
    switch (d->d_tag) {
    case DT_SYMTAB:   l->symbols = (const void *)at; break;
    case DT_STRTAB:   l->names = (const void *)at; break;
    case DT_JMPREL:   l->table[0] = (const void *)at; break;
    case DT_RELA:     l->table[1] = (const void *)at; break;
    case DT_PLTRELSZ: l->entries[0] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
    case DT_RELASZ:   l->entries[1] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
    default: break;
    }
  }
  return l->symbols && l->names;
}

static void point_at_never(const loaded *l, uintptr_t slot) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = slot & ~(page - 1);
  const bool closed = l->relro && slot - l->base - l->relro->p_vaddr < l->relro->p_memsz;
  if (closed && mprotect((void *)first, page, PROT_READ | PROT_WRITE)) return;
  __atomic_store_n((uintptr_t *)slot, (uintptr_t)never, __ATOMIC_RELEASE);
  if (closed) mprotect((void *)first, page, PROT_READ);
}

typedef struct walk { size_t known, at; } walk;

static int count(struct dl_phdr_info *info, size_t bytes, void *known) {
  (void)info; (void)bytes;
  ++*(size_t *)known;
  return 0;
}

/* Of a library that was not there before. The linker lists them in the order in which they came. */
static int keep(struct dl_phdr_info *info, size_t bytes, void *of) {
  (void)bytes;
  walk *w = of;
  loaded l;
  if (w->at++ < w->known || !describe(&l, info)) return 0;
  for (int32_t t = 0; t < 2; t++)
    for (size_t i = 0; i < l.entries[t]; i++) {
      const ElfW(Rela) *r = &l.table[t][i];
      const size_t symbol = ELF64_R_SYM(r->r_info);
      if (symbol && !r->r_addend && !strcmp(l.names + l.symbols[symbol].st_name, "__cxa_atexit"))
        point_at_never(&l, l.base + r->r_offset);
    }
  return 0;
}

void *dfk_library_open(const char *name, int flags, bool stays) {
  walk w = { 0, 0 };
  if (stays) dl_iterate_phdr(count, &w.known);
  void *library = dlopen(name, flags);
  if (library && stays) dl_iterate_phdr(keep, &w);
  if (library && on_open) on_open();
  return library;
}
