/* digest.c: what a plan is, as one number: processes that turn one together compare theirs before they do. Names and
 * Lua lines are no part of it.
 */
#include "plan/plan.h"

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *s) {
  for (; *s; s++) h = mix(h, (unsigned char)*s);
  return mix(h, 0);
}

static uint64_t of_node(uint64_t h, const dfi_plan *p, const dfi_pnode *q) {
  h = mix_text(h, q->op->type);
  h = mix(h, (uint64_t)q->kind | (uint64_t)q->out_dtype << 8 | (uint64_t)q->constant << 16 | (uint64_t)q->merges << 24 |
                 (uint64_t)q->child << 32 | (uint64_t)q->device << 48);
  h = mix(h, (uint64_t)q->nin | (uint64_t)q->nout << 32);
  h = mix(h, (uint64_t)q->scope | (uint64_t)q->target << 32);
  for (uint32_t i = 0; i < q->nin; i++) h = mix(h, p->operand[q->in + i]);
  for (uint32_t e = q->edge[0]; e < q->edge[3]; e++)
    h = mix(h, (uint64_t)p->edge[e].node | (uint64_t)p->edge[e].to << 32);
  return h;
}

uint64_t dfi_plan_digest(const dfi_plan *p) {
  uint64_t h = mix(17, (uint64_t)p->nnodes | (uint64_t)p->nscopes << 32);
  for (int32_t i = 0; i < p->nnodes; i++) h = of_node(h, p, &p->node[i]);
  for (int32_t i = 0; i < p->nscopes; i++) {
    const dfi_scope *s = &p->scope[i];
    h = mix(h, (uint64_t)s->parallel_iterations);
    h = mix(h, (uint64_t)s->nslots | (uint64_t)(uint32_t)s->parent << 32);
  }
  for (int32_t i = 0; i < p->nlinks; i++) {
    h = mix_text(h, p->devices->at[p->link[i].from]->name);
    h = mix_text(h, p->devices->at[p->link[i].to]->name);
  }
  for (int32_t i = 0; i < p->ncrossings; i++)
    h = mix(h, (uint64_t)p->crossing[i].from | (uint64_t)p->crossing[i].link << 32);
  for (int32_t i = 0; p->parts && i < p->parts->n; i++) h = mix(h, p->parts->rank[i]);
  return h;
}
