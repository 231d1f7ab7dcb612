--- df.run(x, feeds, {check_numerics = true}): the run ends at the first op that makes a NaN, and says which, where and when.
--
-- It is a run that is watched: it stops behind each op whose result holds one. So it is slower, and alike in everything else.
local errors = require 'dflow.front.errors'

local M = {}

local made = { [true] = 'a NaN', nan = 'a NaN', inf = 'a NaN or an infinity' }

--- What the option may be; raises for everything else.
function M.check(v)
  if v == nil or v == false or made[v] then return v or nil end
  errors.bad("run: check_numerics is true or 'nan', or 'inf' for infinities, too; not %s", errors.describe(v))
end

--- The run of `start(opts)`, which gives a handle that is paused; `kind` is the option.
function M.run(start, kind)
  local h = start()
  local ok, stop = pcall(function()
    h:break_at{ nan = true, inf = kind == 'inf' or nil }
    h:resume()
    return h:settle()
  end)
  if not ok then
    h:cancel()
    pcall(h.wait, h)
    error(stop, 0)
  end
  if not stop then return h:wait() end
  local op, tag = stop.op, stop.tag
  h:cancel()
  pcall(h.wait, h)
  error(setmetatable({ code = 'invalid_argument', source = op.source, op = ('%s (%s)'):format(op.name, op.type),
                       frame = tag ~= '' and tag or nil,
                       message = ('%s made %s, the first of this run'):format(op.name, made[kind]) }, errors.Error), 0)
end

return M
