-- What every op says of its inputs: for each op of the registry, inputs of many ranks and sizes, attributes of many values, and the dtypes and shapes that it gives when it
-- is built and when it runs, or the error in words. spec/pages/ops.txt has them (spec/pages.lua): no message and no shape changes unseen. That
-- they are right is in the specs of the ops.
local pages = require 'spec.pages'
local told = require 'spec.told' { floats = { {}, { 3 }, { 2, 3 }, { 2, 3, 4 }, { 1, 4, 4, 2 }, { -1, 3 }, false },
                                  numbers = { 0, { 1 }, { 2, 1 }, { { 0, 1 }, { 1, 0 } }, -3, { 5, -1, 2 }, false }, most = 24 }

--- What an attribute is tried with besides what it is by itself.
local OTHERS = { int = { -1, 0, 2 }, float = { 0, -1 }, bool = { true, false }, string = { '', 'x', 'NCHW', 'SAME', 'VALID' },
                 dtype = { 'float64', 'int32', 'bool', 'string' }, shape = { {}, { -1, 2 } }, ints = { {}, { 1, 2 }, { 1, 2, 2, 1 } } }

describe('what an op says of its inputs', function()
  local ops = told:ops 'ops.txt'
  for _, op in ipairs(ops) do
    it('is what it was: ' .. op.type, function()
      local lines = {}
      local inputs = #op.entry.inputs
      for k, choice in ipairs(told:choices(inputs)) do lines[k] = told:line(op, choice) end
      for _, a in ipairs(op.entry.attrs) do
        for _, to in ipairs(OTHERS[a.kind] or {}) do
          for _, k in ipairs{ 3, 5 } do
            local choice = {}
            for i = 1, inputs do choice[i] = k end
            lines[#lines + 1] = told:line(op, choice, a.name, to)
          end
        end
      end
      pages.section('ops.txt', op.type, table.concat(lines, '\n'))
    end)
  end

  it('is asked of most ops', function() assert.is_true(#ops > 300, #ops) end)
end)
