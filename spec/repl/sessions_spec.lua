-- Whole sessions at the prompt (spec/repl/sessions.lua): what it answers to 540 lines is what it answered when spec/pages/sessions.txt was written.
local pages = require 'spec.pages'
local shell = require 'spec.shell'
local sessions = require 'spec.repl.sessions'
local it = require('spec.support').host_it(it, pending)

local root = shell.run('pwd').out:gsub('\n', '')

--- The answer without what differs from one run to the next: addresses, times, memory, where the checkout is, and lines of our own files.
local function settled(text)
  return (text:gsub(root:gsub('%p', '%%%0') .. '/', ''):gsub('0x%x+', '0x…'):gsub('(%a+/[%w_/]+%.[clu]+a?):%d+', '%1:N'):gsub('%d+%.%d+ ms', 'T ms'))
end

describe('a session at the prompt answers as it did:', function()
  for _, session in ipairs(sessions) do
    local name, text = session[1], session[2]
    it(name, function()
      -- A home of its own, which goes with it.
      local r = shell.run(('h=$(mktemp -d) && env HOME="$h" XDG_CONFIG_HOME="$h" XDG_STATE_HOME="$h" %s -i 2>&1; rm -rf "$h"'):format(shell.dflow), text)
      local lines, answers = text:gmatch '[^\n]+', {}
      for answer in settled(r.out):gsub('^[^\n]*\ndflow> ', '', 1):gsub('paused> ', 'dflow> (paused)\n'):gmatch '(.-)dflow> ' do
        answers[#answers + 1] = ('> %s\n%s'):format(lines() or '', answer)
      end
      pages.section('sessions.txt', name, (table.concat(answers):gsub('\n== ', '\n= = ')))
      assert.is_nil(lines())
    end)
  end
end)
