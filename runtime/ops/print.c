/* print.c: Print and Assert, and tensors as text the way TensorFlow's tf.Print writes them.
 *
 * A tensor's first `summarize` elements in row-major order, inner rows in brackets, `...` where there are more:
 * `message[[1 2 3][4 5 6]...]`. One pair of brackets per tensor is put around what this says.
 */
#include "resource/variable.h"
#include "kernels/half.h"
#include <math.h>
#include <stdio.h>

/* The shortest of two precisions that reads back as the same number. */
static void put_float(FILE *f, double v, bool wide) {
  char text[40];
  snprintf(text, sizeof text, "%.*g", wide ? 15 : 6, v);
  double back = strtod(text, NULL);
  if (!isnan(v) && (wide ? back != v : (float)back != (float)v)) snprintf(text, sizeof text, "%.*g", wide ? 17 : 9, v);
  fputs(isnan(v) ? "nan" : text, f);
}

static void put_element(FILE *f, const df_tensor *t, int64_t i) {
  switch (t->dtype) {
    case DF_STRING: {
      const df_str *s = (const df_str *)t->data + i;
      if (s->length) fwrite(s->bytes, 1, (size_t)s->length, f);
      break;
    }
    case DF_COMPLEX64: case DF_COMPLEX128: {
      bool wide = t->dtype == DF_COMPLEX128;
      fputc('(', f);
      put_float(f, df_tensor_get(t, i), wide);
      fputc(',', f);
      put_float(f, df_tensor_imaginary(t, i), wide);
      fputc(')', f);
      break;
    }
    case DF_UINT64:  fprintf(f, "%llu", (unsigned long long)df_tensor_get_int(t, i)); break;
    case DF_VARIANT: fputs("<variant>", f); break;
    case DF_BOOL:    fputs(df_tensor_get_int(t, i) ? "true" : "false", f); break;
    case DF_FLOAT32: put_float(f, ((const float *)t->data)[i], false); break;
    case DF_FLOAT64: put_float(f, ((const double *)t->data)[i], true); break;
    case DF_FLOAT16: case DF_BFLOAT16: {
      float v;
      dfk_half_to_floats(t->dtype, &v, (const uint16_t *)t->data + i, 1);
      put_float(f, v, false);
      break;
    }
    default: fprintf(f, "%lld", (long long)df_tensor_get_int(t, i)); break;
  }
}

static void put_axis(FILE *f, const df_tensor *t, int32_t axis, int64_t limit, int64_t *at) {
  if (*at >= limit) return;
  bool last = axis == t->rank - 1;
  for (int64_t i = 0; i < t->dims[axis]; i++) {
    if (*at >= limit) {
      if (last && axis != 0) fputs("...", f);
      return;
    }
    if (last) {
      if (i > 0) fputc(' ', f);
      put_element(f, t, (*at)++);
    } else {
      fputc('[', f);
      put_axis(f, t, axis + 1, limit, at);
      fputc(']', f);
    }
  }
}

static void put_tensor(FILE *f, const df_tensor *t, int64_t summarize) {
  int64_t limit = summarize < 0 || summarize > t->size ? t->size : summarize, at = 0;
  fputc('[', f);
  if (t->rank == 0) {
    if (limit > 0) put_element(f, t, 0);
  } else if (t->size > 0) {
    put_axis(f, t, 0, limit, &at);
  }
  if (t->size > limit) fputs("...", f);
  fputc(']', f);
}

/* Print counts what it has printed in the unused half of its attribute first_n: once per node and process. */
static bool enough(const df_kernel *k, int32_t first_n) {
  int64_t limit = dfk_int(k, first_n);
  if (limit < 0) return false;
  int64_t *count = (int64_t *)(uintptr_t)&k->attrs[first_n].f;
  _Static_assert(sizeof(double) == sizeof(int64_t), "a count fits where a double lies");
  if (__atomic_load_n(count, __ATOMIC_RELAXED) >= limit) return true;
  return __atomic_fetch_add(count, 1, __ATOMIC_RELAXED) >= limit;
}

/* input data...; message first_n summarize */
int32_t dfi_kernel_print(df_kernel *k) {
  if (!enough(k, 1)) {
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for the text to print");
    fwrite(dfk_string(k, 0), 1, (size_t)k->attrs[0].i, f);
    for (int32_t i = 1; i < k->nin; i++) put_tensor(f, k->in[i], dfk_int(k, 2));
    fclose(f);
    dfk_print(k, text, (int64_t)length);
    free(text);
  }
  return dfk_out_forward(k, 0, 0, k->in[0]->rank, NULL);
}

/* condition data...; summarize message */
int32_t dfi_kernel_assert(df_kernel *k) {
  const df_tensor *ok = k->in[0];
  char shape[160], *text = NULL;
  size_t length = 0;
  if (ok->rank != 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the condition is %s but must be a scalar bool",
                    dfk_shape_text(ok, shape, sizeof shape));
  if (*(const bool *)ok->data) return DF_OK;
  FILE *f = open_memstream(&text, &length);
  if (!f) return dfk_fail(k, DF_INVALID_ARGUMENT, "assertion failed: %s", dfk_string(k, 1));
  fwrite(dfk_string(k, 1), 1, (size_t)k->attrs[1].i, f);
  for (int32_t i = 1; i < k->nin; i++) {
    if (i > 1 || k->attrs[1].i > 0) fputc(' ', f);
    put_tensor(f, k->in[i], dfk_int(k, 0));
  }
  fclose(f);
  int32_t code = dfk_fail(k, DF_INVALID_ARGUMENT, "assertion failed%s%s", length ? ": " : "", text);
  free(text);
  return code;
}
