/* cost.c: how long things take by the virtual clock: a model of flops and bytes, and of nothing else.
 *
 * At speed 1 a device computes 100 GF/s and moves 20 GB/s through its memory, whichever takes longer, and a kernel
 * costs 1 µs to begin with, or what the device's `launch` says: one core of a laptop. An accelerator is a device of
 * speed 40 or so. A device whose speed is 'measured' has the rates of this machine's kernels instead
 * (session/measure.c). The primitives of control flow, and ops that hand on what they take, cost nothing.
 */
#include "device/device.h"

const dfi_rates dfi_model_rates = { .flops = 100e9, .bytes = 20e9, .begin = 1e-6 };

double dfi_device_seconds(const dfi_device *d, double flops, double bytes) {
  const double compute = flops / d->rates.flops, memory = bytes / d->rates.bytes;
  const double speed = d->speed > 0 ? d->speed : 1, begin = d->launch > 0 ? d->launch : d->rates.begin / speed;
  return begin + (compute > memory ? compute : memory) / speed;
}

/* The slower end is what counts. The host has no links of its own. */
double dfi_link_seconds(const dfi_device *from, const dfi_device *to, int64_t bytes, double *busy) {
  double bandwidth = from->bandwidth;
  if (to->bandwidth > 0 && (bandwidth <= 0 || to->bandwidth < bandwidth)) bandwidth = to->bandwidth;
  *busy = bandwidth > 0 ? (double)bytes / bandwidth : 0;
  return *busy + (from->latency > to->latency ? from->latency : to->latency);
}

static double size_of(const df_kernel *k, int32_t i) { return i < k->nin && k->in[i] ? (double)k->in[i]->size : 1; }
static double dim_of(const df_kernel *k, int32_t i, int32_t axis) {
  if (i >= k->nin || !k->in[i] || axis >= k->in[i]->rank) return 1;
  return (double)k->in[i]->dims[axis < 0 ? k->in[i]->rank + axis : axis];
}

static double value_size(const df_value *v) { return v->kind == DF_TENSOR ? (double)v->as.tensor->size : 1; }

static double largest_of(const df_kernel *k) {
  double largest = 1;
  for (int32_t i = 0; i < k->nin; i++) if (size_of(k, i) > largest) largest = size_of(k, i);
  for (int32_t i = 0; i < k->nout; i++) if (value_size(&k->out[i]) > largest) largest = value_size(&k->out[i]);
  return largest;
}

void dfi_work_nothing(const df_kernel *k, double *flops, double *bytes) { *flops = *bytes = 0; }
void dfi_work_curve(const df_kernel *k, double *flops, double *bytes) { *flops = 10 * largest_of(k); }
void dfi_work_factors(const df_kernel *k, double *flops, double *bytes) { *flops = size_of(k, 0) * dim_of(k, 0, -1); }

static double bytes_in(const df_kernel *k, int32_t i) {
  return k->in[i] ? (double)k->in[i]->size * df_dtype_bytes(k->in[i]->dtype) : 0;
}

void dfi_work_part(const df_kernel *k, double *flops, double *bytes) {
  *flops = *bytes = 0;
  for (int32_t i = 1; i < k->nin; i++) *bytes += bytes_in(k, i);
  for (int32_t i = 0; i < k->nout; i++) {
    *flops += value_size(&k->out[i]);
    *bytes += 2 * value_size(&k->out[i]) * df_dtype_bytes(k->out[i].dtype);
  }
}

void dfi_work_change(const df_kernel *k, double *flops, double *bytes) {
  const int32_t last = k->nin - 1;
  *flops = size_of(k, last);
  *bytes = 2 * bytes_in(k, last);
  for (int32_t i = 1; i < k->nin; i++) *bytes += bytes_in(k, i);
}

/* a [.., m, k] by b [.., k, n]: 2 m k n = 2 sqrt(|a| |b| |out|), whatever is transposed; of a batch of b of them the
   root has sqrt(b) in it. */
void dfi_work_product(const df_kernel *k, double *flops, double *bytes) {
  const double n = k->nout ? value_size(&k->out[0]) : 1, product = size_of(k, 0) * size_of(k, 1) * n;
  double batch = 1;
  for (int32_t d = 0; k->in[0] && d + 2 < k->in[0]->rank; d++) batch *= (double)k->in[0]->dims[d];
  *flops = 2 * __builtin_sqrt(product / batch);
}

/* A place of the output for each of the filter, and for each input channel unless it is depthwise. A gradient takes as
 * many, of the gradient of the output, which is input 2; the filter's own is told by a list of its sizes.
 */
static double convolution(const df_kernel *k, bool depthwise) {
  const bool forward = k->nin == 2;
  const df_value *out = k->nout ? &k->out[0] : NULL;
  const df_tensor *filter = k->nin > 1 ? k->in[1] : NULL;
  if (filter && filter->rank == 1) filter = out && out->kind == DF_TENSOR ? out->as.tensor : NULL;
  double work = forward ? out ? value_size(out) : 1 : size_of(k, 2);
  for (int32_t d = 0; filter && filter->rank >= 4 && d < filter->rank - (depthwise ? 2 : 1); d++)
    work *= (double)filter->dims[d];
  return 2 * work;
}
void dfi_work_convolution(const df_kernel *k, double *flops, double *bytes) { *flops = convolution(k, false); }
void dfi_work_depthwise(const df_kernel *k, double *flops, double *bytes) { *flops = convolution(k, true); }

void dfi_work_cell(const df_kernel *k, double *flops, double *bytes) {
  *flops = 0;
  for (int32_t i = 0; i < k->nin; i++) if (k->in[i] && k->in[i]->rank == 2) *flops += 2 * (double)k->in[i]->size;
  *flops *= dim_of(k, 0, 0) > 1 ? dim_of(k, 0, 0) : 1;
}

void dfi_work_step(const df_kernel *k, double *flops, double *bytes) {
  int32_t vars = 0, grad = -1;
  while (vars < k->nin && (!k->in[vars] || (k->in[0] && k->in[vars]->size == k->in[0]->size))) vars++;
  if (vars == k->nin) vars = 1;                             /* of numbers, all of which look alike */
  for (int32_t i = vars; i < k->nin; i++)
    if (k->in[i] && (grad < 0 || k->in[i]->size > k->in[grad]->size)) grad = i;
  if (grad < 0) return;
  const double n = size_of(k, grad);
  *flops = 10 * n;
  *bytes = n * (1 + 2 * vars) * df_dtype_bytes(k->in[grad]->dtype);
}

void dfi_kernel_work(dfi_work *of, const df_kernel *k, double *flops, double *bytes) {
  double elements = 0;
  *bytes = 0;
  for (int32_t i = 0; i < k->nin; i++) {
    if (!k->in[i]) continue;
    *bytes += (double)k->in[i]->size * df_dtype_bytes(k->in[i]->dtype);
    elements += (double)k->in[i]->size;
  }
  for (int32_t i = 0; i < k->nout; i++) *bytes += value_size(&k->out[i]) * df_dtype_bytes(k->out[i].dtype);
  *flops = largest_of(k);
  if (of) of(k, flops, bytes);
  else if (elements > *flops) *flops = elements;
}
