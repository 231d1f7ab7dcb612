--- Running programs from specs: what they print, what they complain about, how they end.
local M = {}

M.build = os.getenv('DFLOW_BUILD') or 'build/release'
M.dflow = M.build .. '/dflow'
--- The interpreter of this very run of the specs.
M.lua = rawget(_G, 'jit') and 'luajit' or M.dflow

local function contents(path)
  local f = assert(io.open(path, 'rb'))
  local text = f:read('*a')
  f:close()
  os.remove(path)
  return text
end

function M.write(path, text)
  local f = assert(io.open(path, 'wb'))
  f:write(text)
  f:close()
end

--- Runs `command` in a shell, with `input` as its standard input.
-- @return {out=, err=, status=}
function M.run(command, input)
  local base = os.tmpname()
  M.write(base, input or '')
  os.execute(('( %s ) <%s >%s.out 2>%s.err; echo $? >%s.status'):format(command, base, base, base, base))
  os.remove(base)
  return {
    out = contents(base .. '.out'),
    err = contents(base .. '.err'),
    status = tonumber(contents(base .. '.status')),
  }
end

--- A word of a shell command, quoted.
function M.quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

return M
