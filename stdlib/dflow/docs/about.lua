--- What the entries of ops say of themselves, for help.
local core = require 'dflow.backend'

--- Calls fn(name, text) for each op with a Lua name whose entry says `what`: see df_op_about in dflow.h.
return function(what, fn)
  for op = 0, core.op_count() - 1 do
    local text = core.op_about(op, what)
    local name = text and core.op_info(op).lua
    if name then fn(name, text) end
  end
end
