--- Running programs from specs: what they print, what they complain about, how they end.
local M = {}

M.build = os.getenv('DFLOW_BUILD') or 'build/release'
M.dflow = M.build .. '/dflow'
--- The interpreter of this very run of the specs.
M.lua = rawget(_G, 'jit') and 'luajit' or M.dflow

function M.write(path, text)
  local f = assert(io.open(path, 'wb'))
  assert(f:write(text))
  f:close()
end

--- What is in a file; nil: there is none.
function M.read(path)
  local f = io.open(path, 'rb')
  local text = f and f:read('*a')
  if f then f:close() end
  return text
end

--- Runs `command` in a shell, with `input` as its standard input.
-- @return {out=, err=, status=}
function M.run(command, input)
  local base = os.tmpname()
  M.write(base, input or '')
  os.execute(('( %s ) <%s >%s.out 2>%s.err; echo $? >%s.status'):format(command, base, base, base, base))
  os.remove(base)
  local function told(what)
    local text = assert(M.read(base .. what))
    os.remove(base .. what)
    return text
  end
  return { out = told '.out', err = told '.err', status = tonumber(told '.status') }
end

--- What `command` prints, errors aside; and its lines.
function M.output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read '*a'
  pipe:close()
  return text
end
function M.lines(command)
  local list, pipe = {}, assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

--- The lines of a text, sorted: of programs that print in any order.
function M.sorted_lines(text)
  local list = {}
  for line in text:gmatch '[^\n]+' do list[#list + 1] = line end
  table.sort(list)
  return list
end

--- Runs `command -e chunk` and sends it a signal when the chunk has called `ready()`, however long that takes on this machine.
-- @return as run
function M.interrupted(signal, command, chunk)
  local ready = os.tmpname()
  os.remove(ready)
  local text = ("local function ready() io.open('%s', 'w'):close() end %s"):format(ready, chunk)
  local r = M.run(([[env --default-signal=%s %s -e %s <&0 & p=$!
    until [ -e %s ] || ! kill -0 $p 2>/dev/null; do sleep 0.02; done
    sleep 0.05; kill -%s $p 2>/dev/null
    { wait $p; } 2>/dev/null]]):format(signal, command, M.quote(text), ready, signal))
  os.remove(ready)
  return r
end

--- The setting of a shell in which `make` builds as this build was made: with another mode or compiler it would compile all anew.
function M.as_built()
  local compiler = M.read(M.build .. '/flags'):match '^(.-) %-std='
  return ("export MAKEFLAGS='-- MODE=%s CC=%s'; "):format(M.build:match '[^/]*$', (compiler:gsub(' ', '\\ ')))
end

--- A word of a shell command, quoted.
function M.quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

return M
