--- What is built and run, with and without errors, and let go leaves no memory behind: each op with inputs that fit and that do not, and the gradient of each.
-- In processes of their own, as in failing_spec.lua. The debug build counts the library's pieces, the others tensors alone.
local shell = require 'spec.shell'

local function sentences(kind, what, list)
  for letters in list:gmatch '%S+' do
    it(('leaves no memory behind: %s, %s'):format(what, letters), function()
      local r = shell.run(("%s spec/memory/leaks.lua %s '^[%s]'"):format(shell.lua, kind, letters))
      assert.equal('', r.err)
      assert.matches('^%d+ looked at, 0 leaks', r.out)
      assert.equal(0, r.status)
    end)
  end
end

describe('what is let go', function()
  sentences('ops', 'ops', 'A B C D-E F-H I-L M N-P Q R S T-Z')
  sentences('gradients', 'gradients', 'A-B C-E F-M N-R S T-Z')
end)
