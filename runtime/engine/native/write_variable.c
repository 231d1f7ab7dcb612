/* write_variable.c: variables are read in each iteration, as tokens read them: another run may assign meanwhile.
 *
 * A number lies where resource/variable.h shows it to readers without a lock, and is loaded from there; tensors, and
 * what is being changed, are asked for. Tokens that do the iteration over get what was read, not what is there by then.
 */
#include "engine/native/write.h"
#include "resource/variable.h"
#include <stddef.h>
#include <stdio.h>

/* The value as the runtime gives it, at `to`. */
static void write_asked(dfi_writer *w, int32_t i, uint32_t which, const char *to) {
  const dfi_name good = dfi_temp(w), bad = dfi_temp(w);
  SAY(w, "  %s = call i32 %%do.peek(ptr %%c, i64 %u, ptr %s)\n  %s = icmp eq i32 %s, 0\n", good.s, which, to, bad.s,
      good.s);
  dfi_write_fail(w, i, bad);
}

/* A number, read without the lock where the variable shows one: a load of the flag, then one of the number. */
static void write_number(dfi_writer *w, int32_t i, uint32_t which, uint32_t cell, const dfi_pnode *p) {
  const int32_t b = w->nlabel++;
  const dfi_name flag_at = dfi_temp(w), flag = dfi_temp(w), shows = dfi_temp(w), at = dfi_temp(w), number = dfi_temp(w);
  SAY(w, "  %s = getelementptr i8, ptr %%variable%u, i64 %zu\n", flag_at.s, cell, offsetof(dfi_variable, is_number));
  SAY(w, "  %s = load atomic i8, ptr %s acquire, align 1\n  %s = icmp ne i8 %s, 0\n", flag.s, flag_at.s, shows.s,
      flag.s);
  SAY(w, "  br i1 %s, label %%near%d, label %%far%d, !prof !1\nnear%d:\n", shows.s, b, b, b);
  SAY(w, "  %s = getelementptr i8, ptr %%variable%u, i64 %zu\n", at.s, cell, offsetof(dfi_variable, number));
  SAY(w, "  %s = load atomic i64, ptr %s acquire, align 8\n  store i64 %s, ptr %%peek%u\n  br label %%had%d\nfar%d:\n",
      number.s, at.s, number.s, which, b, b);
  SAY(w, "  store i64 0, ptr %%value\n");
  write_asked(w, i, which, "%value");
  const dfi_name found = dfi_temp(w);
  SAY(w, "  %s = load i64, ptr %%value\n  store i64 %s, ptr %%peek%u\n  br label %%had%d\nhad%d:\n", found.s, found.s,
      which, b, b);
  char from[32];
  snprintf(from, sizeof from, "%%peek%u", which);
  dfi_write_store(w, p->out_dtypes[0], dfi_write_load(w, p->out_dtypes[0], from), i, p->out);
}

/* A tensor is read where it lies: an assignment meanwhile makes another. A few elements go to registers. Where a
   branch reads it a cell says where it lies: code after the branch, which may not have been taken, asks that. */
static void write_held(dfi_writer *w, int32_t i, uint32_t which, const dfi_pnode *p) {
  const int64_t n = dfi_shape_size(w->look->loop[i].slot_shape[p->out]);
  const dfi_name at = dfi_temp(w), bad = dfi_temp(w), there = dfi_temp(w);
  SAY(w, "  %s = call ptr %%do.hold(ptr %%c, i64 %u)\n  %s = icmp eq ptr %s, null\n", at.s, which, bad.s, at.s);
  dfi_write_fail(w, i, bad);
  SAY(w, "  %s = select i1 %s, ptr %s, ptr %s\n", there.s, bad.s, dfi_write_place(i, p->out).s, at.s);
  if (n > DFI_DIRECT && dfi_in_branch(&w->look->loop[i], p)) dfi_write_point(w, i, p->out, there);
  else if (n > DFI_DIRECT) w->look->loop[i].slot_alias[p->out] = there;
  else dfi_write_copy(w, p->out_dtypes[0], n, dfi_write_place(i, p->out).s, there.s);
}

void dfi_write_peek(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  dfi_unit *u = w->unit;
  const uint32_t which = u->npeeks++;
  const dfi_shape *tensor = w->look->loop[i].slot_shape[p->out];
  u->peek = dfi_xrealloc(u->peek, sizeof *u->peek * u->npeeks);
  u->peek[which].node = p;
  u->peek[which].cell = dfi_analyze_variable_cell(w->look, p, 0);
  u->peek[which].recursive = w->look->loop[w->function].recursive;
  if (tensor) {
    write_held(w, i, which, p);
  } else {
    DECL(w, "  %%peek%u = alloca i64\n", which);
    write_number(w, i, which, u->peek[which].cell, p);
  }
  dfi_write_done(w, i, p, -1);
}
