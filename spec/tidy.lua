--- tidy.lua: read by busted before the specs (.busted). The files that os.tmpname has made for them are gone when they end; and what a
-- spec file held, its functions, is let go of when it has been read: each has a dflow of its own, and a collection takes the
-- longer the more of them there are.
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

local function forget(element)
  for _, child in ipairs(busted.children(element)) do
    forget(child)
    child.run, child.env = nil, nil
  end
end

busted.subscribe({ 'file', 'end' }, function(file)
  forget(file)
  return nil, true
end)
