--- Where an op is defined, as `:source` says: of each op the functions that stand at the places told, as spec/pages/places.txt has them.
local pages = require 'spec.pages'
local registry = require 'dflow.front.registry'
local shell = require 'spec.shell'
local sources = require 'dflow.docs.sources'

--- The names in a folder, as the program's own function gives them.
local function names_in(path)
  local list = {}
  for name in shell.run(('ls %s'):format(path)).out:gmatch '[^\n]+' do list[#list + 1] = name end
  return list
end

local files = {}
local function line_at(place)
  local path, at = place:match '^(.*):(%d+)$'
  if not files[path] then
    files[path] = {}
    for line in (shell.read(path) or ''):gmatch '([^\n]*)\n' do table.insert(files[path], line) end
  end
  return path, files[path][tonumber(at)] or 'no such line'
end

describe('the places of an op', function()
  it('are its entry, its functions of shapes and gradients, and its kernels', function()
    local told = {}
    for _, name in ipairs(registry.types()) do
      local place, roles = sources.of(name, names_in), {}
      for _, role in ipairs(sources.roles) do
        if place[role] then
          local path, line = line_at(place[role])
          roles[#roles + 1] = ('%s %s: %s'):format(role, path, line:match '([%w_]+)%(.*' or line)
        end
      end
      local path, line = line_at(place.entry)
      told[#told + 1] = ('%s: %s: %s'):format(name, path, line:match '"[%w_]*' or line) .. (roles[1] and '\n  ' .. table.concat(roles, '\n  ') or '')
    end
    pages.same('places.txt', table.concat(told, '\n') .. '\n')
  end)
end)
