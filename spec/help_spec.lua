-- What `?name` says is there, and true as far as a machine can tell.
local df = require 'dflow'
local help = require 'dflow.help'
local registry = require 'dflow.registry'

local builtins = { cond = df.cond, while_loop = df.while_loop, TensorArray = df.TensorArray, gradients = df.gradients, df = df }

--- Runs an example. True when it ran, nil when it speaks of an x that only its reader has.
local function try(example)
  local free = false
  local env = setmetatable({}, { __index = function(_, name)
    if builtins[name] then return builtins[name] end
    free = true
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
  local ok, result = pcall(chunk)
  if free then return nil end
  return ok, result
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

  it('gives no example that fails', function()
    local ran = 0
    for _, name in ipairs(registry.names()) do
      local example = registry.entry(name).example
      if example and example ~= '' then
        local ok, why = try(example)
        assert.is_not_false(ok, ('%s: %s: %s'):format(name, example, tostring(why)))
        ran = ran + (ok and 1 or 0)
      end
    end
    assert.is_true(ran > 100)
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
