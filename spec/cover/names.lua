--- names.lua: tests by their full names, as busted knows them: of what is read, or of what is being registered.
local busted = require 'busted'
local stack = {}         -- the file and the blocks that are open

for _, kind in ipairs{ 'file', 'describe' } do
  busted.subscribe({ kind, 'start' }, function(element)
    stack[#stack + 1] = element
    return nil, true
  end, { priority = 1 })
  busted.subscribe({ kind, 'end' }, function()
    stack[#stack] = nil
    return nil, true
  end)
end

--- The full name of a test of that name here, and the path of its file.
return function(name)
  local names, file = {}, ''
  for _, element in ipairs(stack) do
    if element.descriptor == 'file' then file = element.name else names[#names + 1] = element.name or element.descriptor end
  end
  names[#names + 1] = name
  return (table.concat(names, ' '):gsub('\n', ' ')), (file:gsub('^%./', ''))
end
