/* fuse.h: what the writers of kernels at run time share with what launches them. */
#ifndef DFLOW_CUDA_FUSE_H
#define DFLOW_CUDA_FUSE_H
#include "plugin.h"
#include "../chain.h"

/* The source of the kernel k_fused for this chain, whose inputs meet the elements as the run says; on_host: which of
 * them are numbers that come with the launch. To be freed; NULL: no memory. */
char *dfc_fused_source(const dfk_chain_run *run, uint64_t on_host);

/* ---- for writers of a kernel's source ---- */
/* What is written so far; ok false: there was no memory. */
typedef struct dfc_text { char *at; size_t n, room; bool ok; } dfc_text;
void dfc_say(dfc_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *dfc_type_of(int32_t dtype);
/* The expression of an element of step k, whose operands are called so. */
void dfc_say_element(dfc_text *t, const dfk_step *k, const char *const *operand);
#endif
