--- Lines about an op where little is known of its inputs, for unknown_spec.lua.
--   lua5.4 -e "print(table.concat(require 'spec.ops.unknown'.lines_of 'Conv2D', '\\n'))"
local told = require 'spec.told' { floats = { { -1 }, { -1, -1 }, { 2, -1 }, { -1, 3 }, { -1, -1, -1 }, { 2, -1, 3 }, { -1, -1, -1, -1 }, { 1, 4, -1, 2 },
                                              { -1, 4, 4, 2 }, { 3, -1, 2, 2 }, { 1, -1, 4, 4, 2 }, {}, false },
                                  numbers = { 1, { 0 }, false, { 1, 0 }, { 2, 2 }, -1, false, { 1, 2, 2, 1 }, { -1, 1 }, 2, { 3, 1, 1 }, 0, false },
                                  builds = true }

local M = { told = told }

local OTHERS = { int = { -1, 2 }, bool = { true, false }, string = { 'SAME', 'VALID', 'NCHW', 'NHWC' }, ints = { { 0 }, { 1, 2 }, { 1, 2, 2, 1 } },
                 shape = { {}, { -1, 2 } }, dtype = { 'float64', 'int32' } }

--- The lines of an op: all inputs alike, then one of them each way beside others of rank 2 and of rank 4.
function M.lines(op)
  local lines, n = {}, #op.entry.inputs
  local function say(choice, ...) lines[#lines + 1] = told:line(op, choice, ...) end
  local function alike(k)
    local choice = {}
    for i = 1, n do choice[i] = k end
    return choice
  end
  for k = 1, #told.floats do say(alike(k)) end
  for i = 1, n > 1 and n or 0 do
    for _, base in ipairs{ 4, 9 } do
      for k = 1, #told.floats do
        local choice = alike(base)
        choice[i] = k
        if k ~= base then say(choice) end
      end
    end
  end
  for _, a in ipairs(op.entry.attrs) do
    for _, to in ipairs(OTHERS[a.kind] or {}) do
      for _, k in ipairs{ 4, 7, 9 } do say(alike(k), a.name, to) end
    end
  end
  return lines
end

function M.lines_of(type_name)
  for _, op in ipairs(told:ops 'unknown.txt') do if op.type == type_name then return M.lines(op) end end
end

function M.summary(lines)
  local h, wrong, text = 7, 0, table.concat(lines, '\n')
  for i = 1, #text do h = (h * 257 + text:byte(i)) % 2147483647 end
  for _, l in ipairs(lines) do wrong = wrong + (l:find '%-> %w+[%[?]' and 0 or 1) end
  return ('%d lines, %d of them errors, sum %d'):format(#lines, wrong, h)
end

return M
