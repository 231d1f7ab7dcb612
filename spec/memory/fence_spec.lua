--- Kernels touch their tensors' elements and no more: DFLOW_STRESS=fence (runtime/base/fence.c), which the debug build has. With split all
-- work that might go to several threads comes in five pieces, the last one first.
local shell = require 'spec.shell'
local support = require 'spec.support'
local it = support.host_it(it, pending)
local fences = shell.build:find 'debug' ~= nil

describe('behind a fence', function()
  if not fences then return end
  for letters in ('A B C D-E F-L M N-P Q-R S T-Z'):gmatch '%S+' do
    it('kernels read and write what is theirs: ' .. letters, function()
      local r = shell.run(("DFLOW_STRESS=fence,split %s spec/memory/fenced.lua '^[%s]'"):format(shell.dflow, letters))
      assert.equal(0, r.status, r.err:match '([^\n]*)\n*$')
      local calls = tonumber(r.out:match '^(%d+) calls, nothing')
      assert.is_true(calls > 30, r.out)
    end)
  end

  for _, files in ipairs{
    'spec/resource/ref_variables_spec.lua spec/resource/stack_spec.lua spec/resource/table_spec.lua spec/resource/tensor_array_spec.lua '
      .. 'spec/resource/tensor_array_v3_spec.lua spec/resource/variables_spec.lua spec/resource/queue_spec.lua spec/resource/reads_in_loops_spec.lua',
    'spec/ops/ops_array_spec.lua spec/ops/ops_index_spec.lua spec/ops/tensor_list_spec.lua spec/ops/sparse_ragged_spec.lua spec/ops/image_spec.lua '
      .. 'spec/ops/bands_spec.lua spec/ops/packed_spec.lua spec/ops/pooling_spec.lua spec/ops/train_spec.lua spec/ops/windows_spec.lua',
    'spec/graph/while_loop_spec.lua spec/graph/cond_spec.lua spec/engine/native_tensors_spec.lua',
  } do
    support.long_it(it)('what specs ask for is done, too: ' .. files:gsub('spec/', ''):gsub('_spec%.lua', ''), function()
      local r = shell.run(([[DFLOW_STRESS=fence,split %s "$(command -v busted)" -f .busted --cpath='%s/lua/?.so' -o plainTerminal %s]])
        :format(rawget(_G, 'jit') and 'luajit' or 'lua5.4', shell.build, files))
      assert.equal(0, r.status, r.out .. r.err)
    end)
  end
end)
