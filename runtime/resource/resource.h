/* resource.h: what a session keeps under a name, beside its variables: queues.
 *
 * A resource is made by the first run that asks for it and belongs to the session until that ends. The key is the pair
 * (container, name). A resource without a shared name is private to its node: its name is then an underscore and the
 * node's name, which no shared name can be.
 */
#ifndef DFLOW_RESOURCE_H
#define DFLOW_RESOURCE_H
#include "base/internal.h"

typedef struct dfi_resource { char *container, *name; dfi_handle *handle; } dfi_resource;

typedef struct dfi_resources {
  pthread_mutex_t lock;        /* guards what follows; held while a resource is made */
  dfi_resource   *list;        /* owned, with their strings and one reference each */
  int32_t         n, capacity;
} dfi_resources;

/* Of a session: made with it, and let go when no run is left. */
void  dfi_resources_init(dfi_resources *r);
void  dfi_resources_free(dfi_resources *r);

/* The resource of that key and handle type, made when it is new; borrowed for the session's life. `run` is the
 * kernel's. An empty name is the private one of the kernel's node. NULL: err is filled, with DF_INVALID_ARGUMENT where
 * the name is taken by something of another type or begins with an underscore. Any thread. */
void *dfi_resource_get(void *run, int32_t type, const char *container, const char *name,
                       dfi_handle *(*make)(void *user, df_error *err), void *user, df_error *err);

/* What a handle is of, for messages: "a queue"; "no handle" of NULL. */
const char *dfi_handle_noun(const dfi_handle *h);
/* Input i of a kernel, a handle of this type, borrowed; NULL where it is none: the kernel's error is filled. */
void *dfi_handle_in(df_kernel *k, int32_t i, int32_t type);
#endif
