--- What ops make of inputs, as lines of text: for spec/ops/told_spec.lua and spec/ops/values_spec.lua.
--
--   local told = require('spec.told'){ floats = {…}, numbers = {…}, most = 24, element = fn }
--   told:ops(page)                    the ops that have a section of that page: { type =, entry =, dtypes =, given = attributes }
--   told:line(op, choice, changed, to)     inputs number choice[1], choice[2], … of these lists, and an attribute that is another
--
-- With `late` nothing is known of an input when it is built: what is wrong is said by kernels. `bases` are the numbers of inputs around which one at a time
-- is another.
-- `floats` are shapes, -1 for what is not known, false for a rank that is not; `numbers` what int32s and int64s are. With `element`, what the i-th element
-- of an input is, the line has the elements of the results, too, to three digits.
local df = require 'dflow'
local dtypes = require 'dflow.front.dtypes'
local elements_of = require 'spec.elements'
local pages = require 'spec.pages'
local registry = require 'dflow.front.registry'

local Told = {}
Told.__index = Told

--- The dtype that an input has here: float32 where it may, else int32, and so on.
local function dtype_of(e, a)
  if a.dtype then return dtypes.name[a.dtype] end
  local set = a.var and e.types[a.var] or a.set
  for _, name in ipairs{ 'float32', 'int32', 'bool', 'string', 'complex64' } do
    if not set or set[dtypes.number[name]] then return name end
  end
  for _, name in ipairs{ 'resource', 'variant', 'uint8', 'int64', 'float16' } do
    if set[dtypes.number[name]] then return name end
  end
end

local function shown(shape) return shape and '[' .. table.concat(shape, ',') .. ']' or '?' end

local values = { bool = true, string = 'a' }

--- An input: what stands there when it is built, what it is fed, and how it is told.
function Told:input(d, k, data)
  if (d == 'int32' or d == 'int64') and not data then
    local v = self.numbers[k]
    local late = v and self.late
    if v then return late and df.placeholder(d) or df.constant(v, d), late and df.tensor(v, d) or nil,
      (df.tensor(v, d).rank == 0 and '%d' or '%s'):format(type(v) == 'number' and v or shown(df.tensor(v, d):list())) end
  end
  local shape = self.floats[k]
  local p, n, list = df.placeholder(d, not self.late and shape or nil), 1, {}
  local of = {}
  for i, size in ipairs(shape or { 2 }) do of[i] = size < 0 and 2 or size end
  for _, size in ipairs(of) do n = n * size end
  for i = 1, n do list[i] = self.element and self.element(i, d) or values[d] == nil and i or values[d] end
  if d == 'bool' then for i = 2, n, 2 do list[i] = false end end
  return p, df.tensor(list, d, of), shown(shape)
end

local ATTRS = { int = 1, float = 0.5, bool = true, string = 'a', dtype = 'float32', shape = { 2 }, ints = { 1 }, tensor = nil, func = nil }

--- The attributes that must be given; nil: there is one of a kind that is not tried here.
local function attributes(e)
  local given = {}
  for _, a in ipairs(e.attrs) do
    if a.required then
      if ATTRS[a.kind] == nil then return nil end
      given[a.name] = ATTRS[a.kind]
    end
  end
  return given
end

--- The numbers of n inputs that are tried together.
function Told:choices(n)
  local list = {}
  for k = 1, #self.floats do
    local all = {}
    for i = 1, n do all[i] = k end
    list[#list + 1] = all
  end
  for _, base in ipairs(self.bases or { 3 }) do
    for i = 1, n > 1 and n or 0 do
      for k = 1, #self.floats do
        local all = {}
        for j = 1, n do all[j] = j == i and k or base end
        if #list < self.most then list[#list + 1] = all end
      end
    end
  end
  return list
end

local function words(why)
  local text = type(why) == 'table' and why.message or tostring(why)
  return (text:match '^[^\n]*':gsub('%S*%.lua:%d+:? ?', ''):gsub('@%d+', ''):gsub('must be one of .*', 'must be one of …'))
end

local function types_of(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = (df.type(x) == 'output' or df.type(x) == 'tensor') and x.dtype .. shown(x.shape) or df.type(x) or type(x) end
  return table.concat(out, ' ')
end

--- What an op makes of these inputs: built, and run where its inputs say what they are. `as` has other dtypes for its inputs, by their places.
function Told:line(op, choice, changed, to, as)
  df.reset()
  local e = op.entry
  local args, feeds, texts, whole = {}, {}, {}, true
  for i, a in ipairs(e.inputs) do
    local x, v, text = self:input(as and as[i] or op.dtypes[i], choice[i], as and as[i])
    if v then feeds[x] = v end
    whole = whole and (self.floats[choice[i]] and true or false)
    args[i], texts[i] = a.list and { x, x } or x, (as and as[i] and as[i] .. ' ' or '') .. text
  end
  local attrs = {}
  for k, v in pairs(op.given) do attrs[k] = v end
  if changed then
    attrs[changed] = to
    texts[#texts + 1] = ('%s=%s'):format(changed, type(to) == 'table' and shown(to) or tostring(to))
  end
  local results = { pcall(registry.op, e.type, args, attrs) }
  local line = table.concat(texts, ' ') .. ' -> '
  if not results[1] then return line .. words(results[2]) end
  table.remove(results, 1)
  line = line .. types_of(results)
  if self.builds or e.stateful or not whole or #results == 0 or df.type(results[1]) ~= 'output' then return line end
  local ok, got = pcall(df.run, results, feeds, { timeout = 20, tensors = true })
  if not ok then return line .. ' => ' .. words(got) end
  if self.element then return line .. (types_of(got) ~= types_of(results) and ' => ' .. types_of(got) or '') .. elements_of(got) end
  return line .. ' => ' .. types_of(got)
end

--- The ops that are tried here and have, or are to have, a section of that page.
function Told:ops(page)
  local list = {}
  for _, type_name in ipairs(registry.types()) do
    local e = registry.entry(type_name)
    local dts, given, plain = {}, attributes(e), #e.inputs > 0
    for i, a in ipairs(e.inputs) do
      dts[i] = dtype_of(e, a)
      plain = plain and dts[i] ~= nil and dts[i] ~= 'resource' and dts[i] ~= 'variant'
    end
    if given and plain and pages.has(page, type_name) then list[#list + 1] = { type = type_name, entry = e, dtypes = dts, given = given } end
  end
  return list
end

return function(o) return setmetatable(o, Told) end
