--- The functions that are no ops, from the pages beside this file, one for each subject: signature, what they do,
-- options, gradient, and an example that runs as it stands. `{…}` in a signature stands for the options. What
-- several pages say alike is a macro here.
local pages = require 'dflow.docs.pages'

local M = {}

local macros = {
  name = [[
  option    name: string = nil  what the node is called; one is found without it]],
  loop = [[
  option    parallel_iterations: int = 32  the most iterations that may be in flight
  option    save: string = 'keep'  what becomes of values that the gradient needs: 'keep',
              'swap' to the host, 'recompute', or 'auto': kept until memory is short, then the cheaper
              of the two
  option    swap_memory: bool = false  true is save = 'swap'
  option    back_prop: bool = true  false: to gradients its results are constants, as of df.stop_gradient, and nothing is saved]],
  reduction = [[
  option    reduction_axes: int or list = nil  axis under its older name
  option    keep_dims: bool = false  keepdims under its older name
  option    name: string = nil  what the node is called; one is found without it]],
  weights = [[
  option    weights: number = nil  of each value, or broadcast to them; 0 leaves one out]],
  seed = [[
  option    seed: int = nil  the same one draws the same numbers]],
  normal = [[
  option    mean: number = 0  in the middle
  option    stddev: number = 0.05  their deviation]],
  run = [[
  option    timeout: number = nil  seconds, then the run ends with deadline_exceeded
  option    trace: string = nil  the path of a timeline that is written, such as 'run.json';
              Perfetto opens it
  option    report: string = nil  the path of a page that is written, such as 'run.html', with
              graph, tokens and source
  option    tensors: bool = false  results of rank 0 are Tensors, too
  option    paused: bool = false  stops before the first token, to be stepped
  option    record: bool = false  the run is written down, for h:whatif
  option    check_numerics: bool or string = false  ends at the first op that makes a NaN, and says
            which; 'inf': or an infinity
  option    finally: Operation = nil  what runs when the run has ended, however it did
  option    at_once: bool = false  of df.start: returns at once, and not when the run is over, waits
            for a queue, or has gone on for a moment; runs may come to a queue in any order then
  option    remains: bool = false  when it is over it can still be looked at, as it was at its end
              or error: h:frames, h:why, h:value, h:history
  option    values: bool = false  keeps the values of the last few thousand tokens, for h:value,
              h:why and :back
  option    log: bool = false  keeps every token with its time, for a trace written afterwards]],
  convolution = [[
  option    strides: int or list = 1  how far the window moves
  option    padding: string = 'VALID'  or 'SAME'
  option    dilation: int or list = 1  how far its taps are apart
  option    activation: function = nil  such as df.relu
  option    use_bias: bool = true  whether there is a bias
  option    kernel_initializer: any = nil  as of df.nn.Dense
  option    bias_initializer: any = nil  zeros otherwise
  option    name: string = nil  what the layer is called; one is found without it]],
  pooling = [[
  option    strides: int or list = nil  as far as the window is long otherwise
  option    padding: string = 'VALID'  or 'SAME'
  option    name: string = nil  what the layer is called; one is found without it]],
  cell = [[
  option    kernel_initializer: any = nil  as of df.nn.Dense
  option    bias_initializer: any = nil  as of df.nn.Dense; TensorFlow's otherwise
  option    name: string = nil  what the cell is called; one is found without it]],
  over = [[
  option    parallel_iterations: int = 32  as for while_loop
  option    save: string = 'keep'  as for while_loop
  option    swap_memory: bool = false  as for while_loop
  option    name: string = nil  what the loop is called]],
  rnn = [[
  option    lengths: int = nil  [batch]: past them outputs are zeros and the state stays; the loop
              ends after the longest
  option    initial_state: table = nil  cell:zero_state otherwise
  option    time_major: bool = false  x is [time, batch, inputs]
  option    parallel_iterations: int = 32  as for while_loop
  option    save: string = 'keep'  as for while_loop
  option    swap_memory: bool = false  as for while_loop
  option    name: string = 'rnn'  what the loop is called]],
  loss = [[
  option    weights: number = nil  of each loss, or each example
  option    reduction: string = 'sum_by_nonzero_weights'  or 'mean' by the sum of weights, 'sum',
              'none']],
  sampler = [[
  option    seed: int = nil  of what is drawn]],
  sampled = [[
  option    num_true: int = 1  true classes of an example
  option    sampled_values: list = nil  {ids, expected counts of true, of sampled}; drawn by the
              log-uniform sampler otherwise
  option    partition_strategy: string = 'mod'  as of df.embedding_lookup
  option    seed: int = nil  of what is drawn]],
  affine = [[
  option    center: bool = true  whether there is a beta
  option    scale: bool = true  whether there is a gamma
  option    gamma_initializer: any = nil  ones otherwise
  option    beta_initializer: any = nil  zeros otherwise
  option    name: string = nil  what the layer is called; one is found without it]],
  told = [[
  option    message: string = nil  what stands before the error
  option    data: list = nil  what the error tells: x and y otherwise
  option    summarize: int = 3  elements of each, at most
  option    name: string = nil  what the operation is called; one is found without it]],
  queue = [[
  option    shapes: list = nil  a shape for each component; without them elements come out one
              by one only
  option    name: string = nil  what the queue is called
  option    shared_name: string = nil  queues of one shared_name are one queue in a session]],
}

M.macros = macros

--- By name: a page.
M.functions = {}
for _, part in ipairs{ 'flow', 'gradients', 'placement', 'graphs', 'exchange', 'runs', 'arrays', 'linear_algebra',
                       'random', 'assertions',
                       'networks', 'queues', 'layers', 'recurrent', 'losses', 'metrics', 'plots', 'images', 'signals',
                       'windows', 'sparse' } do
  for _, page in ipairs(pages.read(require('dflow.docs.' .. part), macros)) do
    M.functions[page[1]:gsub('^df%.', ''):match('^[%w_.]+')] = page
  end
end

-- df.train and df.data have files of their own.
for _, part in ipairs{ 'dflow.docs.train', 'dflow.docs.data' } do
  for name, page in pairs(require(part)(macros)) do M.functions[name] = page end
end

return M
