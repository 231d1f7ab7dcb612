/* fuse_source.c: the source of a kernel for a chain of steps, in CUDA C++.
 *
 * Steps are the expressions of kernels/expressions.h that the single kernels are made of, and reductions those of
 * reduce.cuh, each rounded to its own type. A chain that knows of no rows is one loop over the elements. Where some
 * steps reduce rows, a block does a row (a thread does, where rows are short: as reduce() in reduce.c chooses), in
 * several loops: each computes anew from the inputs what the next reductions are of, and the last one what is wanted,
 * so nothing lies between them but one number a reduction. Only the last loop writes, each element after it was read: a
 * result may lie where an input does.
 */
#include "fuse.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dfc_say(dfc_text *t, const char *format, ...) {
  va_list a;
  va_start(a, format);
  va_list b;
  va_copy(b, a);
  const int n = vsnprintf(t->at ? t->at + t->n : NULL, t->at ? t->room - t->n : 0, format, a);
  va_end(a);
  if (n >= 0 && t->ok && (!t->at || t->n + (size_t)n >= t->room)) {
    const size_t room = 2 * (t->n + (size_t)n) + 1024;
    char *more = realloc(t->at, room);
    if (!more) t->ok = false;
    else { t->at = more; t->room = room; vsnprintf(t->at + t->n, t->room - t->n, format, b); }
  }
  va_end(b);
  if (n > 0 && t->ok) t->n += (size_t)n;
}

const char *dfc_type_of(int32_t dtype) {
  switch (dtype) {
    case DF_FLOAT32: return "float";
    case DF_FLOAT64: return "double";
    case DF_FLOAT16: return "f16";
    case DF_BFLOAT16: return "b16";
    case DF_INT32: return "int32_t";
    case DF_INT64: return "int64_t";
    case DF_INT8: return "int8_t";
    case DF_UINT8: return "uint8_t";
    default: return "bool";
  }
}
/* The end of the name of the expression that computes with a dtype: halves are computed in float. */
static const char *expression_of(int32_t dtype) {
  switch (dtype) {
    case DF_FLOAT32: case DF_FLOAT16: case DF_BFLOAT16: return "f32";
    case DF_FLOAT64: return "f64";
    case DF_INT32: return "i32";
    case DF_INT64: return "i64";
    case DF_INT8: return "i8";
    case DF_UINT8: return "u8";
    default: return "b";
  }
}
static bool is_half(int32_t dtype) { return dtype == DF_FLOAT16 || dtype == DF_BFLOAT16; }

/* What is written, and of what: `level` says after how many loops over a row a step's result is known. */
typedef struct writer {
  dfc_text t;
  const dfk_chain *c;
  const dfk_chain_run *r;
  uint64_t on_host;
  int32_t  level[DFK_CHAIN_STEPS], levels;
} writer;

/* Input x, as it meets element i of the whole. */
static void say_input(writer *w, int32_t x) {
  const char *type = dfc_type_of(w->c->input_dtype[x]);
  dfc_text *t = &w->t;
  dfc_say(t, "    const %s x%d = ", type, x);
  if (w->on_host >> x & 1) { dfc_say(t, "from_bits<%s>(p.in%d);\n", type, x); return; }
  const char *const index[] = { [DFK_ALL] = "i", [DFK_NUMBER] = "0", [DFK_ROWS] = "i %", [DFK_COLUMN] = "i /" };
  const dfk_meets how = w->r->input[x].how;
  dfc_say(t, "((const %s *)p.in%d)[%s", type, x, index[how]);
  if (how == DFK_ROWS || how == DFK_COLUMN) dfc_say(t, " p.period%d", x);
  dfc_say(t, "];\n");
}

/* Elements whose operands are of several types: these are told apart by their addresses. */
static const char cast[] = "cast", chosen[] = "select";

static void say_cast(dfc_text *t, const dfk_step *k, const char *x) {
  const bool floats = DFC_FLOATS >> k->in_dtype & 1;
  dfc_say(t, "cast_%s((%s)%s%s)", k->dtype == DF_BOOL ? "bool" : k->dtype == DF_FLOAT16 ? "f16"
                                    : k->dtype == DF_BFLOAT16 ? "b16" : expression_of(k->dtype),
          floats ? "double" : "int64_t", is_half(k->in_dtype) ? "(float)" : "", x);
}

void dfc_say_element(dfc_text *t, const dfk_step *k, const char *const *operand) {
  if (k->element == cast) { say_cast(t, k, operand[0]); return; }
  if (k->element == chosen) { dfc_say(t, "%s ? %s : %s", operand[0], operand[1], operand[2]); return; }
  dfc_say(t, "(%s)%s_%s(", dfc_type_of(k->dtype), k->element, expression_of(k->in_dtype));
  for (int32_t i = 0; i < k->nin; i++)
    dfc_say(t, "%s%s%s", i ? ", " : "", is_half(k->in_dtype) ? "(float)" : "", operand[i]);
  if (k->with_param) dfc_say(t, ", %a", k->param);
  dfc_say(t, ")");
}

enum { NAME = 16 };
/* An operand of a step, by its name. */
static const char *operand_name(const dfk_step *k, int32_t i, char *name) {
  snprintf(name, NAME, "%c%d", k->in[i] < 0 ? 'x' : 'v', k->in[i] < 0 ? -1 - k->in[i] : k->in[i]);
  return name;
}

static void say_operand(dfc_text *t, const dfk_step *k, int32_t i) {
  char name[NAME];
  dfc_say(t, "%s", operand_name(k, i, name));
}

static void say_step(writer *w, int32_t s) {
  const dfk_step *k = &w->c->step[s];
  char name[3][NAME];
  const char *operand[3];
  for (int32_t i = 0; i < k->nin; i++) operand[i] = operand_name(k, i, name[i]);
  dfc_say(&w->t, "    const %s v%d = ", dfc_type_of(k->dtype), s);
  if (k->element) dfc_say_element(&w->t, k, operand);
  else dfc_say(&w->t, "%s", operand[0]);                 /* one element a row, passed on */
  dfc_say(&w->t, ";\n");
}

/* All words of the parameters, in the order in which `arguments` gives them. */
static void say_parameters(dfc_text *t, const dfk_chain *c, const dfk_chain_run *r, uint64_t on_host) {
  dfc_say(t, "#include \"functions.cuh\"\n%sstruct fused_params {\n", c->row ? "#include \"reduce.cuh\"\n" : "");
  for (int32_t i = 0; i < c->ninputs; i++) {
    dfc_say(t, on_host >> i & 1 ? "  uint64_t in%d;\n" : "  const void *in%d;\n", i);
    if (r->input[i].how == DFK_ROWS || r->input[i].how == DFK_COLUMN) dfc_say(t, "  int64_t period%d;\n", i);
  }
  for (int32_t s = 0; s < c->nsteps; s++) if (r->out[s]) dfc_say(t, "  void *out%d;\n", s);
  dfc_say(t, "  int64_t n;\n};\n");
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

static void say_elements(writer *w) {
  const dfk_chain *c = w->c;
  dfc_say(&w->t, "DFC_KERNEL(k_fused, fused_params) {\n  DFC_EACH(i, p.n) {\n");
  for (int32_t x = 0; x < c->ninputs; x++) say_input(w, x);
  for (int32_t s = 0; s < c->nsteps; s++) say_step(w, s);
  for (int32_t s = 0; s < c->nsteps; s++)
    if (w->r->out[s]) dfc_say(&w->t, "    ((%s *)p.out%d)[i] = v%d;\n", dfc_type_of(c->step[s].dtype), s, s);
  dfc_say(&w->t, "  }\n}\n");
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void find_levels(writer *w) {
  for (int32_t s = 0; s < w->c->nsteps; s++) {
    const dfk_step *k = &w->c->step[s];
    int32_t level = 0;
    for (int32_t i = 0; i < k->nin; i++) if (k->in[i] >= 0 && w->level[k->in[i]] > level) level = w->level[k->in[i]];
    w->level[s] = level + k->by_rows;
    if (w->level[s] > w->levels) w->levels = w->level[s];
  }
}

/* The dtype that a reduction goes in, by the name of its block's memory: as reduce.cuh has it. */
static char part_of(int32_t dtype) {
  return dtype == DF_FLOAT32 || dtype == DF_FLOAT64 ? 'd' : is_half(dtype) ? 'f' : 'i';
}
static bool is_reduction_of(const writer *w, int32_t s, int32_t level) {
  return w->c->step[s].by_rows && w->level[s] == level;
}

/* The inputs of these steps that are not known yet. */
static void say_inputs(writer *w, const bool *step, uint64_t known) {
  for (int32_t s = 0; s < w->c->nsteps; s++) {
    const dfk_step *k = &w->c->step[s];
    for (int32_t i = 0; step[s] && i < k->nin; i++) {
      const int32_t x = -1 - k->in[i];
      if (x < 0 || known >> x & 1) continue;
      say_input(w, x);
      known |= (uint64_t)1 << x;
    }
  }
}

/* One loop over a row: the reductions that are known after it, or all that is wanted of the elements themselves. */
static void say_loop(writer *w, int32_t level, bool blocks) {
  const dfk_chain *c = w->c;
  const bool last = level == w->levels;
  bool needed[DFK_CHAIN_STEPS] = { 0 }, any = false;
  for (int32_t s = c->nsteps - 1; s >= 0; s--) {
    const dfk_step *k = &c->step[s];
    needed[s] |= last ? k->form == DFK_FULL && w->r->out[s] : is_reduction_of(w, s, level + 1);
    any |= needed[s];
    for (int32_t i = 0; needed[s] && i < k->nin; i++)
      if (k->in[i] >= 0 && c->step[k->in[i]].form == DFK_FULL) needed[k->in[i]] = true;
  }
  if (!any) return;
  dfc_text *t = &w->t;
  for (int32_t s = 0; s < c->nsteps && !last; s++) {
    if (!needed[s] || !c->step[s].by_rows) continue;
    const char *type = dfc_type_of(c->step[s].in_dtype);
    dfc_say(t, "    acc_of<%s>::type a%d = neutral<%s>(%s);\n", type, s, type, c->step[s].element);
  }
  dfc_say(t, "    for (int64_t j = %s; j < %lld; j += %s) {\n    const int64_t i = r * %lld + j;\n",
      blocks ? "threadIdx.x" : "0", (long long)c->row, blocks ? "DFC_REDUCE_BLOCK" : "1", (long long)c->row);
  say_inputs(w, needed, 0);
  for (int32_t s = 0; s < c->nsteps; s++) if (needed[s] && !c->step[s].by_rows) say_step(w, s);
  for (int32_t s = 0; s < c->nsteps; s++) {
    const dfk_step *k = &c->step[s];
    if (last && needed[s] && w->r->out[s]) dfc_say(t, "    ((%s *)p.out%d)[i] = v%d;\n", dfc_type_of(k->dtype), s, s);
    if (last || !needed[s] || !k->by_rows) continue;
    dfc_say(t, "    a%d = both(%s, a%d, of_element(%s, (acc_of<%s>::type)", s, k->element, s, k->element,
        dfc_type_of(k->in_dtype));
    say_operand(t, k, 0);
    dfc_say(t, "));\n");
  }
  dfc_say(t, "    }\n");
}

/* Between two loops: the reductions that the first gave, then what has one element a row and is known with them. */
static void say_between(writer *w, int32_t level, bool blocks, uint64_t *known) {
  const dfk_chain *c = w->c;
  bool narrow[DFK_CHAIN_STEPS] = { 0 };
  dfc_text *t = &w->t;
  for (int32_t s = 0; s < c->nsteps; s++) {
    const dfk_step *k = &c->step[s];
    narrow[s] = k->form != DFK_FULL && !k->by_rows && w->level[s] == level;
    if (!is_reduction_of(w, s, level)) continue;
    if (blocks) dfc_say(t, "    a%d = block_reduce(%s, a%d, part_%c);\n", s, k->element, s, part_of(k->in_dtype));
    dfc_say(t, "    const %s v%d = (%s)finished(%s, a%d, %lld);\n", dfc_type_of(k->dtype), s, dfc_type_of(k->dtype),
            k->element, s, (long long)c->row);
  }
  say_inputs(w, narrow, *known);
  for (int32_t s = 0; s < c->nsteps; s++) {
    for (int32_t i = 0; narrow[s] && i < c->step[s].nin; i++)
      if (c->step[s].in[i] < 0) *known |= (uint64_t)1 << (-1 - c->step[s].in[i]);
    if (narrow[s]) say_step(w, s);
  }
}

static void say_rows(writer *w) {
  const dfk_chain *c = w->c;
  const bool blocks = c->row > DFC_REDUCE_SHORT;
  uint64_t known = 0;
  dfc_text *t = &w->t;
  find_levels(w);
  dfc_say(t, "DFC_KERNEL(k_fused, fused_params) {\n");
  static const char *const parts[] = { "double part_d", "float part_f", "int64_t part_i" };
  for (int32_t part = 0; part < 3 && blocks; part++) {
    bool used = false;
    for (int32_t s = 0; s < c->nsteps; s++)
      used |= c->step[s].by_rows && part_of(c->step[s].in_dtype) == parts[part][strlen(parts[part]) - 1];
    if (used) dfc_say(t, "  DFC_SHARED %s[DFC_REDUCE_BLOCK];\n", parts[part]);
  }
  if (blocks) dfc_say(t, "  for (int64_t r = blockIdx.x; r < p.n / %lld; r += gridDim.x) {\n", (long long)c->row);
  else dfc_say(t, "  DFC_EACH(r, p.n / %lld) {\n", (long long)c->row);
  dfc_say(t, "    const int64_t i = r * %lld;\n", (long long)c->row);
  for (int32_t level = 0; level <= w->levels; level++) {
    say_between(w, level, blocks, &known);
    say_loop(w, level, blocks);
  }
  for (int32_t s = 0; s < c->nsteps; s++)
    if (c->step[s].form != DFK_FULL && w->r->out[s])
      dfc_say(t, "    %s((%s *)p.out%d)[r] = v%d;\n", blocks ? "if (threadIdx.x == 0) " : "",
              dfc_type_of(c->step[s].dtype), s, s);
  dfc_say(t, "    (void)i;\n  }\n}\n");
}

char *dfc_fused_source(const dfk_chain_run *run, uint64_t on_host) {
  writer w = { .t = { .ok = true }, .c = run->chain, .r = run, .on_host = on_host };
  say_parameters(&w.t, w.c, run, on_host);
  if (w.c->row) say_rows(&w); else say_elements(&w);
  if (!w.t.ok) { free(w.t.at); return NULL; }
  return w.t.at;
}

/* ---- which ops there are ----------------------------------------------------------------------------------------- */

static bool of_several_types(int32_t nin, const uint8_t *in, int32_t out, const char **element) {
  *element = nin == 1 ? cast : chosen;
  if (out >= 32 || !(DFC_ALL_TYPES >> out & 1)) return false;
  return nin == 1 ? in[0] != out && in[0] < 32 && (DFC_ALL_TYPES >> in[0] & 1)
                  : nin == 3 && in[0] == DF_BOOL && in[1] == out && in[2] == out;
}

bool dfc_fused_has(const char *op, int32_t nin, const uint8_t *in, int32_t out, const char **element, int32_t *attr) {
  static const struct { const char *op, *element; int32_t nin; uint32_t kinds; bool param; } rows[] = {
#define NUMBERS DFC_NUMBERS
#define FLOATS DFC_FLOATS
#define RING DFC_NUMBERS                /* complex numbers run alone */
#define FIELD DFC_FLOATS
#define INTS DFC_INTS
#define BOOLS DFC_BOOLS
#define EQUALS (DFC_NUMBERS | DFC_BOOLS)
#define WIDE (DFC_BIT(DF_FLOAT32) | DFC_BIT(DF_FLOAT64))
#define X(type, kinds, fn, name) { type, #name, 1, kinds },
#define TESTS DFC_FLOATS
#include "unary.inc"
#undef X
#undef TESTS
#define TESTS DFC_NUMBERS
#define X(type, kinds, fn, name) { type, #name, 2, kinds },
#include "binary.inc"
#undef X
    { "Add", "add", 2, DFC_NUMBERS }, { "Div", "real_div", 2, DFC_FLOATS },
    { "AddN", "add", 2, DFC_NUMBERS }, { "AccumulateNV2", "add", 2, DFC_NUMBERS },
    { "ClipByValue", "clip", 3, DFC_NUMBERS }, { "LeakyRelu", "leaky_relu", 1, WIDE, true },
    { "LeakyReluGrad", "leaky_relu_grad", 2, WIDE, true },
    /* reductions of rows, which are asked for with their first input alone */
    { "Sum", "DFC_SUM", 1, DFC_NUMBERS }, { "Mean", "DFC_MEAN", 1, DFC_NUMBERS },
    { "Prod", "DFC_PROD", 1, DFC_NUMBERS }, { "Max", "DFC_MAX", 1, DFC_NUMBERS },
    { "Min", "DFC_MIN", 1, DFC_NUMBERS }, { "All", "DFC_ALL", 1, DFC_BOOLS }, { "Any", "DFC_ANY", 1, DFC_BOOLS },
  };
  *attr = -1;
  if (!strcmp(op, "Cast") || !strcmp(op, "SelectV2")) return of_several_types(nin, in, out, element);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].nin != nin || strcmp(rows[i].op, op)) continue;
    *element = rows[i].element;
    if (rows[i].param) *attr = 0;
    bool all_of = dfc_type_of(out) && in[0] < 32 && (rows[i].kinds >> in[0] & 1);
    for (int32_t k = 1; k < nin; k++) all_of &= in[k] == in[0];
    return all_of && out < 32 && (DFC_ALL_TYPES >> out & 1);
  }
  return false;
}

