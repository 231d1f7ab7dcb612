/* options.c: what a new session is told, in words `key=value` and by the environment.
 */
#include "session/session.h"
#include "base/stress.h"
#include "plan/batch.h"
#include "engine/engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The place of a word in a list that ends with NULL; -1: it is not there. */
static int32_t word_of(const char *value, const char *const *words) {
  for (int32_t i = 0; words[i]; i++) if (!strcmp(value, words[i])) return i;
  return -1;
}

/* A number from `least` up, and nothing behind it; -1: it is none. */
static double amount_of(const char *value, double least) {
  char *end;
  const double v = strtod(value, &end);
  return end != value && !*end && v >= least ? v : -1;
}

/* How many threads; 0: it is no such number. */
static int32_t threads_of(const char *value) {
  char *end;
  const long n = strtol(value, &end, 10);
  return !*end && n >= 1 && n <= 1024 ? (int32_t)n : 0;
}

/* Options: each takes its value, or says with false that it is none. */
static bool take_threads(df_session *s, const char *value) { return (s->threads = threads_of(value)) > 0; }
static bool take_owners(df_session *s, const char *value) { return (s->devices.owners = threads_of(value)) > 0; }
static bool take_timeout(df_session *s, const char *value) { return (s->timeout = amount_of(value, 0)) >= 0; }
static bool take_timeout_rank(df_session *s, const char *value) { return (s->timeout_rank = amount_of(value, 0)) > 0; }
static bool take_kernels(df_session *s, const char *value) {
  const int32_t at = word_of(value, (const char *[]){ "cpu", "ref", NULL });
  s->reference_kernels = at == 1;
  return at >= 0;
}
static bool take_engine(df_session *s, const char *value) {
  static const char *const names[] = { [DFI_ENGINE_AUTO] = "auto", [DFI_ENGINE_TOKENS] = "tokens",
                                       [DFI_ENGINE_NATIVE] = "native", [DFI_ENGINE_PRIMITIVES] = "primitives", NULL };
  const int32_t at = word_of(value, names);
  if (at >= 0) s->engine = at;
  return at >= 0;
}
static bool take_clock(df_session *s, const char *value) {
  const int32_t at = word_of(value, (const char *[]){ "real", "virtual", "virtual_owners", NULL });
  s->devices.virtual_clock = at >= 1;
  s->devices.owner_windows = at == 2;
  return at >= 0;
}
static bool take_save(df_session *s, const char *value) {
  static const char *const names[] = { [DFI_SAVE_KEEP] = "keep", [DFI_SAVE_SWAP] = "swap",
                                       [DFI_SAVE_RECOMPUTE] = "recompute", [DFI_SAVE_AUTO] = "auto", NULL };
  const int32_t at = word_of(value, names);
  if (at >= 0) s->devices.save = (uint8_t)at;
  return at >= 0;
}
/* `memory` of the session and of its device cpu:0 are one limit: the smaller. */
static void limit_memory(df_session *s, int64_t bytes) {
  if (bytes && (!s->memory_limit || bytes < s->memory_limit)) s->memory_limit = bytes;
}
static bool take_memory(df_session *s, const char *value) {
  const double bytes = amount_of(value, 1);
  if (!(bytes >= 1 && bytes <= DFI_ADDRESSES)) return false;
  limit_memory(s, (int64_t)bytes);
  return true;
}
static bool take_plans(df_session *s, const char *value) {
  const double bytes = amount_of(value, 0);
  if (!(bytes >= 0 && bytes <= DFI_ADDRESSES)) return false;
  s->plan_limit = (int64_t)bytes;
  return true;
}
static bool take_simplify(df_session *s, const char *value) {
  s->as_written = !strcmp(value, "no");
  return s->as_written || !strcmp(value, "yes");
}
static bool take_batch(df_session *s, const char *value) {
  const int32_t at = word_of(value, (const char *[]){ "no", "auto", "yes", NULL });
  s->batch = at == 1 ? DFI_PLAN_BATCH_CALLS : at == 2 ? DFI_PLAN_BATCH : 0;
  return at >= 0;
}
static bool take_lone(df_session *s, const char *value) {
  s->lone = !strcmp(value, "yes");
  return s->lone || !strcmp(value, "no");
}
static bool take_soft(df_session *s, const char *value) {
  s->devices.soft = !strcmp(value, "yes");
  return s->devices.soft || !strcmp(value, "no");
}

static const struct {
  const char *key;
  bool (*take)(df_session *s, const char *value);
  const char *expected;
} options[] = {
  { "threads", take_threads, "a number from 1 to 1024" },
  { "timeout", take_timeout, "a number of seconds" },
  { "timeout_rank", take_timeout_rank, "a number of seconds" },
  { "kernels", take_kernels, "cpu or ref" },
  { "engine", take_engine, "auto, tokens, native or primitives" },
  { "lone", take_lone, "yes or no" },
  { "batch", take_batch, "yes, no or auto" },
  { "simplify", take_simplify, "yes or no" },
  { "soft", take_soft, "yes or no" },
  { "clock", take_clock, "real or virtual" },
  { "save", take_save, "keep, swap, recompute or auto" },
  { "owners", take_owners, "a number from 1 to 1024" },
  { "memory", take_memory, "a number of bytes, at most the 128 TB that a process can address" },
  { "plans", take_plans, "a number of bytes, at most the 128 TB that a process can address" },
};

static int32_t take_device(df_session *s, const char *value, df_error *err) {
  const int32_t at = dfi_device_add(&s->devices, value, err);
  if (at < 0) return DF_INVALID_ARGUMENT;
  limit_memory(s, s->devices.host_memory);
  dfi_devices_measure(&s->devices);
  if (!s->devices.listed) { s->devices.fallback = at; s->devices.fallback_asked = at > 0; }
  s->devices.listed = true;
  return DF_OK;
}

static int32_t read_option(df_session *s, const char *key, const char *value, df_error *err) {
  if (!strcmp(key, "device")) return take_device(s, value, err);
  char known[200] = "device";
  for (size_t i = 0, n = strlen(known); i < sizeof options / sizeof *options; i++) {
    if (strcmp(key, options[i].key)) {
      n += (size_t)snprintf(known + n, sizeof known - n, ", %s", options[i].key);
      continue;
    }
    if (options[i].take(s, value)) return DF_OK;
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s = %s, but it must be %s", key, value, options[i].expected);
  }
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no session option `%s`; there are %s", key, known);
}

static int32_t read_options(df_session *s, const char *text, df_error *err) {
  char *copy = dfi_xstrdup(text ? text : ""), *save = NULL;
  int32_t status = DF_OK;
  for (char *w = strtok_r(copy, " ", &save); w && !status; w = strtok_r(NULL, " ", &save)) {
    char *eq = strchr(w, '=');
    if (!eq) status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "session option `%s` has no value", w);
    else { *eq = 0; status = read_option(s, w, eq + 1, err); }
  }
  dfi_free(copy);
  return status;
}

/* The seed of a kind of stress, odd; 0: it is not wanted. */
static uint64_t stress(const char *kind) {
  uint64_t seed;
  return dfi_stress(kind, &seed) ? seed * 2 + 1 : 0;
}

/* DFLOW_DEFAULT_DEVICE and what DFLOW_STRESS says of devices. */
static int32_t devices_of_environment(df_session *s, df_error *err) {
  const char *asked = getenv("DFLOW_DEFAULT_DEVICE");
  s->devices.scatter = stress("devices");
  s->devices.swap_always = dfi_stress("swap", NULL);
  s->devices.late = dfi_stress("late", NULL);
  uint64_t owners;
  if (s->devices.owners < 2 && dfi_stress("owners", &owners) && owners < 1024) s->devices.owners = (int32_t)owners;
  if (dfi_stress("recompute", NULL) && !s->devices.save) s->devices.save = DFI_SAVE_RECOMPUTE;
  if (!asked || !asked[0] || s->reference_kernels) return DF_OK;       /* the reference kernels are the host's */
  df_error unlisted;                       /* a session that lists other devices places on those */
  const int32_t at = dfi_device_of(&s->devices, asked, NULL, s->devices.listed ? &unlisted : err);
  if (at == -1) return s->devices.listed ? DF_OK : DF_INVALID_ARGUMENT;
  if (at >= 0) { s->devices.fallback = at; s->devices.fallback_asked = true; }
  return DF_OK;
}

int32_t dfi_session_options(df_session *s, const char *text, df_error *err) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  s->threads = cores > 0 ? (int32_t)cores : 1;
  s->plan_limit = (int64_t)DFI_PLAN_LIMIT;
  const char *engine = getenv("DFLOW_ENGINE");
  int32_t status = engine && engine[0] ? read_option(s, "engine", engine, err) : DF_OK;
  if (!status) status = read_options(s, text, err);
  if (!status) status = devices_of_environment(s, err);
  s->shuffle = stress("shuffle");
  s->osr = stress("osr");
  if (s->engine == DFI_ENGINE_TOKENS) s->osr = 0;          /* asked for by name: what others are compared with */
  if (s->osr && s->engine != DFI_ENGINE_PRIMITIVES) s->engine = DFI_ENGINE_NATIVE;
  return status;
}
