-- What editors and shells are told: annotations made from help, completions that know the options of --help.
local luacats = require 'dflow.docs.luacats'
local help = require 'dflow.docs.help'
local shell = require 'spec.shell'

local function read(path)
  return shell.read(path)
end

describe('the annotations', function()
  local text = luacats.text()

  it('are Lua, and begin as a file that is never run', function()
    assert.is_truthy((rawget(_G, 'loadstring') or load)(text))
    assert.equal('---@meta dflow', text:match('^[^\n]*'))
  end)

  it('have every public function and method, once', function()
    local seen = {}
    for name in text:gmatch('\nfunction ([%w_.:]+)%(') do
      assert.is_nil(seen[name], name)
      seen[name] = true
    end
    for name in text:gmatch('\n%-%-%-@overload [^\n]*\n(df%.[%w_.]+) = {}') do seen[name] = true end
    for _, name in ipairs(help.names()) do
      local signature = help.signature(name)
      if signature and signature:find('[({]') and not name:find(':', 1, true) and name:find('^[%a_][%w_.]*$') and not require('dflow.docs').types[name] then
        assert.is_true(seen['df.' .. name], name)
      end
    end
    for _, name in ipairs{ 'dflow_Output:matmul', 'dflow_Output:reduce_sum', 'dflow_Run:why', 'dflow_Session:run', 'df.while_loop', 'df.nn.Dense' } do
      assert.is_true(seen[name], name)
    end
  end)

  it('tell what functions give that are no ops, layers and optimizers, and of which types fields are', function()
    for name, class in pairs{ ['df.softmax'] = 'Output', ['df.nn.Dense'] = 'Layer', ['df.train.Adam'] = 'Optimizer', ['dflow_Optimizer:minimize'] = 'Operation',
                              ['df.summary.FileWriter'] = 'FileWriter', ['df.data.pipeline'] = 'Pipeline' } do
      assert.equal('dflow.' .. class, text:match('\n%-%-%-@return ([%w_.]+)\nfunction ' .. name:gsub('%p', '%%%0') .. '%('), name)
    end
    assert.matches('\n---@class dflow.Output\n---@field dtype dflow.DType ', text, 1, true)
    local any, all = select(2, text:gsub('@return any\n', '')), select(2, text:gsub('@return ', ''))
    assert.is_true(any < all / 3, ('%d of %d'):format(any, all))
  end)

  it('tell parameters, options and results', function()
    assert.matches('---@param b dflow.Operand\n---@param opts? { transpose_a?: boolean, transpose_b?: boolean, name?: string }\n---@return dflow.Output\n'
      .. 'function dflow_Output:matmul(b, opts) end', text, 1, true)
    assert.matches('---@operator add(dflow.Operand): dflow.Output', text, 1, true)
    assert.matches('---@field [integer] dflow.Output\n', text, 1, true)
    assert.matches('\n---@param units integer\n[^\n]*\n[^\n]*\nfunction df.nn.Dense%(', text)
    assert.matches('---@overload fun(limit: dflow.Operand): dflow.Output\n', text, 1, true)
    assert.matches('\n---@class dflow.df_plot\n---@overload fun(y: any, opts?: {', text, 1, true)
    assert.is_nil(text:find('\nfunction df.plot(', 1, true))
    assert.matches('\nfunction df.func(name, dtypes, fn, opts) end', text, 1, true)
    local any, all = select(2, text:gsub('@param %S+ any\n', '')), select(2, text:gsub('@param ', ''))
    assert.is_true(any < all / 3, ('%d of %d'):format(any, all))
  end)
end)

describe('the completions of shells', function()
  it('know the options of --help, and no others', function()
    local told, options = shell.run(shell.dflow .. ' --help').out, {}
    for word in told:gmatch('\n  (%-%S*)') do options[(word:gsub('=.*$', ''))] = true end
    local of_graphs = {}
    for _, command in ipairs{ 'run', 'inspect' } do
      for word in shell.run(('%s %s --help'):format(shell.dflow, command)).out:gmatch('\n  (%-%-%l+)') do of_graphs[word] = true end
    end
    assert.is_true(of_graphs['--fetch'] and of_graphs['--nodes'])
    local bash, zsh, fish = read 'interp/completions/dflow.bash', read 'interp/completions/_dflow', read 'interp/completions/dflow.fish'
    for word in pairs(options) do
      if word ~= '-' and word ~= '--' then
        assert.is_truthy(bash:find(word, 1, true), 'bash: ' .. word)
        assert.is_truthy(zsh:find(word, 1, true), 'zsh: ' .. word)
        local long = word:match('^%-%-(.*)$')
        assert.is_truthy(fish:find(long and '-l ' .. long or '-s ' .. word:sub(2), 1, true), 'fish: ' .. word)
      end
    end
    for word in pairs(of_graphs) do
      assert.is_truthy(bash:find(word, 1, true), 'bash: ' .. word)
      assert.is_truthy(zsh:find(word .. '[', 1, true), 'zsh: ' .. word)
      assert.is_truthy(fish:find('-l ' .. word:sub(3), 1, true), 'fish: ' .. word)
    end
    for word in zsh:gmatch("%s'%*?(%-%-?[%a-]+)") do assert.is_true(options[word] or of_graphs[word], word) end
  end)

  it('complete at a prompt of fish', function()
    if shell.run('command -v fish').status ~= 0 then return pending('fish is not there') end
    local r = shell.run([[fish -c "source interp/completions/dflow.fish; complete -C 'dflow run --f'; complete -C 'dflow --che'"]])
    for _, word in ipairs{ '--feed', '--fetch', '--check', '--check-gradients' } do assert.matches(word .. '\t', r.out, 1, true) end
    local inspect = shell.run([[fish -c "source interp/completions/dflow.fish; complete -C 'dflow inspect --'"]]).out
    assert.matches('--nodes\t', inspect, 1, true)
    assert.is_nil(inspect:find('--check', 1, true))                 -- the program's own options stand before a command
  end)

  it('complete at a prompt of bash', function()
    if shell.run('command -v bash').status ~= 0 then return pending('bash is not there') end
    local r = shell.run([[bash -c 'complete() { :; }; compopt() { :; }; . interp/completions/dflow.bash
      COMP_WORDS=(dflow --che); COMP_CWORD=1; _dflow; echo ${COMPREPLY[@]}; COMP_WORDS=(dflow le); _dflow; echo ${COMPREPLY[@]}']])
    assert.matches('--check --check-gradients\n', r.out, 1, true)
    assert.matches('learn\n', r.out, 1, true)
  end)
end)
