--- df.data.pipeline: elements from a source, through stages, to a loop: df.data.pipeline{x, y}:shuffle(1000,
-- 1):batch(32):each().
--
-- A pipeline is a description; each() opens it, and everything is pulled through it one element at a time. What comes
-- is decided by the seeds and by how often it was opened before, its epoch: shuffled anew each time, and the same in
-- each program. So a place in it is the epoch and the number of elements that came out: it:state() says it, each{state
-- =} goes on there.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local session = require 'dflow.front.session'
local order = require 'dflow.data.order'
local convert = require 'dflow.front.convert'

local M = {}
local Tensor = tensor.Tensor
local Pipeline, Iterator = { __name = 'dflow.Pipeline' }, { __name = 'dflow.PipelineIterator' }
local methods, iterator_methods = {}, {}
Pipeline.__index, Iterator.__index = methods, iterator_methods
Pipeline.__tostring = function(p) return 'Pipeline: ' .. p.what end
Pipeline.__len = function()
  errors.bad('how many elements a pipeline has is known when it has been gone through: for x in p:each() do … end')
end
Iterator.__tostring = function(it)
  return ('PipelineIterator after %d element%s'):format(it.count, it.count == 1 and '' or 's')
end
local unpack = table.unpack or unpack

-- ---- elements -------------------------------------------------------------------------------------------------------
-- An element is {n =, part, …}, or a row of the source that was not read yet: {row =, of = {tensors}}.

local function part_at(t, row)
  if #core.tensor_shape(t) == 1 then return core.tensor_get(t, row) end
  return t:at(row)
end

local function parts_of(e)
  if e.row then
    for i, t in ipairs(e.of) do e[i] = part_at(t, e.row) end
    e.n, e.row = #e.of, nil
  end
  return e
end

local function whole(v, what, least)
  if type(v) ~= 'number' or v < least or not dtypes.is_whole(v) then
    errors.bad('%s is a whole number from %d up, not %s', what, least, errors.describe(v))
  end
  return v
end

local function is_function(fn, what)
  if type(fn) ~= 'function' then errors.bad('%s takes a function of the element, not %s', what, errors.describe(fn)) end
end

--- A pipeline behind another: `open(pull, epoch, from)` gives the function that pulls an element.
-- @param takes  in order, so many elements of p for each of its own; nil: that is not known
local function stage(p, what, open, takes)
  return setmetatable({ before = p, open = open, what = p.what .. ' -> ' .. what, dtypes = p.dtypes, takes = takes },
                      Pipeline)
end

-- ---- sources --------------------------------------------------------------------------------------------------------
local function rows_of(list)
  local n
  for i, t in ipairs(list) do
    local is = getmetatable(t) == Tensor
    if not is or t.rank < 1 then
      errors.bad('pipeline: part %d of the source is %s, a Tensor with rows is expected%s', i, is
                 and tensor.shape_text(t.dtype, t.shape) or errors.describe(t),
                 is and ', as df.tensor{1, 2}' or ': df.run(x) gives one of an Output, df.tensor(list) of a list')
    end
    n = n or t.shape[1]
    if t.shape[1] ~= n then errors.bad('pipeline: the tensors have %d and %d rows', n, t.shape[1]) end
  end
  return n
end

--- An Output, a Variable and their kind: they have one in runs.
local function has_no_value(v)
  return convert.typed(v) ~= nil and getmetatable(v) ~= Tensor and not errors.is_data(v)
end

--- What a Lua iterator gives, as an element; nil at its end.
local function packed(n, ...)
  if n == 0 or (...) == nil then return nil end
  if type((...)) == 'function' then
    errors.bad('pipeline: the source gave a function, an element is expected; a function that makes iterators is '
               .. 'given as {open = fn}')
  end
  return { n = n, ... }
end

--- df.data.pipeline(source)
-- @param source  a Tensor, whose rows are the elements; a list of Tensors with equally many rows; a function that is
--                called for each element and gives its parts, nil at the end (from then on the pipeline cannot be
--                opened again); or a table with `open()`, which gives such a function each time, as df.data.tfrecord
--                and df.data.text do
-- @param state, control  what Lua's `for` takes besides a function: pipeline(ipairs(list)), pipeline(pairs(t))
function M.pipeline(source, state, control)
  if type(source) == 'function' and (state ~= nil or control ~= nil) then
    local next_of = source
    local function step(...)
      control = (...)
      return ...
    end
    source = function() return step(next_of(state, control)) end
  end
  if type(source) == 'function' then
    local used = false
    return setmetatable({ what = 'function', open = function()
      if used then
        errors.raise('failed_precondition',
                     'pipeline: an iterator can be gone through once; give a table with open() to begin again')
      end
      used = true
      return function() return packed((function(...) return select('#', ...), ... end)(source())) end
    end }, Pipeline)
  end
  if getmetatable(source) == Tensor then source = { source } end
  if has_no_value(source) then
    errors.bad('pipeline: %s has no value outside a run: df.run(x) gives one', errors.describe(source))
  end
  if type(source) == 'table' and type(source.open) == 'function' then
    return setmetatable({ what = source.what or 'source', open = function()
      local pull = source.open()
      return function() return packed((function(...) return select('#', ...), ... end)(pull())) end
    end }, Pipeline)
  end
  if not errors.is_data(source) or #source == 0 then
    errors.bad('pipeline takes a Tensor, a list of Tensors or a function, not %s', errors.describe(source))
  end
  local list, kinds = {}, {}
  for i, t in ipairs(source) do list[i] = t end
  local n = rows_of(list)
  for i, t in ipairs(list) do kinds[i] = t.dtype end
  return setmetatable({ what = ('%d rows'):format(n), dtypes = kinds, open = function()
    local row = -1
    return function()
      row = row + 1
      if row < n then return { row = row, of = list } end
    end
  end }, Pipeline)
end

-- ---- stages ---------------------------------------------------------------------------------------------------------
--- p:map(fn): fn gets an element's parts and gives those of another.
function methods.map(p, fn)
  is_function(fn, 'map')
  return stage(p, 'map', function(pull)
    return function()
      local e = pull()
      if not e then return nil end
      parts_of(e)
      local function made(...)
        local n = select('#', ...)
        if n == 0 or (...) == nil then
          errors.bad('map: the function returned nothing; p:filter(fn) leaves elements out')
        end
        for i = 1, n do
          if has_no_value((select(i, ...))) then
            errors.bad('map: result %d is %s, which has no value outside a run: of a Tensor x, x:tanh() and x * 2 '
                       .. 'compute at once, df.tanh(x) builds a node', i,
                       (errors.describe((select(i, ...))):gsub('^[AEIOU]', 'an %0'):gsub('^[^a]', 'a %0')))
          end
        end
        return { n = n, ... }
      end
      return made(fn(unpack(e, 1, e.n)))
    end
  end, 1)
end

--- p:filter(fn): only elements for which fn gives something true.
function methods.filter(p, fn)
  is_function(fn, 'filter')
  return stage(p, 'filter', function(pull)
    return function()
      for e in pull do
        parts_of(e)
        if fn(unpack(e, 1, e.n)) then return e end
      end
    end
  end)
end

--- p:shuffle(n, seed?): random order; n elements wait at a time, and each that comes out makes room for the next. Each
--- time the pipeline is gone through, by each() or repeat_, the order is another, as tf.data's is.
function methods.shuffle(p, n, seed)
  whole(n, 'shuffle: the number of elements that wait', 1)
  if seed ~= nil then whole(seed, 'shuffle: the seed', 0) end
  seed = seed or math.floor(core.clock() * 1e6) % 2 ^ 31
  return stage(p, ('shuffle(%d)'):format(n), function(pull, epoch)
    local draw, waiting, filled = order.generator(seed + 7919 * epoch), {}, false
    return function()
      while not filled and #waiting < n do
        local e = pull()
        filled = not e
        waiting[#waiting + 1] = e
      end
      if #waiting == 0 then return nil end
      local i = draw(#waiting) + 1
      local e = waiting[i]
      waiting[i] = waiting[#waiting]
      waiting[#waiting] = nil
      return e
    end
  end)
end

--- p:repeat_(n?): all of it n times, one after another; without n for ever.
function methods.repeat_(p, n)
  if n ~= nil then whole(n, 'repeat_: how often', 0) end
  local out = stage(p, n and ('repeat_(%d)'):format(n) or 'repeat_', nil)
  out.open_self = function(epoch)
    local round, pull, any = 0, nil, false
    return function()
      while true do
        if not pull then
          if (n and round >= n) or (round > 0 and not any) then return nil end
          pull, any = M.open(p, epoch * 104729 + round), false
          round = round + 1
        end
        local e = pull()
        if e then
          any = true
          return e
        end
        pull = nil
      end
    end
  end
  return out
end

--- p:take(n): the first n elements. p:skip(n): all but these.
function methods.take(p, n)
  whole(n, 'take: how many', 0)
  return stage(p, ('take(%d)'):format(n), function(pull)
    local given = 0
    return function()
      given = given + 1
      return given <= n and pull() or nil
    end
  end)
end
function methods.skip(p, n)
  whole(n, 'skip: how many', 0)
  return stage(p, ('skip(%d)'):format(n), function(pull)
    local left = n
    return function()
      while left > 0 and pull() do left = left - 1 end
      return pull()
    end
  end)
end

--- p:shard(n, k): every n-th element, from number k on (0 is the first), so that n programs have all of them between
-- them. n is the number of ranks and k this program's where they are left away. A place behind it is one for all n:
-- `each` goes on there with another n, too.
function methods.shard(p, n, k)
  local cluster = require 'dflow.cluster'
  if n == nil and k == nil then n, k = cluster.size, cluster.rank end
  whole(n, 'shard: into how many', 1)
  whole(k, 'shard: which one', 0)
  if k >= n then errors.bad('shard: which one is from 0 to %d, of %d, not %d', n - 1, n, k) end
  local s = stage(p, ('shard(%d, %d)'):format(n, k), function(pull, _, from)
    local left = (from or 0) + k
    return function()
      while left > 0 and pull() do left = left - 1 end
      left = n - 1
      return pull()
    end
  end)
  s.shards = n
  return s
end

local batching = require 'dflow.data.batch'

local function check_batch(what, opts)
  for _, key in ipairs{ 'drop_remainder', 'pad' } do errors.flag(opts[key], what, key) end
  local v = opts.pad_value
  if v ~= nil and type(v) ~= 'number' and type(v) ~= 'boolean' and type(v) ~= 'string' then
    errors.bad('%s: pad_value is a number, a boolean or a string, not %s', what, errors.describe(v))
  end
end

--- p:batch(n, {drop_remainder = false, pad = false, pad_value = 0}): n elements as one, whose parts have one axis more,
-- in front.
-- @param pad  parts of different shapes are filled up to the largest of the batch
function methods.batch(p, n, opts)
  whole(n, 'batch: the size', 1)
  opts = errors.options(opts, 'Pipeline:batch', { 'drop_remainder', 'pad', 'pad_value' })
  check_batch('batch', opts)
  if opts.pad_value ~= nil and opts.pad == nil then errors.bad('batch: pad_value is what fills up with pad = true') end
  return stage(p, ('batch(%d)'):format(n), function(pull)
    local kinds = {}
    return function()
      local list = {}
      while #list < n do
        local e = pull()
        if not e then break end
        list[#list + 1] = e
      end
      if #list == 0 or (#list < n and opts.drop_remainder) then return nil end
      return batching.stack(list, parts_of, p.dtypes, kinds, opts)
    end
  end, n)
end

--- p:padded_batch(n, {drop_remainder, pad_value}): batch with pad = true.
function methods.padded_batch(p, n, opts)
  opts = errors.options(opts, 'Pipeline:padded_batch', { 'drop_remainder', 'pad_value' })
  check_batch('padded_batch', opts)
  return methods.batch(p, n, { drop_remainder = opts.drop_remainder, pad_value = opts.pad_value, pad = true })
end

--- p:bucket_by_length(length, boundaries, n, {drop_remainder, pad_value}): padded batches of elements of about one
-- length.
-- @param length      function(part, …) -> the element's length
-- @param boundaries  numbers that rise: a bucket for lengths up to each, and one for all above
function methods.bucket_by_length(p, length, boundaries, n, opts)
  is_function(length, 'bucket_by_length')
  whole(n, 'bucket_by_length: the size of a batch', 1)
  if not errors.is_data(boundaries) then
    errors.bad('bucket_by_length: the boundaries are a list of numbers, not %s', errors.describe(boundaries))
  end
  for i, b in ipairs(boundaries) do
    if type(b) ~= 'number' or (i > 1 and b <= boundaries[i - 1]) then
      errors.bad('bucket_by_length: the boundaries must rise')
    end
  end
  opts = errors.options(opts, 'Pipeline:bucket_by_length', { 'drop_remainder', 'pad_value' })
  check_batch('bucket_by_length', opts)
  local stacked = { pad = true, pad_value = opts.pad_value }
  return stage(p, 'bucket_by_length', function(pull)
    local buckets, kinds, last = {}, {}, 1
    for i = 1, #boundaries + 1 do buckets[i] = {} end
    return function()
      for e in pull do
        parts_of(e)
        local long, at = length(unpack(e, 1, e.n)), #boundaries + 1
        if type(long) ~= 'number' then
          errors.bad('bucket_by_length: the length is %s, a number is expected', errors.describe(long))
        end
        for i = #boundaries, 1, -1 do
          if long <= boundaries[i] then at = i end
        end
        local bucket = buckets[at]
        bucket[#bucket + 1] = e
        if #bucket == n then
          buckets[at] = {}
          return batching.stack(bucket, parts_of, p.dtypes, kinds, stacked)
        end
      end
      while last <= #buckets do
        local bucket = buckets[last]
        last = last + 1
        if #bucket > 0 and not opts.drop_remainder then
          return batching.stack(bucket, parts_of, p.dtypes, kinds, stacked)
        end
      end
    end
  end)
end

-- ---- ahead ----------------------------------------------------------------------------------------------------------
-- The program that asks for elements runs something with them: while a run is in progress its thread has nothing to do,
-- and makes the next ones. How many it makes then does not depend on how long they or the run take, so what is drawn
-- from random ops, here and there, does not either.

--- Seconds that elements may take to be made before that is done while a run is in the background, and not after it:
--- some times what it costs to hand a run to another thread.
local SLOW = 1e-4
-- function that fills a prefetch with room -> {number =, seconds =}
local roomy = setmetatable({}, { __mode = 'k' })
local number = 0

local function make_ahead()
  local list = {}
  for fill, about in pairs(roomy) do list[#list + 1] = { fill = fill, number = about.number } end
  table.sort(list, function(a, b) return a.number < b.number end)
  for _, e in ipairs(list) do
    roomy[e.fill] = nil
    e.fill()
  end
end

--- `fill` is to be called beside the next run; its last element took `seconds`.
local function has_room(fill, seconds)
  number = number + 1
  roomy[fill] = { number = number, seconds = seconds }
  local slow = false
  for _, about in pairs(roomy) do slow = slow or about.seconds > SLOW end
  session.beside{ make = make_ahead, slow = slow }
end

--- p:prefetch(k): k elements are ready before they are asked for; those that came out are made anew beside the next
--- df.run, s:run or x:eval: where that takes long, at the same time. An error in one of them is raised when it is asked
-- for.
function methods.prefetch(p, k)
  whole(k, 'prefetch: how many', 1)
  return stage(p, ('prefetch(%d)'):format(k), function(pull)
    local ready, first, last, over, seconds = {}, 1, 0, false, 0
    local function fill()
      while not over and last - first + 1 < k do
        local began = core.clock()
        local ok, e = pcall(pull)
        over = not ok or not e
        last = last + 1
        ready[last] = ok and (e or false) or { fault = e }
        seconds = core.clock() - began
      end
    end
    return function()
      if first > last then fill() end
      local e = ready[first]
      if first > last or not e then return nil end
      ready[first] = nil
      first = first + 1
      if e.fault ~= nil then error(e.fault, 0) end
      if not over then has_room(fill, seconds) end
      return e
    end
  end, 1)
end

-- ---- going through it -----------------------------------------------------------------------------------------------
--- The function that pulls the elements of a pipeline; `epoch` tells one opening from another.
-- @param from  how many elements all shards have had already; nil: none
function M.open(p, epoch, from)
  if p.open_self then return p.open_self(epoch) end
  if not p.before then return p.open() end
  return p.open(M.open(p.before, epoch, not p.shards and from or nil), epoch, from)
end

--- Of how many shards a pipeline is one (nil: it has no shard), and how many elements of its shard each of its own
-- takes; nil: that is not known.
local function shards_of(p)
  local takes = 1
  while p.before and not p.shards do p, takes = p.before, takes and p.takes and takes * p.takes end
  return p.shards, takes
end

--- What it:state() gave: the epoch, the number of elements that came out, of how many shards, and where these began;
-- nil: nothing of it.
local function place_of(state)
  local text = type(state) == 'string' and state or ''
  local epoch, from, count, shards = text:match '^dflow%-pipeline%-2:(%d+):(%d+):(%d+):(%d+)$'
  if epoch then return tonumber(epoch), tonumber(count), tonumber(shards), tonumber(from) end
  epoch, count = text:match '^dflow%-pipeline%-1:(%d+):(%d+)$'
  count = tonumber(count or text:match '^dflow%-pipeline%-1:(%d+)$')
  return count and tonumber(epoch or 0), count, 1, 0
end

--- How many elements all shards have had that were `were` of them, began after `from` and have given `count` each.
local function moved(p, from, count, were)
  local shards, takes = shards_of(p)
  if not shards then
    errors.bad('each: the state is one of %d shards, the pipeline has none: p:shard(1, 0) is all of it', were)
  end
  if not takes then
    errors.bad('each: the state is one of %d shards, the pipeline has %d: it goes on only where each stage behind '
               .. 'shard is a map, a batch or a prefetch: %s',
               were, shards, p.what)
  end
  return from + count * were * takes
end

--- p:each{state =}: an iterator for `for`: each time the parts of an element. it:state() says where it is, and
-- each{state =} goes on there.
function methods.each(p, opts)
  opts = errors.options(opts, 'Pipeline:each', { 'state' })
  local epoch, skipped, from, shards = p.epoch or 0, 0, 0, shards_of(p) or 1
  if opts.state ~= nil then
    local were
    epoch, skipped, were, from = place_of(opts.state)
    if not epoch then errors.bad('each: state is %s, what it:state() gave is expected', errors.describe(opts.state)) end
    if were ~= shards then from, skipped = moved(p, from, skipped, were), 0 end
  end
  p.epoch = epoch + 1
  local it = setmetatable({ pull = M.open(p, epoch, from), count = 0, epoch = epoch, shards = shards, from = from },
                          Iterator)
  for i = 1, skipped do
    if not it.pull() then
      errors.raise('out_of_range', 'each: the state is element %d, the pipeline ends after %d', skipped, i - 1)
    end
    it.count = i
  end
  return it
end

Pipeline.__call = function() errors.bad('a pipeline is gone through by its iterator: for x, y in p:each() do … end') end
Iterator.__call = function(it)
  local e = not it.over and it.pull()
  if not e then
    it.over = true
    return nil
  end
  it.count = it.count + 1
  parts_of(e)
  return unpack(e, 1, e.n)
end

--- it:state(): where it is, as a string for a checkpoint's metadata.
function iterator_methods.state(it)
  if it.shards > 1 or it.from > 0 then
    return ('dflow-pipeline-2:%.0f:%.0f:%.0f:%.0f'):format(it.epoch, it.from, it.count, it.shards)
  end
  return it.epoch > 0 and ('dflow-pipeline-1:%.0f:%.0f'):format(it.epoch, it.count)
    or ('dflow-pipeline-1:%.0f'):format(it.count)
end

errors.with_colons(methods, Pipeline, 'a pipeline', 'p')
errors.with_colons(iterator_methods, Iterator, "a pipeline's iterator", 'it')

M.methods = methods
return M
