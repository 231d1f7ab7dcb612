--- dflow's own modules load from where dflow is installed, whatever lies in the current folder.
--
-- Lua's searchers try package.path, in which `./?.lua` stands by default, before they look for a module in C, and for
-- one that was not built (`dflow.pages`, `dflow.sockets`) or that only an installation has (`dflow.docs.places`). A
-- file `dflow/pages.lua` in the folder where the program is called would be run. So a searcher of ours comes first for
-- names that begin with `dflow.`.
-- as backend/interpreted.lua
if rawget(_G, 'jit') and jit.version:find('beta', 1, true) then jit.off(true, true) end
local home = debug.getinfo(1, 'S').source:match('^@(.*)dflow/own%.lua$')
local M = { home = home }

-- Not from package.path: in C, or not there in every installation. `dflow.program` is only in the program itself, which
-- has it loaded.
local ELSEWHERE = {
  ['dflow.core'] = 'c', ['dflow.pages'] = 'c', ['dflow.sockets'] = 'c', ['dflow.program'] = 'none',
  ['dflow.docs.places'] = 'lua', ['dflow.libpath'] = 'lua',
}

--- The file of module `name`; nil: it is not there.
function M.path(name) return home and package.searchpath(name, home .. '?.lua') end

--- package.cpath without the current folder, which is in it by default.
local function cpath()
  local kept = {}
  for template in package.cpath:gmatch '[^;]+' do
    if not template:find '^%./%?' and not template:find '^%./loadall' then kept[#kept + 1] = template end
  end
  return table.concat(kept, ';')
end

local function load_own(name)
  if not home or name:sub(1, 6) ~= 'dflow.' then return nil end
  local kind = ELSEWHERE[name]
  if kind == 'c' then
    local path, why = package.searchpath(name, cpath())
    if not path then error(("module '%s' is not built here:%s"):format(name, why), 0) end
    return assert(package.loadlib(path, 'luaopen_' .. name:gsub('%.', '_'))), path
  end
  local path, why = M.path(name)
  if path then
    local chunk, message = loadfile(path)
    if not chunk then error(("error loading module '%s' from file '%s':\n\t%s"):format(name, path, message), 0) end
    return chunk, path
  end
  if kind then error(("module '%s' is not here"):format(name), 0) end
  return why
end

-- Behind what is preloaded.
table.insert(package.searchers or package.loaders, 2, load_own)
return M
