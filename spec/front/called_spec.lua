--- Every public function with arguments that it may or may not take (spec/called.lua): what it refuses it refuses with an error of its own
-- that says what was called or what was expected; what it takes is, when it is run, what it was said to be.
-- run: first
local df = require 'dflow'
local called = require 'spec.called'
local support = require 'spec.support'
local it = support.host_it(it, pending)
local unpack = table.unpack or unpack

local STEP = support.sample(3, 1)                  -- of the calls, every third is made in `make test`, others of each function

local CODES = { invalid_argument = true, out_of_range = true, failed_precondition = true, unimplemented = true, not_found = true,
                data_loss = true }

-- These take nothing, and pass over what they are given as Lua does.
local TAKE_NOTHING = { Graph = true, clock = true, default_graph = true, default_session = true, each = true, global_variables = true, init = true,
                       stats = true, trainable_variables = true, type = true }

--- What is wrong with a refusal, in words.
local function ill_told(name, why)
  if type(why) ~= 'table' or not why.code then return 'Lua: ' .. tostring(why) end
  local message, short = why.message, name:match '[%w_]+$'
  if not CODES[why.code] then return why.code .. ': ' .. message end
  if not tostring(why):find('%.lua:%d+') then return 'it has no line: ' .. tostring(why) end
  if message:find '%(null%)' or message:find '0x%x' or message:find '%%[dz]' or message:find 'table: 0x' or message:find 'attempt to' then
    return 'it has what no reader wants: ' .. message
  end
  local tells = message:find(short, 1, true) or why.op
  for _, words in ipairs{ '^[%w_.]+: ', '%f[%w]not ', 'expected', 'cannot', 'is no ', 'at most', 'takes ', 'dtype', 'scalar', '["\']' } do tells = tells or message:find(words) end
  if not tells then return 'it tells neither what was called nor what was expected: ' .. message end
end

local function shown(dtype, shape) return dtype .. (shape and '[' .. table.concat(shape, ',') .. ']' or '?') end

--- What is wrong with an Output, run.
local function ill_known(y, feeds)
  local ok, t = pcall(df.run, y, feeds, { timeout = 20, tensors = true })
  if not ok then return (type(t) ~= 'table' or not t.code or t.code == 'internal') and tostring(t) or nil end
  local same = y.dtype == t.dtype and (not y.shape or #y.shape == #t.shape)
  for i, d in ipairs(same and y.shape or {}) do same = same and (d < 0 or d == t.shape[i]) end
  return not same and ('it is %s, run it is %s'):format(shown(y.dtype, y.shape), shown(t.dtype, t.shape)) or nil
end

--- What is wrong with what came of a call; a layer is called once more, with a matrix.
local function wrong(name, feeds, ok, ...)
  if not ok then return ill_told(name, (...)) end
  for i = 1, math.min(select('#', ...), 3) do
    local v = select(i, ...)
    local kind = df.type(v)
    local bad
    if kind == 'output' then bad = ill_known(v, feeds)
    elseif kind == 'layer' then bad = wrong('layer', feeds, pcall(v, df.float32{ { 1, 2 }, { 3, 4 } } + 1)) end
    if bad then return bad end
  end
end

describe('a public function', function()
  for k, one in ipairs(called.functions()) do
    local name, fn = one[1], one[2]
    it('answers whatever it is given: ' .. name, function()
      local calls, p = called.calls()
      for i = 1 + k % STEP, #calls, STEP do
        local bad = wrong(name, { [p] = { { 1, 2 }, { 3, 4 } } }, pcall(fn, unpack(calls[i])))
        assert.is_nil(bad and ('call %d: %s'):format(i, bad))
      end
    end)
  end

  it('refuses an option that it does not know', function()
    local taken = {}
    for _, one in ipairs(called.functions()) do
      if not TAKE_NOTHING[one[1]] and pcall(one[2], df.float32{ 1, 2, 3 } * 2, { bogus = 1 }) then taken[#taken + 1] = one[1] end
    end
    assert.same({}, taken)
  end)

  it('is asked in most cases', function() assert.is_true(#called.functions() > 400) end)
end)
