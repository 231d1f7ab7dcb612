-- What readers make of damaged files (spec/damaged.lua): an error of theirs that names the file; nothing that lacks a byte is taken for whole, nor, where
-- there are checksums, what has another one. That nothing worse comes is what `make fuzz` looks for.
-- run: first
local shell = require 'spec.shell'

-- How many ways each reader has to say what is wrong, at least.
local WAYS = { npy = 5, npz = 8, idx = 3, safetensors = 8, restore = 6, shards = 8, csv = 3, tfrecord = 4, events = 3, png = 10, jpeg = 8, pnm = 4, onnx = 20, hlo = 12,
               graphdef = 20, meta = 20, gzip = 4, pbtxt = 15, checkpoint = 6, checkpoint_data = 3, saved_v1 = 20, saved_v2 = 20, saved_keras = 20 }

describe('a damaged file', function()
  local out, status
  setup(function()
    local folder = os.tmpname()
    os.remove(folder)
    local r = shell.run(([[root=$PWD; case '%s' in /*) program='%s' ;; *) program=$root/'%s' ;; esac; mkdir '%s' && cd '%s' &&
      LUA_PATH="$root/?.lua;$root/stdlib/?.lua;;" "$program" "$root/spec/damaged.lua"]]):format(shell.dflow, shell.dflow, shell.dflow, folder, folder))
    os.execute(("rm -rf '%s'"):format(folder))
    out, status = '\n' .. r.out, r.status
  end)

  it('ends no reader', function() assert.equal(0, status, out:sub(-2000)) end)

  for _, kind in ipairs(require 'spec.fuzz_kinds') do
    it('is noticed, and said to be so by its name, in words for what is wrong: ' .. kind.name, function()
      assert.is_nil(out:match('\n' .. kind.name .. ': [^\n]*'))
      local files, messages = out:match('\n' .. kind.name .. ' (%d+) files, (%d+) messages')
      assert.is_true(tonumber(files) >= 50, files)
      assert.is_true(tonumber(messages) >= (WAYS[kind.name] or 0), messages)
    end)
  end
end)
