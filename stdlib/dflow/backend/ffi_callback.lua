--- Lua functions that C calls.
--
-- LuaJIT keeps what it has made of a function for ever. It holds the function weakly here: its caller keeps it, and a
-- module that is loaded anew (a notebook's, a spec's) does not keep the one before.
local ffi = require 'ffi'

local FAILED_PRECONDITION = 9

--- fn as a C function of that type, one that gives an error's code. Once fn is gone, it is one that always fails.
return function(kind, fn)
  local held = setmetatable({ fn = fn }, { __mode = 'v' })
  local function call(...)
    local now = held.fn
    if now then return now(...) end
    return FAILED_PRECONDITION
  end
  jit.off(call)                 -- a callback must not happen inside compiled code
  return ffi.cast(kind, call)
end
