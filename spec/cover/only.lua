--- only.lua: read by busted before the specs that a mutant is shown to: of each file only the tests that DFLOW_ONLY names, a line
-- "path<tab>full name" each, or "path<tab>" for all of a file; "!path<tab>full name" leaves one away.
require 'spec.tidy'
local busted = require 'busted'
local full_name = require 'spec.cover.names'
local wanted = {}
for line in io.lines(os.getenv 'DFLOW_ONLY') do wanted[line] = true end

for _, kind in ipairs{ 'it', 'pending' } do
  busted.subscribe({ 'register', kind }, function(name)
    local full, path = full_name(name)
    local key = path .. '\t' .. full
    return nil, (wanted[key] or wanted[path .. '\t']) and not wanted['!' .. key] or false
  end, { priority = 1 })
end
