/* cudagraph_exact.c: what tokens have as numbers of the host's while a graph has it on the GPU. See cudagraph.h.
 *
 * Both sides of a cond give numbers and the GPU knows which, or one of them does; a number is put in other dims, of
 * which there are none; a loop inside counts on the GPU. Tokens have such a value as a number, in some iterations or in
 * all, and so the host computes what is of these alone. There the graph may have only what has the same bits on every
 * device. Which values these are is followed from node to node while an iteration is captured.
 */
#include "engine/cudagraph/cudagraph.h"
#include "engine/token.h"

/* What is true or whole is; of floats, what both sides have from one expression. */
bool dfi_cudagraph_exact(const dfi_pnode *p) {
  enum { MOST = 3 };
  uint8_t in[MOST];
  dfk_persistent_care care;
  if (!dfi_is_float(p->out_dtype) || p->op->traits & DFO_PASSES) return true;
  for (uint32_t i = 0; i < p->nin && i < MOST; i++) in[i] = dfi_dtype(p->node->in[i]);
  return p->nin <= MOST && dfi_gpu_counts(p->op->type, (int32_t)p->nin, in, p->out_dtype, &care);
}

bool dfi_cudagraph_count_on(const dfi_exec *x, dfi_cudagraph_exec *m, const dfi_record *r, const dfi_pnode *p,
                            df_error *err) {
  const bool reshapes = p->op->traits & DFO_RESHAPES;      /* to no dims, which its shape may not tell */
  bool all = p->kind == DFI_K_SCALAR || (reshapes && p->node->out[0].shape.rank < 1);
  for (uint32_t i = 0; i < (reshapes ? 1 : p->nin) && all; i++)
    all = dfi_cudagraph_counts(m, r, x->plan->operand[p->in + i]);
  if (p->nout) m->counts[p->out] = all;
  return !all || reshapes || dfi_cudagraph_exact(p) ||
         dfi_fail(err, DF_UNIMPLEMENTED, NULL, "the host computes it, of what the GPU counts") == DF_OK;
}

/* Are there nodes, loops inside among them, for which it matters whose a number is? */
static bool has_curves(const dfi_exec *x, const dfi_cudagraph_loop *l) {
  for (uint32_t i = 0; i < l->scope->n; i++) {
    const dfi_pnode *p = x->plan->node + l->scope->first + i;
    if (p->kind == DFI_K_SCALAR && !dfi_cudagraph_exact(p)) return true;
  }
  for (int32_t i = 0; i < l->ninner; i++) if (has_curves(x, l->inner[i].loop)) return true;
  return false;
}

/* One capture stands for many iterations, unless those of a loop inside are captured in a row: what becomes a number of
 * the host's after the first of them would have been taken for the GPU's in that. Of a loop inside this shows in its
 * own curves alone, as what leaves it is followed on; else it shows behind the loop, too. */
bool dfi_cudagraph_counts_go_on(const dfi_exec *x, const dfi_cudagraph_loop *l, dfi_cudagraph_exec *m,
                                const dfi_record *r,
                                df_error *err) {
  const bool exact = m->inside && !m->again;
  bool ok = true, *next = dfi_xcalloc((size_t)l->nvars + 1, sizeof *next);
  for (int32_t k = 0; k < l->nvars; k++)
    next[k] = l->var[k].next && dfi_cudagraph_counts(m, r, x->plan->operand[l->var[k].next->in]);
  for (int32_t k = 0; k < l->nvars && ok; k++) {
    const dfi_operand o = DFI_OPERAND(DFI_ITERATION, l->var[k].enter->out);
    const bool was = dfi_cudagraph_counts(m, r, o);
    if (!exact && next[k] && !was && (!m->inside || has_curves(x, l)))
      ok = dfi_fail(err, DF_UNIMPLEMENTED, NULL, "a variable becomes a number of the host's") == DF_OK;
    m->counts[DFI_INDEX(o)] = next[k] || (was && !exact);
  }
  dfi_free(next);
  return ok;
}
