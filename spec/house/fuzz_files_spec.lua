--- Every reader of files, given what is damaged: a sample of what `make fuzz` does for long. spec/fuzz_files.lua says how.
-- run: first
local shell = require 'spec.shell'
local here = shell.run('pwd').out:gsub('%s+$', '')

--- Runs the fuzzer in an empty folder, with files in it; what it prints.
local function fuzz(arguments, environment, files)
  local dir = shell.run('mktemp -d').out:gsub('%s+$', '')
  for name, text in pairs(files or {}) do shell.write(dir .. '/' .. name, text) end
  local r = shell.run(('cd %s && %s timeout 300 ${DFLOW_INTERPRETER:-lua5.4} %s/spec/fuzz_files.lua %s 2>&1; echo status $?')
                      :format(dir, environment or '', here, arguments))
  shell.run('rm -rf ' .. dir)
  return r.out
end

describe('a reader of files', function()
  it('answers to what is damaged with what is there or an error of its own, quickly, in little memory', function()
    local out = fuzz(('all 0 %d - 25'):format(tonumber(os.getenv 'FUZZ_SEED') or 1))
    assert.is_truthy(out:find('status 0\n', 1, true), out)
    assert.is_true(tonumber(out:match 'files of (%d+) kinds') >= 20, out)
    assert.is_true(tonumber(out:match '(%d+) errors') > 300, out)
    assert.is_truthy(out:find(' 0 bad', 1, true), out)
  end)
end)

describe('the fuzzer of readers', function()
  --- A kind whose reader does that.
  local function wrong(body)
    return fuzz('odd 0 1 - 20', "FUZZ_KINDS=odd_kinds LUA_PATH=\"./?.lua;$LUA_PATH\" FUZZ_MOST_SECONDS=1 FUZZ_MOST_MEGABYTES=100",
                { ['odd_kinds.lua'] = ('return { { name = "odd", seeds = function() return { "abc" } end, read = function(path, bytes) %s end } }'):format(body) })
  end

  it('sees an error that is none of ours, a message that a terminal would obey, a hang, a hog and a file that should be read', function()
    assert.matches('an error that is none of ours: .*arithmetic', wrong 'return bytes == "abc" or nil + 1')
    assert.matches('would be sent to a terminal', wrong [[
      if bytes ~= "abc" then error(setmetatable({ code = "data_loss", message = "\27[2J" }, { __tostring = function(e) return e.message end }), 0) end]])
    assert.matches('it took %d', wrong 'if bytes ~= "abc" then local t = os.clock() repeat until os.clock() > t + 1.2 end')
    assert.matches('cannot be read', wrong 'require("dflow").data.idx(path)')
    assert.matches('status 0', wrong '')
    if not (os.getenv('DFLOW_MODE') or ''):find 'san$' then
      assert.matches('it took %d+ MB for', wrong 'if bytes ~= "abc" then local s = ("x"):rep(150 * 1048576) end')
    end
  end)
end)
