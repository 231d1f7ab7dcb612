--- Graphs under LuaJIT: nodes, control flow, gradients, TensorFlow's graphs. See dflow.ffi.
local ffi = require 'ffi'
local element = require 'dflow.backend.ffi_element'
local callback = require 'dflow.backend.ffi_callback'
local new, str, gc, cast = ffi.new, ffi.string, ffi.gc, ffi.cast
local put, holds = element.put, element.holds

--- Adds them to the core table.
-- @param own  what dflow.ffi keeps to itself
return function(core, C, own)
  local err, raise, fail, charge, wrap, checked = own.err, own.raise, own.fail, own.charge, own.wrap, own.checked
  local pairs_of, list_of, take_dims, dims_buffer = own.pairs_of, own.list_of, own.take_dims, own.dims_buffer
  local SCALAR, TENSOR, one_value = own.SCALAR, own.TENSOR, new('df_value[1]')

  -- ---- nodes --------------------------------------------------------------------------------------------------------
  local NODE_CHARGE = 400

  function core.graph_new()
    local g = C.df_graph_new()
    if g == nil then fail('resource_exhausted', 'out of memory for a graph') end
    charge(65536)
    return gc(g, C.df_graph_release)
  end

  function core.graph_nodes(g) return C.df_graph_nodes(g) end
  function core.graph_set_seed(g, seed) C.df_graph_set_seed(g, seed) end
  function core.node_begin(g, op, where) C.df_node_begin(g, op, where) end
  function core.node_input(g, node, index) C.df_node_input(g, node, index) end
  function core.node_name(g, name) C.df_node_name(g, name) end
  function core.node_int(g, attr, v) C.df_node_int(g, attr, v) end
  function core.node_float(g, attr, v) C.df_node_float(g, attr, v) end
  function core.node_bool(g, attr, v) C.df_node_bool(g, attr, v and true or false) end
  function core.node_string(g, attr, s) C.df_node_string(g, attr, s, #s) end
  function core.node_dtype(g, attr, dtype) C.df_node_dtype(g, attr, dtype) end
  function core.node_tensor(g, attr, t) C.df_node_tensor(g, attr, t.handle) end

  function core.node_shape(g, attr, dims)
    local rank = take_dims(dims)
    C.df_node_shape(g, attr, rank, dims_buffer)
  end

  function core.node_ints(g, attr, list)
    local n = #list
    C.df_node_ints(g, attr, n, new('int64_t[?]', n + 1, list))
  end

  local function node_id(id)
    if id < 0 then raise() end
    charge(NODE_CHARGE)
    return id
  end

  function core.node_end(g) return node_id(C.df_node_end(g, err)) end

  local add_buffer = new('int32_t[32]')
  function core.add_node(g, op, where, n1, i1, n2, i2, n3, i3, ...)
    local n = 0
    if n1 then add_buffer[0], add_buffer[1], n = n1, i1, 1 end
    if n2 then add_buffer[2], add_buffer[3], n = n2, i2, 2 end
    if n3 then add_buffer[4], add_buffer[5], n = n3, i3, 3 end
    local more = select('#', ...)
    if more > 26 then fail('invalid_argument', (n + more / 2) .. ' inputs: add_node takes 16 at most') end
    for i = 1, more do add_buffer[5 + i] = select(i, ...) end
    return node_id(C.df_add_node(g, op, n + more / 2, add_buffer, where, err))
  end

  function core.constant_scalar(g, dtype, x, name, where)
    if not put[dtype] or not holds(dtype, x) then return nil end
    local v = one_value[0]
    v.kind, v.dtype = SCALAR, dtype
    put[dtype](v, x)
    return node_id(C.df_constant(g, one_value, name, where, err))
  end

  function core.constant_tensor(g, object, name, where)
    local v = one_value[0]
    v.kind, v.dtype, v.as.tensor = TENSOR, C.df_tensor_dtype(object.handle), object.handle
    return node_id(C.df_constant(g, one_value, name, where, err))
  end

  function core.push_control(g, nodes)
    if nodes == nil then return C.df_push_control(g, -1, nil) end
    local p, n = pairs_of(nodes)
    C.df_push_control(g, n, p)
  end
  function core.pop_control(g) C.df_pop_control(g) end
  function core.push_scope(g, name) C.df_push_scope(g, name) end
  function core.pop_scope(g) C.df_pop_scope(g) end
  function core.push_device(g, spec) C.df_push_device(g, spec) end
  function core.set_node_device(g, node, spec) C.df_node_set_device(g, node, spec) end
  function core.pop_device(g) C.df_pop_device(g) end

  function core.node_type(g, node) return str(C.df_node_type_of(g, node)) end
  function core.node_name_of(g, node) return str(C.df_node_name_of(g, node)) end
  function core.node_where(g, node) return str(C.df_node_where_of(g, node)) end
  function core.set_callers(g, node, callers) C.df_node_set_callers(g, node, callers) end
  function core.node_callers(g, node) return C.df_node_callers(g, node) end
  function core.node_by_name(g, name) return C.df_node_by_name(g, name) end
  function core.node_outputs(g, node) return C.df_node_outputs(g, node) end
  function core.node_inputs(g, node) return C.df_node_inputs(g, node) end

  local two = new('int32_t[2]')
  function core.node_input_of(g, node, i)
    C.df_node_input_of(g, node, i, two, two + 1)
    return two[0], two[1]
  end

  function core.output_dtype(g, node, index) return C.df_output_dtype(g, node, index) end
  function core.output_rank(g, node, index) return C.df_output_rank(g, node, index) end

  function core.output_shape(g, node, index)
    local rank = C.df_output_rank(g, node, index)
    if rank < 0 then return nil end
    local shape = {}
    for i = 0, rank - 1 do shape[i + 1] = tonumber(C.df_output_dim(g, node, index, i)) end
    return shape
  end

  function core.output_constant(g, node, index)
    local t = C.df_output_constant(g, node, index)
    if t == nil then return nil end
    return wrap(t)
  end

  function core.output_set_shape(g, node, index, dims)
    local rank = take_dims(dims)
    if C.df_output_set_shape(g, node, index, rank, dims_buffer, err) ~= 0 then raise() end
  end

  function core.node_stops_gradient(g, node) return C.df_node_stops_gradient(g, node) end
  function core.node_context(g, node) return C.df_node_context(g, node) end
  function core.needs_nothing(g, node, index) return C.df_output_needs_nothing(g, node, index) end
  function core.flow_describe(g, node)
    local n = C.df_flow_describe(g, node, 0, nil)
    if n == 0 then return nil end
    local out, list = new('int32_t[?]', n), {}
    C.df_flow_describe(g, node, n, out)
    for i = 1, n do list[i] = out[i - 1] end
    return list
  end
  function core.saved(g, node)
    local n = C.df_saved(g, node, 0, nil)
    local out, list = new('int32_t[?]', n), {}
    C.df_saved(g, node, n, out)
    for i = 1, n do list[i] = out[i - 1] end
    return list
  end
  function core.flow_name(g, node) return str(C.df_flow_name(g, node)) end
  function core.node_capture(g, node)
    local from = new('int32_t[2]')
    if C.df_node_capture(g, node, from, from + 1) then return from[0], from[1] end
  end
  function core.node_attrs_text(g, node)
    local text = new('char[512]')
    return str(text, C.df_node_attrs_text(g, node, 512, text))
  end
  local attr_value = new('df_attr_value[1]')
  function core.node_attr(g, node, name)
    local type, v = C.df_node_attr(g, node, name, attr_value), attr_value[0]
    if type == 0 then return nil end
    type = string.char(type)
    if type == 'b' then return v.number ~= 0 end
    if type == 's' then return v.n > 0 and str(v.bytes, v.n) or '' end
    if type == 'h' or type == 'l' or type == 'y' then
      if v.n < 0 then return nil end
      local list = {}
      for i = 1, tonumber(v.n) do list[i] = tonumber(v.ints[i - 1]) end
      return list
    end
    return v.number
  end
  function core.current_context(g) return C.df_current_context(g) end
  function core.graph_order(g, first)
    local last = C.df_graph_order(g, first)
    if last >= 0 then return last end
  end
  function core.graph_effects(g) return tonumber(C.df_graph_effects(g)) end

  function core.push_top(g) C.df_push_top(g) end
  function core.pop_top(g) C.df_pop_top(g) end

  function core.variable_set_init(g, handle, node, index)
    if C.df_variable_set_init(g, handle, node, index, err) ~= 0 then raise() end
  end

  -- ---- control flow -------------------------------------------------------------------------------------------------
  function core.flow_depth(g) return C.df_flow_depth(g) end
  function core.graph_mark(g) return C.df_graph_mark(g) end
  function core.graph_keep(g, mark) C.df_graph_keep(g, mark) end
  function core.graph_undo(g, mark) return C.df_graph_undo(g, mark) end
  function core.graph_finalize(g) C.df_graph_finalize(g) end

  function core.graph_build_state(g)
    local s = ffi.new('df_build_state')
    C.df_graph_build_state(g, s)
    return s.flow, s.scopes, s.devices, s.controls
  end
  function core.graph_unwind(g, flow, scopes, devices, controls)
    C.df_graph_unwind(g, ffi.new('df_build_state', flow, scopes, devices, controls))
  end

  function core.cond_begin(g, node, index, name, where)
    if C.df_cond_begin(g, node, index, name, where, err) ~= 0 then raise() end
  end

  function core.cond_branch_end(g, outputs)
    local p, n = pairs_of(outputs)
    if C.df_cond_branch_end(g, n / 2, p, err) ~= 0 then raise() end
  end

  function core.cond_select_branch(g, side)
    if C.df_cond_select_branch(g, side, err) ~= 0 then raise() end
  end

  function core.cond_end(g, n)
    local out = new('int32_t[?]', 2 * n + 2)
    local op = C.df_cond_end(g, out, err)
    if op < 0 then raise() end
    return op, list_of(out, 2 * n)
  end

  function core.function_begin(g, name, dtypes, results, where)
    local d, n = pairs_of(dtypes)
    local args, r, nresults = new('int32_t[?]', n + 1), nil, -1
    local own = new('int32_t[?]', n + 1)
    for i = 0, n - 1 do own[i] = d[i] end
    if results then r, nresults = pairs_of(results) end
    local f = C.df_function_begin(g, name, n, own, nresults, r, where, args, err)
    if f < 0 then raise() end
    return f, list_of(args, n)
  end

  function core.function_end(g, results)
    local p, n = pairs_of(results)
    if C.df_function_end(g, n / 2, p, err) ~= 0 then raise() end
  end

  function core.function_call(g, f, args, name, where)
    local p, n = pairs_of(args)
    local node = C.df_function_call(g, f, n / 2, p, name, where, err)
    if node < 0 then raise() end
    return node
  end

  function core.while_invariant(g, var, dims)
    local rank = take_dims(dims)
    C.df_while_invariant(g, var, rank, dims_buffer)
  end

  function core.while_var_name(g, var, name) C.df_while_var_name(g, var, name) end

  function core.while_begin(g, init, parallel_iterations, maximum_iterations, back_prop, save, name, where)
    local p, n = pairs_of(init)
    local vars = new('int32_t[?]', n + 2)
    if C.df_while_begin(g, n / 2, p, parallel_iterations, maximum_iterations, back_prop and true or false, save, name,
                        where,
                        vars, err) ~= 0 then raise() end
    return list_of(vars, n)
  end

  function core.while_pred_end(g, node, index, n)
    local vars = new('int32_t[?]', 2 * n + 2)
    if C.df_while_pred_end(g, node, index, vars, err) ~= 0 then raise() end
    return list_of(vars, 2 * n)
  end

  function core.while_end(g, results)
    local p, n = pairs_of(results)
    local exits = new('int32_t[?]', n + 2)
    if C.df_while_end(g, n / 2, p, exits, err) ~= 0 then raise() end
    return list_of(exits, n)
  end

  function core.push_outer(g) C.df_push_outer(g) end
  function core.pop_outer(g) C.df_pop_outer(g) end
  function core.push_context(g, context) C.df_push_context(g, context) end
  function core.pop_context(g) C.df_pop_context(g) end

  function core.while_add_var(g, node, index)
    local number = C.df_while_add_var(g, node, index, two, err)
    if number < 0 then raise() end
    return number, two[0], two[1]
  end

  function core.while_close_var(g, number, node, index)
    if C.df_while_close_var(g, number, node, index, two, err) ~= 0 then raise() end
    return two[0], two[1]
  end

  -- ---- gradients ----------------------------------------------------------------------------------------------------
  local on_custom, custom_error     -- the Lua function, and what it raised
  local custom_callback             -- the one C callback, made when it is first needed: callbacks are never given back

  function core.on_custom_gradient(fn)
    on_custom = fn
  end

  local function run_custom(_, id, n, dy, m, dx, e)
    local ok, result = pcall(on_custom, tonumber(id), list_of(dy, 2 * n), m)
    if not ok then
      custom_error = result
      e.code = 3
      e.message, e.op, e.frame, e.source = 'the gradient function failed', '', '', ''
      return 3
    end
    for i = 0, 2 * m - 1 do dx[i] = result[i + 1] end
    return 0
  end

  function core.gradients(g, ys, grad_ys, xs, stops, unconnected, where)
    local y, ny = pairs_of(ys)
    local gy, ng = pairs_of(grad_ys)
    local x, nx = pairs_of(xs)
    local s, ns = pairs_of(stops)
    if ng > 0 and ng ~= ny then fail('invalid_argument', ('%d grad_ys for %d ys'):format(ng / 2, ny / 2)) end
    local out = new('int32_t[?]', 3 * nx + 6)
    custom_callback = custom_callback or callback('df_custom_gradient_fn', run_custom)
    C.df_graph_on_custom_gradient(g, custom_callback, nil)
    if C.df_gradients(g, ny / 2, y, ng > 0 and gy or nil, nx / 2, x, ns / 2, s, unconnected, where, out, err) ~= 0 then
      if custom_error ~= nil then
        local e = custom_error
        custom_error = nil
        error(e, 0)
      end
      raise()
    end
    return list_of(out, 3 * nx)
  end
  jit.off(core.gradients)   -- a callback must not happen inside compiled code
  jit.off(run_custom)

  -- ---- TensorFlow's graphs ------------------------------------------------------------------------------------------
  function core.import_graph_def(g, bytes, prefix, names, to, where)
    local n, count = #names, #bytes
    local list = new('const char *[?]', n + 1)
    for i = 1, n do list[i - 1] = names[i] end
    if type(bytes) == 'table' then
      count = tonumber(C.df_tensor_size(bytes.handle))
      bytes = cast('const char *', C.df_tensor_data(bytes.handle))
    end
    local before, out = C.df_graph_nodes(g), new('df_tensor *[1]')
    if C.df_import_graph_def(g, bytes, count, prefix, n, list, (pairs_of(to)), where, out, err) ~= 0 then raise() end
    charge(NODE_CHARGE * (C.df_graph_nodes(g) - before))
    return checked(out[0])
  end

  function core.checkpoint_names(prefix) return checked(C.df_checkpoint_names(prefix, err)) end
  function core.checkpoint_read(prefix, name, part) return checked(C.df_checkpoint_read(prefix, name, part, err)) end
  function core.checkpoint_write(prefix, names, tensors)
    local n = #names
    local name, handle = new('const char *[?]', n + 1), new('df_tensor *[?]', n + 1)
    for i = 1, n do
      if type(tensors[i]) ~= 'table' then fail('invalid_argument', names[i] .. ' is not a Tensor') end
      name[i - 1], handle[i - 1] = names[i], tensors[i].handle
    end
    if C.df_checkpoint_write(prefix, n, name, handle, err) ~= 0 then raise() end
  end

  function core.graph_allow_files(g) C.df_graph_allow_files(g) end

  function core.export_graph_def(g, outputs, form, variables, values)
    local list, variable = outputs and pairs_of(outputs), pairs_of(variables)
    local count = #variables / 2
    local value = new('df_tensor *[?]', count + 1)
    for i = 1, count do if values[i] then value[i - 1] = values[i].handle end end
    return checked(C.df_export_graph_def(g, outputs and #outputs / 2 or -1, list, form, count, variable, value, err))
  end
end
