/* fake.c: launchers of what rounds floats as if they were quantised. */
#include "plugin.h"
#include "../quantize.h"
#include <string.h>

enum { BLOCK = 256 };

/* The numbers that the attributes from `bits` on ask for. */
static dfc_faking begin(const df_kernel *k, int32_t bits) {
  dfc_faking p;
  memset(&p, 0, sizeof p);
  p.channels = 1;
  p.most = (float)(((int64_t)1 << dfk_int(k, bits)) - 1);
  p.narrow = dfk_bool(k, bits + 1);
  return p;
}

/* A range that is the host's. */
static dfc_operand number(double x) {
  dfc_operand o = { 0 };
  const float f = (float)x;
  memcpy(&o.bits, &f, sizeof f);
  return o;
}

static int32_t forth(df_kernel *k, dfc_faking p, bool given) {
  const df_tensor *x = k->in[0];
  df_tensor *y = dfk_out_reuse(k, 0, 0, DF_FLOAT32, x->rank, x->dims);
  if (!y) return k->error->code;
  if (!y->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  if (given) { p.min = dfc_operand_of(&c, k->in[1]); p.max = dfc_operand_of(&c, k->in[2]); }
  p.x = dfc_read(&c, x);
  p.y = dfc_write(&c, y);
  p.n = y->size;
  dfc_run(&c, dfc_name("fake", DF_FLOAT32), p.n, &p);
  return dfc_end(&c);
}

/* What comes back to the inputs and, of ranges that are inputs, to these. */
static int32_t back(df_kernel *k, dfc_faking p, bool given) {
  const df_tensor *x = k->in[1];
  df_tensor *y = dfk_out_like(k, 0, x);
  df_tensor *low = y && given ? dfk_out(k, 1, DF_FLOAT32, p.many, &p.channels) : NULL;
  df_tensor *high = low ? dfk_out(k, 2, DF_FLOAT32, p.many, &p.channels) : NULL;
  if (!y || (given && !high)) return k->error->code;
  dfc_call c = dfc_begin(k);
  if (given) { p.min = dfc_operand_of(&c, k->in[2]); p.max = dfc_operand_of(&c, k->in[3]); }
  p.dy = dfc_read(&c, k->in[0]);
  p.x = dfc_read(&c, x);
  p.y = dfc_write(&c, y);
  p.n = y->size;
  dfc_run(&c, dfc_name("fake_back", DF_FLOAT32), p.n, &p);
  if (given) {
    p.low = dfc_write(&c, low);
    p.high = dfc_write(&c, high);
    dfc_run_blocks(&c, dfc_name("fake_ends", DF_FLOAT32), p.channels, BLOCK, &p);
  }
  return dfc_end(&c);
}

static int32_t run_args(df_kernel *k) {
  dfc_faking p = begin(k, 2);
  p.min = number(dfk_float(k, 0));
  p.max = number(dfk_float(k, 1));
  return forth(k, p, false);
}
static int32_t run_args_back(df_kernel *k) {
  dfc_faking p = begin(k, 2);
  if (!dfk_fake_one_shape(k, k->in[0], k->in[1])) return k->error->code;
  p.min = number(dfk_float(k, 0));
  p.max = number(dfk_float(k, 1));
  return back(k, p, false);
}
static int32_t run_vars(df_kernel *k) {
  return dfk_fake_range(k, 1) ? forth(k, begin(k, 0), true) : k->error->code;
}
static int32_t run_vars_back(df_kernel *k) {
  if (!dfk_fake_one_shape(k, k->in[0], k->in[1]) || !dfk_fake_range(k, 2)) return k->error->code;
  return back(k, begin(k, 0), true);
}
static int32_t run_channels(df_kernel *k) {
  dfc_faking p = begin(k, 0);
  p.many = true;
  p.channels = dfk_fake_ranges(k, 1, k->in[0]);
  return p.channels >= 0 ? forth(k, p, true) : k->error->code;
}
static int32_t run_channels_back(df_kernel *k) {
  dfc_faking p = begin(k, 0);
  p.many = true;
  if (!dfk_fake_one_shape(k, k->in[0], k->in[1])) return k->error->code;
  p.channels = dfk_fake_ranges(k, 2, k->in[1]);
  return p.channels >= 0 ? back(k, p, true) : k->error->code;
}

static const dfi_gpu_kernel kernels[] = {
  { .op = "FakeQuantWithMinMaxArgs", .run = run_args },
  { .op = "FakeQuantWithMinMaxArgsGradient", .run = run_args_back },
  { .op = "FakeQuantWithMinMaxVars", .run = run_vars },
  { .op = "FakeQuantWithMinMaxVarsGradient", .run = run_vars_back },
  { .op = "FakeQuantWithMinMaxVarsPerChannel", .run = run_channels },
  { .op = "FakeQuantWithMinMaxVarsPerChannelGradient", .run = run_channels_back },
};
const dfc_table dfc_fakes = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
