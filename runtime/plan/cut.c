/* cut.c: a plan is cut over its devices: wherever a value crosses, a Transfer comes between.
 *
 * There is one for each (output, destination), so a value crosses once however many read it there, and so does the news
 * that it is dead. It is a node of the plan in the scope where the value is read: the key of the paper's rendezvous,
 * (edge, tag), is this node and the record that it fires in. A loop constant crosses once a frame: the loop is entered
 * again by a constant Enter on the other device. What is given when the run begins crosses then. A reference stays
 * where its variable is: another owner is sent the value that it refers to.
 *
 * The device that computes a loop's predicate sends it to each other device. A tree, in which each device sends it on
 * to four, takes less work: eight processes on two processors took 6.7 us of processor time an iteration with a tree,
 * and 7.4 us without. But a device of a tree sends the predicate on only when it has begun that iteration itself,
 * and those that it sends to cannot run ahead of it. Eight devices in a pipeline (the paper's Fig. 12) were 2.9 times
 * as fast as one with a tree, and 5 times without.
 */
#include "plan/place.h"
#include <stdio.h>

/* Indices of what crosses without being an output's value: that a node has run; that an output has come. */
enum { CONTROL = -1 };
static int32_t signal_of(int32_t index) { return -2 - index; }

/* ---- what crosses already ------------------------------------------------------------------------- */

static uint32_t slot_of(const maker *m, int32_t node, int32_t index, int32_t device) {
  uint32_t h = ((uint32_t)node * 31u + (uint32_t)(index + 1)) * 0x9e3779b1u ^ (uint32_t)device * 0x85ebca6bu;
  for (h = (h ^ h >> 15) & m->across_mask;; h = (h + 1) & m->across_mask) {
    const struct crossing_place *at = &m->across[h];
    if (at->to == 0 || (at->node == node && at->index == index && at->device == device)) return h;
  }
}

static void remember(maker *m, int32_t node, int32_t index, int32_t device, int32_t to) {
  if (!m->across || m->nacross * 2 > m->across_mask) {
    struct crossing_place *old = m->across;
    const uint32_t slots = old ? m->across_mask + 1 : 0;
    m->across_mask = old ? m->across_mask * 2 + 1 : 255;
    m->across = dfi_xcalloc((size_t)m->across_mask + 1, sizeof *m->across);
    for (uint32_t i = 0; i < slots; i++)
      if (old[i].to) m->across[slot_of(m, old[i].node, old[i].index, old[i].device)] = old[i];
    dfi_free(old);
  }
  m->across[slot_of(m, node, index, device)] = (struct crossing_place){ node, index, device, to };
  m->nacross++;
}

/* What stands for (node, index) on a device: see crossing_place.to; 0: nothing yet. */
static int32_t known(const maker *m, int32_t node, int32_t index, int32_t device) {
  return m->across ? m->across[slot_of(m, node, index, device)].to : 0;
}

/* ---- nodes that only the plan has ------------------------------------------------------------------ */

df_node *dfi_plan_extra(maker *m, const df_node *like, int32_t nin, int32_t ncontrol, int32_t nout) {
  dfi_plan *p = m->plan;
  if (p->nextra == m->extra_cap) {
    m->extra_cap = m->extra_cap ? m->extra_cap * 2 : 32;
    const size_t ids = (size_t)m->nids + (size_t)m->extra_cap + 1;
    p->extra = dfi_xrealloc(p->extra, sizeof *p->extra * (size_t)m->extra_cap);
    m->mark = dfi_xrealloc(m->mark, sizeof *m->mark * ids);
    m->needed = dfi_xrealloc(m->needed, sizeof *m->needed * ids);
    m->const_index = dfi_xrealloc(m->const_index, sizeof *m->const_index * ids);
    m->variable_index = dfi_xrealloc(m->variable_index, sizeof *m->variable_index * ids);
  }
  df_node *n = dfi_xcalloc(1, sizeof *n);
  *n = *like;
  n->id = m->nids + p->nextra;
  n->nin = nin; n->ncontrol = ncontrol; n->nout = nout;
  n->in = dfi_xcalloc((size_t)nin + 1, sizeof *n->in);
  n->control = dfi_xcalloc((size_t)ncontrol + 1, sizeof *n->control);
  n->out = dfi_xcalloc((size_t)nout + 1, sizeof *n->out);
  p->extra[p->nextra++] = n;
  mark *k = &m->mark[n->id];
  *k = (mark){ .needed = true, .scope = -1, .number = -1, .duplicate = -1, .copy_scope = -1, .why_node = -1 };
  m->const_index[n->id] = m->variable_index[n->id] = -1;
  m->needed[m->nneeded++] = n->id;
  return n;
}

int32_t dfi_plan_link(dfi_plan *p, int32_t from, int32_t to) {
  for (int32_t i = 0; i < p->nlinks; i++) if (p->link[i].from == from && p->link[i].to == to) return i;
  p->link = dfi_xrealloc(p->link, sizeof *p->link * (size_t)(p->nlinks + 1));
  p->link[p->nlinks] = (dfi_link){ (uint16_t)from, (uint16_t)to };
  return p->nlinks++;
}

/* The scope in which the outputs of a node are read. */
static int32_t read_scope(const maker *m, const df_node *n) {
  const mark *k = &m->mark[n->id];
  return flow_of(n) == DF_EXIT    ? m->plan->scope[k->scope].parent
         : flow_of(n) == DF_ENTER ? (int32_t)k->child_scope
                                  : k->scope;
}

static void becomes_transfer(maker *m, df_node *n, const char *name, int32_t scope, int32_t source, int32_t to) {
  n->name = dfi_xstrdup(name);
  n->op = dfi_op_find("Transfer")->id;
  n->attrs = dfi_op_find("Transfer")->defaults;
  mark *k = &m->mark[n->id];
  k->scope = scope;
  k->device = (int16_t)source;
  k->child_scope = (uint32_t)dfi_plan_link(m->plan, source, to);         /* make_node reads it there */
}

static void transfer_new(maker *m, df_output from, int32_t index, int32_t source, int32_t to) {
  if (known(m, from.node->id, index, to)) return;
  const bool value = index != CONTROL;
  df_node *n = dfi_plan_extra(m, from.node, value, !value, value);
  char name[300];
  const bool host = to & DFI_READ_ON_HOST;
  const int32_t device = to & ~DFI_READ_ON_HOST;
  snprintf(name, sizeof name, "%s:%d to %s%s", dfi_node_name(from.node), value ? index : 0,
      m->devices->at[device]->name,
           host ? " (read on the host)" : "");
  becomes_transfer(m, n, name, read_scope(m, from.node), source, device);
  if (value) {
    n->in[0] = from;
    n->out[0] = from.node->out[from.index];
    n->out[0].constant = NULL;
    n->out[0].ref = false;
  } else n->control[0] = from.node;
  m->mark[n->id].asked = host;
  remember(m, from.node->id, index, to, n->id);
}

/* What waits for a handle, and reads it not, on another owner's device: the token goes there, alive or dead, and the
   handle stays. */
static void signal_new(maker *m, df_output from, int32_t source, int32_t to) {
  if (known(m, from.node->id, signal_of(from.index), to)) return;
  df_node *n = dfi_plan_extra(m, from.node, 1, 0, 0);
  char name[300];
  snprintf(name, sizeof name, "%s:%d to %s", dfi_node_name(from.node), from.index, m->devices->at[to]->name);
  becomes_transfer(m, n, name, read_scope(m, from.node), source, to);
  n->in[0] = from;
  remember(m, from.node->id, signal_of(from.index), to, n->id);
}

void dfi_plan_cut_end(maker *m, df_node *like, int32_t scope, int32_t from, int32_t to) {
  char name[400];
  df_node *n = dfi_plan_extra(m, like, 0, 0, 0);
  n->in[0].node = like;                     /* no input: whose name it goes by */
  snprintf(name, sizeof name, "end of %s to %s", m->plan->scope[scope].name, m->devices->at[to]->name);
  becomes_transfer(m, n, name, scope, from, to);
}

void dfi_plan_cut_control(maker *m, df_node *from, int32_t to) {
  transfer_new(m, (df_output){ from, 0 }, CONTROL, m->mark[from->id].device, to);
}

/* The loop is entered by the same constant on another device. */
static void enter_again(maker *m, df_node *enter, int32_t to) {
  if (known(m, enter->id, 0, to)) return;
  df_node *n = dfi_plan_extra(m, enter, enter->nin, enter->ncontrol, enter->nout);
  memcpy(n->in, enter->in, sizeof *n->in * (size_t)enter->nin);
  if (enter->ncontrol) memcpy(n->control, enter->control, sizeof *n->control * (size_t)enter->ncontrol);
  n->out[0] = enter->out[0];
  n->out[0].constant = NULL;
  n->name = dfi_xstrdup(dfi_node_name(enter));
  mark *k = &m->mark[n->id];
  k->scope = m->mark[enter->id].scope;
  k->child_scope = m->mark[enter->id].child_scope;
  k->device = (int16_t)to;
  remember(m, enter->id, 0, to, n->id);
}

static void cross_when_it_begins(maker *m, df_output from, int32_t to) {
  dfi_plan *p = m->plan;
  if (known(m, from.node->id, from.index, to)) return;
  m->crossed = dfi_xrealloc(m->crossed, sizeof *m->crossed * (size_t)(p->ncrossings + 1));
  m->crossed[p->ncrossings].from = from;
  m->crossed[p->ncrossings].device = to;
  remember(m, from.node->id, from.index, to, -2 - p->ncrossings++);
}

/* ---- the cut ------------------------------------------------------------------------------------------ */

/* Does the reader (NULL: a fetch) on device d want the value of a reference that is another owner's? */
static bool reads_far_reference(const maker *m, const df_node *reader, df_output from, dfi_comes how, int32_t d) {
  const dfi_parts *a = m->plan->parts;
  if (!a || how != DFI_COMES_TOKEN || from.index < 0 || !from.node->out[from.index].ref) return false;
  for (int32_t j = 0; reader && j < reader->nin; j++)
    if (dfi_same(dfi_plan_origin(m, reader->in[j]), from) && dfi_input_is_reference(reader, j)) return false;
  return a->owner[m->mark[from.node->id].device] != a->owner[d & ~DFI_READ_ON_HOST];
}

/* The device from which the value comes to a reader on device d; DFI_ANY_DEVICE: it may be read from anywhere. */
static int32_t source_of(const maker *m, const df_node *reader, df_output from, dfi_comes how, int32_t d) {
  return reads_far_reference(m, reader, from, how, d) ? m->mark[from.node->id].device
                                                      : dfi_plan_device_of(m, from, how);
}

static void cut_value(maker *m, const df_node *reader, df_output o) {
  const int32_t d = dfi_plan_wanted(m, reader, o);
  const df_output from = dfi_plan_origin(m, o);
  const dfi_comes how = dfi_plan_comes(m, reader, from);
  const int32_t source = source_of(m, reader, from, how, d);
  if (source == DFI_ANY_DEVICE || source == (d & ~DFI_READ_ON_HOST)) return;
  switch (how) {
  case DFI_COMES_TOKEN: transfer_new(m, from, from.index, source, d); break;
  case DFI_COMES_FED: case DFI_COMES_GIVEN: cross_when_it_begins(m, from, d); break;
  case DFI_COMES_LOOP_CONSTANT: enter_again(m, from.node, d & ~DFI_READ_ON_HOST); break;
  case DFI_COMES_VARIABLE: case DFI_COMES_CONSTANT: break;
  }
}

static void cut_controls(maker *m, const df_node *holder, int32_t d) {
  for (int32_t c = 0; c < holder->ncontrol; c++) {
    df_node *by = holder->control[c];
    const df_output from = by->nout ? dfi_plan_origin(m, (df_output){ by, 0 }) : (df_output){ by, 0 };
    if (feed_of(m, from) >= 0 || dfi_plan_is_given(m, from)) continue;
    const int32_t source = m->mark[from.node->id].device;
    if (source == d) continue;
    if (dfi_plan_is_loop_constant(from.node)) enter_again(m, from.node, d);
    else if (dfi_plan_passes_on(by) && by != from.node) {
      if (dfi_plan_device_of(m, from, DFI_COMES_TOKEN) == DFI_ANY_DEVICE) {
        const dfi_parts *a = m->plan->parts;
        if (a && a->owner[source] != a->owner[d]) signal_new(m, from, source, d);
        continue;
      }
      transfer_new(m, from, from.index, source, d);
    } else transfer_new(m, from, CONTROL, source, d);
  }
}

void dfi_plan_cut(maker *m) {
  for (int32_t i = 0; i < m->nneeded; i++) {            /* it grows meanwhile */
    df_node *n = dfi_plan_node(m, m->needed[i]);
    const mark k = m->mark[n->id];
    if (k.merged || k.given_token || flow_of(n) == DF_TRANSFER) continue;
    for (int32_t j = 0; j < n->nin; j++) cut_value(m, n, n->in[j]);
    cut_controls(m, n, k.device);
    for (int32_t j = 0; j < n->nin && k.reads_gate; j++) {
      df_output unused;
      df_node *gate;
      if (!dfi_plan_comes_as_token(m, n, n->in[j], &unused, &gate) && gate) cut_controls(m, gate, k.device);
    }
  }
  for (int32_t i = 0; i < m->plan->nfetch; i++) {
    const df_output o = { m->graph->node[m->plan->signature[2 * i]], m->plan->signature[2 * i + 1] };
    if (o.index < 0 || dfi_dtype(o) == DF_RESOURCE) continue;
    const df_output from = dfi_plan_origin(m, o);
    const mark *k = &m->mark[from.node->id];
    /* what cannot be fetched is found out later */
    if (dfi_plan_comes(m, NULL, from) == DFI_COMES_TOKEN && !k->merged && flow_of(from.node) != DF_ENTER &&
        read_scope(m, from.node) == 0)
      cut_value(m, NULL, o);
  }
}

df_output dfi_plan_across(const maker *m, const df_node *reader, df_output from, dfi_comes how, int32_t d,
                          int32_t *given) {
  *given = -1;
  const int32_t source = source_of(m, reader, from, how, d);
  if (source == DFI_ANY_DEVICE || source == (d & ~DFI_READ_ON_HOST)) return from;
  const int32_t to = known(m, from.node->id, from.index, how == DFI_COMES_LOOP_CONSTANT ? d & ~DFI_READ_ON_HOST : d);
  if (to <= -2) { *given = -2 - to; return from; }
  return to > 0 ? (df_output){ dfi_plan_node(m, to), 0 } : from;
}

df_output dfi_plan_control_across(const maker *m, df_output from, int32_t *index, int32_t d) {
  if (m->mark[from.node->id].device == d) return from;
  int32_t to = known(m, from.node->id, dfi_plan_is_loop_constant(from.node) ? 0 : *index, d);
  if (!to) to = known(m, from.node->id, signal_of(*index), d);
  if (to <= 0) return from;
  *index = CONTROL;
  return (df_output){ dfi_plan_node(m, to), 0 };
}
