-- run: once
-- What is written as ONNX or as a GraphDef and read again computes what it computed: calls of each op with attributes and dtypes of many kinds
-- (spec/ops/cases.lua). What has no form there is refused as unimplemented, by the op's name.
local df = require 'dflow'
local cases = require 'spec.ops.cases'
local support = require 'spec.support'
local unpack = table.unpack or unpack

local MOST, LARGEST = 6, 2000                       -- cases of an op, elements of an input

--- Some of an op's cases, from the first to the last, of no great size.
local function some_of(list)
  local small = {}
  for _, case in ipairs(list) do
    local size = 0
    for _, t in ipairs(cases.tensors(case)) do size = math.max(size, t.size) end
    if size <= LARGEST then small[#small + 1] = case end
  end
  local out, step = {}, math.max(1, #small / MOST)
  for i = 1, math.min(#small, MOST) do out[i] = small[math.floor((i - 1) * step) + 1] end
  return out
end

--- The node of a case in a graph of its own: outputs by name, placeholders by name, and what these are fed.
local function built(case)
  df.reset()
  local fed, placeholders, names, outputs = cases.tensors(case), {}, {}, {}
  for i, t in ipairs(fed) do
    placeholders[i] = df.placeholder(t.dtype, t.shape, 'x' .. i)
    names['x' .. i] = t
  end
  local results = { cases.build(case, unpack(placeholders)) }
  if df.type(results[1]) ~= 'output' then results = results[1] end       -- a list
  for i, y in ipairs(results) do outputs['y' .. i] = df.identity(y) end
  return outputs, names, placeholders
end

local function run_all(session, outputs, feeds)
  local values = {}
  for name, y in pairs(outputs) do values[name] = session:run(y, feeds, { tensors = true }) end
  return values
end

--- Writes with one function, reads with another, and compares what the graphs give; or sees that it is refused by name.
local function compare(case, ending, write, read)
  local outputs, names, placeholders = built(case)
  local feeds = {}
  for i, p in ipairs(placeholders) do feeds[p] = names['x' .. i] end
  local wanted = run_all(df.Session(), outputs, feeds)
  local path = os.tmpname() .. ending
  local ok, why = pcall(write, path, outputs)
  if not ok then
    assert.equals('unimplemented', why.code, why.message)
    assert.is_truthy(why.message:find(case.op, 1, true) or why.message:find 'dtype' or why.message:find "'", why.message)
    return
  end
  local g, find = read(path, outputs)
  os.remove(path)
  local again, fed = df.Session{ graph = g }, {}
  for name, t in pairs(names) do fed[find(name)] = t end
  local rtol = cases.tolerance(case, placeholders)
  for name in pairs(outputs) do
    local value, rest = again:run(find(name), fed, { tensors = true }), wanted[name]
    assert.same(rest.shape, value.shape)
    support.near(value:list(), rest:list(), { rtol = rtol, atol = rtol / 5, what = name })
  end
  again:close()
end

local function onnx(case)
  return compare(case, '.onnx', function(path, outputs) df.export_onnx(path, { outputs = outputs }) end, function(path)
    local g = df.import_onnx(path)
    return g, function(name) return g:output(name) end
  end)
end

local function graph_def(case)
  return compare(case, '.pb', function(path, outputs)
    local list = {}
    for _, y in pairs(outputs) do list[#list + 1] = y end
    df.export_graph_def(path, { outputs = list })
  end, function(path, outputs)
    local g = df.import_graph_def(path)
    return g, function(name) return g:output(outputs[name] and outputs[name].name or name .. ':0') end
  end)
end

describe('a graph that is written and read again computes what it did', function()
  local by, names = cases.by_op()
  for _, op in ipairs(names) do
    it('as ONNX: ' .. op, function() for _, case in ipairs(some_of(by[op])) do onnx(case) end end)
    it('as a GraphDef: ' .. op, function() for _, case in ipairs(some_of(by[op])) do graph_def(case) end end)
  end
end)
