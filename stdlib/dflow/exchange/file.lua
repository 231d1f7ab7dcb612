--- Files that are written whole.
local errors = require 'dflow.front.errors'

local M = {}

--- Writes the strings, one after another, to a new file; an error is raised where the disk does not take them all.
function M.write(path, ...)
  local file, why = io.open(path, 'wb')
  if not file then errors.raise('permission_denied', 'cannot write %s', why) end
  local ok, reason = true, nil
  for i = 1, select('#', ...) do
    ok, reason = file:write((select(i, ...)))
    if not ok then break end
  end
  local closed, last = file:close()
  if not ok or not closed then errors.raise('resource_exhausted', 'cannot write %s: %s', path, reason or last) end
end

return M
