--- The pages of losses and samplers. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.embedding_lookup(tables, ids, {…})
  Rows of a table [n, ...], or of one cut into a list of tables, that ids of any shape name. Its
  gradient is sparse.
  option    partition_strategy: string = 'mod'  how the rows of a list of tables were dealt out: one
              by one, or 'div', in blocks
  option    max_norm: number = nil  longer rows are scaled down to it
@name
  gradient  IndexedSlices of each table: the rows that were looked up
  example   df.embedding_lookup({df.float32{{0, 0}, {2, 2}}, df.float32{{1, 1}}}, {0, 1, 2})

df.sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, {…})
  A softmax over many classes that looks at the true ones and a few that are drawn: losses [batch].
  weights are [num_classes, size] or a list of tables, labels [batch, num_true], inputs [batch,
  size]. For training only.
@sampled
  option    remove_accidental_hits: bool = true  what is drawn and true does not count as drawn
@name
  gradient  sparse for weights and biases
  example   local w, b, x = df.zeros{50, 4}, df.zeros{50}, df.ones{2, 4}
            return df.sampled_softmax_loss(w, b, {7, 9}, x, 5, 50).shape

df.nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, {…})
  Noise-contrastive estimation: each class is told from what is drawn: losses [batch]. Arguments as
  of df.sampled_softmax_loss.
@sampled
  option    remove_accidental_hits: bool = false  what is drawn and true does not count as drawn
@name
  gradient  sparse for weights and biases
  example   local w, b, x = df.zeros{50, 4}, df.zeros{50}, df.ones{2, 4}
            return df.nce_loss(w, b, {7, 9}, x, 5, 50).shape

df.ctc_loss(labels, logits, {…})
  Connectionist temporal classification: -log p(labels | logits) [batch], over all ways to stretch
  the labels over time. labels are {indices =, values =, dense_shape =}, logits [time, batch,
  classes]; the blank is the last class. A while_loop over time.
  option    lengths: int = nil  [batch]: where each example's logits end
  option    time_major: bool = true  false: the logits are [batch, time, classes]
  option    preprocess_collapse_repeated: bool = false  labels that repeat the one before go first
  option    ctc_merge_repeated: bool = true  the same label at two steps is one, unless a blank is
              between
  option    ignore_longer_outputs_than_inputs: bool = false  labels longer than their time have loss
              0; otherwise they stop the run
@name
  gradient  that of the loop it is made of
  example   local labels = {indices = {{0, 0}}, values = {1}, dense_shape = {1, 1}}
            return df.ctc_loss(labels, df.zeros{2, 1, 3})

df.ctc_greedy_decoder(inputs, sequence_length, {…})
  The labels that the best class of each step of the logits [time, batch, classes] makes; the blank
  is the last class. sequence_length int32 [batch] says where each example ends. Gives {labels},
  sparse int64 [batch, longest] {indices =, values =, dense_shape =}, and [batch, 1]: the negative
  sum of the best logits.
  option    merge_repeated: bool = true  the same label at two steps is one, unless a blank is between
@name
  gradient  none
  example   local labels = df.ctc_greedy_decoder({{{5, 0, 0}}, {{5, 0, 0}}, {{0, 5, 0}}}, {3})
            return labels[1].values

df.ctc_beam_search_decoder(inputs, sequence_length, {…})
  The most probable labels, over all ways to stretch them over time; arguments as of
  df.ctc_greedy_decoder. Gives a list of top_paths sparse labels, the most probable first, and the
  logarithms of their probabilities [batch, top_paths]. An example that has fewer paths, as one of
  length 0, which has one, stops the run.
  option    beam_width: int = 100  how many labels the search keeps at each step
  option    top_paths: int = 1  how many it gives, beam_width at most
  option    merge_repeated: bool = true  of labels alike in a row only the first is given, as
              TensorFlow 1 has it; false: the labels as they are
@name
  gradient  none
  example   local labels, p = df.ctc_beam_search_decoder({{{5, 0, 0}}, {{0, 0, 5}}, {{5, 0, 0}}}, {3}, {merge_repeated = false})
            return labels[1].values, df.exp(p)

df.edit_distance(hypothesis, truth, {…})
  The fewest elements that are put in, left out or replaced to make one sequence of the other
  (Levenshtein), for each pair of sequences along the last dimension of two sparse tensors
  {indices =, values =, dense_shape =} of one rank, 2 or more: float32 of the larger of the two
  shapes, without the last dimension.
  option    normalize: bool = true  divided by the length of the truth: inf where that is 0 and the
              hypothesis is not
@name
  gradient  none
  example   local heard = {indices = {{0, 0}, {0, 1}}, values = {'b', 'e'}, dense_shape = {1, 2}}
            local said = {indices = {{0, 0}, {0, 1}, {0, 2}}, values = {'b', 'e', 'e'}, dense_shape = {1, 3}}
            return df.edit_distance(heard, said, {normalize = false})

df.nn.mean_squared_error(labels, predictions, {…})
  The squares of predictions - labels, reduced.
@loss
  example   df.nn.mean_squared_error({0.0, 0.0}, {1.0, 3.0})

df.nn.absolute_difference(labels, predictions, {…})
  The absolute values of predictions - labels, reduced.
@loss
  example   df.nn.absolute_difference({0.0, 0.0}, {1.0, -3.0})

df.nn.huber_loss(labels, predictions, {…})
  Half the square of the error up to delta, linear beyond.
  option    delta: number = 1  where it becomes linear
@loss
  example   df.nn.huber_loss({0.0, 0.0}, {1.0, 3.0})

df.nn.hinge_loss(labels, predictions, {…})
  max(0, 1 - (2 y - 1) p), for labels 0 and 1.
@loss
  example   df.nn.hinge_loss({0.0, 1.0}, {0.5, 3.0})

df.nn.log_loss(labels, predictions, {…})
  Cross entropy of probabilities with labels 0 and 1.
  option    epsilon: number = 1e-7  added to probabilities
@loss
  example   df.nn.log_loss({0.0, 1.0}, {0.5, 0.5})

df.nn.sigmoid_cross_entropy(labels, logits, {…})
  Cross entropy of labels from 0 to 1 with the sigmoid of logits, each for itself.
  option    label_smoothing: number = 0  how far labels are moved towards 1/2
@loss
  example   df.nn.sigmoid_cross_entropy({0.0, 1.0}, {0.0, 0.0})

df.nn.softmax_cross_entropy(labels, logits, {…})
  Cross entropy of distributions (such as one-hot ones) with the softmax of logits over the last
  axis.
  option    label_smoothing: number = 0  how far labels are moved towards all alike
@loss
  example   df.nn.softmax_cross_entropy({{0.0, 1.0}}, {{0.0, 0.0}})

df.nn.sparse_softmax_cross_entropy(labels, logits, {…})
  The same for labels that are numbers of classes.
@loss
  example   df.nn.sparse_softmax_cross_entropy({1}, {{0.0, 0.0}})

df.nn.kl_divergence(labels, predictions, {…})
  The sum of y log(y / p) over the last axis, for distributions.
@loss
  example   df.nn.kl_divergence({{0.5, 0.5}}, {{0.25, 0.75}})

df.nn.cosine_distance(labels, predictions, {…})
  1 minus the sum of y p over the last axis, for vectors of length 1.
@loss
  example   df.nn.cosine_distance({{1.0, 0.0}}, {{0.6, 0.8}})

df.nn.uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Classes drawn alike: ids int64 [num_sampled], and how often the true classes [batch, num_true] and
  the ids were to be expected. unique: no class twice.
@sampler
  example   df.reduce_sum((df.nn.uniform_candidate_sampler({{1}}, 1, 3, true, 3)))

df.nn.log_uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Classes drawn with probability log((k + 2) / (k + 1)) / log(range_max + 1), as words sorted by how
  frequent they are.
@sampler
  example   df.nn.log_uniform_candidate_sampler({{1}}, 1, 5, true, 100).shape

df.nn.fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Classes drawn as often as they are said to be met.
  option    unigrams: list = nil  [range_max]: how often each is met
  option    distortion: number = 1  a power that makes them more or less alike
@sampler
  example   df.nn.fixed_unigram_candidate_sampler({{1}}, 1, 5, false, 2, {unigrams = {0.0, 1.0}})

df.nn.learned_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Classes drawn as often as they were among the true ones in earlier runs, all once at first.
@sampler
  example   df.nn.learned_unigram_candidate_sampler({{1}}, 1, 5, true, 100).shape
]==]
