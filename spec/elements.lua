--- The first elements of Tensors as a line tells them, to three digits.
local df = require 'dflow'

local element_text

function element_text(v)
  if type(v) == 'string' then return ('%q'):format(v):gsub('\\?\n', '\\n') end
  if type(v) == 'table' then return element_text(v.re) .. ',' .. element_text(v.im) end              -- complex
  if type(v) == 'boolean' then return tostring(v) end
  v = tonumber(v)                                      -- LuaJIT has large uint64s as what is no number
  if v ~= v then return 'nan' end
  if math.abs(v) < 1e-6 then return '0' end           -- what is left of a difference
  return (('%.3g'):format(v * 1.00001):gsub('e([+-])0+', 'e%1'))       -- halves are rounded to one side, however they were computed
end

--- The first elements of each of a list of results, as ` = 1 2 3 | 0.5`.
return function(list)
  local out = {}
  for i, t in ipairs(list) do
    local some = {}
    if df.type(t) == 'tensor' and t.dtype ~= 'resource' and t.dtype ~= 'variant' then
      local ok, all = pcall(t.list, t)
      for k = 1, ok and math.min(#all, 9) or 0 do some[k] = element_text(all[k]) end
    end
    out[i] = table.concat(some, ' ')
  end
  return ' = ' .. table.concat(out, ' | ')
end
