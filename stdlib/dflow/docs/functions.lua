--- The functions that are no ops, from the pages beside this file, one for each subject: signature, what they do,
-- options, gradient, and an example that runs as it stands. `{…}` in a signature stands for the options. What
-- several pages share is a macro here.
local pages = require 'dflow.docs.pages'

local M = {}

local macros = {
  name = [[
  option    name: string = nil  the node's name; by default the op's]],
  loop = [[
  option    parallel_iterations: int = 32  the most iterations that may be in flight
  option    save: string = 'keep'  the policy for values that the gradient needs: 'keep',
              'swap' to the host, 'recompute', or 'auto': kept until memory is short, then the cheaper
              of the two
  option    swap_memory: bool = false  true: the same as save = 'swap'
  option    back_prop: bool = true  false: its results are constants to gradients, and nothing is saved]],
  reduction = [[
  option    reduction_axes: int or list = nil  the older name of axis
  option    keep_dims: bool = false  the older name of keepdims
  option    name: string = nil  the node's name; by default the op's]],
  weights = [[
  option    weights: number = nil  the weight of each value, broadcast; 0 ignores it]],
  seed = [[
  option    seed: int = nil  equal seeds draw equal numbers]],
  normal = [[
  option    mean: number = 0  the mean
  option    stddev: number = 0.05  the standard deviation]],
  run = [[
  option    timeout: number = nil  seconds, then the run ends with deadline_exceeded
  option    trace: string = nil  writes a timeline to this path, such as 'run.json';
              Perfetto opens it
  option    report: string = nil  writes a page to this path, such as 'run.html', with
              graph, tokens and source
  option    tensors: bool = false  true: results of rank 0 are Tensors, too
  option    paused: bool = false  true: pauses before the first token, for stepping
  option    record: bool = false  true: records the run, for h:whatif
  option    check_numerics: bool or string = false  ends at the first op that makes a NaN, and says
            which; 'inf': or an infinity
  option    finally: Operation = nil  what runs when the run has ended, however it did
  option    at_once: bool = false  of df.start: returns at once, and not when the run is over, waits
            for a queue, or has gone on for a moment; runs may come to a queue in any order then
  option    remains: bool = false  when it is over it can still be looked at, as it was at its end
              or error: h:frames, h:why, h:value, h:history
  option    values: bool = false  keeps the values of the last few thousand tokens, for h:value,
              h:why and :back
  option    log: bool = false  keeps every token with its time, for a trace written afterwards
  option    primitives: bool = nil  true: every node fires, Switch and Merge too, with no node
            merged or simplified; by default of runs with a report, on one device of one process
            by the real clock]],
  convolution = [[
  option    strides: int or list = 1  the step of the window
  option    padding: string = 'VALID'  or 'SAME'
  option    dilation: int or list = 1  the distance between kernel elements
  option    activation: function = nil  applied to the result, such as df.relu
  option    use_bias: bool = true  false: no bias
  option    kernel_initializer: any = nil  as of df.nn.Dense
  option    bias_initializer: any = nil  zeros otherwise
  option    name: string = nil  the layer's name; by default its type's]],
  pooling = [[
  option    strides: int or list = nil  the step of the window; by default its size
  option    padding: string = 'VALID'  or 'SAME'
  option    name: string = nil  the layer's name; by default its type's]],
  cell = [[
  option    kernel_initializer: any = nil  as of df.nn.Dense
  option    bias_initializer: any = nil  as of df.nn.Dense; TensorFlow's otherwise
  option    name: string = nil  the cell's name; by default its type's]],
  over = [[
  option    parallel_iterations: int = 32  as for while_loop
  option    save: string = 'keep'  as for while_loop
  option    swap_memory: bool = false  as for while_loop
  option    name: string = nil  the loop's name]],
  rnn = [[
  option    lengths: int = nil  [batch]: past them outputs are zeros and the state stays; the loop
              ends after the longest
  option    initial_state: table = nil  cell:zero_state otherwise
  option    time_major: bool = false  x is [time, batch, inputs]
  option    parallel_iterations: int = 32  as for while_loop
  option    save: string = 'keep'  as for while_loop
  option    swap_memory: bool = false  as for while_loop
  option    name: string = 'rnn'  the loop's name]],
  loss = [[
  option    weights: number = nil  the weight of each loss, or each example
  option    reduction: string = 'sum_by_nonzero_weights'  or 'mean' by the sum of weights, 'sum',
              'none']],
  sampler = [[
  option    seed: int = nil  the seed of the drawn numbers]],
  sampled = [[
  option    num_true: int = 1  the number of true classes of each example
  option    sampled_values: list = nil  {ids, expected counts of true, of sampled}; drawn by the
              log-uniform sampler otherwise
  option    partition_strategy: string = 'mod'  as of df.embedding_lookup
  option    seed: int = nil  the seed of the drawn numbers]],
  affine = [[
  option    center: bool = true  false: no beta
  option    scale: bool = true  false: no gamma
  option    gamma_initializer: any = nil  ones otherwise
  option    beta_initializer: any = nil  zeros otherwise
  option    name: string = nil  the layer's name; by default its type's]],
  told = [[
  option    message: string = nil  a text before the error
  option    data: list = nil  the values that the error shows; x and y otherwise
  option    summarize: int = 3  the most elements of each value
  option    name: string = nil  the operation's name; by default its type's]],
  labels = [[
  option    title: string = nil  a text above the picture
  option    xlabel: string = nil  a text below the x axis, in an SVG
  option    ylabel: string = nil  a text beside the y axis, in an SVG]],
  axes = [[
  option    log: string = nil  the logarithmic axes: 'x', 'y' or 'xy'
  option    zero: bool = false  true: the y axis begins at 0
  option    points: bool = false  true: marks each point of a line, in an SVG]],
  queue = [[
  option    shapes: list = nil  a shape for each component; without them elements come out one
              by one only
  option    name: string = nil  the queue's name
  option    shared_name: string = nil  queues with the same shared_name are one queue in a session]],
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
