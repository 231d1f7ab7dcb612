--- The page of `:serve`: the run that the prompt looks at, and what trainings have written, beside each other.
--
-- The run's page is shown in two frames: the next one is loaded behind the one that is seen, which then goes, so that
-- nothing flickers. The trainings are drawn from data alone: what a file holds becomes text or numbers, never markup,
-- and nothing is loaded from elsewhere.
local STYLE = [==[
:root { color-scheme: light dark; --bg: #fbfbf9; --fg: #1d1f21; --line: #c9ccd1; --live: #1a5fcc; --paused: #8a5a00; --done: #1f7a3d; --failed: #b3261e; --gone: #6a6e75; }
@media (prefers-color-scheme: dark) { :root { --bg: #16181b; --fg: #e6e6e3; --line: #3d4249; } }
html, body { height: 100%; margin: 0; background: var(--bg); color: var(--fg); font: 15px/1.4 system-ui, sans-serif; }
body { display: flex; flex-direction: column; }
#bar { display: flex; gap: 12px; align-items: baseline; padding: 8px 14px; border-bottom: 1px solid var(--line); }
#state { color: #fff; background: var(--gone); border-radius: 8px; padding: 1px 10px; font-weight: 600; }
#state.running { background: var(--live); } #state.paused { background: var(--paused); } #state.done { background: var(--done); }
#state.failed { background: var(--failed); }
#said { font: 14px/1.4 ui-monospace, monospace; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; flex: 1; }
#bar button { font: inherit; color: inherit; background: none; border: 1px solid var(--line); border-radius: 8px; padding: 1px 10px; cursor: pointer; }
#bar button[aria-pressed=true] { background: var(--line); }
#room, #training { position: relative; flex: 1; min-height: 0; }
iframe { position: absolute; inset: 0; width: 100%; height: 100%; border: 0; visibility: hidden; } iframe.seen { visibility: visible; }
[hidden] { display: none !important; }
#training { overflow: auto; padding: 10px 14px; }
#how { display: flex; flex-wrap: wrap; gap: 6px 18px; margin-bottom: 10px; }
#how label { white-space: nowrap; } #how i { display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin: 0 5px 0 2px; }
#how .broken { color: var(--failed); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); gap: 12px; margin-bottom: 14px; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 6px; padding: 6px 8px; min-width: 0; }
figcaption { overflow-wrap: anywhere; font-size: 14px; } figcaption small { color: var(--gone); display: block; min-height: 1.4em; }
figure svg { display: block; width: 100%; } svg text { fill: var(--gone); font: 11px system-ui, sans-serif; } svg .axis { stroke: var(--line); }
svg path { fill: none; stroke-width: 1.6; stroke-linecap: round; } svg .raw { opacity: .25; } svg .nan { stroke: var(--failed); stroke-width: 2; }
figure img { image-rendering: pixelated; width: 100%; max-height: 240px; object-fit: contain; }
]==]

local BODY = [==[
<div id="bar"><b>dflow</b><span id="state">waiting</span><span id="said" aria-live="polite"></span><button id="see-run" aria-pressed="true" hidden>run</button><button id="see-training" aria-pressed="false" hidden>training</button></div>
<div id="room"><iframe title="the run"></iframe><iframe title="the run"></iframe></div>
<div id="training" hidden>
<div id="how"><span id="runs"></span><label>smooth <input id="smooth" type="range" min="0" max="0.99" step="0.01" value="0"></label><label><input id="log" type="checkbox"> logarithms</label></div>
<div id="scalars" class="cards"></div><div id="histograms" class="cards"></div><div id="images" class="cards"></div>
</div>
]==]

local SCRIPT = [==[
'use strict';
const $ = id => document.getElementById(id);
let [seen, behind] = document.querySelectorAll('iframe'), page = 0, loading = false, wanted = 0;
const layerOf = frame => /merged$/.test(frame.contentWindow.location.hash) ? '#merged' : '';
function load() {
  if (loading || wanted === page) return;
  const goal = wanted;
  loading = true;
  behind.onload = () => {
    const layer = layerOf(seen), other = behind.contentWindow;
    if (layerOf(behind) !== layer) {                     // it was chosen while this page loaded
      other.history.replaceState(null, '', layer || '#');
      other.location.reload();
      return;
    }
    behind.onload = null;                                // it may load itself anew: another layer of the same run
    const view = seen.contentWindow.standing && seen.contentWindow.standing();
    if (view && behind.contentWindow.stand) behind.contentWindow.stand(view);
    behind.className = 'seen'; seen.className = '';
    [seen, behind] = [behind, seen];
    page = goal; loading = false;
    document.body.dataset.page = page;
    load();
  };
  behind.src = 'page?' + goal + layerOf(seen);
}

// ---- trainings: {runs: [{name, broken}], scalars: [{tag, run, steps, values}], histograms, images} ----
const COLOURS = ['#2f7ed8', '#d9822b', '#2e9e5b', '#c23b5a', '#8a5fd0', '#1a9aa6', '#a0792c', '#6b7785'];
const colour = run => COLOURS[run % COLOURS.length];
let data = null, training = 0, fetching = false, chosen = false;
const off = new Set();                                  // runs that are not shown, by name

function make(name, attributes, ...children) {
  const svg = ['svg', 'path', 'text', 'line'].includes(name);
  const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, v] of Object.entries(attributes)) e.setAttribute(key, v);
  e.append(...children);
  return e;
}
const short = v => v === null ? 'NaN or Inf' : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(1) : +v.toPrecision(3) + '';

function smoothed(values, by) {
  let mean = 0, weight = 0;
  return values.map(v => v === null ? null : (mean = mean * by + v * (1 - by), weight = weight * by + 1 - by, mean / weight));
}

function chart(tag, list) {
  const W = 330, H = 150, L = 52, B = 16, by = +$('smooth').value;
  const finite = list.flatMap(s => s.values.filter(v => v !== null)), log = $('log').checked && finite.length > 0 && finite.every(v => v > 0);
  const scale = v => log ? Math.log10(v) : v;
  let low = Infinity, high = -Infinity, first = Infinity, last = -Infinity;
  for (const v of finite) { low = Math.min(low, scale(v)); high = Math.max(high, scale(v)); }
  for (const s of list) { first = Math.min(first, s.steps[0]); last = Math.max(last, s.steps[s.steps.length - 1]); }
  if (!(low < high)) { low -= 0.5; high += 0.5; }
  const x = step => L + (last > first ? (step - first) / (last - first) : 0.5) * (W - L - 6), y = v => 6 + (high - scale(v)) / (high - low) * (H - B - 10);
  const svg = make('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': tag });
  svg.append(make('line', { class: 'axis', x1: L, y1: H - B, x2: W - 4, y2: H - B }), make('line', { class: 'axis', x1: L, y1: 4, x2: L, y2: H - B }));
  if (finite.length) {
    const back = v => log ? 10 ** v : v;
    svg.append(make('text', { x: L - 4, y: 13, 'text-anchor': 'end' }, short(back(high))), make('text', { x: L - 4, y: H - B, 'text-anchor': 'end' }, short(back(low))));
  }
  svg.append(make('text', { x: L, y: H - 3 }, first + ''), make('text', { x: W - 4, y: H - 3, 'text-anchor': 'end' }, last + ''));
  for (const s of list) {
    const line = values => {
      let d = '', pen = 'M';
      values.forEach((v, i) => { if (v === null) pen = 'M'; else { d += `${pen}${x(s.steps[i]).toFixed(1)} ${y(v).toFixed(1)}${pen === 'M' ? 'h.01' : ''}`; pen = 'L'; } });
      return d;
    };
    if (by) svg.append(make('path', { class: 'raw', d: line(s.values), stroke: colour(s.run) }));
    svg.append(make('path', { d: line(by ? smoothed(s.values, by) : s.values), stroke: colour(s.run), 'data-run': s.run, 'data-points': s.values.length }));
    s.values.forEach((v, i) => { if (v === null) svg.append(make('line', { class: 'nan', x1: x(s.steps[i]), x2: x(s.steps[i]), y1: H - B - 7, y2: H - B })); });
  }
  const says = make('small', {});
  const tell = at => {
    says.textContent = list.map(s => {
      let best = 0;
      s.steps.forEach((step, i) => { if (Math.abs(step - at) < Math.abs(s.steps[best] - at)) best = i; });
      return (data.runs.length > 1 ? data.runs[s.run].name + ' ' : '') + short(s.values[best]) + ' at ' + s.steps[best];
    }).join(', ');
  };
  tell(Infinity);
  for (const s of list) if (s.steps.length) { tell(last); break; }
  svg.onpointermove = e => { const r = svg.getBoundingClientRect(); tell(first + ((e.clientX - r.left) / r.width * W - L) / (W - L - 6) * (last - first)); };
  svg.onpointerleave = () => tell(last);
  return make('figure', { 'data-tag': tag }, make('figcaption', {}, tag, says), svg);
}

const title = s => s.tag + (data.runs.length > 1 ? ' · ' + data.runs[s.run].name : '');

// A row of pixels for each step, the newest below: the darker, the more elements lie there.
function histogram(s) {
  const low = Math.min(...s.values.map(h => h.limits[0])), high = Math.max(...s.values.map(h => h.limits[h.limits.length - 1]));
  const canvas = make('canvas', { width: 320, height: 120, role: 'img', 'aria-label': s.tag, 'data-steps': s.steps.length }), g = canvas.getContext('2d');
  canvas.style.width = '100%';
  s.values.forEach((h, row) => {
    const most = Math.max(...h.counts, 1), top = row * 120 / s.values.length, tall = 120 / s.values.length;
    const width = h.limits.length > 1 ? h.limits[1] - h.limits[0] : 0;
    h.counts.forEach((n, i) => {
      const from = i ? h.limits[i - 1] : h.limits[0] - width, x = v => high > low ? (v - low + width) / (high - low + width) * 320 : 160;
      g.globalAlpha = n / most;
      g.fillStyle = colour(s.run);
      g.fillRect(x(from), top, Math.max(1, x(h.limits[i]) - x(from)), Math.max(1, tall - (tall > 4 ? 1 : 0)));
    });
  });
  const says = make('small', {}, `${short(low)} to ${short(high)}, steps ${s.steps[0]} to ${s.steps[s.steps.length - 1]}, from above`);
  return make('figure', { 'data-tag': s.tag }, make('figcaption', {}, title(s), says), canvas);
}

function image(s) {
  const says = make('small', {}, 'at ' + s.steps[0]);
  return make('figure', { 'data-tag': s.tag }, make('figcaption', {}, title(s), says), make('img', { alt: s.tag, src: 'data:image/png;base64,' + s.values[0] }));
}

function draw() {
  if (!data) return;
  const on = s => !off.has(data.runs[s.run].name) && s.steps.length > 0, tags = new Map();
  for (const s of data.scalars) if (on(s)) tags.set(s.tag, [...(tags.get(s.tag) || []), s]);
  $('runs').replaceChildren(...data.runs.map((run, i) => {
    const box = make('input', { type: 'checkbox' }), dot = make('i', {});
    box.checked = !off.has(run.name);
    box.onchange = () => { if (box.checked) off.delete(run.name); else off.add(run.name); draw(); };
    dot.style.background = colour(i);
    const label = make('label', { 'data-run': i }, box, dot, run.name + ' ');
    if (run.broken) label.append(make('span', { class: 'broken' }, '(' + run.broken + ')'));
    return label;
  }));
  $('scalars').replaceChildren(...[...tags].map(([tag, list]) => chart(tag, list)));
  $('histograms').replaceChildren(...data.histograms.filter(on).map(histogram));
  $('images').replaceChildren(...data.images.filter(on).map(image));
  $('training').dataset.shown = training;
}
$('smooth').oninput = $('log').onchange = draw;

function see(what) {
  $('room').hidden = what !== 'run'; $('training').hidden = what === 'run';
  $('see-run').setAttribute('aria-pressed', what === 'run'); $('see-training').setAttribute('aria-pressed', what !== 'run');
}
$('see-run').onclick = () => { chosen = true; see('run'); };
$('see-training').onclick = () => { chosen = true; see('training'); };

async function follow(number) {
  if (!number || number === training || fetching) return;
  fetching = true;
  try {
    const answer = await fetch('training?' + number, { cache: 'no-store' });
    if (answer.status === 200) {
      data = await answer.json(); training = number;
      $('see-run').hidden = $('see-training').hidden = false;
      if (!chosen && page === 0) see('training');
      draw();
    }
  } catch (e) { /* asked for again with the next state */ }
  fetching = false;
}

function show(state) {
  $('state').textContent = state.state; $('state').className = state.state; $('said').textContent = state.said;
  wanted = state.page;
  load();
  follow(state.training);
}
const sleep = ms => new Promise(done => setTimeout(done, ms));
(async () => {
  for (let number = 0, lost = 0; lost < 5;) {
    try {
      const answer = await fetch('next?after=' + number, { cache: 'no-store' });
      if (answer.status === 404) break;
      if (answer.status === 200) { const next = await answer.json(); number = next.number; show(next.state); }
      lost = 0;
    } catch (e) { lost++; await sleep(500); }
  }
  $('state').textContent = 'over'; $('state').className = 'gone'; $('said').textContent = 'the prompt shows nothing any more';
})();
]==]

return ([==[
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>dflow, live</title><meta name="viewport" content="width=device-width, initial-scale=1">
<style>
]==] .. STYLE .. '</style></head><body>\n' .. BODY .. "<script>\n" .. SCRIPT .. '</script></body></html>\n')
