-- What the README shows is what happens.
local shell = require 'spec.shell'

local function readme()
  local f = assert(io.open('README.md'))
  local text = f:read('*a')
  f:close()
  return text
end

describe('the README', function()
  local function is_real(shown)
    local input = {}
    for line in shown:gmatch('[^\n]+') do
      local typed = line:match('^dflow> (.*)') or line:match('^  %.%.%. (.*)')
      if typed then input[#input + 1] = typed end
    end
    local r = shell.run(shell.dflow .. ' -E -i 2>&1', table.concat(input, '\n') .. '\n')
    -- A terminal echoes what is typed; a pipe does not. Give each prompt its line back.
    local k = 0
    local function typed(prompt)
      k = k + 1
      return prompt .. (input[k] and input[k] .. '\n' or '')
    end
    local real, at = {}, 1
    local text = r.out:gsub('^dflow %d[^\n]*\n', '')
    while at <= #text do
      local prompt = text:match('^dflow> ', at) or text:match('^  %.%.%. ', at)
      if prompt then
        real[#real + 1] = typed(prompt)
        at = at + #prompt
      else
        local line = text:match('^[^\n]*\n?', at)
        real[#real + 1] = line
        at = at + #line
      end
    end
    assert.are.equal(shown .. 'dflow> \n', table.concat(real), r.err)
  end

  it('shows sessions that are real', function()
    local n = 0
    for shown in readme():gmatch('```\n(dflow> .-)```') do
      is_real(shown)
      n = n + 1
    end
    assert.is_true(n >= 2)
  end)

  it('shows a program that runs', function()
    local program = os.tmpname()
    shell.write(program, assert(readme():match('```lua\n(.-)```')))
    local r = shell.run(shell.lua .. ' ' .. program)
    os.remove(program)
    assert.are.equal(0, r.status, r.err)
    assert.is_truthy(r.out:match('float32%[3,1%]'), r.out)
  end)

  it('names files that exist', function()
    for path in readme():gmatch('%]%(([%w_/.-]+)%)') do
      local f = io.open(path)
      assert.is_truthy(f, path)
      f:close()
    end
  end)

  it('names every Debian package that is needed', function()
    local text = readme()
    for line in io.lines('.ci/debian-packages') do
      local package = line:match('^%l+ +(%S+)')
      assert.is_truthy(not package or text:find(package, 1, true), package)
    end
  end)
end)
