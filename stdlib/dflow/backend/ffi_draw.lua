--- The functions of interp/binding_draw.c once more, over FFI: see dflow.ffi.
local ffi = require 'ffi'
local new, str = ffi.new, ffi.string

--- Adds them to the core table.
-- @param own  what dflow.ffi keeps to itself: pairs_of, list_of, raise, err
return function(core, C, own)
  local pairs_of, list_of, raise, err = own.pairs_of, own.list_of, own.raise, own.err

  function core.flows(g)
    local n = C.df_flows(g, 0, nil)
    local f, list = new('df_flow_info[?]', n + 1), {}
    C.df_flows(g, n, f)
    for i = 0, n - 1 do
      local x = f[i]
      list[i + 1] = { kind = x.kind, number = x.number, parent = x.parent, inside_0 = x.inside[0],
                      inside_1 = x.inside[1], pred_node = x.pred_node, pred_index = x.pred_index,
                      gradient_of = x.gradient_of, repeats = x.repeats, pass = x.pass,
                      parallel_iterations = tonumber(x.parallel_iterations), name = str(x.name), where = str(x.where),
                        save = str(x.save) }
    end
    return list
  end

  function core.flow_roles(g)
    local n = C.df_graph_nodes(g)
    local out = new('int32_t[?]', 3 * n + 3)
    C.df_flow_roles(g, out)
    return list_of(out, 3 * n)
  end

  function core.loop_variable(g, loop, variable) return str(C.df_loop_variable(g, loop, variable)) end

  function core.node_controls(g, node)
    local n = C.df_node_controls(g, node, 0, nil)
    local out = new('int32_t[?]', n + 1)
    C.df_node_controls(g, node, n, out)
    return list_of(out, n)
  end

  function core.node_device(g, node) return str(C.df_node_device(g, node)) end
  function core.node_pass(g, node) return C.df_node_pass(g, node) end
  function core.node_gradient_of(g, node) return C.df_node_gradient_of(g, node) end

  function core.plan_describe(g, fetches, feeds)
    local p, n = pairs_of(fetches)
    local q, m = pairs_of(feeds)
    local count = C.df_graph_nodes(g)
    local out = new('int32_t[?]', 2 * count + 2)
    local tokens = C.df_plan_describe(g, n / 2, p, m / 2, q, out, err)
    if tokens < 0 then raise() end
    return tokens, list_of(out, 2 * count)
  end
end
