/* plugin.h: what the launchers share: how a kernel call finds its device, its operands and its kernels' names. */
#ifndef DFLOW_CUDA_PLUGIN_H
#define DFLOW_CUDA_PLUGIN_H
#include "device.h"
#include "params.h"

/* Dtypes that kernels are compiled for, by bits; and the end of a kernel's name for each. */
#define DFC_BIT(dtype) (1u << (dtype))
enum {
  DFC_FLOATS = DFC_BIT(DF_FLOAT32) | DFC_BIT(DF_FLOAT64) | DFC_BIT(DF_FLOAT16) | DFC_BIT(DF_BFLOAT16),
  DFC_INTS = DFC_BIT(DF_INT32) | DFC_BIT(DF_INT64) | DFC_BIT(DF_INT8) | DFC_BIT(DF_UINT8),
  DFC_BOOLS = DFC_BIT(DF_BOOL),
  DFC_NUMBERS = DFC_FLOATS | DFC_INTS,
  DFC_ALL_TYPES = DFC_NUMBERS | DFC_BOOLS,
  DFC_COMPLEX = DFC_BIT(DF_COMPLEX64) | DFC_BIT(DF_COMPLEX128)
};
/* The name of a kernel for a dtype, always the same string: "k_" prefix suffix. NULL: there is none, or no memory. */
const char *dfc_name(const char *prefix, int32_t dtype);
const char *dfc_width_name(const char *prefix, int64_t bytes);

/* A call under way: the device's lock is held from dfc_begin to dfc_end, which says what went wrong. */
enum { DFC_TEMPORARIES = 32 };
typedef struct dfc_call {
  df_kernel  *k;
  dfc_gpu    *g;
  CUdeviceptr temporary[DFC_TEMPORARIES];
  int32_t     ntemporary;
  bool        ok, said;                   /* said: the kernel's error is filled */
} dfc_call;
dfc_call dfc_begin(df_kernel *k);
int32_t  dfc_end(dfc_call *c);
/* The elements of a tensor for reading; a number of the host's, or a tensor there, is brought over for the call. */
const void *dfc_read(dfc_call *c, const df_tensor *t);
/* The same, but a number stays in the operand. */
dfc_operand dfc_operand_of(dfc_call *c, const df_tensor *t);
/* The elements of an output. */
void *dfc_write(dfc_call *c, const df_tensor *t);
/* Integers of the host's, as int64, brought over for the call. */
const int64_t *dfc_indices(dfc_call *c, const df_tensor *t);
/* Output i, made while the call is under way: its size follows from what the device computed. NULL: said. */
df_tensor *dfc_out(dfc_call *c, int32_t i, int32_t dtype, int32_t rank, const int64_t *dims);
/* Waits for what the device computed, `from`, to be the host's. */
void dfc_bring(dfc_call *c, void *to, const void *from, int64_t bytes);
/* The host waits for `what`: false, and the error is filled, where a graph is being made, which cannot hold it. */
bool dfc_waits(df_kernel *k, const char *what);
/* Memory for the call; of the host's bytes, or (from NULL) as it comes. */
void *dfc_temporary(dfc_call *c, const void *from, int64_t bytes);
/* Gives back what was made for the call so far, once what was enqueued has read it: for loops over many inputs. */
void dfc_drop(dfc_call *c);
/* One thread for each of n; blocks of 256, no more than the device can hold at once eight times over. */
void dfc_run(dfc_call *c, const char *name, int64_t n, const void *args);
/* So many blocks of so many threads. */
void dfc_run_blocks(dfc_call *c, const char *name, int64_t blocks, int32_t threads, const void *args);

/* elementwise.c: output 0 is f of input 0, by the kernel of this prefix and the input's dtype; f of so many inputs,
 * which broadcast, by the kernel `name`. */
int32_t dfc_map(df_kernel *k, const char *prefix, double param);
int32_t dfc_map_spread(df_kernel *k, const char *name, int32_t count, int32_t dtype, double param);

/* reduce.c: z[columns], the sum of the rows of x. */
void dfc_sum_rows(dfc_call *c, int32_t dtype, const void *x, void *z, int64_t rows, int64_t columns);

/* random.c: the key and the counter of TensorFlow's stream that the inputs from `at` on ask for. False: error is
 * filled. */
bool dfc_dealt(df_kernel *k, int32_t at, dfc_drawing *p);

/* rejection_sampling.c: element i of a tensor of the host's. */
double dfc_number_of(const df_tensor *t, int64_t i);

/* search.c: the indices of each row of n elements, greatest first and NaN before all, of equal ones the first first.
 * NULL: each row has one element. */
const int32_t *dfc_sorted(dfc_call *c, int32_t dtype, const void *x, int64_t rows, int64_t n);

/* The tables, one for each file of launchers. */
typedef struct dfc_table { const dfi_gpu_kernel *at; int32_t n; } dfc_table;
extern const dfc_table dfc_elementwise, dfc_array, dfc_reduce, dfc_index, dfc_products, dfc_random,
    dfc_windows, dfc_makers,
    dfc_by_segment, dfc_searches, dfc_norms, dfc_einsums, dfc_cells, dfc_resizes, dfc_fakes, dfc_pictures,
    dfc_bands, dfc_choices, dfc_complexes, dfc_fouriers, dfc_matrix, dfc_rejection_samplings, dfc_boxed,
    dfc_attentions;

/* fuse.c: dfi_remote.fused, .fused_run and dfi_gpu_api.fuses. */
void *dfc_fused(void *device, const dfk_chain_run *run, uint64_t on_host, int64_t n, int64_t times, bool at_once);
bool dfc_fused_run(void *device, void *kernel, const dfk_chain_run *run, int64_t n, void *const *in_note,
                   void *const *out_note);
bool dfc_fused_has(const char *op, int32_t nin, const uint8_t *in, int32_t out, const char **element, int32_t *attr);

/* persistent.c: dfi_remote.persistent and .persistent_run, dfi_gpu_api.counts. */
bool dfc_persistent_has(const char *op, int32_t nin, const uint8_t *in, int32_t out, const char **element,
                        dfk_persistent_care *care);
void *dfc_persistent(void *device, const dfk_persistent *w, int64_t saved_ns, bool at_once);
bool dfc_persistent_run(void *device, void *kernel, const dfk_persistent *w, dfi_remote_persistent *run);

/* product.c: dfi_remote.biased; window.c: .convolved. */
bool dfc_biased(void *device, const dfi_remote_biased *l);
bool dfc_convolved(void *device, const dfi_remote_convolved *l);

/* Ready-made .takes: of the first input, or of the first output, one of these. */
bool dfc_takes_numbers(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out);
bool dfc_takes_floats(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out);
/* numbers or complex ones; floats or complex ones; complex ones */
bool dfc_takes_ring(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out);
bool dfc_takes_field(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out);
bool dfc_takes_complex(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out);
/* any dtype that is mere bytes, of all inputs */
bool dfc_takes_plain(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out);
#endif
