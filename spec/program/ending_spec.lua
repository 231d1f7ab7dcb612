--- A process that ends, by whatever way, while something is at work in the background: at once, with its status, and with what it printed.
-- A sample of `spec/program/ending.lua`'s kinds and ways; DFLOW_ENDINGS=200 is the number of each that `make nightly` tries.
local shell = require 'spec.shell'

local luajit = rawget(_G, 'jit') ~= nil
local lua = luajit and 'luajit' or os.getenv 'DFLOW_INTERPRETER' or 'lua5.4'
local times = tonumber(os.getenv 'DFLOW_ENDINGS') or 1
local STATUS = { exit = 0, close = 0, return_ = 0, error = 1, signal = 143, fork = 0 }

describe('a process', function()
  local function ends(busy, way)
    it(('that ends by %s while it is %s loses nothing'):format(way:gsub('_', ''), busy), function()
      local r = shell.run(([[i=0; while [ $i -lt %d ]; do i=$((i + 1)); d=$(mktemp -d)
        said=$(DFLOW_NATIVE_CACHE=$d timeout -k 1 60 %s spec/program/ending.lua %s %s $(( (i * 7 + %d) %% 20)) 2>/dev/null); echo "$said $?"; rm -rf $d; done]])
        :format(times, lua, busy, way, math.random(0, 19)))
      assert.equal(('printed %d\n'):format(STATUS[way]):rep(times), r.out)
    end)
  end
  for _, busy in ipairs{ 'compiling', 'looping', 'multiplying', 'convolving', 'factoring', 'adding', 'standing' } do
    for way in pairs(STATUS) do
      local seldom = way ~= 'exit' and way ~= 'close' and busy ~= 'compiling' and busy ~= 'multiplying'
      if (luajit or way ~= 'fork') and (times > 1 or not seldom) then ends(busy, way) end
    end
  end

  it('is not kept by one long product when a Lua state closes', function()
    local r = shell.run(([[timeout -k 1 100 %s -e "local df = require 'dflow'
      local x = df.run(df.zeros{ 3000, 3000 })
      local _, y = df.while_loop(function(i) return i:lt(1000) end, function(i, v) return i + 1, v:matmul(v) end, { df.int32(0), df.constant(x) })
      local h = df.start(y) print 'printed'"]]):format(lua))
    assert.equal('printed\n', r.out)
    assert.equal(0, r.status)
  end)
end)
