/* device.c: the devices of a session: found by name, made, described. */
#include "device/device.h"
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

static const char *const kinds[] = { [DFI_DEVICE_CPU] = "cpu", [DFI_DEVICE_SIM] = "sim", [DFI_DEVICE_GPU] = "gpu" };
enum { KINDS = sizeof kinds / sizeof *kinds };
static const int64_t sim_memory = (int64_t)1 << 30;      /* of one that nobody described */

const char *dfi_device_kind_name(int32_t kind) { return kind >= 0 && kind < KINDS ? kinds[kind] : "?"; }

static dfi_device *device_new(int32_t kind, int32_t number) {
  dfi_device *v = dfi_xcalloc(1, sizeof *v);
  snprintf(v->name, sizeof v->name, "%s:%d", kinds[kind], number);
  v->kind = kind;
  v->number = number;
  v->speed = 1;
  v->rates = dfi_model_rates;
  if (kind == DFI_DEVICE_SIM) v->arena = dfi_devmem_new(sim_memory);
  return v;
}

static dfi_device *gpu_new(int32_t number, const dfi_remote *r) {
  dfi_device *v = device_new(DFI_DEVICE_GPU, number);
  v->remote = r;
  v->arena = dfi_devmem_new_remote(r, 0);
  return v;
}

static void device_free(dfi_device *v) {
  dfi_devmem_release(v->arena);
  dfi_free(v);
}

void dfi_devices_init(dfi_devices *d) {
  memset(d, 0, sizeof *d);
  pthread_mutex_init(&d->lock, NULL);
  d->owners = 1;
  d->at[d->n++] = device_new(DFI_DEVICE_CPU, 0);
}

void dfi_devices_free(dfi_devices *d) {
  dfi_free(d->costs.seconds);
  for (int32_t i = 0; i < d->n; i++) device_free(d->at[i]);
  pthread_mutex_destroy(&d->lock);
}

/* One part of a name, `SIM:1` or `sim`, of n letters. */
static bool parse_part(const char *s, size_t n, int32_t *kind, int32_t *number) {
  for (int32_t k = 0; k < KINDS; k++) {
    const size_t length = strlen(kinds[k]);
    if (n < length || strncasecmp(s, kinds[k], length)) continue;
    if (n == length) { *kind = k; return true; }
    if (s[length] != ':' || n < length + 2 || n > length + 7) continue;
    int32_t value = 0;
    for (size_t i = length + 1; i < n; i++) {
      if (s[i] == '*' && n == length + 2) { *kind = k; return true; }
      if (!isdigit((unsigned char)s[i])) return false;
      value = value * 10 + (s[i] - '0');
    }
    *kind = k;
    *number = value;
    return true;
  }
  return false;
}

bool dfi_device_parse(const char *spec, int32_t *kind, int32_t *number) {
  *kind = *number = -1;
  if (!spec[0]) return true;
  if (spec[0] != '/') return parse_part(spec, strlen(spec), kind, number);
  for (const char *s = spec; *s == '/';) {
    const char *end = strchr(++s, '/');
    const size_t n = end ? (size_t)(end - s) : strlen(s);
    static const char *const places[] = { "job:", "replica:", "task:" };
    bool known = false;
    for (int32_t i = 0; i < 3 && !known; i++)
      known = n > strlen(places[i]) && !strncasecmp(s, places[i], strlen(places[i]));
    if (!known && n > 7 && !strncasecmp(s, "device:", 7)) known = parse_part(s + 7, n - 7, kind, number);
    else if (!known) known = parse_part(s, n, kind, number);
    if (!known) return false;
    s += n;
    if (!*s) return true;
  }
  return false;
}

int32_t dfi_device_find(dfi_devices *d, int32_t kind, int32_t number) {
  for (int32_t i = 0; i < d->n; i++) if (d->at[i]->kind == kind && (number < 0 || d->at[i]->number == number)) return i;
  return -1;
}

/* why: more than that it is not in the list; "". */
static int32_t unknown(dfi_devices *d, const char *spec, const char *why, const char *where, df_error *err) {
  char names[300] = "";
  size_t at = 0;
  for (int32_t i = 0; i < d->n && at < sizeof names - 40; i++)
    at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", d->at[i]->name);
  dfi_fail(err, DF_INVALID_ARGUMENT, where, "there is no device '%s' (devices are: %s%s)%s%s", spec, names,
           d->listed ? "" : ", and sim:0, sim:1, …", *why ? ": " : "", why);
  return -1;
}

/* Under the lock, or before anybody else knows d. -1: it is a GPU that is not there; err says why. */
static int32_t add(dfi_devices *d, int32_t kind, int32_t number, df_error *err) {
  const dfi_remote *r = kind == DFI_DEVICE_GPU ? dfi_gpu_open(number, err) : NULL;
  if (kind == DFI_DEVICE_GPU && !r) return -1;
  d->at[d->n] = r ? gpu_new(number, r) : device_new(kind, number);
  return d->n++;
}

void dfi_devices_add_gpus(dfi_devices *d) {
  const int32_t n = d->listed ? 0 : dfi_gpu_count();
  pthread_mutex_lock(&d->lock);
  for (int32_t i = 0; i < n && d->n < DFI_DEVICES_MOST; i++)
    if (dfi_device_find(d, DFI_DEVICE_GPU, i) < 0) add(d, DFI_DEVICE_GPU, i, NULL);
  pthread_mutex_unlock(&d->lock);
}

int32_t dfi_device_of(dfi_devices *d, const char *spec, const char *where, df_error *err) {
  int32_t kind, number;
  if (!dfi_device_parse(spec, &kind, &number)) return unknown(d, spec, "", where, err);
  if (kind < 0) return -2;                             /* it names a job or nothing */
  pthread_mutex_lock(&d->lock);
  int32_t at = dfi_device_find(d, kind, number);
  const bool may = at < 0 && !d->listed && kind != DFI_DEVICE_CPU && d->n < DFI_DEVICES_MOST;
  df_error why = { 0 };
  if (may) at = add(d, kind, number < 0 ? 0 : number, &why);
  pthread_mutex_unlock(&d->lock);
  return at >= 0 ? at : unknown(d, spec, why.message, where, err);
}

int32_t dfi_device_add(dfi_devices *d, const char *text, df_error *err) {
  char *copy = dfi_xstrdup(text), *save = NULL;
  const char *name = strtok_r(copy, ",", &save);
  int32_t kind = -1, number = -1, status = DF_OK;
  if (!name || !dfi_device_parse(name, &kind, &number) || kind < 0 ||
      (kind == DFI_DEVICE_CPU && number > 0))
    status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                      "there is no device '%s' (devices are: cpu:0, and sim:0, sim:1, …)", name ? name : "");
  else if (d->n >= DFI_DEVICES_MOST)
    status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a session has at most %d devices", DFI_DEVICES_MOST);
  int32_t at = -1;
  if (!status) {
    if (number < 0) number = 0;
    at = dfi_device_find(d, kind, number);
    df_error why = { 0 };
    if (at < 0 && (at = add(d, kind, number, &why)) < 0) {
      unknown(d, name, why.message, NULL, err);
      status = DF_INVALID_ARGUMENT;
    }
  }
  for (char *w = strtok_r(NULL, ",", &save); w && !status; w = strtok_r(NULL, ",", &save)) {
    if (!strcmp(w, "speed=measured")) { d->at[at]->measured = true; continue; }
    char *eq = strchr(w, '='), *end = w;
    double value = eq ? strtod(eq + 1, &end) : 0;
    if (!eq || *end || !(value >= 0)) {
      status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "device %s: `%s` is not understood", name, w);
      break;
    }
    dfi_device *v = d->at[at];
    if (!strncmp(w, "memory=", 7) && value > DFI_ADDRESSES)
      status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "device %s: `%s` is more than a process can address", name, w);
    else if (!strncmp(w, "memory=", 7)) {
      if (v->arena) {
        dfi_devmem_release(v->arena);
        v->arena = v->remote ? dfi_devmem_new_remote(v->remote, (int64_t)value) : dfi_devmem_new((int64_t)value);
      }
      else d->host_memory = (int64_t)value;
    } else if (!strncmp(w, "bandwidth=", 10)) v->bandwidth = value;
    else if (!strncmp(w, "latency=", 8)) v->latency = value;
    else if (!strncmp(w, "speed=", 6)) v->speed = value;
    else if (!strncmp(w, "fail_at=", 8)) v->fails_at = (int64_t)value, d->faulty = true;
    else if (!strncmp(w, "link_fail_at=", 13)) v->link_fails_at = (int64_t)value, d->faulty = true;
    else if (!strncmp(w, "link_stall_at=", 14)) v->link_stalls_at = (int64_t)value, d->faulty = true;
    else
      status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                        "device %s has no `%s`; there are memory, bandwidth, latency, speed, fail_at, link_fail_at and "
                        "link_stall_at", name, w);
  }
  dfi_free(copy);
  return status ? -1 : at;
}
