--- pcall for functions of the user's that are called while something stands: a loop, a branch, a scope, control
-- dependencies.
--
-- A yield out of one would leave the graph in the middle of it, for ever when the coroutine is dropped; so it is an
-- error, which unwinds like any other. Lua refuses a yield across a C function that called Lua: string.gsub is one, and
-- is put between where a yield would be possible. Coroutines that begin and end inside are not touched by this.
-- A function that builds itself in itself never ends: Lua stops it where it can call no deeper, and that is said here,
-- too.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'

local gsub, pcall, isyieldable = string.gsub, pcall, coroutine.isyieldable
local unpack = table.unpack or unpack

local function pack(...)
  return { n = select('#', ...), ... }
end

local function in_words(e)
  if type(e) == 'string' and e:find('attempt to yield across', 1, true) then
    local made, ours = pcall(errors.bad,
                             'a function that builds a body, a branch or a scope cannot yield: the graph would be '
                             .. 'left in the middle of it')
    if not made then return ours end
  end
  return e
end

-- Calls of these functions that are open, one in another. Each takes some of the 200 C calls that Lua 5.4 allows within
-- another, or of LuaJIT's stack; what to say of that is found where there is room again.
local nested, deepest, ROOM = 0, 0, 24

--- Lua's own error of too many calls, as one of dflow's, where a few of them have been left.
local function too_deep(e)
  if type(e) ~= 'string' or not e:find('stack overflow', 1, true) then return e end
  if deepest - nested < ROOM and nested > 0 then return e end
  local what = deepest < ROOM and 'a function that is called here calls itself more often than Lua can: ' .. e
    or ('bodies and branches are nested %d deep here, which is more than Lua can call'):format(deepest)
  return setmetatable({ code = 'resource_exhausted', source = core.where(),
    message = what .. '; one that builds itself never ends: repeat with while_loop what is to happen many times' },
    errors.Error)
end

local function leave(ok, ...)
  nested = nested - 1
  if ok then return true, ... end
  return false, too_deep((...))
end

local function note(e)
  if type(e) == 'string' and not e:find('stack overflow', 1, true) then errors.leaves(e, nested) end
  return e
end

--- pcall(fn, ...), which has told of too many calls inside.
local function enter(fn, ...)
  nested = nested + 1
  deepest = nested
  return leave(xpcall(fn, note, ...))
end

return function(fn, ...)
  if not isyieldable() then return enter(fn, ...) end
  local args, results = pack(...), nil
  local ok, e = enter(gsub, ' ', ' ', function() results = pack(fn(unpack(args, 1, args.n))) end)
  if ok then return true, unpack(results, 1, results.n) end
  return false, in_words(e)
end
