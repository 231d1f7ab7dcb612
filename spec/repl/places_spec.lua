--- Where an op is defined, as `:source` says: at each place told stands what the op's entry names.
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
local function lines_of(path)
  if not files[path] then
    files[path] = {}
    for line in (shell.read(path) or ''):gmatch '([^\n]*)\n' do table.insert(files[path], line) end
  end
  return files[path]
end

--- The line of a place, the file's lines and the number.
local function at(place)
  local path, number = place:match '^(.*):(%d+)$'
  local lines = lines_of(path)
  return assert(lines[tonumber(number)], place .. ' is no line'), lines, tonumber(number), path
end

--- The text of an entry: from its line to where the next one begins.
local function entry_of(place)
  local first, lines, n = at(place)
  local text = { first }
  while lines[n + 1] and #text < 60 and not lines[n + 1]:find '%.type = ' and not lines[n + 1]:find '^};' and not lines[n + 1]:find '^  %u[%u%d_]*%("' do
    n = n + 1
    text[#text + 1] = lines[n]
  end
  local macro = first:match '^%s+(%u[%u%d_]*)%('                             -- what it is made of
  for i, line in ipairs(lines) do
    if macro and line:find('#define ' .. macro .. '(', 1, true) then
      repeat text[#text + 1], i = lines[i], i + 1 until not lines[i - 1]:find '\\$'
    end
  end
  return table.concat(text, '\n')
end

local FOLDER = { shapes = '^runtime/', gradient = '^runtime/', reference = '^[kr][eu][rn][nt][ei][lm][se]/?r?e?f?', cpu = '^[kr][eu][rn][nt][ei][lm][se]/?c?p?u?' }
local BEGINS = { shapes = 'shape_', gradient = 'grad', reference = 'ref_', cpu = 'cpu_' }

describe('the places of an op', function()
  local count = { entry = 0, shapes = 0, gradient = 0, reference = 0, cpu = 0 }

  it('are its entry, and functions that the entry names', function()
    for _, name in ipairs(registry.types()) do
      local place = sources.of(name, names_in)
      assert.is_truthy(place and place.entry, name)
      local line = at(place.entry)
      local fits = false
      for word in line:gmatch '"(%w+)"' do fits = fits or name:sub(-#word) == word or name:gsub('V%d$', '') == word end
      assert.is_true(fits, name .. ': ' .. line)
      count.entry = count.entry + 1
      local entry = entry_of(place.entry)
      for _, role in ipairs(sources.roles) do
        if place[role] then
          count[role] = count[role] + 1
          local text, _, _, path = at(place[role])
          assert.matches(FOLDER[role], path)
          assert.is_falsy(text:find ';%s*$' and not text:find '^%u' and not text:find '{', name .. ': declared, not defined: ' .. text)
          local named = false
          for word in text:gmatch '[%a_][%w_]*' do
            local bare = word:gsub('^ref_', ''):gsub('^cpu_', ''):gsub('^grad_', '')
            if #bare > 1 then named = named or entry:find('%f[%w_]' .. word .. '%f[^%w_]') or entry:find('%f[%w]' .. bare .. '%f[^%w_]') end
          end
          assert.is_truthy(named, ('%s: its entry names nothing of %s: %s\n%s'):format(name, role, text, entry))
        end
      end
    end
  end)

  it('are there for what most ops have', function()
    local types = #registry.types()
    assert.equal(types, count.entry)
    assert.is_true(count.reference > 0.8 * types, count.reference)
    assert.is_true(count.cpu > 150, count.cpu)
    assert.is_true(count.gradient > 150, count.gradient)
    assert.is_true(count.shapes > 300, count.shapes)
  end)

  it('are each function that an entry names by what it is', function()
    local defined = {}
    for line in shell.run("grep -rhE '^[a-z].*[a-z_0-9]+\\([^;]*$|^[a-z].*[a-z_0-9]+\\(.*\\{' runtime kernels/ref kernels/cpu --include=*.c").out:gmatch '[^\n]+' do
      local word = line:match '^[%a][%w_ %*]-([%w_]+)%('
      if word then defined[word] = true end
    end
    local met = 0
    for _, name in ipairs(registry.types()) do
      local place = sources.of(name, names_in)
      local own = at(place.entry):find '%.type = "' and entry_of(place.entry):gsub('"[^"]*"', '') or ''
      for role, prefix in pairs(BEGINS) do
        local word = own:match('%f[%w_]' .. prefix .. '[%w_]+')
        if defined[word] and not own:find('#define', 1, true) then
          met = met + 1
          assert.is_truthy(place[role], ('%s names %s, and has no %s'):format(name, word, role))
        end
      end
    end
    assert.is_true(met > 300, met)
  end)
end)
