--- dflow: dynamic dataflow for Lua. `local df = require 'dflow'`
--
-- One table, no globals. Every op of the registry is a function here and a method of Outputs; `df.train`, `df.data`,
-- `df.nn` and other parts are loaded when they are first named. The manual's short form is `?name` at the prompt of
-- `dflow`.
local core = require 'dflow.backend'
-- see dflow.backend.interpreted
if rawget(_G, 'jit') and jit.version:find('beta', 1, true) then jit.off(true, true) end
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local ops = require 'dflow.front.ops'
require 'dflow.front.ops_nn'
function tensor.eager() return require 'dflow.front.eager' end
local variable = require 'dflow.front.variable'
local tensor_array = require 'dflow.front.tensor_array'
local control = require 'dflow.front.control'
local gradients = require 'dflow.front.gradients'
local functional = require 'dflow.front.functional'
local session = require 'dflow.front.session'

local df = { _VERSION = 'dflow ' .. core.version }

df.unpack = graph.unpack
df.dtypes = dtypes.list

-- values
df.tensor = tensor.tensor
df.Tensor = tensor.Tensor
df.IndexedSlices = gradients.indexed_slices

df.newaxis = ops.newaxis

-- graphs
df.Graph = graph.new_graph
df.default_graph = graph.current
df.reset = graph.reset
df.name_scope = graph.name_scope
df.device = graph.device
df.colocate_with = graph.colocate_with
df.control_dependencies = graph.control_dependencies

-- the four builtins
df.cond = control.cond
df.while_loop = control.while_loop
df.TensorArray = tensor_array.new
df.gradients = gradients.gradients

-- made of them
for name, fn in pairs(functional) do df[name] = fn end
df.custom_gradient = gradients.custom_gradient

-- variables, sessions, runs
df.Variable = variable.new
df.trainable_variables = variable.trainable
df.global_variables = variable.all
df.Session = session.new
df.run = session.run
df.start = session.start
df.init = session.init
df.stats = session.stats
df.devices = session.devices
df.default_session = function() return session.default() end

--- df.reset_peak_memory(): df.stats().memory[device].peak begins anew, from what is in use now.
function df.reset_peak_memory() core.memory_reset_peak() end

--- df.clock(): seconds that only go forward, from some moment on.
df.clock = core.clock

--- df.set_random_seed(n): the default graph's random ops draw the same numbers in every new session.
function df.set_random_seed(seed)
  if type(seed) ~= 'number' or not dtypes.is_whole(seed) or math.abs(seed) >= 2^63 then
    errors.bad('set_random_seed takes a whole number, not %s', errors.describe(seed))
  end
  core.graph_set_seed(graph.current().handle, math.floor(seed))
end

--- df.type(x): 'output', 'tensor', 'variable', 'tensor_array', 'operation', 'graph', 'session', 'run',
-- 'indexed_slices', or nil.
function df.type(x)
  local mt = getmetatable(x)
  local name = type(mt) == 'table' and rawget(mt, '__name')
  return name and name:match('^dflow%.(.*)$') and name:match('^dflow%.(.*)$'):gsub('(%l)(%u)', '%1_%2'):lower() or nil
end

-- Parts that are loaded when they are first named, from where this file was (dflow.own).
local part = require
local parts = {
  train = 'dflow.train', data = 'dflow.data', summary = 'dflow.summary', nn = 'dflow.nn', plot = 'dflow.plot',
  rnn = 'dflow.rnn', image = 'dflow.image', signal = 'dflow.signal', cluster = 'dflow.cluster',
}
local inside = {}
for module, members in pairs{
  ['dflow.autograph'] = 'autograph each',
  ['dflow.check'] = 'check_gradients',
  ['dflow.draw'] = 'draw',
  ['dflow.exchange.checkpoint'] = 'load_checkpoint save_checkpoint',
  ['dflow.exchange.export'] = 'export_graph_def',
  ['dflow.exchange.graphdef'] = 'import_graph_def',
  ['dflow.exchange.hlo_import'] = 'import_hlo',
  ['dflow.exchange.npy'] = 'load_npy save_npy load_npz save_npz',
  ['dflow.exchange.onnx'] = 'export_onnx',
  ['dflow.exchange.onnx_import'] = 'import_onnx',
  ['dflow.exchange.quantize_model'] = 'quantize_model',
  ['dflow.exchange.safetensors'] = 'load_safetensors save_safetensors',
  ['dflow.exchange.tensor_list'] = 'tensor_list tensor_list_values',
  ['dflow.front.associative'] = 'associative_scan',
  ['dflow.front.checkpoint'] = 'checkpoint',
  ['dflow.front.collective'] = 'all_reduce all_gather broadcast',
  ['dflow.front.func'] = 'func',
  ['dflow.front.lua_func'] = 'lua_func',
  ['dflow.front.queue'] = 'FIFOQueue PaddingFIFOQueue RandomShuffleQueue PriorityQueue',
  ['dflow.front.sparse'] = 'SparseTensor sparse_placeholder sparse_to_dense sparse_tensor_to_dense '
    .. 'sparse_to_indicator sparse_reorder sparse_reshape sparse_transpose sparse_slice sparse_split sparse_concat '
    .. 'sparse_retain sparse_reset_shape sparse_fill_empty_rows sparse_tensor_dense_matmul sparse_add '
    .. 'sparse_softmax sparse_dense_cwise_mul sparse_dense_cwise_div sparse_dense_cwise_add sparse_reduce_sum '
    .. 'sparse_reduce_max sparse_reduce_sum_sparse sparse_reduce_max_sparse',
  ['dflow.front.table'] = 'HashTable MutableHashTable',
  ['dflow.front.variable_scope'] = 'variable_scope get_variable',
  ['dflow.inspect.saved'] = 'saved',
  ['dflow.lanes'] = 'vmap',
  ['dflow.nn.ctc'] = 'ctc_loss ctc_greedy_decoder ctc_beam_search_decoder edit_distance',
  ['dflow.nn.sampled'] = 'sampled_softmax_loss nce_loss',
  ['dflow.progress'] = 'progress',
  ['dflow.train.checkpoint'] = 'save restore',
} do
  for name in members:gmatch '%S+' do inside[name] = module end
end

local function names()
  local list = ops.names()
  for name in pairs(df) do list[#list + 1] = name end
  for name in pairs(parts) do list[#list + 1] = name end
  for name in pairs(inside) do list[#list + 1] = name end
  table.sort(list)
  return list
end

--- All names of this module, sorted.
df.names = names

return setmetatable(df, {
  __index = function(t, name)
    if type(name) ~= 'string' then return nil end
    local fn = ops.find(name)
    if not fn then
      if parts[name] then
        fn = part(parts[name])
      elseif inside[name] then
        fn = part(inside[name])[name]
      end
    end
    if fn == nil then
      if name:sub(1, 1) == '_' then return nil end
      errors.bad("df has no '%s'%s", name, errors.hint_of_others(name, names()))
    end
    rawset(t, name, fn)
    return fn
  end,
  __name = 'dflow.Module',
  __tostring = function(t) return t._VERSION end,
})
