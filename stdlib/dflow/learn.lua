--- `dflow learn`: twelve short lessons in which one predicts, runs, and is told why; two exercises each, which are checked.
--
-- Lines are read by `ask(prompt)` and written by `say(text)`, so that the same lessons run at a terminal, in a pipe and in a spec.
local errors = require 'dflow.front.errors'
local df = require 'dflow'

local M = {}
local TRIES = 3

--- The lessons' data.
function M.lessons() return require 'dflow.learn.lessons' end

--- A chunk that sees the names of a lesson and those of the program, and sets names of its own.
local function compile(text, env)
  local make = rawget(_G, 'loadstring') or load
  for _, source in ipairs{ 'return ' .. text, text } do
    local chunk, why = make(source, '=answer', 't', env)
    if chunk and rawget(_G, 'setfenv') then _G.setfenv(chunk, env) end
    if chunk then return chunk end
    if source == text then return nil, why end
  end
end

--- The names of a lesson whose code has run in a graph of its own.
function M.prepare(lesson)
  df.reset()
  local env = setmetatable({ df = df, cond = df.cond, while_loop = df.while_loop, TensorArray = df.TensorArray, gradients = df.gradients }, { __index = _G })
  local chunk, why = compile(lesson.code, env)
  if not chunk then error(why, 0) end
  chunk()
  return env
end

--- What a typed expression gives: an Output as its value. true and the value, or false and what is wrong.
function M.value(text, env)
  local chunk, why = compile(text, env)
  if not chunk then return false, errors.explain(why) end
  return pcall(function()
    local v = chunk()
    if df.type(v) == 'output' or df.type(v) == 'variable' then v = df.run(v) end
    if df.type(v) == 'tensor' and v.size == 1 then v = v:item() end
    return v
  end)
end

local function leaves(line) return line == nil or line:find('^%s*[qQ]%s*$') ~= nil or line:find('^%s*exit%s*$') ~= nil end

--- One exercise: true when it is over, false when the learner leaves.
local function exercise(n, task, env, ask, say)
  say('')
  say(('Exercise %d. %s'):format(n, task[1]))
  for try = 1, math.huge do
    local line = ask(('exercise %d> '):format(n))
    if leaves(line) then return false end
    if line:find('^%s*skip%s*$') then
      say('one way: ' .. task[2])
      return true
    elseif line:find('%S') then
      local ok, v = M.value(line, env)
      local right = ok and task[3](v, env)
      if right == true then
        say('right: ' .. tostring(v))
        return true
      end
      say(ok and 'not yet: ' .. tostring(right or v) or tostring(v))
      if try >= TRIES then say('(skip shows one way to do it)') end
    end
  end
end

--- One lesson, from its text to its exercises: true when it is over, false when the learner leaves.
function M.lesson(number, ask, say)
  local lesson = M.lessons()[number]
  if not lesson then errors.raise('not_found', 'there is no lesson %s; there are 1 to %d', tostring(number), #M.lessons()) end
  say(('Lesson %d of %d: %s'):format(number, #M.lessons(), lesson.title))
  say('')
  say((lesson.text:gsub('\n', ' ')))
  say('')
  say('    ' .. lesson.code:gsub('\n', '\n    '))
  say('')
  local env = M.prepare(lesson)
  say(lesson.ask)
  local guess = ask('your guess> ')
  if leaves(guess) then return false end
  local answer = lesson.answer(env)
  local right = tonumber(guess) ~= nil and math.abs(tonumber(guess) - answer) < 1e-4
  say(('%s %s. %s'):format(right and 'Yes, it is' or 'It is', ('%.6g'):format(answer), lesson.why))
  say('')
  say((tostring(lesson.picture(env)):gsub('\n+$', '')))
  for n, task in ipairs(lesson.exercises) do
    if not exercise(n, task, env, ask, say) then return false end
  end
  return true
end

--- The lessons one after the other, from `first` on, or from the one that is asked for.
function M.run(first, ask, say)
  local lessons = M.lessons()
  if not first then
    say('Twelve lessons: you predict, it runs, and you are told why; then two exercises each.')
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
