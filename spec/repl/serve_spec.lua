--- `:serve`: the prompt's run in a browser's page, on the loopback address.
-- run: first
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
    return shell.read(path)
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
    for _, words in ipairs{ '70000', 'no_such_folder', '1.5', '-1' } do assert.matches('usage: :serve [port | folder | off]; ', p.say(':serve ' .. words), 1, true) end
    assert.matches('nothing is shown\n', p.say(':serve off'), 1, true)
    local _, port = address(p.say(':serve'))
    local other = prompt()
    finally(function() other.close() p.close() end)
    assert.matches((':serve: port %d is taken'):format(port), other.say(':serve ' .. port), 1, true)
  end)

  it('listens on the loopback address alone, and tells nothing without the secret or by another name', function()
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
    assert.matches('{"page":0,"said":"no run yet: what the prompt runs next is shown here","state":"waiting","training":0}', now(), 1, true)
    p.say('=df.run(df.float32(1) + 1)')
    assert.matches('"page":1,"said":"the run is over: %d+ nodes?, 0 iterations","state":"done"', now())
  end)

  ordered_it('tells where the run stands, after each step and at its end', function()
    local p = prompt()
    finally(p.close)
    local _, port, secret = address(p.say(GRAPH .. ':serve'))
    local function now() return select(2, ask(port, '/' .. secret .. '/next?after=0')) end
    assert.matches('"state":{"page":1,"said":"paused before while/Enter %(Enter%)  In%[3%]:1","state":"paused","training":0}', now())
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
    assert.matches('"said":"stepped before while/%S+ %(%a+%) in while:2', now())
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

  it('follows a run in the background while no key comes', function()
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
  --- Asks the browser until it says so.
  local function until_(b, expression, wanted)
    local v
    for _ = 1, 600 do
      v = b:eval(expression)
      if v == wanted then return end
      os.execute('sleep 0.05')
    end
    assert.equal(wanted, v)
  end

  it('draws what trainings write while they go on, beside each other; what a file holds is text, and loads nothing', function()
    local folder = shell.run('mktemp -d').out:match '%S+'
    local p = prompt()
    finally(function() p.close() shell.run('rm -r ' .. folder) end)
    p.say(('function writer(name) return df.summary.FileWriter("%s/" .. name) end'):format(folder))
    p.say('a, b = writer "adam 0.1", writer "<b>x</b>"')
    p.say('for i = 1, 1000 do a:scalar("loss", i == 500 and 0 / 0 or 1 / i, i) end')
    local b = browser.open((address(p.say(':serve ' .. folder))))
    finally(function() b:close() p.close() shell.run('rm -r ' .. folder) end)
    until_(b, 'document.querySelectorAll("#scalars figure").length', 1)
    assert.is_false(b:eval 'document.querySelector("#training").hidden')
    assert.is_true(b:eval 'document.querySelector("path[data-run]").dataset.points' + 0 <= 400)
    p.say([[for i = 1, 9 do b:scalar("loss", i, i) b:histogram("w", df.tensor{1, 2, i}, i) end
      b:image("<img src=x onerror=alert(1)>", df.tensor{{0, 1}}, 3) b:scalar("</script><script>x()</script>", 1, 1)]])
    for _ = 1, 200 do                                                    -- a look comes with each input, and files are read once a second or so
      p.say('=1')
      if b:eval 'document.querySelectorAll("#scalars figure").length' == 2 then break end
      os.execute('sleep 0.1')
    end
    until_(b, 'document.querySelectorAll("#images figure").length', 1)
    assert.equal(2, b:eval [[document.querySelectorAll('[data-tag="loss"] path[data-run]').length]])
    assert.equal('9', b:eval [[document.querySelector('#histograms canvas').dataset.steps]])
    assert.equal('<img src=x onerror=alert(1)>/image', b:eval [[document.querySelector('#images figure').dataset.tag]])
    assert.equal('<b>x</b>,adam 0.1', b:eval [=[[...document.querySelectorAll('#runs label')].map(l => l.textContent.trim()).sort().join()]=])
    assert.equal(0, b:eval [[document.querySelectorAll('#training script, #training b, #training img[src="x"]').length]])
    b:click('#runs label:nth-of-type(1)')                                -- is not shown any more
    until_(b, [[document.querySelectorAll('[data-tag="loss"] path[data-run]').length]], 1)
    b:eval [[(document.querySelector('#smooth').value = 0.9, document.querySelector('#smooth').oninput())]]
    assert.equal(1, b:eval [[document.querySelectorAll('[data-tag="loss"] path.raw').length]])
    assert.same({}, b.complaints)
  end)

  it('draws a few of the runs of a training, and the last place of what stands', function()
    local p = prompt()
    finally(p.close)
    local _, port, secret = address(p.say(':serve'))
    local began = os.time()
    p.say('v = df.Variable(0.0)\nstep = v:assign_add(1)\nfor i = 1, 1000 do df.run(step) end')
    local _, text = ask(port, '/' .. secret .. '/next?after=0')
    assert.is_true(tonumber(text:match '"page":(%d+)') <= 12 + 4 * (os.time() - began + 1), text)       -- eight, and four a second
    p.say('=df.run(v)')
    assert.matches('"said":"the run is over: 1 node, 0 iterations"', select(2, ask(port, '/' .. secret .. '/next?after=0')), 1, true)
  end)

  ordered_it('follows the prompt in a browser: what is next is marked, tokens lie where they were not used, nothing else is asked for', function()
    local p = prompt()
    finally(p.close)
    local b = browser.open((address(p.say(GRAPH .. ':serve'))))
    finally(function() b:close() p.close() end)
    local inside = '(document.querySelector("iframe.seen") || {contentDocument: document}).contentDocument'
    until_(b, 'document.querySelector("#said").textContent', 'paused before while/Enter (Enter)  In[3]:1')
    until_(b, inside .. '.querySelector("[data-next]") && ' .. inside .. '.querySelector("[data-next]").dataset.name', 'while/Enter')
    p.say(':step 2 iteration\n:step 3')
    local said = p.say('print(h:settle(0))'):match('stepped[^\n]*')
    until_(b, 'document.querySelector("#said").textContent', said)
    until_(b, inside .. '.querySelector("[data-next]").dataset.name', said:match('before (%S+)'))
    assert.is_true(b:eval(inside .. '.querySelectorAll(".chips rect").length') > 0)
    assert.is_true(b:eval(inside .. '.querySelectorAll(".frame").length') == 1)
    p.say(':continue')
    until_(b, 'document.querySelector("#state").textContent', 'done')
    until_(b, inside .. '.querySelector("[data-next]") === null', true)
    -- a run that began since has its primitives, and the layer that is shown stays when the page is drawn anew
    local merge = inside .. '.querySelector("[data-name=\\"while/Merge\\"]")'
    p.say('h = df.start(y, {[x] = 3}, {paused = true})\n:step 1 iteration')
    until_(b, merge .. ' && ' .. merge .. '.querySelector("text").textContent', 'Merge i')
    b:eval(inside .. '.querySelector("#layer").click()')
    until_(b, inside .. '.querySelectorAll(".frame").length === 1 && ' .. merge .. ' === null', true)
    p.say(':continue')
    until_(b, inside .. '.querySelector("[data-next]") === null', true)
    assert.equal('true', b:eval(inside .. '.querySelector("#layer").getAttribute("aria-pressed")'))
    assert.same({}, b.complaints)
    p.say(':serve off')
    until_(b, 'document.querySelector("#state").textContent', 'over')
  end)
end)
