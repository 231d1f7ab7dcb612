/* string_text.c: values as text: AsString, StringFormat, PrintV2. Numbers and nesting are written as TensorFlow writes
 * them.
 */
#include "../string.h"
#include "element.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a text that grows --------------------------------------------------------------------------------- */
typedef struct text { FILE *file; char *bytes; size_t length; } text;

static bool text_begin(df_kernel *k, text *t) {
  *t = (text){ 0 };
  t->file = open_memstream(&t->bytes, &t->length);
  if (!t->file) dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a text");
  return t->file != NULL;
}
/* The text becomes element i of `out`. */
static bool text_end(df_kernel *k, text *t, df_tensor *out, int64_t i) {
  fclose(t->file);
  bool ok = dfk_set_string(k, out, i, t->bytes, (int64_t)t->length);
  free(t->bytes);
  return ok;
}

/* ---- AsString -------------------------------------------------------------------------------------------- */
typedef struct format { char number[64], integer[64], large[64]; } format;

/* printf's formats for floats and for integers; false: the attributes contradict each other. */
static bool formats_of(df_kernel *k, format *f) {
  int64_t precision = dfk_int(k, 0), width = dfk_int(k, 3);
  bool scientific = dfk_bool(k, 1), shortest = dfk_bool(k, 2);
  const char *fill = dfk_string(k, 4);
  char size[24] = "", exact[24] = "";
  if (scientific && shortest) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "scientific and shortest exclude each other");
    return false;
  }
  if (k->attrs[4].i > 1 || (k->attrs[4].i == 1 && !strchr(" +-0#", *fill))) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "fill is '%s' but must be one of ' ', '+', '-', '0', '#' or nothing", fill);
    return false;
  }
  if (width > 200 || precision > 200) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "a number of %lld places is too long",
             (long long)(width > precision ? width : precision));
    return false;
  }
  if (width > -1) snprintf(size, sizeof size, "%lld", (long long)width);
  if (precision > -1) snprintf(exact, sizeof exact, ".%lld", (long long)precision);
  snprintf(f->number, sizeof f->number, "%%%s%s%s%s", fill, size, exact, scientific ? "e" : shortest ? "g" : "f");
  snprintf(f->integer, sizeof f->integer, "%%%s%slld", fill, size);
  snprintf(f->large, sizeof f->large, "%%%s%sllu", fill, size);
  return true;
}

int32_t ref_as_string(df_kernel *k) {
  const df_tensor *x = k->in[0];
  format f;
  if (x->dtype == DF_STRING) return dfk_out_forward(k, 0, 0, x->rank, NULL);
  if (!formats_of(k, &f)) return k->error->code;
  if (dfk_int(k, 0) > -1 && !ref_is_float(x->dtype) && !dfk_is_complex(x->dtype))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "precision is for floating-point numbers, not for %s",
                    df_dtype_name(x->dtype));
  df_tensor *out = dfk_out(k, 0, DF_STRING, x->rank, x->dims);
  if (!out) return k->error->code;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  for (int64_t i = 0; i < x->size; i++) {
    text t;
    if (!text_begin(k, &t)) return k->error->code;
    if (x->dtype == DF_BOOL) fputs(ref_get_int(x, i) ? "true" : "false", t.file);
    else if (x->dtype == DF_UINT64) fprintf(t.file, f.large, (unsigned long long)ref_get_int(x, i));
    else if (ref_is_float(x->dtype)) fprintf(t.file, f.number, ref_get(x, i));
    else if (dfk_is_complex(x->dtype)) {
      double complex v = ref_get_complex(x, i);
      fputc('(', t.file);
      fprintf(t.file, f.number, creal(v));
      fputc(',', t.file);
      fprintf(t.file, f.number, cimag(v));
      fputc(')', t.file);
    } else fprintf(t.file, f.integer, (long long)ref_get_int(x, i));
    if (!text_end(k, &t, out, i)) return k->error->code;
  }
#pragma GCC diagnostic pop
  return DF_OK;
}

/* ---- StringFormat ---------------------------------------------------------------------------------------- */

/* The shortest of two precisions that reads back as the same number. */
static void put_float(FILE *f, double v, bool wide) {
  char one[40];
  snprintf(one, sizeof one, "%.*g", wide ? 15 : 6, v);
  double back = strtod(one, NULL);
  if (!isnan(v) && (wide ? back != v : (float)back != (float)v)) snprintf(one, sizeof one, "%.*g", wide ? 17 : 9, v);
  fputs(isnan(v) ? "nan" : one, f);
}

static void put_element(FILE *f, const df_tensor *t, int64_t i) {
  bool wide = t->dtype == DF_FLOAT64 || t->dtype == DF_COMPLEX128;
  if (t->dtype == DF_STRING) {
    const df_str *s = (const df_str *)t->data + i;
    fputc('"', f);
    if (s->length) fwrite(s->bytes, 1, (size_t)s->length, f);
    fputc('"', f);
  } else if (t->dtype == DF_VARIANT) {
    fputs("<variant>", f);
  } else if (ref_is_float(t->dtype)) {
    put_float(f, ref_get(t, i), wide);
  } else if (dfk_is_complex(t->dtype)) {
    double complex v = ref_get_complex(t, i);
    fputc('(', f);
    put_float(f, creal(v), wide);
    fputc(',', f);
    put_float(f, cimag(v), wide);
    fputc(')', f);
  } else if (t->dtype == DF_UINT64) {
    fprintf(f, "%llu", (unsigned long long)ref_get_int(t, i));
  } else {
    fprintf(f, "%lld", (long long)ref_get_int(t, i));
  }
}

static void put_spacing(FILE *f, int32_t axis, int32_t rank) {
  if (axis == rank - 1) { fputc(' ', f); return; }
  for (int32_t i = axis; i < rank - 1; i++) fputc('\n', f);
  for (int32_t i = 0; i <= axis; i++) fputc(' ', f);
}

/* `ends` elements from either end of each axis, dots between. */
static void put_axis(FILE *f, const df_tensor *t, int32_t axis, int64_t ends, int64_t at) {
  if (axis == t->rank) { put_element(f, t, at); return; }
  int64_t n = t->dims[axis], each = 1, late = n - ends > ends ? n - ends : ends;
  for (int32_t d = axis + 1; d < t->rank; d++) each *= t->dims[d];
  fputc('[', f);
  for (int64_t i = 0; i < n && i < ends; i++) {
    if (i > 0) put_spacing(f, axis, t->rank);
    put_axis(f, t, axis + 1, ends, at + i * each);
  }
  if (n - ends > ends) {
    put_spacing(f, axis, t->rank);
    fputs("...", f);
  }
  for (int64_t i = late; i < n; i++) {
    put_spacing(f, axis, t->rank);
    put_axis(f, t, axis + 1, ends, at + i * each);
  }
  fputc(']', f);
}

int32_t ref_string_format(df_kernel *k) {
  const char *at = dfk_string(k, 0), *end = at + k->attrs[0].i, *place = dfk_string(k, 1);
  int64_t width = k->attrs[1].i, summarize = dfk_int(k, 2), found = 0;
  for (const char *p = at; width && p + width <= end;) {
    if (memcmp(p, place, (size_t)width)) { p++; continue; }
    found++;
    p += width;
  }
  if (found != k->nin)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the template has %lld placeholders '%s' for %d inputs", (long long)found,
                    place, k->nin);
  df_tensor *out = dfk_out(k, 0, DF_STRING, 0, NULL);
  text t;
  if (!out || !text_begin(k, &t)) return k->error->code;
  for (int32_t i = 0; at < end;) {
    if (!width || at + width > end || memcmp(at, place, (size_t)width)) { fputc(*at++, t.file); continue; }
    const df_tensor *x = k->in[i++];
    put_axis(t.file, x, 0, summarize < 0 ? INT64_MAX / 2 : summarize, 0);
    at += width;
  }
  return text_end(k, &t, out, 0) ? DF_OK : k->error->code;
}

/* ---- PrintV2 --------------------------------------------------------------------------------------------- */
static bool is(const char *s, int64_t n, const char *what) {
  return n == (int64_t)strlen(what) && !memcmp(s, what, (size_t)n);
}

/* Standard output, standard error (which the levels of a log go to as well), or the end of a file. */
int32_t ref_print_v2(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const char *stream = dfk_string(k, 0);
  int64_t n = k->attrs[0].i;
  char shape[160];
  if (x->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the input is %s but must be one string",
                    dfk_shape_text(x, shape, sizeof shape));
  const df_str *s = x->data;
  FILE *file = NULL, *to = stderr;
  if (is(stream, n, "stdout")) to = stdout;
  else if (n > 7 && !memcmp(stream, "file://", 7)) {
    if (!dfk_may_touch(k, -1, stream + 7, n - 7)) return k->error->code;
    if (!(to = file = fopen(stream + 7, "ae")))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "cannot write to %s", stream + 7);
  } else if (!is(stream, n, "stderr") && !is(stream, n, "log(info)") && !is(stream, n, "log(warning)") &&
             !is(stream, n, "log(error)"))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "output_stream is '%s' but must be stdout, stderr, log(info), log(warning), log(error) or file://",
                    stream);
  flockfile(to);
  if (s->length) fwrite(s->bytes, 1, (size_t)s->length, to);
  fwrite(dfk_string(k, 1), 1, (size_t)k->attrs[1].i, to);
  fflush(to);
  const bool failed = file && ferror(file);
  funlockfile(to);
  if (file && (fclose(file) || failed))
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "cannot write all of it to %s", stream + 7);
  return DF_OK;
}
