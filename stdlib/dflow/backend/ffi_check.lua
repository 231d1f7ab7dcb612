--- The functions of interp/binding_check.c once more, over FFI: see dflow.ffi.
local ffi = require 'ffi'
local new, str = ffi.new, ffi.string

--- Adds them to the core table.
-- @param own  what dflow.ffi keeps to itself: pairs_of, list_of, raise, charge, err
return function(core, C, own)
  local pairs_of, list_of, raise, err = own.pairs_of, own.list_of, own.raise, own.err

  function core.graph_copy(g, wide, outputs)
    local p, n = pairs_of(outputs)
    local copy = C.df_graph_copy(g, wide and true or false, n / 2, p, err)
    if copy == nil then raise() end
    own.charge(C.df_graph_nodes(copy) * 400 + 65536)
    return ffi.gc(copy, C.df_graph_release)
  end

  function core.graph_pack(g)
    local t = C.df_graph_pack(g, err)
    if t == nil then raise() end
    local bytes = str(C.df_tensor_data(t), tonumber(C.df_tensor_size(t)))
    C.df_tensor_release(t)
    return bytes
  end

  function core.graph_unpack(bytes, trusting)
    local g = C.df_graph_unpack(bytes, #bytes, trusting and true or false, err)
    if g == nil then raise() end
    own.charge(C.df_graph_nodes(g) * 400 + 65536)
    return ffi.gc(g, C.df_graph_release)
  end

  function core.graph_set_loops(g, parallel_iterations, save) C.df_graph_set_loops(g, parallel_iterations, save) end

  function core.graph_needs(g, outputs)
    local p, n = pairs_of(outputs)
    local nodes = new('int32_t[?]', C.df_graph_nodes(g) + 1)
    return list_of(nodes, C.df_graph_needs(g, n / 2, p, nodes))
  end

  function core.graph_prepare(g)
    if C.df_graph_prepare(g, err) ~= 0 then raise() end
  end

  function core.graph_record(g, on) C.df_graph_record(g, on and true or false) end

  function core.graph_unroll(g, outputs, xs, most)
    local p, n = pairs_of(outputs)
    local x, nx = pairs_of(xs)
    local out, before = new('int32_t[?]', n + 2), C.df_graph_nodes(g)
    local code = C.df_graph_unroll(g, n / 2, p, nx / 2, x, most, out, err)
    own.charge((C.df_graph_nodes(g) - before) * 400)
    if code ~= 0 then raise() end
    return list_of(out, n)
  end

  function core.node_origin(g, node) return C.df_node_origin(g, node) end
  function core.node_iteration(g, node) return str(C.df_node_iteration(g, node)) end
  function core.op_break_gradient(op, factor) C.df_op_break_gradient(op, factor) end
end
