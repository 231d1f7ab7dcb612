/* array.c: the movers of the array family. They are the CPU's (cpu/array.c), compiled again for a device: what they
 * move by, dfk_move and its like, are launches here. */
#include "plugin.h"
#include "../array.h"
#include "../move.h"
#include "../cpu/array.c"

/* The box as a kernel wants it: dims of 1 go, neighbours that are contiguous on both sides become one. */
static void moving_of(dfc_moving *m, const dfk_box *box) {
  m->n = 1;
  for (int32_t d = 0; d < box->rank; d++) {
    m->n *= box->dims[d];
    if (box->dims[d] == 1) continue;
    const int64_t last = m->rank - 1;
    if (last >= 0 && m->to_step[last] == box->to[d] * box->dims[d] &&
        m->from_step[last] == box->from[d] * box->dims[d]) {
      m->dims[last] *= box->dims[d];
      m->to_step[last] = box->to[d];
      m->from_step[last] = box->from[d];
      continue;
    }
    m->dims[m->rank] = box->dims[d];
    m->to_step[m->rank] = box->to[d];
    m->from_step[m->rank++] = box->from[d];
  }
}

bool dfk_move(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at, const dfk_box *box) {
  const int64_t width = dfk_width(to->dtype);
  dfc_moving m;
  memset(&m, 0, sizeof m);
  moving_of(&m, box);
  if (!m.n) return true;
  dfc_call c = dfc_begin(k);
  const dfc_operand o = dfc_operand_of(&c, from);
  m.bits = o.bits;
  m.from = o.at ? (const char *)o.at + from_at * width : NULL;
  m.to = (char *)dfc_write(&c, to) + to_at * width;
  dfc_run(&c, dfc_width_name("move", width), m.n, &m);
  return dfc_end(&c) == DF_OK;
}

bool dfk_copy(df_kernel *k, df_tensor *to, int64_t to_at, const df_tensor *from, int64_t from_at, int64_t n) {
  const int64_t width = dfk_width(to->dtype);
  if (!n) return true;
  dfc_call c = dfc_begin(k);
  const char *at = dfc_read(&c, from);
  char *there = dfc_write(&c, to);
  c.ok = c.ok && dfc_ok(c.g,
                        dfc_cu.cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)(there + to_at * width),
                                                 (CUdeviceptr)(uintptr_t)(at + from_at * width), (size_t)(n * width),
                                                 dfc_stream(c.g)),
                        "cuMemcpyDtoDAsync");
  return dfc_end(&c) == DF_OK;
}

/* Where no kernel call is at hand: the device is that of the tensor's making. */
void dfk_clear(df_tensor *t) {
  dfc_gpu *g = dfc_host->device(NULL);
  if (!t->size) return;
  dfc_enter(g);
  dfc_mine(g, dfc_host->note(t));
  dfc_ok(
      g,
      dfc_cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)t->data, 0, (size_t)(t->size * dfk_width(t->dtype)),
                             dfc_stream(g)),
      "cuMemsetD8Async");
  dfc_leave(g);
}

static int32_t zeros_like(df_kernel *k) {
  df_tensor *z = dfk_out_like(k, 0, k->in[0]);
  if (!z) return k->error->code;
  dfk_clear(z);
  return DF_OK;
}

/* One, in the bits of a dtype. */
static int32_t ones_like(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *z = dfk_out_like(k, 0, x);
  if (!z) return k->error->code;
  uint64_t bits = 1;
  switch (x->dtype) {
    case DF_FLOAT32: case DF_COMPLEX64: { float one = 1; memcpy(&bits, &one, sizeof one); break; }
    case DF_FLOAT64: case DF_COMPLEX128: { double one = 1; memcpy(&bits, &one, sizeof one); break; }
    case DF_FLOAT16: bits = 0x3c00; break;
    case DF_BFLOAT16: bits = 0x3f80; break;
    default: break;
  }
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_moving m;
  memset(&m, 0, sizeof m);
  m.n = m.dims[0] = z->size;
  m.rank = m.to_step[0] = 1;
  m.bits = bits;
  m.to = dfc_write(&c, z);
  dfc_run(&c, dfc_width_name("move", dfk_width(x->dtype)), m.n, &m);
  return dfc_end(&c);
}

static bool takes_ones(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && ((DFC_ALL_TYPES | DFC_COMPLEX) >> in[0] & 1);
}

#define MOVER(type, fn, host) { .op = type, .run = fn, .host_in = host, .takes = dfc_takes_plain }
static const dfi_gpu_kernel kernels[] = {
  MOVER("Transpose", cpu_transpose, 1u << 1),
  MOVER("ConcatV2", cpu_concat, DFI_LAST_IN),
  MOVER("Split", cpu_split, 1u << 0),
  MOVER("SplitV", cpu_split_v, 1u << 1 | 1u << 2),
  MOVER("Pack", cpu_pack, 0),
  MOVER("Unpack", cpu_unpack, 0),
  MOVER("Slice", cpu_slice, 1u << 1 | 1u << 2),
  MOVER("StridedSlice", cpu_strided_slice, 0xe),
  MOVER("StridedSliceGrad", cpu_strided_slice_grad, 0xf),
  MOVER("Tile", cpu_tile, 1u << 1),
  MOVER("Pad", cpu_pad, 1u << 1),
  MOVER("PadV2", cpu_pad, 1u << 1),
  MOVER("ReverseV2", cpu_reverse, 1u << 1),
  MOVER("Roll", cpu_roll, 1u << 1 | 1u << 2),
  MOVER("BroadcastTo", cpu_broadcast_to, 1u << 1),
  MOVER("Fill", cpu_fill, 1u << 0),
  MOVER("ZerosLike", zeros_like, 0),
  { .op = "OnesLike", .run = ones_like, .takes = takes_ones },
};
const dfc_table dfc_array = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
