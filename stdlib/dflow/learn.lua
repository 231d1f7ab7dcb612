--- `dflow learn`: fourteen short lessons in which one predicts, runs, and is told why; two exercises each, which are
-- checked.
--
-- Lines are read by `ask(prompt)` and written by `say(text)`, so that the same lessons run at a terminal, in a pipe and
-- in a spec.
local errors = require 'dflow.front.errors'
local quote = require 'dflow.front.quote'
local df = require 'dflow'

local M = {}
local TRIES = 3

--- The lessons' data.
function M.lessons() return require 'dflow.learn.lessons' end

-- What was typed, by what its lines are called in messages: errors quote it.
local texts = {}
quote.read_line = quote.read_line or function(file, line)
  local at = 0
  for row in ((texts[file] or '') .. '\n'):gmatch '([^\n]*)\n' do
    at = at + 1
    if texts[file] and at == line then return row end
  end
end

-- Where a variable waits to be closed a call is no tail call, so what an expression calls knows the line that it was
-- typed at.
local STAY = load 'local __here <close> = nil' and 'local __here <close> = nil ' or ''

--- A chunk that sees the names of a lesson and those of the program, and sets names of its own; and whether it is an
-- expression.
-- @param what  what lines of it are called in messages and pictures: 'lesson', 'answer'
local function compile(text, env, what)
  local make = rawget(_G, 'loadstring') or load
  texts[what] = text
  local unfinished
  for _, source in ipairs{ STAY .. 'return ' .. text, text } do
    local chunk, why = make(source, '=' .. what, 't', env)
    if chunk and rawget(_G, 'setfenv') then _G.setfenv(chunk, env) end
    if chunk then return chunk, source ~= text end
    -- of `y +`: more is missing, not that y begins no statement
    unfinished = unfinished or (why and why:find "<eof>'?$" and why)
    if source == text then return nil, unfinished or why end
  end
end

--- The names of a lesson whose code has run in a graph of its own.
function M.prepare(lesson)
  df.reset()
  local env = setmetatable({ df = df, cond = df.cond, while_loop = df.while_loop, TensorArray = df.TensorArray,
                             gradients = df.gradients }, { __index = _G })
  local chunk, why = compile(lesson.code, env, 'lesson')
  if not chunk then error(why, 0) end
  chunk()
  return env
end

--- What a typed expression gives: an Output as its value. true, the value and whether it was an expression, or false
-- and what is wrong.
function M.value(text, env)
  local chunk, why = compile(text, env, 'answer')
  if not chunk then return false, errors.explain(why) end
  local ok, v = pcall(function()
    local v = chunk()
    if df.type(v) == 'output' or df.type(v) == 'variable' then v = df.run(v) end
    if df.type(v) == 'tensor' and v.size == 1 then v = v:item() end
    return v
  end)
  if not ok and type(v) == 'string' then v = errors.explain(v) end
  return ok, v, why
end

--- A value as the prompt would show it.
local function shown(v)
  if type(v) ~= 'table' or df.type(v) then return tostring(v) end
  return (require('dflow.repl.values').text(v))
end

local LEAVING = { q = true, quit = true, exit = true, bye = true, [':q'] = true, [':quit'] = true }
local function leaves(line)
  local word = line and line:match '^%s*(%S+)%s*$'
  return line == nil or word ~= nil and LEAVING[word:lower():gsub('%(%)$', '')] == true
end

--- What can be typed besides an answer: true where it was something of the kind.
local function aside(line, lesson, say)
  local word = line:match '^%s*(.-)%s*$'
  if word == 'help' or word == '?' then
    say('Type Lua, as at the prompt: names of the lesson are there, and you may make others. What you type is '
        .. 'checked; a statement or a print is not. code shows the lesson again, ?name shows the help of an op '
        .. '(?matmul), skip shows one way and goes on, q leaves.')
  elseif word == 'code' then
    say('    ' .. lesson.code:gsub('\n', '\n    '))
  elseif word:find '^%?%??[%a_][%w_.:]*$' then
    local text, why = require('dflow.docs.help').help((word:gsub('^%?+', '')))
    say(text or why)
  else
    return false
  end
  return true
end

--- What an exercise's check says of a value: true, or what is wrong where it knows. A check asks for the parts of what
-- may have none.
local function judged(task, v, env)
  local ok, right = pcall(task[3], v, env)
  return ok and right
end

--- What is said of a value that is not the right one.
local function not_yet(v, right)
  local text = shown(v):gsub('\n.*', ' …')
  if type(right) ~= 'string' then return 'not yet: that is ' .. text end
  return 'not yet: ' .. (right:find '^that is' and right or ('that is %s; %s'):format(text, right))
end

--- What is said of names in a wrong answer that were not set: Lua takes them for nil, and drops them at the end of a
-- list.
local function unknown(line, env, said)
  local list = {}
  for _, name in ipairs(quote.names_read(line)) do
    if env[name] == nil and not said:find("'" .. name .. "'", 1, true) then list[#list + 1] = "'" .. name .. "'" end
  end
  if #list == 0 then return nil end
  return ('%s %s nil: nobody set %s')
    :format(table.concat(list, ', '), #list > 1 and 'are' or 'is', #list > 1 and 'them' or 'it')
end

--- One exercise: true when it is over, false when the learner leaves.
local function exercise(n, task, env, lesson, ask, say)
  say('')
  say(('Exercise %d. %s'):format(n, task[1]))
  for try = 1, math.huge do
    local line = ask(('exercise %d> '):format(n))
    if leaves(line) then return false end
    if line:find('^%s*skip%s*$') then
      say('one way: ' .. task[2])
      return true
    elseif line:find('%S') and not aside(line, lesson, say) then
      local ok, v, is_expression = M.value(line, env)
      local right = ok and judged(task, v, env)
      if right == true then
        say('right: ' .. shown(v))
        return true
      end
      local said = ''
      if not ok then
        said = tostring(v)
      elseif v ~= nil or (is_expression and not line:find '^%s*print%s*[%(\'"%[]') then
        said = not_yet(v, right)
      end
      if said ~= '' then say(said) end
      local nobody = is_expression == true and unknown(line, env, said)
      if nobody then say(nobody) end
      if try >= TRIES then say('(skip shows one way to do it, help what else there is)') end
    end
  end
end

local function from_text_to_exercises(lesson, number, ask, say)
  say(('Lesson %d of %d: %s'):format(number, #M.lessons(), lesson.title))
  say('')
  say((lesson.text:gsub('\n', ' ')))
  say('')
  say('    ' .. lesson.code:gsub('\n', '\n    '))
  say('')
  local env = M.prepare(lesson)
  say(lesson.ask)
  local guess
  repeat
    guess = ask('your guess> ')
    if leaves(guess) then return false end
  until not aside(guess, lesson, say)
  local answer = lesson.answer(env)
  local right = tonumber(guess) ~= nil and math.abs(tonumber(guess) - answer) < 1e-4
  say(('%s %s. %s'):format(right and 'Yes, it is' or 'It is', ('%.6g'):format(answer), lesson.why))
  say('')
  say((tostring(lesson.picture(env)):gsub('\n+$', '')))
  for n, task in ipairs(lesson.exercises) do
    if not exercise(n, task, env, lesson, ask, say) then return false end
  end
  return true
end

--- One lesson, from its text to its exercises: true when it is over, false when the learner leaves.
function M.lesson(number, ask, say)
  local lesson = M.lessons()[number]
  if not lesson then
    errors.raise('not_found', 'there is no lesson %s; there are 1 to %d', tostring(number), #M.lessons())
  end
  local ok, over = pcall(from_text_to_exercises, lesson, number, ask, say)
  if lesson.done then lesson.done() end
  if not ok then error(over, 0) end
  return over
end

-- ---- as notebooks ---------------------------------------------------------------------------------------------------
--- A lesson as a notebook has it: `guess(x)` tells the answer, and why; `check(n, v)` whether v does exercise n;
-- `show(n)` one way to do it.
function M.open(number)
  local lesson = M.lessons()[number]
  if not lesson then
    errors.raise('not_found', 'there is no lesson %s; there are 1 to %d', tostring(number), #M.lessons())
  end
  df.reset()
  local function task(n)
    return lesson.exercises[n] or errors.raise('not_found', 'there is no exercise %s; there are 1 and 2', tostring(n))
  end
  local open = {}
  function open.guess(x)
    local answer = lesson.answer(_G)
    local right = type(x) == 'number' and math.abs(x - answer) < 1e-4
    print(('%s %.6g. %s\n'):format(right and 'Yes, it is' or 'It is', answer, lesson.why))
    print((tostring(lesson.picture(_G)):gsub('\n+$', '')))
  end
  function open.check(n, v)
    local t = task(n)
    if v == nil then
      return print('write what you would type behind the comma: lesson.check(' .. n .. ', …); lesson.show(' .. n
                   .. ') shows one way')
    end
    if df.type(v) == 'output' or df.type(v) == 'variable' then v = df.run(v) end
    if df.type(v) == 'tensor' and v.size == 1 then v = v:item() end
    local right = judged(t, v, _G)
    print(right == true and 'right: ' .. shown(v) or not_yet(v, right))
  end
  function open.show(n) print('one way: ' .. task(n)[2]) end
  return open
end

--- The lesson as the text of a notebook.
function M.notebook(number)
  local json, lesson = require 'dflow.exchange.json', M.lessons()[number]
  local cells = json.list{}
  local function lines(text)
    local list = json.list{}
    for line in text:gmatch('[^\n]*\n?') do if line ~= '' then list[#list + 1] = line end end
    return list
  end
  local function markdown(text)
    cells[#cells + 1] = { cell_type = 'markdown', id = 'cell-' .. #cells + 1, metadata = {}, source = lines(text) }
  end
  local function code(text)
    cells[#cells + 1] = { cell_type = 'code', id = 'cell-' .. #cells + 1, execution_count = json.null, metadata = {},
                          outputs = json.list{}, source = lines(text) }
  end
  local function plain(text) return (text:gsub('[*_\\`$<>#|]', '\\%0')) end
  markdown(('# Lesson %d of %d: %s\n\n%s'):format(number, #M.lessons(), lesson.title, plain(lesson.text)))
  code(("lesson = require 'dflow.learn'.open(%d)\n%s"):format(number, lesson.code))
  markdown(('**%s** Put your guess into the brackets, then run it.'):format(plain(lesson.ask)))
  code('lesson.guess()')
  for n, task in ipairs(lesson.exercises) do
    markdown(('**Exercise %d.** %s'):format(n, plain(task[1])))
    code(('lesson.check(%d, nil)'):format(n))
  end
  markdown(number < #M.lessons() and ('The next lesson: %s.'):format(plain(M.lessons()[number + 1].title))
           or 'That was the last one.')
  return json.encode{ cells = cells, nbformat = 4, nbformat_minor = 5, metadata = {
    kernelspec = { display_name = 'dflow (Lua)', language = 'lua', name = 'dflow' },
    language_info = { name = 'lua', file_extension = '.lua' } } } .. '\n'
end

--- Writes all of them into a folder; the path of the first, and how many.
function M.write_notebooks(folder)
  local files, first = require 'dflow.exchange.file', nil
  for n, lesson in ipairs(M.lessons()) do
    local path = ('%s/lesson-%02d-%s.ipynb'):format(folder, n, (lesson.title:lower():gsub('[^%w]+', '-')))
    files.write(path, M.notebook(n))
    first = first or path
  end
  return first, #M.lessons()
end

-- ---- at a terminal --------------------------------------------------------------------------------------------------
--- The lessons one after the other, from `first` on, or from the one that is asked for.
function M.run(first, ask, say)
  local lessons = M.lessons()
  if not first then
    say('Fourteen lessons: you predict, it runs, and you are told why; then two exercises each. help tells what can '
        .. 'be typed.')
    for i, lesson in ipairs(lessons) do say(('%4d  %s'):format(i, lesson.title)) end
    local line = ask('which (Enter: the first; q leaves)> ')
    if leaves(line) then return end
    first = tonumber(line) or 1
  end
  for number = first, #lessons do
    if not M.lesson(number, ask, say) then return say('dflow learn ' .. number .. ' goes on here') end
    if number < #lessons then
      say('')
      local line = ask(('Enter: %s; q leaves> '):format(lessons[number + 1].title))
      if leaves(line) then return say('dflow learn ' .. number + 1 .. ' goes on there') end
      say('')
    end
  end
  say('That was the last one. ?while_loop, :help and the examples go on from here.')
end

return M
