--- opts.report: a run as a page, looked at in headless Chromium with the network off.
local df = require 'dflow'
local events = require 'dflow.inspect.events'
local core = require 'dflow.backend'
local enums = require 'dflow.backend.enums'
local browser = require 'spec.browser'
local support = require 'spec.support'
local host_it = support.host_it(it, pending)                       -- of the host's memory, and without messages among the tokens
local ordered_it = support.ordered_it(it, pending)                 -- of the tokens that one owner has at a time

--- A cond in a loop with a loop inside: live and dead tokens, frames in frames.
local function program(trips)
  df.reset()
  local i, x = df.while_loop(function(i) return i:lt(df.int32(trips or 6)) end, function(i, x)
    local _, z = df.while_loop(function(j) return j:lt(df.int32(2)) end, function(j, z) return j + 1, z + 1 end, { df.int32(0), df.float32(0) }, { name = 'inner' })
    return i + 1, df.cond(x:gt(5), function() return x * 0.5 end, function() return x * 2 end) + z
  end, { df.int32(0), df.float32(1) }, { name = 'outer' })
  return { i, x }
end

--- A run with a page, waited for; the handle and the page's path. What the run raises is returned third.
local function report(fetches, feeds, opts)
  local path = os.tmpname() .. '.html'
  local with = { report = path }
  for k, v in pairs(opts or {}) do with[k] = v end
  local h = df.start(fetches, feeds, with)
  local ok, err = pcall(h.wait, h)
  return h, path, not ok and err or nil
end

local function read(path)
  return require('spec.shell').read(path)
end

--- The tokens of a run's log that its page has, in order: {name, tag, dead}. all: those of constants and Identities, too,
-- that have none in an ordinary run.
local function tokens_of(h, all)
  local names, list = events.names(h), {}
  local _, plan = core.plan_describe(h.session.graph.handle, h.flat, {})
  local hidden, flow = { [enums.DF_LOWERED_IN_PLACE] = true, [enums.DF_LOWERED_PASSED] = true }, { Enter = true, LoopCond = true }
  events.each(h, function(_, _, iteration, _, node, frame, scope, kind, dead)
    if kind == 2 then names.open(frame, node, iteration, scope) end
    local n = kind == 0 and names.node(node)
    local made = n and plan[2 * node + 1]
    if n and (all or made ~= enums.DF_LOWERED_UNUSED and not (hidden[made] and not flow[n.type])) then
      list[#list + 1] = { name = n.name, tag = names.tag(frame, iteration), dead = dead }
    end
  end)
  return list
end

describe('a report', function()
  it('is one page that needs nothing else: nodes, frames, tokens and the source', function()
    local _, path = report(program())
    local text = read(path)
    os.remove(path)
    assert.matches('^<!doctype html>', text)
    local page = text:gsub('const run = [^\n]*', ''):gsub('http://www.w3.org/2000/svg', '')      -- without its data
    assert.is_nil(page:find('https?://') or page:find('<link', 1, true) or page:find('src=', 1, true) or page:find('@import', 1, true))
    assert.matches('"name":"outer/Less"', text)
    assert.matches('"name":"outer/inner"', text)
    assert.matches('report_spec.lua', text)
  end)

  it('that cannot be written is refused before the run', function()
    local v = df.Variable(df.float32(1))
    local ok, err = pcall(df.run, v:assign_add(1), nil, { report = '/nowhere/at/all/run.html' })
    assert.is_false(ok)
    assert.matches('report: .*nowhere', tostring(err))
    assert.equal(1, v:eval())                     -- it did not run
  end)

  it('lays nodes out without two of them in one place, frames around their nodes', function()
    local layout = require 'dflow.inspect.report.layout'
    local data = { nodes = {}, edges = { { 0, 1 }, { 1, 2 }, { 2, 1 }, { 1, 3 }, { 3, 4 } }, scopes = { { id = 0 }, { id = 1, parent = 0 }, { id = 2, parent = 1 } } }
    for i, scope in ipairs{ 0, 1, 2, 1, 0, 0, 2 } do data.nodes[i] = { name = 'n' .. i, scope = scope } end
    local pictures = layout.pictures(data)
    local where, box = pictures[1], {}
    assert.equal(1, #pictures)
    for _, s in ipairs(where.boxes) do box[s.id or 0] = s end
    for i, a in ipairs(where.items) do
      for j, b in ipairs(where.items) do
        assert.is_true(i == j or a.x + a.w <= b.x or b.x + b.w <= a.x or a.y + a.h <= b.y or b.y + b.h <= a.y)
      end
      local s = box[data.nodes[i].scope]
      assert.is_true(a.x >= s.x and a.y >= s.y and a.x + a.w <= s.x + s.w and a.y + a.h <= s.y + s.h)
    end
    for id = 0, 2 do assert.equal(id, box[id].depth) end
    assert.is_true(where.items[2].y > where.items[1].y)
  end)

  it('shows a model of many nodes as some forty boxes, and each closed one as a picture of its own', function()
    local layout = require 'dflow.inspect.report.layout'
    local data = { nodes = {}, edges = {}, scopes = { { id = 0 }, { id = 1, name = 'loop', parent = 0 } } }
    for i = 1, 600 do
      local layer = math.floor((i - 1) / 60)
      data.nodes[i] = { id = i - 1, name = ('layer_%d/op_%d'):format(layer, i), type = i % 7 < layer and 'Add' or 'Mul', scope = layer % 2 }
      if i > 1 then data.edges[#data.edges + 1] = { i - 2, i - 1, 0 } end
    end
    local pictures = layout.pictures(data, require('dflow.draw.groups').by_node({}, 600))
    assert.is_true(#pictures > 1 and #pictures[1].items <= 40, #pictures[1].items .. ' items')
    for k, p in ipairs(pictures) do
      local seen, want = {}, {}
      for _, item in ipairs(p.items) do
        for _, n in ipairs(item.members or { item }) do
          assert.is_nil(seen[n.number])
          seen[n.number] = true
        end
        assert.is_true(item.view == nil or pictures[item.view].up == k)
      end
      if p.up then
        for _, item in ipairs(pictures[p.up].items) do
          if item.view == k then for _, n in ipairs(item.members) do want[n.number] = true end end
        end
      else for i = 1, 600 do want[i] = true end end
      assert.same(want, seen)
    end
  end)
end)

-- What the page says of its nodes, by name: how often each has run, where last, dead or not.
local STATE = [==[Object.fromEntries([...document.querySelectorAll('.node')].map(g => [g.dataset.name,
  [+g.dataset.runs, g.dataset.tag, g.classList.contains('dead'), g.classList.contains('now')]]))]==]

-- For every text on the page that can be seen: how far its colour is from what lies behind it.
local CONTRAST = [==[(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (a, b) => a.slice(0, 3).map((v, i) => v * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const bad = []; let seen = 0;
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()), r = e.getBoundingClientRect();
    if (!own || e.closest('script,style,title,dialog') || !r.width || r.right < 0 || r.bottom < 0 || r.x > innerWidth || r.y > innerHeight) continue;
    const x = r.x + r.width / 2, y = r.y + r.height / 2, drawn = e.ownerSVGElement;
    let stack = document.elementsFromPoint(x, y);
    if (!stack.includes(e.classList.contains('chip') ? drawn : e)) continue;        // behind something, or scrolled away
    if (stack.some(p => p.closest('#map'))) continue;                               // behind the small picture
    let back = [255, 255, 255, 1];
    const behind = drawn ? [...stack].reverse() : [];
    if (!drawn) for (let p = e; p; p = p.parentElement) behind.unshift(p);
    for (const p of behind) {
      const s = getComputedStyle(p), solid = p.tagName === 'rect' || (p.tagName === 'path' && p.classList.contains('area'));
      const fill = p.ownerSVGElement ? (solid ? s.fill : null) : s.backgroundColor;
      if (fill && fill !== 'none') back = over(rgba(fill), back);
    }
    // chips take no clicks, so nothing tells where they are but themselves
    const chip = e.classList.contains('chip') ? e.previousElementSibling : null;
    if (chip) back = over(rgba(getComputedStyle(chip).fill), back);
    const s = getComputedStyle(e), text = over(rgba(drawn ? s.fill : s.color), back), a = light(text), b = light(back);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    seen++;
    if (ratio < 4.5) bad.push(`${e.tagName} "${e.textContent.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return { seen, bad };
})()]==]

describe('a report in a browser', function()
  if not browser.available() then return pending('neither chromium nor chromium-headless-shell is installed') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('a sanitizer has nothing to say about a page') end

  local b, paths
  setup(function()
    paths = {}
    b = browser.open('/dev/null')
  end)
  teardown(function() b:close() end)
  after_each(function()
    for _, path in ipairs(paths) do os.remove(path) end
    paths = {}
  end)
  local function open(...)
    local h, path, err = report(...)
    paths[#paths + 1] = path
    b:go(path)
    assert.same({}, b.complaints)
    return h, err
  end
  local function count() return b:eval 'document.querySelector("#count").textContent' end

  --- What the log says of the nodes after token k (from 1).
  local function expected(tokens, k)
    local state = {}
    for i, t in ipairs(tokens) do
      local s = state[t.name] or { 0, '', false, false }
      if i <= k then
        s[1], s[2], s[3] = s[1] + 1, t.tag, t.dead
        for _, other in pairs(state) do other[4] = false end
        s[4] = true
      end
      state[t.name] = s
    end
    return state
  end

  it('shows at each token what the log says: which nodes have run, how often, in which iteration, dead or not', function()
    local tokens = tokens_of(open(program()))
    assert.is_true(#tokens > 150)
    assert.equal(('token 1 of %d'):format(#tokens), count())
    local died = 0
    local at = 1
    for _, k in ipairs{ 1, 2, 3, 10, 40, 41, 77, 100, 150, #tokens - 1, #tokens } do
      while at + 10 <= k do
        b:key('ArrowRight', true)
        at = at + 10
      end
      while at < k do
        b:key('ArrowRight')
        at = at + 1
      end
      assert.equal(('token %d of %d'):format(k, #tokens), count())
      local state = b:eval(STATE)
      assert.same(expected(tokens, k), state)
      for _, s in pairs(state) do if s[3] then died = died + 1 end end
    end
    assert.is_true(died > 5)
    assert.same({}, b.complaints)
  end)

  it('opens the closed boxes of a large model by a click, and Escape leads out again', function()
    local x = df.placeholder('float32', { 4, 8 })
    local y, net = x, {}
    for i = 1, 8 do net[i] = df.nn.Dense(8, { activation = 'tanh' }) end
    for _, layer in ipairs(net) do y = layer(y) end
    local loss = df.reduce_mean(y * y)
    open({ loss, df.train.Adam{ learning_rate = 0.01 }:minimize(loss) }, { [x] = df.ones{ 4, 8 }:eval() })
    local function shown() return b:eval 'document.querySelectorAll(".node").length' end
    local all = shown()
    assert.is_true(all <= 40 and all < b:eval 'run.nodes.length', all .. ' items')
    local inside = b:eval '(() => { const i = picture.items.findIndex(n => n.picture !== undefined); return [i, picture.items[i].nodes.length] })()'
    b:click(('.node:nth-of-type(%d)'):format(b:eval(('[...document.querySelectorAll("#world > g")].indexOf(boxes[%d].g) + 1'):format(inside[1]))))
    assert.is_true(b:eval 'picture !== pictures[0] && picture.items.flatMap(n => n.nodes || [n.node]).length' == inside[2])
    b:eval 'show(N - 1)'                                  -- of a node elsewhere
    b:key 'Escape'
    assert.equal(all, shown())
    assert.equal(1, b:eval 'document.querySelectorAll(".node.now").length')
    assert.same({}, b.complaints)
  end)

  it('is the same again after walking to the end and back', function()
    local tokens = tokens_of(open(program(2)))
    local function same(dom)
      local now = b:dom()
      for k = 1, #dom do
        if dom:byte(k) ~= now:byte(k) then error(('differs at %d: %s\n%s'):format(k, dom:sub(k - 100, k + 80), now:sub(k - 100, k + 80))) end
      end
    end
    local before = b:dom()
    for _ = 1, #tokens + 3 do b:key('ArrowRight') end
    assert.equal(('token %d of %d'):format(#tokens, #tokens), count())
    local last = b:dom()
    assert.is_true(last ~= before)
    for _ = 1, #tokens + 3 do b:key('ArrowLeft') end
    same(before)
    b:key('End')
    same(last)
    b:key('Home')
    same(before)
    assert.same({}, b.complaints)
  end)

  host_it('lets no token lie on an edge that was not made and is not used later; at the end none is left', function()
    open(program())
    local most = b:eval [==[(() => { let most = 0; for (let k = 0; k < N; k++) { show(k);
      most = Math.max(most, document.querySelectorAll('.chips .chip').length); } return most; })()]==]
    assert.is_true(most > 8)
    local wrong = b:eval [==[wires.flatMap(w => w.made.map((i, n) => [w, i, w.used[n]])).filter(([w, i, j]) =>
      !(node[i] === w.a && node[j] === w.b && i < j)).length]==]
    assert.equal(0, wrong)
    assert.equal(0, b:eval 'wires.reduce((s, w) => s + w.made.filter((i, n) => i <= N - 1 && w.used[n] > N - 1).length, 0)')
    -- every loop inside gave its result once to the iteration around it
    assert.equal(6, b:eval [==[wires.filter(w => run.nodes[w.a].type === 'Exit' && run.nodes[w.b].name.startsWith('outer/'))
      .reduce((s, w) => s + w.made.filter((i, n) => pathOf(frame[i], iteration[i])[0] === iteration[w.used[n]]).length, 0)]==])
    -- a token of an iteration is used in it, or by way of NextIteration in the next one
    assert.equal(0, b:eval [==[wires.flatMap(w => w.made.map((i, n) => [w, i, w.used[n]])).filter(([w, i, j]) => frame[i] === frame[j]
      && iteration[j] - iteration[i] !== (run.nodes[w.a].type === 'NextIteration' ? 1 : 0)).length]==])
  end)

  it('says by which side of a Switch each value comes out', function()
    open(program())
    local sides = b:eval [==[[...document.querySelectorAll('text.side')].map(t => t.textContent).sort().join('')]==]
    local wanted = b:eval [==[edges.filter(e => /Switch$/.test(run.nodes[e[0]].type)).map(e => e[2] === 1 ? 'T' : 'F').sort().join('')]==]
    assert.matches('^F+T+$', sides)
    assert.equal(wanted, sides)
  end)

  -- how often each node fires
  local FIRED = [==[Object.fromEntries(run.nodes.map((n, i) => [n.name, of[i].length]).filter(([_, n]) => n))]==]
  local function fired(tokens)
    local counts = {}
    for _, t in ipairs(tokens) do counts[t.name] = (counts[t.name] or 0) + 1 end
    return counts
  end

  --- Clicks on "merged", and waits for the page to have loaded itself anew.
  local function to_layer(n)
    b:click '#layer'
    for _ = 1, 100 do
      local there, is = pcall(b.eval, b, ('document.readyState === "complete" && layer === %d && started'):format(n))
      if there and is then return end
      os.execute 'sleep 0.05'
    end
    error 'the page did not change'
  end

  ordered_it('shows all primitives, and at a click what an ordinary run fires, at the same moment', function()
    local fetches = program()
    local all = fired(tokens_of(open(fetches)))
    assert.same(all, b:eval(FIRED))
    assert.is_true(all['outer/Merge'] == 7 and all['outer/cond/Merge'] == 7 and all['outer/inner/LoopCond'] == 18)
    assert.is_true(b:eval 'edges.some(e => run.nodes[e[0]].name === "outer/NextIteration" && run.nodes[e[1]].name === "outer/Merge")')
    b:eval 'show(Math.floor(N / 2))'
    local when = b:eval 'at[now]'
    to_layer(1)
    local h = df.start(fetches, nil, { log = true })
    h:wait()
    local ordinary = fired(tokens_of(h))
    assert.same(ordinary, b:eval(FIRED))
    assert.is_nil(ordinary['outer/Merge'])
    assert.is_true(b:eval(('at[now] <= %.0f && (now === N - 1 || at[now + 1] > %.0f)'):format(when, when)))
    to_layer(0)
    assert.same(all, b:eval(FIRED))
    assert.same({}, b.complaints)
    open(fetches, nil, { primitives = false })
    assert.same(ordinary, b:eval(FIRED))
    assert.is_true(b:eval '$("layer").hidden')
  end)

  it('marks dead tokens with more than a colour', function()
    open(program())
    b:key('End')
    local dead = b:eval [==[(() => { const g = document.querySelector('.node.dead'); return [getComputedStyle(g.querySelector('rect')).strokeDasharray,
      getComputedStyle(g.querySelector('text')).textDecorationLine] })()]==]
    assert.equal('4px, 3px', dead[1])
    assert.equal('line-through', dead[2])
  end)

  it('gives iterations that are open at once colours of their own', function()
    open(program())
    local most = b:eval [==[(() => { let best = 0; for (let k = 0; k < N; k++) { show(k);
      const c = [...document.querySelectorAll('#open span')].map(s => s.style.background); best = Math.max(best, new Set(c).size); } return best; })()]==]
    assert.is_true(most >= 3)
  end)

  it('goes to the next token of a node, or of a line of the source, that is clicked; plays and stops with space', function()
    local tokens = tokens_of(open(program()))
    local function at() return tonumber(count():match('%d+')) end
    local function next_of(from, fits)
      for k = from + 1, #tokens do if fits(tokens[k]) then return k end end
    end
    b:click('[data-name="outer/Less"] rect')
    local first = next_of(1, function(t) return t.name == 'outer/Less' end)
    assert.equal(first, at())
    b:click('[data-name="outer/Less"] rect')
    local second = next_of(first, function(t) return t.name == 'outer/Less' end)
    assert.equal(second, at())
    b:key('ArrowUp')
    assert.equal(first, at())
    b:key('ArrowDown')
    assert.equal(second, at())
    local line = b:eval 'document.querySelector("li.now .n").textContent'
    assert.matches('i:lt%(df.int32%(trips or 6%)%)', b:eval 'document.querySelector("li.now").textContent')
    b:click('li.now', 0.05)
    assert.equal(line, b:eval 'document.querySelector("li.now .n").textContent')
    assert.is_true(at() > second)
    b:key('Home')
    b:click('#time', 0.9)
    assert.is_true(b:eval '(x => timeX(at[now]) <= x && (now === N - 1 || timeX(at[now + 1]) > x))(document.querySelector("#time").getBoundingClientRect().width * .9)')
    b:key('Home'):key(' ')
    assert.equal('stop', b:eval 'document.querySelector("#play").textContent')
    b:eval 'new Promise(done => setTimeout(done, 500))'
    b:key(' ')
    local there = at()
    assert.is_true(there > 1 and there < 100, count())
    b:eval 'new Promise(done => setTimeout(done, 300))'
    assert.equal(there, at())
    assert.same({}, b.complaints)
  end)

  it('can be used with the keyboard alone', function()
    open(program())
    local seen = {}
    for _ = 1, 60 do
      b:key('Tab')
      seen[b:eval '(e => e.id || e.dataset.name || e.tagName)(document.activeElement)'] = true
    end
    for _, id in ipairs{ 'help', 'outer/Less', 'files', 'play', 'back', 'at', 'forth' } do assert.is_true(seen[id], id) end
    b:eval 'document.querySelector("[data-name=\\"outer/Less\\"]").focus()'
    b:key('Enter')
    assert.same({ 1, 'outer:0', false, true }, b:eval(STATE)['outer/Less'])
    b:key('?')
    assert.is_true(b:eval 'document.querySelector("#keys").open')
  end)

  it('can be read in the light and in the dark: every text has a contrast of 4.5 at least', function()
    open(program())
    for _, dark in ipairs{ false, true } do
      b:dark(dark)
      for _, size in ipairs{ { 1280, 800 }, { 800, 600 } } do
        b:size(size[1], size[2])
        for _, k in ipairs{ 60, 150 } do
          b:eval(('show(%d); new Promise(done => setTimeout(done, 300))'):format(k))
          local found = b:eval(CONTRAST)
          assert.is_true(found.seen > 40, 'texts seen: ' .. found.seen)
          assert.same({}, found.bad)
        end
      end
    end
    b:dark(false):size(1280, 800)
  end)

  it('says why a run failed, and where: the message, the node, its iteration and its Lua line', function()
    local _, x = df.while_loop(function(i) return i:lt(df.int32(10)) end, function(i, x)
      return i + 1, x + df.floor_div(df.int32(60), df.int32(5) - i)      -- HERE
    end, { df.int32(0), df.int32(0) }, { name = 'count' })
    local _, err = open(x)
    assert.equal('invalid_argument', err.code)
    assert.matches('integer division by zero.*count/FloorDiv.*count:5', b:eval 'document.querySelector(".notice.bad").textContent')
    assert.same({ 'count/FloorDiv', 'count:5' }, b:eval '(d => [d.name, d.tag])(document.querySelector(".node.failed").dataset)')
    assert.matches('HERE', b:eval 'document.querySelector("li.now").textContent')
    assert.is_true(b:eval [==[(() => { const r = document.querySelector('.node.failed').getBoundingClientRect(), g = document.querySelector('#graph').getBoundingClientRect();
      return r.top >= g.top && r.bottom <= g.bottom && r.left >= g.left && r.right <= g.right })()]==])
    assert.same({}, b:eval(CONTRAST).bad)
    b:dark(true)
    assert.same({}, b:eval(CONTRAST).bad)
    b:dark(false)
  end)

  it('of a run that was cancelled, or ran out of time, says so', function()
    local endless = df.while_loop(function(i) return i:ge(0) end, function(i) return i * 1 end, { df.int32(0) })
    local _, err = open(endless, nil, { timeout = 0.05, log = 5000 })
    assert.equal('deadline_exceeded', err.code)
    assert.matches('took longer than its timeout', b:eval 'document.querySelector(".notice.bad").textContent')
    assert.same({}, b.complaints)
  end)

  ordered_it('says what is missing: of a long run the middle, of a full log the end', function()
    local i = df.while_loop(function(i) return i:lt(df.int32(400)) end, function(i) return i + 1 end, { df.int32(0) })
    local pages = require 'dflow.inspect.report'
    local first, last = pages.first, pages.last
    pages.first, pages.last = 100, 50
    local h = open(i)
    pages.first, pages.last = first, last
    local tokens = tokens_of(h)
    assert.matches(('^Tokens 101 to %s of %s are not on this page'):format(b:eval(('(%d).toLocaleString("en")'):format(#tokens - 50)),
      b:eval(('(%d).toLocaleString("en")'):format(#tokens))), b:eval 'document.querySelector(".notice").textContent')
    assert.equal(150, b:eval 'N')
    assert.matches('times? on this page$', b:eval 'document.querySelector("#card").textContent')
    b:eval 'show(99)'
    assert.matches('^token 100 of', count())
    b:key('ArrowRight')
    assert.equal(b:eval(('(%d).toLocaleString("en")'):format(#tokens - 49)), count():match('token (%S+) of'))
    assert.equal(tokens[#tokens - 49].name, b:eval 'document.querySelector(".node.now").dataset.name')
    h = open(i, nil, { log = 1000 })
    assert.equal(1000, #tokens_of(h, true) + 1)    -- and the frame that opened
    assert.matches('The log was full: the last [%d,]+ events of the run are missing here', b:eval 'document.querySelector(".notice").textContent')
  end)

  host_it('shows the memory that was in use, and its peak, as the allocator counts', function()
    local x = df.ones{ 1000, 1000 } * df.placeholder_with_default(df.float32(2), {})
    local h = open((x + 1):reduce_sum())
    local most, peak = 0, h:stats().memory['cpu:0'].peak
    events.each(h, function(_, _, _, memory) most = math.max(most, memory) end)
    assert.is_true(most >= 4e6 and peak >= most)
    assert.equal(most, b:eval 'memory.reduce((a, b) => Math.max(a, b), 0)')
    assert.is_true(b:eval 'run.peak' >= most)
    assert.matches('peak [%d.]+ MiB', b:eval 'document.querySelector("#time").textContent')
    assert.matches('swap: nothing was swapped', b:eval 'document.querySelector("#time").textContent')
    assert.equal(1, b:eval 'document.querySelectorAll("#time .peak").length')
  end)

  it('of an imported graph, which has no Lua lines, lists the nodes instead', function()
    local g = df.import_graph_def('spec/graphs/loop.pb')
    local s = df.Session{ graph = g }
    local path = os.tmpname() .. '.html'
    paths[1] = path
    s:run('y', { n = 5, x = { 1, 2 } }, { report = path })
    b:go(path)
    assert.same({}, b.complaints)
    assert.equal('nodes that have no Lua line', b:eval 'document.querySelector("#files h2").textContent')
    b:click('[data-name="while/cond/mul"] rect')
    assert.matches('while/cond/mul = Mul%(', b:eval 'document.querySelector("li.now").textContent')
  end)

  for shape, build in pairs{
    ['whose layers are alike'] = function()
      local xs = {}
      for i = 1, 40 do xs[i] = df.placeholder_with_default(df.float32(i), {}) * 2 end
      for layer = 1, 50 do
        local ys = {}
        for i = 1, 40 do ys[i] = xs[i] + xs[(i * 7 + layer) % 40 + 1] end
        xs = ys
      end
      return df.add_n(xs), 2081
    end,
    ['that is one chain'] = function()
      local y = df.placeholder_with_default(df.float32(1), {})
      for i = 1, 1040 do y = (i % 2 == 0 and df.sin or df.cos)(y) * 2 end
      return y, 2081
    end } do host_it('of a graph of two thousand nodes ' .. shape .. ' has a few hundred in any picture, and each in one', function()
    local y, many = build()
    open(y)
    local file = assert(io.open(paths[1]))
    assert.is_true(file:seek('end') < 1e6)
    file:close()
    local pictures = b:eval 'pictures.length'
    assert.is_true(pictures > 5)
    for p = 0, pictures - 1, math.ceil(pictures / 5) do
      b:eval(('enter(%d)'):format(p))
      local drawn = b:eval 'document.querySelectorAll(".node").length'
      assert.is_true(drawn > 1 and drawn <= 300, drawn)
    end
    -- where not all is in sight a small picture says what is, and leads there
    local far = 'Math.abs(seen.x.baseVal.value + seen.width.baseVal.value / 2 - picture.w * %g)'
    for p = 0, pictures - 1, math.ceil(pictures / 5) do
      b:eval(('enter(%d), whole_picture(), look(view.x, view.y, view.k * 4)'):format(p))
      assert.is_false(b:eval 'document.querySelector("#map").hasAttribute("hidden")')
      assert.equal(b:eval 'picture.items.length', b:eval 'document.querySelectorAll("#map rect:not(.part):not(.seen)").length')
      for _, share in ipairs{ 0.25, 0.75 } do
        b:eval(('{ const r = map.getBoundingClientRect(); goOnMap({ clientX: r.left + r.width * %g, clientY: r.top + r.height / 2 }) }'):format(share))
        assert.is_true(b:eval(far:format(share)) < 1e-3 * b:eval 'picture.w + 1')
      end
      b:eval 'whole_picture()'
      assert.is_true(b:eval 'document.querySelector("#map").hasAttribute("hidden")')
    end
    assert.equal(many, b:eval 'new Set(pictures.flatMap(p => p.items.flatMap(n => n.nodes || [n.node]))).size')
    b:eval 'enter(0)'
    b:key('End')
    assert.matches('^token 2,081 of 2,081', count())
    assert.equal(1, b:eval 'document.querySelectorAll(".node.now").length')
    assert.same({}, b.complaints)
  end) end

  it('of a hundred thousand tokens opens within two seconds and has less than 5 MB', function()
    local i = df.while_loop(function(i) return i:lt(df.int32(26000)) end, function(i, x) return i + 1, x * 0.5 + 1 end, { df.int32(0), df.float32(1) })
    open(i)
    assert.equal(100000, b:eval 'N')
    assert.is_true(b:eval 'run.total' > 100000)
    local file = assert(io.open(paths[1]))
    assert.is_true(file:seek('end') < 5e6)
    file:close()
    -- on a machine that does nothing else; so the time is the page's thread's own
    b:send('Performance.enable', { timeDomain = 'threadTicks' })
    b:go(paths[1])
    local took
    for _, m in ipairs(b:send('Performance.getMetrics').metrics) do if m.name == 'TaskDuration' then took = m.value end end
    b:send('Performance.disable')
    assert.is_true(took > 0.01 and took < 2, ('it took %.2f s'):format(took))
    b:key('End')
    assert.matches('^token', count())
  end)
end)
