/* export_device.c: where nodes were asked to run.
 *
 * A NodeDef says it in its field `device`, in TensorFlow's long form, or, where it is to be with another node, in its
 * attribute `_class`. That other one must be there, or TensorFlow refuses the graph: what was left out, or is written
 * under another name, binds none.
 */
#include "tensorflow/export.h"
#include "device/device.h"
#include <ctype.h>
#include <stdio.h>

/* 'sim:1' as '/device:SIM:1'; what has that form already stays. NULL: it names no device. */
static const char *long_form(dfi_export *e, const char *spec) {
  dfi_device_name name;
  if (spec[0] == '/') return spec;
  if (!dfi_device_parse(spec, &name) || name.kind < 0) return NULL;
  const int32_t number = name.number < 0 ? 0 : name.number;
  char *text = dfi_lower_text(&e->l, "/device:%s:%d", dfi_device_kind_name(name.kind), number);
  for (char *p = text + strlen("/device:"); *p; p++) *p = (char)toupper((unsigned char)*p);
  return text;
}

static void be_with(dfi_export *e, Pb__NodeDef *n, const char *other) {
  const char *text = dfi_lower_text(&e->l, "loc:@%s", other);
  Pb__AttrValue *a = dfi_lower_attr(&e->l, n, "_class");
  a->value_case = PB__ATTR_VALUE__VALUE_LIST;
  a->list = dfi_arena_take(&e->d->arena, sizeof *a->list);
  pb__attr_value__list_value__init(a->list);
  a->list->n_s = 1;
  a->list->s = dfi_arena_take(&e->d->arena, sizeof *a->list->s);
  a->list->s[0] = (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)(uintptr_t)text };
}

void dfi_export_devices(dfi_export *e) {
  uint8_t *written = dfi_xcalloc((size_t)e->graph->n + 1, 1);      /* by id: under its own name */
  for (size_t k = 0; k < e->l.n; k++) {
    const df_node *n = e->place[k].node;
    if (n && e->name[n->id] && !strcmp(e->l.node[k]->name, e->name[n->id])) written[n->id] = 1;
  }
  for (size_t k = 0; k < e->l.n; k++) {
    const df_node *n = e->place[k].node;
    if (!n || !n->device[0]) continue;
    if (n->device[0] != '@') {
      const char *device = long_form(e, n->device);
      if (device) e->l.node[k]->device = (char *)(uintptr_t)device;
      continue;
    }
    const int32_t other = df_node_by_name(e->graph, n->device + 1);
    if (other >= 0 && other < e->graph->n && other != n->id && written[other]) be_with(e, e->l.node[k], e->name[other]);
  }
  dfi_free(written);
}
