-- Traces in Perfetto's own format, read back by the wire format alone; and values on the report's page.
local df = require 'dflow'

local function read(path)
  local text = require('spec.shell').read(path)
  os.remove(path)
  return text
end

--- The fields of a message: a list of {number, value}.
local function fields(s)
  local list, at = {}, 1
  local function varint()
    local n, place = 0, 1
    while true do
      local c = s:byte(at)
      at = at + 1
      n = n + c % 128 * place
      if c < 128 then return n end
      place = place * 128
    end
  end
  while at <= #s do
    local key = varint()
    local kind, v = key % 8, nil
    if kind == 0 then v = varint()
    elseif kind == 2 then
      local n = varint()
      v = s:sub(at, at + n - 1)
      at = at + n
    elseif kind == 1 then
      v = s:sub(at, at + 7)
      at = at + 8
    else error('wire type ' .. kind) end
    list[#list + 1] = { (key - kind) / 8, v }
  end
  return list
end

local function by_number(list)
  local t = {}
  for _, f in ipairs(list) do t[f[1]] = f[2] end
  return t
end

local function loop(n)
  return df.while_loop(function(i) return i:lt(n) end, function(i, x)
    return i + 1, df.cond(i:gt(2), function() return x * 2 end, function() return x + 1 end)
  end, { df.int32(0), df.float32(1) })
end

describe('run.pftrace', function()
  require('spec.support').ordered_it(it, pending)('has a track for the loop, lanes for its iterations, nested slices and arrows', function()
    local path = os.tmpname() .. '.pftrace'
    local _, x = loop(6)
    assert.equal(32, df.run(x, nil, { trace = path }))
    local tracks, depth, slices, arrows, last = {}, {}, {}, {}, 0
    for _, p in ipairs(fields(read(path))) do
      assert.equal(1, p[1])
      local packet = by_number(fields(p[2]))
      if packet[60] then
        local t = by_number(fields(packet[60]))
        tracks[t[1]] = { name = t[2], parent = t[5] }
      else
        local list = fields(packet[11])
        local e = by_number(list)
        assert.is_truthy(tracks[e[11]])
        if e[9] == 1 then
          depth[e[11]] = (depth[e[11]] or 0) + 1
          slices[e[23]] = (slices[e[23]] or 0) + 1
        elseif e[9] == 2 then
          depth[e[11]] = depth[e[11]] - 1
          assert.is_true(depth[e[11]] >= 0)
        end
        for _, f in ipairs(list) do if f[1] == 47 then arrows[f[2]] = (arrows[f[2]] or 0) + 1 end end
        last = math.max(last, packet[8])
      end
    end
    for _, open in pairs(depth) do assert.equal(0, open) end
    local names = {}
    for _, t in pairs(tracks) do names[t.name or ''] = t.parent and tracks[t.parent].name or '' end
    assert.equal('while', names['lane 1'])
    assert.is_truthy(names['memory of cpu:0'])
    assert.equal(7, slices['while/Less'])
    assert.equal(1, slices['while:3'])
    assert.is_truthy(slices['while/cond/Add (dead)'])
    local n = 0
    for _, count in pairs(arrows) do
      n = n + 1
      assert.equal(2, count)
    end
    assert.is_true(n > 40 and last > 0)
  end)
end)

describe('the report page', function()
  it('has the values that tokens made', function()
    local path = os.tmpname() .. '.html'
    local _, x = loop(5)
    df.run(x + 0.5, nil, { report = path })
    local page = read(path)
    local values = page:match('"values":(%b[])') or page:match('values:(%b[])')
    assert.is_truthy(values, page:sub(1, 200))
    for _, value in ipairs{ '"16.5"', '"true"', '"8"' } do assert.is_truthy(values:find(value, 1, true), value .. ' in ' .. values) end
  end)
end)
