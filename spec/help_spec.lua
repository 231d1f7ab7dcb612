-- What `?name` says is there, and true as far as a machine can tell.
local df = require 'dflow'
local help = require 'dflow.help'
local registry = require 'dflow.registry'

local builtins = { cond = df.cond, while_loop = df.while_loop, TensorArray = df.TensorArray, gradients = df.gradients, df = df }

--- Runs an example with the names that the program has. True when it ran.
local function try(example)
  local env = setmetatable({}, { __index = function(_, name)
    if builtins[name] then return builtins[name] end
    if rawget(_G, name) == nil then error('the example speaks of ' .. name, 0) end
    return rawget(_G, name)
  end, __newindex = rawset })
  local text = example:gsub('%s*%-%->.*', '')
  local chunk, why
  for _, source in ipairs{ 'return ' .. text, text } do
    if setfenv then
      chunk, why = loadstring(source)
      if chunk then setfenv(chunk, env) end
    else
      chunk, why = load(source, 'example', 't', env)
    end
    if chunk then break end
  end
  assert(chunk, why)
  return pcall(chunk)
end

describe('help', function()
  before_each(df.reset)

  it('knows every op that has a function, with a word on what it does', function()
    for _, name in ipairs(registry.names()) do
      local text = help.help(name)
      assert.is_truthy(text and text:find(name, 1, true), name)
      assert.is_truthy(registry.entry(name).doc and #registry.entry(name).doc > 10, name)
    end
  end)

  it('has an example of every name, and each runs as it stands', function()
    for _, name in ipairs(help.names()) do
      local example = help.example(name)
      assert.is_truthy(example, name)
      df.reset()
      local ok, why = try(example)
      -- The registry's may be too short to run: stdlib/dflow/docs.lua has room for one with all it needs.
      assert.is_true(ok, ('%s: %s: %s'):format(name, example, tostring(why)))
    end
  end)

  it('shows signature, options with their defaults, gradient, example and what to see', function()
    local text = help.help('reduce_sum')
    for _, part in ipairs{ 'keep_dims = false', 'keep_dims: bool = false', 'gradient  yes', 'example   df.reduce_sum', 'see also  reduce_mean' } do
      assert.is_truthy(text:find(part, 1, true), part .. '\n' .. text)
    end
  end)

  it('finds names by pattern', function()
    assert.are.same({ 'reduce_max', 'reduce_mean', 'reduce_min' }, help.matching('reduce_m*'))
    assert.are.same({ 'reduce_mean' }, help.matching('reduce_mea?'))
    assert.are.equal(0, #help.matching('nothing_*'))
  end)

  it('speaks of nothing that is not there', function()
    for _, name in ipairs(help.names()) do
      assert.is_truthy(df[name], name)
      assert.is_truthy(help.help(name), name)
    end
  end)

  it('says when it knows nothing, and what was meant', function()
    local text, why = help.help('matmull')
    assert.is_nil(text)
    assert.is_truthy(why:find('matmul', 1, true), why)
  end)

  it('knows types, dtypes and df.names', function()
    assert.is_truthy(help.help('MatMul'):find('transpose_a', 1, true))
    assert.is_truthy(help.help('float32'):find('constant', 1, true))
    assert.is_truthy(help.help('df.while_loop'):find('parallel_iterations', 1, true))
  end)
end)
