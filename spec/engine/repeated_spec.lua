--- Programs from seeds, built, written, read and run again: the same seed gives the same graph and the same file; a file gives the graph that it was
-- written of; a run by the virtual clock takes the same tokens, messages, bytes and seconds each time, gives what the host alone gives whatever is kept,
-- swapped or computed again, and stays within the memory there is.
local df = require 'dflow'
local random_program = require 'spec.random_program'
local dice = require('spec.chance').dice
local shell = require 'spec.shell'
local support = require 'spec.support'
local ordered_it = support.ordered_it(it, pending)

local NAMES = { 'cpu:0', 'sim:0', 'sim:1', 'sim:2' }
local at = { 0.7, -0.4, 0.3 }

--- All that is known of each node but its Lua line.
local function graph_text(g)
  local all = {}
  for _, op in ipairs(g:ops()) do
    for _, out in ipairs(op.outputs) do all[#all + 1] = tostring(out):gsub('  %-%- .*', '') end
    all[#all + 1] = tostring(op):gsub('  %-%- .*', '') .. ' ' .. tostring(op.device)
  end
  return table.concat(all, '\n')
end

--- A table as text, keys in order; what `left_out` names is not told.
local function text_of(v, left_out)
  if type(v) == 'number' then return ('%.14g'):format(v) end
  if type(v) ~= 'table' then return tostring(v) end
  local keys, parts = {}, {}
  for k in pairs(v) do keys[#keys + 1] = tostring(k) end
  table.sort(keys)
  for _, k in ipairs(keys) do
    local x = v[k]
    if x == nil then x = v[tonumber(k)] end
    if not left_out[k] then parts[#parts + 1] = k .. '=' .. text_of(x, left_out) end
  end
  return '{' .. table.concat(parts, ' ') .. '}'
end

--- The program of a seed with its gradients, its ops on these devices by chance: fetches, feeds.
local function build(seed, devices, save)
  local draw, program = dice(seed), random_program.make(seed, 2)
  local y, xs = random_program.build(df, program, nil, {
    width = seed % 3 == 0 and 5 or nil,
    place = devices and function(fn) return df.device(NAMES[draw(devices)], fn) end or nil,
    save = function() return save or ({ 'keep', 'swap', 'recompute' })[draw(3)] end })
  local fetches, feeds = { y, df.unpack(df.gradients(y, xs, { unconnected = 'zero' })) }, {}
  for i, x in ipairs(xs) do
    feeds[x] = at[i]
    if seed % 3 == 0 then
      feeds[x] = {}
      for k = 1, 5 do feeds[x][k] = at[i] * (1 + k / 64) end
    end
  end
  return fetches, feeds, xs
end

local OWN = { plans = true, ['cpu:0'] = true, owners = true, line = true }         -- of a process, or of a build

local function devices()
  return { 'cpu:0', { 'sim:0', bandwidth = '1GB/s', latency = '3us', speed = 4 }, { 'sim:1', memory = '1MB', speed = 0.5 }, { 'sim:2', bandwidth = '100MB/s' } }
end

--- A recorded run by the virtual clock: its values, its counters as text, its seconds.
local function clocked(seed, save)
  df.reset()
  local fetches, feeds = build(seed, 4, save)
  local s = df.Session{ devices = devices(), clock = 'virtual' }
  local h = s:start(fetches, feeds, { record = true })
  local values = h:wait()
  local stats = h:stats()
  local same, slower = h:whatif{}, h:whatif{ devices = 1 }
  local where = {}
  for i, p in ipairs(s:placement(fetches)) do where[i] = ('%s %s %s'):format(p.node, p.op, p.device) end
  local text = text_of(stats, OWN) .. '\n' .. text_of(same.critical_path, OWN) .. text_of(slower.seconds, OWN) .. '\n' .. table.concat(where, '\n')
  s:close()
  return values, text, stats.seconds, same.seconds
end

describe('a program that is built again', function()
  for seed = 1, 12 do
    ordered_it('is the same graph, and the same file, and the file is that graph: ' .. seed, function()
      local made = {}
      local path = os.tmpname()
      os.remove(path)
      for round = 1, 2 do
        df.reset()
        local fetches, feeds = build(seed)
        local one = { graph = graph_text(df.default_graph()) }
        made[round] = one
        one.expected = df.run({ fetches[1], fetches[2] }, feeds)
        for _, kind in ipairs{ '.pb', '.pbtxt' } do
          local file = path .. kind
          local ok, e = pcall(df.export_graph_def, file, { outputs = { fetches[1], fetches[2] } })
          if not ok then
            assert(e.code == 'unimplemented', tostring(e))
            one[kind] = e.message:gsub('/%S+', '')
          else
            local names = { fetches[1].name, fetches[2].name }
            one[kind] = shell.read(file)
            local g = df.import_graph_def(file)
            one[kind .. ' read'] = graph_text(g)
            local fed = {}
            for x, v in pairs(feeds) do if pcall(g.output, g, x.name) then fed[x.name] = v end end
            local ok_names = pcall(g.output, g, names[1]) and pcall(g.output, g, names[2])
            if ok_names then
              local s = df.Session{ graph = g }
              support.near(s:run({ g:output(names[1]), g:output(names[2]) }, fed), one.expected, { rtol = 1e-5 })
              s:close()
            end
          end
          os.remove(file)
        end
        if one['.pb read'] then assert.equal(one['.pb read'], one['.pbtxt read']) end
      end
      made[1].expected, made[2].expected = nil, nil
      assert.same(made[1], made[2])
    end)
  end
end)

describe('a program that runs again', function()
  for seed = 1, 10 do
    ordered_it('gives the values of the host alone, in the same tokens and seconds, whatever becomes of what is saved: ' .. seed, function()
      local fetches, feeds = build(seed, nil, 'keep')
      local expected = df.run(fetches, feeds)
      for _, save in ipairs{ 'keep', 'swap', 'recompute' } do
        local values, text, seconds, same = clocked(seed, save)
        support.near(values, expected, { rtol = 1e-5 })
        local _, again = clocked(seed, save)
        assert.equal(text, again)
        assert.is_true(math.abs(same - seconds) <= 0.02 * seconds, ('%g and %g'):format(same, seconds))
      end
    end)
  end
end)

describe('what is saved in little room', function()
  --- Number k is a policy, a length and a limit; `free`: everything is kept, in as much room as it takes.
  local function saved(k, free)
    local pick = dice(k)
    local save, n, rows = ({ 'keep', 'swap', 'recompute', 'auto' })[k % 4 + 1], ({ 5, 24, 60 })[pick(3)], ({ 8, 32, 48 })[pick(3)]
    local memory, window = ({ 40, 90, 200, 1000 })[pick(4)] * 1024, ({ 1, 4, 32 })[pick(3)]
    if free then save, memory = 'keep', 2 ^ 30 end
    df.reset()
    local w = df.Variable(df.sin(df.reshape(df.cast(df.range(rows * rows), 'float32'), { rows, rows })), { name = 'w' })
    local y, g = df.device('sim:0', function()
      local _, y, z = df.while_loop(function(i) return i:lt(n) end, function(i, y, z)
        local u = df.tanh(df.matmul(y, w))
        local v = df.cond((i % 3):eq(1), function() return df.sin(u) end, function() return u * 0.5 end)
        return i + 1, v, z + df.reduce_sum(v * u, { axis = 0 })
      end, { df.int32(0), df.ones{ 16, rows }, df.zeros{ rows } }, { save = save ~= 'auto' and save or nil, parallel_iterations = window })
      local loss = df.reduce_sum(y) + df.reduce_sum(z)
      return loss, df.reduce_sum(df.abs(df.gradients(loss, w)))
    end)
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', memory = memory, bandwidth = '1GB/s', latency = '2us', speed = 2 } }, clock = 'virtual', threads = 1,
                          save = save == 'auto' and save or nil }
    local out = {}
    for i = 1, 2 do
      local h = s:start({ y, g }, nil, { record = i == 2 })
      local ok, v = pcall(h.wait, h)
      local stats = h:stats()
      assert.is_true(stats.memory['sim:0'].peak <= memory, stats.memory['sim:0'].peak)
      out[i] = { ok = ok, v = v, swap = stats.swap, text = text_of(stats, OWN), save = save }
      if not ok then break end
    end
    s:close()
    return out
  end

  local fitted, refused, swapped = 0, 0, 0
  for k = 1, 16 do
    ordered_it('gives what is kept in plenty, or says that the room is not enough, and never takes more: ' .. k, function()
      local plenty, little, again = saved(k, true), saved(k), saved(k)
      assert.is_true(plenty[1].ok)
      for i, r in ipairs(little) do
        assert.equal(r.text, again[i].text)
        if r.ok then
          support.near(r.v, plenty[1].v, { rtol = 1e-4 })
          fitted = fitted + 1
          if r.save == 'keep' then assert.equal(0, r.swap.bytes_out) end
          if r.swap.bytes_out > 0 then
            swapped = swapped + 1
            assert.is_true(r.swap.bytes_in <= r.swap.bytes_out)
          end
        else
          assert.equal('resource_exhausted', r.v.code)
          assert.matches('sim:0', r.v.message)
          refused = refused + 1
        end
      end
    end)
  end

  ordered_it('comes to all of these', function() assert.is_true(fitted > 5 and refused > 0 and swapped > 0, ('%d, %d, %d'):format(fitted, refused, swapped)) end)
end)
