/* list.c: the life of a TensorList's list. */
#include "resource/list.h"

static void destroy(dfi_handle *h) {
  dfi_list *l = (dfi_list *)h;
  for (int64_t i = 0; i < l->n; i++) dfi_value_drop(&l->item[i]);
  dfi_free(l->item);
  dfi_free(l);
}

static void reserve(dfi_list *l, int64_t n) {
  if (n <= l->capacity) return;
  l->capacity = n > 2 * l->capacity ? n : 2 * l->capacity;
  l->item = dfi_xrealloc(l->item, sizeof *l->item * (size_t)l->capacity);
}

dfi_list *dfi_list_new(uint8_t dtype, const dfi_shape *element, int64_t n) {
  dfi_list *l = dfi_xcalloc(1, sizeof *l);
  l->base = (dfi_handle){ .refs = 1, .type = DFI_LIST, .destroy = destroy };
  l->dtype = dtype;
  l->element = *element;
  l->most = -1;
  dfi_list_resize(l, n);
  return l;
}

dfi_list *dfi_list_copy(const dfi_list *l) {
  dfi_list *c = dfi_list_new(l->dtype, &l->element, 0);
  c->most = l->most;
  reserve(c, l->n);
  for (int64_t i = 0; i < l->n; i++) c->item[i] = dfi_value_copy(&l->item[i]);
  c->n = l->n;
  return c;
}

void dfi_list_resize(dfi_list *l, int64_t n) {
  for (int64_t i = n; i < l->n; i++) dfi_value_drop(&l->item[i]);
  reserve(l, n);
  if (n > l->n) memset(l->item + l->n, 0, sizeof *l->item * (size_t)(n - l->n));
  l->n = n;
}

void dfi_list_set(dfi_list *l, int64_t i, const df_value *v) {
  df_value mine = dfi_value_copy(v);
  mine.dead = mine.flags = 0;
  mine.uses = 0;
  dfi_value_drop(&l->item[i]);
  l->item[i] = mine;
}

void dfi_list_push(dfi_list *l, const df_value *v) {
  dfi_list_resize(l, l->n + 1);
  dfi_list_set(l, l->n - 1, v);
}
