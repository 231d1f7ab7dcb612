--- Options of calls in spec/front/effects_spec.lua that change nothing of what a call gives and builds: `call | options`, after the reason.
return [[

 What becomes of a run, or of a session's runs: spec/graph, spec/engine, spec/inspect.
 df.Session(OPTIONS) | graph devices threads engine timeout timeout_rank kernels owners clock soft_placement memory plan_cache save simplify batch
 df.run(y, nil, OPTIONS) | timeout trace report paused values log record remains check_numerics finally at_once primitives

 How a gradient is checked; the answer is that it is right.
 df.check_gradients(y, w, OPTIONS) | order feeds tolerance step session unrolled ways stop_gradients

 What is known of a variable, and of a layer that has none.
 df.Variable(1.5, OPTIONS) | trainable
 df.get_variable('fresh', {2}, OPTIONS) | trainable
 df.nn.MaxPool2D(2, OPTIONS)(df.ones{1, 4, 4, 1}) | name
 df.nn.AvgPool1D(2, OPTIONS)(df.ones{1, 4, 1}) | name
 df.nn.Flatten(OPTIONS)(df.ones{2, 1, 2}) | name
 df.nn.Dropout(0.5, OPTIONS)(m, {training = true}) | name

 Colours are of a terminal's pictures in several colours; a line is drawn in one.
 df.plot{1, 2}:text(OPTIONS) | colour

 Values that only other values go with: spec/exchange, spec/training, spec/resource, spec/data.
 df.import_graph_def('spec/graphs/loop.pb', OPTIONS) | input_map into files signature
 df.import_onnx('spec/models/onnx/grow.onnx', OPTIONS) | into shapes
 df.import_hlo('spec/models/square.hlo.pb', OPTIONS) | into
 df.rnn.decode(OPTIONS) | all
 df.rnn.beam_search(OPTIONS) | all
 df.train.Saver(OPTIONS) | variables queues best
 df.train.Saver():save('/dev/null/all', OPTIONS) | all
 df.train.start_queue_runners(OPTIONS) | all
 df.train.QueueRunner(df.FIFOQueue(3, 'float32'), function() return df.constant(1) end, OPTIONS) | all
 df.export_graph_def('/dev/null/all', OPTIONS) | all
 df.export_onnx('/dev/null/all', OPTIONS) | all
 df.variable_scope('s', OPTIONS, function() end) | reuse
 df.save('/dev/null/all', OPTIONS) | all
 df.restore('/dev/null/all', OPTIONS) | all
 df.train.fit(df.nn.Dense(1), {m, x}, OPTIONS) | all
 df.progress(3, OPTIONS) | total label every write
 df.sampled_softmax_loss(df.ones{5, 2} * 0.3, df.zeros{5}, {{1}, {2}}, m, 2, 5, OPTIONS) | num_true sampled_values partition_strategy
 df.lua_func(function(v) return v end, {x}, 'float32', OPTIONS) | gradient

 They know no options, and say so.
 df.train.Accumulate(df.train.SGD(0.1), 2, OPTIONS) | none
 df.train.Coordinator(OPTIONS) | none

 Given by place or otherwise already, or one value is all that fits.
 df.dropout(m, 0.5, OPTIONS) | keep_prob
 df.signal.idct(ramp{5}, OPTIONS) | axis
 df.embedding_lookup_sparse({m, m * 2, m * 3}, {indices = {{0, 0}, {0, 1}, {1, 0}}, values = {1, 3, 2}, dense_shape = {2, 2}}, OPTIONS) | weights
 df.nce_loss(df.ones{5, 2} * 0.3, df.zeros{5}, {{1}, {2}}, m, 2, 5, with(OPTIONS, {remove_accidental_hits = false})) | num_true sampled_values partition_strategy
 df.batch_norm_with_global_normalization(ramp{1, 2, 2, 1}, {1.0}, {2.0}, {0.5}, with(OPTIONS, {gamma = {3.0}, variance_epsilon = 0.1})) | gamma

 Told when it does not hold, and it holds: spec/ops/composed_spec.lua.
 df.assert_scalar(w, OPTIONS) | message
 df.assert_type(x, 'float32', OPTIONS) | message
 df.assert_integer(df.int32{1}, OPTIONS) | message

 More that is given otherwise already.
 df.signal.dct(df.ones{9}, OPTIONS) | axis
 df.split(m, 2, OPTIONS) | num
 df.unstack(m, OPTIONS) | num
 df.sort(x, OPTIONS) | axis
 df.argsort(x, OPTIONS) | axis stable
 df.argsort(m, OPTIONS) | stable
 df.rnn.LSTMCell(2, OPTIONS)(m, {c = m, h = m}) | proj_clip
 df.rnn.LSTMCell(2, with(OPTIONS, {projection = 2}))(m, {c = m, h = m}) | projection
 df.ctc_loss({indices = {{0, 0}, {0, 1}}, values = {1, 1}, dense_shape = {1, 2}}, ramp{4, 1, 3}, OPTIONS) | time_major
 df.ctc_loss({indices = {{0, 0}, {0, 1}, {1, 0}}, values = {1, 1, 0}, dense_shape = {2, 2}}, ramp{4, 2, 3}, OPTIONS) | time_major
 df.data.pipeline(lists):batch(2, with(OPTIONS, {pad = true})) | pad
 df.rnn.decode(with(OPTIONS, decoded())) | cell helper save swap_memory
 df.train.loop(3, function(i) return w:assign_add(1) end, OPTIONS) | carry every save
 df.gradients(df.train.loop(3, function(_, c) return c * c end, with(OPTIONS, {carry = w * 1, report = tell})), w) | report carry

 They say what is checked: a shape that a variable may lose, a dtype that is returned.
 df.gradients(squared(OPTIONS), w, {unconnected = 'zero'}) | shape_invariants
 df.gradients(df.map_fn(function(r) return df.exp(r * w) end, x, OPTIONS), w, {unconnected = 'zero'}) | dtype

 What is causal has an offset, and nothing else has.
 df.nn.attention(ramp{1, 3, 2}, ramp{1, 3, 2}, ramp{1, 3, 2}, OPTIONS) | offset
 df.scaled_dot_product_attention(ramp{1, 3, 2}, ramp{1, 3, 2}, ramp{1, 3, 2}, OPTIONS) | offset

 A node has something near it, and nothing else has.
 df.draw(y, OPTIONS) | within

 Nothing of it is in a box, and the node is named already.
 df.draw(df.exp(df.exp(df.exp(y))), with(OPTIONS, {around = 'Square'})) | depth around
]]
