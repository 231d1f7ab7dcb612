-- run: once
--- `dflow --dap`, as an editor talks to it: requests on its standard input, answers and events on its standard output.
local json = require 'dflow.exchange.json'
local shell = require 'spec.shell'

local SCRIPT = [[
local df = require 'dflow'
local function double(v)
  return v * 2
end
local secret = 42
local x = df.placeholder('float32', {})
local i, y = df.while_loop(function(i, v) return i:lt(4) end, function(i, v)
  local twice = double(v)
  return i + 1, twice + 1
end, {0, x})
print 'built'
local value = df.run(y, {[x] = 1})
print('y', value, secret)
]]

--- A client: send(command, arguments) gives the body of the answer; event(name) waits for one.
local function client(program, options)
  local folder = shell.run 'mktemp -d'.out:match '%S+'
  local script = folder .. '/loop.lua'
  shell.write(script, program or SCRIPT)
  os.execute(('mkfifo %s/in %s/out'):format(folder, folder))
  os.execute(('(timeout 100 %s --dap < %s/in > %s/out 2> %s/err; echo $? > %s/status) &'):format(shell.dflow, folder, folder, folder, folder))
  local to, from = assert(io.open(folder .. '/in', 'w')), assert(io.open(folder .. '/out', 'r'))
  local c, serial, events = { script = script, printed = '' }, 0, {}

  local function receive()
    local head = from:read 'l'
    local length = head and tonumber(head:match 'Content%-Length: (%d+)')
    if not length then return nil end
    from:read 'l'
    local message = json.decode(from:read(length))
    if message.event == 'output' then c.printed = c.printed .. message.body.output end
    if message.type == 'event' then events[#events + 1] = message end
    return message
  end
  function c.write(text) to:write(text) to:flush() end
  function c.ask(command, arguments)
    serial = serial + 1
    local text = json.encode{ seq = serial, type = 'request', command = command, arguments = arguments }
    c.write(('Content-Length: %d\r\n\r\n%s'):format(#text, text))
    repeat
      local message = assert(receive(), 'the debugger has ended')
      if message.type == 'response' and message.request_seq == serial then return message end
    until false
  end
  function c.send(command, arguments)
    local answer = c.ask(command, arguments)
    assert(answer.success, answer.message)
    return answer.body
  end
  function c.event(name)
    while true do
      for at, e in ipairs(events) do
        if e.event == name then
          table.remove(events, at)
          return e.body
        end
      end
      assert(receive(), 'the debugger has ended')
    end
  end
  --- Begins, with these breakpoints (lines, or {line, condition}) and filters.
  function c.begin(lines, filters)
    c.send('initialize', { adapterID = 'dflow', linesStartAt1 = c.first_line ~= 0, columnsStartAt1 = c.first_line ~= 0 })
    c.event 'initialized'
    local list = json.list{}
    for k, line in ipairs(lines) do list[k] = type(line) == 'table' and { line = line[1], condition = line[2] } or { line = line } end
    c.told = c.send('setBreakpoints', { source = { path = script }, breakpoints = list }).breakpoints
    c.send('setExceptionBreakpoints', { filters = json.list(filters or {}) })
    local launch = { program = script }
    for k, v in pairs(options or {}) do launch[k] = v end
    c.send('launch', launch)
    c.send 'configurationDone'
  end
  --- Where it stands: the names of the stack, the lines, the frames' numbers.
  function c.stack(stop)
    local names, lines, ids = {}, {}, {}
    for k, f in ipairs(c.send('stackTrace', { threadId = stop.threadId }).stackFrames) do names[k], lines[k], ids[k] = f.name, f.line, f.id end
    return names, lines, ids
  end
  --- What a scope of a stack frame shows: name -> text.
  function c.scope(id, pattern)
    for _, s in ipairs(c.send('scopes', { frameId = id }).scopes) do
      if s.name:find(pattern) then
        local values = {}
        for _, v in ipairs(c.send('variables', { variablesReference = s.variablesReference }).variables) do values[v.name] = v.value end
        return values
      end
    end
  end
  --- Ends it: the exit status of the program.
  function c.close()
    to:close()
    from:read 'a'
    from:close()
    local status
    repeat status = shell.read(folder .. '/status') until status and status ~= '' or os.execute 'sleep 0.02' == nil
    c.err = shell.read(folder .. '/err')
    os.execute('rm -rf ' .. folder)
    return tonumber(status)
  end
  return c
end

describe('dflow --dap', function()
  it('stops before the tokens that a line built, and shows token, callers, frame, script and values', function()
    local c = client()
    c.begin{ 3 }
    assert.is_false(c.told[1].verified)
    local bound = c.event 'breakpoint'
    assert.same({ c.told[1].id, true }, { bound.breakpoint.id, bound.breakpoint.verified })
    for trip, before in ipairs{ 1, 3 } do
      local stop = c.event 'stopped'
      assert.same({ 'breakpoint', c.told[1].id }, { stop.reason, stop.hitBreakpointIds[1] })
      local names, lines, ids = c.stack(stop)
      assert.matches('%(Mul%) in while:' .. trip - 1, names[1])
      assert.same({ 3, 8 }, { lines[1], lines[2] })                                  -- the helper's line, and its caller's
      local node, loop = c.scope(ids[1], 'Node'), c.scope(ids[1], 'Iteration')
      local values = {}
      for _, v in pairs(node) do values[v] = true end
      assert.is_truthy(values[('%.1f'):format(before)] and values['2.0'] and values['not yet'], json.encode(node))
      assert.same({ tostring(trip - 1), ('%.1f'):format(before) }, { loop.i, loop.v })
      assert.equal('42', c.scope(ids[#ids], 'Locals').secret)
      assert.equal(12, lines[#lines])
      local threads = c.send 'threads'.threads
      assert.equal(2, #threads)
      assert.equal('84', c.send('evaluate', { expression = 'secret * 2' }).result)
      c.send('continue', { threadId = stop.threadId })
    end
    c.send('setBreakpoints', { source = { path = c.script }, breakpoints = json.list{} })
    local stop = c.event 'stopped'                                                   -- it stood there already
    c.send('continue', { threadId = stop.threadId })
    assert.equal(0, c.event 'exited'.exitCode)
    c.event 'terminated'
    assert.equal('built\ny\t31.0\t42\n', c.printed)
    c.send 'disconnect'
    assert.equal(0, c.close(), c.err)
  end)

  it('completes locals of the script, what they have, functions and nodes, where the editor counts', function()
    for first_line = 0, 1 do
      local c = client()
      c.first_line = first_line
      c.begin{ 2 + first_line }
      local stop = c.event 'stopped'
      local names = c.stack(stop)
      local node = names[1]:match '^(while/[^ ]+)' or 'while/Mul'
      for text, wanted in pairs{ sec = 'secret', ['1 + sec'] = 'secret', ['x:reduce_su'] = 'reduce_sum', ['df.train.Ada'] = 'Adam',
                                 ['local s = "äöü𝛼" .. sec'] = 'secret', ['why ' .. node:sub(1, -2)] = node, ['x = 1\ny = sec'] = 'secret' } do
        local line, last = select(2, text:gsub('\n', '')), text:match '[^\n]*$'
        local units = select(2, last:gsub('[%z\1-\127\192-\255]', '')) + select(2, last:gsub('[\240-\255]', ''))
        local answer = c.send('completions', { text = text, line = line + first_line, column = units + first_line })
        local found
        for _, t in ipairs(answer.targets) do found = t.label == wanted and t or found end
        assert(found, text)
        assert.equal(wanted:sub(1, found.length), last:sub(#last - found.length + 1))
        assert.equal(units + first_line, found.start + found.length)
      end
      assert.is_false(c.ask('completions', { text = 'x' }).success)
      c.send 'disconnect'
      c.close()
    end
  end)

  it('counts lines and columns from 0 where the editor does', function()
    local c = client()
    c.first_line = 0
    c.begin{ 2 }
    assert.equal(2, c.event 'breakpoint'.breakpoint.line)
    local stop = c.event 'stopped'
    local _, lines = c.stack(stop)
    assert.same({ 2, 7, 11 }, { lines[1], lines[2], lines[#lines] })
    assert.equal(0, c.send('stackTrace', { threadId = stop.threadId }).stackFrames[1].column)
    c.send 'disconnect'
    c.close()
  end)

  it('stops where a condition on the value holds', function()
    local c = client()
    c.begin{ { 3, 'v > 10' } }
    local stop = c.event 'stopped'
    local names, _, ids = c.stack(stop)
    assert.matches('while:2', names[1])                                              -- 2, 6, 14
    assert.is_truthy(c.scope(ids[1], 'Node')['output 1'] == '14.0')
    c.send('setBreakpoints', { source = { path = c.script }, breakpoints = json.list{ { line = 3, condition = 'value > 10' } } })
    c.send('continue', { threadId = stop.threadId })
    assert.matches('condition failed: .-nil.- %(v is the value', c.event 'stopped'.description)    -- it stops there, too, and says why
    c.send 'terminate'
    c.event 'terminated'
    c.send 'disconnect'
    c.close()
  end)

  it('steps by tokens, by live nodes, to the end of the frame, and back', function()
    local c = client(nil, { stopOnEntry = true })
    c.begin{}
    assert.equal('entry', c.event 'stopped'.reason)
    local seen = {}
    for k = 1, 12 do
      c.send('stepIn', { threadId = 1 })
      local stop = c.event 'stopped'
      seen[k] = c.stack(stop)[1]
    end
    local different = {}
    for _, name in ipairs(seen) do different[name] = true end
    local count = 0
    for _ in pairs(different) do count = count + 1 end
    assert.is_true(count >= 8, table.concat(seen, '\n'))
    c.send('stepBack', { threadId = 1 })
    local back = c.event 'stopped'
    assert.equal(seen[11], c.stack(back)[1])                                         -- what was next before the last step has run
    c.send('next', { threadId = 1 })
    assert.equal(seen[12], c.stack(c.event 'stopped')[1])
    c.send('next', { threadId = 1 })
    c.event 'stopped'
    c.send('continue', { threadId = 1 })
    assert.equal(0, c.event 'exited'.exitCode)
    c.send 'disconnect'
    assert.equal(0, c.close())
  end)

  it('pauses a run that goes on, and ends one that never ends', function()
    local c = client("local df = require 'dflow' df.run(df.while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 1000 end, {df.int32(0)}))")
    c.begin{}
    c.send('pause', { threadId = 1 })
    local stop = c.event 'stopped'
    assert.equal('pause', stop.reason)
    c.send('continue', { threadId = 1 })
    c.send 'disconnect'
    c.close()
  end)

  it('stops where a run fails and where a NaN is made, and the script fails as it would', function()
    local c = client("local df = require 'dflow'\nlocal x = df.placeholder('float32', {})\nlocal y = df.log(x)\n"
      .. "print(df.run(y, {[x] = -1}))\nlocal k = df.placeholder('int32', {})\ndf.run(df.gather({1.0, 2.0}, k), {[k] = 5})\n")
    c.begin({}, { 'error', 'nan' })
    local stop = c.event 'stopped'
    assert.equal('exception', stop.reason)
    assert.matches('Log', (c.stack(stop))[1])
    c.send('continue', { threadId = 1 })
    local failed = c.event 'stopped'
    assert.equal('exception', failed.reason)
    c.send('continue', { threadId = 1 })
    assert.equal(1, c.event 'exited'.exitCode)
    assert.matches('loop.lua:6', c.printed)
    c.send 'disconnect'
    c.close()
  end)

  it('answers what it does not know, is asked wrongly, or is no message, with an error', function()
    local c = client()
    for command, case in pairs{ nosuch = { {}, "no request 'nosuch'" }, launch = { {}, '`program`' }, continue = { {}, 'not stopped' },
                                setBreakpoints = { {}, '`source.path`' }, variables = { { variablesReference = 7 }, 'no such value' },
                                scopes = { { frameId = 3 }, 'no such stack frame' }, evaluate = { { expression = ')' }, 'unexpected symbol' } } do
      local answer = c.ask(command, case[1])
      assert.is_false(answer.success)
      assert.equal(answer.message, answer.body.error.format)                         -- as the protocol's schema demands
      assert.is_truthy(answer.message:find(case[2], 1, true), command .. ': ' .. tostring(answer.message))
      assert.is_nil(answer.message:find('stack traceback', 1, true))
    end
    local told = c.send('setBreakpoints', { source = { path = c.script }, breakpoints = json.list{ { line = 3, condition = 'v >' } } }).breakpoints
    assert.matches('is not finished', told[1].message)
    c.write 'Content-Length: nonsense\r\n\r\n'
    assert.equal(1, c.close())
    assert.matches('no message of the Debug Adapter Protocol', c.err)
    for _, text in ipairs{ 'Content-Length: 99999999999\r\n\r\n', 'Content-Length: 3\r\n\r\n[1]', ('x'):rep(70000), 'Content-Length: 2\r\n\r\n{}' } do
      local wrong = client()
      wrong.write(text)
      assert.equal(1, wrong.close(), text:sub(1, 40))
    end
    assert.equal(0, client().close())                                                -- the editor has gone
  end)
end)
