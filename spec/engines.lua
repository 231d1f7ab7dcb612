--- The token engine beside native code: one graph under both.
local df = require 'dflow'
local support = require 'spec.support'
local assert = require 'luassert'
local M = {}

--- What the run gives under an engine, with what it counted: a table, or an error's fields.
local function under(engine, fetches, feeds)
  local s = df.Session{ engine = engine }
  local ok, found = pcall(s.run, s, fetches, feeds)
  local c = s:stats()
  local counts = ('%d nodes, %d dead, %d frames, %d iterations, %d pushed, %d popped'):format(c.nodes_run, c.dead_tokens, c.frames,
    c.iterations, c.stack_pushes, c.stack_pops)
  s:close()
  if not ok then return { error = found.message or tostring(found), op = found.op, frame = found.frame, source = found.source } end
  return { found = found, counts = counts }
end

local bits = support.bits

--- Runs under both: the same values bit for bit, errors and counts. What native code gave.
function M.same_under_both(fetches, feeds)
  local tokens, native = under('tokens', fetches, feeds), under('native', fetches, feeds)
  assert.same(tokens.error, native.error)
  assert.same({ tokens.op, tokens.frame, tokens.source }, { native.op, native.frame, native.source })
  assert.same(bits(tokens.found), bits(native.found))
  assert.equal(tokens.counts, native.counts)
  return native
end

return M
