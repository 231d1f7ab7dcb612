--- The page of a run: what stands before and behind its data.
local M = {}

M.head = [==[
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>a run of dflow</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { --bg: #fbfbf9; --fg: #1d1f21; --soft: #6b6f76; --line: #c9ccd1; --box: #ffffff; --frame: rgba(70,110,180,.07); --edge: #9aa0a8; --mark: #fff1bf; --live: #1f6feb; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #16181b; --fg: #e6e6e3; --soft: #969ba3; --line: #3a3e45; --box: #212429; --frame: rgba(120,160,230,.09); --edge: #666c75; --mark: #4a4015; --live: #6ea8fe; }
}
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; background: var(--bg); color: var(--fg); font: 14px/1.4 system-ui, sans-serif; }
body { display: grid; grid-template-rows: auto 1fr auto; grid-template-columns: minmax(0, 1fr) 34%; }
header { grid-column: 1 / 3; padding: 8px 14px; border-bottom: 1px solid var(--line); display: flex; gap: 18px; align-items: baseline; flex-wrap: wrap; }
header b { font-size: 15px; } header span { color: var(--soft); }
#graph { overflow: hidden; position: relative; border-right: 1px solid var(--line); }
#graph svg { width: 100%; height: 100%; cursor: grab; }
#side { overflow: auto; padding: 0; font: 12px/1.5 ui-monospace, monospace; }
#side h2 { font: 600 12px system-ui, sans-serif; margin: 0; padding: 8px 12px; position: sticky; top: 0; background: var(--bg); border-bottom: 1px solid var(--line); }
#side ol { margin: 0; padding: 4px 0 12px; list-style: none; counter-reset: n; }
#side li { counter-increment: n; white-space: pre; padding: 0 12px; }
#side li::before { content: counter(n); display: inline-block; width: 3em; color: var(--soft); }
#side li.now { background: var(--mark); }
footer { grid-column: 1 / 3; border-top: 1px solid var(--line); padding: 8px 14px 10px; }
#bar { display: flex; gap: 8px; align-items: center; }
#bar input { flex: 1; accent-color: var(--live); }
button { font: inherit; color: inherit; background: var(--box); border: 1px solid var(--line); border-radius: 5px; padding: 2px 10px; cursor: pointer; }
#now { min-height: 1.5em; padding-top: 6px; font-family: ui-monospace, monospace; font-size: 13px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
canvas { width: 100%; height: 64px; display: block; margin-top: 6px; cursor: crosshair; }
.node rect { fill: var(--box); stroke: var(--line); rx: 5; } .node text { font: 12px ui-monospace, monospace; fill: var(--fg); text-anchor: middle; }
.node.dead rect { stroke-dasharray: 4 3; } .node.dead text { text-decoration: line-through; fill: var(--soft); }
.frame rect { fill: var(--frame); stroke: var(--line); rx: 9; } .frame text { font: 12px system-ui, sans-serif; fill: var(--soft); }
path.edge { fill: none; stroke: var(--edge); stroke-width: 1.1; opacity: .75; } path.back { stroke-dasharray: 5 4; }
.badge { font: 10px ui-monospace, monospace; fill: #fff; text-anchor: middle; }
</style></head><body>
<header><b>a run of dflow</b><span id="about"></span><span>← → a token, shift ten, space plays, wheel zooms, drag moves</span></header>
<div id="graph"><svg id="svg" role="img" aria-label="the graph of the run"><g id="world"></g></svg></div>
<div id="side"></div>
<footer><div id="bar"><button id="play" aria-label="play">play</button><button id="back" aria-label="one token back">◀</button>
<input id="at" type="range" min="0" value="0" aria-label="token"><button id="forth" aria-label="one token on">▶</button><span id="count"></span></div>
<div id="now" aria-live="polite"></div><canvas id="time" aria-label="memory and open iterations over time"></canvas></footer>
<script>
const run = ]==]

M.tail = [==[;
const $ = id => document.getElementById(id), NS = 'http://www.w3.org/2000/svg';
const make = (name, attrs, parent) => {
  const e = document.createElementNS(NS, name);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (parent) parent.appendChild(e);
  return e;
};
const hue = n => `hsl(${(n * 47 + 205) % 360} 65% 45%)`;
const world = $('world'), N = run.tokens.length;

// the graph
for (const s of run.scopes) {
  const g = make('g', { class: 'frame' }, world);
  make('rect', { x: s.x, y: s.y, width: s.w, height: s.h, rx: 9 }, g);
  make('text', { x: s.x + 10, y: s.y + 17 }, g).textContent = s.name + (s.where ? '   ' + s.where : '');
}
for (const [a, b] of run.edges) {
  const p = run.nodes[a], q = run.nodes[b], x1 = p.x + p.w / 2, y1 = p.y + p.h, x2 = q.x + q.w / 2, y2 = q.y;
  const back = y2 < y1, bend = Math.max(14, Math.abs(y2 - y1) / 2);
  make('path', { class: back ? 'edge back' : 'edge', d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` }, world);
}
const boxes = run.nodes.map(n => {
  const g = make('g', { class: 'node' }, world), rect = make('rect', { x: n.x, y: n.y, width: n.w, height: n.h, rx: 5 }, g);
  make('text', { x: n.x + n.w / 2, y: n.y + 17 }, g).textContent = n.name.replace(/.*\//, '');
  make('title', {}, g).textContent = `${n.name} (${n.type})\n${n.source}`;
  return { g, rect, n };
});
const badges = make('g', {}, world);
let view = { x: 0, y: 0, k: 1 };
const place = () => world.setAttribute('transform', `translate(${view.x} ${view.y}) scale(${view.k})`);
function fit() {
  const r = $('svg').getBoundingClientRect();
  view.k = Math.min(1.4, Math.max(.08, Math.min(r.width / run.width, r.height / run.height)));
  view.x = (r.width - run.width * view.k) / 2; view.y = Math.max(0, (r.height - run.height * view.k) / 2); place();
}
$('svg').addEventListener('wheel', e => {
  e.preventDefault();
  const f = Math.exp(-e.deltaY / 400), r = $('svg').getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
  view.x = x - (x - view.x) * f; view.y = y - (y - view.y) * f; view.k *= f; place();
}, { passive: false });
let drag = null;
$('svg').addEventListener('pointerdown', e => { drag = [e.clientX - view.x, e.clientY - view.y]; });
addEventListener('pointermove', e => { if (drag) { view.x = e.clientX - drag[0]; view.y = e.clientY - drag[1]; place(); } });
addEventListener('pointerup', () => { drag = null; });

// the source
let file = '';
function source(where) {
  const m = /^(.*):(\d+)$/.exec(where || ''), lines = m && run.sources[m[1]];
  if (!lines) return;
  if (file !== m[1]) {
    file = m[1];
    $('side').replaceChildren();
    const h = document.createElement('h2'); h.textContent = file; $('side').appendChild(h);
    const list = document.createElement('ol');
    for (const line of lines) { const li = document.createElement('li'); li.textContent = line; list.appendChild(li); }
    $('side').appendChild(list);
  }
  for (const li of $('side').querySelectorAll('.now')) li.classList.remove('now');
  const li = $('side').querySelectorAll('li')[m[2] - 1];
  if (li) { li.classList.add('now'); li.scrollIntoView({ block: 'nearest' }); }
}

// one moment
const TAIL = 10;
let at = 0;
function show(k) {
  at = Math.max(0, Math.min(N - 1, k));
  $('at').value = at;
  if (!N) { $('now').textContent = 'nothing ran'; return; }
  for (const b of boxes) { b.g.classList.remove('dead'); b.rect.style.stroke = ''; b.rect.style.strokeWidth = ''; b.rect.style.fill = ''; }
  badges.replaceChildren();
  const seen = new Map();
  for (let i = Math.max(0, at - TAIL); i <= at; i++) seen.set(run.tokens[i][0], i);
  for (const [node, i] of seen) {
    const [, iteration, dead, , , tag] = run.tokens[i], b = boxes[node], age = (at - i) / TAIL, color = dead ? 'var(--soft)' : hue(iteration);
    b.rect.style.stroke = color; b.rect.style.strokeWidth = i === at ? 3 : 2.2 - 1.4 * age;
    if (dead) b.g.classList.add('dead');
    if (tag) {
      const g = make('g', { opacity: 1 - .7 * age }, badges), text = (dead ? '✝' : '') + iteration;
      make('rect', { x: b.n.x + b.n.w - 10, y: b.n.y - 8, width: 8 + 7 * text.length, height: 15, rx: 7, style: `fill:${color}` }, g);
      make('text', { class: 'badge', x: b.n.x + b.n.w - 6 + 3.5 * text.length, y: b.n.y + 3 }, g).textContent = text;
    }
  }
  const [node, , dead, us, ns, tag] = run.tokens[at], n = run.nodes[node];
  boxes[node].rect.style.fill = 'var(--mark)';
  $('now').textContent = `${us} µs  ${n.name} (${n.type})${tag ? ' in ' + tag : ''}${dead ? ', dead' : ''}${ns ? `, took ${(ns / 1000).toFixed(1)} µs` : ''}  ${n.source}`;
  $('count').textContent = `${at + 1} of ${N}`;
  source(n.source);
  draw();
}

// memory and open iterations
const live = (() => {               // how many iterations had tokens around each token
  const last = new Map(), open = new Array(N).fill(0);
  run.tokens.forEach((t, i) => { if (t[5]) last.set(t[5], i); });
  const begun = new Set();
  run.tokens.forEach((t, i) => { if (t[5]) begun.add(t[5]); open[i] = begun.size; if (t[5] && last.get(t[5]) === i) begun.delete(t[5]); });
  return open;
})();
function draw() {
  const c = $('time'), r = c.getBoundingClientRect(), k = devicePixelRatio || 1, css = getComputedStyle(document.documentElement);
  c.width = r.width * k; c.height = r.height * k;
  const d = c.getContext('2d'); d.scale(k, k);
  const w = r.width, h = r.height, x = i => N > 1 ? i / (N - 1) * w : 0;
  const curve = (list, color, label, dy) => {
    const top = Math.max(1, ...list.filter((_, i) => N < 4000 || i % Math.ceil(N / 4000) === 0));
    d.strokeStyle = color; d.beginPath();
    const step = Math.max(1, Math.floor(N / (2 * w)));
    for (let i = 0; i < N; i += step) d.lineTo(x(i), h - 4 - list[i] / top * (h - 18));
    d.stroke(); d.fillStyle = color; d.font = '11px system-ui'; d.fillText(`${label} (most ${top.toLocaleString()})`, 4, dy);
  };
  curve(run.memory, css.getPropertyValue('--soft'), 'bytes in use', 11);
  curve(live, css.getPropertyValue('--live'), 'iterations open', 24);
  d.strokeStyle = css.getPropertyValue('--fg'); d.beginPath(); d.moveTo(x(at), 0); d.lineTo(x(at), h); d.stroke();
}
$('time').addEventListener('pointerdown', e => { const r = $('time').getBoundingClientRect(); show(Math.round((e.clientX - r.left) / r.width * (N - 1))); });

// keys and buttons
let timer = null;
function play(yes) {
  clearInterval(timer); timer = null;
  if (yes) timer = setInterval(() => { if (at >= N - 1) play(false); else show(at + 1); }, 120);
  $('play').textContent = timer ? 'stop' : 'play';
}
$('play').onclick = () => play(!timer); $('back').onclick = () => show(at - 1); $('forth').onclick = () => show(at + 1);
$('at').max = Math.max(0, N - 1); $('at').oninput = e => show(+e.target.value);
addEventListener('keydown', e => {
  const n = e.shiftKey ? 10 : 1;
  if (e.key === 'ArrowRight') show(at + n); else if (e.key === 'ArrowLeft') show(at - n); else if (e.key === 'Home') show(0);
  else if (e.key === 'End') show(N - 1); else if (e.key === ' ') play(!timer); else return;
  e.preventDefault();
});
addEventListener('resize', () => { fit(); draw(); });
$('about').textContent = `${run.nodes.length} nodes, ${run.total.toLocaleString()} tokens${run.total > N ? `, of which the first ${N.toLocaleString()} are here` : ''}`
  + `, ${run.scopes.length} loop${run.scopes.length === 1 ? '' : 's'}` + (run.ok ? '' : ` — it failed: ${run.message}`);
fit(); show(+(/^#(\d+)$/.exec(location.hash) || [0, 0])[1]);
</script></body></html>
]==]

return M
