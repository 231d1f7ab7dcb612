--- Every option of what takes options (spec/options.lua), with values of every kind: an unknown one is answered with the known ones, a value that is not
-- taken with the option's name and what it takes instead, and no option takes everything.
local df = require 'dflow'
local it = require('spec.support').host_it(it, pending)

-- What writes a file, waits for a user, or says which options there are by the machine.
local SPARED = { trace = true, report = true, path = true, paused = true, write = true, log = true, devices = true, memory = true, plan_cache = true, by_rank = true }

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

-- What a refusal says that an option is, and what it takes then.
local KINDS = { { 'true or false', { ['true'] = true } }, { ' is a string,', { ["'x'"] = true } },
                { 'a whole number', { ['-1'] = true, ['0'] = true, ['3'] = true, x = true, ['{}'] = true, ['{1}'] = true } } }

-- What a refusal says that it was given, where it does not name the option.
-- LOOSE: what these go into says what is wrong, in its own words.
local LOOSE = { around = true, activation = true, header = true, lengths = true, num_classes = true, on_value = true, op = true, outputs = true,
                shard_bytes = true, step = true, steps = true }
local FOUND = { ["'x'"] = 'x', ['{}'] = '[%[%]]', ['{1}'] = '[%[%]1]', ['a function'] = 'function', x = 'float32', nan = 'nan', ['true'] = 'bool' }
local function tells(says, option, name)
  if name:find '[{x]' and says:find 'Output' or name:find '{' and says:find 'table' or says:find 'needs the attribute' or LOOSE[option] then
    return true
  end
  for word in option:gmatch '%a+' do if #word > 3 and says:find(word:gsub('s$', ''), 1, true) then return true end end
  return says:find(option, 1, true) or says:find(FOUND[name] or name:gsub('%p', '%%%0'))
end

describe('options of every kind of value:', function()
  for call in require 'spec.options':gmatch '[^\n]+' do
    it(call, function()
      local known, wrong = said(call, { nosuch = 1.5 }), {}
      local names = known and known:match "no option 'nosuch' %(it knows: ([^)]*)%)"
      assert.is_string(names, known)
      local alone = said(call, {})                 -- what the call says by itself
      for option in names:gmatch '[%w_]+' do
        local taken, refused, last = {}, 0, nil
        for i = 1, SPARED[option] and 0 or 11 do
          local name
          local says = said(call, function(env)
            local v = values(env)[i]
            name = v[1]
            return { [option] = v[2] }
          end)
          if not says then taken[name] = true
          else
            refused = refused + 1
            if says ~= alone then last = says end
            if says ~= alone and not tells(says, option, name) then wrong[#wrong + 1] = ('%s = %s: %s'):format(option, name, says) end
            if says:find 'stdlib/%S*:%d+:' then wrong[#wrong + 1] = 'an error of Lua\'s own: ' .. says end
          end
        end
        for _, kind in ipairs(last and KINDS or {}) do
          for name in pairs(last:find(kind[1], 1, true) and taken or {}) do
            if not kind[2][name] then wrong[#wrong + 1] = ('%s takes %s, but says: %s'):format(option, name, last) end
          end
        end
        if refused == 0 and not SPARED[option] then wrong[#wrong + 1] = option .. ' takes everything' end
      end
      assert.same({}, wrong)
    end)
  end
  df.reset()
end)
