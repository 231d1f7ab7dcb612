--- ONNX's operators of classical models (ai.onnx.ml): scalers, linear models, support vectors and trees, as tensors and
-- a loop.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'
local import_nn = require 'dflow.exchange.onnx.import_nn'

local ops, help = import_nn.ops, import_nn.help
local DOMAIN = 'ai.onnx.ml:'
local function floats(x) return x.dtype == 'float64' and x or df.cast(x, 'float32') end
local function constants(list, like) return df.constant(list, like.dtype, { #list }) end
local function rows_of(x) return x.shape and #x.shape == 1 and df.expand_dims(x, 0) or x end

ops[DOMAIN .. 'Scaler'] = function(n, x)
  x = floats(x)
  return (x - constants(n.attr('offset', { 0 }), x)) * constants(n.attr('scale', { 1 }), x)
end

ops[DOMAIN .. 'Normalizer'] = function(n, x)
  local how = n.attr('norm', 'MAX')
  x = floats(x)
  local by = how == 'MAX' and df.reduce_max(x, { axis = { -1 }, keep_dims = true })
    or how == 'L1' and df.reduce_sum(df.abs(x), { axis = { -1 }, keep_dims = true })
    or how == 'L2' and df.sqrt(df.reduce_sum(df.square(x), { axis = { -1 }, keep_dims = true }))
    or n:refuse(('its norm is %s; MAX, L1 and L2 are known'):format(how))
  return df.select_v2(df.equal(by, 0), x, x / by)
end

ops[DOMAIN .. 'FeatureVectorizer'] = function(_, ...)
  local list = { ... }
  for i, x in ipairs(list) do list[i] = rows_of(floats(x)) end
  return #list == 1 and list[1] or df.concat(list, 1)
end

ops[DOMAIN .. 'OneHotEncoder'] = function(n, x)
  local texts, numbers = n.attr 'cats_strings', n.attr 'cats_int64s'
  local names = texts and df.constant(texts, 'string', { #texts }) or df.constant(numbers, 'int64', { #numbers })
  return df.cast(df.equal(df.expand_dims(texts and x or df.cast(x, 'int64'), -1), names), 'float32')
end

ops[DOMAIN .. 'Imputer'] = function(n, x)
  local by, gone = n.attr 'imputed_value_floats' or n.attr 'imputed_value_int64s', n.attr 'replaced_value_float'
    or n.attr 'replaced_value_int64'
  local missing = (gone == nil or gone ~= gone) and df.is_nan(x) or df.equal(x, help.same(x, gone))
  return df.select_v2(missing, constants(by, x) + df.zeros_like(x), x)
end

-- ---- scores --------------------------------------------------------------------------------------------------------
--- What becomes of scores [n, m] at the end.
local function transformed(n, y, how)
  if how == 'NONE' then return y end
  if how == 'LOGISTIC' then return df.sigmoid(y) end
  if how == 'SOFTMAX' then return df.softmax(y) end
  if how == 'SOFTMAX_ZERO' then                       -- scores of 0 stay 0 and have no part in it
    local some = df.not_equal(y, 0)
    local e = df.select_v2(some, df.exp(y - df.reduce_max(y, { axis = { -1 }, keep_dims = true })), df.zeros_like(y))
    return df.div_no_nan(e, df.reduce_sum(e, { axis = { -1 }, keep_dims = true }))
  end
  if how == 'PROBIT' then return df.erfinv(y * 2 - 1) * math.sqrt(2) end
  n:refuse(('its post_transform is %s; NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO and PROBIT are known')
    :format(tostring(how)))
end

--- The labels of a classifier, and how they are found by number.
local function labels(n, texts_name, numbers_name)
  local texts, numbers = n.attr(texts_name), n.attr(numbers_name)
  if texts and #texts > 0 then return df.constant(texts, 'string', { #texts }), #texts end
  if not numbers then n:refuse(('it has neither %s nor %s'):format(texts_name, numbers_name)) end
  return df.constant(numbers, 'int64', { #numbers }), #numbers
end

--- The label of each row, and its scores: of one score for two classes, that of the second. `threshold`: from where on
-- that is it.
local function classified(n, y, names, count, how, threshold)
  local one = y.shape and y.shape[2] == 1 and count == 2
  local best
  if one then
    best = df.cast(df.greater(df.squeeze(y, { axis = { 1 } }), help.same(y, threshold or 0)), 'int32')
    local p = transformed(n, y, how == 'SOFTMAX' and 'LOGISTIC' or how)
    y = df.concat({ (how == 'NONE' and not threshold) and -p or 1 - p, p }, 1)
  else
    best = df.cast(df.argmax(y, 1), 'int32')
    y = transformed(n, y, how)
  end
  return { df.gather(names, best), y }
end

-- ---- linear models -------------------------------------------------------------------------------------------------
local function linear(n, x, count)
  x = floats(rows_of(x))
  local weights, bias = n.attr 'coefficients', n.attr 'intercepts'
  if not weights or #weights % count ~= 0 then
    n:refuse(('it has %d coefficients for %d targets'):format(weights and #weights or 0, count))
  end
  local features = x.shape and x.shape[2] or -1
  if features >= 0 and features ~= #weights / count then
    n:refuse(('it has coefficients for %d features, its input has %d'):format(#weights / count, features))
  end
  local y = df.matmul(x, df.constant(weights, x.dtype, { count, #weights / count }), { transpose_b = true })
  return bias and #bias > 0 and y + constants(bias, x) or y
end

ops[DOMAIN .. 'LinearRegressor'] = function(n, x)
  return transformed(n, linear(n, x, n.attr('targets', 1)), n.attr('post_transform', 'NONE'))
end
ops[DOMAIN .. 'LinearClassifier'] = function(n, x)
  local names, count = labels(n, 'classlabels_strings', 'classlabels_ints')
  local bias = n.attr 'intercepts'
  local scores = bias and #bias > 0 and #bias or count
  return classified(n, linear(n, x, scores), names, count, n.attr('post_transform', 'NONE'))
end

-- ---- support vectors -----------------------------------------------------------------------------------------------
local function kernel(n, x, vectors)
  local kind, p = n.attr('kernel_type', 'LINEAR'), n.attr('kernel_params', { 0, 0, 0 })
  local dot = df.matmul(x, vectors, { transpose_b = true })
  if kind == 'LINEAR' then return dot end
  if kind == 'POLY' then return df.pow(dot * p[1] + p[2], help.same(dot, p[3])) end
  if kind == 'SIGMOID' then return df.tanh(dot * p[1] + p[2]) end
  if kind ~= 'RBF' then n:refuse(('its kernel_type is %s; LINEAR, POLY, RBF and SIGMOID are known'):format(kind)) end
  local difference = df.expand_dims(x, 1) - df.expand_dims(vectors, 0)
  return df.exp(df.reduce_sum(df.square(difference), { axis = { 2 } }) * -p[1])
end

--- The support vectors [count, features].
local function supports(n, x, count)
  local list = n.attr 'support_vectors' or {}
  return df.constant(list, x.dtype, { count, #list / count })
end

ops[DOMAIN .. 'SVMRegressor'] = function(n, x)
  x = floats(rows_of(x))
  local count, weights, rho = n.attr('n_supports', 0), n.attr 'coefficients', n.attr('rho', { 0 })
  local k = count > 0 and kernel(n, x, supports(n, x, count)) or x
  if count == 0 then count = #weights end
  local y = df.matmul(k, df.constant(weights, x.dtype, { count, 1 })) + rho[1]
  if n.attr('one_class', 0) == 1 then y = df.select_v2(df.greater(y, 0), df.ones_like(y), -df.ones_like(y)) end
  return transformed(n, y, n.attr('post_transform', 'NONE'))
end

--- Of each two classes the winner has a vote.
ops[DOMAIN .. 'SVMClassifier'] = function(n, x)
  x = floats(rows_of(x))
  local names, classes = labels(n, 'classlabels_strings', 'classlabels_ints')
  local per, weights, rho = n.attr('vectors_per_class', {}), n.attr 'coefficients', n.attr('rho', {})
  if n.attr 'prob_a' and #n.attr 'prob_a' > 0 then
    n:refuse 'it has probabilities (prob_a), which are not computed here'
  end
  local count = 0
  for _, c in ipairs(per) do count = count + c end
  if count == 0 then                                   -- linear: a row of coefficients for each class
    local y = df.matmul(x, df.constant(weights, x.dtype, { classes, #weights / classes }), { transpose_b = true })
      + rho[1]
    return classified(n, y, names, classes, n.attr('post_transform', 'NONE'))
  end
  local k, starts = kernel(n, x, supports(n, x, count)), {}
  starts[1] = 0
  for c = 1, classes do starts[c + 1] = starts[c] + per[c] end
  local function part(row, c)                          -- what class c's vectors add by that row of coefficients
    local w = {}
    for i = starts[c] + 1, starts[c + 1] do w[#w + 1] = weights[row * count + i] end
    return df.matmul(df.slice(k, { 0, starts[c] }, { -1, per[c] }), df.constant(w, x.dtype, { #w, 1 }))
  end
  local votes, scores, pair = {}, {}, 0
  for i = 1, classes do for j = i + 1, classes do
    pair = pair + 1
    local y = part(j - 2, i) + part(i - 1, j) + rho[pair]
    scores[pair] = y
    local won = df.cast(df.greater(y, 0), 'float32')
    votes[i] = votes[i] and votes[i] + won or won
    votes[j] = votes[j] and votes[j] + (1 - won) or 1 - won
  end end
  local best = df.cast(df.argmax(df.concat(votes, 1), 1), 'int32')
  local y = #scores > 1 and df.concat(scores, 1) or df.concat({ scores[1], -scores[1] }, 1)
  return { df.gather(names, best), transformed(n, y, n.attr('post_transform', 'NONE')) }
end

-- ---- trees ---------------------------------------------------------------------------------------------------------
local modes = { [0] = 'less_equal', 'less', 'greater_equal', 'greater', 'equal', 'not_equal' }
local mode_of = { BRANCH_LEQ = 0, BRANCH_LT = 1, BRANCH_GTE = 2, BRANCH_GT = 3, BRANCH_EQ = 4, BRANCH_NEQ = 5,
                  BRANCH_MEMBER = 6, LEAF = 7 }

--- Rows of x [n, features] go down all trees at once: node by node, until every one stands at a leaf. t: lists by node,
-- of `feature`, `split`, `mode`, `yes`, `no` (a node; leaves lead to themselves), `nan` (1: a NaN goes to yes),
-- `members` ({ node = list }), and `roots`. Gives the leaves, int32 [n, trees].
local function leaves_of(x, t)
  local function ints(list) return df.constant(list, 'int32', { #list }) end
  local feature, split, mode = ints(t.feature), constants(t.split, x), ints(t.mode)
  local yes, no, nan = ints(t.yes), ints(t.no), t.nan and ints(t.nan)
  local used = {}
  for _, m in ipairs(t.mode) do used[m] = true end
  local start = ints(t.roots) + df.zeros(df.stack{ df.dim(x, 0), df.int32(1) }, 'int32')
  local function step(at)
    local v, by, kind = df.gather(x, df.gather(feature, at), { axis = 1, batch_dims = 1 }), df.gather(split, at),
      df.gather(mode, at)
    local goes = df.zeros_like(df.equal(v, v))
    for m, name in pairs(modes) do
      if used[m] then goes = df.logical_or(goes, df.logical_and(df.equal(kind, m), df[name](v, by))) end
    end
    for node, list in pairs(t.members or {}) do
      local among = df.reduce_any(df.equal(df.expand_dims(v, -1), constants(list, x)), { axis = { -1 } })
      goes = df.logical_or(goes, df.logical_and(df.equal(at, node), among))
    end
    if nan then goes = df.logical_or(goes, df.logical_and(df.is_nan(v), df.equal(df.gather(nan, at), 1))) end
    return df.select_v2(goes, df.gather(yes, at), df.gather(no, at))
  end
  local function more(going) return going end
  local _, last = df.while_loop(more, function(_, at)
    local new = step(at)
    return df.reduce_any(df.not_equal(new, at)), new
  end, { df.constant(true), start })
  return last
end

--- Weights at the leaves, joined over the trees for each target: { leaf = {{target, weight}, …} } over `nodes` nodes.
local function joined(n, leaves, x, nodes, weights, targets, how)
  local dense, none = {}, how == 'MIN' and math.huge or how == 'MAX' and -math.huge or 0
  for i = 1, nodes * targets do dense[i] = none end
  for leaf, list in pairs(weights) do
    for _, w in ipairs(list) do dense[leaf * targets + w[1] + 1] = w[2] end
  end
  local found = df.gather(df.constant(dense, x.dtype, { nodes, targets }), leaves)         -- [n, trees, targets]
  if how == 'SUM' then return df.reduce_sum(found, { axis = { 1 } }) end
  if how == 'AVERAGE' then return df.reduce_sum(found, { axis = { 1 } }) / df.cast(df.dim(leaves, 1), x.dtype) end
  local y = df[how == 'MIN' and 'reduce_min' or how == 'MAX' and 'reduce_max'
      or n:refuse(('its aggregate_function is %s'):format(how))](found, { axis = { 1 } })
  return df.select_v2(df.is_inf(y), df.zeros_like(y), y)
end

local function numbers(n, name)
  local v = n.attr(name)
  if type(v) ~= 'table' or v[1] ~= nil or not v.dims then return v end
  return read.tensor(v, name):list()
end

ops[DOMAIN .. 'TreeEnsemble'] = function(n, x)
  x = floats(x)
  local t = { feature = n.attr 'nodes_featureids', split = numbers(n, 'nodes_splits'), mode = numbers(n, 'nodes_modes'),
              nan = n.attr 'nodes_missing_value_tracks_true', members = {}, yes = {}, no = {},
              roots = n.attr 'tree_roots' }
  local count, ids, leaf_weights = #t.feature, n.attr 'leaf_targetids', numbers(n, 'leaf_weights')
  local yes, no, is_yes, is_no = n.attr 'nodes_truenodeids', n.attr 'nodes_falsenodeids', n.attr 'nodes_trueleafs',
    n.attr 'nodes_falseleafs'
  for i = 1, count do
    t.yes[i], t.no[i] = yes[i] + (is_yes[i] == 1 and count or 0), no[i] + (is_no[i] == 1 and count or 0)
    if t.mode[i] == 6 then t.members[i - 1] = {} end
  end
  local at = 1
  local members = numbers(n, 'membership_values') or {}
  for i = 1, count do
    local list = t.members[i - 1]
    while list and at <= #members and members[at] == members[at] do list[#list + 1], at = members[at], at + 1 end
    if list then at = at + 1 end
  end
  local weights = {}
  for i, id in ipairs(ids) do                           -- leaves are nodes behind the others, which lead to themselves
    local k = count + i
    t.feature[k], t.split[k], t.mode[k], t.yes[k], t.no[k] = 0, 0, 7, k - 1, k - 1
    if t.nan then t.nan[k] = 0 end
    weights[k - 1] = { { id, leaf_weights[i] } }
  end
  local how = ({ [0] = 'AVERAGE', 'SUM', 'MIN', 'MAX' })[n.attr('aggregate_function', 1)]
  local y = joined(n, leaves_of(x, t), x, #t.feature, weights, n.attr 'n_targets', how)
  return transformed(n, y, ({ [0] = 'NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT' })[n.attr('post_transform',
      0)])
end

--- The older operators name nodes by (tree, node), and weights (target_ or class_) by the same.
local function older_trees(n, x, kind, how, targets)
  x = floats(rows_of(x))
  local trees, ids = n.attr 'nodes_treeids', n.attr 'nodes_nodeids'
  local index, t = {}, { feature = n.attr 'nodes_featureids', split = n.attr 'nodes_values'
                         or numbers(n, 'nodes_values_as_tensor'), mode = {},
                         nan = n.attr 'nodes_missing_value_tracks_true', yes = {}, no = {}, roots = {} }
  local child = {}
  for i = 1, #ids do index[trees[i] .. ' ' .. ids[i]] = i - 1 end
  local yes, no, names = n.attr 'nodes_truenodeids', n.attr 'nodes_falsenodeids', n.attr 'nodes_modes'
  for i = 1, #ids do
    t.mode[i] = mode_of[names[i]] or n:refuse(('a node has the mode %s'):format(tostring(names[i])))
    local leaf = t.mode[i] == 7
    t.yes[i] = leaf and i - 1 or index[trees[i] .. ' ' .. yes[i]]
      or n:refuse 'a branch leads to a node that is not there'
    t.no[i] = leaf and i - 1 or index[trees[i] .. ' ' .. no[i]] or n:refuse 'a branch leads to a node that is not there'
    if not leaf then child[t.yes[i]], child[t.no[i]] = true, true end
  end
  for i = 1, #ids do if not child[i - 1] then t.roots[#t.roots + 1] = i - 1 end end
  local weights, own = {}, n.attr(kind .. '_ids')
  local w_trees, w_nodes, values = n.attr(kind .. '_treeids'), n.attr(kind .. '_nodeids'), n.attr(kind .. '_weights')
    or numbers(n, kind .. '_weights_as_tensor')
  for i = 1, #own do
    local leaf = index[w_trees[i] .. ' ' .. w_nodes[i]] or n:refuse 'a weight is for a node that is not there'
    weights[leaf] = weights[leaf] or {}
    table.insert(weights[leaf], { own[i], values[i] })
  end
  local y = joined(n, leaves_of(x, t), x, #ids, weights, targets, how)
  local base = n.attr 'base_values' or numbers(n, 'base_values_as_tensor')
  return base and #base > 0 and y + constants(base, x) or y, own
end

ops[DOMAIN .. 'TreeEnsembleRegressor'] = function(n, x)
  local y = older_trees(n, x, 'target', n.attr('aggregate_function', 'SUM'), n.attr('n_targets', 1))
  return transformed(n, y, n.attr('post_transform', 'NONE'))
end
ops[DOMAIN .. 'TreeEnsembleClassifier'] = function(n, x)
  local names, classes = labels(n, 'classlabels_strings', 'classlabels_int64s')
  local one = classes == 2
  for _, id in ipairs(n.attr 'class_ids') do one = one and id == n.attr 'class_ids'[1] end
  local y, own = older_trees(n, x, 'class', 'SUM', classes)
  if one then y = df.slice(y, { 0, own[1] }, { -1, 1 }) end
  local how = n.attr('post_transform', 'NONE')
  return classified(n, y, names, classes, how, one and how == 'NONE' and 0.5 or nil)
end

--- A map from labels to scores for each row is here one tensor [n, classes], whose columns are the labels in their
-- order.
ops[DOMAIN .. 'ZipMap'] = function(_, y) return df.identity(y) end

return import_nn
