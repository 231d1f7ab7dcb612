--- tidy.lua: read by busted before the specs (.busted): the files that os.tmpname has made for them are gone when they end.
local busted = require 'busted'
local tmpname, made = os.tmpname, {}

rawset(os, 'tmpname', function()
  local path = tmpname()
  made[#made + 1] = path
  return path
end)

busted.subscribe({ 'suite', 'end' }, function()
  for _, path in ipairs(made) do os.remove(path) end
  return nil, true
end)
