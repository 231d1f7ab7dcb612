/* write.c: a loop nest in LLVM's assembly language.
 *
 * Every slot of a record becomes a stack cell (%v<loop>_<slot>), which LLVM makes a register of; a small tensor's is as
 * many elements, and what only hands a tensor on is another name for its place. A loop is
 *
 *   head:  the predicate's nodes; to body or exit
 *   body:  its nodes, branches as blocks; the next iteration's variables; number + 1; to head, or to poll when the
 *          budget is used up
 *   poll:  counts are brought up to date; the engine says whether to go on
 *   exit:  the Exits
 *
 * A loop's variables keep their cells until the end of an iteration, so what a way out has to tell is at hand
 * everywhere. Here is the frame around it: cells that are read when the unit is entered, and its text put together.
 */
#include "engine/native/write.h"
#include "engine/native/plugin.h"
#include <stdio.h>

/* A variable's first value is copied to its place. */
static void enter_tensor(dfi_writer *w, uint8_t dtype, const dfi_shape *s, const char *to, uint32_t k) {
  dfi_declare(w, "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)");
  DECL(w, "  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %%inp%u, i64 %lld, i1 false)\n", to, k,
       (long long)dfi_shape_size(s) * dfi_dtype_size[dtype]);
}

static bool is_used(const dfi_unit *u, uint32_t cell) {
  for (uint32_t k = 0; k < u->npeeks; k++) if (u->peek[k].cell == cell) return true;
  for (uint32_t k = 0; k < u->ncalls; k++)
    for (uint32_t i = 0; i < u->call[k].node->nin; i++)
      if (u->call[k].dtype[i] == DF_RESOURCE && u->call[k].cell[i] == cell) return true;
  return false;
}
/* A variable's handle. */
static void write_variable(dfi_writer *w, dfi_cell *c, uint32_t k) {
  *c = (dfi_cell){ .used = 1, .handle = 1, .dtype = DF_RESOURCE };
  DECL(w, "  %%in%u.at = getelementptr i64, ptr %%in, i64 %u\n  %%variable%u = load ptr, ptr %%in%u.at\n", k, k, k, k);
}

/* A tensor's cell says where it lies; a variable's first value is copied to its place. */
static void write_tensor_cell(dfi_writer *w, const dfi_cell *c, uint32_t k, const char *to, bool copied) {
  const char *at = copied ? "%inp" : to;
  DECL(w, "  %%in%u.at = getelementptr i64, ptr %%in, i64 %u\n", k, k);
  if (copied) DECL(w, "  %s%u = load ptr, ptr %%in%u.at\n", at, k, k);
  else DECL(w, "  %s = load ptr, ptr %%in%u.at\n", at, k);
  if (copied) enter_tensor(w, c->dtype, c->shape, to, k);
}

/* What the unit's function is given as this argument. */
static dfi_cell argument_cell(const dfi_look *look, uint32_t argument) {
  const dfi_pnode *p = dfi_argument_of(&look->loop[1], argument);
  return (dfi_cell){ 1, 0, p->out_dtypes[0], look->loop[1].slot_shape[p->out] };
}

static void write_cell(dfi_writer *w, uint32_t k) {
  dfi_unit *u = w->unit;
  const dfi_analyze_loop *l = &w->look->loop[0];
  const dfi_scope *s = l->scope;
  char to[48];
  dfi_cell *c = &u->cell[k];
  if (k < s->nenters) {
    if (s->enters[k]->constant) return;
    *c = (dfi_cell){ 1, s->enters[k]->node->out[0].dtype == DF_RESOURCE, s->enters[k]->node->out[0].dtype,
                     l->slot_shape[s->enters[k]->out] };
    snprintf(to, sizeof to, "%%v0_%u", s->enters[k]->out);
  } else if (k < s->nenters + s->nconsts) {
    const uint32_t at = k - s->nenters;
    c->dtype = l->const_dtype[at];
    c->handle = c->dtype == DF_RESOURCE;
    c->shape = l->const_shape[at];
    if (!c->used || c->handle) return;
    snprintf(to, sizeof to, "%%c0_%u", at);
  } else {
    const dfi_operand o = w->look->given[k - s->nenters - s->nconsts];
    if (DFI_SPACE(o) == DFI_FRAME) {
      if (w->function) return;
      *c = argument_cell(w->look, DFI_INDEX(o));
    } else if (DFI_INDEX(o) >= (uint32_t)w->look->plan->nfeed) {
      if (is_used(u, k)) write_variable(w, c, k);
      return;
    } else *c = (dfi_cell){ 1, 0, dfi_dtype(w->look->plan->feed[DFI_INDEX(o)]), dfi_analyze_shape(w->look, 0, o) };
    snprintf(to, sizeof to, "%%g%u", k - s->nenters - s->nconsts);
    if (!c->shape) DECL(w, "  %s = alloca %s\n", to, dfi_type(c->dtype));
  }
  if (c->handle) return;
  if (c->shape) {
    write_tensor_cell(w, c, k, to, k < s->nenters && !l->slot_bare[s->enters[k]->out]);
    return;
  }
  DECL(w,
       "  %%in%u.at = getelementptr i64, ptr %%in, i64 %u\n  %%in%u = load %s, ptr %%in%u.at\n  store %s %%in%u, ptr "
       "%s\n",
       k, k, k, dfi_type(c->dtype), k, dfi_type(c->dtype), k, to);
}

/* The cells that are read when it is entered; in a function those alone that are not the outermost loop's. */
static void write_cells(dfi_writer *w) {
  const dfi_scope *s = w->unit->scope;
  for (uint32_t k = w->function ? s->nenters + s->nconsts : 0; k < w->unit->ncells; k++) write_cell(w, k);
}

static void write_field(dfi_writer *w, const char *name, int32_t at, const char *type) {
  DECL(w, "  %%%s.at = getelementptr i8, ptr %%c, i64 %d\n  %%%s = load %s, ptr %%%s.at\n", name, at, name, type, name);
}

/* What native code calls, under names of its own. The first of the addresses. */
static const struct { const char *name; const void *at; } function[] = {
  { "do.poll", (const void *)dfi_native_poll },   { "do.read", (const void *)dfi_native_read },
  { "do.write", (const void *)dfi_native_write }, { "do.call", (const void *)dfi_native_call },
  { "do.peek", (const void *)dfi_native_peek },   { "do.burst", (const void *)dfi_native_burst },
  { "do.burst.done", (const void *)dfi_native_burst_done }, { "do.hold", (const void *)dfi_native_hold },
  { "do.write.held", (const void *)dfi_native_write_held }, { "do.spot", (const void *)dfi_native_spot },
};
enum { FUNCTIONS = sizeof function / sizeof *function };

static bool says(const dfi_text *t, const char *word) { return t->at && strstr(t->at, word); }

/* Those that are called. */
static void write_functions(dfi_writer *head, const dfi_writer *w) {
  for (int32_t k = 0; k < FUNCTIONS; k++)
    if (says(&w->body, function[k].name) || says(&w->tail, function[k].name))
      DECL(head, "  %%%s.at = getelementptr ptr, ptr %%address, i64 %d\n  %%%s = load ptr, ptr %%%s.at\n",
           function[k].name, k, function[k].name, function[k].name);
}

/* What the unit, and each function, begins with. */
static void write_head(dfi_writer *w, dfi_text *t) {
  dfi_writer head = { .look = w->look, .unit = w->unit };
  write_field(&head, "in", DFI_AT_IN, "ptr");
  write_field(&head, "out", DFI_AT_OUT, "ptr");
  if (!w->function) write_field(&head, "count", DFI_AT_COUNT, "ptr");
  if (!w->function) write_field(&head, "budget0", DFI_AT_BUDGET, "i64");
  write_field(&head, "access", DFI_AT_ACCESS, "ptr");
  write_field(&head, "first", DFI_AT_NUMBER, "i64");
  write_field(&head, "least", DFI_AT_LEAST, "i64");
  write_field(&head, "address", DFI_AT_ADDRESS, "ptr");
  if (w->unit->arena) write_field(&head, "arena", DFI_AT_ARENA, "ptr");
  write_functions(&head, w);
  dfi_text_add(t, "%.*s%.*s", (int)head.decl.n, head.decl.at, (int)w->first.n, w->first.at ? w->first.at : "");
  dfi_free(head.decl.at);
  dfi_text_add(t, "  %%value = getelementptr i8, ptr %%c, i64 %d\n", DFI_AT_VALUE);
  if (w->function) dfi_text_add(t, "  %%budget = getelementptr i8, ptr %%c, i64 %d\n", DFI_AT_BUDGET);
  else dfi_text_add(t, "  %%budget = alloca i64\n  store i64 %%budget0, ptr %%budget\n");
  dfi_text_add(
      t, "  %%pushes = alloca i64\n  store i64 0, ptr %%pushes\n  %%pops = alloca i64\n  store i64 0, ptr %%pops\n");
  for (int32_t k = 0; k < 4; k++)
    dfi_text_add(t, "  %%x%d = alloca [16 x i8], align 16\n  %%x%d.as = getelementptr i8, ptr %%x%d, i64 8\n", k, k, k);
  dfi_text_add(t, "%.*s", (int)w->decl.n, w->decl.at ? w->decl.at : "");
}

static void declare_loops(dfi_writer *w) {
  for (int32_t i = 0; i < w->look->nloops; i++)
    if (w->look->loop[i].home == w->function) { dfi_write_declare(w, i); dfi_write_flags(w, i); }
}

static void free_texts(dfi_writer *w) {
  dfi_free(w->decl.at); dfi_free(w->body.at); dfi_free(w->tail.at); dfi_free(w->first.at); dfi_free(w->done);
}

/* The functions that it calls: their bodies. What they declare is the unit's. */
static dfi_writer *write_bodies(dfi_writer *w) {
  dfi_writer *all = dfi_xcalloc((size_t)w->look->nloops + 1, sizeof *all);
  for (int32_t i = 1; i < w->look->nloops && !w->unit->reason; i++) {
    if (w->look->loop[i].home != i) continue;
    dfi_writer *f = &all[i];
    *f = (dfi_writer){ .look = w->look, .unit = w->unit, .function = i, .outside = w->outside, .scopes = w->scopes };
    declare_loops(f);
    dfi_write_function(f);
    w->outside = f->outside;
    w->scopes = f->scopes;
    w->wide |= f->wide;
  }
  return all;
}

static void write_function_texts(dfi_writer *w, dfi_writer *all) {
  dfi_text *t = &w->unit->text;
  for (int32_t i = 1; i < w->look->nloops; i++) {
    dfi_writer *f = &all[i];
    if (f->function && !w->unit->reason) {
      write_cells(f);
      dfi_write_signature(f, t);
      write_head(f, t);
      dfi_text_add(t, "%.*s%.*s}\n", (int)f->body.n, f->body.at, (int)f->tail.n, f->tail.at ? f->tail.at : "");
    }
    free_texts(f);
  }
  dfi_free(all);
}

static void write_unit(dfi_writer *w) {
  dfi_unit *u = w->unit;
  const dfi_scope *s = u->scope;
  declare_loops(w);
  if (dfi_is_function(s)) dfi_write_entry(w);
  else if (s->id) dfi_write_loop(w, 0);
  else dfi_write_top(w);
  dfi_writer *functions = write_bodies(w);
  u->ncells = s->nenters + s->nconsts + w->look->ngiven;
  u->cell = dfi_xrealloc(u->cell, sizeof *u->cell * (u->ncells + 1));
  memset(u->cell + s->nenters + s->nconsts, 0, sizeof *u->cell * (w->look->ngiven + 1));
  for (int32_t r = 0; r < u->nroots; r++) u->cell[u->root[r].cell].used = 1;
  write_cells(w);
  dfi_text *t = &u->text;
  dfi_text_add(t, "; %s", s->name);
  for (size_t c = 0; c < t->n; c++) if ((unsigned char)t->at[c] < ' ') t->at[c] = ' ';      /* a name may have lines */
  dfi_text_add(t, ", %u nodes in its body, %d loops\n", s->n, u->nloops);
  dfi_text_add(t, "define i32 @" DFI_SYMBOL "(ptr %%c) #0 {\nentry:\n");
  write_head(w, t);
  dfi_text_add(t, "  store i64 %%first, ptr %%number0\n  store i64 %%first, ptr %%since0\n");
  dfi_text_add(t, "%.*s%.*s}\n", (int)w->body.n, w->body.at, (int)w->tail.n, w->tail.at ? w->tail.at : "");
  write_function_texts(w, functions);
  if (w->outside.at) dfi_text_add(t, "%s", w->outside.at);
  dfi_text_add(t, "attributes #0 = { nounwind \"denormal-fp-math\"=\"preserve-sign,preserve-sign\" "
                  "\"min-legal-vector-width\"=\"512\" \"prefer-vector-width\"=\"512\" }\n!0 = "
                  "!{!\"branch_weights\", i32 1, i32 100000}\n");
  dfi_text_add(t, "!1 = !{!\"branch_weights\", i32 100000, i32 1}\n");
  if (w->wide) dfi_text_add(t, "!" DFI_JIT_VECTORS " = !{!1}\n");
  if (w->scopes.at) dfi_text_add(t, "!2 = distinct !{!2}\n%s", w->scopes.at);
}

/* Counts of missing inputs, once more. */
static void begin_again(dfi_writer *w) {
  for (int32_t i = 0; i < w->look->nloops; i++) {
    dfi_analyze_loop *l = &w->look->loop[i];
    dfi_analyze_count(l, w->look->plan);
    for (uint32_t n = 0; n < l->scope->n; n++) if (l->nodes[n].kind == DFI_K_MERGE) l->node[n].missing = 3;
    l->enters_missing = (int32_t)l->scope->nenters;
  }
}

bool dfi_unit_write(dfi_unit *u) {
  enum { NODES_AT_MOST = 3000 };
  if (u->scope->n > NODES_AT_MOST)
    return dfi_unit_refuse(u, NULL, "its body has %u nodes, more than %d", u->scope->n, NODES_AT_MOST);
  dfi_unit_infer(u);
  dfi_look look = { .unit = u };
  if (dfi_analyze_at(&look)) {
    dfi_writer w = { .look = &look, .unit = u };
    u->cell = dfi_xcalloc(u->scope->nenters + u->scope->nconsts + 1, sizeof *u->cell);
    u->address = dfi_xmalloc(sizeof *u->address * FUNCTIONS);
    for (u->naddresses = 0; u->naddresses < FUNCTIONS; u->naddresses++)
      u->address[u->naddresses] = function[u->naddresses].at;
    begin_again(&w);
    write_unit(&w);
    if (w.nout > u->nout) u->nout = w.nout;
    u->given = look.given; u->ngiven = look.ngiven;
    look.given = NULL;
    free_texts(&w);
    dfi_free(w.outside.at); dfi_free(w.scopes.at);
  }
  dfi_analyze_free(&look);
  return !u->reason;
}

void dfi_unit_free(dfi_unit *u) {
  for (uint32_t i = 0; i < u->ncalls; i++) dfi_free(u->call[i].shape);
  dfi_free(u->call);
  dfi_free(u->peek);
  for (int32_t i = 0; i < u->nsites; i++) { dfi_free(u->site[i].level); dfi_free(u->site[i].done); }
  for (int32_t i = 0; i < u->nloops; i++) {
    dfi_free(u->loop[i].var);
    dfi_free(u->loop[i].exit_root);
    dfi_free(u->loop[i].exit_var);
    dfi_free(u->loop[i].exit_shape);
  }
  dfi_free(u->result);
  dfi_free(u->bound);
  dfi_free(u->site);
  dfi_free(u->loop);
  dfi_free(u->cell);
  dfi_free(u->given);
  dfi_free(u->root);
  dfi_free(u->access);
  dfi_free(u->text.at);
  dfi_free(u->address);
  dfi_free(u->reason);
  dfi_free(u->open);
  dfi_free(u->met);
  dfi_free(u->sized);
}
