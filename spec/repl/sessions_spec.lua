-- Whole sessions at the prompt (spec/repl/sessions.lua): what is true of the answers to 540 lines, right and wrong ones.
-- run: first
local df = require 'dflow'
local shell = require 'spec.shell'
local sessions = require 'spec.repl.sessions'
local it = require('spec.support').host_it(it, pending)

local LOOKS = {}             -- commands that change nothing: asked twice they say the same
for name in ('help names doc where graph placement saved inputs explain disasm frames tokens stacks why whynot value swap runs stats locals set break src'):gmatch '%a+' do
  LOOKS[name] = true
end
local CHANGES = { ['break'] = true, set = true }                  -- with something behind them these do

--- Does a line only look at what is there?
local function looks(line)
  local name, rest = line:match '^:(%a+)(.*)$'
  return line:find '^%?' ~= nil or name ~= nil and LOOKS[name] and not (CHANGES[name] and rest:find '%S') and not line:find('df.', 1, true) and not line:find '%('
end

--- The session as it is typed and what is answered: lists of lines and of answers. Lines that only look are there twice.
local function played(text)
  local lines, typed = {}, {}
  for line in text:gmatch '[^\n]+' do
    lines[#lines + 1] = line
    if looks(line) then lines[#lines + 1] = line end
  end
  for i, line in ipairs(lines) do typed[i] = line .. '\n' end
  -- A home of its own, which goes with it.
  local r = shell.run(('h=$(mktemp -d) && env HOME="$h" XDG_CONFIG_HOME="$h" XDG_STATE_HOME="$h" %s -i 2>&1; rm -rf "$h"'):format(shell.dflow), table.concat(typed))
  local answers = {}
  for answer in r.out:gsub('^[^\n]*\ndflow> ', '', 1):gsub('paused> ', 'dflow> (paused)\n'):gmatch '(.-)dflow> ' do answers[#answers + 1] = answer end
  return lines, answers, r
end

--- What a line of Lua gives in this process: its values, or its error.
local function here(line)
  local fn = (loadstring or load)('local df = ... return ' .. line, '=In')
  if not fn then return nil end
  local list = { pcall(fn, df) }
  return list[1], list[2], #list - 1
end

describe('a session at the prompt:', function()
  for _, session in ipairs(sessions) do
    local name = session[1]
    describe(name, function()
      local lines, answers, r
      setup(function() lines, answers, r = played(session[2]) end)

      it('answers every line, and ends as it should', function()
        assert.equal(#lines, #answers, r.out:sub(-500))
        assert.equal(0, r.status, r.out:sub(-500))
      end)

      it('says nothing of its own insides: no error that is not ours or the user\'s', function()
        for i, answer in ipairs(answers) do
          for line in answer:gmatch '[^\n]+' do
            local at = line:match '^(%S+:%d+): ' or line:match '^\t(%S+:%d+): '
            if at and (line:find 'attempt to' or line:find 'bad argument' or line:find '^\t') then
              assert.is_truthy(at:find '^In%[' or at:find '^command:', lines[i] .. '\n' .. answer)
            end
            assert.is_falsy(line:find 'dflow/[%w_/]+%.lua:%d+: ' or line:find '^[%w_/]+%.lua:%d+: ', lines[i] .. '\n' .. answer)
            assert.is_falsy(line:find 'assertion failed' or line:find 'table: 0x' and not lines[i]:find '_G', lines[i] .. '\n' .. answer)
            assert.is_falsy(line:find '%%[sdq]' and not lines[i]:find('%', 1, true) and not lines[i]:find ':where' or line:find 'nil value %(upvalue', lines[i] .. '\n' .. answer)
          end
        end
      end)

      it('gives mistakes the number of their input, the line that was typed, and a caret within it', function()
        local number, marked = 0, 0
        for i, line in ipairs(lines) do
          if not line:find '^[:?]' and line ~= 'help' and not line:find '^help ' then
            number = number + 1
            local at = answers[i]:match '^In%[(%d+)%]:1: '
            if at then assert.is_true(tonumber(at) == number or answers[i]:find('asked for at In[' .. number .. ']', 1, true) ~= nil, line .. '\n' .. answers[i]) end
            local quoted, caret = answers[i]:match '\n    1 | ([^\n]*)\n      | ( *%^+)'
            if quoted then
              marked = marked + 1
              local plain = quoted:gsub('^…', ''):gsub('…$', '')
              assert.is_truthy(line:find(plain, 1, true) or answers[i]:find 'asked for at' and session[2]:find(plain, 1, true), answers[i])
              local first, last = caret:find '%^+'
              assert.is_true(last <= #quoted:gsub('[\128-\191]', ''), answers[i])
              if not quoted:find '[\128-\255]' then
                local word = quoted:sub(first, last)
                if word:find '^[%w_]+$' then
                  assert.is_falsy(quoted:sub(last + 1, last + 1):find '[%w_]', answers[i])
                  assert.is_falsy(quoted:sub(first - 1, first - 1):find '[%w_]', answers[i])
                end
              end
            end
          end
        end
        if name == 'values' then assert.is_true(marked > 30, marked) end
      end)

      it('says the same when it is asked again', function()
        local count = 0
        for i = 2, #lines do
          if looks(lines[i]) and lines[i] == lines[i - 1] then
            count = count + 1
            local function plain(text) return (text:gsub('%d+%.%d+ m?s', 'T'):gsub('[%d.]+ [KM]?i?B', 'BYTES'):gsub('^%(paused%)\n', ''):gsub('0x%x+', '0x')) end
            assert.equal(plain(answers[i - 1]), plain(answers[i]), lines[i])
            assert.are_not.equal('', plain(answers[i]), lines[i] .. ' says nothing')
          end
        end
        if name ~= 'values' then assert.is_true(count > 5, count) end
      end)

      it('lists the tokens of what was named, and only those', function()
        for i, line in ipairs(lines) do
          local op = line:match '^:tokens (%S+)'
          for token in (op and answers[i] or ''):gmatch '[^\n]+' do
            local none = token == '(paused)' or token == 'no tokens' or token:find 'has no operation' or token:find 'no run is'
            assert.is_truthy(none or token:find(op, 1, true), line .. '\n' .. answers[i])
          end
        end
      end)

      it('says how a command is written that was given nothing or what it does not know', function()
        for i, line in ipairs(lines) do
          local word = line:match '^:(%a+)'
          local usage = answers[i]:match '^usage: :(%a+)' or answers[i]:match '^%(paused%)\nusage: :(%a+)'
          if usage then assert.equal(1, usage:find(word, 1, true), line .. '\n' .. answers[i]) end
          if line:find 'nosuch' and not line:find 'end%)$' then
            assert.is_truthy(answers[i]:find 'nosuch' or answers[i]:find 'usage' or answers[i]:find 'there is no' or answers[i]:find 'no run is', line .. '\n' .. answers[i])
          end
        end
      end)

      if name == 'values' and not rawget(_G, 'jit') then            -- the prompt is Lua 5.4's, which has integers
        it('shows a value as tostring does, a number as Lua does, and an error with the words that pcall gives', function()
          local shown, failed = 0, 0
          for i, line in ipairs(lines) do
            if line:find '^df%.' or line:find '^[%d%-(]' then
              df.reset()
              local own = not line:find '%f[%w_][xyw]%f[^%w_]' and not line:find '/nowhere'
              if own then
                local ok, v, n = here(line)
                if ok == false then
                  local message = (type(v) == 'table' and v.message or tostring(v):gsub('^In:1: ', '')):match '^[^\n]*'
                  local told = answers[i]:match '^In%[%d+%]:1: ([^\n]*)' or answers[i]:match '^[^\n]*'
                  local function plain(text) return (text:gsub('%S+:%d+%f[%D]', 'AT'):gsub('`?[%a/_]*Const[_%d]*:?%d*`?', 'NODE'):gsub('Array_%d+', 'Array')) end
                  assert.equal(plain(message), plain(told), line)
                  failed = failed + 1
                elseif ok and df.type(v) == 'tensor' and n == 1 then
                  local last = answers[i]:match '^(.-)\n$'
                  assert.is_truthy(last:find(v.dtype .. '[' .. table.concat(v.shape, ',') .. ']', 1, true), line .. '\n' .. answers[i])
                  shown = shown + 1
                elseif ok and n == 1 and math.type and math.type(v) == 'integer' then
                  assert.equal(tostring(v) .. '\n', answers[i])
                  shown = shown + 1
                end
              end
            end
          end
          df.reset()
          assert.is_true(shown > 15 and failed > 40, shown .. ', ' .. failed)
        end)
      end
    end)
  end
end)
