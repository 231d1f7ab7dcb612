/* write_function.c: functions that a unit calls, each a function of the assembly with the unit's frame, its arguments
 * and the places of its results.
 *
 * A call that returns 0 has made its results. Else something in it is about to fail, the run is to stop, or functions
 * call each other too deep for the thread's stack: then the unit is left, and tokens do the call over. What a call has
 * counted is added to the run's counts when it is over.
 */
#include "engine/native/write.h"
#include <stdio.h>

_Static_assert(DFI_COUNTS == 8, "as it is written here");

static const char *depth_of(const dfi_writer *w) {
  if (!w->function) return "0";
  return w->look->loop[w->function].recursive ? "%deeper" : "%depth";
}

/* What the call at hand counts goes here: from inside a function to its caller's. */
static dfi_name write_counters(dfi_writer *w) {
  dfi_name n = { "%count" };
  if (w->function) return n;
  n = dfi_temp(w);
  DECL(w, "  %s = alloca <8 x i64>\n", n.s);
  SAY(w, "  store <8 x i64> zeroinitializer, ptr %s\n", n.s);
  return n;
}

static void add_counters(dfi_writer *w, dfi_name of_call) {
  if (w->function) return;
  const dfi_name was = dfi_temp(w), more = dfi_temp(w), is = dfi_temp(w);
  SAY(w, "  %s = load <8 x i64>, ptr %%count, align 8\n  %s = load <8 x i64>, ptr %s\n", was.s, more.s, of_call.s);
  SAY(w, "  %s = add <8 x i64> %s, %s\n  store <8 x i64> %s, ptr %%count, align 8\n", is.s, was.s, more.s, is.s);
}

void dfi_write_function_call(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  const int32_t f = dfi_loop_of(w->look, p->target);
  const dfi_analyze_loop *l = &w->look->loop[f];
  dfi_text args = { 0 };
  uint8_t dtype;
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const dfi_pnode *a = &l->nodes[n];
    if (a->kind != DFI_K_ARG || a->out_dtypes[0] == DF_RESOURCE) continue;
    const dfi_name v = dfi_write_operand(w, i, w->look->plan->operand[p->in + a->enter], &dtype);
    dfi_text_add(&args, ", %s %s", l->slot_shape[a->out] ? "ptr" : dfi_type(dtype), v.s);
  }
  for (uint32_t k = 0; k < p->nout; k++)
    if (p->out_dtypes[k] != DF_RESOURCE) dfi_text_add(&args, ", ptr %s", dfi_write_place(i, p->out + k).s);
  const dfi_name counters = write_counters(w), status = dfi_temp(w), bad = dfi_temp(w);
  SAY(w, "  %s = call i32 @f%d(ptr %%c, ptr %s, i64 %s%s)\n  %s = icmp ne i32 %s, 0\n", status.s, f, counters.s,
      depth_of(w), args.at ? args.at : "", bad.s, status.s);
  dfi_free(args.at);
  dfi_write_fail(w, i, bad);
  add_counters(w, counters);
  dfi_write_done(w, i, p, -1);
}

void dfi_write_entry(dfi_writer *w) {
  const dfi_unit *u = w->unit;
  const dfi_analyze_loop *f = &w->look->loop[1];
  dfi_text args = { 0 };
  for (uint32_t n = 0; n < f->scope->n; n++) {
    const dfi_pnode *a = &f->nodes[n];
    if (a->kind != DFI_K_ARG || a->out_dtypes[0] == DF_RESOURCE) continue;
    char cell[32];
    snprintf(cell, sizeof cell, "%%g%u", dfi_analyze_given(w->look, DFI_OPERAND(DFI_FRAME, a->enter)));
    if (f->slot_shape[a->out]) dfi_text_add(&args, ", ptr %s", cell);
    else dfi_text_add(&args, ", %s %s", dfi_type(a->out_dtypes[0]), dfi_write_load(w, a->out_dtypes[0], cell).s);
  }
  for (uint32_t k = 0; k < u->nresults; k++) {
    const dfi_name to = dfi_temp(w);
    SAY(w, "  %s = getelementptr i64, ptr %%out, i64 %u\n", to.s, u->result[k].cell);
    dfi_text_add(&args, ", ptr %s", to.s);
  }
  const dfi_name counters = write_counters(w), status = dfi_temp(w), bad = dfi_temp(w);
  SAY(w, "  %s = call i32 @f1(ptr %%c, ptr %s, i64 0%s)\n  %s = icmp ne i32 %s, 0\n", status.s, counters.s,
      args.at ? args.at : "", bad.s, status.s);
  dfi_free(args.at);
  SAY(w, "  br i1 %s, label %%left, label %%made\nleft:\n  ret i32 1\nmade:\n", bad.s);
  add_counters(w, counters);
  SAY(w, "  ret i32 0\n");
}

void dfi_write_signature(dfi_writer *w, dfi_text *t) {
  const dfi_analyze_loop *l = &w->look->loop[w->function];
  dfi_text_add(t, "define internal i32 @f%d(ptr %%c, ptr %%count, i64 %%depth", w->function);
  for (uint32_t n = 0; n < l->scope->n; n++) {
    const dfi_pnode *a = &l->nodes[n];
    if (a->kind != DFI_K_ARG || a->out_dtypes[0] == DF_RESOURCE) continue;
    dfi_text_add(t, ", %s %%a%u", l->slot_shape[a->out] ? "ptr" : dfi_type(a->out_dtypes[0]), a->enter);
  }
  for (uint32_t k = 0; k < l->result->nin; k++)
    if (dfi_dtype(l->result->node->in[k]) != DF_RESOURCE) dfi_text_add(t, ", ptr %%r%u", k);
  dfi_text_add(t, ") #0 {\nentry:\n");
}

void dfi_write_argument(dfi_writer *w, int32_t i, const dfi_pnode *p) {
  dfi_name n;
  snprintf(n.s, sizeof n.s, "%%a%u", p->enter);
  dfi_write_alias(w, p->out_dtypes[0], n, i, p->out);
}

/* Is there room for one more call, and shall the run go on? */
static void write_deeper(dfi_writer *w) {
  enum { NODES = 16 };
  const int32_t site = dfi_write_site(w, w->function, true);
  const int32_t cost = 1 + (int32_t)w->look->loop[w->function].scope->n / NODES;
  const dfi_name fits = dfi_temp(w), was = dfi_temp(w), left = dfi_temp(w), over = dfi_temp(w), more = dfi_temp(w),
                 leave = dfi_temp(w);
  SAY(w, "  %%deeper = add i64 %%depth, 1\n  %s = icmp ult i64 %%depth, %%deepest\n", fits.s);
  SAY(w, "  br i1 %s, label %%fits, label %%site%d, !prof !1\nfits:\n", fits.s, site);
  SAY(w, "  %s = load i64, ptr %%budget\n  %s = sub i64 %s, %d\n  store i64 %s, ptr %%budget\n", was.s, left.s, was.s,
      cost, left.s);
  SAY(w, "  %s = icmp slt i64 %s, 0\n  br i1 %s, label %%poll, label %%begin, !prof !0\npoll:\n", over.s, left.s,
      over.s);
  SAY(w, "  %s = call i64 %%do.poll(ptr %%c)\n  store i64 %s, ptr %%budget\n  %s = icmp slt i64 %s, 0\n", more.s,
      more.s, leave.s, more.s);
  SAY(w, "  br i1 %s, label %%site%d, label %%begin\nbegin:\n", leave.s, site);
}

static void write_results(dfi_writer *w) {
  const dfi_pnode *r = w->look->loop[w->function].result;
  for (uint32_t k = 0; k < r->nin; k++) {
    uint8_t dtype;
    char to[16];
    const dfi_operand o = w->look->plan->operand[r->in + k];
    if (dfi_dtype(r->node->in[k]) == DF_RESOURCE) continue;
    const dfi_shape *tensor = dfi_analyze_shape(w->look, w->function, o);
    const dfi_name v = dfi_write_operand(w, w->function, o, &dtype);
    snprintf(to, sizeof to, "%%r%u", k);
    if (tensor) dfi_write_copy(w, dtype, dfi_shape_size(tensor), to, v.s);
    else SAY(w, "  store %s %s, ptr %s\n", dfi_type(dtype), v.s, to);
  }
}

void dfi_write_function(dfi_writer *w) {
  enum { STACK = 512 << 10, NUMBERS = 1024 };          /* bytes: of all calls, of one besides its tensors */
  const int32_t f = w->function;
  SAY(w, "  store i64 0, ptr %%number%d\n", f);
  if (w->look->loop[f].recursive) write_deeper(w);
  dfi_write_begin(w, f);
  dfi_write_block(w, f, 0);
  dfi_check_written(w, f);
  if (w->unit->reason) return;
  write_results(w);
  dfi_write_function_counts(w);
  SAY(w, "  ret i32 0\n");
  DECL(w, "  %%deepest = add i64 0, %lld\n", (long long)(STACK / (w->stack + NUMBERS)));
}
