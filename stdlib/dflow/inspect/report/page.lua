--- The page of a run: what stands before its data and behind its script.
local M = {}

M.head = [==[
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>a run of dflow</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {
  color-scheme: light dark;
  --bg: #fbfbf9; --fg: #1d1f21; --soft: #595d64; --line: #c9ccd1; --box: #ffffff; --frame: #f0f3f8; --inner: #e5ebf4; --edge: #9aa0a8;
  --mark: #fff1bf; --live: #1a5fcc; --dead: #6a6e75; --bad: #b3261e; --badbg: #fdecea; --word: #8a3d00; --text: #1f6b35; --area: #dfe3e8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #16181b; --fg: #e6e6e3; --soft: #a7acb5; --line: #3d4249; --box: #24272c; --frame: #1c2027; --inner: #232a35; --edge: #6b727d;
    --mark: #4a4015; --live: #7fb2ff; --dead: #9a9fa7; --bad: #ff8a80; --badbg: #3b1c1a; --word: #e8a66a; --text: #8ccf9c; --area: #2c3138;
  }
}
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; background: var(--bg); color: var(--fg); font: 14px/1.4 system-ui, sans-serif; }
body { display: grid; grid-template-rows: auto auto minmax(0, 1fr) auto; grid-template-columns: minmax(0, 1fr) 36%; }
header { grid-column: 1 / 3; padding: 7px 14px; border-bottom: 1px solid var(--line); display: flex; gap: 6px 18px; align-items: baseline; }
header b { font-size: 15px; white-space: nowrap; } #about { color: var(--soft); flex: 1; }
.notice { grid-column: 1 / 3; padding: 6px 14px; border-bottom: 1px solid var(--line); background: var(--mark); white-space: pre-line; }
.notice.bad { background: var(--badbg); color: var(--bad); font-weight: 600; }
#graph { position: relative; overflow: hidden; display: flex; flex-direction: column; border-right: 1px solid var(--line); min-height: 0; }
#graph #svg { width: 100%; flex: 1; min-height: 0; cursor: grab; display: block; touch-action: none; }
#world.glide { transition: transform .25s; }
@media (prefers-reduced-motion: reduce) { #world.glide { transition: none; } }
#map { position: absolute; right: 10px; bottom: 30px; background: var(--bg); border: 1px solid var(--line); cursor: crosshair; touch-action: none; }
#map[hidden] { display: none; } #map rect { fill: var(--edge); } #map rect.part { fill: var(--inner); } #map circle { fill: var(--bad); }
#map rect.seen { fill: none; stroke: var(--live); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
#crumbs { display: flex; gap: 4px; padding: 5px 10px; flex-wrap: wrap; font-size: 12px; } #crumbs[hidden] { display: none; } #crumbs [aria-current] { font-weight: 600; }
#open { display: flex; gap: 4px; align-items: center; height: 24px; padding: 0 10px; overflow: hidden; white-space: nowrap; font: 11px/1.3 ui-monospace, monospace; }
#open span { color: #fff; border-radius: 8px; padding: 1px 7px; }
#open i { font-style: normal; color: var(--soft); }
#open span.more { background: var(--box); color: var(--fg); border: 1px solid var(--line); }
#side { min-height: 0; display: flex; flex-direction: column; }
#card { padding: 8px 12px; border-bottom: 1px solid var(--line); font-size: 13px; min-height: 6.6em; }
#card b { font: 600 13px ui-monospace, monospace; overflow-wrap: anywhere; } #card p { margin: 2px 0 0; overflow-wrap: anywhere; } #card .soft { color: var(--soft); }
#files { overflow: auto; flex: 1; font: 12px/1.5 ui-monospace, monospace; }
#files h2 { font: 600 12px system-ui, sans-serif; margin: 0; padding: 6px 12px; position: sticky; top: 0; background: var(--bg); border-bottom: 1px solid var(--line); }
#files ol { margin: 0; padding: 4px 0 12px; list-style: none; width: max-content; min-width: 100%; }
#files li { white-space: pre; padding: 0 12px 0 0; display: flex; }
#files li i { font-style: normal; color: var(--soft); flex: none; text-align: right; } #files li .n { width: 3.2em; padding-right: 1em; }
#files li .runs { width: 4.6em; padding-right: .8em; } #files li.code { cursor: pointer; } #files li.code:hover { background: var(--inner); }
#files li.now, #files li.now:hover { background: var(--mark); } #files li.now i { color: var(--fg); }
#files .w { color: var(--word); } #files .s { color: var(--text); } #files .c { color: var(--soft); }
footer { grid-column: 1 / 3; border-top: 1px solid var(--line); padding: 7px 14px 8px; }
#bar { display: flex; gap: 8px; align-items: center; }
#bar input { flex: 1; min-width: 60px; accent-color: var(--live); }
#count { font-variant-numeric: tabular-nums; white-space: nowrap; }
button { font: inherit; color: inherit; background: var(--box); border: 1px solid var(--line); border-radius: 5px; padding: 1px 10px; cursor: pointer; }
button[aria-pressed=true] { background: var(--mark); }
:focus-visible { outline: 2px solid var(--live); outline-offset: 1px; }
#now { height: 26px; padding: 4px 0 2px; font: 13px/1.5 ui-monospace, monospace; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
#time { width: 100%; height: 96px; display: block; cursor: crosshair; } #time text { font: 11px system-ui, sans-serif; fill: var(--soft); }
#time .area { fill: var(--area); stroke: var(--soft); stroke-width: 1; } #time .live { fill: none; stroke: var(--live); stroke-width: 1.2; }
#time .peak { fill: var(--bad); } #time .cursor { stroke: var(--fg); } #time .axis { stroke: var(--line); } #time text.live { fill: var(--live); stroke: none; }
.node { cursor: pointer; } .node rect { fill: var(--box); stroke: var(--line); stroke-width: 1; rx: 5px; }
.node text { font: 12px ui-monospace, monospace; fill: var(--soft); text-anchor: middle; } .node.ran text { fill: var(--fg); }
.node.closed rect { fill: var(--inner); stroke-width: 1.6; } .node.closed.now rect { fill: var(--mark); }
.node.dead rect { stroke: var(--dead); stroke-dasharray: 4 3; } .node.dead text { text-decoration: line-through; fill: var(--soft); }
.node.lit rect { stroke-width: 2.2; } .node.now rect { fill: var(--mark); stroke-width: 3; }
.node.now text { fill: var(--fg); } .node.chosen rect { outline: 2px solid var(--live); outline-offset: 3px; }
.node[data-next] rect { stroke: var(--live); stroke-width: 2.4; stroke-dasharray: 2 3; } .node[data-next] text { fill: var(--fg); font-weight: 600; }
.node.failed rect { stroke: var(--bad); stroke-width: 3; fill: var(--badbg); } .node.failed text { fill: var(--bad); font-weight: 600; }
.frame rect { fill: var(--frame); stroke: var(--line); } .frame.odd rect { fill: var(--inner); }
.frame text { font: 12px system-ui, sans-serif; fill: var(--soft); } .frame text tspan { fill: var(--fg); font-weight: 600; }
text.side { font-size: 10px; fill: var(--soft); } path.edge { fill: none; stroke: var(--edge); stroke-width: 1.1; marker-end: url(#tip); } path.back { stroke-dasharray: 5 4; }
path.edge.fed { stroke: var(--live); stroke-width: 2.2; marker-end: url(#lit); }
#tip path { fill: var(--edge); } #lit path { fill: var(--live); }
.chip { font: 10px ui-monospace, monospace; fill: #fff; text-anchor: middle; pointer-events: none; } .chips rect { pointer-events: none; }
.chips .gone rect { fill: var(--bg); stroke: var(--dead); stroke-dasharray: 3 2; } .chips .gone text { fill: var(--fg); text-decoration: line-through; }
dialog { color: var(--fg); background: var(--box); border: 1px solid var(--line); border-radius: 8px; max-width: 36em; }
dialog dt { font-weight: 600; } dialog dd { margin: 0 0 6px 1.5em; }
@media (max-width: 900px) { body { font-size: 13px; } #time { height: 84px; } #card { min-height: 5.4em; padding: 6px 10px; } #map { display: none; } }
</style></head><body>
<header><b>a run of dflow</b><span id="about"></span><button id="layer" title="without the nodes that an ordinary run merges or passes over: a loop's Merge, LoopCond, Switches of what another Switch sends" hidden>merged</button><button id="help" aria-label="keys and signs">?</button></header>
<div id="notices" style="grid-column: 1 / 3"></div>
<div id="graph"><nav id="crumbs" aria-label="which picture of the graph" hidden></nav><svg id="svg" role="img" aria-label="the graph of the run"><defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 1L7 4L0 7z"/></marker>
<marker id="lit" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 1L7 4L0 7z"/></marker>
</defs><g id="world"></g></svg><svg id="map" role="img" aria-label="the whole picture; a click goes there" hidden></svg><div id="open" aria-label="iterations that are open"></div></div>
<div id="side"><div id="card"></div><div id="files" tabindex="0" aria-label="the Lua source"></div></div>
<footer><div id="bar"><button id="play" aria-label="play or stop">play</button><button id="back" aria-label="one token back">◀</button>
<input id="at" type="range" min="0" value="0" aria-label="token"><button id="forth" aria-label="one token on">▶</button><span id="count"></span></div>
<div id="now" aria-live="polite"></div><svg id="time" role="img" aria-label="memory, open iterations and swapping over time"></svg></footer>
<dialog id="keys"><dl>
<dt>← →</dt><dd>one token back, one on; with shift ten; Page Up and Page Down a hundred; Home and End the first and the last</dd>
<dt>↑ ↓</dt><dd>the token of the same node before, and the next one</dd>
<dt>space</dt><dd>plays, and stops</dd>
<dt>a click</dt><dd>on a node or a line of the source goes to its next token; on a closed box, which counts its nodes, into it, and Escape out of it; on
the timelines to that moment</dd>
<dt>wheel, drag, f</dt><dd>larger and smaller, elsewhere, and back to following the tokens</dd>
<dt>the small picture</dt><dd>is there where not all can be seen: a click or a drag on it goes there</dd>
<dt>colours</dt><dd>each iteration has one; the number on a node is the iteration it last ran in, 2·5 iteration 5 of a loop inside iteration 2. Chips on edges
are tokens that were made and not used yet.</dd>
<dt>merged</dt><dd>hides the primitives for which an ordinary run has no tokens: its plan merges a loop's Merge with what delivers to it, and Switches
that send on the same value</dd>
<dt>dashed and struck through</dt><dd>dead: the branch, or the iteration, that was not taken</dd>
</dl><button onclick="this.closest('dialog').close()">all right</button></dialog>
<script>
]==]

M.tail = '</script></body></html>\n'

return M
