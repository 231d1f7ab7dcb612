--- The standard's own tests of its operators, the small ones of them (spec/models/onnx_nodes.gz, written by spec/onnx_nodes.lua), and what ONNX
-- Runtime gives for operators that they leave out (spec/models/onnx_runtime.gz, of the cases that spec/onnx_runtime.py writes).
local df = require 'dflow'
local case = require 'spec.onnx_case'
local read = require 'dflow.exchange.onnx.read'

--- The files by their paths, and the names of the cases by the operators of their first nodes.
local function recorded(path)
  local data, files, cases, ops, at = df.data.read(path), {}, {}, {}, 1
  while at <= #data do
    local path, size, from = data:match('^(%S+) (%d+)\n()', at)
    files[path], at = data:sub(from, from + size - 1), from + size
    local name = path:match '^(.*)/model%.onnx$'
    local node = name and read.message('model', files[path]).graph.nodes[1]
    if name then
      local op = node and node.op or 'nothing'
      if not cases[op] then cases[op], ops[#ops + 1] = {}, op end
      table.insert(cases[op], name)
    end
  end
  table.sort(ops)
  return files, cases, ops
end

for path, whose in pairs{ onnx_nodes = 'the standard\'s own test', onnx_runtime = 'ONNX Runtime\'s result' } do
  describe(whose .. ' of', function()
    local files, cases, ops = recorded('spec/models/' .. path .. '.gz')
    for _, op in ipairs(ops) do
      it(op .. ' is what is found here, or it is said why not', function()
        for _, name in ipairs(cases[op]) do
          local function bytes_of(file) return files[file] end
          local refused = files[name .. '/refused']
          if refused then
            local _, why = pcall(case, name, bytes_of)
            assert.equal(name .. ': ' .. refused, name .. ': ' .. (type(why) == 'table' and why.message or tostring(why)))
          else
            local why = case(name, bytes_of)
            assert.equal(nil, why and name .. ': ' .. why)
          end
        end
      end)
    end

    it('are most of what it has', function() assert.is_true(#ops > (path == 'onnx_nodes' and 100 or 30), #ops .. ' operators') end)
  end)
end
