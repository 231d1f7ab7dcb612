--- df.run(x, feeds, {check_numerics = true}): the run ends at the first op that makes a NaN, and says which, where and
-- when.
--
-- It is a run that is watched: it stops behind each op whose result holds one. So it is slower, and alike in everything
-- else.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'

local M = {}

local made = { [true] = 'a NaN', nan = 'a NaN', inf = 'a NaN or an infinity' }

--- What the option may be; raises for everything else.
function M.check(v)
  if v == nil or v == false or made[v] then return v or nil end
  errors.bad("run: check_numerics is true or 'nan', or 'inf' for infinities, too; not %s", errors.describe(v))
end

--- Has a run that is paused stop at the first; it goes on then, unless it was asked to begin `paused`.
function M.watch(r, kind, paused)
  local ok, id = pcall(r.break_at, r, { nan = true, inf = kind == 'inf' or nil })
  if not ok then
    r:cancel()
    error(id, 0)
  end
  r.numerics = { id = id, kind = kind }
  if not paused then r:resume() end
end

local function is_ours(r, stop) return stop ~= nil and stop.breakpoint == r.numerics.id end

--- Does it stand at its first NaN?
function M.met(r) return is_ours(r, r:settle(0)) end

--- Waits until the run is over or paused. Where that is at its first NaN, it is cancelled, and `found` is what it ends
-- with.
function M.settle(r)
  local stop = r:settle()
  if not is_ours(r, stop) then return end
  local op, tag = stop.op, stop.tag
  r.numerics.found = setmetatable({ code = 'invalid_argument', source = op.source,
      op = ('%s (%s)')
        :format(op.name, op.type), frame = tag ~= '' and tag or nil,
                                    message = ('%s made %s, the first of this run'):format(op.name,
                                        made[r.numerics.kind]) }, errors.Error)
  core.run_cancel(r.handle)
end

return M
