--- Which line of the user's asks, under LuaJIT: see dflow.ffi.
local own1, own2 = '@\0', '@\0'
local kinds = setmetatable({}, { __mode = 'k' })   -- function -> what kind_of says
local getinfo = debug.getinfo

--- The prefixes of sources that are dflow's own.
local function own(p1, p2)
  own1, own2 = p1, p2
end

local function line_of(info, line)
  local source, first = info.source, info.source:sub(1, 1)
  if first == '@' or first == '=' then source = source:sub(2) else source = info.short_src end
  return source .. ':' .. line
end

--- The frame of a user's function is gone, because it ended in a tail call: the last line before its `end`.
local function tail_line(level)
  local _, fn = debug.getlocal(level + 1, 1)
  if type(fn) ~= 'function' then return nil end
  local info = getinfo(fn, 'SL')
  if info.what == 'C' or info.source:sub(1, #own1) == own1 or info.source:sub(1, #own2) == own2 then return nil end
  local line
  for at in pairs(info.activelines or {}) do
    if at < info.lastlinedefined and (not line or at > line) then line = at end
  end
  return line_of(info, line or info.lastlinedefined)
end

--- What a function is: the name of the user's file it is from, true for dflow's own and C, 'call' for the one in
-- call.lua.
local function kind_of(f)
  local info = getinfo(f, 'S')
  local source = info.source
  if info.what == 'C' then return true end
  if source:sub(1, #own1) == own1 or source:sub(1, #own2) == own2 then
    return source:sub(-9) == '/call.lua' and 'call' or true
  end
  local first = source:sub(1, 1)
  return { (first == '@' or first == '=') and source:sub(2) or info.short_src }
end

--- `file:line` of the innermost function from that level on that is not dflow's, and the level behind it; nil where
-- there is none.
local function from(level)
  while true do
    local info = getinfo(level, 'fl')
    if not info then return nil end
    local f = info.func
    local kind = f and kinds[f]
    if not kind then
      kind = f and kind_of(f) or true
      if f then kinds[f] = kind end
    end
    if kind == 'call' then
      local line = tail_line(level)
      if line then return line, level end
    elseif kind ~= true and info.currentline >= 0 then
      return kind[1] .. ':' .. info.currentline, level
    end
    level = level + 1
  end
end

local CALLERS = 12              -- frames that are told

--- The lines of the user's frames from that level on, one below the other; nil where there is none.
local function lines(level)
  local list = {}
  for k = 1, CALLERS do
    list[k], level = from(level)
    if not level then break end
    level = level + 1
  end
  return list[1] and table.concat(list, '\n')
end

--- The user's line. LuaJIT makes a table for each frame that is looked at: to number the callers of every op, as the C
-- binding does, took half as much time again as building (3.5 against 2.4 us a node), so those of an op that fails in a
-- run are not known here.
local at_line, at_callers
local function where()
  if at_line then return at_line, at_callers end
  local line = from(3)
  return line
end

--- What is built from now on is of that line; nil: of the user's line, again. Returns both as they were.
local function at(line, callers)
  local old, old_callers = at_line, at_callers
  at_line, at_callers = line, callers
  return old, old_callers
end

--- The lines of the frames that called the user's line of now, one below the other; nil where there is none.
local function callers()
  if at_line then return lines(3) end
  local line, level = from(3)
  return line and lines(level + 2) or nil
end

return { own = own, where = where, callers = callers, at = at }
