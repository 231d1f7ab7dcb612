--- What is built and run, with and without errors, and let go leaves no memory behind: each op with inputs that fit and that do not, the gradient of
-- each, and whole programs (let_go.lua): placed, cut, exported, imported, watched, stopped, failing. In processes of their own,
-- as in failing_spec.lua. The debug build counts the library's pieces, the others tensors alone.
-- run: first
local shell = require 'spec.shell'

local function tests(kind, what, list)
  for letters in list:gmatch '%S+' do
    it(('leaves no memory behind: %s, %s'):format(what, letters), function()
      local r = shell.run(("%s spec/memory/leaks.lua %s '^[%s]'"):format(shell.lua, kind, letters))
      assert.equal('', r.err)
      assert.matches('^%d+ looked at, 0 leaks', r.out)
      assert.equal(0, r.status)
    end)
  end
end

--- Whole spec files, run again by `way`, which says what must not happen.
local function read_again(way, files)
  return shell.run(([[%s lua5.4 "$(command -v busted)" -f .busted --cpath='%s/lua/?.so' -o plainTerminal %s]]):format(way, shell.build, files))
end

describe('what is let go', function()
  tests('ops', 'ops', 'A B C D-E F-H I-L M N-P Q R S T-Z')
  tests('gradients', 'gradients', 'A-B C-E F-M N-R S T-Z')
  tests('programs', 'programs', 'a c e-g o p-r v-w')
end)

--- What nothing points to any more when a program ends was forgotten: gcc's leak sanitizer tells, under Lua 5.4, which hides no pointers.
describe('spec files', function()
  if rawget(_G, 'jit') or not shell.build:find 'debug' then return end
  for _, files in ipairs{
    'spec/resource/ref_variables_spec.lua spec/resource/stack_spec.lua spec/resource/table_spec.lua spec/resource/tensor_array_spec.lua '
      .. 'spec/resource/tensor_array_v3_spec.lua spec/resource/variable_scope_spec.lua spec/resource/reads_in_loops_spec.lua',
    'spec/ops/seeds_spec.lua spec/ops/tensor_list_spec.lua spec/ops/sparse_ragged_spec.lua spec/ops/image_spec.lua spec/ops/bands_spec.lua '
      .. 'spec/ops/ops_array_spec.lua spec/ops/ops_index_spec.lua spec/ops/linear_algebra_spec.lua spec/ops/train_spec.lua',
    'spec/graph/cond_spec.lua spec/graph/core_flow_spec.lua spec/graph/while_loop_spec.lua spec/graph/undo_spec.lua spec/graph/lua_func_spec.lua',
  } do
    it('lose no memory: ' .. files:gsub('spec/', ''):gsub('_spec%.lua', ''), function()
      local r = read_again('spec/memory/lost.sh', files)
      if r.status == 98 then return pending 'there is no leak sanitizer' end
      assert.equal(0, r.status, r.out .. r.err)
    end)
  end

  it('would be seen to lose some', function()
    local program = os.tmpname()
    shell.write(program .. '.c', '#include <stdlib.h>\nchar *kept; int main(int n, char **v) { kept = malloc(9); if (n > 1) kept = malloc(7); return 0; }\n')
    if shell.run(('cc -O0 %s.c -o %s'):format(program, program)).status == 0 then
      assert.equal(0, shell.run('spec/memory/lost.sh ' .. program).status)
      local r = shell.run(('spec/memory/lost.sh %s once'):format(program))
      assert.equal(99, r.status)
      assert.truthy(r.err:find('9 byte', 1, true), r.err)
    end
    shell.run(('rm -f %s.c'):format(program))
  end)
end)
