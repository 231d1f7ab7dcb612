--- Random programs that run in the background under an inspector: what the specs of looking share.
local df = require 'dflow'
local core = require 'dflow.backend'
local random_program = require 'spec.random_program'

local M = {}

local function set_windows(block, window)
  for _, s in ipairs(block) do
    if s.window then s.window = window end
    for _, part in pairs{ s.body, s.yes, s.no } do set_windows(part.block, window) end
  end
end

--- The fetches and feeds of the program of a seed. opts: depth (3), window (parallel_iterations of all its loops), trips (it is the
--- body of a loop that goes round so often), gradients.
function M.build(seed, opts)
  df.reset()
  local program = random_program.make(seed, opts.depth or 3)
  if opts.window then set_windows(program.block, opts.window) end
  local xs = {}
  for i, name in ipairs(program.inputs) do xs[i] = df.placeholder('float64', {}, name) end
  local y
  if opts.trips then
    local _, last = df.while_loop(function(i) return i:lt(df.int32(opts.trips)) end, function(i, p)
      return i + 1, df.sin((random_program.build(df, program, { p, xs[2], xs[3] })))
    end, { df.int32(0), xs[1] }, { parallel_iterations = opts.window })
    y = last
  else y = random_program.build(df, program, xs) end
  local fetches = { y }
  if opts.gradients then
    for _, g in ipairs(df.gradients(y, xs, { unconnected = 'zero' })) do fetches[#fetches + 1] = g end
  end
  return fetches, { [xs[1]] = 0.7, [xs[2]] = -0.4, [xs[3]] = 0.3 }, program
end

--- A run that goes on when this returns (df.start gives a short one the time to end).
function M.begin(s, fetches, feeds, opts)
  opts = opts or {}
  opts.paused = true
  local h = s:start(fetches, feeds, opts)
  h:settle()
  h:resume()
  return h
end

local function check(ok, h, ...)
  if not ok then error(('%s\n%s'):format(string.format(...), tostring(h:frames())), 0) end
end

--- The sums of a ledger: see runtime/inspect/ledger.c, which has closed the books node by node before it gave them.
function M.check_ledger(h, d)
  check(d.sent == d.ran + d.died + d.live + d.dead, h, '%d tokens were sent, but %d ran, %d died, %d live and %d dead ones are there', d.sent, d.ran, d.died, d.live, d.dead)
  check(d.pending == d.owed + d.lost, h, '%d inputs are pending, but %d are owed and %d lost', d.pending, d.owed, d.lost)
  check(d.nodes_run == d.ran + d.merged and d.dead_tokens == d.died + d.ended, h, 'the counters say other than the ledger')
end

--- A run that goes on: looks at it once. What one look shows is one consistent cut, so each has to balance in itself.
function M.look(h)
  local d = h:ledger()
  if d then M.check_ledger(h, d) end
  local frames = h:frames()
  for _, f in ipairs(frames) do
    local live, dead, running = 0, 0, 0
    for _, it in ipairs(f.iterations) do
      check(it.outstanding == it.ready + it.running + #it.children, h, '%s:%d has %d outstanding, but %d tokens, %d calls and %d frames are seen',
        f.tag, it.number, it.outstanding, it.ready, it.running, #it.children)
      check(it.number >= f.first and it.number < f.next, h, '%s:%d is not among its open iterations', f.tag, it.number)
      live, dead, running = live + it.live, dead + it.dead, running + it.running
    end
    -- devices that several owners turn may be a window apart
    check(f.in_flight == #f.iterations and f.in_flight <= f.limit * #f.devices, h, '%s has %d iterations in flight of %d', f.tag, f.in_flight, f.limit)
    check(f.live == live and f.dead == dead and f.running == running, h, '%s has other tokens than its iterations', f.tag)
  end
  return d, frames
end

--- A paused run: the ledger, the frames, the tokens and the counters are of one cut, so they agree.
function M.agree(h)
  local d, frames = M.look(h)
  local tokens = { ready = 0, dead = 0, running = 0, waiting = 0, partial = 0, missing = 0 }
  for _, t in ipairs(h:tokens()) do
    tokens[t.state] = tokens[t.state] + 1
    if t.state == 'ready' and t.dead then tokens.dead = tokens.dead + 1 end
    tokens.missing = tokens.missing + t.missing
  end
  local live, dead, running, waiting, iterations = 0, 0, 0, 0, 0
  for _, f in ipairs(frames) do
    live, dead, running, waiting, iterations = live + f.live, dead + f.dead, running + f.running, waiting + f.waiting, iterations + f.in_flight
  end
  local s = h:stats()
  check(#frames - 1 == d.frames and iterations == d.iterations, h, 'other frames are seen than the ledger has')
  check(live == d.live and dead == d.dead and running == d.running, h, '%d live, %d dead tokens and %d calls are seen, but the ledger has %d, %d and %d',
    live, dead, running, d.live, d.dead, d.running)
  check(tokens.ready == live + dead and tokens.dead == dead and tokens.running + tokens.waiting == running and tokens.partial == waiting, h,
    'other tokens are seen than frames say')
  check(tokens.missing <= d.pending, h, 'nodes that have some of their inputs wait for %d, all nodes for %d', tokens.missing, d.pending)
  check(s.nodes_run == d.nodes_run and s.dead_tokens == d.dead_tokens, h, 'the counters are %d and %d, in the ledger %d and %d',
    s.nodes_run, s.dead_tokens, d.nodes_run, d.dead_tokens)
  return d, frames
end

--- What ran in a logged run, token by token: a list of texts `node/frame/iteration`, with a `!` after those of dead ones; frames that
--- opened and ended among them.
function M.tokens_run(h)
  local out, first = {}, 0
  while true do
    local list = core.run_events(h.handle, first, 4096)
    for i = 0, #list / 10 - 1 do
      local e = i * 10
      out[#out + 1] = ('%s%d/%d/%d%s'):format(('.~+-'):sub(list[e + 8] + 1, list[e + 8] + 1), list[e + 5], list[e + 6], list[e + 3],
        (list[e + 9] == true or list[e + 9] == 1) and '!' or '')
    end
    if #list == 0 then return out end
    first = first + #list / 10
  end
end

return M
