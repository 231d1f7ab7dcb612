--- Chooses the core table: the C module under Lua 5.4, the FFI under LuaJIT. Both have the same functions.
local core
if rawget(_G, 'jit') then
  -- The LuaJIT of Debian 12 (2.1.0-beta3 of March 2022) makes a constant of a nil when a trace loads a string field of a table literal that was
  -- set after the table was made (TDUP load forwarding); its collector then follows it and crashes, once in some ten minutes of the specs.
  -- Later ones mend that; there nothing is turned off.
  if jit.version:find('beta', 1, true) then jit.opt.start('-fwd') end
  core = require 'dflow.backend.ffi'
else
  core = require 'dflow.core'
end

-- Lines of these files are never reported as the place where a user built something.
local base = debug.getinfo(1, 'S').source:match('^(.*)backend%.lua$') or '@dflow/'
core.own(base, (base:gsub('[/\\]$', '')) .. '.lua')
return core
