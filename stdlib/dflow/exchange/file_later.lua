--- Files that are written while Lua goes on: checkpoints.
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local ops = require 'dflow.front.ops'
local registry = require 'dflow.front.registry'
local session = require 'dflow.front.session'
local tensor = require 'dflow.front.tensor'
local files = require 'dflow.exchange.file'

--- Writes a file in the background: strings and Tensors, none of which is copied, written by a run of its own.
-- @return  function(wait): whether it is done; raises what went wrong
return function(path, parts)
  local feeds, inputs, s, h = {}, {}, nil, nil
  local g = graph.new_graph()
  graph.with(g, function()
    local place = ops.functions.placeholder('string', {})
    feeds[place] = tensor.tensor(files.path(path), 'string')
    for i, v in ipairs(parts) do
      local t = type(v) == 'string' and tensor.tensor(v, 'string') or v
      inputs[i] = ops.functions.placeholder(t.dtype, t.shape)
      feeds[inputs[i]] = t
    end
    s = session.new{ graph = g }
    h = s:start(registry.op('WriteWholeFile', { place, inputs }), feeds, { at_once = true })
  end)
  return function(wait)
    if not wait and not h:done() then return false end
    local ok, e = pcall(h.wait, h)
    s:close()
    if not ok then
      if errors.is(e) then e.op, e.source = nil, nil end
      error(e, 0)
    end
    return true
  end
end
