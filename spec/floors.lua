--- The floors of runtime/: which folder may include which. A file includes from its own folder and from those before it,
-- never from one above; no header includes itself by way of others; kernels/ knows dflow.h and nothing else of runtime/.
--
--   lua5.4 spec/floors.lua        in the top folder: lists what breaks this, and the lines of C of more than 120
--                                 characters, and fails if there is anything
local M = {}

-- From the ground up. runtime/README.md says what each is.
M.order = {
  'base', 'device', 'op', 'graph', 'resource', 'ops', 'gradient', 'plan', 'engine', 'inspect', 'session', 'cluster', 'check', 'tensorflow',
}
-- The folders of runtime/engine/, from the ground up.
M.engine = { 'tokens', 'clock', 'memory', 'owners', 'observe', 'cudagraph', 'persistent', 'native' }

local function files()
  local list, pipe = {}, assert(io.popen("find runtime kernels interp -name '*.[ch]' | sort"))
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

--- The project's own includes of a file, as paths from the top folder; a path that is not found stays as it is written.
local function includes(path, exists)
  local list = {}
  for line in io.lines(path) do
    local name = line:match('^#include "([^"]+)"')
    if name then
      local beside = path:gsub('[^/]+$', '') .. name
      repeat
        local shorter, n = beside:gsub('[^/]+/%.%./', '', 1)
        beside = shorter
      until n == 0
      for _, candidate in ipairs{ beside, 'runtime/' .. name, name } do
        if exists[candidate] then name = candidate break end
      end
      list[#list + 1] = name
    end
  end
  return list
end

--- Is there a way from header `path` back to itself? Returns it as text.
local function circle(path, of, way, seen)
  for _, next_path in ipairs(of[path] or {}) do
    if next_path == way[1] then return table.concat(way, ' -> ') .. ' -> ' .. next_path end
    if not seen[next_path] then
      seen[next_path] = true
      way[#way + 1] = next_path
      local found = circle(next_path, of, way, seen)
      if found then return found end
      way[#way] = nil
    end
  end
end

--- What is wrong, a line each. Empty: nothing.
function M.check()
  local level, exists, of, wrong, engine = {}, {}, {}, {}, {}
  for _, name in ipairs(M.engine) do engine[name] = true end
  for i, name in ipairs(M.order) do level[name] = i end
  local all = files()
  for _, path in ipairs(all) do exists[path] = true end
  for _, path in ipairs(all) do
    of[path] = includes(path, exists)
    local here = path:match('^runtime/([^/]+)/')
    if here and not level[here] then wrong[#wrong + 1] = path .. ': spec/floors.lua does not know the folder ' .. here end
    local part = path:match('^runtime/engine/([^/]+)/')
    if part and not engine[part] then wrong[#wrong + 1] = path .. ': spec/floors.lua does not know the folder engine/' .. part end
    for _, other in ipairs(of[path]) do
      local there = other:match('^runtime/([^/]+)/')
      if here and there and level[here] and level[there] and level[there] > level[here] then
        wrong[#wrong + 1] = ('%s: includes %s, and %s is above %s'):format(path, other, there, here)
      elseif path:find('^kernels/') and (there or other:find('^interp/')) then
        wrong[#wrong + 1] = ('%s: includes %s; kernels know runtime/dflow.h alone'):format(path, other)
      elseif path:find('^interp/') and there then
        wrong[#wrong + 1] = ('%s: includes %s; the program and the bindings know runtime/dflow.h alone'):format(path, other)
      end
    end
  end
  for _, path in ipairs(all) do
    local found = path:find('%.h$') and circle(path, of, { path }, {})
    if found then wrong[#wrong + 1] = found end
  end
  return wrong
end

-- Text that is another language's, laid out as it is there.
local wide = { ['spec/fuzz_graphs.c'] = true }

--- Lines of C and CUDA of more than 120 characters, `file:line` each.
function M.long_lines()
  local long = {}
  local pipe = assert(io.popen("find runtime kernels interp spec -name '*.[ch]' -o -name '*.cu' | sort"))
  for path in pipe:lines() do
    local n = 0
    for line in io.lines(path) do
      n = n + 1
      local _, more = line:gsub('[\128-\191]', '')     -- the further bytes of a UTF-8 character
      if #line - more > 120 and not wide[path] then long[#long + 1] = ('%s:%d: %d characters'):format(path, n, #line - more) end
    end
  end
  pipe:close()
  return long
end

if arg and arg[0] and arg[0]:find('floors%.lua$') then
  local wrong = M.check()
  for _, line in ipairs(M.long_lines()) do wrong[#wrong + 1] = line end
  for _, line in ipairs(wrong) do print(line) end
  os.exit(#wrong == 0)
end
return M
