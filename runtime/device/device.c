/* device.c: the devices of a session: found by name, made, described. */
#include "device/device.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const char *const kinds[] = { [DFI_DEVICE_CPU] = "cpu", [DFI_DEVICE_SIM] = "sim", [DFI_DEVICE_GPU] = "gpu" };
enum { KINDS = sizeof kinds / sizeof *kinds };
static const int64_t sim_memory = (int64_t)1 << 30;      /* of one without a description */

const char *dfi_device_kind_name(int32_t kind) { return kind >= 0 && kind < KINDS ? kinds[kind] : "?"; }

/* Where a device is that a name gives to this rank. */
static int32_t spread(const dfi_devices *d, int32_t rank, int32_t kind, int32_t number) {
  return d->spread && !rank && kind == DFI_DEVICE_SIM ? (number + 1) % d->nranks : rank;
}

/* The memory of a device that is no GPU; NULL: the host's own. A CPU beside the host has as much as the machine. */
static dfi_devmem *own_memory(const dfi_device *v) {
  const bool bounded = v->kind == DFI_DEVICE_SIM;
  if (!bounded && (v->kind != DFI_DEVICE_CPU || !v->number)) return NULL;
  return dfi_devmem_new(v->memory || !bounded ? v->memory : sim_memory);
}

/* here: it is one of this process's; named: its name says its rank. */
static dfi_device *device_new(int32_t rank, int32_t kind, int32_t number, bool here, bool named) {
  dfi_device *v = dfi_xcalloc(1, sizeof *v);
  if (rank && named) snprintf(v->name, sizeof v->name, "/rank:%d/%s:%d", rank, kinds[kind], number);
  else snprintf(v->name, sizeof v->name, "%s:%d", kinds[kind], number);
  v->rank = rank;
  v->kind = kind;
  v->number = number;
  v->speed = 1;
  v->rates = dfi_model_rates;
  if (here) v->arena = own_memory(v);
  else if (kind == DFI_DEVICE_SIM) v->far.limit = sim_memory;
  return v;
}

static dfi_device *gpu_new(int32_t rank, int32_t number, const dfi_remote *r) {
  dfi_device *v = device_new(rank, DFI_DEVICE_GPU, number, true, true);
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
  d->owners = d->nranks = 1;
  d->at[d->n++] = device_new(0, DFI_DEVICE_CPU, 0, true, true);
}

void dfi_devices_of_ranks(dfi_devices *d, int32_t rank, int32_t n) {
  d->rank = rank;
  d->nranks = n;
  for (int32_t i = 1; i < n; i++) d->at[d->n++] = device_new(i, DFI_DEVICE_CPU, 0, i == rank, true);
}

void dfi_devices_free(dfi_devices *d) {
  dfi_free(d->costs.seconds);
  for (int32_t i = 0; i < d->n; i++) device_free(d->at[i]);
  pthread_mutex_destroy(&d->lock);
}

void dfi_devices_simulate(dfi_devices *d) {
  d->simulated = true;
  for (int32_t i = 0; i < d->n; i++) {
    dfi_device *v = d->at[i];
    if (!v->arena) v->arena = own_memory(v);
  }
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

/* `task:3` where what is `task:`: the number. False: it is something else. */
static bool parse_number(const char *s, size_t n, const char *what, int32_t *number) {
  const size_t length = strlen(what);
  if (n <= length || n > length + 6 || strncasecmp(s, what, length)) return false;
  int32_t value = 0;
  for (size_t i = length; i < n; i++) {
    if (!isdigit((unsigned char)s[i])) return false;
    value = value * 10 + (s[i] - '0');
  }
  *number = value;
  return true;
}

/* A part of n letters between two slashes. */
static bool parse_word(const char *s, size_t n, dfi_device_name *out) {
  if (n > 4 && !strncasecmp(s, "job:", 4)) {
    snprintf(out->job, sizeof out->job, "%.*s", (int)n - 4, s + 4);
    return true;
  }
  if (n > 8 && !strncasecmp(s, "replica:", 8)) return true;
  if (n == 6 && !strncasecmp(s, "task:*", 6)) return true;
  if (parse_number(s, n, "task:", &out->task) || parse_number(s, n, "rank:", &out->rank)) return true;
  if (n > 7 && !strncasecmp(s, "device:", 7)) return parse_part(s + 7, n - 7, &out->kind, &out->number);
  return parse_part(s, n, &out->kind, &out->number);
}

bool dfi_device_parse(const char *spec, dfi_device_name *out) {
  *out = (dfi_device_name){ -1, -1, -1, -1, "" };
  if (!spec[0]) return true;
  if (spec[0] != '/') return parse_part(spec, strlen(spec), &out->kind, &out->number);
  for (const char *s = spec; *s == '/';) {
    const char *end = strchr(++s, '/');
    const size_t n = end ? (size_t)(end - s) : strlen(s);
    if (!parse_word(s, n, out)) return false;
    s += n;
    if (!*s) return true;
  }
  return false;
}

/* ---- jobs ------------------------------------------------------------------------------------------------------- */

enum { JOBS = 16, TASKS = 64 };
typedef struct job { char name[32]; int32_t ntasks; uint8_t rank[TASKS]; } job;
static job jobs[JOBS];                                 /* guarded, as what follows, by jobs_lock */
static int32_t njobs;
static char *jobs_text;                                /* owned; as they were set; NULL: they were not */
static _Atomic uint32_t jobs_version;
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t dfi_jobs_version(void) { return atomic_load_explicit(&jobs_version, memory_order_relaxed); }

char *dfi_jobs_text(void) {
  pthread_mutex_lock(&jobs_lock);
  char *text = dfi_xstrdup(jobs_text ? jobs_text : "");
  pthread_mutex_unlock(&jobs_lock);
  return text;
}

/* `3,5` up to the end of the text or a semicolon, which is returned; NULL: these are no ranks. */
static const char *parse_tasks(const char *s, job *j) {
  for (bool more = *s && *s != ';'; more;) {
    char *end;
    const long rank = strtol(s, &end, 10);
    if (end == s || rank < 0 || rank >= TASKS || j->ntasks == TASKS || !strchr(",;", *end)) return NULL;
    j->rank[j->ntasks++] = (uint8_t)rank;
    more = *end == ',';
    s = end + more;
  }
  return s;
}

/* How many jobs the text names; -1: it is not understood. */
static int32_t parse_jobs(const char *s, job *to) {
  int32_t n = 0;
  while (s && *s && n < JOBS) {
    const size_t length = strcspn(s, "=");
    if (!length || length >= sizeof to->name || !s[length]) return -1;
    to[n].ntasks = 0;
    snprintf(to[n].name, sizeof to->name, "%.*s", (int)length, s);
    s = parse_tasks(s + length + 1, &to[n++]);
    s += s && *s == ';';
  }
  return s && !*s ? n : -1;
}

bool dfi_jobs_set(const char *text) {
  job parsed[JOBS];
  const int32_t n = parse_jobs(text, parsed);
  if (n < 0) return false;
  pthread_mutex_lock(&jobs_lock);
  if (strcmp(jobs_text ? jobs_text : "", text)) {
    dfi_free(jobs_text);
    jobs_text = dfi_xstrdup(text);
    memcpy(jobs, parsed, sizeof *jobs * (size_t)n);
    njobs = n;
    atomic_fetch_add(&jobs_version, 1);
  }
  pthread_mutex_unlock(&jobs_lock);
  return true;
}

enum { NO_TASK = -1, NO_JOB = -2 };

/* The rank that a name is about: what it says, or that of its job's task; NO_TASK or NO_JOB: there is none such. The
 * job that TensorFlow gives a graph of one process, localhost, is always there. */
static int32_t rank_of(const dfi_device_name *name) {
  if (name->rank >= 0) return name->rank;
  const int32_t task = name->task < 0 ? 0 : name->task;
  pthread_mutex_lock(&jobs_lock);
  int32_t rank = njobs && name->job[0] && strcasecmp(name->job, "localhost") ? NO_JOB : task;
  for (int32_t i = 0; i < njobs && name->job[0]; i++)
    if (!strcasecmp(jobs[i].name, name->job)) rank = task < jobs[i].ntasks ? jobs[i].rank[task] : NO_TASK;
  pthread_mutex_unlock(&jobs_lock);
  return rank;
}

/* ---- found, and made --------------------------------------------------------------------------------------------- */

int32_t dfi_device_find(dfi_devices *d, int32_t rank, int32_t kind, int32_t number) {
  rank = spread(d, rank, kind, number < 0 ? 0 : number);
  for (int32_t i = 0; i < d->n; i++)
    if (d->at[i]->rank == rank && d->at[i]->kind == kind && (number < 0 || d->at[i]->number == number)) return i;
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

/* There is no such device; or, as why says, its rank could not be asked for it. */
static int32_t not_there(dfi_devices *d, const char *spec, const df_error *why, const char *where, df_error *err) {
  if (why->code != DF_UNAVAILABLE) return unknown(d, spec, why->message, where, err);
  if (!err) return -1;
  *err = *why;
  snprintf(err->source, sizeof err->source, "%s", where ? where : "");
  return -1;
}

/* Under the lock, or before another thread knows d. -1: it is a GPU that is not there; err says why. */
static int32_t add(dfi_devices *d, int32_t rank, int32_t kind, int32_t number, df_error *err) {
  const bool gpu = kind == DFI_DEVICE_GPU && rank == d->rank, named = !d->spread || kind != DFI_DEVICE_SIM || rank;
  rank = spread(d, rank, kind, number);
  const dfi_remote *r = gpu ? dfi_gpu_open(number, err) : NULL;
  if (gpu && !r) return -1;
  d->at[d->n] = r ? gpu_new(rank, number, r) : device_new(rank, kind, number, dfi_devices_here(d, rank), named);
  return d->n++;
}

void dfi_devices_add_gpus(dfi_devices *d) {
  for (int32_t rank = 0; rank < d->nranks && !d->listed; rank++) {
    const int32_t n = rank == d->rank ? dfi_gpu_count() : d->far_gpus ? d->far_gpus(rank, -1, NULL) : 0;
    pthread_mutex_lock(&d->lock);
    for (int32_t i = 0; i < n && d->n < DFI_DEVICES_MOST; i++)
      if (dfi_device_find(d, rank, DFI_DEVICE_GPU, i) < 0) add(d, rank, DFI_DEVICE_GPU, i, NULL);
    pthread_mutex_unlock(&d->lock);
  }
}

/* A GPU of another rank is asked for there; the lock is not held meanwhile. */
static bool may_add(const dfi_devices *d, int32_t rank, int32_t kind, int32_t number, df_error *err) {
  return kind != DFI_DEVICE_GPU || rank == d->rank || !d->far_gpus || d->far_gpus(rank, number, err) >= 0;
}

/* The place of a device, which is made where the list is open; -1: it is not there, and why may say more. */
static int32_t find_or_add(dfi_devices *d, int32_t rank, int32_t kind, int32_t number, df_error *why) {
  const int32_t one = number < 0 ? 0 : number;
  pthread_mutex_lock(&d->lock);
  int32_t at = dfi_device_find(d, rank, kind, number);
  pthread_mutex_unlock(&d->lock);
  if (at >= 0 || d->listed) return at;
  if (kind == DFI_DEVICE_CPU) {
    dfi_fail(why, DF_INVALID_ARGUMENT, NULL, "a session has more than one CPU where it lists them, as in "
             "df.Session{devices = {'cpu:0', 'cpu:%d'}}", number);
    return -1;
  }
  if (!may_add(d, rank, kind, one, why)) return -1;
  pthread_mutex_lock(&d->lock);
  at = dfi_device_find(d, rank, kind, number);
  if (at < 0 && d->n < DFI_DEVICES_MOST) at = add(d, rank, kind, one, why);
  pthread_mutex_unlock(&d->lock);
  return at;
}

/* There is no such rank. */
static int32_t no_rank(const dfi_devices *d, const char *spec, int32_t rank, const char *where, df_error *err) {
  if (rank < 0)
    dfi_fail(err, DF_INVALID_ARGUMENT, where, "'%s': %s (df.cluster.jobs)", spec,
             rank == NO_JOB ? "there is no such job" : "its job has no such task");
  else if (d->nranks == 1)
    dfi_fail(err, DF_INVALID_ARGUMENT, where,
             "'%s' is on rank %d, but this process is alone: start others with df.cluster.start(%d), or dflow -n %d",
             spec, rank, rank + 1, rank + 1);
  else
    dfi_fail(err, DF_INVALID_ARGUMENT, where, "'%s' is on rank %d, but there are ranks 0 to %d", spec, rank,
             d->nranks - 1);
  return -1;
}

int32_t dfi_device_of(dfi_devices *d, const char *spec, const char *where, df_error *err) {
  dfi_device_name name;
  if (!dfi_device_parse(spec, &name)) return unknown(d, spec, "", where, err);
  const int32_t rank = rank_of(&name);
  if (rank < 0 || rank >= d->nranks) return no_rank(d, spec, rank, where, err);
  if (name.kind < 0 && !rank && name.rank < 0) return -2;              /* it names a job or nothing */
  if (name.kind < 0) { name.kind = DFI_DEVICE_CPU; name.number = 0; }
  df_error why = { 0 };
  const int32_t at = find_or_add(d, rank, name.kind, name.number < 0 && rank ? 0 : name.number, &why);
  return at < 0 ? not_there(d, spec, &why, where, err) : at;
}

int32_t dfi_device_add(dfi_devices *d, const char *text, df_error *err) {
  char *copy = dfi_xstrdup(text), *save = NULL;
  char *name = strtok_r(copy, ",", &save);
  int32_t status = DF_OK;
  dfi_device_name is;
  if (!name || !dfi_device_parse(name, &is) || is.kind < 0)
    status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                      "there is no device '%s' (devices are: cpu:0, cpu:1, …, and sim:0, sim:1, …)", name ? name : "");
  else if (d->n >= DFI_DEVICES_MOST)
    status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a session has at most %d devices", DFI_DEVICES_MOST);
  int32_t at = -1;
  const int32_t rank = status ? 0 : rank_of(&is), number = is.number < 0 ? 0 : is.number;
  if (!status && (rank < 0 || rank >= d->nranks)) { no_rank(d, name, rank, NULL, err); status = DF_INVALID_ARGUMENT; }
  if (!status) {
    at = dfi_device_find(d, rank, is.kind, number);
    df_error why = { 0 };
    if (at < 0 && may_add(d, rank, is.kind, number, &why)) at = add(d, rank, is.kind, number, &why);
    if (at < 0) {
      not_there(d, name, &why, NULL, err);
      status = why.code == DF_UNAVAILABLE ? DF_UNAVAILABLE : DF_INVALID_ARGUMENT;
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
      const bool new = v->memory != (int64_t)value;
      v->memory = (int64_t)value;
      if (v->arena && new) {
        dfi_devmem_release(v->arena);
        v->arena = v->remote ? dfi_devmem_new_remote(v->remote, v->memory) : dfi_devmem_new(v->memory);
      } else if (!v->arena && v->rank == d->rank) d->host_memory = v->memory;
    } else if (!strncmp(w, "bandwidth=", 10)) v->bandwidth = value;
    else if (!strncmp(w, "latency=", 8)) v->latency = value;
    else if (!strncmp(w, "speed=", 6)) v->speed = value;
    else if (!strncmp(w, "launch=", 7)) v->launch = value;
    else if (!strncmp(w, "fail_at=", 8)) v->fails_at = (int64_t)value, d->faulty = true;
    else if (!strncmp(w, "link_fail_at=", 13)) v->link_fails_at = (int64_t)value, d->faulty = true;
    else if (!strncmp(w, "link_stall_at=", 14)) v->link_stalls_at = (int64_t)value, d->faulty = true;
    else
      status = dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                        "device %s has no `%s`; there are memory, bandwidth, latency, speed, launch, fail_at, "
                        "link_fail_at and link_stall_at", name, w);
  }
  dfi_free(copy);
  return status ? -1 : at;
}
