--- pcall for functions of the user's that are called while something stands: a loop, a branch, a scope, control dependencies.
--
-- A yield out of one would leave the graph in the middle of it, for ever when the coroutine is dropped; so it is an error, which
-- unwinds like any other. Lua refuses a yield across a C function that called Lua: string.gsub is one, and is put between
-- where a yield would be possible. Coroutines that begin and end inside are not touched by this.
local errors = require 'dflow.front.errors'

local gsub, pcall, isyieldable = string.gsub, pcall, coroutine.isyieldable
local unpack = table.unpack or unpack

local function pack(...)
  return { n = select('#', ...), ... }
end

local function in_words(e)
  if type(e) == 'string' and e:find('attempt to yield across', 1, true) then
    local made, ours = pcall(errors.bad, 'a function that builds a body, a branch or a scope cannot yield: the graph would be left in the middle of it')
    if not made then return ours end
  end
  return e
end

return function(fn, ...)
  if not isyieldable() then return pcall(fn, ...) end
  local args, results = pack(...), nil
  local ok, e = pcall(gsub, ' ', ' ', function() results = pack(fn(unpack(args, 1, args.n))) end)
  if ok then return true, unpack(results, 1, results.n) end
  return false, in_words(e)
end
