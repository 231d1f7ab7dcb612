-- What each public function does with arguments that it may or may not take: for each call a word, the dtype and shape that came, the kind of
-- thing, or the code of the error. spec/pages/calls.txt has them (spec/pages.lua), and calls.luajit.txt where a bare 1 is no integer: nothing is
-- taken or refused that was not.
local df = require 'dflow'
local called = require 'spec.called'
local pages = require 'spec.pages'
local page = rawget(_G, 'jit') and 'calls.luajit.txt' or 'calls.txt'
local unpack = table.unpack or unpack

local function word(v)
  local kind = df.type(v) or type(v)
  if kind == 'output' or kind == 'tensor' then return v.dtype .. (v.shape and '[' .. table.concat(v.shape, ',') .. ']' or '?') end
  if require('dflow.front.errors').is_data(v) then return '{' .. (v[1] ~= nil and word(v[1]) or '') .. '}' end
  return kind
end

--- What came of a call; a layer is called once more, with a matrix.
local function told(ok, first, ...)
  if not ok then return type(first) == 'table' and first.code or 'Lua: ' .. tostring(first) end
  local text = word(first) .. (select('#', ...) > 0 and ' and more' or '')
  if df.type(first) == 'layer' then text = text .. ' > ' .. told(pcall(first, df.float32{ { 1, 2 }, { 3, 4 } } + 1)) end
  return text
end

describe('a public function', function()
  for _, one in ipairs(called.functions()) do
    local name, fn = one[1], one[2]
    if pages.has(page, name) then
      it('takes what it took, and refuses what it refused: ' .. name, function()
        df.reset()
        local words, last, times = {}, nil, 0
        local function put()
          if last then words[#words + 1] = times > 1 and last .. ' x' .. times or last end
        end
        for _, arguments in ipairs(called.calls()) do
          local text = told(pcall(fn, unpack(arguments)))
          if text ~= last then
            put()
            last, times = text, 0
          end
          times = times + 1
        end
        put()
        local line = table.concat(words, ', ')
        assert.is_nil(line:find('Lua: ', 1, true), line)
        pages.section(page, name, line)
      end)
    end
  end
end)
