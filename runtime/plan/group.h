/* group.h: what is known while a plan's groups are found; shared by plan/group.c (which nodes hang together),
 * group_rows.c (what has to do with rows), group_make.c (a group, laid out), group_cell.c (the product before it) and
 * group_convolution.c (the convolution before it).
 */
#ifndef DFLOW_PLAN_GROUP_H
#define DFLOW_PLAN_GROUP_H
#include "plan/make.h"

/* Of a node, by id. */
typedef struct place {
  int32_t level;
  int32_t class;                  /* what can be in a group with what; 0: it cannot */
  int32_t leader;                 /* of those it hangs together with */
  int32_t waits;                  /* members before it that are not in order yet */
  uint8_t form;                   /* of its result, beside the class's shape: dfk_form */
} place;

/* Of a class's members some may take rows: all axes from `lead` on are a row, of `row` elements. lead -1: none does.
   Some may fold the `over` axes in front, to `width` elements; 0: none does. */
typedef struct class {
  const df_context *context;
  const dfi_shape  *shape;
  int32_t scope, device, lead, over;
  int64_t row, width;
} class;

typedef struct finder {
  maker   *m;
  place   *at;
  int32_t *scope_level;           /* by scope: of its Enters */
  class   *class; int32_t nclasses;      /* 1 … nclasses */
  int32_t *table; uint32_t mask;         /* of classes, by hash */
  int64_t  small;                 /* elements of a static shape that are worth it */
  uint8_t *known;                 /* by op: 0 not asked yet, else what a chain can have it as */
} finder;

/* The class of what has n's context and device and this shape. */
int32_t dfi_group_class(finder *f, const df_node *n, const dfi_shape *shape);
/* group_rows.c: n is a member: it takes rows, folds the axes in front, or passes on one element a row. Class and form
   are written. */
bool dfi_group_fits_rows(finder *f, const df_node *n, const dfi_pnode *q);
/* The same of an elementwise op whose result has one element a row. */
bool dfi_group_fits_narrow(finder *f, const df_node *n, const dfi_pnode *q);
/* Must n, one of elementwise ops, stay away from the class of its own shape? */
bool dfi_group_crosses_rows(const finder *f, const df_node *n, int32_t class);
/* Is what the member gives what a fold over axes in front leaves? Then no member reads it. */
static inline bool dfi_group_ends(const place *p) { return p->form == DFK_OVER_KEPT || p->form == DFK_OVER_GONE; }
/* group_make.c: is it a sum of a list? How a node computes (fn is NULL where it has no loop), and on a GPU. */
bool dfi_group_is_sum(const df_node *n);
dfk_loop dfi_group_loop(const df_node *n, df_kernel_fn kernel);
const char *dfi_group_element(const maker *m, const df_node *n, int32_t *attr);
bool dfi_group_on_gpu(const maker *m, const df_node *n);
/* Does it go by rows of its first input? What takes them: a function, or what a GPU's code calls the fold. */
bool dfi_group_by_rows(const maker *m, const df_node *n, df_kernel_fn kernel, dfk_rows *rows, const char **element);
/* Steps that a node takes. */
int32_t dfi_group_steps(const df_node *n);
/* The nodes, in an order in which each comes after those that it reads, become a group. */
void dfi_group_new(finder *f, df_node *const *node, int32_t n);
/* The edges that stay in q's group come first. */
void dfi_group_sort_edges(dfi_plan *p, const dfi_pnode *nodes, dfi_pnode *q);
/* group_cell.c: is q a sum that a Split cuts into gates, so that the group behind that should have it, not another
   one? The group of scope s, which is laid out, gets the product before it, if there is one. */
bool dfi_group_becomes_gates(const maker *m, const dfi_pnode *q);
void dfi_group_cell(maker *m, dfi_group *g, const dfi_scope *s);
/* The node that makes input i of q, which is one of q's context; *out: which of its outputs that is. NULL: there is
   none that could be a member. */
dfi_pnode *dfi_group_maker(const maker *m, const dfi_pnode *q, int32_t i, int32_t *out);
/* Do all that wait for t belong to the group? */
bool dfi_group_encloses(const maker *m, const dfi_pnode *t, uint32_t group);
/* The nodes become members, in front of the others, the last one first. */
void dfi_group_put_before(maker *m, dfi_group *g, dfi_pnode *const *node, int32_t n);
/* group_convolution.c: does q read a convolution that could be computed with it? The group of scope s, which is laid
   out, gets such a one. */
bool dfi_group_convolves(const maker *m, const dfi_pnode *q);
void dfi_group_convolution(maker *m, dfi_group *g, const dfi_scope *s);
/* group_product.c: products that are added at once; of nodes that have no group yet, on the host. */
void dfi_group_products(maker *m);
/* The same of products to whose rows a vector is added, on GPUs. */
void dfi_group_biased(maker *m);
/* Convolutions there, with what adds a vector to their channels, and the ReLU of that. */
void dfi_group_convolved(maker *m);
#endif
