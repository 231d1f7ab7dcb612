--- What an op makes of its inputs does not depend on when they are known: for spec/ops/late_equals_early_spec.lua.
--
--   local late = require 'spec.late'
--   for _, op in ipairs(late.ops()) do
--     for _, trial in ipairs(late.trials(op)) do local how, seen = late.differs(op, trial) end
--   end
--
-- A trial is a list of tensors, one for each input of the op. It is made of constants, of placeholders of which nothing is
-- known, and of each input a constant with the others fed; what comes out, values or what is wrong and its code, is to be
-- the same, and so are the words where all is known. `dflow spec/late.lua all` tries all trials of all ops (make nightly).
local df = require 'dflow'
local dtypes = require 'dflow.front.dtypes'
local elements_of = require 'spec.elements'
local registry = require 'dflow.front.registry'

local M = {}

local FLOATS = { {}, { 3 }, { 2, 3 }, { 0 }, { 1, 4, 4, 2 }, { 1 }, { 3, 3 }, { 2, 2, 2 }, { 2 } }
local NUMBERS = { 1, { 0 }, { 1, 0 }, {}, { 1, 2, 2, 1 }, -1, { { 1, 0 }, { 0, 1 } }, { 2, 1, 1 }, 2, { { 1 }, { 0 } }, { -1 }, { 7 }, 7, { 0, 0 } }
local BASES, MOST = { 3, 5, 7 }, 70                -- trials of an op; `make test` has a sample of them
local ATTRS = { int = 1, float = 0.5, bool = true, string = 'a', dtype = 'float32', shape = { 2 }, ints = { 1 } }

--- The dtype that an input has here: float32 where it may, else int32, and so on.
local function dtype_of(e, a)
  if a.dtype then return dtypes.name[a.dtype] end
  local set = a.var and e.types[a.var] or a.set
  for _, name in ipairs{ 'float32', 'int32', 'bool', 'string', 'complex64', 'uint8', 'int64', 'float16' } do
    if not set or set[dtypes.number[name]] then return name end
  end
end

--- The ops that are tried: those of plain values, without effect, that give the same each time.
function M.ops()
  local list = {}
  for _, type_name in ipairs(registry.types()) do
    local e = registry.entry(type_name)
    local op = { type = type_name, entry = e, dtypes = {}, given = {} }
    local plain = #e.inputs > 0 and not e.stateful and not registry.primitive(type_name)
    for i, a in ipairs(e.inputs) do
      op.dtypes[i] = dtype_of(e, a)
      plain = plain and op.dtypes[i] ~= nil and op.dtypes[i] ~= 'resource' and op.dtypes[i] ~= 'variant'
    end
    for _, a in ipairs(e.attrs) do
      if a.required then
        plain = plain and ATTRS[a.kind] ~= nil
        op.given[a.name] = ATTRS[a.kind]
      end
    end
    if plain then list[#list + 1] = op end
  end
  return list
end

local function element(i, d)
  if d == 'string' then return ({ 'a', '', 'bc', '12', ' d', 'e,f' })[i % 6 + 1] end
  if d == 'bool' then return i % 3 ~= 0 end
  local v = (i * 7 % 11 - 4) / 2
  return d:find '^uint' and math.floor(math.abs(v)) or d:find 'int' and math.floor(v) or v
end

local function tensor(d, k)
  if d == 'int32' or d == 'int64' then return NUMBERS[k] and df.tensor(NUMBERS[k], d) end
  local shape, n, list = FLOATS[k], 1, {}
  if not shape then return nil end
  for _, size in ipairs(shape) do n = n * size end
  for i = 1, n do list[i] = element(i, d) end
  return df.tensor(list, d, shape)
end

--- Of another dtype, with the shape of a Tensor: numbers that this dtype has.
function M.like(t, d)
  local list = {}
  for i = 1, t.size do list[i] = element(i, d) end
  return df.tensor(list, d, t.shape)
end

--- The tensors number k, one for each input.
function M.alike(op, k)
  local trial = {}
  for i, d in ipairs(op.dtypes) do trial[i] = tensor(d, k) end
  return trial
end

--- Tensors for the inputs of op: alike ones, and one at a time another. count: so many of them, spread over all; nil: all.
function M.trials(op, count)
  local list, n, seen = {}, #op.dtypes, {}
  local function add(choice)
    local trial, key, all = {}, table.concat(choice, ' '), true
    for i, k in ipairs(choice) do
      trial[i] = tensor(op.dtypes[i], k)
      all = all and trial[i] ~= nil
    end
    if all and not seen[key] and #list < MOST then list[#list + 1], seen[key] = trial, true end
  end
  local function choice_of(base, at, k)
    local out = {}
    for i = 1, n do out[i] = i == at and k or base end
    return out
  end
  for k = 1, #NUMBERS do add(choice_of(k)) end
  for _, base in ipairs(n > 1 and BASES or {}) do
    for i = 1, n do
      for k = 1, #NUMBERS do add(choice_of(base, i, k)) end
    end
  end
  if not count or count >= #list then return list end
  local some, step = {}, #list / count
  for i = 0, count - 1 do some[#some + 1] = list[math.floor(i * step) + 1] end
  return some
end

--- The message without where it was built, and the op's type, which a run tells apart.
local function first_line(why, op)
  local text = type(why) == 'table' and why.message or tostring(why)
  text = text:match '^[^\n]*':gsub('%S*%.lua:%d+:? ?', ''):gsub('@%d+', '')
  return text:sub(1, #op + 2) == op .. ': ' and text:sub(#op + 3) or text
end

--- What comes out where input i is a constant for which is_early(i): text, or nil, the code and the message where it is wrong, and whether that was
-- found while it was built.
function M.outcome(op, trial, is_early)
  df.reset()
  local feeds, args = {}, {}
  for i, t in ipairs(trial) do
    local x = is_early(i) and df.constant(t) or df.placeholder(op.dtypes[i])
    if not is_early(i) then feeds[x] = t end
    args[i] = op.entry.inputs[i].list and { x, x } or x
  end
  local results = { pcall(registry.op, op.type, args, op.given) }
  if not results[1] then return nil, results[2].code or 'no code', first_line(results[2], op.type), true end
  table.remove(results, 1)
  if #results == 1 and type(results[1]) == 'table' and df.type(results[1]) ~= 'output' then results = results[1] end
  if #results == 0 or df.type(results[1]) ~= 'output' then return 'no output' end
  local ok, got = pcall(df.run, results, feeds, { timeout = 20, tensors = true })
  if not ok then return nil, got.code or 'no code', first_line(got, op.type) end
  local shapes = {}
  for i, x in ipairs(got) do shapes[i] = x.dtype .. '[' .. table.concat(x.shape, ',') .. ']' end
  return table.concat(shapes, ' ') .. elements_of(got)
end

--- A trial in words.
function M.told(trial)
  local out = {}
  for i, t in ipairs(trial) do
    local numbers = t.dtype:find 'int' and tostring(t):gsub('\n%s*', ' ') or ''
    out[i] = ('%s[%s]%s'):format(t.dtype, table.concat(t.shape, ','), numbers)
  end
  return table.concat(out, ', ')
end

--- How an op's outcome differs by when its inputs are known: nil, or 'value', 'code' or 'words' and what was seen.
function M.differs(op, trial)
  local text, code, words, built = M.outcome(op, trial, function() return false end)
  local worst, seen
  local rank = { words = 1, code = 2, value = 3 }
  local function compare(name, is_early)
    local t, c, w, early = M.outcome(op, trial, is_early)
    -- of two mistakes the one that is known first is told, and what is not known cannot be told of: words are alike where all is known
    local same = w == words or built or early and name ~= 'constants'
    local how = t ~= text and 'value' or c ~= code and 'code' or not same and 'words'
    if how and (not worst or rank[how] > rank[worst]) then
      worst = how
      seen = ('%s(%s): fed: %s; %s: %s'):format(op.type, M.told(trial), text or code .. ': ' .. words, name, t or c .. ': ' .. w)
    end
  end
  compare('constants', function() return true end)
  for i = 1, #trial > 1 and #trial or 0 do compare('input ' .. i - 1 .. ' a constant', function(k) return k == i end) end
  return worst, seen
end

if arg and arg[1] == 'all' and arg[0] and arg[0]:find 'late%.lua$' then
  local wrong = 0
  for _, op in ipairs(M.ops()) do
    for _, trial in ipairs(M.trials(op)) do
      local how, seen = M.differs(op, trial)
      if how then
        wrong = wrong + 1
        print(how, seen)
      end
    end
  end
  print(wrong .. ' differ')
  os.exit(wrong == 0)
end

return M
