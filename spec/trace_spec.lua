--- opts.trace: a run as a timeline.
local df = require 'dflow'

local function program()
  df.reset()
  local i, x = df.while_loop(function(i) return i:lt(df.int32(12)) end, function(i, x)
    local _, z = df.while_loop(function(j) return j:lt(df.int32(2)) end, function(j, z) return j + 1, z + 1 end, { df.int32(0), df.float32(0) })
    return i + 1, df.cond(x:gt(20), function() return x * 0.5 end, function() return x * 2 end) + z * 0
  end, { df.int32(0), df.float32(1) })
  return { i, x }
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read('*a')
  file:close()
  os.remove(path)
  return text
end

--- The events of a trace: each line of the list is one object, and we read only what we ask for.
local function events(text)
  local list = {}
  for line in text:gmatch('{"ph":[^\n]*') do
    list[#list + 1] = { ph = line:match('"ph":"(.)"'), cat = line:match('"cat":"(%a+)"'), ts = tonumber(line:match('"ts":([%d.]+)')), dur = tonumber(line:match('"dur":([%d.]+)')),
                        id = line:match('"id":"([^"]+)"'), name = line:match('"name":"([^"]*)"'), tid = line:match('"tid":(%d+)'), line = line }
  end
  return list
end

describe('opts.trace', function()
  it('writes a timeline whose slices nest, and an async span for each frame and iteration', function()
    local path = os.tmpname()
    local plain = df.run(program())
    local found = df.run(program(), nil, { trace = path })
    assert.same(plain, found)
    local text = read(path)
    assert.matches('^{"displayTimeUnit":"ns","traceEvents":%[\n', text)
    assert.matches('\n%]}\n$', text)
    local open, closed, slices, dead, last = {}, {}, 0, 0, -1
    for _, e in ipairs(events(text)) do
      if e.ph == 'X' and e.tid == '1' then
        slices = slices + 1
        assert.is_true(e.ts >= last - 0.01, 'slices of one thread do not overlap')
        last = e.ts + e.dur
        if e.cat == 'dead' then dead = dead + 1 end
      elseif e.ph == 'b' then open[e.cat .. e.id] = e.ts
      elseif e.ph == 'e' then
        assert.is_true(open[e.cat .. e.id] <= e.ts)
        closed[e.cat .. e.id] = true
      end
    end
    local frames, iterations = 0, 0
    for key in pairs(open) do
      assert.is_true(closed[key], key .. ' has no end')
      if key:match('^frame') then frames = frames + 1 else iterations = iterations + 1 end
    end
    assert.equal(14, frames)                  -- the loop, the one inside it twelve times, and once dead
    assert.equal(13 + 12 * 3, iterations)
    assert.is_true(slices > 300 and dead > 12)
    assert.matches('"name":"while:11/while/while:2"', text)
  end)

  it('is written for a run that fails, which fails as it would have', function()
    df.reset()
    local path = os.tmpname()
    local x = df.placeholder('int32', {})
    local ok, err = pcall(df.run, df.floor_div(df.constant(1, 'int32'), x), { [x] = 0 }, { trace = path })
    assert.is_false(ok)
    assert.equal('invalid_argument', err.code)
    assert.matches('FloorDiv', read(path))
  end)

  it('refuses what is no path, and a folder that is not there', function()
    local function refused(opts, text)
      local ok, err = pcall(df.run, program(), nil, opts)
      assert.is_false(ok)
      assert.matches(text, tostring(err))
    end
    refused({ trace = 7 }, 'trace is the path of a file')
    refused({ trace = '/nowhere/at/all/run.json' }, 'nowhere')
  end)
end)
