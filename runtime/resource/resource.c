/* resource.c: the session's resources by container and name. */
#include "resource/resource.h"
#include "op/run.h"
#include <stdio.h>

void dfi_resources_init(dfi_resources *r) { pthread_mutex_init(&r->lock, NULL); }

void dfi_resources_free(dfi_resources *r) {
  for (int32_t i = 0; i < r->n; i++) {
    dfi_handle_release(r->list[i].handle);
    dfi_free(r->list[i].container);
    dfi_free(r->list[i].name);
  }
  dfi_free(r->list);
  pthread_mutex_destroy(&r->lock);
}

static const char *noun(int32_t type) {
  switch (type) {
    case DFI_VARIABLE:     return "a variable";
    case DFI_TENSOR_ARRAY:
    case DFI_ARRAY_V3:     return "a TensorArray";
    case DFI_QUEUE:        return "a queue";
    case DFI_STACK:        return "a stack";
    case DFI_TABLE:        return "a table";
    case DFI_ACCUMULATOR:  return "an accumulator";
    case DFI_SAMPLER:      return "a sampler";
    case DFI_BARRIER:      return "a barrier";
    case DFI_MUTEX:        return "a mutex";
    case DFI_EVENTS:       return "a writer of summaries";
    default:               return "something else";
  }
}

const char *dfi_handle_noun(const dfi_handle *h) { return h ? noun(h->type) : "no handle"; }

void *dfi_handle_in(df_kernel *k, int32_t i, int32_t type) {
  dfi_handle *h = k->raw[i]->kind == DF_HANDLE ? k->raw[i]->as.handle : NULL;
  if (DFI_LIKELY(h && h->type == type)) return h;
  dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but must be %s", i, dfi_handle_noun(h), noun(type));
  return NULL;
}

static dfi_resource *find(dfi_resources *r, const char *container, const char *name) {
  for (int32_t i = 0; i < r->n; i++)
    if (!strcmp(r->list[i].name, name) && !strcmp(r->list[i].container, container)) return &r->list[i];
  return NULL;
}

static void *find_or_make(dfi_resources *r, int32_t type, const char *container, const char *name,
                          dfi_handle *(*make)(void *, df_error *), void *user, df_error *err) {
  dfi_resource *found = find(r, container, name);
  if (found) {
    if (found->handle->type == type) return found->handle;
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "'%s' is %s in this session, not %s", name, noun(found->handle->type),
             noun(type));
    return NULL;
  }
  dfi_handle *fresh = make(user, err);
  if (!fresh) return NULL;
  if (r->n == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 8;
    r->list = dfi_xrealloc(r->list, sizeof *r->list * (size_t)r->capacity);
  }
  r->list[r->n++] = (dfi_resource){ dfi_xstrdup(container), dfi_xstrdup(name), fresh };
  return fresh;
}

void *dfi_resource_get(void *run, int32_t type, const char *container, const char *name,
                       dfi_handle *(*make)(void *user, df_error *err), void *user, df_error *err) {
  if (name[0] == '_') {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
             "the shared name '%s' begins with an underscore, which stands for private names", name);
    return NULL;
  }
  char *private = NULL;
  if (!name[0]) {
    const char *node = dfi_node_name(dfi_run_node(run));
    size_t n = strlen(node);
    private = dfi_xmalloc(n + 2);
    private[0] = '_';
    memcpy(private + 1, node, n + 1);
    name = private;
  }
  dfi_resources *r = dfi_run_resources(run);
  pthread_mutex_lock(&r->lock);
  void *resource = find_or_make(r, type, container, name, make, user, err);
  pthread_mutex_unlock(&r->lock);
  dfi_free(private);
  return resource;
}
