--- What is written as a GraphDef of calls of each op with attributes and dtypes of many kinds (spec/ops/cases.lua): TensorFlow's ops, and a sum of all that is
-- said of them, attributes that have defaults, too; or in which words it is refused. spec/pages/exchange/exported.txt has it (spec/pages.lua). That it
-- computes the same is in round_trip_spec.lua.
local df = require 'dflow'
local cases = require 'spec.ops.cases'
local pages = require 'spec.pages'
local shell = require 'spec.shell'
local unpack = table.unpack or unpack

local MOST, LARGEST = 12, 20000                     -- cases of an op, elements of their inputs

--- A case as TensorFlow's text; of large constants the elements are not looked at.
local function text_of(case)
  df.reset()
  local given, xs, list = cases.tensors(case), {}, {}
  local size = 0
  for i, t in ipairs(given) do
    size = size + t.size
    xs[i] = df.placeholder(t.dtype, t.shape, 'x' .. i)
  end
  if size > LARGEST then return nil end
  local results = { cases.build(case, unpack(xs)) }
  if df.type(results[1]) ~= 'output' then results = results[1] end       -- a list
  for i, y in ipairs(results) do list[i] = df.identity(y) end
  local path = os.tmpname()
  os.remove(path)
  path = path .. '.pbtxt'
  local ok, why = pcall(df.export_graph_def, path, { outputs = list })
  if not ok then return 'refused: ' .. why.message:match '^[^\n]*\n?[^\n]*':gsub('%S*%.lua:%d+:? ?', ''):gsub('\n', ' / ') end
  local text, ops, h = shell.read(path), {}, 7
  os.remove(path)
  for op in text:gmatch 'op: "([^"]*)"' do if op ~= 'Placeholder' and op ~= 'Identity' then ops[#ops + 1] = op end end
  for i = 1, #text do h = (h * 257 + text:byte(i)) % 2147483647 end
  return ('%s; %d bytes, sum %d'):format(table.concat(ops, ' '), #text, h)
end

describe('what is written as a GraphDef', function()
  local by, names = cases.by_op()
  for _, op in ipairs(names) do
    it('is what it was: ' .. op, function()
      local lines, step = {}, math.max(1, #by[op] / MOST)
      for i = 1, math.min(#by[op], MOST) do lines[#lines + 1] = text_of(by[op][math.floor((i - 1) * step) + 1]) end
      pages.section('exchange/exported.txt', op, table.concat(lines, '\n'))
    end)
  end
end)
