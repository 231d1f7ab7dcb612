--- `dflow --check script.lua…`: looks at scripts without running them.
local conditions = require 'dflow.check.conditions'

--- Prints what is wrong or doubtful in each file; true when nothing is.
return function(...)
  local good = true
  local paths = { ... }
  if #paths == 0 then
    io.stderr:write('dflow: --check needs a script\n')
    return false
  end
  for _, path in ipairs(paths) do
    local file, why = io.open(path, 'rb')
    local text = file and file:read('*a')
    if file then file:close() end
    local chunk, wrong
    if text then
      text = text:gsub('^#[^\n]*', '')
      chunk, wrong = load(text, '@' .. path, 't')
    else
      wrong = why or path .. ': cannot be read'
    end
    if not chunk then
      io.stderr:write('dflow: ', wrong, '\n')
      good = false
    else
      for _, w in ipairs(conditions.find(text, true)) do
        io.stdout:write(('%s:%d: warning: %s\n'):format(path, w.line, w.message))
        good = false
      end
    end
  end
  return good
end
