/* group_rows.c: what groups have that goes by rows.
 *
 * A sum, mean, product, maximum or minimum over the last axes, a softmax along the last one: they are members of the
 * class of their input's shape, and fix what a row of it is. What a fold leaves has one element a row; elementwise ops
 * of such values, other shapes of them and their spreading to whole rows are members of the class, too. So a layer
 * norm, a softmax or a loss that is written out, and its gradient, are one group, and its rows are read once.
 *
 * The length of a row has to be known: it says whether a block of whole rows stays in the cache, and how a GPU's
 * threads share it. There softmax is no member: cuDNN's has bits of its own.
 *
 * A fold over the axes in front (a bias's gradient, the statistics of a batch) is a member that nothing in the group
 * reads: what it leaves is there when the whole has been read.
 */
#include "plan/group.h"
#include "kernels/device.h"

/* The member that makes o, of n's own scope and context; NULL: none does. */
static const place *member_of(const finder *f, const df_node *n, df_output o) {
  if (feed_of(f->m, o) >= 0) return NULL;
  const df_output from = dfi_plan_origin(f->m, o);
  if (feed_of(f->m, from) >= 0) return NULL;
  const place *p = &f->at[from.node->id];
  if (!p->class || dfi_group_ends(p)) return NULL;
  const class *c = &f->class[p->class];
  const mark *k = &f->m->mark[n->id];
  return c->context == n->context && c->scope == k->scope && c->device == k->device ? p : NULL;
}

/* Is input i there before the node, or an unboxed number? The group then has nothing to let go for it. */
static bool is_there(const finder *f, const df_node *n, const dfi_pnode *q, int32_t i) {
  return DFI_SPACE(f->m->plan->operand[q->in + (uint32_t)i]) != DFI_ITERATION || dfi_shape_at(n->in[i])->rank == 0;
}

/* Which axes n reduces; false: it is not known. */
static bool find_reduced(const finder *f, const df_node *n, const dfi_pnode *q, bool *reduced) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  const df_tensor *axes = n->in[1].node->out[n->in[1].index].constant;
  for (int32_t d = 0; d < x->rank; d++) reduced[d] = false;
  if (!axes || feed_of(f->m, n->in[1]) >= 0 || !is_there(f, n, q, 1)) return false;
  for (int64_t i = 0; i < axes->size; i++) {
    const int64_t a = dfk_index(axes, i);
    reduced[a < 0 ? a + x->rank : a] = true;
  }
  return true;
}

/* The first of the last axes that n reduces; -1: it is not known, or not these. */
static int32_t lead_of(const finder *f, const df_node *n, const dfi_pnode *q) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  bool reduced[DF_MAX_RANK];
  if (!find_reduced(f, n, q, reduced)) return -1;
  int32_t lead = x->rank;
  while (lead > 0 && reduced[lead - 1]) lead--;
  for (int32_t d = 0; d < lead; d++) if (reduced[d]) return -1;
  return lead;
}

static bool enter(finder *f, const df_node *n, int32_t class, dfk_form form) {
  f->at[n->id].class = class;
  f->at[n->id].form = (uint8_t)form;
  return true;
}

static bool takes_rows(finder *f, const df_node *n, const dfi_pnode *q) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  const char *element;
  dfk_rows rows;
  if (!dfi_group_by_rows(f->m, n, q->kernel, &rows, &element) || x->rank < 1) return false;
  const int32_t lead = rows.folds ? lead_of(f, n, q) : x->rank - 1;
  const dfk_form form = !rows.folds ? DFK_FULL : n->attrs[0].i ? DFK_KEPT : DFK_GONE;
  if (lead < 0 || (form == DFK_GONE && lead == 0)) return false;
  int64_t row = 1;
  for (int32_t d = lead; d < x->rank; d++) {
    if (x->dims[d] < 0) return false;
    row *= x->dims[d];
    if (row > DFK_CHAIN_ROW) return false;
  }
  const int64_t size = dfi_shape_size(x);
  if (row < 2 || (size >= 0 && size < f->small && !element)) return false;
  const int32_t at = dfi_group_class(f, n, x);
  class *c = &f->class[at];
  if (c->over && c->over != lead) return false;
  if (c->lead < 0) {
    c->lead = lead;
    c->row = row;
  }
  return c->lead == lead && enter(f, n, at, form);
}

/* How many axes in front n folds, and no others; 0: not these. */
static int32_t over_of(const finder *f, const df_node *n, const dfi_pnode *q) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  bool reduced[DF_MAX_RANK];
  if (n->nin == 1) return n->attrs[0].s[1] == 'H' ? x->rank - 1 : 0;      /* a bias's gradient: of NHWC or NCHW */
  if (!find_reduced(f, n, q, reduced)) return 0;
  int32_t over = 0;
  while (over < x->rank && reduced[over]) over++;
  for (int32_t d = over; d < x->rank; d++) if (reduced[d]) return 0;
  return over;
}

static bool folds_over(finder *f, const df_node *n, const dfi_pnode *q) {
  const dfi_shape *x = dfi_shape_at(n->in[0]);
  if (x->rank < 2 || n->nin > 2 || dfi_group_on_gpu(f->m, n)) return false;
  if (!dfk_chain_over(q->kernel, dfi_dtype(n->in[0])).add) return false;
  const int32_t over = over_of(f, n, q);
  const int64_t size = dfi_shape_size(x);
  int64_t width = 1;
  for (int32_t d = over; d < x->rank; d++) {
    if (x->dims[d] < 0) return false;
    width *= x->dims[d];
  }
  if (!over || over == x->rank || width < DFK_FOLD_LEAD || (size >= 0 && size < f->small)) return false;
  const int32_t at = dfi_group_class(f, n, x);
  class *c = &f->class[at];
  if (c->lead >= 0 && c->lead != over) return false;
  if (!c->over) {
    c->over = over;
    c->width = width;
  }
  return c->over == over && enter(f, n, at, n->nin == 2 && n->attrs[0].i ? DFK_OVER_KEPT : DFK_OVER_GONE);
}

/* Is s what a fold of the class's rows leaves, in this form? */
static bool is_folded(const class *c, const dfi_shape *s, dfk_form form) {
  if (s->rank != (form == DFK_KEPT ? c->shape->rank : c->lead)) return false;
  for (int32_t d = 0; d < s->rank; d++) if (s->dims[d] != (d < c->lead ? c->shape->dims[d] : 1)) return false;
  return true;
}

bool dfi_group_fits_narrow(finder *f, const df_node *n, const dfi_pnode *q) {
  const place *p = NULL;
  for (int32_t i = 0; i < n->nin && !p; i++) {
    p = member_of(f, n, n->in[i]);
    if (p && p->form == DFK_FULL) p = NULL;
  }
  if (!p || (!dfi_group_on_gpu(f->m, n) && !dfi_group_loop(n, q->kernel).fn)) return false;
  const class *c = &f->class[p->class];
  if (!is_folded(c, &n->out[0].shape, p->form)) return false;
  for (int32_t i = 0; i < n->nin; i++) {
    const place *other = member_of(f, n, n->in[i]);
    if (other && other->class == p->class && other->form == p->form) continue;
    const dfi_shape *s = dfi_shape_at(n->in[i]);
    if ((other && other->class == p->class) || (dfi_shape_size(s) != 1 && !is_folded(c, s, p->form))) return false;
  }
  return enter(f, n, p->class, p->form);
}

/* Can n, whose shape looks like the class's, have another one when it runs, or refuse the one that it is told, since
   what is not known yet looks alike? A constant shape says but for one dimension what it is, which the others give if
   there are elements. */
static bool may_differ(const finder *f, const df_node *n, const class *c) {
  bool unknown = false, none = false;
  for (int32_t d = 0; d < c->lead; d++) {
    unknown |= c->shape->dims[d] < 0;
    none |= c->shape->dims[d] == 0;
  }
  if (n->nin < 2) return false;
  return (unknown && none) || feed_of(f->m, n->in[1]) >= 0 || !n->in[1].node->out[n->in[1].index].constant;
}

/* One element a row, given to all of the row, or in the other form. */
static bool passes(finder *f, const df_node *n, const dfi_pnode *q) {
  const bool spreads = dfk_chain_spreads(q->kernel);
  const uint8_t dtype = n->out[0].dtype;
  if ((!spreads && !dfi_has_trait(n, DFO_RESHAPES)) || n->nin > 2) return false;
  if (dfi_group_on_gpu(f->m, n) ? !dfi_places(dtype) && dtype != DF_BOOL : !dfk_chain_plain(dtype)) return false;
  const place *p = member_of(f, n, n->in[0]);
  if (!p || p->form == DFK_FULL || (n->nin == 2 && !is_there(f, n, q, 1))) return false;
  const class *c = &f->class[p->class];
  if (may_differ(f, n, c)) return false;
  if (spreads) return p->form == DFK_KEPT && dfi_shape_equal(&n->out[0].shape, c->shape) &&
                      enter(f, n, p->class, DFK_FULL);
  for (dfk_form form = DFK_KEPT; form <= DFK_GONE; form++)
    if ((form == DFK_KEPT || c->lead) && is_folded(c, &n->out[0].shape, form)) return enter(f, n, p->class, form);
  return false;
}

bool dfi_group_fits_rows(finder *f, const df_node *n, const dfi_pnode *q) {
  return takes_rows(f, n, q) || folds_over(f, n, q) || passes(f, n, q);
}

bool dfi_group_crosses_rows(const finder *f, const df_node *n, int32_t class) {
  const dfi_shape *s = &n->out[0].shape;
  bool whole = false;
  for (int32_t i = 0; i < n->nin; i++) {
    const place *p = member_of(f, n, n->in[i]);
    if (p && p->class == class && p->form == DFK_GONE) return true;      /* it broadcasts in another way */
    const dfi_shape *x = dfi_shape_at(n->in[i]);
    bool smaller = x->rank >= 0 && x->rank < s->rank;
    for (int32_t d = 0; x->rank == s->rank && d < s->rank; d++) smaller |= x->dims[d] == 1 && s->dims[d] != 1;
    whole |= !smaller;
  }
  return !whole;                                       /* its elements are more than any operand's */
}
