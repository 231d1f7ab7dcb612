/* devices.c: a session's devices and where its runs' nodes are, as others see them: texts of lines, which bindings hand
 * on as they are.
 */
#include "session/session.h"
#include "engine/owners/team.h"
#include "engine/owners/transfer.h"
#include <stdarg.h>
#include <stdio.h>

void dfi_say(dfi_clipped *t, const char *format, ...) {
  va_list a;
  va_start(a, format);
  const int n = vsnprintf(t->n < t->room ? t->at + t->n : NULL, t->n < t->room ? t->room - t->n : 0, format, a);
  va_end(a);
  if (n > 0) t->n += (size_t)n;
}

/* ---- what runs did ------------------------------------------------------------------------------------------ */

static dfi_tally_link *link_of(dfi_tally *t, uint16_t from, uint16_t to) {
  for (int32_t i = 0; i < t->nlinks; i++) if (t->link[i].from == from && t->link[i].to == to) return &t->link[i];
  t->link = dfi_xrealloc(t->link, sizeof *t->link * (size_t)(t->nlinks + 1));
  t->link[t->nlinks] = (dfi_tally_link){ .from = from, .to = to };
  return &t->link[t->nlinks++];
}

/* The runs' policies for one value become one: what was done last, and all that was done. */
static void policy_add(dfi_save_policies *l, const dfi_save_policy *h) {
  int32_t i = 0;
  while (i < l->n && l->at[i].node != h->node) i++;
  if (i == l->n) {
    DFI_GROW(l->at, l->n, l->room);
    l->at[l->n++] = *h;
    return;
  }
  dfi_save_policy sum = *h;
  sum.elements += l->at[i].elements; sum.bytes += l->at[i].bytes;
  sum.swapped += l->at[i].swapped; sum.let_go += l->at[i].let_go;
  sum.held |= l->at[i].held; sum.small |= l->at[i].small;
  l->at[i] = sum;
}

/* What one owner of a run, or several, saved. */
static void saved_add(dfi_tally *t, const dfi_saved *s) {
  dfi_swap_add(&t->swap, &s->swap);
  t->recomputed += s->recomputed;
  for (int32_t i = 0; i < s->policies.n; i++) policy_add(&t->saved, &s->policies.at[i]);
}

static void loops_add(dfi_gpu_loops *to, const dfi_gpu_loops *more) {
  to->captures += more->captures; to->entries += more->entries;
  to->launches += more->launches; to->iterations += more->iterations;
  to->persistent_launches += more->persistent_launches; to->persistent_iterations += more->persistent_iterations;
}

void dfi_tally_add(dfi_tally *t, const dfi_exec *x) {
  const dfi_plan *p = x->plan;
  t->seconds += x->seconds;
  loops_add(&t->loops, &x->gpu_loops);
  t->swap.resident_bytes = 0;
  const double stalled = t->swap.stall_seconds;
  t->swap.stall_seconds = 0;
  dfi_saved saved = dfi_swap_saved(x);
  saved_add(t, &saved);
  const dfi_exec *other;
  int64_t ran;
  for (int32_t i = 0; (ran = dfi_team_ran(x, i)) >= 0; i++) {
    if (i == t->nowners) {
      t->owner = dfi_xrealloc(t->owner, sizeof *t->owner * (size_t)(i + 1));
      t->owner[t->nowners++] = 0;
    }
    t->owner[i] += ran;
  }
  t->one_owner = dfi_team_refused(x);
  for (int32_t i = 0; (other = dfi_team_member(x, i)) != NULL; i++) {
    saved = dfi_swap_saved(other);
    saved_add(t, &saved);
  }
  if (x->team && x->setup.rank_run) saved_add(t, dfi_team_saved_elsewhere(x));
  t->swap.stall_seconds += stalled;
  for (int32_t i = 0; i < p->nlinks; i++) {
    dfi_tally_link *l = link_of(t, p->link[i].from, p->link[i].to);
    l->messages += x->traffic[i].messages;
    l->dead += x->traffic[i].dead;
    l->bytes += x->traffic[i].bytes;
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------- */

/* rank: this process's. */
static void memory_of(dfi_tally_device *to, const dfi_device *v, int32_t rank, int64_t cpu_limit) {
  snprintf(to->name, sizeof to->name, "%s", v->name);
  if (v->rank != rank && !v->arena) {      /* its limit is known before a run there has ended */
    to->in_use = v->far.in_use;
    to->peak = v->far.peak;
    to->limit = v->memory ? v->memory : v->far.limit;
  } else if (v->arena) {
    dfi_devmem_stats s;
    dfi_devmem_look(v->arena, &s);
    to->in_use = s.in_use; to->peak = s.peak; to->limit = s.limit;
  } else df_memory(&to->in_use, &to->peak, &to->limit, NULL);
  if (!v->arena && v->rank == rank && cpu_limit) to->limit = cpu_limit;
}

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

/* The most that a tally has of device i, which uses `in_use` now; -1: it is not the tally's to say. */
static int64_t peak_of(const dfi_tally *t, int32_t i, int64_t in_use) {
  const bool same_epoch = t->epoch == atomic_load(&dfi_peak_epoch);
  const int64_t before = i < t->nmost && same_epoch ? t->most[i] : 0;
  const dfi_peaks *p = t->peaks;
  if (!p) return i < t->nmost ? (same_epoch ? before : in_use) : -1;
  if (i == 0) return largest(before, dfi_peak_so_far(&p->host));
  return i < p->n && p->device[i]->arena ? largest(before, dfi_devmem_peak_so_far(p->device[i]->arena, &p->of[i])) : -1;
}

void dfi_tally_look(dfi_tally *t, dfi_devices *d, int64_t cpu_limit) {
  pthread_mutex_lock(&d->lock);
  t->device = dfi_xrealloc(t->device, sizeof *t->device * (size_t)d->n);
  t->ndevices = d->n;
  for (int32_t i = 0; i < d->n; i++) {
    memory_of(&t->device[i], d->at[i], d->rank, cpu_limit);
    const bool host = i == d->rank;
    if (!host && !d->at[i]->arena) continue;                        /* another rank's host */
    const int64_t peak = peak_of(t, host ? 0 : i, t->device[i].in_use);
    if (peak >= 0) t->device[i].peak = peak;
    else if (host || !t->of_session) t->device[i].peak = t->device[i].in_use;      /* no run, or none that was there */
  }
  pthread_mutex_unlock(&d->lock);
}

void dfi_tally_peaks_begin(dfi_tally *t, dfi_peaks *p, const dfi_devices *devices) {
  *p = (dfi_peaks){ .n = devices ? devices->n : 1 };
  dfi_peak_begin(&p->host);
  if (devices && devices->n > 1) {
    p->of = dfi_xcalloc((size_t)p->n, sizeof *p->of);
    p->device = dfi_xcalloc((size_t)p->n, sizeof *p->device);
    for (int32_t i = 1; i < p->n; i++)
      if ((p->device[i] = devices->at[i])->arena) dfi_devmem_peak_begin(p->device[i]->arena, &p->of[i]);
  }
  t->peaks = p;
}

void dfi_tally_peaks_end(dfi_tally *t) {
  dfi_peaks *p = t->peaks;
  t->peaks = NULL;
  const int64_t epoch = atomic_load(&dfi_peak_epoch);
  if (t->nmost < p->n) {
    t->most = dfi_xrealloc(t->most, sizeof *t->most * (size_t)p->n);
    for (; t->nmost < p->n; t->nmost++) t->most[t->nmost] = 0;
  }
  for (int32_t i = 0; i < p->n; i++) {
    const int64_t most = i == 0 ? dfi_peak_end(&p->host)
                         : p->device[i]->arena ? dfi_devmem_peak_end(p->device[i]->arena, &p->of[i]) : 0;
    t->most[i] = t->epoch == epoch ? largest(t->most[i], most) : most;
  }
  t->epoch = epoch;
  dfi_free(p->of); dfi_free(p->device);
}

void dfi_tally_free(dfi_tally *t) {
  dfi_free(t->link); dfi_free(t->saved.at); dfi_free(t->device); dfi_free(t->most);
  dfi_free(t->owner);
}

/* `saved value\twhere\tpolicy\telements\tbytes\tswapped\tlet go\twhy` */
static void say_saved(dfi_clipped *t, const dfi_save_policy *h) {
  static const char *const policies[] = { [DFI_SAVE_KEEP] = "keep", [DFI_SAVE_SWAP] = "swap",
                                          [DFI_SAVE_RECOMPUTE] = "recompute" };
  const char *why;
  const dfi_save outcome = dfi_save_policy_outcome(h, &why);
  const int32_t name = dfi_op_attr_index(dfi_op_info_at(h->node->op), "tensor_array_name");
  const char *value = name >= 0 ? h->node->attrs[name].s : NULL;
  dfi_say(t, "saved %s\t%s\t%s\t%lld\t%lld\t%lld\t%lld\t%s\n", value && value[0] ? value : dfi_node_name(h->node),
      h->node->where ? h->node->where : "", policies[outcome], (long long)h->elements, (long long)h->bytes,
      (long long)h->swapped, (long long)h->let_go, why);
}

static void say_memory(dfi_clipped *t, const dfi_tally_device *d) {
  dfi_say(t, "memory %s %lld %lld %lld\n", d->name, (long long)d->in_use, (long long)d->peak, (long long)d->limit);
}

size_t dfi_tally_text(const dfi_tally *tally, char *out, size_t room) {
  dfi_clipped t = { out, room, 0 };
  dfi_say(&t, "seconds %.17g\n", tally->seconds);
  for (int32_t i = 0; i < tally->ndevices; i++) say_memory(&t, &tally->device[i]);
  for (int32_t i = 0; i < tally->nlinks; i++) {
    const dfi_tally_link *l = &tally->link[i];
    dfi_say(&t, "transfer %s -> %s %lld %lld %lld\n", tally->device[l->from].name, tally->device[l->to].name,
        (long long)l->messages, (long long)l->bytes, (long long)l->dead);
  }
  const dfi_swap *s = &tally->swap;
  dfi_say(&t, "swap %lld %lld %lld %lld %lld %.17g\n", (long long)s->bytes_out, (long long)s->bytes_in,
      (long long)s->tensors_out, (long long)s->tensors_in, (long long)s->resident_bytes, s->stall_seconds);
  dfi_say(&t, "again %lld\n", (long long)tally->recomputed);
  const dfi_gpu_loops *l = &tally->loops;
  if (l->launches || l->persistent_launches || l->captures)
    dfi_say(&t, "graphs %lld %lld %lld %lld %lld %lld\n", (long long)l->captures, (long long)l->entries,
        (long long)l->launches, (long long)l->iterations, (long long)l->persistent_launches,
        (long long)l->persistent_iterations);
  dfi_say(&t, "owners ");
  for (int32_t i = 0; i < tally->nowners; i++) dfi_say(&t, "%lld ", (long long)tally->owner[i]);
  dfi_say(&t, "\n");
  if (tally->one_owner) dfi_say(&t, "one %s\n", tally->one_owner);
  for (int32_t i = 0; i < tally->saved.n; i++) say_saved(&t, &tally->saved.at[i]);
  return t.n;
}

/* `plans` made, kept, bytes of those, their limit */
static void say_plans(dfi_clipped *t, const df_session *s) {
  int64_t bytes = 0;
  for (const dfi_plan *p = s->newest; p; p = p->older) bytes += p->bytes + atomic_load(&p->idle_bytes);
  dfi_say(t, "plans %d %d %lld %lld\n", s->nplans, s->plans_kept, (long long)bytes, (long long)s->plan_limit);
}

int32_t df_session_report(df_session *s, int32_t capacity, char *out) {
  pthread_mutex_lock(&s->lock);
  const size_t space = capacity > 0 ? (size_t)capacity : 0;
  dfi_tally_look(&s->tally, &s->devices, s->memory_limit);
  dfi_clipped t = { out, space, dfi_tally_text(&s->tally, out, space) };
  say_plans(&t, s);
  pthread_mutex_unlock(&s->lock);
  return (int32_t)t.n;
}

static void say_gpu(dfi_clipped *t, const dfi_device *d) {
  dfi_gpu_about g;
  dfi_gpu_look(d->remote, &g);
  dfi_say(t, "gpu %s %lld %lld %lld %lld %s\n", d->name, (long long)g.launches, (long long)g.copies_in,
      (long long)g.copies_out, (long long)g.copies_across, g.name);
  for (const char *line = g.libraries; *line;) {
    const int n = (int)strcspn(line, "\n");
    dfi_say(t, "library %s %.*s\n", d->name, n, line);
    line += n + (line[n] != 0);
  }
}

int32_t df_session_devices(df_session *s, int32_t capacity, char *out) {
  dfi_devices_add_gpus(&s->devices);
  dfi_clipped t = { out, capacity > 0 ? (size_t)capacity : 0, 0 };
  for (int32_t i = 0; i < s->devices.n; i++) {
    dfi_say(&t, "%s ", dfi_device_kind_name(s->devices.at[i]->kind));
    const dfi_device *d = s->devices.at[i];
    dfi_tally_device memory;
    memory_of(&memory, d, s->devices.rank, s->memory_limit);
    say_memory(&t, &memory);
    if (d->remote) say_gpu(&t, d);
    if (d->measured)
      dfi_say(&t, "rates %s %.17g %.17g %.17g\n", d->name, d->rates.flops, d->rates.bytes, d->rates.begin);
  }
  return (int32_t)t.n;
}

int32_t df_device_names(int32_t capacity, char *out) {
  dfi_clipped t = { out, capacity > 0 ? (size_t)capacity : 0, 0 };
  for (int32_t kind = DFI_DEVICE_CPU; kind <= DFI_DEVICE_GPU; kind++) {
    const int32_t n = kind == DFI_DEVICE_GPU ? dfi_gpu_count() : 1;
    for (int32_t i = 0; i < n; i++) dfi_say(&t, "%s:%d ", dfi_device_kind_name(kind), i);
  }
  return (int32_t)t.n;
}

/* ---- where nodes are ------------------------------------------------------------------------------------------- */

/* Where a node went that costs decided about. */
static void say_beside(dfi_clipped *t, const dfi_plan *p, const struct dfi_place *at, const char *name) {
  if (name[0]) dfi_say(t, "beside `%s`", name);
  else if (at->device == p->devices->fallback) dfi_say(t, "with what it needs here");
  else dfi_say(t, "on a device that computes faster");
}

static void say_why(dfi_clipped *t, const dfi_plan *p, const struct dfi_place *at) {
  const char *name = at->because >= 0 && at->because < p->graph->n ? dfi_node_name(p->graph->node[at->because]) : "";
  const char *asked = p->graph->node[at->node]->device;
  switch ((dfi_why)at->why) {
  case DFI_WHY_ASKED: dfi_say(t, "asked for (%s)", asked); break;
  case DFI_WHY_COLOCATED: dfi_say(t, "asked to be with `%s`", asked[0] == '@' ? asked + 1 : asked); break;
  case DFI_WHY_RESOURCE: dfi_say(t, "with the resource of `%s`", name); break;
  case DFI_WHY_FLOW: dfi_say(t, "control flow goes with its value, of `%s`", name); break;
  case DFI_WHY_BYTES:
    dfi_say(t, "nothing asked for; it is estimated to take the least time, ");
    say_beside(t, p, at, name);
    break;
  case DFI_WHY_MEASURED:
    dfi_say(t, "nothing asked for; by what it took in a run it takes the least time, ");
    say_beside(t, p, at, name);
    break;
  case DFI_WHY_HOST:
    if (asked[0]) dfi_say(t, "asked for (%s), but there is a kernel for it on the host alone", asked);
    else dfi_say(t, "there is a kernel for it on the host alone");
    break;
  case DFI_WHY_SOFT: dfi_say(t, "asked for %s, which cannot run it: soft placement", asked); break;
  case DFI_WHY_CONSTANT: dfi_say(t, "a constant: wherever it is read"); break;
  case DFI_WHY_FED: dfi_say(t, "fed from the host"); break;
  case DFI_WHY_SCATTERED: dfi_say(t, "DFLOW_STRESS=devices"); break;
  case DFI_WHY_EQUAL: dfi_say(t, "computes what `%s` does, which is kept", name); break;
  case DFI_WHY_NEUTRAL: dfi_say(t, "changes nothing: its value is that of `%s`", name); break;
  case DFI_WHY_FOLDED: dfi_say(t, "only constants go into it: computed when the plan was made"); break;
  case DFI_WHY_FUNCTION: dfi_say(t, "frames of functions are on the default device"); break;
  case DFI_WHY_DEFAULT: dfi_say(t, "nothing asked for: the default device"); break;
  }
}

/* `owners` and by device the number of the owner that turns it; or `one` and why one does. */
static void say_owners(dfi_clipped *t, const df_session *s, const dfi_plan *p) {
  if (s->devices.owners < 2) return;
  if (p->one_owner) { dfi_say(t, "one %s\n", p->one_owner); return; }
  dfi_say(t, "owners");
  for (int32_t i = 0; i < s->devices.n; i++) dfi_say(t, " %s=%d", s->devices.at[i]->name, p->parts->owner[i] + 1);
  dfi_say(t, "\n");
}

int32_t df_session_placement(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t capacity, char *out,
                             df_error *err) {
  dfi_clipped t = { out, capacity > 0 ? (size_t)capacity : 0, 0 };
  dfi_plan *p = dfi_session_plan(s, nfetch, fetches, 0, NULL, 0, err);
  if (!p) return -1;
  for (int32_t i = 0; i < p->nplaces; i++) {
    const struct dfi_place *at = &p->place[i];
    df_node *n = p->graph->node[at->node];
    const bool out = at->why == DFI_WHY_EQUAL || at->why == DFI_WHY_FOLDED || at->why == DFI_WHY_NEUTRAL;
    dfi_say(&t, "%s\t%s\t%s\t%d%s\t", dfi_node_name(n), dfi_op_info_at(n->op)->op->type,
        s->devices.at[at->device]->name, n->id, out ? " left out" : at->loop ? " once" : "");
    if (at->loop) dfi_say(&t, "the iterations of `%s` share it: computed when first needed; ", p->scope[at->loop].name);
    say_why(&t, p, at);
    dfi_say(&t, "\n");
  }
  say_owners(&t, s, p);
  dfi_session_let_go(p);
  return (int32_t)t.n;
}
