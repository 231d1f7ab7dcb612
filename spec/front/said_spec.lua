-- What each public function says and gives: for the calls of spec/called.lua the error in words, or what came with its first elements, when it is run.
-- spec/pages/said.txt has them (spec/pages.lua), the numbers of the calls before each: no message and no value changes unseen. Lua 5.4 alone, where a
-- bare 1 is an integer: called_spec.lua has what is taken under LuaJIT.
local df = require 'dflow'
local called = require 'spec.called'
local elements_of = require 'spec.elements'
local pages, host_it = require 'spec.pages', require('spec.support').host_it(it, pending)    -- a GPU has the other sign of a vector
local unpack = table.unpack or unpack

--- What counts bytes of the moment; and gives vectors that belong to 0, which LAPACK chooses by its processor.
local spared = { stats = true, svd = true }

local function words(why)
  local text = tostring(why)
  if type(why) == 'table' then text = why.code == 'invalid_argument' and '! ' .. why.message or why.code .. ': ' .. why.message end
  text = text:match '^[^\n]*':gsub('%S*%.lua:%d+:? ?', ''):gsub('@%d+', ''):gsub('0x%x+', '0x')
  return (text:gsub('must be one of .*', 'must be one of …'):gsub('expected one of: .*', 'expected one of: …'))
end

local function shown(v) return v.dtype .. (v.shape and '[' .. table.concat(v.shape, ',') .. ']' or '?') end

--- What an Output or an Operation gives when it is run.
local function run(v, feeds)
  local ok, t = pcall(df.run, v, feeds, { timeout = 20, tensors = true })
  if not ok then return ' => ' .. words(t) end
  return df.type(t) == 'tensor' and (shown(t) ~= shown(v) and ' => ' .. shown(t) or '') .. elements_of{ t } or ''
end

local text_of

--- A few of the elements of a table, in order, and its names.
local function table_text(t, feeds, depth)
  local list, names = {}, {}
  for i = 1, math.min(#t, 3) do list[i] = text_of(t[i], feeds, depth + 1) end
  for k in pairs(t) do if type(k) == 'string' then names[#names + 1] = k end end
  table.sort(names)
  for i = 1, math.min(#names, 12) do list[#list + 1] = names[i] .. ' = ' .. text_of(t[names[i]], feeds, depth + 1) end
  return '{' .. table.concat(list, '; ') .. '}'
end

function text_of(v, feeds, depth)
  local kind = df.type(v) or type(v)
  if kind == 'output' then return shown(v) .. run(v, feeds) end
  if kind == 'operation' then return kind .. run(v, feeds) end
  if kind == 'tensor' then return shown(v) .. elements_of{ v } end
  if kind == 'variable' then return 'variable ' .. text_of(v:value(), feeds, depth) end
  if kind == 'number' or kind == 'string' or kind == 'boolean' then return tostring(v):sub(1, 200):gsub('%c', '.') end
  if kind == 'table' and not getmetatable(v) and depth < 3 then return table_text(v, feeds, depth) end
  return kind
end

--- What came of a call; a layer is called once more, with a matrix.
local function told(feeds, n, ok, ...)
  if not ok then return words((...)) end
  local list = {}
  for i = 1, math.min(n - 1, 3) do
    local v = select(i, ...)
    list[i] = text_of(v, feeds, 0)
    if df.type(v) == 'layer' then
      local fine, y = pcall(v, df.float32{ { 1, 2 }, { 3, 4 } } + 1)
      list[i] = 'layer > ' .. (fine and text_of(y, feeds, 0) or words(y))
    end
  end
  return table.concat(list, ' and ')
end
local function told_of(feeds, ...) return told(feeds, select('#', ...), ...) end

--- "1-3 7" for the numbers of calls.
local function numbers(list)
  local out, i = {}, 1
  while i <= #list do
    local first = i
    while list[i + 1] == list[i] + 1 do i = i + 1 end
    out[#out + 1] = i > first and list[first] .. '-' .. list[i] or tostring(list[i])
    i = i + 1
  end
  return table.concat(out, ' ')
end

describe('a public function', function()
  if rawget(_G, 'jit') then pending('says what it said: of Lua 5.4 alone') return end
  for _, one in ipairs(called.functions()) do
    local name, fn = one[1], one[2]
    if pages.has('said.txt', name) and not spared[name] then
      (name == 'self_adjoint_eig' and host_it or it)('says and gives what it did: ' .. name, function()
        df.reset()
        local order, of, lines = {}, {}, {}
        local calls, p = called.calls()
        for i, arguments in ipairs(calls) do
          local text = told_of({ [p] = { { 1, 2 }, { 3, 4 } } }, pcall(fn, unpack(arguments)))
          if not of[text] then of[text], order[#order + 1] = {}, text end
          table.insert(of[text], i)
        end
        for i, text in ipairs(order) do lines[i] = numbers(of[text]) .. ': ' .. text end
        pages.section('said.txt', name, table.concat(lines, '\n'))
      end)
    end
  end

  it('is asked in most cases', function() assert.is_true(#called.functions() > 400) end)
end)
