/* cluster.c: a session whose graph runs over ranks: its devices as text, its part of a run where it is not the one that
 * has the program, and its variables that live elsewhere.
 */
#include "session/session.h"
#include "device/device.h"
#include <stdio.h>

static _Atomic(const dfi_cluster *) registered;

void dfi_cluster_set(const dfi_cluster *c) { atomic_store(&registered, c); }
const dfi_cluster *dfi_cluster_now(void) { return atomic_load(&registered); }

static _Atomic(const dfi_spmd *) spmd;

void dfi_spmd_set(const dfi_spmd *m) { atomic_store(&spmd, m); }
const dfi_spmd *dfi_spmd_now(void) { return atomic_load_explicit(&spmd, memory_order_acquire); }

void dfi_session_join(df_session *s, const dfi_cluster *c) {
  s->cluster = c;
  s->devices.far_gpus = c->gpus;
  dfi_devices_of_ranks(&s->devices, dfi_rank_me(c->rank), dfi_rank_count(c->rank));
}

/* ---- devices as text: lines, the first of which is about all ---------------------------------------------------- */

static void say_device(dfi_clipped *t, const dfi_device *v) {
  dfi_say(t, "%s,bandwidth=%.17g,latency=%.17g,speed=%.17g", v->name, v->bandwidth, v->latency, v->speed);
  if (v->launch > 0) dfi_say(t, ",launch=%.17g", v->launch);
  if (v->memory) dfi_say(t, ",memory=%lld", (long long)v->memory);
  if (v->fails_at) dfi_say(t, ",fail_at=%lld", (long long)v->fails_at);
  if (v->link_fails_at) dfi_say(t, ",link_fail_at=%lld", (long long)v->link_fails_at);
  if (v->link_stalls_at) dfi_say(t, ",link_stall_at=%lld", (long long)v->link_stalls_at);
  dfi_say(t, "\n");
}

int32_t dfi_session_device_list(df_session *s, int32_t room, char *out) {
  dfi_devices *d = &s->devices;
  dfi_clipped t = { out, room > 0 ? (size_t)room : 0, 0 };
  pthread_mutex_lock(&d->lock);
  dfi_say(&t, "%d %d %d %d %d %d\n", d->listed, d->soft, d->fallback, d->fallback_asked, d->owners, d->save);
  for (int32_t i = 0; i < d->n; i++) say_device(&t, d->at[i]);
  pthread_mutex_unlock(&d->lock);
  return (int32_t)t.n;
}

int32_t dfi_session_devices_are(df_session *s, const char *list, df_error *err) {
  dfi_devices *d = &s->devices;
  char *copy = dfi_xstrdup(list), *save = NULL;
  const char *head = strtok_r(copy, "\n", &save);
  int listed = 0, soft = 0, fallback = 0, asked = 0, owners = 0, kept = 0;
  int32_t at = 0, status = DF_OK;
  if (!head || sscanf(head, "%d %d %d %d %d %d", &listed, &soft, &fallback, &asked, &owners, &kept) != 6 || owners < 1)
    status = dfi_fail(err, DF_DATA_LOSS, NULL, "what came from rank 0 is no list of devices");
  for (const char *w = strtok_r(NULL, "\n", &save); w && !status; w = strtok_r(NULL, "\n", &save), at++) {
    const int32_t found = dfi_device_add(d, w, err);
    if (found < 0) status = err ? err->code : DF_INVALID_ARGUMENT;
    else if (found > at) {                 /* no plan knows of either yet: the list of rank 0 only grows */
      dfi_device *v = d->at[at];
      d->at[at] = d->at[found];
      d->at[found] = v;
    } else if (found < at)
      status = dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "device %d of rank 0 is `%s`, which is device %d here", at,
                        w, found);
  }
  if (!status && (fallback < 0 || fallback >= d->n))
    status = dfi_fail(err, DF_DATA_LOSS, NULL, "there is no device %d", fallback);
  dfi_free(copy);
  if (status) return status;
  d->listed = listed; d->soft = soft; d->fallback = fallback; d->fallback_asked = asked; d->owners = owners;
  d->save = (uint8_t)kept;
  return DF_OK;
}

/* ---- variables -------------------------------------------------------------------------------------------------- */

int32_t dfi_session_home(df_session *s, const df_node *handle) {
  if (s->devices.nranks == 1) return 0;
  return dfi_plan_home_rank(s->graph, &s->devices, handle);
}
