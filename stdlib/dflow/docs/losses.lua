--- The pages of losses and samplers. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.embedding_lookup(tables, ids, {…})
  Looks up rows of a table [n, ...], or of a table split into a list, by ids of any shape. The gradient
  is sparse.
  option    partition_strategy: string = 'mod'  how the rows are split between tables: one
              by one, or 'div', in blocks
  option    max_norm: number = nil  scales longer rows down to this norm
@name
  gradient  IndexedSlices of each table: the rows that were looked up
  example   df.embedding_lookup({df.float32{{0, 0}, {2, 2}}, df.float32{{1, 1}}}, {0, 1, 2})

df.sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, {…})
  Softmax loss over the true classes and a few drawn ones, for training with many classes. Returns losses
  [batch]. weights are [num_classes, size] or a list of tables, labels [batch, num_true], inputs [batch,
  size].
@sampled
  option    remove_accidental_hits: bool = true  ignores drawn classes that are true
@name
  gradient  sparse for weights and biases
  example   local w, b, x = df.zeros{50, 4}, df.zeros{50}, df.ones{2, 4}
            return df.sampled_softmax_loss(w, b, {7, 9}, x, 5, 50).shape

df.nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, {…})
  Noise-contrastive estimation loss: distinguishes true classes from drawn ones. Returns losses [batch].
  Arguments are as of df.sampled_softmax_loss.
@sampled
  option    remove_accidental_hits: bool = false  ignores drawn classes that are true
@name
  gradient  sparse for weights and biases
  example   local w, b, x = df.zeros{50, 4}, df.zeros{50}, df.ones{2, 4}
            return df.nce_loss(w, b, {7, 9}, x, 5, 50).shape

df.ctc_loss(labels, logits, {…})
  Connectionist temporal classification: -log p(labels | logits) [batch], summed over all alignments.
  labels are {indices =, values =, dense_shape =}, logits [time, batch,
  classes]; the blank is the last class. It is a while_loop over time.
  option    lengths: int = nil  int32 [batch]: the length of each example's logits
  option    time_major: bool = true  false: the logits are [batch, time, classes]
  option    preprocess_collapse_repeated: bool = false  true: removes repeated labels first
  option    ctc_merge_repeated: bool = true  the same label at two steps is one, unless a blank is
              between
  option    ignore_longer_outputs_than_inputs: bool = false  labels longer than their time have loss
              0; otherwise they stop the run
@name
  gradient  that of the loop it is made of
  example   local labels = {indices = {{0, 0}}, values = {1}, dense_shape = {1, 1}}
            return df.ctc_loss(labels, df.zeros{2, 1, 3})

df.ctc_greedy_decoder(inputs, sequence_length, {…})
  Decodes logits [time, batch, classes] by the best class of each step; the blank is the last class.
  sequence_length is int32 [batch]. Returns {labels},
  sparse int64 [batch, longest] {indices =, values =, dense_shape =}, and [batch, 1]: the negative
  sum of the best logits.
  option    merge_repeated: bool = true  the same label at two steps is one, unless a blank is between
@name
  gradient  none
  example   local labels = df.ctc_greedy_decoder({{{5, 0, 0}}, {{5, 0, 0}}, {{0, 5, 0}}}, {3})
            return labels[1].values

df.ctc_beam_search_decoder(inputs, sequence_length, {…})
  Decodes the most probable labels, summed over alignments; arguments are as of df.ctc_greedy_decoder.
  Returns a list of top_paths sparse labels, the most probable first, and the logarithms of their
  probabilities [batch, top_paths]. An example with fewer paths is an error of the run; one of length 0
  has one path.
  option    beam_width: int = 100  the number of labels that the search keeps at each step
  option    top_paths: int = 1  the number of results, at most beam_width
  option    merge_repeated: bool = true  returns only the first of equal labels in a row, as
              TensorFlow 1 has it; false: the labels as they are
@name
  gradient  none
  example   local labels, p = df.ctc_beam_search_decoder({{{5, 0, 0}}, {{0, 0, 5}}, {{5, 0, 0}}}, {3}, {merge_repeated = false})
            return labels[1].values, df.exp(p)

df.edit_distance(hypothesis, truth, {…})
  Returns the Levenshtein distance, the fewest insertions, deletions and replacements, of each pair of sequences along the last dimension of two sparse tensors
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
  Computes the squares of predictions - labels, reduced.
@loss
  example   df.nn.mean_squared_error({0.0, 0.0}, {1.0, 3.0})

df.nn.absolute_difference(labels, predictions, {…})
  Computes the absolute values of predictions - labels, reduced.
@loss
  example   df.nn.absolute_difference({0.0, 0.0}, {1.0, -3.0})

df.nn.huber_loss(labels, predictions, {…})
  Computes half the square of the error up to delta, and a linear loss beyond.
  option    delta: number = 1  the error where the loss becomes linear
@loss
  example   df.nn.huber_loss({0.0, 0.0}, {1.0, 3.0})

df.nn.hinge_loss(labels, predictions, {…})
  Computes max(0, 1 - (2 y - 1) p), for labels 0 and 1.
@loss
  example   df.nn.hinge_loss({0.0, 1.0}, {0.5, 3.0})

df.nn.log_loss(labels, predictions, {…})
  Computes the cross entropy of probabilities with labels 0 and 1.
  option    epsilon: number = 1e-7  added to probabilities
@loss
  example   df.nn.log_loss({0.0, 1.0}, {0.5, 0.5})

df.nn.sigmoid_cross_entropy(labels, logits, {…})
  Computes the elementwise cross entropy of labels from 0 to 1 with the sigmoid of logits.
  option    label_smoothing: number = 0  moves labels towards 1/2 by this fraction
@loss
  example   df.nn.sigmoid_cross_entropy({0.0, 1.0}, {0.0, 0.0})

df.nn.softmax_cross_entropy(labels, logits, {…})
  Computes the cross entropy of distributions, such as one-hot labels, with the softmax of logits over the
  last axis.
  option    label_smoothing: number = 0  moves labels towards the uniform distribution by this fraction
@loss
  example   df.nn.softmax_cross_entropy({{0.0, 1.0}}, {{0.0, 0.0}})

df.nn.sparse_softmax_cross_entropy(labels, logits, {…})
  Computes the same for labels that are class numbers.
@loss
  example   df.nn.sparse_softmax_cross_entropy({1}, {{0.0, 0.0}})

df.nn.kl_divergence(labels, predictions, {…})
  Computes the sum of y log(y / p) over the last axis, for distributions.
@loss
  example   df.nn.kl_divergence({{0.5, 0.5}}, {{0.25, 0.75}})

df.nn.cosine_distance(labels, predictions, {…})
  Computes 1 minus the sum of y p over the last axis, for vectors of length 1.
@loss
  example   df.nn.cosine_distance({{1.0, 0.0}}, {{0.6, 0.8}})

df.nn.uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Draws classes uniformly. Returns ids int64 [num_sampled] and the expected counts of the true classes
  [batch, num_true] and of the ids. unique: draws no class twice.
@sampler
  example   df.reduce_sum((df.nn.uniform_candidate_sampler({{1}}, 1, 3, true, 3)))

df.nn.log_uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Draws classes with probability log((k + 2) / (k + 1)) / log(range_max + 1), for words sorted by
  frequency.
@sampler
  example   df.nn.log_uniform_candidate_sampler({{1}}, 1, 5, true, 100).shape

df.nn.fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Draws classes by given frequencies.
  option    unigrams: list = nil  [range_max]: the frequency of each class
  option    distortion: number = 1  the power to which frequencies are raised
@sampler
  example   df.nn.fixed_unigram_candidate_sampler({{1}}, 1, 5, false, 2, {unigrams = {0.0, 1.0}})

df.nn.learned_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {…})
  Draws classes by their counts among the true classes of earlier runs; each count begins at 1.
@sampler
  example   df.nn.learned_unigram_candidate_sampler({{1}}, 1, 5, true, 100).shape
]==]
