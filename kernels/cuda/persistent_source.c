/* persistent_source.c: the source of a kernel that is a whole loop, in CUDA C++. See ../persistent.h.
 *
 * One block has the loop, or one thread where there are only numbers. A value of one element is a variable of every
 * thread, and all compute it alike, so branches and ends are the same for all. Element j of a larger one is the
 * business of thread j % THREADS, whatever is done with it; steps of one size in a row are one loop over the elements,
 * and what is read behind that loop lies in shared memory. A thread that reads what another wrote, or
 * writes what another may still read, waits for the others first: `written` and `read` say whether that is so.
 */
#include "persistent_launch.h"
#include "fuse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 600 };

typedef struct writer {
  dfc_text t;
  const dfk_persistent *w;
  int32_t threads;
  int32_t *part;                 /* by step: the loop over elements that it is in; 0: none */
  int32_t *made;                 /* by value: the step that makes it; -1: none */
  bool *kept;                    /* by value of several elements: it lies in shared memory */
  bool *written, *read;          /* by value: since threads last waited for each other, as another thread's */
  bool crosses;                  /* some step reads what another thread wrote */
} writer;

static bool is_input(const dfk_persistent *w, int32_t v) { return v >= w->nvars && v < w->nvars + w->ninputs; }
static const dfk_persistent_value *value_of(const writer *w, int32_t v) { return &w->w->value[v]; }
static bool is_wide(const writer *w, int32_t v) { return value_of(w, v)->size > 1; }
static const char *type_of(const writer *w, int32_t v) { return dfc_type_of(value_of(w, v)->dtype); }

int32_t dfc_persistent_threads(const dfk_persistent *w) {
  for (int32_t v = 0; v < w->nvalues; v++) if (w->value[v].size > 1) return DFC_REDUCE_BLOCK;
  return 1;
}

/* ---- what lies where -------------------------------------------------------------------------------------------- */

/* Does the step read input i element by element, each as its own? */
static bool reads_own(const writer *w, const dfk_persistent_step *k, int32_t i) {
  if (!is_wide(w, k->in[i])) return true;
  if (k->what == DFK_PERSISTENT_REDUCE) return k->outer == 1 && k->inner == 1 && k->reduced > DFC_REDUCE_SHORT;
  return value_of(w, k->in[i])->size == value_of(w, k->out)->size;
}

static bool by_elements(const writer *w, const dfk_persistent_step *k) {
  return (k->what == DFK_PERSISTENT_ELEMENT || k->what == DFK_PERSISTENT_SAME) && is_wide(w, k->out);
}

/* Steps in a row that are one loop: of one size, and none reads what another thread makes in it. */
static void find_parts(writer *w) {
  int32_t part = 0, size = 0;
  for (int32_t s = 0; s < w->w->nsteps; s++) {
    const dfk_persistent_step *k = &w->w->step[s];
    if (!by_elements(w, k)) { size = 0; continue; }
    bool goes_on = value_of(w, k->out)->size == size;
    for (int32_t i = 0; i < k->nin; i++) {
      const int32_t made = w->made[k->in[i]];
      if (!reads_own(w, k, i)) w->crosses |= !is_input(w->w, k->in[i]);
      if (!reads_own(w, k, i) && made >= 0 && w->part[made] == part) goes_on = false;
    }
    part += !goes_on;
    size = value_of(w, k->out)->size;
    w->part[s] = part;
  }
}

static void find_kept(writer *w) {
  const dfk_persistent *all = w->w;
  for (int32_t v = 0; v < all->nvars; v++) w->kept[v] = is_wide(w, v);
  for (int32_t v = 0; v < all->nvars; v++) w->kept[all->next[v]] |= is_wide(w, v) && !is_input(all, all->next[v]);
  for (int32_t s = 0; s < all->nsteps; s++) {
    const dfk_persistent_step *k = &all->step[s];
    if (k->what == DFK_PERSISTENT_SAME) w->kept[k->out] |= is_wide(w, k->out);    /* two sides may make it */
    for (int32_t i = 0; i < k->nin; i++) {
      const int32_t v = k->in[i], made = w->made[v];
      if (!is_wide(w, v) || is_input(all, v)) continue;
      if (k->what == DFK_PERSISTENT_REDUCE) w->crosses |= !reads_own(w, k, i);
      if (made < 0 || !w->part[s] || w->part[made] != w->part[s]) w->kept[v] = true;
    }
  }
}

/* Bytes of shared memory. */
static int64_t room_of(const writer *w) {
  int64_t bytes = 0;
  for (int32_t v = 0; v < w->w->nvalues; v++)
    if (w->kept[v]) bytes += (int64_t)value_of(w, v)->size * dfc_host->dtype_bytes(value_of(w, v)->dtype);
  return bytes;
}

/* ---- threads that wait ------------------------------------------------------------------------------------------- */

static void say_wait(writer *w) {
  if (w->threads > 1) dfc_say(&w->t, "    __syncthreads();\n");
  memset(w->written, 0, (size_t)w->w->nvalues);
  memset(w->read, 0, (size_t)w->w->nvalues);
}

/* The step reads, and then writes, what it does. */
static bool has_to_wait(const writer *w, const dfk_persistent_step *k) {
  bool waits = k->out >= 0 && w->kept[k->out] && w->read[k->out];
  for (int32_t i = 0; i < k->nin; i++) waits |= !reads_own(w, k, i) && w->written[k->in[i]];
  return waits;
}
static void note(writer *w, const dfk_persistent_step *k) {
  for (int32_t i = 0; i < k->nin; i++)
    if (!reads_own(w, k, i) && !is_input(w->w, k->in[i])) w->read[k->in[i]] = true;
  if (k->out >= 0 && w->kept[k->out]) w->written[k->out] = true;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Element `index` of a value of several. */
static void element_name(const writer *w, int32_t v, const char *index, char *name) {
  if (is_input(w->w, v)) snprintf(name, NAME, "((const %s *)p.in%d)[%s]", type_of(w, v), v, index);
  else snprintf(name, NAME, "s%d[%s]", v, index);
}

/* The element of v that meets element j of one with `to`'s dims. */
static void meeting_name(const writer *w, int32_t v, const dfk_persistent_value *to, char *name) {
  const dfk_persistent_value *from = value_of(w, v);
  char index[NAME] = "0";
  int32_t at = 1, below = 1;
  size_t n = 1;
  for (int32_t d = 1; d <= from->rank; d++) {
    const int32_t mine = from->dims[from->rank - d], whole = to->dims[to->rank - d];
    if (mine > 1) n += (size_t)snprintf(index + n, sizeof index - n, " + j / %d %% %d * %d", below, whole, at);
    at *= mine;
    below *= whole;
  }
  element_name(w, v, index, name);
}

/* Operand i of step s, which makes element j. */
static const char *operand_name(const writer *w, int32_t s, int32_t i, char *name) {
  const dfk_persistent_step *k = &w->w->step[s];
  const int32_t v = k->in[i], made = w->made[v];
  if (!is_wide(w, v)) snprintf(name, NAME, "v%d", v);
  else if (!reads_own(w, k, i)) meeting_name(w, v, value_of(w, k->out), name);
  else if (made >= 0 && w->part[s] && w->part[made] == w->part[s]) snprintf(name, NAME, "e%d", v);
  else element_name(w, v, "j", name);
  return name;
}

/* The parameters; what every thread has; what they share. */
static void say_values(writer *w) {
  const dfk_persistent *all = w->w;
  dfc_text *t = &w->t;
  dfc_say(t, "#include \"functions.cuh\"\n#include \"reduce.cuh\"\n"
             "template <class T> DFC_INLINE int64_t to_bits(T x) {\n"
             "  union { int64_t all; T one; } u;\n  u.all = 0;\n  u.one = x;\n  return u.all;\n}\n"
             "struct whole_params {\n");
  for (int32_t v = 0; v < all->nvars + all->ninputs; v++) {
    dfc_say(t, value_of(w, v)->number ? "  uint64_t in%d;\n" : "  const void *in%d;\n", v);
    if (v < all->nvars && !value_of(w, v)->number) dfc_say(t, "  void *to%d;\n", v);
  }
  dfc_say(t, "  int64_t *tally, most;\n};\nDFC_KERNEL(k_fused, whole_params) {\n");
  for (int32_t v = 0; v < all->nvalues; v++) {
    const bool half = value_of(w, v)->dtype == DF_FLOAT16 || value_of(w, v)->dtype == DF_BFLOAT16;
    if (!w->kept[v]) continue;
    dfc_say(t, "  DFC_SHARED %s %c%d[%d];\n", half ? "uint16_t" : type_of(w, v), half ? 'h' : 's', v,
            value_of(w, v)->size);
    if (half)                                        /* nothing that is shared has a constructor */
      dfc_say(t, "  %s *const s%d = (%s *)h%d;\n", type_of(w, v), v, type_of(w, v), v);
  }
  if (w->threads > 1)
    dfc_say(t, "  DFC_SHARED double part_d[DFC_REDUCE_BLOCK];\n  DFC_SHARED float part_f[DFC_REDUCE_BLOCK];\n"
               "  DFC_SHARED int64_t part_i[DFC_REDUCE_BLOCK];\n");
  for (int32_t v = 0; v < all->nvalues; v++) {
    if (is_wide(w, v)) continue;
    dfc_say(t, "  %s v%d", type_of(w, v), v);
    if (v >= all->nvars + all->ninputs) dfc_say(t, ";\n");
    else if (value_of(w, v)->number) dfc_say(t, " = from_bits<%s>(p.in%d);\n", type_of(w, v), v);
    else dfc_say(t, " = *(const %s *)p.in%d;\n", type_of(w, v), v);
  }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void say_expression(writer *w, int32_t s) {
  const dfk_persistent_step *k = &w->w->step[s];
  char name[3][NAME];
  const char *operand[3];
  for (int32_t i = 0; i < k->nin; i++) operand[i] = operand_name(w, s, i, name[i]);
  const dfk_step one = { .element = k->element, .in_dtype = value_of(w, k->in[0])->dtype, .nin = (uint8_t)k->nin,
                         .dtype = value_of(w, k->out)->dtype, .with_param = k->with_param, .param = k->param };
  if (k->what == DFK_PERSISTENT_SAME) dfc_say(&w->t, "%s", operand[0]);
  else dfc_say_element(&w->t, &one, operand);
}

static void say_number(writer *w, int32_t s) {
  const dfk_persistent_step *k = &w->w->step[s];
  if (k->care)
    dfc_say(&w->t, "    if (v%d %s 0) { end = %d; break; }\n", k->in[1],
            k->care == DFK_PERSISTENT_NOT_ZERO ? "==" : "<",
            DFK_PERSISTENT_WRONG);
  dfc_say(&w->t, "    v%d = ", k->out);
  say_expression(w, s);
  dfc_say(&w->t, ";\n");
}

/* All steps of the loop over elements that begins with s; gives the last. */
static int32_t say_elements(writer *w, int32_t s) {
  int32_t last = s;
  bool waits = false;
  while (last + 1 < w->w->nsteps && w->part[last + 1] == w->part[s]) last++;
  for (int32_t i = s; i <= last; i++) waits |= has_to_wait(w, &w->w->step[i]);
  if (waits) say_wait(w);
  dfc_say(&w->t, "    for (int32_t j = t; j < %d; j += %d) {\n", value_of(w, w->w->step[s].out)->size, w->threads);
  for (int32_t i = s; i <= last; i++) {
    const int32_t v = w->w->step[i].out;
    dfc_say(&w->t, "      const %s e%d = ", type_of(w, v), v);
    say_expression(w, i);
    dfc_say(&w->t, ";\n");
    if (w->kept[v]) dfc_say(&w->t, "      s%d[j] = e%d;\n", v, v);
    note(w, &w->w->step[i]);
  }
  dfc_say(&w->t, "    }\n");
  return last;
}

/* Where result r is, of element i of what is reduced for it. */
static void say_reduced(writer *w, const dfk_persistent_step *k, const char *from, const char *by) {
  const dfk_persistent_value *in = value_of(w, k->in[0]);
  const char *type = dfc_type_of(in->dtype);
  char index[80], name[NAME];
  snprintf(index, sizeof index, "r / %d * %d + i * %d + r %% %d", k->inner, k->reduced * k->inner, k->inner, k->inner);
  if (is_wide(w, k->in[0])) element_name(w, k->in[0], index, name);
  else snprintf(name, sizeof name, "v%d", k->in[0]);
  dfc_say(&w->t, "      acc_of<%s>::type a = neutral<%s>(%s);\n", type, type, k->element);
  dfc_say(&w->t, "      for (int32_t i = %s; i < %d; i += %s)\n", from, k->reduced, by);
  dfc_say(&w->t, "        a = both(%s, a, of_element(%s, (acc_of<%s>::type)%s));\n", k->element, k->element, type,
          name);
}

/* By one thread for each result where there is little to reduce, else by all for one after the other: as reduce.c. */
static void say_reduction(writer *w, int32_t s) {
  const dfk_persistent_step *k = &w->w->step[s];
  const dfk_persistent_value *in = value_of(w, k->in[0]);
  const bool blocks = k->reduced > DFC_REDUCE_SHORT, wide = is_wide(w, k->out);
  const int32_t results = k->outer * k->inner;
  const char part = in->dtype == DF_FLOAT32 || in->dtype == DF_FLOAT64 ? 'd'
                    : in->dtype == DF_FLOAT16 || in->dtype == DF_BFLOAT16 ? 'f' : 'i';
  dfc_text *t = &w->t;
  if (has_to_wait(w, k)) say_wait(w);
  if (wide && !blocks) dfc_say(t, "    for (int32_t r = t; r < %d; r += %d) {\n", results, w->threads);
  else dfc_say(t, "    for (int32_t r = 0; r < %d; r++) {\n", results);
  say_reduced(w, k, blocks ? "t" : "0", blocks ? "DFC_REDUCE_BLOCK" : "1");
  if (blocks) dfc_say(t, "      a = block_reduce(%s, a, part_%c);\n", k->element, part);
  dfc_say(t, "      const %s f = (%s)finished(%s, a, %d);\n", type_of(w, k->out), type_of(w, k->out), k->element,
          k->reduced);
  if (!wide) dfc_say(t, "      v%d = f;\n    }\n", k->out);
  else dfc_say(t, "      %ss%d[r] = f;\n    }\n", blocks ? "if (r % DFC_REDUCE_BLOCK == t) " : "", k->out);
  note(w, k);
}

static void say_sides(writer *w, const dfk_persistent_step *k) {
  if (w->crosses) say_wait(w);
  if (k->what == DFK_PERSISTENT_OPEN) dfc_say(&w->t, "    if (v%d) {\n    c%d = 1;\n", k->in[0], k->which);
  else dfc_say(&w->t, k->what == DFK_PERSISTENT_OTHERWISE ? "    } else {\n" : "    }\n");
}

static void say_steps(writer *w) {
  for (int32_t s = 0; s < w->w->nsteps; s++) {
    const dfk_persistent_step *k = &w->w->step[s];
    switch (k->what) {
    case DFK_PERSISTENT_ELEMENT: case DFK_PERSISTENT_SAME:
      if (by_elements(w, k)) s = say_elements(w, s);
      else say_number(w, s);
      break;
    case DFK_PERSISTENT_REDUCE: say_reduction(w, s); break;
    case DFK_PERSISTENT_ON:
      dfc_say(&w->t, "    if (!v%d) { end = %d; break; }\n", k->in[0], DFK_PERSISTENT_OVER);
      break;
    default: say_sides(w, k); break;
    }
  }
}

/* ---- iterations -------------------------------------------------------------------------------------------------- */

/* The variables become what they are next, all at once. */
static void say_next(writer *w) {
  const dfk_persistent *all = w->w;
  dfc_text *t = &w->t;
  bool waits = false;
  for (int32_t v = 0; v < all->nvars; v++) waits |= w->read[v] && all->next[v] != v;
  if (waits) say_wait(w);
  for (int32_t v = 0; v < all->nvars; v++)
    if (!is_wide(w, v) && all->next[v] != v) dfc_say(t, "    const %s n%d = v%d;\n", type_of(w, v), v, all->next[v]);
  for (int32_t v = 0; v < all->nvars; v++)
    if (!is_wide(w, v) && all->next[v] != v) dfc_say(t, "    v%d = n%d;\n", v, v);
  for (int32_t v = 0; v < all->nvars; v++) {
    if (!is_wide(w, v)) continue;
    bool first = true;                               /* of its size: all of these in one loop */
    for (int32_t u = 0; u < v; u++) first &= value_of(w, u)->size != value_of(w, v)->size;
    if (!first) continue;
    dfc_say(t, "    for (int32_t j = t; j < %d; j += %d) {\n", value_of(w, v)->size, w->threads);
    for (int32_t pass = 0; pass < 2; pass++)
      for (int32_t u = v; u < all->nvars; u++) {
        char name[NAME];
        if (value_of(w, u)->size != value_of(w, v)->size || all->next[u] == u) continue;
        element_name(w, all->next[u], "j", name);
        if (pass) dfc_say(t, "      s%d[j] = n%d;\n", u, u);
        else dfc_say(t, "      const %s n%d = %s;\n", type_of(w, u), u, name);
      }
    dfc_say(t, "    }\n");
  }
}

/* The elements of variables of several, from or to the device's memory. */
static void say_moves(writer *w, bool in) {
  for (int32_t v = 0; v < w->w->nvars; v++) {
    const char *type = type_of(w, v);
    if (!is_wide(w, v)) continue;
    dfc_say(&w->t, "  for (int32_t j = t; j < %d; j += %d) ", value_of(w, v)->size, w->threads);
    if (in) dfc_say(&w->t, "s%d[j] = ((const %s *)p.in%d)[j];\n", v, type, v);
    else dfc_say(&w->t, "((%s *)p.to%d)[j] = s%d[j];\n", type, v, v);
  }
  if (in && w->threads > 1) dfc_say(&w->t, "  __syncthreads();\n");
}

/* What one thread says of it all. */
static void say_end(writer *w) {
  const dfk_persistent *all = w->w;
  dfc_text *t = &w->t;
  int32_t at = DFC_PERSISTENT_CONDS;
  say_moves(w, false);
  dfc_say(t, "  if (t) return;\n  p.tally[%d] = n;\n  p.tally[%d] = end;\n", DFC_PERSISTENT_COUNT, DFC_PERSISTENT_END);
  for (int32_t c = 0; c < all->nconds; c++) dfc_say(t, "  p.tally[%d] = yes%d;\n", at++, c);
  for (int32_t v = 0; v < all->nvars; v++) {
    if (value_of(w, v)->number) dfc_say(t, "  p.tally[%d] = to_bits<%s>(v%d);\n", at++, type_of(w, v), v);
    else if (!is_wide(w, v)) dfc_say(t, "  *(%s *)p.to%d = v%d;\n", type_of(w, v), v, v);
  }
  dfc_say(t, "}\n");
}

static void say_all(writer *w) {
  dfc_text *t = &w->t;
  say_values(w);
  dfc_say(t, "  const int32_t t = (int32_t)threadIdx.x;\n  int64_t n = 0;\n  int32_t end = %d;\n",
          DFK_PERSISTENT_ENOUGH);
  for (int32_t c = 0; c < w->w->nconds; c++) dfc_say(t, "  int64_t yes%d = 0;\n", c);
  say_moves(w, true);
  dfc_say(t, "  while (n < p.most) {\n");
  if (w->crosses) say_wait(w);
  for (int32_t c = 0; c < w->w->nconds; c++) dfc_say(t, "    int32_t c%d = 0;\n", c);
  say_steps(w);
  say_next(w);
  for (int32_t c = 0; c < w->w->nconds; c++) dfc_say(t, "    yes%d += c%d;\n", c, c);
  dfc_say(t, "    n++;\n  }\n");
  say_end(w);
}

char *dfc_persistent_source(const dfk_persistent *all) {
  const size_t n = (size_t)all->nvalues + 1;
  writer w = { .t = { .ok = true }, .w = all, .threads = dfc_persistent_threads(all) };
  w.part = calloc((size_t)all->nsteps + 1, sizeof *w.part);
  w.made = calloc(n, sizeof *w.made);
  w.kept = calloc(n, 3);
  const bool room = w.part && w.made && w.kept;
  if (room) {
    w.written = w.kept + n;
    w.read = w.written + n;
    for (int32_t v = 0; v < all->nvalues; v++) w.made[v] = -1;
    for (int32_t s = 0; s < all->nsteps; s++) if (all->step[s].out >= 0) w.made[all->step[s].out] = s;
    find_parts(&w);
    find_kept(&w);
    if (room_of(&w) <= DFK_PERSISTENT_ROOM) say_all(&w);
  }
  free(w.part); free(w.made); free(w.kept);
  if (w.t.ok && w.t.at) return w.t.at;
  free(w.t.at);
  return NULL;
}
