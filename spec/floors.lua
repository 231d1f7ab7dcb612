--- The layers of runtime/: which folder may include and call which. A file includes from its own folder and from those
-- before it, never from one above; no header includes itself by way of others; kernels/ knows dflow.h and nothing else of
-- runtime/. Objects call downwards, too, but for the interfaces in M.interfaces.
--
--   lua5.4 spec/floors.lua        in the top folder: lists what breaks this, and the lines of C of more than 120
--                                 characters, and fails if there is anything. Calls are those of build/debug, or of
--                                 build/release where that is missing
local M = {}

-- From the ground up. runtime/README.md says what each is.
M.order = {
  'base', 'device', 'op', 'graph', 'resource', 'ops', 'gradient', 'plan', 'engine', 'inspect', 'session', 'cluster', 'check', 'tensorflow',
}
-- The folders of runtime/engine/, from the ground up; the headers beside them are below all.
M.engine = { 'clock', 'tokens', 'memory', 'owners', 'observe', 'run', 'cudagraph', 'persistent', 'native', 'wiring' }
-- Symbols that a folder may call in one above it, each with the header that declares what lower folders ask for.
M.interfaces = {
  { '^dfk_', 'kernels/kernel.h: what kernels, and functions on their behalf, ask of the runtime' },
  { '^dfi_run_', 'op/run.h: what a kernel asks of its run' },
  { '^dfg_', 'graph/grad.h: what gradient functions ask of reverse mode' },
  { '^dfi_ops_', 'op/registry.c: the families of entries, a table each' },
  { '^dfi_service$', 'engine/services.h: what folders of the engine ask of those above them' },
}

--- The lines that a command prints.
local function lines_of(command)
  local list, pipe = {}, assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end
M.lines_of = lines_of

--- The place of each folder, from the ground up: runtime/'s by name, those of runtime/engine/ as `engine/clock`.
function M.levels()
  local level, n = {}, 0
  for _, name in ipairs(M.order) do
    n = n + 1
    level[name] = n
    for _, part in ipairs(name == 'engine' and M.engine or {}) do
      n = n + 1
      level['engine/' .. part] = n
    end
  end
  return level
end

--- The folder of a path, as M.levels has it; nil outside of runtime/.
local function layer(path)
  local below = path:match 'runtime/(.*)$' or ''
  return below:match '^(engine/%w+)/' or below:match '^(%w+)/'
end

local function is_interface(symbol)
  for _, i in ipairs(M.interfaces) do if symbol:find(i[1]) then return true end end
  return false
end

--- The symbols that objects of runtime/ call in a layer above theirs: {caller, symbol, where it is} each; nil where nothing is built.
function M.upward(build)
  local level, home, wanted, list, built = M.levels(), {}, {}, {}, false
  for _, line in ipairs(lines_of(('nm -A %s/runtime/*/*.o %s/runtime/*/*/*.o 2>/dev/null'):format(build, build))) do
    local object, kind, symbol = line:match '^(.-%.o):%x* *(%a) ([%w_]+)'
    local file = object and io.open((object:match 'runtime/.*%.o$':gsub('o$', 'c')))     -- else it is left from an earlier build
    if file then
      file:close()
      built = true
      if kind == 'U' then wanted[#wanted + 1] = { object, symbol }
      elseif kind:find '[TDBRV]' then home[symbol] = layer(object) end
    end
  end
  for _, w in ipairs(wanted) do
    local here, there = layer(w[1]), home[w[2]]
    if there and level[there] > level[here] and not is_interface(w[2]) then list[#list + 1] = { w[1]:match '/runtime/(.*)%.o$', w[2], there } end
  end
  return built and list or nil
end

local function files() return lines_of "find runtime kernels interp -name '*.[ch]' | sort" end

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

--- What is wrong with the includes, a line each. Empty: nothing.
function M.check()
  local level, exists, of, wrong = M.levels(), {}, {}, {}
  local all = files()
  for _, path in ipairs(all) do exists[path] = true end
  for _, path in ipairs(all) do
    of[path] = includes(path, exists)
    local here = layer(path)
    if here and not level[here] then wrong[#wrong + 1] = path .. ': spec/floors.lua does not know the folder ' .. here end
    for _, other in ipairs(of[path]) do
      local there = layer(other)
      if level[here] and level[there] and level[there] > level[here] then
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

--- Lines of C, CUDA and stdlib/ of more than 120 characters, `file:line` each. A text between long brackets is laid out as what it is.
function M.long_lines()
  local long = {}
  local pipe = assert(io.popen("find runtime kernels interp spec -name '*.[ch]' -o -name '*.cu' | sort; find stdlib -name '*.lua' | sort"))
  for path in pipe:lines() do
    local n, text = 0, false
    for line in io.lines(path) do
      n = n + 1
      local inside = text
      if path:find '%.lua$' then
        if text then text = not line:find(text, 1, true) and text
        elseif not line:find '^%s*%-%-' then
          local from, to, level = line:find '%[(=*)%['
          local ends = from and ']' .. level .. ']'
          text = from and not line:find(ends, to + 1, true) and ends
        end
      end
      local _, more = line:gsub('[\128-\191]', '')     -- the further bytes of a UTF-8 character
      if #line - more > 120 and not inside and not text and not wide[path] then long[#long + 1] = ('%s:%d: %d characters'):format(path, n, #line - more) end
    end
  end
  pipe:close()
  return long
end

if arg and arg[0] and arg[0]:find('floors%.lua$') then
  local wrong = M.check()
  for _, call in ipairs(M.upward 'build/debug' or M.upward 'build/release' or {}) do
    wrong[#wrong + 1] = ('runtime/%s.c: calls %s, which is above it in %s'):format(call[1], call[2], call[3])
  end
  for _, line in ipairs(M.long_lines()) do wrong[#wrong + 1] = line end
  for _, line in ipairs(wrong) do print(line) end
  os.exit(#wrong == 0)
end
return M
