--- Chooses the core table: the C module under Lua 5.4, the FFI under LuaJIT. Both have the same functions.
require 'dflow.own'
local core
if rawget(_G, 'jit') then
  require 'dflow.backend.interpreted'
  core = require 'dflow.backend.ffi'
else
  core = require 'dflow.core'
end

-- Lines of these files are never reported as the place where a user built something.
local base = debug.getinfo(1, 'S').source:match('^(.*)backend%.lua$') or '@dflow/'
core.own(base, (base:gsub('[/\\]$', '')) .. '.lua')
return core
