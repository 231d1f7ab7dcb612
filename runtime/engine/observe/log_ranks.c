/* log_ranks.c: the logs of all ranks of a run become one.
 *
 * A rank sends its log when its part is over, some events at a time. A frame has numbers of its own on each rank; it is
 * one where loop, frame around it and iteration are the same, is open when the first rank has opened its part, and over
 * when the last one has ended its own. A function's is its caller's alone.
 *
 * Clocks: a rank's is ahead of rank 0's by less than what its word to begin seemed to take, and by more than the
 * negative of what its log seemed to take. Where it may be no difference at all there is none (ranks of one host); else
 * the middle is taken.
 */
#include "engine/observe/halt.h"
#include "engine/observe/log.h"
#include "engine/owners/rank.h"
#include <string.h>

typedef struct stretch { double began, ordered, sent; int64_t n; } stretch;       /* sent before n events */
typedef struct dfi_far_log far_log;
struct dfi_far_log {
  far_log *next;        /* in the order in which they came */
  int32_t from;
  double  came;
  stretch head;
  df_event event[];
};

void dfi_far_log_free(far_log *l) {
  for (far_log *next; l; l = next) { next = l->next; dfi_free(l); }
}

void dfi_log_send(dfi_exec *x) {
  const dfi_watch *w = x->watch;
  const int64_t all = atomic_load(&w->nevents);
  struct { stretch head; df_event event[DFI_CHUNK_EVENTS]; } *part = dfi_xmalloc(sizeof *part);
  for (int64_t i = 0; i < all; i += DFI_CHUNK_EVENTS) {
    const int64_t n = all - i < DFI_CHUNK_EVENTS ? all - i : DFI_CHUNK_EVENTS;
    part->head = (stretch){ w->began, w->ordered_at, dfi_now(), n };
    for (int64_t k = 0; k < n; k++) part->event[k] = *dfi_log_at(w, i + k);
    dfi_halt_say_log(w->halt, part, sizeof part->head + sizeof *part->event * (size_t)n);
  }
  dfi_free(part);
}

void dfi_log_come(far_log **own, int32_t from, const void *bytes, int64_t n) {
  stretch head;
  if (n < (int64_t)sizeof head) return;
  memcpy(&head, bytes, sizeof head);
  if (head.n < 0 || head.n > DFI_CHUNK_EVENTS) return;
  if (n != (int64_t)(sizeof head + sizeof(df_event) * (size_t)head.n)) return;
  far_log *l = dfi_xmalloc(sizeof *l + sizeof *l->event * (size_t)head.n);
  *l = (far_log){ .from = from, .came = dfi_now(), .head = head };
  memcpy(l->event, (const char *)bytes + sizeof head, sizeof *l->event * (size_t)head.n);
  while (*own) own = &(*own)->next;
  *own = l;
}

/* ---- frames by what they are ------------------------------------------------------------------------------------ */

typedef struct known {
  uint32_t id, parent;
  int32_t  scope;
  int64_t  number, open, end;              /* open, end: events; -1 */
} known;

typedef struct merge {
  dfi_watch *w;
  known    *frame; int32_t nframes, frame_room;
  int32_t  *by_key; uint32_t mask;         /* 1 + place in `frame`; 0: free */
  int32_t  *by_id; int64_t ids;            /* the same, by number */
  int32_t   from;                          /* whose numbers `of` has */
  uint32_t *of; int64_t nof;               /* by a rank's own number: ours */
  int64_t   gone;                          /* events that another one stands for */
} merge;

enum { GONE = 255 };

static uint32_t hash(uint32_t parent, int32_t scope, int64_t number) {
  uint64_t h = ((uint64_t)parent << 32 | (uint32_t)scope) * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 31 ^ (uint64_t)number) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(h >> 32);
}

static known *find(const merge *m, uint32_t parent, int32_t scope, int64_t number) {
  for (uint32_t h = hash(parent, scope, number); m->mask && m->by_key[h & m->mask]; h++) {
    known *k = &m->frame[m->by_key[h & m->mask] - 1];
    if (k->parent == parent && k->scope == scope && k->number == number) return k;
  }
  return NULL;
}

static void place(merge *m, int32_t i) {
  const known *k = &m->frame[i];
  uint32_t h = hash(k->parent, k->scope, k->number);
  while (m->by_key[h & m->mask]) h++;
  m->by_key[h & m->mask] = i + 1;
}

static known *add(merge *m, known k) {
  DFI_GROW(m->frame, m->nframes, m->frame_room);
  m->frame[m->nframes++] = k;
  if ((uint32_t)m->nframes * 2 > m->mask) {
    m->mask = m->mask ? m->mask * 2 + 1 : 127;
    dfi_free(m->by_key);
    m->by_key = dfi_xcalloc((size_t)m->mask + 1, sizeof *m->by_key);
    for (int32_t i = 0; i < m->nframes; i++) place(m, i);
  } else place(m, m->nframes - 1);
  if (k.id >= m->ids) {
    const int64_t more = 2 * (int64_t)k.id + 64;
    m->by_id = dfi_xrealloc(m->by_id, sizeof *m->by_id * (size_t)more);
    memset(m->by_id + m->ids, 0, sizeof *m->by_id * (size_t)(more - m->ids));
    m->ids = more;
  }
  m->by_id[k.id] = m->nframes;
  return &m->frame[m->nframes - 1];
}

static known *by_id(const merge *m, uint32_t id) {
  return id < m->ids && m->by_id[id] ? &m->frame[m->by_id[id] - 1] : NULL;
}

/* What rank 0 has logged itself, and seen open elsewhere. */
static void own_frames(merge *m) {
  const int64_t n = atomic_load(&m->w->nevents);
  for (int64_t i = 0; i < n; i++) {
    const df_event *e = dfi_log_at(m->w, i);
    known *k = e->kind == DF_EVENT_FRAME_END ? by_id(m, (uint32_t)e->frame) : NULL;
    if (k) k->end = i;
    if (e->kind == DF_EVENT_FRAME_OPEN)
      add(m, (known){ (uint32_t)e->frame, (uint32_t)e->node, e->scope, e->iteration, i, -1 });
  }
  for (int32_t i = 0; i < m->w->nopen; i++) {
    const dfi_logged_frame *l = &m->w->open[i];
    if (!by_id(m, l->id)) add(m, (known){ l->id, l->parent, l->scope, l->number, -1, -1 });
  }
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

/* Our number of a rank's frame; false: it has none. */
static bool ours(const merge *m, int32_t theirs, int32_t *id) {
  if (theirs == 0) { *id = 0; return true; }
  if (theirs < 0 || theirs >= m->nof || !m->of[theirs]) return false;
  *id = (int32_t)m->of[theirs];
  return true;
}

static void names(merge *m, int64_t theirs, uint32_t id) {
  if (theirs >= m->nof) {
    const int64_t more = 2 * theirs + 64;
    m->of = dfi_xrealloc(m->of, sizeof *m->of * (size_t)more);
    memset(m->of + m->nof, 0, sizeof *m->of * (size_t)(more - m->nof));
    m->nof = more;
  }
  m->of[theirs] = id;
}

/* The place of an event that is added; -1: there is no room. */
static int64_t added(merge *m, df_event e) {
  return dfi_log_add(m->w, e) ? atomic_load(&m->w->nevents) - 1 : -1;
}

static void opens(merge *m, df_event e) {
  int32_t parent;
  if (e.frame <= 0 || !ours(m, e.node, &parent)) return;
  const bool called = m->w->exec->plan->parts->called[e.scope];
  known *k = called ? NULL : find(m, (uint32_t)parent, e.scope, e.iteration);
  if (!k) k = add(m, (known){ ++m->w->logged_frames, (uint32_t)parent, e.scope, e.iteration, -1, -1 });
  names(m, e.frame, k->id);
  if (k->open >= 0) {
    df_event *first = dfi_log_at(m->w, k->open);
    if (e.at < first->at) first->at = e.at;
    return;
  }
  e.frame = (int32_t)k->id;
  e.node = parent;
  k->open = added(m, e);
}

static void ends(merge *m, df_event e) {
  int32_t parent;
  if (!ours(m, e.frame, &e.frame) || !ours(m, e.node, &parent)) return;
  known *k = by_id(m, (uint32_t)e.frame);
  if (!k) return;
  if (k->end >= 0) {
    df_event *last = dfi_log_at(m->w, k->end);
    if (e.at < last->at) return;
    last->kind = GONE;
    m->gone++;
  }
  e.node = parent;
  k->end = added(m, e);
}

/* What is left out: of a frame that was opened and is not known to be. */
static void take(merge *m, df_event e) {
  const dfi_plan *p = m->w->exec->plan;
  if (e.scope < 0 || e.scope >= p->nscopes || e.kind > DF_EVENT_FRAME_END) return;
  if (e.kind == DF_EVENT_FRAME_OPEN) opens(m, e);
  else if (e.kind == DF_EVENT_FRAME_END) ends(m, e);
  else if (e.node >= 0 && e.node < p->graph->n && e.device >= -1 - p->nlinks && e.device < p->devices->n &&
           ours(m, e.frame, &e.frame))
    added(m, e);
}

static void compact(merge *m) {
  const int64_t n = atomic_load(&m->w->nevents);
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++)
    if (dfi_log_at(m->w, i)->kind != GONE) *dfi_log_at(m->w, kept++) = *dfi_log_at(m->w, i);
  atomic_store(&m->w->nevents, kept);
}

/* How much later by our clock something is than by that of the rank. */
static double behind(const far_log *l) {
  const double most = l->head.began - l->head.ordered, least = l->head.sent - l->came;
  return least <= 0 && most >= 0 ? 0 : -(most + least) / 2;
}

void dfi_log_merge(dfi_watch *w) {
  merge m = { .w = w, .from = -1 };
  const far_log *all = dfi_halt_log(w->halt);
  if (!all) return;
  own_frames(&m);
  for (int32_t r = 0; r < DFI_RANKS_MOST; r++) {
    m.nof = 0;
    m.of = NULL;
    for (const far_log *l = all; l; l = l->next) {
      if (l->from != r) continue;
      const int64_t later = (int64_t)((l->head.began + behind(l) - w->began) * 1e9);
      for (int64_t i = 0; i < l->head.n; i++) {
        df_event e = l->event[i];
        e.at = e.at + later < 0 ? 0 : e.at + later;
        take(&m, e);
      }
    }
    if (m.of) dfi_halt_names(w->halt, r, m.of, m.nof);
  }
  if (m.gone) compact(&m);
  dfi_free(m.frame); dfi_free(m.by_key); dfi_free(m.by_id);
}
