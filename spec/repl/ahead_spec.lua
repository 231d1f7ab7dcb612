-- What is typed behind Enter, before the terminal is the program's: each of these goes to it in one piece.
-- run: first
local typist = require 'spec.typist'

local WORK = [[
function forever() while true do end end
e = while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 9 end, { df.int32(0) })
]]

local STANDS = { 'paused before', 'not paused yet', 'paused: no token is ready' }   -- where the machine is busy; where messages are under way

describe('what is typed ahead', function()
  if not typist.available() then return pending('there is no terminal to type at') end
  local t, marks = nil, 0

  local function expect(text)
    local ms, which = t:wait(text, 20)
    if not ms then error(('no %s:\n%s'):format(type(text) == 'table' and table.concat(text, ' or ') or text, t:seen()), 2) end
    return which
  end

  --- There is a prompt, and nothing was typed that it has not read.
  local function prompt()
    marks = marks + 1
    t:line(('print("@%d" .. "@")'):format(marks))
    expect(('@%d@\r'):format(marks))
    expect{ 'paused> ', 'dflow> ' }
  end

  before_each(function()
    t = typist.open{ init = WORK }
    expect 'dflow> '
  end)
  after_each(function() t:close() end)

  it('interrupts what was entered when it is Ctrl-C, however short the moment', function()
    for _ = 1, 20 do
      t:type('forever()\r' .. typist.CTRL_C)
      expect 'interrupted!'
      prompt()
    end
    for _ = 1, 20 do
      t:type('df.run(e)\r' .. typist.CTRL_C)
      expect(STANDS)
      prompt()
      t:type(':continue\r' .. typist.CTRL_C)
      expect(STANDS)
      prompt()
      t:type(typist.CTRL_C)
      expect 'cancelled'
      prompt()
    end
  end)

  it('is kept behind a Ctrl-C, and dropped before it as a terminal does', function()
    t:type('forever()\rprint("@" .. "dropped")\r' .. typist.CTRL_C .. 'print("@" .. "kept")\rhalf a li')
    expect 'interrupted!'
    assert.are.equal('@kept', expect{ '@kept', '@dropped' })
    expect 'half a li'
  end)

  it('is dropped by a Ctrl-C that comes later, too', function()
    t:type('forever()\rprint("@" .. "dropped")\r')
    expect 'forever()'
    t:type(typist.CTRL_C, 100)
    expect 'interrupted!'
    t:line('print("@" .. "kept")')
    assert.are.equal('@kept', expect{ '@kept', '@dropped' })
  end)

  it('is there for what reads standard input, and what that leaves, for the prompt', function()
    t:type('print("@" .. io.read() .. "@")\rhello\rprint("@" .. "then")\rx = 4')
    expect '@hello@'
    expect '@then'
    t:type('2 print("@" .. x)\r')
    expect '@42'
  end)
end)
