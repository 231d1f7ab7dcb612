/* outcome.c: how a run fails, and what it tells when it is over: fetched values, why one is dead, where an error
   happened, what was counted. */
#include "engine/engine.h"
#include "engine/tokens/batch.h"
#include "engine/tokens/turn.h"
#include "engine/token.h"
#include "plan/where.h"
#include "resource/variable.h"
#include "base/devmem.h"
#include <stdio.h>
#include <time.h>

/* Was this node's token dead in the top-level iteration? */
static bool was_dead(const dfi_record *r, const dfi_pnode *p, const dfi_plan *plan) {
  if (dfi_is_exit(p->kind)) {
    const df_value *v = r->base[DFI_ITERATION] + p->out;
    return v->kind == DF_EMPTY;
  }
  uint32_t c = r->counts[p - (plan->node + plan->scope[0].first)];
  return p->kind == DFI_K_MERGE ? !(c & DFI_MERGE_LIVE) : (c & DFI_DEAD) != 0;
}

/* Back along dead inputs from o to the Switch that made it dead; NULL when it is not found. */
static const dfi_pnode *killer(const dfi_exec *x, const dfi_record *r, df_output o, int32_t *patience) {
  const dfi_pnode *p;
  /* values that were passed on */
  while (!(p = dfi_plan_node_for(x->plan, x->plan->scope, o.node)) && o.node->nin == 1) o = o.node->in[0];
  if (--*patience < 0) return NULL;
  if (p && p->kind == DFI_K_SWITCH && !was_dead(r, p, x->plan)) {
    const df_value *pred = operand(r, x->plan->operand[p->in + 1]);
    return (pred->as.u8 != 0) != (o.index == 1) ? p : NULL;
  }
  if (p && !was_dead(r, p, x->plan)) return NULL;
  for (int32_t i = 0; i < o.node->nin + o.node->ncontrol; i++) {
    df_output in = i < o.node->nin ? o.node->in[i] : (df_output){ o.node->control[i - o.node->nin], 0 };
    const dfi_pnode *found = killer(x, r, in, patience);
    if (found) return found;
  }
  return NULL;
}

/* Back from o to an Exit whose frame ended without a token for it, and on to the Switch of that frame, whose port
 * (*port) it waited for in vain; NULL when there is none. */
static const df_node *exit_switch(df_output o, bool left, int32_t *port, int32_t *patience) {
  int32_t flow = dfi_op_info_at(o.node->op)->op->flow;
  if (--*patience < 0) return NULL;
  if (flow == DF_SWITCH) { *port = o.index; return left ? o.node : NULL; }
  if (flow == DF_ENTER) return NULL;
  for (int32_t i = 0; i < o.node->nin + o.node->ncontrol; i++) {
    df_output in = i < o.node->nin ? o.node->in[i] : (df_output){ o.node->control[i - o.node->nin], 0 };
    const df_node *found = exit_switch(in, left || flow == DF_EXIT, port, patience);
    if (found) return found;
  }
  return NULL;
}

int32_t dfi_exec_fetch(dfi_exec *x, int32_t i, df_value *out, df_error *err) {
  dfi_operand o = x->plan->fetch[i];
  *out = (df_value){ 0 };
  if (o == ~0u) return DF_OK;
  dfi_record *r = x->root->ring[0];
  const df_value *v = operand(r, o);
  dfi_pnode *p = x->plan->fetch_node[i];
  if (DFI_UNLIKELY(x->batch != NULL)) {
    const int32_t code = dfi_batch_settle(x, (df_value *)(uintptr_t)v, err);
    if (code) return code;
  }
  if (DFI_SPACE(o) == DFI_ITERATION) {
    bool dead = p && was_dead(r, p, x->plan);
    if (p && p->kind == DFI_K_SWITCH && !dead) {
      const df_value *pred = operand(r, x->plan->operand[p->in + 1]);
      dead = (uint32_t)(pred->as.u8 != 0) != DFI_INDEX(o) - p->out;
    }
    if (dead || v->kind == DF_EMPTY) {
      const int32_t *sig = x->plan->signature + 2 * i;
      df_node *n = x->plan->graph->node[sig[0]];
      int32_t patience = 10000;
      const dfi_pnode *s = killer(x, r, (df_output){ n, sig[1] }, &patience);
      int32_t port = 0;
      const df_node *inner = s ? NULL : exit_switch((df_output){ n, sig[1] }, false, &port, &(int32_t){ 10000 });
      if (s) {
        const df_value *pred = operand(r, x->plan->operand[s->in + 1]);
        dfi_fail(err, DF_INVALID_ARGUMENT, n->where, "the fetch `%s:%d` is dead: the Switch `%s`%s%s took %s",
                 dfi_node_name(n), sig[1], dfi_node_name(s->node), s->node->where[0] ? " built at " : "",
                 s->node->where, pred->as.u8 ? "true" : "false");
      } else if (inner) {
        dfi_fail(err, DF_INVALID_ARGUMENT, n->where,
                 "the fetch `%s:%d` is dead: the Switch `%s`%s%s took %s in every iteration", dfi_node_name(n), sig[1],
                 dfi_node_name((df_node *)inner), inner->where[0] ? " built at " : "", inner->where,
                 port ? "false" : "true");
      } else
        dfi_fail(err, DF_INVALID_ARGUMENT, n->where, "the fetch `%s:%d` is dead: a Switch sent its token the other way",
                 dfi_node_name(n), sig[1]);
      if (p && err) dfi_exec_blame(r, p, err);
      return DF_INVALID_ARGUMENT;
    }
  }
  /* a reference: the value it refers to now */
  df_value now = { 0 };
  const bool refers = v->kind == DF_HANDLE && ((dfi_handle *)v->as.handle)->type == DFI_VARIABLE;
  if (refers && dfi_variable_read(v->as.handle, &now, err)) return err ? err->code : DF_FAILED_PRECONDITION;
  const bool room = dfi_value_in(refers ? &now : v, NULL, out);
  dfi_value_drop(&now);
  if (!room)
    return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for the fetched value %d", i);
  out->uses = 0;
  return DF_OK;
}

char *dfi_frame_path(const dfi_record *r, char *buffer, size_t bytes) {
  if (!r || !r->frame->origin) { buffer[0] = 0; return buffer; }
  dfi_frame_path(r->frame->origin, buffer, bytes);
  size_t used = strlen(buffer);
  snprintf(buffer + used, bytes - used, "%s%s:%lld", used ? "/" : "", r->frame->scope->name, (long long)r->number);
  return buffer;
}

void dfi_exec_blame(const dfi_record *r, const dfi_pnode *p, df_error *err) {
  df_node *n = p->node;
  snprintf(err->op, sizeof err->op, "%s (%s)", dfi_node_name(n), p->op->type);
  dfi_frame_path(r, err->frame, sizeof err->frame);
  if (n->where && n->where[0]) snprintf(err->source, sizeof err->source, "%s", n->where);
}

void dfi_exec_fail(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, int32_t code, const char *message) {
  if (x->failed) return;                    /* the first error wins */
  x->failed = true;
  x->patience = 0;
  dfi_fail(x->error, code, p && p->node ? p->node->where : NULL, "%s", message);
  if (p && x->error) dfi_exec_blame(r, p, x->error);
}

void dfi_exec_no_memory(dfi_exec *x, const dfi_record *r, const char *what) {
  char message[300];
  const dfi_scope *s = r ? r->frame->scope : NULL;
  dfi_short = false;
  dfi_memory_for(0);
  snprintf(message, sizeof message, "out of memory: the system gave none for %s%s%s%s", what, s && s->id ? " of `" : "",
           s && s->id ? s->name : "", s && s->id ? "`" : "");
  if (x->failed) return;
  dfi_exec_fail(x, NULL, NULL, DF_RESOURCE_EXHAUSTED, message);
  if (!s || !s->id || !x->error) return;
  snprintf(x->error->op, sizeof x->error->op, "%s", s->name);
  snprintf(x->error->source, sizeof x->error->source, "%s", s->where ? s->where : "");
  dfi_frame_path(r, x->error->frame, sizeof x->error->frame);
}

df_stats dfi_exec_stats(const dfi_exec *x) {
  const dfi_counters *c = &x->count;
  const int64_t taken = c->taken + (x->head - x->counted);
  return (df_stats){ 1, taken - c->died + c->merged, c->died + c->ended, c->frames, c->iterations, c->pushes, c->pops };
}

df_stats dfi_stats_published(const df_stats *live) {
  df_stats now;
  for (int32_t i = 0; i < DFI_COUNTERS; i++) (&now.runs)[i] = __atomic_load_n(&live->runs + i, __ATOMIC_RELAXED);
  return now;
}

double dfi_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

char *dfi_engine_reason(const dfi_pnode *p, const char *format, va_list more) {
  char text[600];
  size_t at = 0;
  if (p) at = (size_t)snprintf(text, sizeof text, "`%.200s` (%s): ", dfi_node_name(p->node), p->op->type);
  vsnprintf(text + at, sizeof text - at, format, more);
  return dfi_xstrdup(text);
}
