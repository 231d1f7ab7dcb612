-- What one can ask at the prompt: ?name, ??name, :cmd?, and what Tab offers for each.
local shell = require 'spec.shell'
local df = require 'dflow'
local help = require 'dflow.docs.help'
local editor = require 'dflow.repl.editor'
local values = require 'dflow.repl.values'
local session = require 'dflow.repl.session'
local complete = require 'dflow.repl.complete'
local commands = require 'dflow.repl.commands'
local inspector = require 'dflow.repl.inspector'
require 'dflow.repl.builtin'

require('spec.support').as_program(setup, teardown)

--- What the prompt answers to each line.
local function answers(...)
  local lines = { ... }
  local r = shell.run(shell.dflow .. ' -E -i', table.concat(lines, '\n') .. '\n')
  local list = {}
  for answer in (r.out:gsub('^[^\n]*\n', '', 1) .. 'dflow> '):gmatch('(.-)dflow> ') do list[#list + 1] = answer end
  table.remove(list, 1)
  return list, r.err
end

describe('asking at the prompt', function()
  it('tells what a value is: its node, type, line and where it was built', function()
    local a = answers('x = df.float32{1, 2}', 'local y = x * 2', '?y', '?x', '?1', '?Mul:0', '?7', 't = df.tensor{1.5}', '?t', 'function f(a, ...) end', '?f', 'size = 3', '?size')
    assert.are.equal('y: an Output\nMul is node 2 of the graph: Mul, df.multiply\n  inputs    Const:0: float32[2]  x\n            Const_1:0: float32[]  y\n'
      .. '  outputs   Mul:0: float32[2]\n  built at  In[2]:1\n            local y = x * 2\n  ?Output lists its fields and methods\n', a[3])
    assert.is_truthy(a[4]:find('used by   Mul', 1, true), a[4])
    assert.is_truthy(a[5]:find('^Const_1 is node 1 of the graph: Const'), a[5])
    assert.is_truthy(a[6]:find('^Mul is node 2 of the graph'), a[6])
    assert.are.equal('the graph has nodes 0 to 2\n', a[7])
    assert.is_truthy(a[9]:find('a Tensor; ?Tensor lists', 1, true), a[9])
    assert.is_truthy(a[11]:find('^f%(a, %.%.%.%)  function  %-%- In%[%d+%]:%d+'), a[11])
    assert.is_truthy(a[13]:find('^size: 3\ndf%.size%(input'), a[13])
  end)

  it('tells of methods, of the type that a value has', function()
    local a = answers('h = df.start(df.float32(2) * 3, nil, {paused = true})', '?h', '?h:step', '?Run:step', '??h:step', '?Run:why*', 'h:cancel()')
    assert.is_truthy(a[2]:find('a Run; ?Run lists', 1, true), a[2])
    assert.is_truthy(a[3]:find("^h:step%(n = 1, unit = 'token'%)"), a[3])
    assert.are.equal(a[3], a[4])
    assert.is_truthy(a[5]:find('^Run:step: [^\n]*inspect%.lua:%d+\n  function methods%.step'), a[5])
    assert.is_truthy(a[6]:find('^Run:why .*\nRun:whynot '), a[6])
  end)

  it('tells of what the prompt itself gives, and of names that Lua has too', function()
    local a = answers('?Out', '?df', '?repl.command', '?h:wait', '?print', '?0')
    assert.is_truthy(a[1]:find('Out[n] is the value of input n', 1, true), a[1])
    assert.is_truthy(a[2]:find('the module', 1, true), a[2])
    assert.is_truthy(a[3]:find('adds a command', 1, true), a[3])
    assert.is_truthy(a[4]:find('^h:wait%(%)'), a[4])
    assert.is_truthy(a[5]:find('^df%.print%(') and a[5]:find("print(...) is Lua's own", 1, true), a[5])
    assert.are.equal('the graph has no nodes\n', a[6])
  end)

  it('tells of commands, by ?:name and by ?name where nothing else has it', function()
    local a = answers('?:break', ':break?', '?unbreak', '?timeit')
    assert.is_truthy(a[1]:find('^:break %[WHERE%]\n'), a[1])
    assert.is_truthy(a[2]:find('^:break %[WHERE%]\n'), a[2])
    assert.is_truthy(a[3]:find('h:unbreak', 1, true), a[3])
    assert.is_truthy(a[4]:find '^timeit is a command of the prompt', a[4])
  end)

  it('has for every command a usage and a sentence', function()
    for _, name in ipairs(commands.names()) do
      local usage, about = commands.about(name)
      assert.are.equal(name, usage:match('^%a+'))
      assert.is_true(select(2, about:gsub('%a+', '')) > 3, name)
    end
  end)

  it('says with ?? where an op is defined: entry, gradient, kernels, and the Lua function', function()
    local a = answers('??matmul', '??abs', '??QueueEnqueueV2', '??nn.dense', '??Tensor:at', '??mul')
    assert.is_truthy(a[1]:find('runtime/ops/linalg%.c:%d+\n  shapes     [^\n]*\n  gradient   [^\n]*ops/linalg%.c:%d+\n  reference  [^\n]*kernels/ref/linalg%.c:%d+\n'
      .. '  cpu        [^\n]*kernels/cpu/matmul%.c:%d+\ndf%.matmul: [^\n]*ops[%w_]*%.lua:%d+\n'), a[1])
    for _, line in ipairs{ a[1], a[2] } do      -- what is named there is there
      local file, at = line:match('reference  (%S+):(%d+)')
      local n = 0
      for text in io.lines(file) do
        n = n + 1
        if n == tonumber(at) then assert.is_truthy(text:find('matmul') or text:find('abs'), text) end
      end
    end
    assert.is_truthy(a[3]:find('ops/queue%.c:%d+'), a[3])
    assert.is_truthy(a[4]:find('^df%.nn%.dense: [^\n]*nn[%w_/]*%.lua:%d+\n  function M%.dense'), a[4])
    assert.is_truthy(a[5]:find('^Tensor:at: [^\n]*tensor%.lua:%d+'), a[5])
    assert.is_truthy(a[6]:find('the op Mul, [^\n]*ops/math%.c:%d+'), a[6])
  end)

  it('knows where each op of the registry has its entry', function()
    local r = shell.run(shell.dflow .. [[ -e 'local sources, registry = require "dflow.docs.sources", require "dflow.front.registry"
      for _, name in ipairs(registry.types()) do
        local place, tree = sources.of(name, require "dflow.program".folder)
        if not place then print("no entry", name)
        else
          local file, at = place.entry:match("^(.*):(%d+)$")
          local n, found = 0, false
          for line in io.lines(tree .. file) do
            n = n + 1
            if n == tonumber(at) then found = line:find("\"") ~= nil end
          end
          if not found then print("not there", name, place.entry) end
        end
        local e = registry.entry(name)
        if place and e.lua and e.gradient and not place.gradient then print("no gradient", name) end
      end']])
    assert.are.equal('', r.out .. r.err)
  end)

  it('suggests what was meant', function()
    local a, err = answers('?reduce_summ', '?whille_loop', '?while', '?Run:wiat', ':stepp')
    assert.is_truthy(a[1]:find('reduce_sum', 1, true), a[1])
    assert.is_truthy(a[2]:find('while_loop', 1, true), a[2])
    assert.is_truthy(a[3]:find('while_loop', 1, true), a[3])
    assert.is_truthy(a[4]:find('Run:wait', 1, true), a[4])
    assert.is_truthy((a[5] .. err):find("'step'", 1, true), err)
  end)
end)

describe('completion', function()
  local function at(source)
    local e = editor.new{ values = values }
    e.replace(0, 0, source)
    local from, list = complete.at(e.buffer, 0, #source, { locals = session.locals, folder = function() return { 'a.lua' } end })
    local names = { from = from }
    for i, c in ipairs(list) do
      names[i] = c.text
      names[c.text] = type(c.about) == 'function' and c.about() or c.about
    end
    return names
  end

  local h
  before_each(function()
    local _, y = df.while_loop(function(i) return i:lt(5) end, function(i, y) return i + 1, y * 2 end, { df.int32(0), df.float32(1) })
    h = df.start(y, nil, { paused = true })
    inspector.current = h
    h:step()
    h:step(2, 'iteration')
    rawset(_G, 'handle', h)
    rawset(_G, 'result', y)
  end)
  after_each(function()
    h:cancel()
    inspector.current = nil
    rawset(_G, 'handle', nil)
    rawset(_G, 'result', nil)
  end)

  it('begins where the word begins', function()
    for _, word in ipairs{ '|prin', 'x = |prin', '  string.|fo', 'f(x):|mat', 'df.matmul(a, b, {|tr', 'x = df.cast(x, "|fl', 'df.load_npy("|a', ':|hel', '  :|hel',
                           ':help |redu', ':load |a', ':time x > |a', ':why |whi', '?|redu', '??|redu', ':time df.|redu', ':time x + |prin' } do
      local before, part = word:match '^(.*)|(.*)$'
      local names = at(before .. part)
      assert.equal(#before, names.from, word)
      assert.is_true(#names > 0, word)
    end
  end)

  it('has every option of every function and method that takes any, with a line of help', function()
    local n = 0
    for _, name in ipairs(help.names()) do
      local owner, method = name:match('^(%w+):(.*)$')
      local letter = owner and require('dflow.docs').types[owner].letter
      local names
      for _, o in ipairs(help.options(name)) do
        names = names or at(owner and ('%s:%s({'):format(letter, method) or ('df.%s({'):format(name))
        assert.is_truthy(names[o.name .. ' = '], ('%s: %s'):format(name, o.name))
        assert.is_truthy(names[o.name .. ' = ']:find(o.type, 1, true), ('%s: %s: %s'):format(name, o.name, names[o.name .. ' = ']))
        n = n + 1
      end
    end
    assert.is_true(n > 400, n)
  end)

  it('has the methods of a run, with what they do, and nothing of what it keeps to itself', function()
    local names = at('handle:')
    for _, method in ipairs{ 'wait', 'step', 'break_at', 'frames', 'whynot', 'value' } do
      assert.is_truthy((names[method] or ''):find('h:' .. method, 1, true), method)
    end
    assert.is_nil(names.finish)
    assert.is_nil(at('handle.ha').handle)
    assert.is_truthy(at('handle.se').session)
    assert.is_truthy(at('h:whyn').whynot)
  end)

  it('goes on behind ? with methods, values and nodes', function()
    assert.is_truthy(at('?Run:st')['Run:step'])
    assert.is_truthy(at('?handle:st')['handle:step'])
    assert.is_truthy(at('?resu').result)
    assert.is_truthy(at('?while/Exi')['while/Exit'])
    assert.is_truthy(at('?train.S')['train.SGD'])
  end)

  it('knows what stands behind each command', function()
    local names = at(':break op=M')
    assert.is_truthy(names['op=Mul'] and names['op=Merge'], table.concat(names, ' '))
    assert.is_truthy(at(':break ')['op='] and at(':break ').nan and at(':break ')['while:2'])
    assert.is_truthy(at(':break frame=wh')['frame=while:2'])
    assert.is_truthy(at(':break Mul wh')['while:2'])
    assert.is_truthy(at(':why while/Les')['while/Less'])
    assert.is_truthy(at(':why while/Less@wh')['while/Less@while:2'])
    assert.is_truthy(at(':why resu').result)
    assert.is_truthy(at(':tokens while/M')['while/Merge'])
    assert.is_truthy(at(':step 2 it').iteration)
    assert.is_truthy(at(':record o').on)
    assert.is_truthy(at(':graph result as d').dot)
    assert.is_truthy(at(':graph resu').result)
    assert.is_truthy(at(':graph result as let at lo').lowered)
    assert.is_truthy(at(':timeit df.redu').reduce_sum)
    assert.is_truthy(at(':time df.matmul(x, y, {tr')['transpose_a = '])
    assert.is_truthy(at(':load a')['a.lua'])
    assert.is_truthy(at(':set th').theme)
    assert.is_truthy(at(':wh').why:find('^:why'))
  end)

  it('changes nothing: the run stands where it stood', function()
    local before = tostring(h:settle(0))
    local nodes = df.default_graph():size()
    at(':break op=')
    at(':why ')
    at('handle:')
    at('?')
    assert.are.equal(before, tostring(h:settle(0)))
    assert.are.equal(nodes, df.default_graph():size())
  end)
end)
