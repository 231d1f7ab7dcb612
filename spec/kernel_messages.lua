--- kernel_messages.lua: a notebook's requests, well formed and hostile, to the kernel as it is; only its sockets are played here.
--
--   dflow spec/kernel_messages.lua COUNT [SEED]
--
-- Each request whose header and content are objects gets one reply, of its kind, with a status, between busy and idle; nothing else does.
-- It prints `N messages, N replies, N errors, N bad`, and fails if there are bad ones.
local core = require 'dflow.backend'
local json = require 'dflow.exchange.json'
local chance = require 'spec.chance'
local forms = require 'spec.fuzz_forms'
local draw = chance.draw

local count, out, name = tonumber(arg[1]), io.stdout, os.tmpname()
chance.set(tonumber(arg[2]) or 1)

local requests = {
  kernel_info = {}, comm_info = { target_name = 'x' }, interrupt = {}, history = { hist_access_type = 'range', output = false, raw = true, session = 0 },
  execute = { code = 'x = 1 + 1\nreturn x', silent = false, store_history = true, user_expressions = {}, allow_stdin = false, stop_on_error = true },
  complete = { code = 'df.mat', cursor_pos = 6 }, inspect = { code = 'df.matmul', cursor_pos = 9, detail_level = 0 }, is_complete = { code = 'for i = 1, 3 do' },
}
local kinds = {}
for kind in pairs(requests) do kinds[#kinds + 1] = kind end
table.sort(kinds)

-- ---- the sockets ---------------------------------------------------------------------------------------------------------
local sent, asked, replies, errors, bad = {}, 0, 0, 0, {}
local waiting                                                -- of the last message: the reply's kind, or false for none

local function hmac(...) return ('%08x'):format(core.crc32c(table.concat({ ... }, '\1'))) end

--- What came of the last message.
local function look(text)
  local answers, states, why = {}, {}, nil
  for _, frames in ipairs(sent) do
    local header, content = json.decode(frames[#frames - 3]), json.decode(frames[#frames])
    if header.msg_type == 'status' then states[#states + 1] = content.execution_state
    elseif header.msg_type:find '_reply$' then answers[#answers + 1] = { header.msg_type, content.status } end
  end
  if waiting == false then why = (#answers > 0 or #states > 0) and 'it was answered' or nil
  elseif waiting == nil then why = #answers > 0 and 'it is no request, and got a reply' or nil
  elseif #answers ~= 1 or answers[1][1] ~= waiting then why = ('%d replies, the first is %s'):format(#answers, tostring(answers[1] and answers[1][1]))
  elseif answers[1][2] ~= 'ok' and answers[1][2] ~= 'error' and waiting ~= 'is_complete_reply' then why = 'the status is ' .. tostring(answers[1][2])
  elseif table.concat(states, ' ') ~= 'busy idle' then why = 'it was ' .. table.concat(states, ' ') end
  replies, errors = replies + #answers, errors + (answers[1] and answers[1][2] == 'error' and 1 or 0)
  if why then bad[#bad + 1] = text .. '\n  ' .. why end
  sent = {}
end

local last
local function next_frames()
  if last then look(last) end
  if asked == count then
    last = nil
    return true
  end
  asked = asked + 1
  local kind = chance.one_of(kinds)
  local header = { msg_id = 'm' .. asked, session = 's', username = 'u', date = '2026', msg_type = kind .. '_request', version = '5.3' }
  local content = requests[kind]
  for _ = 1, draw(4) do content = forms.value(content) end
  if draw(10) == 0 then header = forms.value(header) end
  local parts = { json.encode(header), '{}', '{}', json.encode(content) }
  local frames = { 'someone', '<IDS|MSG>', hmac('k', parts[1], parts[2], parts[3], parts[4]), parts[1], parts[2], parts[3], parts[4] }
  local fits = type(header) == 'table' and type(content) == 'table' and header ~= json.null and content ~= json.null
  waiting = false
  if fits then
    waiting = nil
    for _, one in ipairs(kinds) do if header.msg_type == one .. '_request' then waiting = one .. '_reply' end end
  end
  if draw(20) == 0 then
    table.remove(frames, draw(#frames - 1) + 2)
    waiting = false
  end
  last = parts[1] .. ' ' .. parts[4]
  return frames
end

local socket = {}
socket.__index = socket
function socket.send(_, frames) sent[#sent + 1] = frames end
function socket:receive() return table.remove(self, 1) end
local shell, control

local function nothing() return '', '' end
package.loaded['dflow.sockets'] = {
  hmac = hmac, heartbeat = nothing, capture = nothing, captured = nothing, so_far = nothing, ignore_interrupts = nothing,
  orphaned = function() return false end,
  bind = function()
    local one = setmetatable({}, socket)
    if not shell then shell = one elseif not control then control = one end
    return one
  end,
  poll = function()
    local frames = next_frames()
    if frames ~= true then
      shell[1] = frames
      return 2
    end
    local header = json.encode{ msg_type = 'shutdown_request' }
    control[1] = { '<IDS|MSG>', hmac('k', header, '{}', '{}', '{}'), header, '{}', '{}', '{}' }
    return 1
  end,
}

local f = assert(io.open(name, 'w'))
f:write '{"key":"k","shell_port":0,"iopub_port":0,"stdin_port":0,"control_port":0,"hb_port":0}'
f:close()
local ok, why = pcall(require 'dflow.command.kernel', name)
os.remove(name)
if not ok then bad[#bad + 1] = ('%s\n  the kernel ended: %s'):format(tostring(last), tostring(why)) end
for i = 1, math.min(#bad, 10) do out:write(bad[i], '\n') end
out:write(('%d messages, %d replies, %d errors, %d bad\n'):format(asked, replies, errors, #bad))
os.exit(#bad == 0 and asked == count, true)
