/* registry.c: all ops, taken apart once.
 *
 * The families' tables are read at first use, by whichever thread comes first; afterwards everything here is
 * immutable and may be used from any thread. An entry that does not follow op.h's grammar is a mistake of ours and
 * ends the process with its name.
 */
#include "op/op.h"
#include "device/device.h"
#include <stdio.h>

#define X(name) &dfi_ops_##name,
static const dfi_op_table *const tables[] = { DFI_OP_TABLES(X) };
#undef X

static struct {
  dfi_op_info *info;
  int32_t  n;
  int32_t *index;            /* open addressing over types and Lua names; id + 1, 0: empty */
  uint32_t mask;
} all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- grammar ------------------------------------------------------------------------------- */

typedef struct reader { const char *at; const char *type; } reader;

static __attribute__((noreturn)) void bad(const char *type, const char *what, const char *text) {
  fprintf(stderr, "dflow: the entry of op %s is wrong: %s: `%s`\n", type, what, text);
  abort();
}

/* The next word of a space-separated list, into `word`. */
static bool next_word(reader *r, char *word, size_t bytes) {
  while (*r->at == ' ' || *r->at == '\n') r->at++;
  size_t n = 0;
  while (r->at[n] && r->at[n] != ' ' && r->at[n] != '\n') n++;
  if (n >= bytes) bad(r->type, "a word is too long", r->at);
  memcpy(word, r->at, n);
  word[n] = 0;
  r->at += n;
  return n > 0;
}

static void copy_name(char *to, size_t bytes, const char *from, const char *type) {
  if (strlen(from) >= bytes) bad(type, "a name is too long", from);
  memcpy(to, from, strlen(from) + 1);
}

#define BIT(t) ((uint64_t)1 << (t))
static const uint64_t FLOATS = BIT(DF_FLOAT16) | BIT(DF_BFLOAT16) | BIT(DF_FLOAT32) | BIT(DF_FLOAT64);
static const uint64_t INTS = BIT(DF_INT8) | BIT(DF_UINT8) | BIT(DF_INT16) | BIT(DF_UINT16) | BIT(DF_INT32) |
                             BIT(DF_UINT32) | BIT(DF_INT64) | BIT(DF_UINT64);
static const uint64_t COMPLEX = BIT(DF_COMPLEX64) | BIT(DF_COMPLEX128);
static const uint64_t QUANTIZED = BIT(DF_QINT8) | BIT(DF_QUINT8) | BIT(DF_QINT16) | BIT(DF_QUINT16) | BIT(DF_QINT32);

/* `a|b|c` as a set; 0 when a word is no dtype and no class. */
static uint64_t dtype_set(const char *text) {
  uint64_t set = 0;
  while (*text) {
    char word[24];
    size_t n = strcspn(text, "|");
    if (n >= sizeof word) return 0;
    memcpy(word, text, n);
    word[n] = 0;
    int32_t dtype = df_dtype_of(word);
    uint64_t any = FLOATS | INTS | COMPLEX | QUANTIZED | BIT(DF_BOOL) | BIT(DF_STRING) | BIT(DF_VARIANT);
    uint64_t more = dtype ? BIT(dtype) : !strcmp(word, "float") ? FLOATS : !strcmp(word, "int") ? INTS
                  : !strcmp(word, "complex") ? COMPLEX : !strcmp(word, "quantized") ? QUANTIZED
                  : !strcmp(word, "number") ? FLOATS | INTS : !strcmp(word, "any") ? any
                  : !strcmp(word, "all") ? any | BIT(DF_RESOURCE) : !strcmp(word, "handle") ? BIT(DF_RESOURCE) : 0;
    if (!more) return 0;
    set |= more;
    text += n + (text[n] == '|');
  }
  return set;
}

static int32_t find_var(const dfi_op_info *o, const char *name) {
  for (int32_t i = 0; i < o->nvar; i++)
    if (!strcmp(o->var[i].name, name)) return i;
  return -1;
}

static void parse_types(dfi_op_info *o) {
  reader r = { o->op->types ? o->op->types : "", o->op->type };
  for (char word[160]; next_word(&r, word, sizeof word);) {
    char *equals = strchr(word, '=');
    if (!equals || o->nvar == 8) bad(r.type, "types", word);
    *equals = 0;
    copy_name(o->var[o->nvar].name, sizeof o->var[0].name, word, r.type);
    o->var[o->nvar].allowed = dtype_set(equals + 1);
    o->var[o->nvar].nsaid = (int32_t)strlen(equals + 1);
    o->var[o->nvar].said = r.at - o->var[o->nvar].nsaid;
    o->var[o->nvar].attr = (int8_t)dfi_op_attr_index(o, word);
    if (!o->var[o->nvar].allowed) bad(r.type, "no such dtypes", equals + 1);
    o->nvar++;
  }
}

/* `end`: where the word ends in the entry. */
static void parse_arg(dfi_op_info *o, dfi_arg *a, char *word, const char *end, bool output) {
  const char *begin = end - strlen(word), *type = o->op->type;
  char *colon = strchr(word, ':');
  if (!colon) bad(type, "an argument without a type", word);
  *colon = 0;
  copy_name(a->name, sizeof a->name, word, type);
  char *t = colon + 1, *star;
  if (*t == '&') { a->ref = true; t++; }
  a->said = begin + (t - word);
  a->nsaid = (int32_t)strcspn(t, "*?");
  star = strchr(t, '*');
  a->var = -1;
  a->count_attr = a->types_attr = -1;
  if (star) {
    a->list = true;
    *star = 0;
    bool less = star[1] == '-';
    const char *attr = star + 1 + less;
    if (*attr) {
      int32_t i = dfi_op_attr_index(o, attr);
      if (!output || i < 0) bad(type, "a list of so many", attr);
      a->count_attr = (int16_t)(less ? -2 - i : i);
    }
  } else if (*t && t[strlen(t) - 1] == '?') {
    a->optional = true;
    t[strlen(t) - 1] = 0;
  }
  a->var = (int8_t)find_var(o, t);
  if (a->var >= 0) return;
  a->types_attr = (int16_t)dfi_op_attr_index(o, t);
  if (a->types_attr >= 0 && a->list && o->attr[a->types_attr].type == 'y') {
    a->count_attr = output ? a->types_attr : -1;
    a->allowed = dtype_set("all");
    return;
  }
  a->types_attr = -1;
  a->allowed = dtype_set(t);
  if (a->allowed) {
    if ((a->allowed & (a->allowed - 1)) == 0) a->dtype = (uint8_t)__builtin_ctzll(a->allowed);
    return;
  }
  int32_t attr = dfi_op_attr_index(o, t);              /* a dtype attribute that `types` does not restrict */
  if (attr < 0 || o->attr[attr].type != 'd' || o->nvar == 8) bad(type, "no such type", t);
  copy_name(o->var[o->nvar].name, sizeof o->var[0].name, t, type);
  o->var[o->nvar].allowed = dtype_set("any");
  o->var[o->nvar].attr = (int8_t)attr;
  a->var = (int8_t)o->nvar++;
}

static void parse_ints(const char *type, const char *text, df_attr *value) {
  if (*text != '[') bad(type, "a list was expected", text);
  int64_t list[16];
  int32_t n = 0;
  for (const char *at = text + 1; *at && *at != ']';) {
    char *end;
    if (n == 16) bad(type, "a default is too long", text);
    list[n++] = strtoll(at, &end, 10);
    if (end == at) bad(type, "a number was expected", at);
    at = *end == ',' ? end + 1 : end;
  }
  value->i = n;
  value->ints = dfi_xcalloc((size_t)n, sizeof *list);
  memcpy(value->ints, list, sizeof *list * (size_t)n);
}

static void parse_default(dfi_attr_def *d, const char *type, char *text) {
  df_attr *v = &d->value;
  char *end = text;
  switch (d->type) {
    case 'i': v->i = strtoll(text, &end, 10); if (!*text || *end) bad(type, "no int", text); break;
    case 'f': v->f = strtod(text, &end);      if (!*text || *end) bad(type, "no float", text); break;
    case 'b': v->i = !strcmp(text, "true");   if (!v->i && strcmp(text, "false")) bad(type, "no bool", text); break;
    case 'd': v->i = df_dtype_of(text);       if (!v->i && strcmp(text, "invalid")) bad(type, "no dtype", text); break;
    case 'l': case 'y': case 'p': parse_ints(type, text, v); break;
    case 'h':
      if (!strcmp(text, "?")) v->i = -1;
      else parse_ints(type, text, v);
      break;
    case 's': {
      size_t n = strlen(text);
      if (n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n - 1] == text[0]) { text[n - 1] = 0; text++; n -= 2; }
      if (!strcmp(text, "\\n")) { text = "\n"; n = 1; }       /* a word holds no line break, and no tab */
      else if (!strcmp(text, "\\t")) { text = "\t"; n = 1; }
      v->s = dfi_xstrdup(text);
      v->i = (int64_t)n;
      break;
    }
    case 't': if (strcmp(text, "none")) bad(type, "a tensor has no default but none", text); break;
  }
}

static const struct { const char *word; char type; } kinds[] = {
  { "int", 'i' }, { "float", 'f' }, { "bool", 'b' }, { "string", 's' }, { "dtype", 'd' }, { "shape", 'h' },
  { "tensor", 't' }, { "ints", 'l' }, { "types", 'y' }, { "shapes", 'p' },
};
const char *dfi_attr_word(char type) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) if (kinds[i].type == type) return kinds[i].word;
  return "";
}

/* Takes `[1..]`, `[1..8]` or `[NHWC|NCHW]` off the end of a type. */
static void parse_bounds(dfi_attr_def *d, const char *type, char *text) {
  char *open = strchr(text, '['), *end;
  d->low = INT64_MIN;
  d->high = INT64_MAX;
  if (!open) return;
  *open = 0;
  d->bounded = true;
  if (!strcmp(text, "string")) {
    const size_t n = strlen(open + 1);
    if (!n || open[n] != ']') bad(type, "words end with ]", open + 1);
    open[n] = 0;
    copy_name(d->choices, sizeof d->choices, open + 1, type);
    return;
  }
  d->low = strtoll(open + 1, &end, 10);
  if (end == open + 1 || strncmp(end, "..", 2)) bad(type, "bounds are [low..] or [low..high]", open + 1);
  if (end[2] != ']') d->high = strtoll(end + 2, &end, 10);
  else end += 2;
  if (strcmp(end, "]")) bad(type, "bounds end with ]", end);
}

static void parse_attrs(dfi_op_info *o) {
  reader r = { o->op->attrs ? o->op->attrs : "", o->op->type };
  for (char word[160]; next_word(&r, word, sizeof word);) {
    char *colon = strchr(word, ':'), *equals = strchr(word, '=');
    if (!colon || o->nattr == 16) bad(r.type, "attrs", word);
    dfi_attr_def *d = &o->attr[o->nattr++];
    *colon = 0;
    if (equals) *equals = 0;
    copy_name(d->name, sizeof d->name, word, r.type);
    parse_bounds(d, r.type, colon + 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
      if (!strcmp(kinds[i].word, colon + 1)) d->type = kinds[i].type;
    if (!d->type) bad(r.type, "no such attribute type", colon + 1);
    if (d->bounded && !strchr("ils", d->type)) bad(r.type, "bounds of what is no number", colon + 1);
    o->bounds_attr |= d->bounded;
    d->required = !equals;
    d->nsaid = equals ? (int32_t)strlen(equals + 1) : 0;
    d->said = r.at - d->nsaid;
    o->needs_attr |= d->required;
    if (d->type == 's') d->value.s = "";
    if (d->type == 'h') d->value.i = -1;
    if (equals) parse_default(d, r.type, equals + 1);
  }
  o->defaults = dfi_xcalloc((size_t)o->nattr, sizeof *o->defaults);
  for (int32_t i = 0; i < o->nattr; i++) o->defaults[i] = o->attr[i].value;
}

static void parse(dfi_op_info *o, const df_op *op, int32_t id) {
  o->op = op;
  o->id = id;
  parse_attrs(o);
  parse_types(o);
  char word[160];
  reader in = { op->in ? op->in : "", op->type }, out = { op->out ? op->out : "", op->type };
  while (next_word(&in, word, sizeof word)) {
    if (o->nin == 18) bad(op->type, "too many inputs", op->in);
    dfi_arg *a = &o->in[o->nin++];
    parse_arg(o, a, word, in.at, false);
    o->lists += a->list;
    o->in_list |= a->list;
    o->in_types |= a->types_attr >= 0;
  }
  while (next_word(&out, word, sizeof word)) {
    if (o->nout == 12) bad(op->type, "too many outputs", op->out);
    dfi_arg *a = &o->out[o->nout++];
    parse_arg(o, a, word, out.at, true);
    o->out_list |= a->list;
  }
  o->traits = op->traits;
  if (op->flow == DF_PLAIN && !op->stateful && !op->expensive && op->kernel[DF_REF] && o->nin > 0)
    o->fold = DFI_FOLD_KERNEL;
  if (op->fold) o->fold = op->fold;
  if (!op->stateful && op->effect) bad(op->type, "an op with an effect is stateful", op->type);
}

/* ---- lookup -------------------------------------------------------------------------------- */

static bool named(const df_op *op, const char *name) {
  return !strcmp(op->type, name) || (op->lua && *op->lua && !strcmp(op->lua, name));
}

static void index_name(int32_t id, const char *name) {
  uint32_t i = dfi_text_hash(name) & all.mask;
  for (; all.index[i]; i = (i + 1) & all.mask)
    if (all.index[i] != id + 1 && named(all.info[all.index[i] - 1].op, name))
      bad(all.info[id].op->type, "a second op is called", name);
  all.index[i] = id + 1;
}

static void read_tables(void) {
  int32_t n = 0;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    n += tables[i]->n;
  all.info = dfi_xcalloc((size_t)n, sizeof *all.info);
  for (all.mask = 64; (int32_t)all.mask < 4 * n; all.mask *= 2) ;
  all.index = dfi_xcalloc(all.mask, sizeof *all.index);
  all.mask--;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    for (int32_t j = 0; j < tables[i]->n; j++) {
      const df_op *op = &tables[i]->ops[j];
      if (!op->type) { fprintf(stderr, "dflow: entry %d of table %zu has no type\n", j, i); abort(); }
      parse(&all.info[all.n], op, all.n);
      index_name(all.n, op->type);
      if (op->lua && *op->lua) index_name(all.n, op->lua);
      all.n++;
    }
}

static int32_t find(const char *name) {
  pthread_once(&once, read_tables);
  for (uint32_t i = dfi_text_hash(name) & all.mask; all.index[i]; i = (i + 1) & all.mask)
    if (named(all.info[all.index[i] - 1].op, name)) return all.index[i] - 1;
  return -1;
}

const dfi_op_info *dfi_op_info_at(int32_t id) {
  pthread_once(&once, read_tables);
  return id >= 0 && id < all.n ? &all.info[id] : NULL;
}
const dfi_op_info *dfi_op_find(const char *type) {
  int32_t id = find(type);
  return id >= 0 && !strcmp(all.info[id].op->type, type) ? &all.info[id] : NULL;
}
int32_t dfi_op_attr_index(const dfi_op_info *o, const char *name) {
  for (int32_t i = 0; i < o->nattr; i++)
    if (!strcmp(o->attr[i].name, name)) return i;
  return -1;
}

/* ---- dflow.h ------------------------------------------------------------------------------- */

static const char *text(const char *s) { return s ? s : ""; }
static const df_op *at(int32_t op) {
  static const df_op none = { .type = "" };
  const dfi_op_info *o = dfi_op_info_at(op);
  return o ? o->op : &none;
}

int32_t df_op_count(void) {
  pthread_once(&once, read_tables);
  return all.n;
}
int32_t     df_op_find(const char *name) { return name ? find(name) : -1; }
const char *df_op_type(int32_t op)    { return at(op)->type; }
const char *df_op_lua(int32_t op)     { return text(at(op)->lua); }
const char *df_op_doc(int32_t op)     { return text(at(op)->doc); }
const char *df_op_inputs(int32_t op)  { return text(at(op)->in); }
const char *df_op_outputs(int32_t op) { return text(at(op)->out); }
const char *df_op_types(int32_t op)   { return text(at(op)->types); }
const char *df_op_attrs(int32_t op)   { return text(at(op)->attrs); }
/* Made when it is first asked for: two threads that ask at once make two, of which one stays. */
static const char *parts_of(int32_t op) {
  if (op < 0 || op >= df_op_count()) return "";
  _Atomic(char *) *to = &all.info[op].parts;
  char *is = atomic_load(to);
  if (is) return is;
  char *made = dfi_op_parts(&all.info[op]);
  if (atomic_compare_exchange_strong(to, &is, made)) return made;
  dfi_free(made);
  return text(is);
}
static const char *const primitive[] = {
  [DF_SWITCH] = "Switch", [DF_MERGE] = "Merge", [DF_ENTER] = "Enter", [DF_EXIT] = "Exit",
  [DF_NEXT_ITERATION] = "NextIteration", [DF_LOOP_COND] = "LoopCond", [DF_CONSTANT] = "Const",
  [DF_FEED] = "Placeholder", [DF_NO_OP] = "NoOp", [DF_TRIGGER] = "ControlTrigger",
};
/* Does each element of its output come of the elements at that place of its inputs, which are broadcast? Its shape
   function says so. */
static bool is_elementwise(const dfi_op_info *o) {
  if (o->op->flow != DF_PLAIN || o->op->stateful || o->in_list || o->nout != 1) return false;
  if (o->nin == 1) return o->op->shape == dfi_shape_same;
  return o->op->shape == dfi_shape_binary || o->op->shape == dfi_shape_ternary || o->op->shape == dfi_shape_equality;
}
/* Does it reduce the axes that its second input names? */
static bool is_reduction(const dfi_op_info *o) {
  return o->nin == 2 && o->in[1].var >= 0 && !strcmp(o->in[1].name, "reduction_indices");
}
const char *df_op_about(int32_t op, const char *what) {
  const df_op *o = at(op);
  if (!what) return "";
  if (!strcmp(what, "parts")) return parts_of(op);
  if (!strcmp(what, "output")) return text(o->output);
  if (!strcmp(what, "see")) return text(o->see);
  if (!strcmp(what, "derivative")) return text(o->derivative);
  if (!strcmp(what, "domain")) return text(o->domain);
  if (!strcmp(what, "onnx")) return text(o->onnx);
  if (!strcmp(what, "gpu")) {
    if (o->flow != DF_PLAIN) return "flow";
    if (dfi_gpu_kernel_of(o->type)) return "kernel";
    return o->remote == DFI_REMOTE_MOVES ? "moves" : o->remote == DFI_REMOTE_LOOKS ? "looks" : "";
  }
  if (!strcmp(what, "hosted")) return o->hosted ? "on the host" : "";
  if (!strcmp(what, "primitive")) return o->flow < sizeof primitive / sizeof *primitive ? text(primitive[o->flow]) : "";
  if (!strcmp(what, "variable")) return o->traits & DFO_VARIABLE ? "its output" : "";
  if (!strcmp(what, "elementwise")) return *o->type && is_elementwise(dfi_op_info_at(op)) ? "yes" : "";
  if (!strcmp(what, "reduces")) return *o->type && is_reduction(dfi_op_info_at(op)) ? "axes" : "";
  if (!strcmp(what, "passes")) return o->traits & DFO_PASSES ? "its input" : "";
  if (!strcmp(what, "random")) return o->traits & DFO_RANDOM ? "another value each time" : "";
  if (!strcmp(what, "reads")) return o->traits & DFO_READS_VARIABLE ? "a variable" : "";
  return "";
}
const char *df_op_example(int32_t op) { return text(at(op)->example); }
bool df_op_has_gradient(int32_t op)   { return at(op)->grad != NULL; }
bool df_op_is_stateful(int32_t op)    { return at(op)->stateful; }

int64_t dfi_output_count(const dfi_op_info *o, const dfi_arg *a, int32_t nin, const df_attr *attrs) {
  if (!a->list) return 1;
  if (a->count_attr >= 0) return attrs[a->count_attr].i;
  const int64_t inputs = nin - (o->in_list ? o->nin - 1 : o->nin);
  return a->count_attr < -1 ? inputs - attrs[-2 - a->count_attr].i : inputs;
}
const dfi_arg *dfi_output_arg(const df_node *n, int32_t i) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  const dfi_arg *a = o->out;
  if (!o->out_list) return a + i;
  for (int64_t count; i >= (count = dfi_output_count(o, a, n->nin, n->attrs)); a++) i -= (int32_t)count;
  return a;
}

bool dfi_input_is_reference(const df_node *n, int32_t i) {
  return dfi_op_takes_reference(dfi_op_info_at(n->op), n->nin, i);
}
bool dfi_op_takes_reference(const dfi_op_info *o, int32_t nin, int32_t i) {
  return dfi_arity_fits(o, nin) && i < nin && dfi_input_arg(o, nin, i)->ref;
}
