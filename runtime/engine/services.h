/* services.h: what folders of the engine ask of those above them (README.md has their order).
 *
 * This table is all that they know of these: wiring/services.c, which is above all, fills it, and spec/floors.lua
 * allows no other call upwards. A service is asked for only where the run has what it is about: x->watched, x->streams,
 * f->remat, a plan that is cut. A run without pays for a test that fails. None is NULL.
 */
#ifndef DFLOW_SERVICES_H
#define DFLOW_SERVICES_H
#include "engine/executor.h"

struct dfi_cudagraph_loop;
struct dfi_text;

typedef struct dfi_services {
  /* memory/, asked by tokens/ */
  void     (*remat_begin)(dfi_exec *x, dfi_frame *f);
  void     (*remat_next)(struct dfi_remat *s, int64_t n, uint32_t variable, const df_value *v);
  void     (*remat_first_over)(dfi_frame *f);
  void     (*remat_over)(dfi_exec *x, dfi_frame *f);
  uint64_t (*remat_tag)(const dfi_second *s);
  bool     (*held_back)(dfi_exec *x, const dfi_record *r, const dfi_device *d, int64_t bytes, int64_t spare);
  char    *(*holders_text)(const dfi_exec *x, int32_t device, char *text, size_t bytes);

  /* owners/, asked by tokens/ */
  bool     (*transfer_run)(dfi_exec *x, dfi_record *r, dfi_pnode *p, uint32_t dead);
  void     (*transfer_copy)(dfi_call *c);
  bool     (*remote_number)(dfi_exec *x, dfi_record *r, const dfi_pnode *p, dfi_operand o);
  int32_t  (*remote_run)(dfi_call *c, const dfi_device *d);
  bool     (*stream_wants)(const dfi_exec *x, const dfi_call *c);
  bool     (*stream_take)(dfi_exec *x, dfi_call *c, bool copies);
  bool     (*fault_kernel)(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
  void     (*rank_wake)(struct dfi_rank *r);

  /* observe/, asked by tokens/ and owners/ */
  bool     (*watch_token)(dfi_exec *x);
  void     (*watch_frame)(dfi_exec *x, const dfi_frame *f, bool opened);
  void     (*watch_keep)(dfi_exec *x, dfi_token t, uint32_t index, const df_value *v);
  void     (*watch_keep_all)(dfi_exec *x, dfi_record *r, const dfi_pnode *p);
  void     (*watch_done)(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
  void     (*watch_look)(dfi_exec *x);
  bool     (*watch_ranks)(dfi_exec *x);
  void     (*watch_counted)(dfi_exec *x);
  void     (*watch_call)(struct dfi_watch *w);
  bool     (*log_call)(dfi_exec *x, dfi_record *r, dfi_pnode *p);
  void     (*log_done)(dfi_exec *x, const dfi_record *r, const dfi_pnode *p);
  void     (*log_flush)(dfi_exec *x);

  /* persistent/, asked by cudagraph/ */
  bool        (*persistent_run)(dfi_exec *x, struct dfi_cudagraph_loop *l, dfi_frame *f, dfi_record *r);
  bool        (*persistent_kernel_ready)(dfi_exec *x, struct dfi_cudagraph_loop *l, int64_t iterations);
  bool        (*persistent_may_compile)(struct dfi_cudagraph_loop *l);
  const char *(*persistent_reason)(const struct dfi_cudagraph_loop *l);
  bool        (*persistent_tell)(const dfi_plan *p, struct dfi_cudagraph_loop *l, struct dfi_text *t);
  void        (*persistent_forget)(struct dfi_cudagraph_loop *l);

  /* run/, asked by tokens/ and owners/ */
  bool      (*pause)(dfi_exec *x);
  void      (*stop_if_told)(dfi_exec *x);
  dfi_exec *(*exec_new)(dfi_plan *p);
  void      (*exec_part)(dfi_exec *x);
  void      (*exec_reset)(dfi_exec *x);
  void      (*exec_free)(dfi_exec *x);
} dfi_services;

extern const dfi_services dfi_service __attribute__((visibility("hidden")));
#endif
