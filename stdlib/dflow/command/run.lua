--- `dflow run`: runs a model from the command line.
local df = require 'dflow'
local graph = require 'dflow.front.graph'
local listing = require 'dflow.front.listing'
local options = require 'dflow.command.options'
local lists = require 'dflow.command.lists'
local nest = require 'dflow.front.nest'

local help = [==[
usage: dflow run GRAPH [options]
Runs a TensorFlow graph, a GraphDef (binary or text, gzipped or not), a MetaGraphDef or a SavedModel, or an ONNX model (.onnx).

  --feed NAME=VALUE   feeds a tensor: a number, true, false, a list such as [[1,2],[3,4]], a .npy file, or text for strings,
                      of which a list is ["a b","c"].
                      @FILE.npy is the file whatever its name; FILE.npz alone feeds all its arrays by their names. A sequence
                      is a list of such values, or a .npz file, element k of it being NAME[k]; an optional value is its value,
                      or none
  --fetch NAME[,...]  what to compute: x or x:0 is a tensor, ^x an operation that only has to run; may be repeated. Without it
                      an ONNX model or a SavedModel gives its outputs
  --signature NAME    by which of a SavedModel's signatures inputs and outputs are named, serving_default or the only one if
                      it is not said: dflow inspect lists them
  --init NAME         runs this operation once before the first run, such as an initializer
  --out FILE          where the results go: .npz by their names, .npy for a single one; without it they are printed
  --repeat N          runs N times and says how long a run took
  --threads N         workers
  --timeout S         seconds a run may take
  --trace FILE        a timeline of the last run
  --device SPEC       where it runs: cpu:0, sim:0, gpu:0
  --help              shows this text

  dflow run graph.pb --feed x=x.npy --feed n=3 --fetch y:0 --out y.npz
]==]

local known = { feed = 'list', fetch = 'list', signature = 'value', init = 'list', out = 'value', ['repeat'] = 'value',
                threads = 'value', timeout = 'value',
                trace = 'value', device = 'value' }

local function number_option(opts, name, whole)
  local text = opts[name]
  if not text then return nil end
  local n = tonumber(text)
  if not n or n <= 0 or (whole and n % 1 ~= 0) then
    options.wrong("--%s is '%s', a %snumber above 0 is expected", name, text, whole and 'whole ' or '')
  end
  return n
end

--- `[1, [2, 3]]` as a Lua table; nil when it is no list.
-- @param other  function(word) -> what a word is that is neither a number nor true or false; nil: no word is
local function list_of(text, other, as_text)
  local at = 1
  local function skip() at = text:find('[^%s]', at) or #text + 1 end
  local value
  local function items()
    local list = {}
    at = at + 1
    skip()
    while text:sub(at, at) ~= ']' do
      local v = value()
      if v == nil then return nil end
      list[#list + 1] = v
      skip()
      local c = text:sub(at, at)
      if c == ',' then at = at + 1 elseif c ~= ']' then return nil end
      skip()
    end
    at = at + 1
    return list
  end
  function value()
    skip()
    if text:sub(at, at) == '[' then return items() end
    local quoted = other and text:match('^"[^"]*"', at)
    local word = quoted or text:match('^[^%s,%]]+', at)
    if not word then return nil end
    at = at + #word
    if quoted then return other(quoted:sub(2, -2)) end
    if as_text then return other(word) end
    if word == 'true' or word == 'false' then return word == 'true' end
    return tonumber(word) or (other and other(word))
  end
  if not text:match('^%s*%[') then return nil end
  local v = value()
  skip()
  return at > #text and v or nil
end

local function value_of(text, output)
  if text:sub(1, 1) == '@' then return df.load_npy(text:sub(2)) end
  if text:match('%.npy$') then return df.load_npy(text) end
  if output.dtype == 'string' then
    local shape = output.shape
    if shape and #shape == 0 or text:sub(1, 1) ~= '[' then return text end
    local v = list_of(text, function(word) return word end, true)
    if v == nil then
      options.wrong("the value '%s' for %s (string) is no list, as in [a, \"b c\"]", text, output.name)
    end
    return v
  end
  if text == 'true' or text == 'false' then return text == 'true' end
  local v = tonumber(text)
  if v == nil then
    v = list_of(text)
    local ok, err = pcall(df.tensor, v or 0, output.dtype)
    if not ok then options.wrong("the value '%s' for %s (%s): %s", text, output.name, output.dtype, err.message) end
  end
  if v == nil then
    options.wrong("the value '%s' for %s (%s) is no number, list, true, false or .npy file", text, output.name,
                  output.dtype)
  end
  return v
end

--- A fed array is converted where nothing is lost: numpy writes int64 and float64 unasked.
local function as_needed(value, output)
  if df.type(value) ~= 'tensor' or value.dtype == output.dtype then return value end
  if value.dtype == 'string' or output.dtype == 'string' then
    options.wrong('%s is %s, but the array is %s', output.name, output.dtype, value.dtype)
  end
  local cast = value:astype(output.dtype)
  local back = cast:astype(value.dtype)
  local a, b = value:list(), back:list()
  for i = 1, #a do
    if a[i] ~= b[i] and a[i] == a[i] and not (value.dtype == 'float64' and output.dtype == 'float32') then
      options.wrong('%s is %s, but the array is %s and its element %d cannot be held', output.name, output.dtype,
                    value.dtype, i - 1)
    end
  end
  return cast
end

--- The value of a sequence or an optional value.
local function list_value(kind, text, name)
  local one = { name = name, dtype = kind.dtype }
  local function element(v)
    if df.type(v) == 'tensor' then return as_needed(v, one) end
    local ok, t = pcall(df.tensor, v, kind.dtype)
    return ok and t or options.wrong("an element of '%s' for %s (%s): %s", text, name, kind.dtype, t.message)
  end
  if kind.optional and text == 'none' then return lists.fed(kind, nil) end
  if kind.optional and not kind.of_lists then return lists.fed(kind, { element(value_of(text, one)) }) end
  local list
  if text:match('%.npz$') then list = lists.in_order(df.load_npz(text))
  else list = list_of(text, function(word) return word:match('%.npy$') and df.load_npy(word) or kind.dtype == 'string'
      and word or nil end) end
  if not list then
    options.wrong("the value '%s' for the sequence %s is no list such as [1,[2,3]] or [a.npy,b.npy], and no .npz file",
                  text, name)
  end
  for i, v in ipairs(list) do list[i] = element(v) end
  return lists.fed(kind, list)
end

--- The Output that has a name in the model's signature, or in its graph.
local function output_of(g, side, name)
  if not g.signatures then return g:output(name) end
  if side[name] then return side[name] end
  local ok, output = pcall(g.output, g, name)
  if ok then return output end
  local names = {}
  for other in pairs(side) do if type(other) == 'string' then names[#names + 1] = other end end
  table.sort(names)
  if #names == 0 then error(output, 0) end
  options.wrong("neither the signature nor the graph has '%s'; the signature has %s", name, table.concat(names, ', '))
end

local function take_feeds(g, words)
  local feeds, by = {}, {}
  local function feed(output, value, word)
    if by[output] then
      options.wrong('%s is fed twice: by --feed %s and by --feed %s', output.name, by[output], word)
    end
    feeds[output], by[output] = as_needed(value, output), word
  end
  for _, word in ipairs(words) do
    local name, text = word:match('^([^=]+)=(.*)$')
    if name then
      local output, kind = output_of(g, g.inputs, name), lists.kind(g, name)
      feed(output, kind and list_value(kind, text, name) or value_of(text, output), word)
    elseif word:match('%.npz$') then
      local arrays = df.load_npz(word)
      for key, list in pairs(lists.take(g, arrays)) do
        feed(g:output(key), lists.fed(lists.kind(g, key), list), word)
      end
      for key, value in pairs(arrays) do
        local ok, output = pcall(output_of, g, g.inputs, key)
        if not ok then options.wrong("%s has an array '%s', but %s", word, key, output.message) end
        feed(output, value, word)
      end
    else
      options.wrong("--feed is '%s', NAME=VALUE or a .npz file is expected", word)
    end
  end
  return feeds
end

local function outputs_text(g)
  local list = {}
  for _, name in ipairs(require('dflow.command.inspect').outputs(g)) do
    if #list == 12 then
      list[#list + 1] = '…'
      break
    end
    list[#list + 1] = name
  end
  return table.concat(list, ', ')
end

local function take_fetches(g, words)
  local names, fetches = {}, {}
  for _, word in ipairs(words) do
    for name in word:gmatch('[^,]+') do
      -- of a sequence whose length is known: its elements
      local length = g.onnx and g.onnx.sequences[name]
      for k = 1, length or 1 do
        names[#names + 1] = length and ('%s[%d]'):format(name, k - 1) or name
        fetches[#fetches + 1] = name:sub(1, 1) == '^' and g:op(name:sub(2)) or output_of(g, g.outputs, names[#names])
      end
    end
  end
  local signatures = #names == 0 and g.signatures and nest.keys(g.signatures)
  if signatures and #signatures > 1 then
    options.wrong('the model has several signatures: say --signature with one of %s', table.concat(signatures, ', '))
  elseif #names == 0 then
    options.wrong('there is nothing to fetch: say --fetch NAME. Values that no node reads: %s', outputs_text(g))
  end
  return names, fetches
end

--- Seconds on the program's clock; of processor time where the program is another.
local function clock()
  return package.preload['dflow.program'] and require('dflow.program').clock or os.clock
end

local function save(path, names, results)
  local tensors, n = {}, 0
  local function keep(name, value, dtype)
    tensors[name] = df.type(value) == 'tensor' and value or df.tensor(value, dtype)
    n = n + 1
  end
  for i, name in ipairs(names) do
    local value, key = results[i], name:gsub(':0$', '')
    if listing.is(value) then
      for k, v in ipairs(value) do keep(('%s[%d]'):format(key, k - 1), v) end
    elseif name:sub(1, 1) ~= '^' and value ~= 'none' then keep(key, value, results.dtypes[i]) end
  end
  if path:match('%.npy$') then
    if n ~= 1 then options.wrong('%s holds one array, but %d tensors are fetched: say a .npz file', path, n) end
    local _, value = next(tensors)
    df.save_npy(path, value)
  elseif path:match('%.npz$') then
    df.save_npz(path, tensors)
  else
    options.wrong("--out is '%s', a .npz or .npy file is expected", path)
  end
end

local function run(words)
  local opts, rest = options.parse(words, known)
  if #rest == 0 then options.wrong('no graph was named') end
  if #rest > 1 then options.wrong('%d graphs were named, one is expected', #rest) end
  local times, threads, timeout = number_option(opts, 'repeat', true), number_option(opts, 'threads', true),
    number_option(opts, 'timeout')
  if opts.out and not opts.out:match('%.np[yz]$') then
    options.wrong("--out is '%s', a .npz or .npy file is expected", opts.out)
  end
  local g = require('dflow.exchange.source').open(rest[1], opts.signature)
  local names, fetches = take_fetches(g, #opts.fetch == 0 and g.results or opts.fetch)
  local feeds = take_feeds(g, opts.feed)
  local s = df.Session{ graph = g, threads = threads, timeout = timeout, devices = opts.device and { opts.device }
                        or nil }
  for _, name in ipairs(opts.init) do s:run(g:op((name:gsub('^%^', '')))) end
  local results
  local seconds = clock()
  local started = seconds()
  for k = 1, times or 1 do
    results = s:run(fetches, feeds, opts.trace and k == (times or 1) and { trace = opts.trace } or nil)
  end
  local took = seconds() - started
  results.dtypes = {}
  for i, x in ipairs(fetches) do
    local kind = lists.kind(g, names[i])
    results.dtypes[i] = getmetatable(x) == graph.Output and x.dtype or nil
    if kind then results[i] = lists.given(kind, results[i]) end
  end
  if opts.out then
    save(opts.out, names, results)
  else
    for i, name in ipairs(names) do
      if name:sub(1, 1) ~= '^' then
        local text = tostring(results[i])
        io.stdout:write(name, ' =', text:find('\n') and '\n' or ' ', text, '\n')
      end
    end
  end
  if times then io.stdout:write(('%d runs, %.3g ms each\n'):format(times, took / times * 1000)) end
  s:close()
end

return function(...) return options.main('run', help, run, { ... }) end
