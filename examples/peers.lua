-- peers.lua: imports one loop that TensorFlow, PyTorch and JAX exported. All three files become the same five primitives, so the program
-- runs each loop, differentiates it twice, and can step it. These scripts wrote the files of examples/data:
--
--   TensorFlow    import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()
--                 x = tf.placeholder(tf.float32, [], 'x')
--                 tf.identity(tf.while_loop(lambda x: x < 100, lambda x: x * x, [x]), 'y')
--                 tf.io.write_graph(tf.get_default_graph(), '.', 'grow.pb', as_text=False)
--
--   PyTorch       import torch; from torch._higher_order_ops import while_loop
--                 class Grow(torch.nn.Module):
--                     def forward(self, x): return while_loop(lambda x: x < 100, lambda x: (x * x,), (x,))[0]
--                 torch.onnx.export(Grow(), (torch.tensor(2.0),), 'grow.onnx', dynamo=True, external_data=False)
--
--   JAX           import jax; grow = lambda x: jax.lax.while_loop(lambda x: x < 100, lambda x: x * x, x)
--                 hlo = jax.jit(grow).lower(jax.numpy.float32(2)).compiler_ir('hlo')
--                 open('grow.hlo.pb', 'wb').write(hlo.as_serialized_hlo_module_proto())
local df = require 'dflow'
local data = (arg and arg[0] or ''):gsub('[^/]*$', '') .. 'data/'

local function show(name, g, x, y)
  g:as_default(function()
    local dx = df.gradients(y, x)
    local list = df.run({ y, dx, df.gradients(dx, x) }, { [x] = 2 })
    print(('%-11s %g, its gradient %g, and that of the gradient %g'):format(name, list[1], list[2], list[3]))
  end)
end

local tf = df.import_graph_def(data .. 'grow.pb')
show('TensorFlow', tf, tf:output 'x:0', tf:output 'y:0')
local torch = df.import_onnx(data .. 'grow.onnx')
show('PyTorch', torch, torch.inputs[1], torch.outputs[1])
local jax = df.import_hlo(data .. 'grow.hlo.pb')
show('JAX', jax, jax.inputs[1], jax.outputs[1])
