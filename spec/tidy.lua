--- tidy.lua: busted reads it before the specs (.busted). Each test begins with a new default graph. It removes the files that os.tmpname
-- made when the specs end, and drops the functions of each spec file once busted has run it: each file has a dflow of its own, and a garbage
-- collection takes longer the more of them there are. A beta of LuaJIT interprets them: it miscompiles a recursion that makes trees in one process of six.
if rawget(_G, 'jit') and _G.jit.version:find('beta', 1, true) then _G.jit.off() end
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

busted.subscribe({ 'test', 'end' }, function()
  local df = package.loaded.dflow
  if type(df) == 'table' and df.reset then pcall(df.reset) end
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
