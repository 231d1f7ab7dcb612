-- What the README shows is what happens.
local shell = require 'spec.shell'

local function readme(path)
  return shell.read(path or 'README.md')
end

local host_it = require('spec.support').host_it(it, pending)       -- elsewhere its screens name devices

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

  host_it('shows sessions that are real', function()
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

  it('shows a training program that learns, as it stands', function()
    local program, weights = os.tmpname(), os.tmpname()
    local text = assert(readme():match('## Train.-```lua\n(.-)```')):gsub("df.save 'digits.safetensors'", ("df.save '%s'"):format(weights))
    shell.write(program, text)
    local r = shell.run(shell.lua .. ' ' .. program)
    os.remove(program)
    assert.are.equal(0, r.status, r.err)
    local losses = {}
    for epoch, loss in r.out:gmatch('(%d+)%s+([%d.]+)\n') do losses[tonumber(epoch)] = tonumber(loss) end
    assert.is_true(#losses == 5 and losses[5] < 0.3 and losses[5] < losses[1], r.out)
    local f = io.open(weights)
    assert.is_true(f:seek 'end' > 50000)
    f:close()
    os.remove(weights)
  end)

  it('names files that exist', function()
    for path in readme():gmatch('%]%(([%w_/.-]+)%)') do
      local f = io.open(path)
      assert.is_truthy(f, path)
      f:close()
    end
  end)

  it('has a page that names every Debian package that is needed', function()
    local text = readme '.ci/packages.md'
    for line in io.lines('.ci/debian-packages') do
      local package = line:match('^%l+ +(%S+)')
      assert.is_truthy(not package or text:find(package, 1, true), package)
    end
  end)
end)
