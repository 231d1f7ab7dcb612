-- run: once
-- The READMEs of the folders speak of files and functions that exist.
local shell = require 'spec.shell'

local function contents(path)
  return shell.read(path)
end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local sources = shell.run("cat $(find runtime kernels interp stdlib spec -name '*.[ch]' -o -name '*.lua') Makefile").out

describe('a README', function()
  for _, folder in ipairs{ 'runtime', 'kernels', 'stdlib', 'spec' } do
    it('of ' .. folder .. ' has one picture', function()
      assert.are.equal(2, select(2, contents(folder .. '/README.md'):gsub('\n```', '')))
    end)
  end

  for _, folder in ipairs{ 'runtime', 'runtime/ops', 'runtime/device', 'runtime/engine', 'kernels', 'kernels/cuda', 'stdlib', 'spec' } do
    local text = contents(folder .. '/README.md')

    it('of ' .. folder .. ' fits on two pages', function()
      local lines, words = select(2, text:gsub('\n', '')), select(2, text:gsub('%S+', ''))
      assert.is_true(lines <= 120 and words <= 1500, ('%d lines, %d words'):format(lines, words))
    end)

    it('of ' .. folder .. ' names files and folders that are there', function()
      local missing = {}
      for path in text:gmatch('`([%w_/%.]+%.%l+)`') do
        if path:find('%.[chl]u?a?$') or path:find('%.md$') then
          local found = exists(path) or exists(folder .. '/' .. path) or exists('runtime/' .. path) or exists('stdlib/dflow/' .. path)
            or shell.run(("find %s -path '*/%s' | head -1"):format(folder:match '^%w+', path)).out ~= ''
          if not found then missing[#missing + 1] = path end
        end
      end
      for name in text:gmatch('`([%w_/]+)/`') do
        local found = false
        for _, at in ipairs{ '', folder .. '/', 'runtime/', 'stdlib/dflow/', 'kernels/cpu/' } do
          found = found or shell.run(('test -d %s%s'):format(at, name)).status == 0
        end
        if not found then missing[#missing + 1] = name .. '/' end
      end
      assert.are.same({}, missing)
    end)

    it('of ' .. folder .. ' names functions and types that are there', function()
      local missing = {}
      for name in text:gmatch('%f[%w_](df[ik]?_[%l_]+)%f[^%l_]') do
        if not sources:find(name, 1, true) then missing[#missing + 1] = name end
      end
      for name in text:gmatch('%f[%w_](DF[OIK]?_[%u_]+)%f[^%u_]') do
        if not sources:find(name, 1, true) then missing[#missing + 1] = name end
      end
      assert.are.same({}, missing)
    end)
  end

  it('of runtime explains at most thirty words of its own', function()
    local words, n = contents('runtime/README.md'):match '\n| word | means |\n|%-%-%-|%-%-%-|\n(.-)\n\n', 0
    for _ in words:gmatch '[^\n]+' do n = n + 1 end
    assert.is_true(n >= 10 and n <= 30, n .. ' words')
  end)
end)
