/* parts.c: an entry taken apart, as lines of words: what bindings make their argument checks of, so that the grammar of
 * op.h is read in one place.
 *
 *   attr NAME TYPE REQUIRED DEFAULT      REQUIRED: 0 or 1; DEFAULT: the rest of the line, as the entry has it
 *   type NAME DTYPES WORDS               a type variable
 *   in   NAME FORM VAR DTYPES COUNT WORDS
 *   out  NAME FORM VAR DTYPES COUNT WORDS
 *
 * DTYPES: numbers with commas. FORM: `one`, `list`, `maybe`. VAR: its type variable. COUNT: the attribute that says how
 * many it has; -NAME: the inputs less that many. WORDS: the type as the entry has it. `.`: there is none.
 */
#include "op/op.h"
#include <stdarg.h>
#include <stdio.h>

typedef struct text { char *at; size_t n, room; } text;

static __attribute__((format(printf, 2, 3))) void say(text *t, const char *format, ...) {
  va_list more;
  va_start(more, format);
  const int n = vsnprintf(t->at ? t->at + t->n : NULL, t->at ? t->room - t->n : 0, format, more);
  va_end(more);
  if (n > 0) t->n += (size_t)n;
}

static void say_set(text *t, uint64_t set) {
  for (int32_t d = 0; d < 64; d++) if (set >> d & 1) say(t, set >> d >> 1 ? "%d," : "%d", d);
}

static void say_arg(text *t, const dfi_op_info *o, const char *side, const dfi_arg *a) {
  say(t, "%s %s %s %s ", side, a->name, a->list ? "list" : a->optional ? "maybe" : "one",
      a->var < 0 ? "." : o->var[a->var].name);
  if (a->allowed) say_set(t, a->allowed);
  else say(t, ".");
  if (a->count_attr >= 0) say(t, " %s", o->attr[a->count_attr].name);
  else say(t, a->count_attr < -1 ? " -%s" : " .", a->count_attr < -1 ? o->attr[-2 - a->count_attr].name : "");
  say(t, " %.*s\n", a->nsaid, a->said);
}

static void say_all(text *t, const dfi_op_info *o) {
  for (int32_t i = 0; i < o->nattr; i++)
    say(t, "attr %s %s %d %.*s\n", o->attr[i].name, dfi_attr_word(o->attr[i].type), o->attr[i].required,
        o->attr[i].nsaid, o->attr[i].said);
  for (int32_t i = 0; i < o->nvar; i++) {
    say(t, "type %s ", o->var[i].name);
    say_set(t, o->var[i].allowed);
    say(t, " %.*s\n", o->var[i].said ? o->var[i].nsaid : 1, o->var[i].said ? o->var[i].said : ".");
  }
  for (int32_t i = 0; i < o->nin; i++) say_arg(t, o, "in", &o->in[i]);
  for (int32_t i = 0; i < o->nout; i++) say_arg(t, o, "out", &o->out[i]);
}

char *dfi_op_parts(const dfi_op_info *o) {
  text size = { 0 };
  say_all(&size, o);
  text t = { .at = dfi_xmalloc(size.n + 1), .room = size.n + 1 };
  t.at[0] = 0;
  say_all(&t, o);
  return t.at;
}
