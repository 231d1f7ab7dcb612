--- What the page of a run does: it is given `run`, made in dflow/inspect/report.lua. The picture of token k is a
-- function of k alone, so walking there and back again changes nothing.
local M = {}

M.text = [==[
'use strict';
const $ = id => document.getElementById(id), NS = 'http://www.w3.org/2000/svg';
const make = (name, attrs, parent, text) => {
  const e = document.createElementNS(NS, name);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
};
const element = (name, attrs, parent, text) => {
  const e = document.createElement(name);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
};

// ---- the log ----
// One of two layers is drawn: all primitives, or, as an ordinary run fires, without what the plan merged.
const layer = run.layers.length > 1 && /merged$/.test(location.hash) ? 1 : 0, { edges, pictures } = run.layers[layer];
const shows = (layer, k) => !(layer && run.nodes[run.node[k]].merged);
const tokensOf = layer => {                                  // which there are, and how far apart the first and the last are
  const list = [...run.node.keys()].filter(k => shows(layer, k)), total = layer ? run.merged : run.total;
  return { list, total, first: upTo(list, run.first - 1), missing: total - list.length };
};
function upTo(list, k) {                                     // how many of a rising list are at most k
  let low = 0, high = list.length;
  while (low < high) { const m = (low + high) >> 1; if (list[m] <= k) low = m + 1; else high = m; }
  return low;
}
const tokens = tokensOf(layer), { total, first, missing } = tokens, N = tokens.list.length;
const column = list => tokens.list.map(k => list[k]);
const sums = list => { let s = 0; return Float64Array.from(column(Float64Array.from(list, d => s += d))); };
const node = column(run.node), frame = sums(run.frame), iteration = sums(run.iteration), at = sums(run.at), took = column(run.took), memory = sums(run.memory);
const died = column(run.dead), dead = i => died[i] === '1';
const whole = missing || run.lost ? 'on this page' : 'in all';
const number = i => 1 + (missing && i >= first ? i + missing : i);       // of all tokens of the run
const indexOf = k => Math.max(0, upTo(tokens.list, k) - 1);  // of the last one here that is not after that of the page
if (run.fail && run.fail.token !== undefined) run.fail.token = shows(layer, run.fail.token) ? indexOf(run.fail.token) : undefined;
const scopes = new Map(run.scopes.map(s => [s.id, s]));
const MANY = iteration.reduce((a, b) => Math.max(a, b), 0) + 2;
const place = (f, it) => f * MANY + it;                      // a frame and an iteration as one number
const paths = new Map();                                     // by place: the iterations around it, outermost first
const pathOf = (f, it) => {
  if (!f) return [];
  const key = place(f, it);
  let p = paths.get(key);
  if (!p) { const [up, n] = run.frames[f - 1]; p = pathOf(up, n).concat(it); paths.set(key, p); }
  return p;
};
const tagOf = (f, it) => {
  if (!f) return '';
  const [up, n, s] = run.frames[f - 1], outer = tagOf(up, n);
  return (outer ? outer + '/' : '') + scopes.get(s).name + ':' + it;
};
const tag = i => tagOf(frame[i], iteration[i]);
// White text is easy to read on each of these.
const colors = ['#0b63c4', '#a8501c', '#1f7a3d', '#a2307a', '#6450c4', '#0d727d', '#b02f38', '#6f6200', '#44648a', '#84478a'];
const colorOf = path => colors[path.reduce((sum, n, i) => sum + n * (path.length - i === 1 ? 1 : 3), 0) % colors.length];
const of = run.nodes.map(() => []);                          // the tokens of each node
for (let i = 0; i < N; i++) of[node[i]].push(i);

// ---- what lies on the edges: pairs of the token that made a value and the token that used it ----
const children = new Map();
run.frames.forEach(([up, n, s], i) => {
  const key = up + ':' + n + ':' + s;
  if (!children.has(key)) children.set(key, []);
  children.get(key).push(i + 1);
});
const byPlace = run.nodes.map(() => new Map());
for (let i = 0; i < N; i++) byPlace[node[i]].set(place(frame[i], iteration[i]), i);
const held = run.live && run.live.next !== undefined;        // the run is paused, and goes on from here
const wires = edges.map(([a, b, port]) => {
  const pairs = [], kind = run.nodes[a].type.replace(/^Ref/, ''), own = byPlace[a];
  const left = kind === 'Exit' ? new Map(of[a].map(i => [frame[i], i])) : null;
  for (const j of of[b]) {
    const f = frame[j], it = iteration[j];
    let i;
    if (kind === 'NextIteration') i = it ? own.get(place(f, it - 1)) : undefined;
    else if (kind === 'Enter') i = f && it === 0 ? own.get(place(run.frames[f - 1][0], run.frames[f - 1][1])) : undefined;
    else if (kind === 'Exit') {
      const inside = children.get(f + ':' + it + ':' + run.nodes[a].scope) || [];
      for (const c of inside) i = left.get(c) !== undefined ? left.get(c) : i;
    } else i = own.get(place(f, it));
    if (i !== undefined && i < j) pairs.push([i, j]);
  }
  if (held && !/Switch$/.test(kind)) {                       // what was not used yet lies there
    const used = new Set(pairs.map(p => p[0]));
    for (const i of of[a]) if (!used.has(i) && !dead(i)) pairs.push([i, Infinity]);
  }
  pairs.sort((x, y) => x[0] - y[0] || x[1] - y[1]);
  return { made: pairs.map(p => p[0]), used: pairs.map(p => p[1]), port, a, b };
});
// A Switch does not log where its value went, but the nodes behind it tell.
const side = new Map();
for (const w of wires) {
  if (!/Switch$/.test(run.nodes[w.a].type) || /Merge$/.test(run.nodes[w.b].type)) continue;
  w.made.forEach((i, n) => { if (w.used[n] < N && !dead(w.used[n])) side.set(i, w.port); });
}
const deadOn = (w, n) => {
  const i = w.made[n];
  if (dead(i)) return true;
  if (!/Switch$/.test(run.nodes[w.a].type)) return false;
  return side.has(i) ? side.get(i) !== w.port : dead(w.used[n]);
};

// ---- the graph: one of its pictures ----
const world = $('world');
let picture = null, boxes = [], lines = [], chips = null;
const itemOf = new Int32Array(run.nodes.length);             // of the picture: what shows a node; -1: nothing does
const roomOn = l => {                                        // how many chips have room on a line
  l.length = l.length || l.path.getTotalLength();
  return Math.max(1, Math.min(5, Math.floor((l.length - 4) / 20)));
};
const spot = (l, n) => {                                     // where the n-th chip lies
  l.spots = l.spots || [];
  return l.spots[n] = l.spots[n] || l.path.getPointAtLength(Math.max(8, Math.min(l.length - 8, l.length * .5 + (n % 2 ? 1 : -1) * Math.ceil(n / 2) * 18)));
};
function drawFrame(s) {
  const g = make('g', { class: s.depth % 2 ? 'frame' : 'frame odd' }, world);
  make('rect', { x: s.x, y: s.y, width: s.w, height: s.h, rx: 9 }, g);
  const t = make('text', { x: s.x + 10, y: s.y + 16 }, g);
  make('tspan', {}, t, s.name);
  t.appendChild(document.createTextNode(s.where ? '  ' + s.where : ''));
}
function drawLines() {
  const by = new Map();                                      // the wires of a line, by its ends
  for (const w of wires) {
    const a = itemOf[w.a], b = itemOf[w.b], key = a + ':' + b;
    if (a < 0 || b < 0 || a === b) continue;
    if (by.has(key)) by.get(key).push(w); else by.set(key, [w]);
  }
  lines = picture.lines.map(([a, b, way]) => {
    const from = picture.items[a], to = picture.items[b], all = by.get(a + ':' + b) || [];
    const own = from.nodes || to.nodes ? all : all.splice(0, 1);             // between two nodes each wire has a line
    const l = { wires: own, plain: to.y < from.y + from.h ? 'edge back' : 'edge' };
    l.shown = l.plain;
    l.path = make('path', { class: l.plain, d: way }, world);
    if (from.nodes || !own.length || !/Switch$/.test(run.nodes[own[0].a].type)) return l;
    const p = l.path.getPointAtLength(0), ports = new Set(own.map(w => w.port));
    if (ports.size === 1) make('text', { class: 'side', x: p.x + 4, y: p.y + 11 }, world, own[0].port === 1 ? 'T' : 'F');   // by which side a Switch lets it out
    return l;
  });
}
function drawItem(n) {
  const nodes = n.nodes || [n.node], own = run.nodes[n.node], name = own ? own.name : n.title;
  const g = make('g', { class: 'node', 'data-name': name, 'data-runs': 0, 'data-tag': '', 'data-dead': 0, role: 'button', 'aria-label': name }, world);
  g.setAttribute('tabindex', 0);
  const rect = make('rect', { x: n.x, y: n.y, width: n.w, height: n.h, rx: 5, style: '' }, g);
  make('text', { x: n.x + n.w / 2, y: n.y + n.h / 2 + 4 }, g, own ? own.label : `${n.title} · ${nodes.length} nodes`);
  const about = own ? `${name} = ${own.type}(${own.args.join(', ')})\n${own.source}` : `${name}: ${nodes.length} nodes; a click opens it\n${n.where || ''}`;
  const title = make('title', {}, g, about), go = () => { if (n.picture === undefined) nextOf(nodes); else enter(n.picture); };
  g.addEventListener('click', () => { if (!moved) go(); });
  g.addEventListener('keydown', e => { if (e.key === 'Enter') go(); });
  const list = n.nodes ? nodes.flatMap(i => of[i]).sort((a, b) => a - b) : of[n.node];
  return { g, rect, n, title, about, list, closed: n.nodes ? ' closed' : '', shown: '', style: '' };
}
//- Draws a picture, and says where it is among the others.
function enter(p) {
  picture = pictures[p];
  itemOf.fill(-1);
  picture.items.forEach((n, i) => (n.nodes || [n.node]).forEach(k => { itemOf[k] = i; }));
  world.replaceChildren();
  picture.boxes.forEach(drawFrame);
  drawLines();
  boxes = picture.items.map(drawItem);
  chips = make('g', { class: 'chips' }, world);
  if (held && itemOf[run.live.next] >= 0) boxes[itemOf[run.live.next]].g.setAttribute('data-next', 1);
  const crumbs = $('crumbs');
  crumbs.replaceChildren();
  crumbs.hidden = pictures.length === 1;
  for (let q = p; q !== undefined; q = pictures[q].up) {
    const to = q, b = element('button', q === p ? { 'aria-current': 'true' } : {}, null, pictures[q].title);
    b.onclick = () => enter(to);
    crumbs.prepend(b);
  }
  following = true;
  view = null;
  drawMap();
  if (!started) return;
  world.removeAttribute('class');
  show(now);
  world.getBoundingClientRect();                             // it is there now, and glides from here on
  glide();
}
function chip(x, y, text, path, gone) {
  const g = make('g', { class: gone ? 'gone' : '' }, chips), w = 6 + 6.2 * text.length;
  make('rect', { x: x - w / 2, y: y - 7.5, width: w, height: 15, rx: 7, style: gone ? '' : `fill:${colorOf(path)}` }, g);
  make('text', { class: 'chip', x, y: y + 3.5 }, g, text);
}

// ---- where one looks ----
let view = null, moved = false, following = true, started = false;
const map = $('map'), seen = make('rect', { class: 'seen' }), here = make('circle', {});
function drawMap() {                                         // all of the picture, small, and what of it is in sight
  const k = Math.min(170 / picture.w, 130 / picture.h);
  map.replaceChildren();
  map.setAttribute('viewBox', `0 0 ${picture.w} ${picture.h}`);
  map.setAttribute('width', Math.max(20, picture.w * k)); map.setAttribute('height', Math.max(20, picture.h * k));
  picture.boxes.forEach(b => make('rect', { class: 'part', x: b.x, y: b.y, width: b.w, height: b.h }, map));
  picture.items.forEach(n => make('rect', { x: n.x, y: n.y, width: n.w, height: n.h }, map));
  here.setAttribute('r', 3 / k);
  map.append(here, seen);
}
function showMap() {
  const r = room, { x, y, k } = view, n = N ? picture.items[itemOf[node[now]]] : null;
  map.toggleAttribute('hidden', picture.w * k <= r.width + 1 && picture.h * k <= r.height + 1);
  for (const [name, v] of [['x', -x / k], ['y', -y / k], ['width', r.width / k], ['height', r.height / k]]) seen.setAttribute(name, v);
  here.setAttribute('cx', n ? n.x + n.w / 2 : -1e6); here.setAttribute('cy', n ? n.y + n.h / 2 : -1e6);
}
function goOnMap(e) {
  const r = map.getBoundingClientRect(), k = view.k, x = (e.clientX - r.left) / r.width * picture.w, y = (e.clientY - r.top) / r.height * picture.h;
  leave();
  look(room.width / 2 - x * k, room.height / 2 - y * k, k);
}
map.addEventListener('pointerdown', e => { map.setPointerCapture(e.pointerId); goOnMap(e); });
map.addEventListener('pointermove', e => { if (e.buttons) goOnMap(e); });
const svg = $('svg'), glide = () => world.setAttribute('class', 'glide');
function look(x, y, k) {
  view = { x, y, k };
  world.style.transform = `translate(${x}px, ${y}px) scale(${k})`;
  if (room) showMap();
}
const centred = (from, size, whole, seen, k) => {            // a stretch in the middle, no empty space beyond the graph
  if (whole * k <= seen) return (seen - whole * k) / 2;
  return Math.min(0, Math.max(seen - whole * k, seen / 2 - (from + size / 2) * k));
};
let room = null;                                             // asked for once: the answer makes the browser lay out all that is new
const measure = () => { room = svg.getBoundingClientRect(); };
function follow(i) {                                         // to the outermost frame around a node that fits, else to the page it is on
  const n = picture.items[itemOf[i]], r = room;
  if (!following) return;
  if (!n) { if (!view) whole_picture(); return; }
  const k = Math.min(1.3, Math.max(.8, Math.min(r.width / picture.w, r.height / picture.h)));
  const around = b => b.x <= n.x && b.y <= n.y && b.x + b.w >= n.x + n.w && b.y + b.h >= n.y + n.h;
  const fits = picture.boxes.find(b => around(b) && b.w * k <= r.width && b.h * k <= r.height);
  const half = size => size / k / 2, page = (from, seen) => Math.floor(from / half(seen)) * half(seen);
  const box = fits || { x: page(n.x, r.width), y: page(n.y, r.height), w: half(r.width), h: half(r.height) };
  look(centred(box.x, box.w, picture.w, r.width, k), centred(box.y, box.h, picture.h, r.height, k), k);
}
function whole_picture() {
  const r = room, k = Math.min(1.3, r.width / picture.w, r.height / picture.h);
  look(centred(0, picture.w, picture.w, r.width, k), centred(0, picture.h, picture.h, r.height, k), k);
}
svg.addEventListener('wheel', e => {
  e.preventDefault();
  leave();
  const r = svg.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
  const k = Math.min(6, Math.max(.05, view.k * Math.exp(-e.deltaY / 400))), f = k / view.k;
  look(x - (x - view.x) * f, y - (y - view.y) * f, k);
}, { passive: false });
function leave() { following = false; world.removeAttribute('class'); }
let drag = null;
svg.addEventListener('pointerdown', e => { drag = [e.clientX - view.x, e.clientY - view.y, e.clientX, e.clientY]; moved = false; });
addEventListener('pointermove', e => {
  if (!drag || (!moved && Math.hypot(e.clientX - drag[2], e.clientY - drag[3]) < 4)) return;
  moved = true;
  leave();
  look(e.clientX - drag[0], e.clientY - drag[1], view.k);
});
addEventListener('pointerup', () => { drag = null; });

// ---- the source ----
const onLine = new Map();                                    // by file and line: the nodes
run.nodes.forEach((n, i) => { const key = n.line.join(':'); if (layer && n.merged) return; if (!onLine.has(key)) onLine.set(key, []); onLine.get(key).push(i); });
// Lua's comments, strings and words.
const words = new RegExp([/(--\[\[[^]*?\]\]|--.*)/, /('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\[\[.*?\]\])/,
  /\b(and|break|do|else|elseif|end|false|for|function|goto|if|in|local|nil|not|or|repeat|return|then|true|until|while)\b/].map(r => r.source).join('|'), 'g');
function painted(text, parent) {
  let from = 0;
  for (const m of text.matchAll(words)) {
    parent.appendChild(document.createTextNode(text.slice(from, m.index)));
    element('span', { class: m[1] ? 'c' : m[2] ? 's' : 'w' }, parent, m[0]);
    from = m.index + m[0].length;
  }
  parent.appendChild(document.createTextNode(text.slice(from)));
}
const sheets = run.files.map((file, f) => {
  const list = document.createElement('ol');
  list.items = file.lines.map((line, l) => {
    const nodes = onLine.get(`${f + 1}:${l + 1}`), li = element('li', { class: nodes ? 'code' : '' }, list);
    const count = nodes ? nodes.reduce((s, n) => s + of[n].length, 0) : 0;
    element('i', { class: 'n' }, li, l + 1);
    element('i', { class: 'runs' }, li, count ? count + '×' : '');
    if (file.plain) element('span', {}, li, line); else painted(line, element('span', {}, li));
    if (nodes) {
      li.title = `${count} tokens ${whole}, of ${nodes.length} node${nodes.length === 1 ? '' : 's'}; a click goes to the next`;
      li.addEventListener('click', () => nextOf(nodes));
    }
    return li;
  });
  return list;
});
let sheet = null, line = null, scrolling = 0;
function source([file, l]) {
  const list = sheets[file - 1];
  if (sheet !== list) {
    $('files').replaceChildren();
    element('h2', {}, $('files'), run.files[file - 1].name);
    $('files').appendChild(list);
    sheet = list;
  }
  const li = list.items[l - 1];
  if (line !== li) {
    if (line) line.setAttribute('class', 'code');
    li.setAttribute('class', 'code now');
    line = li;
    cancelAnimationFrame(scrolling);
    scrolling = requestAnimationFrame(() => {
      const r = li.getBoundingClientRect(), pane = $('files').getBoundingClientRect();
      if (r.top < pane.top + 30 || r.bottom > pane.bottom) $('files').scrollTop += r.top - pane.top - pane.height / 2;
    });
  }
}

// ---- one moment ----
const TRAIL = 10;
let now = 0;
const valueOf = i => { const v = run.value[tokens.list[i]]; return v ? run.values[v - 1] : ''; };
const micro = ns => ns >= 1e7 ? (ns / 1e6).toLocaleString('en', { maximumFractionDigits: 1 }) + ' ms' : (ns / 1e3).toLocaleString('en', { maximumFractionDigits: 1 }) + ' µs';
const plural = (n, one) => `${n.toLocaleString('en')} ${one}${n === 1 ? '' : 's'}`;
function show(k) {
  if (!N) {
    $('now').textContent = run.live ? run.live.said : 'nothing ran';
    const next = run.live && run.live.next;
    if (next !== undefined && next !== null) { source(run.nodes[next].line); follow(next); } else if (!view) look(0, 0, 1);
    return;
  }
  now = Math.max(0, Math.min(N - 1, k));
  $('at').value = now;
  $('at').setAttribute('aria-valuetext', `token ${number(now)} of ${total}`);
  chips.replaceChildren();
  boxes.forEach((b, i) => {
    const ran = upTo(b.list, now), last = ran ? b.list[ran - 1] : -1, age = now - last, lit = ran && age <= TRAIL, gone = ran && dead(last);
    const path = ran ? pathOf(frame[last], iteration[last]) : [];
    const shown = 'node' + b.closed + (ran ? ' ran' : '') + (gone ? ' dead' : '') + (lit ? ' lit' : '') + (i === itemOf[node[now]] ? ' now' : '')
      + (run.fail && run.fail.token === last && i === itemOf[run.fail.node] ? ' failed' : '');
    const style = ran && !gone && shown.indexOf('failed') < 0 ? `stroke:${path.length ? colorOf(path) : 'var(--soft)'}` : '';
    if (b.shown !== shown) { b.g.setAttribute('class', shown); b.shown = shown; }
    if (b.style !== style) { b.rect.setAttribute('style', style); b.style = style; }
    if (b.last !== last) {
      b.g.setAttribute('data-runs', ran); b.g.setAttribute('data-tag', ran ? tag(last) : ''); b.g.setAttribute('data-dead', gone ? 1 : 0);
      b.last = last;
      const made = gone ? 'dead' : ran ? valueOf(last) : '';
      b.title.textContent = (made ? `${made}${tag(last) ? ' in ' + tag(last) : ''}\n` : '') + b.about;
    }
    if (lit && path.length) chip(b.n.x + b.n.w - 2, b.n.y, path.join('·'), path, gone);
  });
  lines.forEach(l => {
    let n = 0, fed = false;
    const there = [];
    for (const w of l.wires) {
      const made = upTo(w.made, now);
      for (let p = made - 1; p >= 0 && p > made - 64; p--) {
        if (w.used[p] === now) fed = true;
        if (w.used[p] > now) there[n++] = [w, p];
      }
    }
    for (let c = 0, most = n ? roomOn(l) : 0; c < n && c < most; c++) {
      const [w, p] = there[c], i = w.made[p], path = pathOf(frame[i], iteration[i]), s = spot(l, c), more = c === 0 && n > most ? ' +' + (n - most) : '';
      chip(s.x, s.y, (path.length ? path.join('·') : '•') + more, path, deadOn(w, p));
    }
    const shown = fed ? l.plain + ' fed' : l.plain;
    if (l.shown !== shown) { l.path.setAttribute('class', shown); l.shown = shown; }
  });
  const i = node[now], n = run.nodes[i], t = tag(now), ran = upTo(of[i], now);
  $('now').textContent = `${micro(at[now])}   ${n.name} (${n.type})${t ? ' in ' + t : ''}${dead(now) ? ', dead' : ''}`;
  $('count').textContent = `token ${number(now).toLocaleString('en')} of ${total.toLocaleString('en')}`;
  const card = $('card'), lost = of[i].slice(0, ran).filter(dead).length;
  card.replaceChildren();
  const made = valueOf(now);
  element('b', {}, card, `${n.name} = ${n.type}(${n.args.join(', ')})`);
  element('p', {}, card, `${t ? 'in ' + t + (dead(now) ? ', dead: nothing is computed' : '') : 'at the top level'}${dead(now) ? '' : `, took about ${micro(took[now])}`}`);
  if (made) element('p', { class: 'value' }, card, '= ' + made);
  const past = of[i].slice(Math.max(0, ran - 6), ran - 1).reverse().filter(valueOf).map(k => `${tag(k) || 'before'}: ${valueOf(k)}`);
  if (past.length) element('p', { class: 'soft past' }, card, past.join('   '));
  element('p', { class: 'soft' }, card, `${plural(ran, 'time')} so far${lost ? `, ${lost} of them dead` : ''}; ${plural(of[i].length, 'time')} ${whole}`);
  const list = $('open'), going = openAt(now);
  list.replaceChildren();
  if (going.length) element('i', {}, list, 'open:');
  going.slice(0, 6).forEach(o => element('span', { style: `background:${colorOf(o.path)}` }, list, o.tag));
  if (going.length > 6) element('span', { class: 'more' }, list, `${going.length - 6} more`);
  source(n.line);
  follow(i);
  if (view && room) showMap();
  const x = timeX(at[now]);
  cursor.setAttribute('x1', x); cursor.setAttribute('x2', x);
  remember();
}
let later = null;
function remember() {                                        // so that the page's address leads back here
  clearTimeout(later);
  later = setTimeout(() => { try { history.replaceState(null, '', '#' + number(now) + (layer ? ',merged' : '')); } catch (e) { /* a page without an address */ } }, 400);
}
//- The next token of one of these nodes, after the last one the first again.
function nextOf(nodes) {
  let first = N, next = N;
  for (const i of nodes) {
    if (of[i].length) first = Math.min(first, of[i][0]);
    const k = of[i][upTo(of[i], now)];
    if (k !== undefined) next = Math.min(next, k);
  }
  show(next < N ? next : first);
}

// ---- iterations that are open: from their first token to their last ----
const spans = (() => {
  const map = new Map();
  for (let i = 0; i < N; i++) {
    if (!frame[i]) continue;
    const key = place(frame[i], iteration[i]), s = map.get(key);
    if (s) s.to = i; else map.set(key, { from: i, to: i, frame: frame[i], iteration: iteration[i] });
  }
  return [...map.values()];
})();
const open = new Int32Array(N + 1);
for (const s of spans) { open[s.from]++; open[s.to + 1]--; }
for (let i = 1; i <= N; i++) open[i] += open[i - 1];
const widest = spans.reduce((m, s) => Math.max(m, s.to - s.from), 0), starts = spans.map(s => s.from);
function openAt(k) {
  const list = [];
  for (let n = upTo(starts, k) - 1; n >= 0 && spans[n].from >= k - widest; n--) {
    const s = spans[n];
    if (s.to >= k) list.push({ tag: tagOf(s.frame, s.iteration), path: pathOf(s.frame, s.iteration) });
    if (list.length > 200) break;
  }
  return list.reverse();
}

// ---- over time ----
const chart = $('time'), cursor = make('line', { class: 'cursor' });
let timeX = () => 0;
const bytes = n => n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : n < 1073741824 ? `${(n / 1048576).toFixed(1)} MiB` : `${(n / 1073741824).toFixed(2)} GiB`;
function draw() {
  const r = chart.getBoundingClientRect(), w = r.width, h = r.height, left = 190, end = N ? at[N - 1] + took[N - 1] : 1, begin = N ? at[0] : 0;
  chart.replaceChildren();
  timeX = t => left + (t - begin) / Math.max(1, end - begin) * (w - left - 6);
  const top = 4, low = h * .48, high2 = h * .56, low2 = h * .76;
  const curve = (values, most, y0, y1, close) => {           // per column of pixels the highest value
    const columns = new Map();
    let d = '', last = null;
    for (let i = 0; i < N; i++) {
      const x = Math.round(timeX(at[i]) * 2) / 2;
      if (x !== last) columns.set(x, values[i]); else if (values[i] > columns.get(x)) columns.set(x, values[i]);
      last = x;
    }
    let y = null;
    for (const [x, v] of columns) {
      const to = (y1 - v / most * (y1 - y0)).toFixed(1);
      d += y === null ? `M${x} ${close ? y1 : to}V${to}` : `H${x}V${to}`;
      y = to;
    }
    return d && `${d}H${timeX(end)}` + (close ? `V${y1}` : '');
  };
  let best = 0, busiest = 0;
  for (let i = 0; i < N; i++) { if (memory[i] > memory[best]) best = i; busiest = Math.max(busiest, open[i]); }
  const most = Math.max(1, run.peak, N ? memory[best] : 1);
  for (const y of [low, low2]) make('line', { class: 'axis', x1: left, x2: w - 6, y1: y, y2: y }, chart);
  make('path', { class: 'area', d: curve(memory, most, top, low, true) }, chart);
  make('path', { class: 'live', d: curve(open, Math.max(1, busiest), high2, low2) }, chart);
  if (N) {
    make('circle', { class: 'peak', cx: timeX(at[best]), cy: low - memory[best] / most * (low - top), r: 3 }, chart);
    make('text', { x: 0, y: top + 12 }, chart, `memory in use, ${run.host}`);
    make('text', { x: 0, y: top + 27 }, chart, `peak ${bytes(run.peak)}${run.peak > memory[best] ? ', inside a kernel' : ''}`);
    make('text', { class: 'live', x: 0, y: low2 - 4 }, chart, `iterations open, at most ${busiest}`);
    const s = run.swap, moved = s.bytes_out + s.bytes_in;
    make('text', { x: 0, y: h - 4 }, chart, moved ? `swapped out ${bytes(s.bytes_out)}, in ${bytes(s.bytes_in)}` : 'swap: nothing was swapped');
    make('line', { class: 'axis', x1: left + 70, x2: Math.max(left + 70, w - 80), y1: h - 8, y2: h - 8 }, chart);
    make('text', { x: left, y: h - 4 }, chart, micro(begin));
    make('text', { x: w - 6, y: h - 4, 'text-anchor': 'end' }, chart, micro(end));
  }
  cursor.setAttribute('y1', 0); cursor.setAttribute('y2', h - 14);
  chart.appendChild(cursor);
}
chart.addEventListener('pointerdown', e => {
  const x = e.clientX - chart.getBoundingClientRect().left;
  let low = 0, high = N;
  while (low < high) { const m = (low + high) >> 1; if (timeX(at[m]) <= x) low = m + 1; else high = m; }
  show(low - 1);
});

// ---- keys and buttons ----
let timer = null;
function play(yes) {
  clearInterval(timer);
  timer = yes ? setInterval(() => { if (now >= N - 1) play(false); else show(now + 1); }, 150) : null;
  $('play').textContent = timer ? 'stop' : 'play';
}
$('play').onclick = () => play(!timer); $('back').onclick = () => show(now - 1); $('forth').onclick = () => show(now + 1);
$('help').onclick = () => $('keys').showModal();
$('at').max = Math.max(0, N - 1); $('at').oninput = e => show(+e.target.value);
addEventListener('keydown', e => {
  if ($('keys').open || e.ctrlKey || e.altKey || e.metaKey) return;
  const n = e.shiftKey ? 10 : 1, mine = N ? of[node[now]] : [];
  if (e.key === 'ArrowRight') show(now + n); else if (e.key === 'ArrowLeft') show(now - n); else if (e.key === 'Home') show(0);
  else if (e.key === 'End') show(N - 1); else if (e.key === 'PageDown') show(now + 100); else if (e.key === 'PageUp') show(now - 100);
  else if (e.key === 'ArrowDown') show(mine[Math.min(mine.length, upTo(mine, now) + 1) - 1]);
  else if (e.key === 'ArrowUp') show(mine[Math.max(1, upTo(mine, now) - 1) - 1]);
  else if (e.key === ' ') play(!timer);
  else if (e.key === 'f') { following = true; glide(); show(now); }
  else if (e.key === 'Escape' && picture.up !== undefined) enter(picture.up);
  else if (e.key === '?') $('keys').showModal();
  else return;
  e.preventDefault();
});
$('layer').hidden = run.layers.length === 1;
$('layer').setAttribute('aria-pressed', layer === 1);
$('layer').onclick = () => {                                 // the same moment in the other layer
  const other = tokensOf(1 - layer), k = N ? Math.max(0, upTo(other.list, tokens.list[now]) - 1) : 0;
  clearTimeout(later);
  history.replaceState(null, '', `#${1 + (k >= other.first ? k + other.missing : k)}${layer ? '' : ',merged'}`);
  location.reload();
};
addEventListener('resize', () => { measure(); draw(); show(now); });

// ---- what is to be said ----
const notice = (text, bad) => element('div', { class: bad ? 'notice bad' : 'notice' }, $('notices'), text);
$('about').textContent = `${plural(run.nodes.filter(n => !(layer && n.merged)).length, 'node')}, ${plural(total, 'token')}, ${plural(run.scopes.length - 1, 'loop')}`
  + (N ? `, ${micro(at[N - 1] + took[N - 1])}` : '') + (run.ok ? '' : ', failed');
if (run.fail) notice(run.fail.message, true);
if (missing) notice(`Tokens ${(first + 1).toLocaleString('en')} to ${(first + missing).toLocaleString('en')} of ${total.toLocaleString('en')}`
  + ' are not on this page: of a long run it holds the first and the last.');
if (run.live && run.live.unlogged) notice('This run began before it was shown, so its tokens are not known here; those of the next one are.');
if (run.lost) notice(`The log was full: the last ${plural(run.lost, 'event')} of the run are missing here.`);
enter(0);
measure();
draw();
started = true;
// A run that is shown while it goes on: the page that comes after this one looks where this one did.
window.standing = () => following ? null : { ...view, picture: pictures.indexOf(picture) };
window.stand = v => { if (v.picture && pictures[v.picture]) enter(v.picture); leave(); look(v.x, v.y, v.k); };
const asked = /^#(\d+)/.exec(location.hash);
const wanted = asked ? +asked[1] - 1 : run.fail ? run.fail.token === undefined ? N - 1 : run.fail.token : run.live ? N - 1 : 0;
show(asked && missing && wanted >= first ? Math.max(first, wanted - missing) : wanted);
world.getBoundingClientRect();                               // it is there now, and glides from here on
glide();
]==]

return M
