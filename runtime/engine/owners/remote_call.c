/* remote_call.c: a node on a device whose memory the host cannot read. Its kernel is the device's where there is one:
 * then it finds its inputs there, but for those that it reads on the host (shapes, axes, indices). Else it is the
 * CPU's, as the op's entry says: one that only moves references and bytes runs with the device's memory, one that looks
 * at dims alone with the host's, and any other (numbers of a loop, and bodies of functions, which are not placed) with
 * its inputs brought to the host. What is about lists alone, their sums and zeros, has the device's memory for the
 * elements.
 */
#include "engine/owners/remote_call.h"
#include "engine/token.h"
#include "base/remote_memory.h"
#include "op/run.h"
#include <stdio.h>

typedef enum wanted { AS_IT_IS, ON_HOST, ON_DEVICE } wanted;

static wanted wants(const dfi_pnode *p, int32_t i) {
  const uint32_t host = p->gpu ? p->gpu->host_in : p->op->host_in;
  if (dfi_on_host(host, i, (int32_t)p->nin)) return ON_HOST;
  if (p->gpu) return ON_DEVICE;
  return p->op->remote == DFI_REMOTE_NO ? ON_HOST : AS_IT_IS;
}

/* An input that the kernel finds elsewhere than it is; a number lies in the copy itself. */
typedef struct brought {
  df_value         value;                              /* owned */
  df_tensor        view;
  int32_t          input;
  const df_tensor *in;                                 /* borrowed: what the call has there, again after the kernel */
  const df_value  *raw;
} brought;

/* Input i where `to` is. False: error is filled. */
static bool bring(df_kernel *k, int32_t i, dfi_devmem *to, brought *b) {
  const df_value *v = k->raw[i];
  df_value *copy = &b->value;
  if (!dfi_value_in(v, to, copy)) {
    char text[200];
    dfi_shape s = dfi_shape_of(k->in[i]->rank, k->in[i]->dims);
    dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for %s", dfi_typed_shape_text(v->dtype, &s, text));
    return false;
  }
  b->input = i;
  b->in = k->in[i];
  b->raw = v;
  if (copy->kind == DF_TENSOR) {
    ((const df_tensor **)k->in)[i] = copy->as.tensor;
    if (to == NULL && copy->as.tensor != v->as.tensor && i < 32) k->reusable |= 1u << i;
  } else {
    b->view = (df_tensor){ .refs = 1, .dtype = copy->dtype, .view = 1, .size = 1, .data = &copy->as };
    ((const df_tensor **)k->in)[i] = &b->view;
  }
  ((const df_value **)k->raw)[i] = copy;
  return true;
}

/* The call has its own inputs again: it asks for them where the kernel refuses them, and by the virtual clock. */
static void take_back(df_kernel *k, brought *b) {
  ((const df_tensor **)k->in)[b->input] = b->in;
  ((const df_value **)k->raw)[b->input] = b->raw;
  dfi_value_drop(&b->value);
}

/* What a device says of an error that it met, in place of what its kernel's caller thought of it. */
static int32_t said_by_device(df_kernel *k, const dfi_device *d, int32_t status) {
  const char *why = d->remote->error(d->remote->device);
  if (*why) return dfk_fail(k, DF_UNAVAILABLE, "%s failed: %s; the CPU goes on being usable", d->name, why);
  if (status != DF_INTERNAL) return status;
  char said[sizeof k->error->message];                   /* by one of its libraries, of this call alone */
  snprintf(said, sizeof said, "%s", k->error->message);
  return dfk_fail(k, DF_INTERNAL, "on %s %s; it goes on being usable, and the run can be tried again", d->name, said);
}

int32_t dfi_remote_run(dfi_call *c, const dfi_device *d) {
  enum { FEW = 12 };
  df_kernel *k = &c->kernel;
  const dfi_pnode *p = c->node;
  brought few[FEW], *all = k->nin <= FEW ? few : dfi_xmalloc(sizeof *all * (size_t)k->nin);
  int32_t nbrought = 0, status = DF_OK;
  dfi_waits(c->exec, c->record, p, d);
  for (int32_t i = 0; i < k->nin && !status; i++) {
    const df_tensor *t = k->in[i];
    const wanted w = wants(p, i);
    if (!t || !t->buffer || !dfk_plain(t->dtype) || w == AS_IT_IS) continue;
    if (w == ON_HOST ? dfi_readable(t) : t->buffer->arena == d->arena) continue;
    if (bring(k, i, w == ON_HOST ? NULL : d->arena, &all[nbrought])) nbrought++;
    else status = k->error->code;
  }
  if (!status) {
    const bool there = p->gpu || p->op->remote == DFI_REMOTE_MOVES || (k->nin && k->raw[0]->dtype == DF_VARIANT);
    dfi_devmem_use(there ? d->arena : NULL);
    status = p->gpu ? p->gpu->run(k) : p->kernel(k);
    dfi_devmem_use(NULL);
  }
  for (int32_t i = 0; i < nbrought; i++) take_back(k, &all[i]);
  if (all != few) dfi_free(all);
  return status > 0 && status != DFI_AGAIN ? said_by_device(k, d, status) : status;
}

bool dfi_remote_number(dfi_exec *x, dfi_record *r, const dfi_pnode *p, dfi_operand o) {
  df_value *v = operand(r, o), number;
  if (v->kind != DF_TENSOR || dfi_readable(v->as.tensor) || v->as.tensor->rank) return true;
  dfi_waits(x, r, p, x->plan->devices->at[p->device]);
  if (!dfi_value_on_host(v, &number)) {
    dfi_exec_fail(x, r, p, DF_UNAVAILABLE, "a number could not be read from its device");
    return false;
  }
  number.uses = v->uses;
  if (DFI_SPACE(o) == DFI_ITERATION) r->held--;
  df_value_release(v);
  *v = number;
  return true;
}
