--- What a statement became that autograph staged: `while x < 100 do x = x * x end` shows the new x and its loop.
local core = require 'dflow.backend'
local df = require 'dflow'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local session = require 'dflow.repl.session'
local tensor = require 'dflow.front.tensor'
local text = require 'dflow.front.text'
local timing = require 'dflow.repl.timing'
local values = require 'dflow.repl.values'

local M = {}
local PATIENCE = 1            -- seconds that a run may take which nothing asked for

local STAGED = { ['while'] = true, ['for'] = true, ['repeat'] = true, ['if'] = true }

--- The variables that the text names and whose values are results of a loop or a cond built from node `first` on:
-- {name, output} each, in the text's order.
local function results(input, first)
  local list, seen = {}, {}
  for name in input:gmatch '%f[%w_][%a_][%w_]*' do
    local v = session.value_of(name)
    if not seen[name] and getmetatable(v) == graph.Output and v.graph == df.default_graph() and v.node >= first then
      local primitive = registry.primitive(v.op.type)
      if primitive == 'Exit' or primitive == 'Merge' then list[#list + 1] = { name, v } end
    end
    seen[name] = true
  end
  return list
end

--- `x = 656.8408 float32[]`, or its dtype and shape where nothing was run.
local function line(name, o, value)
  if value == nil then return ('%s: %s'):format(name, text.shape(o.dtype, o.shape)) end
  if getmetatable(value) ~= tensor.Tensor then return name .. ' = ' .. values.scalar(value, o.dtype) end
  local shown = values.text(value)
  return ('%s =%s%s'):format(name, shown:find '\n' and '\n' or ' ', shown)
end

--- The values of the outputs, and what their run did; no values, and why, where it needs feeds, has effects or failed.
local function run(outputs)
  for _, o in ipairs(outputs) do
    if not core.needs_nothing(o.graph.handle, o.node, o.index) then
      return {}, 'not computed: it needs feeds or has effects'
    end
  end
  local before = df.stats()
  local ok, found = pcall(df.run, outputs, nil, { timeout = PATIENCE })
  if ok then return found, timing.did(before, df.stats()) end
  if found.code == 'cancelled' then error(found, 0) end
  return {}, found.code == 'deadline_exceeded' and ('not computed within %d s'):format(PATIENCE) or found.message
end

--- Lines about an input that was run: none where it is no staged statement.
-- @param first  nodes that the default graph had before it
function M.lines(input, first)
  local list, outputs, lines = STAGED[input:match '^%s*(%l+)%f[^%w_]'] and results(input, first) or {}, {}, {}
  if #list == 0 then return lines end
  for i, r in ipairs(list) do outputs[i] = r[2] end
  local found, did = run(outputs)
  for i, r in ipairs(list) do lines[i] = line(r[1], r[2], found[i]) end
  local name, scope = list[1][1], outputs[1].op.name:match '^(.*)/[^/]*$' or outputs[1].op.name
  local asked = (':step x, :graph x, :grad x'):gsub('x', name)
  lines[#lines + 1] = values.paint(('%s: %s  (%s)'):format(scope, did, asked), 'D')
  return lines
end

return M
