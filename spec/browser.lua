--- A page in headless Chromium, without a network: keys, clicks, what the document says, what it looks like.
--
--   local browser = require 'spec.browser'
--   local b = browser.open('/tmp/run.html', { width = 1280, height = 800, dark = true })
--   b:key('ArrowRight'):click('#play')
--   assert.equal('2 of 40', b:eval 'document.querySelector("#count").textContent')
--   assert.same({}, b.complaints)                    errors, warnings, and whatever else it tried to load
--   b:close()
--
-- It speaks the DevTools protocol over two pipes: JSON messages, each with a zero byte behind it.
local shell = require 'spec.shell'
local json = require 'dkjson'

local M = {}
local NAMES = { 'chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome' }

local found
--- The browser's command; nil where there is none.
function M.available()
  if found == nil then
    found = shell.run(('command -v %s | head -n 1'):format(table.concat(NAMES, ' '))).out:match('%S+') or false
  end
  return found or nil
end

local Browser = {}
Browser.__index = Browser

local function hear(b)
  local parts = {}
  while true do
    local c = b.from:read(1)
    if not c then error('the browser has gone: ' .. shell.run(('tail -n 3 %s/err'):format(b.folder)).out, 0) end
    if c == '\0' then return json.decode(table.concat(parts)) end
    parts[#parts + 1] = c
  end
end

local function note(b, m)
  local p = m.params
  if m.method == 'Runtime.exceptionThrown' then
    table.insert(b.complaints, p.exceptionDetails.exception and p.exceptionDetails.exception.description or p.exceptionDetails.text)
  elseif m.method == 'Log.entryAdded' then
    table.insert(b.complaints, p.entry.text)
  elseif m.method == 'Runtime.consoleAPICalled' then
    table.insert(b.complaints, ('console.%s: %s'):format(p.type, tostring(p.args[1] and p.args[1].value)))
  elseif m.method == 'Network.requestWillBeSent' and p.request.url ~= b.url and p.request.url:sub(1, 5) ~= 'data:' and not (b.online and p.request.url:sub(1, #b.url) == b.url) then
    table.insert(b.complaints, 'it asked for ' .. p.request.url)
  end
end

--- Sends a command and gives its result; what happens meanwhile is noted. Waits for the event `for_` too, where one is named.
function Browser:send(method, params, for_)
  self.serial = self.serial + 1
  self.to:write(json.encode{ id = self.serial, method = method, params = params, sessionId = self.session or nil }, '\0')
  self.to:flush()
  local result
  while not result or for_ do
    local m = hear(self)
    if m.id == self.serial then
      if m.error then error(('%s: %s'):format(method, m.error.message), 2) end
      result = m.result
    elseif m.method then
      note(self, m)
      if m.method == for_ then for_ = nil end
    end
  end
  return result
end

--- Opens a file, or an address on this machine; all else stays out of reach. opts: width = 1280, height = 800, dark = false.
function M.open(path, opts)
  opts = opts or {}
  local b = setmetatable({ serial = 0, complaints = {}, folder = os.tmpname() .. '.browser' }, Browser)
  local q = shell.quote(b.folder)
  -- Whatever becomes of the specs, the browser ends when its time is over.
  os.execute(('mkdir %s && mkfifo %s/to %s/from'):format(q, q, q))
  os.execute(('HOME=%s timeout 120 %s --headless --no-sandbox --disable-gpu --hide-scrollbars '
    .. '--no-first-run --disable-background-networking --disable-dev-shm-usage --host-resolver-rules="MAP * ~NOTFOUND , EXCLUDE 127.0.0.1" --user-data-dir=%s/profile '
    .. '--remote-debugging-pipe about:blank 3<%s/to 4>%s/from >%s/out 2>%s/err &'):format(q, M.available(), q, q, q, q, q))
  b.to = assert(io.open(b.folder .. '/to', 'w'))
  b.from = assert(io.open(b.folder .. '/from', 'r'))
  local target = b:send('Target.createTarget', { url = 'about:blank' }).targetId
  b.session = b:send('Target.attachToTarget', { targetId = target, flatten = true }).sessionId
  for _, domain in ipairs{ 'Page', 'Runtime', 'Log', 'Network' } do b:send(domain .. '.enable') end
  b.online = path:find('^http://127%.0%.0%.1:') ~= nil
  b:send('Network.emulateNetworkConditions', { offline = not b.online, latency = 0, downloadThroughput = -1, uploadThroughput = -1 })
  b:size(opts.width or 1280, opts.height or 800):dark(opts.dark or false)
  return b:go(path)
end

--- Another file, or the same anew; `mark` stands behind its address.
function Browser:go(path, mark)
  self.url = self.online and path or 'file://' .. path
  self.complaints = {}
  if mark then self:send('Page.navigate', { url = 'about:blank' }, 'Page.loadEventFired') end
  self:send('Page.navigate', { url = self.url .. (mark or '') }, 'Page.loadEventFired')
  return self
end

function Browser:size(width, height)
  self:send('Emulation.setDeviceMetricsOverride', { width = width, height = height, deviceScaleFactor = 1, mobile = false })
  return self
end

function Browser:dark(yes)
  self:send('Emulation.setEmulatedMedia', { features = { { name = 'prefers-color-scheme', value = yes and 'dark' or 'light' } } })
  return self
end

--- The value of an expression, by way of JSON.
function Browser:eval(expression)
  local r = self:send('Runtime.evaluate', { expression = expression, returnByValue = true, awaitPromise = true })
  if r.exceptionDetails then error(r.exceptionDetails.exception and r.exceptionDetails.exception.description or r.exceptionDetails.text, 2) end
  return r.result.value
end

local codes = { Escape = 27, ArrowLeft = 37, ArrowUp = 38, ArrowRight = 39, ArrowDown = 40, Home = 36, End = 35, Tab = 9, Enter = 13, [' '] = 32, PageUp = 33, PageDown = 34 }

--- Presses a key by its DOM name, with shift held or not.
function Browser:key(key, shift)
  local code = codes[key] or key:upper():byte()
  local p = { key = key, code = key == ' ' and 'Space' or codes[key] and key or 'Key' .. key:upper(), windowsVirtualKeyCode = code, modifiers = shift and 8 or 0 }
  p.type, p.text = 'keyDown', key == ' ' and ' ' or key == 'Enter' and '\r' or not codes[key] and key or nil
  self:send('Input.dispatchKeyEvent', p)
  p.type, p.text = 'keyUp', nil
  self:send('Input.dispatchKeyEvent', p)
  return self
end

--- Clicks into the middle of the first element that a selector finds, or at a part of its width and height.
function Browser:click(selector, across, down)
  local at = self:eval(('(() => { const e = document.querySelector(%s); if (!e) return null; e.scrollIntoView({ block: "nearest" });'
    .. 'const r = e.getBoundingClientRect(); return [r.x + r.width * %g, r.y + r.height * %g] })()'):format(json.encode(selector), across or 0.5, down or 0.5))
  if not at then error(('there is no %s on the page'):format(selector), 2) end
  for _, kind in ipairs{ 'mousePressed', 'mouseReleased' } do
    self:send('Input.dispatchMouseEvent', { type = kind, x = at[1], y = at[2], button = 'left', clickCount = 1 })
  end
  return self
end

--- The whole document as it is now.
function Browser:dom() return self:eval 'document.documentElement.outerHTML' end

local digits = {}
for i = 0, 63 do digits[('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'):byte(i + 1)] = i end
local function from_base64(s)
  local parts = {}
  for a, b, c, d in s:gmatch('(.)(.)(.)(.)') do
    local n = (digits[a:byte()] * 64 + digits[b:byte()]) * 4096 + (digits[c:byte()] or 0) * 64 + (digits[d:byte()] or 0)
    parts[#parts + 1] = string.char(math.floor(n / 65536), math.floor(n / 256) % 256, n % 256):sub(1, c == '=' and 1 or d == '=' and 2 or 3)
  end
  return table.concat(parts)
end

--- A picture of it, as a PNG file.
function Browser:picture(path)
  shell.write(path, from_base64(self:send('Page.captureScreenshot', { format = 'png' }).data))
  return self
end

function Browser:close()
  self.to:close()                                -- which is how it hears that it may go
  while self.from:read(4096) do end
  self.from:close()
  os.execute(('for i in 1 2 3 4 5; do rm -rf %s 2>/dev/null && break; sleep 0.2; done'):format(shell.quote(self.folder)))
end

return M
