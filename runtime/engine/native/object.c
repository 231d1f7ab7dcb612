/* object.c: see object.h. The file is one of ours, but nothing in it is believed: what points past its end is refused.
 */
#define _GNU_SOURCE
#include "engine/native/object.h"
#include "base/internal.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the processor ---------------------------------------------------------------------------------------------- */

static uint64_t kept_by_system(void) {      /* which registers are there and saved, so may be used */
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

bool dfi_object_machine(dfk_disk_key *key) {
  /* leaf, its part, and whether ebx says the same on every core */
  static const struct { uint32_t leaf, part; bool ebx; } asked[] = {
    { 0, 0, true }, { 1, 0, false }, { 7, 0, true }, { 7, 1, true }, { 13, 1, false }, { 0x80000001, 0, true }
  };
  uint32_t r[4];
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    memset(r, 0, sizeof r);
    __get_cpuid_count(asked[i].leaf, asked[i].part, &r[0], &r[1], &r[2], &r[3]);
    if (!asked[i].ebx) r[1] = 0;
    if (asked[i].leaf == 13) r[2] = r[3] = 0;
    dfk_disk_hash(key, r, sizeof r);
  }
  __cpuid(1, r[0], r[1], r[2], r[3]);
  const uint64_t registers = r[2] & bit_OSXSAVE ? kept_by_system() : 0;
  dfk_disk_hash(key, &registers, sizeof registers);
  return true;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* at: of each section that is laid into memory where it lies there, else SIZE_MAX. A stub for each symbol that is far:
   a jump to an address that follows. */
typedef struct loader {
  const unsigned char *file;
  size_t bytes;
  const Elf64_Shdr *section; size_t nsections;
  const Elf64_Sym *symbol; size_t nsymbols;
  const char *names; size_t names_bytes;
  size_t *at, size, stubs;
  unsigned char *memory;
} loader;
enum { STUB = 16, MOST = 1 << 26, PAGE = 4096 };

static bool inside(const loader *l, uint64_t at, uint64_t bytes) { return at <= l->bytes && bytes <= l->bytes - at; }

static bool open_file(loader *l) {
  static const unsigned char ident[] = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT };
  const Elf64_Ehdr *h = (const Elf64_Ehdr *)l->file;
  if (l->bytes < sizeof *h || memcmp(h->e_ident, ident, sizeof ident) || h->e_type != ET_REL ||
      h->e_machine != EM_X86_64 || h->e_shentsize != sizeof *l->section || h->e_shoff % 8 || !h->e_shnum)
    return false;
  l->nsections = h->e_shnum;
  if (!inside(l, h->e_shoff, l->nsections * sizeof *l->section)) return false;
  l->section = (const Elf64_Shdr *)(l->file + h->e_shoff);
  for (size_t i = 0; i < l->nsections; i++) {
    const Elf64_Shdr *s = &l->section[i];
    if (s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size)) return false;
    if (s->sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr *names = s->sh_link < l->nsections ? &l->section[s->sh_link] : s;
    if (l->symbol || names->sh_type != SHT_STRTAB || !names->sh_size || s->sh_offset % 8 ||
        !inside(l, names->sh_offset, names->sh_size) || l->file[names->sh_offset + names->sh_size - 1])
      return false;
    l->symbol = (const Elf64_Sym *)(l->file + s->sh_offset);
    l->nsymbols = s->sh_size / sizeof *l->symbol;
    l->names = (const char *)l->file + names->sh_offset;
    l->names_bytes = names->sh_size;
  }
  return l->symbol != NULL;
}

static const char *name_of(const loader *l, const Elf64_Sym *s) {
  return s->st_name < l->names_bytes ? l->names + s->st_name : "";
}

/* Gives each section that is code or constants its place. */
static bool lay_out(loader *l) {
  if (!(l->at = dfi_malloc(sizeof *l->at * l->nsections))) return false;
  for (size_t i = 0; i < l->nsections; i++) {
    const Elf64_Shdr *s = &l->section[i];
    l->at[i] = SIZE_MAX;
    if (!(s->sh_flags & SHF_ALLOC)) continue;
    const uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    if (s->sh_type != SHT_PROGBITS || s->sh_flags & (SHF_WRITE | SHF_TLS) || align & (align - 1) || align > PAGE ||
        s->sh_size > MOST || l->size > MOST)
      return false;
    l->at[i] = (l->size + align - 1) & ~(align - 1);
    l->size = l->at[i] + s->sh_size;
  }
  l->stubs = (l->size + STUB - 1) & ~(size_t)(STUB - 1);
  l->size = l->stubs + STUB * l->nsymbols;
  return l->size <= MOST;
}

/* Where symbol k is, 0: not known. `defined`: it is one of the file's own. */
static uint64_t address_of(const loader *l, size_t k, bool *defined) {
  if (k >= l->nsymbols) return 0;
  const Elf64_Sym *s = &l->symbol[k];
  *defined = s->st_shndx != SHN_UNDEF;
  if (!*defined) return (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, name_of(l, s));
  if (s->st_shndx >= l->nsections || l->at[s->st_shndx] == SIZE_MAX) return 0;
  return s->st_value <= l->section[s->st_shndx].sh_size
             ? (uint64_t)(uintptr_t)(l->memory + l->at[s->st_shndx]) + s->st_value
             : 0;
}

static uint64_t stub_for(const loader *l, size_t k, uint64_t to) {
  static const unsigned char jump[] = { 0xff, 0x25, 0, 0, 0, 0 };        /* jmp *0(%rip) */
  unsigned char *stub = l->memory + l->stubs + STUB * k;
  memcpy(stub, jump, sizeof jump);
  memcpy(stub + sizeof jump, &to, sizeof to);
  return (uint64_t)(uintptr_t)stub;
}

/* One place of section `in` that depends on where things lie. */
static bool relocate(const loader *l, size_t in, const Elf64_Rela *r) {
  const uint32_t type = ELF64_R_TYPE(r->r_info);
  const size_t k = ELF64_R_SYM(r->r_info), width = type == R_X86_64_64 ? 8 : 4;
  const uint64_t room = l->section[in].sh_size;
  bool defined = false;
  const uint64_t to = address_of(l, k, &defined);
  if (!to || room < width || r->r_offset > room - width) return false;
  unsigned char *place = l->memory + l->at[in] + r->r_offset;
  if (type == R_X86_64_64) {
    const uint64_t v = to + (uint64_t)r->r_addend;
    memcpy(place, &v, sizeof v);
    return true;
  }
  if (type != R_X86_64_PLT32 && (type != R_X86_64_PC32 || !defined)) return false;
  const uint64_t target = defined ? to : stub_for(l, k, to);
  const int32_t v = (int32_t)(target + (uint64_t)r->r_addend - (uint64_t)(uintptr_t)place);
  memcpy(place, &v, sizeof v);
  return true;
}

static bool relocate_all(const loader *l) {
  for (size_t i = 0; i < l->nsections; i++) {
    const Elf64_Shdr *s = &l->section[i];
    if (s->sh_type == SHT_REL) return false;
    if (s->sh_type != SHT_RELA || s->sh_info >= l->nsections || l->at[s->sh_info] == SIZE_MAX) continue;
    if (s->sh_offset % 8) return false;
    const Elf64_Rela *r = (const Elf64_Rela *)(l->file + s->sh_offset);
    for (size_t n = 0; n < s->sh_size / sizeof *r; n++) if (!relocate(l, s->sh_info, &r[n])) return false;
  }
  return true;
}

static void *entry_of(const loader *l, const char *symbol) {
  bool defined;
  for (size_t k = 0; k < l->nsymbols; k++)
    if (l->symbol[k].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(l->symbol[k].st_info) == STT_FUNC &&
        !strcmp(name_of(l, &l->symbol[k]), symbol))
      return (void *)(uintptr_t)address_of(l, k, &defined);
  return NULL;
}

static void *lay(loader *l, const char *symbol) {
  if (!open_file(l) || !lay_out(l)) return NULL;
  l->memory = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (l->memory == MAP_FAILED) { l->memory = NULL; return NULL; }
  for (size_t i = 0; i < l->nsections; i++)
    if (l->at[i] != SIZE_MAX) memcpy(l->memory + l->at[i], l->file + l->section[i].sh_offset, l->section[i].sh_size);
  if (!relocate_all(l) || mprotect(l->memory, l->size, PROT_READ | PROT_EXEC)) return NULL;
  return entry_of(l, symbol);
}

void *dfi_object_load(dfi_object *o, const void *file, size_t bytes, const char *symbol) {
  loader l = { .file = file, .bytes = bytes };
  void *entry = lay(&l, symbol);
  dfi_free(l.at);
  if (!entry && l.memory) munmap(l.memory, l.size);
  if (entry) *o = (dfi_object){ l.memory, l.size };
  return entry;
}

void dfi_object_drop(dfi_object *o) {
  if (o->at) munmap(o->at, o->bytes);
  o->at = NULL;
}
#else
bool dfi_object_machine(dfk_disk_key *key) {
  (void)key;
  return false;
}
void *dfi_object_load(dfi_object *o, const void *file, size_t bytes, const char *symbol) {
  (void)o; (void)file; (void)bytes; (void)symbol;
  return NULL;
}
void dfi_object_drop(dfi_object *o) { (void)o; }
#endif
