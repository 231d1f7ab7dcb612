-- Every option of what takes options (spec/options.lua), with values of every kind: what is said of those that it does not take, and which it takes, is
-- what spec/pages/options.txt has.
local df = require 'dflow'
local pages = require 'spec.pages'
local it = require('spec.support').host_it(it, pending)

-- What writes a file, waits for somebody, or says which options there are by the machine.
local SPARED = { trace = true, report = true, path = true, paused = true, write = true, log = true, devices = true, memory = true, plan_cache = true }

local function values(env)
  return { { '-1', -1 }, { '0', 0 }, { '1.5', 1.5 }, { '3', 3 }, { "'x'", 'x' }, { 'true', true }, { '{}', {} }, { '{1}', { 1 } }, { 'a function', function() end },
           { 'x', env.x }, { 'nan', 0 / 0 } }
end

local function fresh()
  df.reset()
  df.set_random_seed(1)
  local env = { df = df, p = df.constant(true), x = df.float32{ 1, 2 } * 1, m = df.float32{ { 1, 2 }, { 3, 4 } } + 0, w = df.Variable(2.0, { name = 'w' }) }
  env.y = df.square(env.w)
  return setmetatable(env, { __index = function(t, k)
    if k ~= 'h' then return _G[k] end
    t.h = df.start(t.y, nil, { paused = true })
    return t.h
  end })
end

--- What the call says with these options, nil: it takes them.
local function said(call, options)
  local env = fresh()
  env.OPTIONS = type(options) == 'function' and options(env) or options
  local fn
  if setfenv then fn = setfenv(assert(loadstring('return ' .. call)), env) else fn = assert(load('return ' .. call, call, 't', env)) end
  local ok, e = pcall(fn)
  if rawget(env, 'h') then env.h:cancel() end
  if not ok then return (tostring(type(e) == 'table' and e.message or e):match '^[^\n]*':gsub('0x%x+', '0x…'):gsub('%-nan', 'nan'):gsub('%-' .. ('%x'):rep(12) .. '%-', '-…-')) end
end

describe('options of every kind of value:', function()
  for call in require 'spec.options':gmatch '[^\n]+' do
    it(call, function()
      local lines = {}
      local known = said(call, { nosuch = 1.5 })
      lines[1] = 'nosuch: ' .. tostring(known)
      for option in (known or ''):match('it knows: ([^)]*)') and known:match 'it knows: ([^)]*)':gmatch '[%w_]+' or function() end do
        local taken, refused, order = {}, {}, {}
        for i = 1, SPARED[option] and 0 or 11 do
          local name
          local says = said(call, function(env)
            local v = values(env)[i]
            name = v[1]
            return { [option] = v[2] }
          end)
          if not says then taken[#taken + 1] = name
          else
            if not refused[says] then order[#order + 1], refused[says] = says, {} end
            table.insert(refused[says], name)
          end
        end
        if #taken > 0 then lines[#lines + 1] = ('%s takes %s'):format(option, table.concat(taken, ', ')) end
        for _, says in ipairs(order) do lines[#lines + 1] = ('%s = %s: %s'):format(option, table.concat(refused[says], ', '), says) end
      end
      assert.is_nil(table.concat(lines, '\n'):match '[^\n]*stdlib/[^\n]*:%d+:[^\n]*')      -- an error of Lua's own
      pages.section('options.txt', call, table.concat(lines, '\n'))
    end)
  end
  df.reset()
end)
