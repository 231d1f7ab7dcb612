/* flows.c: messages that share the ports of their devices. See flows.h. */
#include "engine/clock/flows.h"
#include <math.h>

typedef struct message { uint64_t id; double bytes; int32_t next; } message;
/* left: bytes of the first message that were still there at `since`; rate: bytes a second since then. */
typedef struct line { double left, rate, since; int32_t first, last, from, to; } line;
/* busy: links that carry something through it. */
typedef struct port { double bandwidth; int32_t busy; } port;

struct dfi_flows {
  message *message; int32_t nmessages, room, free;         /* free: a list by `next`; -1: none */
  line    *line; int32_t nlines;
  port    *out, *in; int32_t ndevices;
  int32_t *active, nactive;                                /* links that carry something */
  double   next; int32_t next_at;                          /* the first of them to be done, by its place in `active` */
};

dfi_flows *dfi_flows_new(int32_t nlinks, int32_t ndevices) {
  dfi_flows *f = dfi_xcalloc(1, sizeof *f);
  f->nlines = nlinks;
  f->ndevices = ndevices;
  f->line = dfi_xcalloc((size_t)nlinks + 1, sizeof *f->line);
  f->active = dfi_xcalloc((size_t)nlinks + 1, sizeof *f->active);
  f->out = dfi_xcalloc((size_t)ndevices + 1, sizeof *f->out);
  f->in = dfi_xcalloc((size_t)ndevices + 1, sizeof *f->in);
  dfi_flows_clear(f);
  return f;
}

void dfi_flows_free(dfi_flows *f) {
  if (!f) return;
  dfi_free(f->message); dfi_free(f->line); dfi_free(f->active); dfi_free(f->out); dfi_free(f->in);
  dfi_free(f);
}

void dfi_flows_clear(dfi_flows *f) {
  f->nmessages = f->nactive = 0;
  f->free = -1;
  f->next = INFINITY;
  for (int32_t i = 0; i < f->nlines; i++) f->line[i].first = -1;
  for (int32_t i = 0; i < f->ndevices; i++) f->out[i].busy = f->in[i].busy = 0;
}

static double share(const port *p) { return p->bandwidth > 0 ? p->bandwidth / p->busy : (double)INFINITY; }

static void find_next(dfi_flows *f) {
  f->next = INFINITY;
  for (int32_t i = 0; i < f->nactive; i++) {
    const line *l = &f->line[f->active[i]];
    const double ends = l->since + l->left / l->rate;
    if (ends < f->next) { f->next = ends; f->next_at = i; }
  }
}

/* The ports of a link are shared by more or fewer from now on: what has moved so far, and how fast the rest will. */
static void share_anew(dfi_flows *f, const line *changed, double now) {
  for (int32_t i = 0; i < f->nactive; i++) {
    line *l = &f->line[f->active[i]];
    if (l->from != changed->from && l->to != changed->to) continue;
    l->left -= l->rate * (now - l->since);
    if (l->left < 0) l->left = 0;
    l->since = now;
    const double out = share(&f->out[l->from]), in = share(&f->in[l->to]);
    l->rate = out < in ? out : in;
  }
  find_next(f);
}

static void carry_first(dfi_flows *f, line *l, double now) {
  l->left = f->message[l->first].bytes;
  l->since = now;
  l->rate = 0;
}

bool dfi_flows_begin(dfi_flows *f, int32_t link, int32_t from, int32_t to, const dfi_device *a, const dfi_device *b,
                     double bytes, double now, uint64_t id, int32_t *number) {
  line *l = &f->line[link];
  if (l->first < 0 && (bytes <= 0 || (a->bandwidth <= 0 && b->bandwidth <= 0))) return true;
  int32_t m = f->free;
  if (m >= 0) f->free = f->message[m].next;
  else { DFI_GROW(f->message, f->nmessages, f->room); m = f->nmessages++; }
  f->message[m] = (message){ id, bytes, -1 };
  *number = m;
  if (l->first >= 0) {
    f->message[l->last].next = m;
    l->last = m;
    return false;
  }
  l->first = l->last = m;
  l->from = from;
  l->to = to;
  f->out[from].bandwidth = a->bandwidth;
  f->in[to].bandwidth = b->bandwidth;
  f->out[from].busy++;
  f->in[to].busy++;
  f->active[f->nactive++] = link;
  carry_first(f, l, now);
  share_anew(f, l, now);
  return false;
}

double dfi_flows_next(const dfi_flows *f) { return f->next; }

uint64_t dfi_flows_end(dfi_flows *f, double *at) {
  df_assert(f->nactive > 0);
  line *l = &f->line[f->active[f->next_at]];
  const int32_t m = l->first;
  *at = f->next;
  l->first = f->message[m].next;
  f->message[m].next = f->free;
  f->free = m;
  if (l->first >= 0) carry_first(f, l, *at);
  else {
    f->out[l->from].busy--;
    f->in[l->to].busy--;
    f->active[f->next_at] = f->active[--f->nactive];
  }
  share_anew(f, l, *at);
  return f->message[m].id;
}

void dfi_flows_rename(dfi_flows *f, int32_t m, uint64_t id) { f->message[m].id = id; }
