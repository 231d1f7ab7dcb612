--- The numbers of dflow.h's enums, read from the header that the library carries, so that they are not written down
-- again:
-- `enums.DF_RUN_PAUSED`. An unknown name is an error.
local core = require 'dflow.backend'

--- {NAME = number} of all enumerators in C text. An enumerator is a name, or a name and a decimal or hexadecimal
-- number.
local function parse(header)
  local numbers = {}
  local text = header:gsub('/%*.-%*/', ' ')
  for body in text:gmatch('%f[%w]enum%s*[%w_]*%s*(%b{})') do
    local next_number = 0
    for name, value in body:sub(2, -2):gmatch('([%a_][%w_]*)%s*(=?[^,]*)') do
      next_number = tonumber((value:match('^=%s*(%S+)'))) or next_number
      numbers[name] = next_number
      next_number = next_number + 1
    end
  end
  return numbers
end

return setmetatable({ parse = parse }, { __index = function(t, name)
  for key, number in pairs(parse(core.header())) do rawset(t, key, number) end
  local number = rawget(t, name)
  if number == nil then error('dflow.h has no enumerator ' .. tostring(name), 2) end
  return number
end })
