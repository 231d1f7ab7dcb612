/* train.c: what the runtime asks of a device beside kernels: sums where arrays' and variables' values lie, slices of
 * them that change, and steps of optimizers. */
#include "loop.h"
#include "plugin.h"
#include "../train.h"
#include <string.h>

_Static_assert((int)DFC_POWER_SIGN == (int)DFK_POWER_SIGN && (int)DFC_ADAM == (int)DFK_ADAM &&
                   (int)DFC_TRAIN_VARS == (int)DFK_TRAIN_VARS && (int)DFC_TRAIN_NUMBERS >= (int)DFK_TRAIN_NUMBERS,
               "the rules have one order");
_Static_assert((int)DFC_TALLY_ON == (int)DFI_TALLY_ON && (int)DFC_TALLY_COUNT == (int)DFI_TALLY_COUNT &&
                   (int)DFC_TALLY_MOST == (int)DFI_TALLY_MOST && (int)DFC_TALLY_SIDES == (int)DFI_TALLY_SIDES,
               "a tally has one order");

/* A list of the host's, there; 0 where there is none. */
static CUdeviceptr list(dfc_gpu *g, const int64_t *from, int64_t n, bool *ok) {
  const CUdeviceptr p = from && *ok ? dfc_alloc(g, n * (int64_t)sizeof *from) : 0;
  if (from && (!p || (n && !dfc_upload(g, p, from, n * (int64_t)sizeof *from)))) *ok = false;
  return p;
}

static bool run(dfc_gpu *g, const char *name, int64_t n, const void *p) {
  enum { THREADS = 256 };
  const int64_t wanted = (n + THREADS - 1) / THREADS, most = (int64_t)g->processors * 64;
  return name && dfc_launch(g, name, wanted < most ? wanted : most, THREADS, p);
}

bool dfc_train(void *device, const dfi_remote_train *t) {
  dfc_gpu *g = device;
  if (!t->rows || !t->columns) return true;
  dfc_enter(g);
  bool ok = true;
  dfc_training p;
  memset(&p, 0, sizeof p);
  for (int32_t i = 0; i <= t->vars; i++) ok = dfc_mine(g, t->note[i]) && ok;
  for (int32_t i = 0; i < t->vars; i++) p.at[i] = t->at[i];
  p.grad = t->at[t->vars];
  const CUdeviceptr row = list(g, t->row, t->rows, &ok), begin = list(g, t->begin, t->begin ? t->rows + 1 : 0, &ok),
                    order = list(g, t->order, t->norder, &ok);
  p.row = (const int64_t *)(uintptr_t)row;
  p.begin = (const int64_t *)(uintptr_t)begin;
  p.order = (const int64_t *)(uintptr_t)order;
  p.rows = t->rows; p.columns = t->columns;
  memcpy(p.number, t->number, sizeof p.number);
  p.rule = t->rule; p.vars = t->vars; p.flag = t->flag; p.in_turn = t->in_turn;
  ok = ok && run(g, dfc_name("train", t->dtype), t->in_turn ? t->columns : t->rows * t->columns, &p);
  dfc_release(g, row);
  dfc_release(g, begin);
  dfc_release(g, order);
  dfc_leave(g);
  return ok;
}

bool dfc_decide(void *device, void *tally, void *tally_note, const void *pred, void *pred_note, uint64_t condition) {
  dfc_gpu *g = device;
  const dfc_deciding p = { .pred = pred, .tally = tally, .handle = condition };
  dfc_enter(g);
  const bool ok = dfc_mine(g, tally_note) && dfc_mine(g, pred_note) &&
                  dfc_launch(g, condition ? "k_go_on" : "k_decide", 1, 32, &p);
  dfc_leave(g);
  return ok;
}

bool dfc_choose(void *device, void *tally, void *tally_note, const void *pred, void *pred_note, uint64_t condition,
                int32_t which, const dfi_remote_sides *sides) {
  dfc_gpu *g = device;
  dfc_choosing p = { .pred = pred, .tally = tally, .handle = condition, .which = DFC_TALLY_SIDES + which };
  if (sides) { p.sides = sides->to; p.at = sides->at; p.width = sides->width; }
  dfc_enter(g);
  const bool ok = dfc_mine(g, tally_note) && dfc_mine(g, pred_note) && (!sides || dfc_mine(g, sides->note)) &&
                  dfc_launch(g, condition ? "k_choose" : "k_count", 1, 32, &p);
  dfc_leave(g);
  return ok;
}

bool dfc_inner_begin(void *device, void *tally, const void *around, void *note, uint64_t condition) {
  dfc_gpu *g = device;
  const dfc_inside p = { .tally = tally, .around = (int64_t *)around, .handle = condition };
  dfc_enter(g);
  const bool ok = dfc_mine(g, note) && dfc_launch(g, condition ? "k_begin_again" : "k_begin", 1, 32, &p);
  dfc_leave(g);
  return ok;
}
bool dfc_inner_end(void *device, const void *tally, void *around, void *note) {
  dfc_gpu *g = device;
  const dfc_inside p = { .tally = (int64_t *)tally, .around = around };
  dfc_enter(g);
  const bool ok = dfc_mine(g, note) && dfc_launch(g, "k_end", 1, 32, &p);
  dfc_leave(g);
  return ok;
}

/* Elements are moved word by word: as wide as what they consist of, so that any of their addresses will do. */
static bool element(dfc_gpu *g, const char *what, const dfi_remote_element *e, bool fetches) {
  const int32_t width = e->width > 8 ? 8 : e->width;
  const dfc_element p = { .where = e->where, .from = fetches ? NULL : e->own, .to = fetches ? e->own : NULL,
                          .sum = e->sum, .tally = e->tally, .n = e->n * (e->width / width) };
  if (!p.n) return true;
  dfc_enter(g);
  const bool ok = dfc_mine(g, e->where_note) && dfc_mine(g, e->own_note) && dfc_mine(g, e->sum_note) &&
                  dfc_mine(g, e->tally_note) && run(g, dfc_width_name(what, width), p.n, &p);
  dfc_leave(g);
  return ok;
}
bool dfc_fetch(void *device, const dfi_remote_element *e) { return element(device, "fetch", e, true); }
bool dfc_store(void *device, const dfi_remote_element *e) { return element(device, "store", e, false); }

bool dfc_turn(void *device, const void *tally, void *tally_note, void *to, void *to_note, const void *from,
              void *from_note, int64_t n) {
  dfc_gpu *g = device;
  const dfc_turning p = { .from = from, .to = to, .tally = tally, .n = n };
  dfc_enter(g);
  const bool ok = dfc_mine(g, tally_note) && dfc_mine(g, to_note) && dfc_mine(g, from_note) && run(g, "k_turn", n, &p);
  dfc_leave(g);
  return ok;
}

bool dfc_keep(void *device, const void *tally, void *tally_note, void *to, void *to_note, const void *from,
              void *from_note, int64_t bytes) {
  dfc_gpu *g = device;
  const bool words = (((uintptr_t)to | (uintptr_t)from | (uintptr_t)bytes) & 7) == 0;
  const dfc_keeping p = { .from = from, .to = to, .tally = tally, .n = words ? bytes / 8 : bytes };
  if (!bytes) return true;
  dfc_enter(g);
  const bool ok = dfc_mine(g, tally_note) && dfc_mine(g, to_note) && dfc_mine(g, from_note) &&
                  run(g, dfc_width_name("keep", words ? 8 : 1), p.n, &p);
  dfc_leave(g);
  return ok;
}

bool dfc_place(void *device, const dfi_remote_place *t) {
  dfc_gpu *g = device;
  if (!t->n || !t->row) return true;
  dfc_enter(g);
  bool ok = dfc_mine(g, t->to_note) && dfc_mine(g, t->from_note);
  const CUdeviceptr index = list(g, t->index, t->n, &ok);
  dfc_placing p;
  memset(&p, 0, sizeof p);
  p.from = t->from; p.to = t->to;
  p.index = (const int64_t *)(uintptr_t)index;
  p.n = t->n; p.row = t->row;
  p.op = (int32_t)t->op; p.one = t->one; p.apart = t->apart;
  ok = ok && run(g, dfc_name("put", t->dtype), t->apart ? t->n * t->row : t->row, &p);
  dfc_release(g, index);
  dfc_leave(g);
  return ok;
}

bool dfc_update(void *device, dfk_update_op op, int32_t dtype, int64_t n, void *to, void *to_note, const void *a,
                void *a_note, const void *b, void *b_note, bool one_b) {
  dfc_gpu *g = device;
  if (!n) return true;
  dfc_enter(g);
  bool ok = dfc_mine(g, to_note) && dfc_mine(g, a_note) && dfc_mine(g, b_note);
  dfc_updating p;
  memset(&p, 0, sizeof p);
  p.to = to; p.a = a; p.b = b; p.n = n; p.op = (int32_t)op; p.one_b = one_b;
  ok = ok && run(g, dfc_name("update", dtype), n, &p);
  dfc_leave(g);
  return ok;
}

bool dfc_step(void *device, const dfi_remote_step *s) {
  dfc_gpu *g = device;
  if (!s->n) return true;
  dfc_enter(g);
  bool ok = true;
  dfc_stepping p;
  memset(&p, 0, sizeof p);
  for (int32_t i = 0; i < s->count; i++) {
    ok = dfc_mine(g, s->note[i]) && ok;
    p.at[i] = s->at[i];
  }
  p.n = s->n;
  p.rate = s->kind == DFI_STEP_ADAM ? s->adam.rate : s->rate;
  p.momentum = s->momentum;
  p.beta1 = s->adam.beta1; p.beta2 = s->adam.beta2; p.epsilon = s->adam.epsilon;
  p.kind = s->kind;
  p.nesterov = s->kind == DFI_STEP_ADAM ? s->adam.nesterov : s->nesterov;
  ok = ok && run(g, dfc_name("step", s->dtype), s->n, &p);
  dfc_leave(g);
  return ok;
}
