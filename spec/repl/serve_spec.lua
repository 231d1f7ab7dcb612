--- `:serve`: the prompt's run in a browser's page, on the loopback address.
local shell = require 'spec.shell'
local browser = require 'spec.browser'
local terminal = require 'spec.terminal'
local ordered_it = require('spec.support').ordered_it(it, pending)

local there = shell.run(shell.dflow .. [[ -E -e "print(package.searchpath('dflow.pages', package.cpath) and 1 or 0)"]]).out == '1\n'

local GRAPH = [[
x = df.placeholder('float32', {})
body = function(i, y) return i + 1, cond(y:gt(3), function() return y * 0.5 end, function() return y * x end) end
i, y = while_loop(function(i) return i:lt(4) end, body, {0, 1.0})
h = df.start(y, {[x] = 2}, {paused = true, values = true})
]]

--- A prompt that is spoken to line by line.
local function prompt()
  local path = os.tmpname()
  local p = { to = io.popen(('%s -E -i >%s 2>&1'):format(shell.dflow, path), 'w'), path = path, said = 0 }
  local function read()
    local f = assert(io.open(path))
    local text = f:read('*a')
    f:close()
    return text
  end
  --- Says so much, and gives what was answered up to the end of it.
  function p.say(text)
    p.said = p.said + 1
    local mark = ('-- said %d --'):format(p.said)
    p.to:write(text, text:find('\n$') and '' or '\n', ("print('-- said ' .. '%d --')\n"):format(p.said))
    p.to:flush()
    for _ = 1, 600 do
      local before = read():match('^(.*)' .. mark:gsub('%-', '%%-'))
      if before then return before:match('.*%-%- said %d+ %-%-\n(.*)$') or before end
      os.execute('sleep 0.05')
    end
    error('the prompt does not answer: ' .. read())
  end
  function p.close()
    p.to:close()
    os.remove(path)
  end
  return p
end

--- What a server answers: its status and all that it sends.
local function ask(port, path, host, method)
  local text = ('%s %s HTTP/1.0\r\nHost: %s\r\n\r\n'):format(method or 'GET', path, host or ('127.0.0.1:' .. port))
  local r = shell.run(('timeout 30 bash -c %s'):format(shell.quote(('exec 3<>/dev/tcp/127.0.0.1/%d; cat >&3; cat <&3'):format(port))), text)
  return tonumber(r.out:match('^HTTP/1%.[01] (%d+)')), r.out
end

local function address(said)
  local url, port, secret = said:match('(http://127%.0%.0%.1:(%d+)/(%x+)/)\n')
  assert.is_string(url, said)
  return url, tonumber(port), secret
end

describe(':serve', function()
  it('without libmicrohttpd says what is missing, and what there is instead', function()
    local out = shell.run(shell.dflow .. ' -E -i 2>&1', "package.preload['dflow.pages'] = function() error('none') end\n:serve\n=1 + 41\n").out
    assert.matches('built without libmicrohttpd (Debian: libmicrohttpd-dev); :trace run.html', out, 1, true)
    assert.matches('dflow> 42\n', out, 1, true)
  end)

  if not there then return pending('serves (libmicrohttpd was not there when dflow was built)') end

  it('says how it is used, and which ports are none', function()
    local p = prompt()
    finally(p.close)
    for _, words in ipairs{ '70000', 'page', '1.5', '-1' } do assert.matches('usage: :serve [port | off]', p.say(':serve ' .. words), 1, true) end
    assert.matches('nothing is shown\n', p.say(':serve off'), 1, true)
    local _, port = address(p.say(':serve'))
    local other = prompt()
    finally(function() other.close() p.close() end)
    assert.matches((':serve: port %d is taken'):format(port), other.say(':serve ' .. port), 1, true)
  end)

  it('listens on the loopback address alone, and tells nothing to who does not know the secret or comes by another name', function()
    local p = prompt()
    finally(p.close)
    local _, port, secret = address(p.say(':serve'))
    assert.equal(32, #secret)
    local listening = {}
    for line in io.lines('/proc/net/tcp') do
      local at, of = line:match('^%s*%d+: (%x+):(%x+) %x+:%x+ 0A')
      if of and tonumber(of, 16) == port then listening[#listening + 1] = at end
    end
    assert.same({ '0100007F' }, listening)
    assert.equal(200, (ask(port, '/' .. secret .. '/')))
    for _, path in ipairs{ '/', '/' .. secret, '/' .. ('0'):rep(32) .. '/', '/' .. secret:sub(1, 31) .. '/', '/' .. secret .. '0/', '/' .. secret .. '/etc/passwd' } do
      assert.equal(404, (ask(port, path)), path)
    end
    assert.equal(404, (ask(port, '/' .. secret .. '/', 'evil.example:' .. port)))
    assert.equal(404, (ask(port, '/' .. secret .. '/', nil, 'POST')))
    assert.not_equal(secret, select(3, address(p.say(':serve 0'))))
  end)

  it('answers while hundreds of connections stand idle, or send what never ends', function()
    local p = prompt()
    finally(p.close)
    local _, port, secret = address(p.say(':serve'))
    local r = shell.run(('timeout 60 bash -c %s'):format(shell.quote(([[for i in {1..400}; do exec {f}<>/dev/tcp/127.0.0.1/%d
        [ $((i %% 2)) = 0 ] || printf 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n' >&$f; done 2>/dev/null
      exec 3<>/dev/tcp/127.0.0.1/%d; printf 'GET /%s/ HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n' >&3; head -1 <&3]]):format(port, port, secret, port))))
    assert.matches('^HTTP/1%.[01] 200', r.out)
  end)

  it('says that no run is there yet until there is one', function()
    local p = prompt()
    finally(p.close)
    local _, port, secret = address(p.say(':serve'))
    local function now() return select(2, ask(port, '/' .. secret .. '/next?after=0')) end
    assert.matches('{"page":0,"said":"no run yet: what the prompt runs next is shown here","state":"waiting"}', now(), 1, true)
    p.say('=df.run(df.float32(1) + 1)')
    assert.matches('"page":1,"said":"the run is over: %d+ nodes?, 0 iterations","state":"done"', now())
  end)

  ordered_it('tells where the run stands, after each step and at its end', function()
    local p = prompt()
    finally(p.close)
    local _, port, secret = address(p.say(GRAPH .. ':serve'))
    local function now() return select(2, ask(port, '/' .. secret .. '/next?after=0')) end
    assert.matches('"state":{"page":1,"said":"paused before while/Enter %(Enter%)  In%[3%]:1","state":"paused"}', now())
    assert.matches('"label":"Less · 4"', select(2, ask(port, '/' .. secret .. '/page')), 1, true)      -- what has not run is there, too
    p.say(':step 2 iteration')
    assert.matches('"said":"stepped before while/Less %(Less%) in while:2', now())
    p.say(':continue')
    assert.matches('"said":"the run is over: %d+ nodes, 4 iterations","state":"done"', now())
    p.say('df.run(y / 0 + df.assert(df.constant(false), {y}))\ndf.run(df.check_numerics(y * 0 / 0, {message = "it"}), {[x] = 1})')
    assert.matches('"said":"the run failed: .-","state":"failed"', now())
    p.say(':serve off')
    assert.is_nil((ask(port, '/' .. secret .. '/')))
  end)

  it('tells after each input of Lua what a run has come to meanwhile, and shows as much of it as there is', function()
    local p = prompt()
    finally(p.close)
    local _, port, secret = address(p.say(GRAPH:gsub('h = [^\n]*\n', '') .. ':serve'))
    local function now() return select(2, ask(port, '/' .. secret .. '/next?after=0')) end
    local function page() return select(2, ask(port, '/' .. secret .. '/page')) end
    p.say('h = df.start(y, {[x] = 2}, {paused = true, values = true})')
    assert.matches('"said":"paused before ', now(), 1, true)
    assert.matches('"ok":true', page(), 1, true)                       -- so far
    assert.is_nil(page():find('"fail":', 1, true))
    p.say('h:step(2, "iteration")')
    assert.matches('"said":"stepped before while/Less %(Less%) in while:2', now())
    assert.matches('"ok":true', page(), 1, true)
    p.say('h:resume()\nprint(h:wait())')
    assert.matches('"said":"the run is over: %d+ nodes, 4 iterations","state":"done"', now())
    p.say('f = df.start(df.floor_div(df.int32(1), df.placeholder_with_default(df.int32(0), {})))\npcall(f.wait, f)')
    assert.matches('"said":"the run failed: .-","state":"failed"', now())
    assert.matches('"ok":false', page(), 1, true)
    assert.matches('"fail":{', page(), 1, true)
    p.say(':time df.start(y, {[x] = 2}, {paused = true})')              -- so does a command
    assert.matches('"said":"paused before ', now(), 1, true)
  end)

  it('follows a run in the background while nobody types', function()
    if not terminal.available() then return pending('there is no tmux') end
    local t = terminal.open(100, 20)
    finally(function() t:close() end)
    t:line(':serve')
    local screen = t:wait('/\nopen it')
    local _, port, secret = address(screen .. '\n')
    local function said() return select(2, ask(port, '/' .. secret .. '/next?after=0')):match('"said":"([^"]*)"') end
    local function until_said(pattern, besides)
      for _ = 1, 400 do
        local words = said()
        if words and words:find(pattern) and words ~= besides then return words end
        os.execute('sleep 0.05')
      end
      error(('%s is not said, but %s'):format(pattern, tostring(said())))
    end
    t:line('h = df.start((while_loop(function(i) return i:lt(2000000000) end, function(i) return i + 1 end, {0})))')
    local first = until_said('^running: ')
    until_said('^running: ', first)
    t:line('h:cancel()')
    until_said('^the run was cancelled')
  end)

  it('leaves results, and what is printed, as they are', function()
    local p, q = prompt(), prompt()
    finally(function() p.close() q.close() end)
    p.say(':serve')
    q.say(':history')
    local lines = GRAPH .. 'df.run({i, y}, {[x] = 3})\nh:wait()\ndf.run(y, {[x] = 3}, {timeout = 5})\n'
    assert.equal(q.say(lines), p.say(lines))
  end)

  if not browser.available() then return pending('follows the prompt in a browser (there is no chromium)') end
  ordered_it('follows the prompt in a browser: what is next is marked, tokens lie where nobody has used them, nothing else is asked for', function()
    local p = prompt()
    finally(p.close)
    local b = browser.open((address(p.say(GRAPH .. ':serve'))))
    finally(function() b:close() p.close() end)
    local function until_(expression, wanted)
      local v
      for _ = 1, 300 do
        v = b:eval(expression)
        if v == wanted then return end
        os.execute('sleep 0.05')
      end
      assert.equal(wanted, v)
    end
    local inside = '(document.querySelector("iframe.seen") || {contentDocument: document}).contentDocument'
    until_('document.querySelector("#said").textContent', 'paused before while/Enter (Enter)  In[3]:1')
    until_(inside .. '.querySelector("[data-next]") && ' .. inside .. '.querySelector("[data-next]").dataset.name', 'while/Enter')
    p.say(':step 2 iteration\n:step 3')
    local said = p.say('print(h:settle(0))'):match('stepped[^\n]*')
    until_('document.querySelector("#said").textContent', said)
    until_(inside .. '.querySelector("[data-next]").dataset.name', said:match('before (%S+)'))
    assert.is_true(b:eval(inside .. '.querySelectorAll(".chips rect").length') > 0)
    assert.is_true(b:eval(inside .. '.querySelectorAll(".frame").length') == 1)
    p.say(':continue')
    until_('document.querySelector("#state").textContent', 'done')
    until_(inside .. '.querySelector("[data-next]") === null', true)
    assert.same({}, b.complaints)
    p.say(':serve off')
    until_('document.querySelector("#state").textContent', 'over')
  end)
end)
