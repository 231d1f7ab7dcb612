-- The lessons of `dflow learn`: what they say is what happens, and their exercises are checked.
local df = require 'dflow'
local learn = require 'dflow.learn'
local shell = require 'spec.shell'

local lessons = learn.lessons()

local host_it = require('spec.support').host_it(it, pending)       -- what goes from device to device is a node more

describe('the lessons', function()
  it('are fourteen, each with a question, a reason, a picture and two exercises', function()
    assert.equal(14, #lessons)
    for _, l in ipairs(lessons) do
      for _, key in ipairs{ 'title', 'text', 'code', 'ask', 'why' } do assert.equal('string', type(l[key]), l.title) end
      assert.equal(2, #l.exercises, l.title)
    end
  end)

  for n, l in ipairs(lessons) do
    it(('%d: %s: runs, is answered by what it counts, and takes its own solutions alone'):format(n, l.title), function()
      local env = learn.prepare(l)
      assert.equal('number', type(l.answer(env)))
      local picture = tostring(l.picture(env))
      assert.is_true(#picture > 40)
      for name, x in pairs(env) do                        -- what it calls p is not `Placeholder` in its picture
        local of_graph = type(x) == 'table' and getmetatable(x) == getmetatable(df.int32(0)) and x.op.name
        assert.is_true(not of_graph or name == '_' or not ('\n' .. picture):find('\n +' .. of_graph .. ': '), picture)
      end
      for _, task in ipairs(l.exercises) do
        local fresh = learn.prepare(l)                    -- without the first the second can be solved
        local ok, v = learn.value(task[2], fresh)
        assert.is_true(ok, tostring(v))
        assert.equal(true, task[3](v, fresh), task[1])
        assert.equal('string', type(task[3](-12345, fresh)), task[1])
      end
      if l.done then l.done() end
    end)

    it(('%d: %s: answers on a screen of 80 by 24, the exercise below it'):format(n, l.title), function()
      local values, text, rows = require 'dflow.repl.values', require 'dflow.front.text', 0
      local out, asked = {}, 0
      learn.lesson(n, function() asked = asked + 1 return asked == 1 and '-12345' or 'q' end, function(said) out[#out + 1] = said end)
      local answer = table.concat(out, '\n'):match('(It is [-%d.e+]+%. .*)')
      for line in (answer .. '\n'):gmatch '([^\n]*)\n' do
        for row in (values.wrapped(line, 80) .. '\n'):gmatch '([^\n]*)\n' do rows = rows + math.max(1, math.ceil(text.columns(row) / 80)) end
      end
      assert.is_true(rows <= 24, rows .. ' rows\n' .. answer)
    end)
  end

  it('leave no workers behind', function() assert.equal(1, df.cluster.size) end)
end)

describe('a lesson', function()
  --- What a learner sees after such answers, and whether the lesson came to its end.
  local function taken(number, answers)
    local out, at = {}, 0
    local over = learn.lesson(number, function(prompt)
      at = at + 1
      out[#out + 1] = prompt .. tostring(answers[at])
      return answers[at]
    end, function(text) out[#out + 1] = text end)
    return table.concat(out, '\n'), over
  end

  it('is left by Ctrl-C at a question, as by q', function()
    local typist = require 'spec.typist'
    if not typist.available() then return pending 'there is no terminal' end
    local t = typist.open{ command = require('spec.shell').dflow .. ' learn 4' }
    t:wait('your guess> ')
    t:type(typist.CTRL_C)
    assert.truthy(t:wait('dflow learn 4 goes on here'))
    t:close()
  end)

  it('says whether the guess was right, and why', function()
    local out = taken(9, { '12', 'q' })
    assert.matches('Yes, it is 12. 3x^2 is 12', out, 1, true)
    assert.matches('It is 12. 3x^2 is 12', (taken(9, { 'I do not know', 'q' })), 1, true)
  end)

  it('goes on to the next exercise when one is solved or skipped, and tells what is wrong', function()
    local out, over = taken(4, { '5', 'df.run(nothing', '7', 'df.matmul(1)', '2 ^ 10', 'skip' })
    assert.is_true(over)
    assert.matches('not yet: that is 7', out, 1, true)
    assert.matches('b is missing', out, 1, true)
    assert.matches('right: 1024', out, 1, true)
    assert.matches('one way: df.autograph(function(s, n)', out, 1, true)
  end)

  it('goes on where an answer is nothing that its check could look into', function()
    local out, over = taken(1, { '3', 'df.tensor{1, 2}', 'df.Session()', 'df.zeros', 'skip', 'skip' })
    assert.is_true(over)
    assert.matches('not yet: that is [1', out, 1, true)
  end)

  it('looks at what is there now: of a queue, whatever was taken before', function()
    local out, over = taken(12, { '2', 'skip', 'df.run(get)', 'df.run(get * 10)' })
    assert.is_true(over)
    assert.matches('not yet: that is 2', out, 1, true)
    assert.matches('right: 30', out, 1, true)
  end)

  it('breaks code and pictures at blanks, as wide as the terminal is', function()
    local terminal = require 'spec.terminal'
    if not terminal.available() then return pending('tmux is not there') end
    if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for a person to type at') end
    local t = terminal.open(72, 50, { command = terminal.program() .. ' learn 4', wait = 'your guess>' })
    t:line('5')
    local screen = t:wait('exercise 1>')
    t:close()
    assert.matches('function(i, x)\n      return i + 1, x * 2 end', screen, 1, true)
    assert.matches('Merge(while/Enter,\n', screen, 1, true)
  end)

  host_it('says what else can be typed, shows its code again and the help of a name, and counts none of that as an answer', function()
    local out = taken(1, { 'help', '3', '?', 'code', '?matmul', '?no_such', 'q' })
    assert.matches('Type Lua, as at the prompt', out, 1, true)
    assert.matches('Yes, it is 3', out, 1, true)
    assert.equal(2, select(2, out:gsub("a = df.placeholder%('float32', {}%)", '')))
    assert.matches('df.matmul(a, b', out, 1, true)
    assert.matches("nothing is known of 'no_such'", out, 1, true)
    assert.is_falsy(out:find('not yet', 1, true))
  end)

  it('lets one look around: statements and prints are no answers, and a wrong one is shown', function()
    local print = print
    _G.print = function() end
    local out, over = taken(1, { '3', 'w = b + c', 'print(w.name)', 'w', 'df.run(w, {[a] = 3})', 'df.run({y, z}, {[a] = 3})', 'missing.name', 'df.run(y + z, {[a] = 3})' })
    assert.is_true(over)
    _G.print = print
    assert.equal(1, select(2, out:gsub('not yet', '')))
    assert.matches('not yet: that is 19; df.run takes a list', (out:gsub('19%.0', '19')), 1, true)
    assert.matches('was not fed', out, 1, true)
    assert.matches('answer:1: attempt to index', out, 1, true)
  end)

  it('names what was not set in a wrong answer, in lists and calls, too, and quotes the line', function()
    local out = taken(1, { '3', 'df.run({y, zz}, {[a] = 3})', 'df.run(yy)', 'y + nobody', 'for i = 1, 2 do local j = i end', 'y + df.ones{', 'skip', 'skip' })
    assert.matches("'zz' is nil: nobody set it", out, 1, true)
    assert.matches("'yy' is nil", out, 1, true)                        -- by the error itself, where Lua keeps the line of the call
    assert.matches("the variable 'nobody' is nil\n    1 | y + nobody\n      |     ^^^^^^", out, 1, true)
    assert.is_nil(out:find("'nobody' is nil: ", 1, true))            -- it has been named
    assert.is_nil(out:find("'[ij]' is nil"))
    assert.matches('answer:1: [^\n]*<eof>', out)
  end)

  it('names its lines after itself', function()
    assert.matches('-- lesson:4', (taken(1, { '3', 'q' })), 1, true)
  end)

  it('is left by q', function()
    for _, word in ipairs{ 'quit', 'exit', ':q', 'quit()', 'Q' } do assert.is_false(select(2, taken(1, { '3', word }))) end
    assert.is_false(select(2, taken(1, { 'q' })))
    assert.is_false(select(2, taken(1, { '3', 'q' })))
  end)
end)

describe('dflow learn', function()
  it('lists the lessons, and begins with the one that is asked for', function()
    local out = shell.run(shell.dflow .. ' learn', '12\n2\nq\n').out
    assert.matches('\n   1  Tokens\n', out, 1, true)
    assert.matches('Lesson 12 of 14: Queues', out, 1, true)
    assert.matches('dflow learn 12 goes on here', out, 1, true)
    local last = shell.run(shell.dflow .. ' learn 14', '63\nskip\nskip\n').out
    assert.matches('That was the last one%. %?while_loop, :help and the examples go on from here%.\n*$', last)
    assert.matches('Lesson 3 of 14: Deadness', shell.run(shell.dflow .. ' learn 3', 'q\n').out, 1, true)
  end)
  it('says what there is where a lesson is not', function()
    local r = shell.run(shell.dflow .. ' learn 15; echo status $?', '')
    assert.matches('there is no lesson 15; there are 1 to 14', r.err, 1, true)
    assert.equal('status 1\n', r.out)
    df.reset()
  end)
end)

describe('the lessons as notebooks', function()
  it('are files that Jupyter reads, with the lesson, its question and its exercises', function()
    local dkjson = require 'dkjson'
    for n, l in ipairs(lessons) do
      local book = assert(dkjson.decode(learn.notebook(n)))
      assert.equal(4, book.nbformat)
      assert.equal('dflow', book.metadata.kernelspec.name)
      local code = {}
      for _, cell in ipairs(book.cells) do
        assert.is_true(#table.concat(cell.source) > 0)
        if cell.cell_type == 'code' then code[#code + 1] = table.concat(cell.source) end
      end
      assert.equal(4, #code)
      assert.equal(("lesson = require 'dflow.learn'.open(%d)\n%s"):format(n, l.code), code[1])
    end
  end)

  it('take their own solutions, and no others', function()
    local input = {}
    for n, l in ipairs(lessons) do
      input[#input + 1] = ("lesson = require 'dflow.learn'.open(%d)\n%s\nlesson.guess(-12345)\n"):format(n, l.code)
      for k, task in ipairs(l.exercises) do input[#input + 1] = ('lesson.check(%d, %s)\nlesson.check(%d, -12345)\nlesson.check(%d, nil)\n'):format(k, task[2], k, k) end
    end
    local r = shell.run(shell.dflow .. ' -E -i 2>&1', table.concat(input))
    for text, times in pairs{ ['right: '] = 28, ['not yet: '] = 28, ['write what you would type'] = 28, ['It is '] = 14 } do
      assert.equal(times, select(2, r.out:gsub(text, '')), text .. '\n' .. r.out)
    end
  end)

  it('are written by dflow learn --notebooks, or it is said why not', function()
    local folder = os.tmpname() .. '.d'
    local r = shell.run(('mkdir %s && %s learn --notebooks %s && ls %s | wc -l; rm -r %s'):format(folder, shell.dflow, folder, folder, folder))
    assert.matches('14 notebooks were written; the first is .*/lesson%-01%-tokens.ipynb\n14\n', r.out)
    r = shell.run(shell.dflow .. ' learn --notebooks /nowhere/at/all; echo status $?')
    assert.matches('cannot write /nowhere/at/all/lesson-01-tokens.ipynb', r.err, 1, true)
    assert.equal('status 1\n', r.out)
  end)
end)
