--- `dflow run` and `dflow inspect`.
local df = require 'dflow'
local shell = require 'spec.shell'
local model = require 'spec.onnx_model'

local loop = 'spec/graphs/loop.pb'

local function dflow(words) return shell.run(shell.dflow .. ' ' .. words) end

describe('dflow run', function()
  it('feeds, fetches and prints', function()
    local r = dflow("run " .. loop .. " --feed 'x=[1, 2, 3]' --feed n=5 --fetch y:0,while/Exit --fetch ^words")
    assert.equal('', r.err)
    assert.equal(0, r.status)
    assert.equal('y:0 = [ 3. 22. 93.] float32[3]\nwhile/Exit = 5\n', r.out)
  end)

  it('reads and writes npy and npz', function()
    local base = os.tmpname()
    df.save_npy(base .. '.npy', df.tensor({ 1, 2, 3 }, 'float64'))
    df.save_npz(base .. '.npz', { x = df.tensor({ 1, 2, 3 }), n = df.tensor(5, 'int64') })
    for _, feed in ipairs{ '--feed n=5 --feed x=' .. base .. '.npy', '--feed n=5 --feed=x=@' .. base .. '.npy', '--feed ' .. base .. '.npz' } do
      local r = dflow(('run %s %s --fetch y --fetch while/Exit:0 --out %s.out.npz'):format(loop, feed, base))
      assert.equal('', r.err)
      assert.equal('', r.out)
      local z = df.load_npz(base .. '.out.npz')
      assert.same({ 3, 22, 93 }, z.y:totable())
      assert.equal(5, z['while/Exit']:item())
      assert.equal('int32', z['while/Exit'].dtype)
      assert.equal(0, dflow(('run %s %s --fetch y --out %s.out.npy'):format(loop, feed, base)).status)
      assert.same({ 3, 22, 93 }, df.load_npy(base .. '.out.npy'):totable())
    end
    os.execute(('rm -f %s %s.*'):format(base, base))
  end)

  it('feeds sequences and optional values of an ONNX model, and shows and keeps what it gives of them', function()
    local base = os.tmpname()
    local path = base .. '.onnx'
    shell.write(path, model.bytes{ inputs = { s = { 'float', { 'n' }, sequence = true }, at = { 'int64', {} } }, outputs = { 't', 'n' },
                                   { 'SequenceErase', { 's', 'at' }, { 't' } }, { 'SequenceLength', { 't' }, { 'n' } } })
    local function run(words)
      local r = dflow('run ' .. path .. ' ' .. words)
      return r.err == '' and r.out or r.err
    end
    assert.equal('t = {[3.] float32[1], [] float32[0]}\nn = 2\n', run "--feed 's=[[1,2],[3],[]]' --feed at=0")
    assert.equal('t = {}\nn = 0\n', run "--feed 's=[[1,2]]' --feed at=0")
    df.save_npy(base .. '.npy', df.tensor({ 7, 8 }, 'float64'))
    assert.equal('', run(('--feed s=[%s.npy,[9]] --feed at=1 --out %s.npz'):format(base, base)))
    local z = df.load_npz(base .. '.npz')
    assert.same({ { 7, 8 }, 1 }, { z['t[0]']:totable(), z.n:item() })
    local arrays = { at = df.tensor(1, 'int64') }
    for k = 0, 11 do arrays[('s[%d]'):format(k)] = df.tensor({ k }, 'float32') end
    df.save_npz(base .. '.npz', arrays)
    local shown = run('--feed ' .. base .. '.npz'):gsub('%s+', ' ')
    assert.matches('^t = { %[0%.%] float32%[1%], %[2%.%] .-%[9%.%] float32%[1%], %[10%.%] float32%[1%], %[11%.%] float32%[1%] }', shown)
    arrays.at = nil
    df.save_npz(base .. '.npz', arrays)
    assert.matches('n = 11\n', run('--feed at=0 --feed s=' .. base .. '.npz'))
    assert.matches("the value '3' for the sequence s is no list", run '--feed s=3 --feed at=0', 1, true)
    assert.matches("an element of '[[1,[2]]]' for s (float32)", run "--feed 's=[[1,[2]]]' --feed at=0", 1, true)

    shell.write(path, model.bytes{ inputs = { o = { 'float', { 2 }, optional = true } }, outputs = { 'has', 'p' },
                                   { 'OptionalHasElement', { 'o' }, { 'has' } }, { 'Identity', { 'o' }, { 'p' } } })
    assert.equal('has = true\np = [1. 2.] float32[2]\n', run "--feed 'o=[1,2]'")
    assert.equal('has = false\np = none\n', run '--feed o=none')
    assert.equal('', run("--feed 'o=[1,2]' --out " .. base .. '.npz'))
    assert.same({ 1, 2 }, df.load_npz(base .. '.npz').p:totable())
    assert.equal('', run('--feed o=none --out ' .. base .. '.npz'))
    assert.is_nil(df.load_npz(base .. '.npz').p)

    shell.write(path, model.bytes{ inputs = { o = { 'int64', { 'n' }, optional = true, sequence = true } }, outputs = { 'has', 'p' },
                                   { 'OptionalHasElement', { 'o' }, { 'has' } }, { 'Identity', { 'o' }, { 'p' } } })
    assert.equal('has = true\np = {[1 2] int64[2], [3] int64[1]}\n', run "--feed 'o=[[1,2],[3]]'")
    assert.equal('has = false\np = none\n', run '--feed o=none')

    shell.write(path, model.bytes{ inputs = { x = { 'float', { 2 } } }, outputs = { 't' }, { 'SplitToSequence', { 'x' }, { 't' }, { axis = 0 } } })
    assert.equal('t[0] = [1.] float32[1]\nt[1] = [2.] float32[1]\n', run "--feed 'x=[1,2]'")
    os.execute(('rm -f %s %s.*'):format(base, base))
  end)

  it('repeats and says how long that took', function()
    local r = dflow('run ' .. loop .. ' --feed x=[1] --feed n=1 --fetch y --repeat 3 --threads 1 --timeout 20 --device cpu:0')
    assert.matches('^y = %[1%.%] float32%[1%]\n3 runs, [%d.e-]+ ms each\n$', r.out)
  end)

  it('feeds strings and booleans as they are', function()
    local path = os.tmpname()
    shell.write(path, [[node { name: "s" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } attr { key: "shape" value { shape { } } } }
      node { name: "b" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } attr { key: "shape" value { shape { } } } }
      node { name: "t" op: "Identity" input: "s" } node { name: "c" op: "LogicalNot" input: "b" }]])
    local r = dflow('run ' .. path .. " --feed 's=a b=c' --feed b=true --fetch t,c")
    os.remove(path)
    assert.equal('t = a b=c\nc = false\n', r.out)
  end)

  it('feeds lists of strings, quoted where commas or spaces are in them', function()
    local path = os.tmpname()
    shell.write(path, [[node { name: "s" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } }
        attr { key: "shape" value { shape { dim { size: -1 } } } } }
      node { name: "t" op: "Identity" input: "s" } ]])
    local function fed(text) return (dflow(("run %s --feed 's=%s' --fetch t"):format(path, text)).out:gsub(' +', ' ')) end
    local found = { fed '["a, b","cd","[c]"]', fed '[a,b]', fed '[]' }
    os.remove(path)
    assert.same({ 't = ["a, b" "cd" "[c]"] string[3]\n', 't = ["a" "b"] string[2]\n', 't = [] string[0]\n' }, found)
  end)

  it('names what a signature has where a name is none of it', function()
    local g = df.import_graph_def 'spec/models/keras'
    local has = next(g.signatures.serving_default.inputs)
    local r = dflow 'run spec/models/keras --feed nobody=1'
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find("'nobody'", 1, true) and r.err:find('has ' .. has, 1, true), r.err)
    assert.is_truthy(dflow 'run spec/models/keras --fetch nobody'.err:find("'nobody'", 1, true))
  end)

  it('says what is wrong, and ends with status 1', function()
    local wrong = {
      [''] = 'there is nothing to fetch: say %-%-fetch NAME. Values that no node reads: while/Exit:0, y:0',
      ['--fetch'] = '%-%-fetch needs a value',
      ['--fetch y --fed x=1'] = "there is no option '%-%-fed'",
      ['--fetch nobody'] = "no operation 'nobody'",
      ['--fetch Y'] = "no operation 'Y'; did you mean 'y'%?",
      ['--fetch while/exit'] = "did you mean 'while/Exit'%?",
      ['--fetch merge'] = "did you mean 'while/Merge'%?",
      ['--fetch y --feed n=1 --feed n:0=2'] = 'n:0 is fed twice: by %-%-feed n=1 and by %-%-feed n:0=2',
      ['--fetch y --repeat 2 --repeat 3'] = '%-%-repeat is given twice: 2 and 3',
      ['--fetch y --feed x=[1,[2]]'] = "the value '%[1,%[2%]%]' for x:0 %(float32%): the table is not rectangular",
      ['--fetch y --feed n=2.5'] = '2.5 for n:0',
      ['--fetch y --feed n=two'] = "the value 'two' for n:0 %(int32%)",
      ['--fetch y --feed n'] = 'NAME=VALUE',
      ['--fetch y --out y.txt'] = 'a .npz or .npy file is expected',
      ['--fetch y --repeat 0'] = 'a whole number above 0',
      ['--fetch y --device gpu:7'] = "no device 'gpu:7'",
      ['--fetch y --feed n=1'] = '`x`',
      ['another.pb --fetch y'] = '2 graphs were named',
      ['--fetch y:7'] = "the operation 'y' has 1 output, there is none with index 7",
    }
    for words, message in pairs(wrong) do
      local r = dflow('run ' .. loop .. ' ' .. words)
      assert.equal(1, r.status, words)
      assert.matches('^dflow run: ', r.err)
      assert.matches(message, r.err)
      assert.is_nil(r.err:find('stack traceback', 1, true), r.err)
    end
    assert.matches('no graph was named', dflow('run').err)
    assert.matches('nobody.pb', dflow('run nobody.pb --fetch y').err)
  end)

  it('has --help', function()
    local r = dflow('run --help')
    assert.equal(0, r.status)
    assert.matches('^usage: dflow run GRAPH', r.out)
    for _, option in ipairs{ 'feed', 'fetch', 'init', 'out', 'repeat', 'threads', 'timeout', 'trace', 'device' } do
      assert.is_truthy(r.out:find('--' .. option, 1, true), option)
    end
  end)

  it('leaves scripts of that name alone', function()
    local dir = os.tmpname()
    os.remove(dir)
    os.execute('mkdir ' .. dir)
    shell.write(dir .. '/run', 'print("a script", ...)')
    local r = shell.run(('D=$(realpath %s); cd %s && "$D" ./run --help'):format(shell.dflow, dir))
    os.execute('rm -r ' .. dir)
    assert.equal('a script\t--help\n', r.out)
  end)
end)

describe('dflow inspect', function()
  it('shows inputs, outputs, frames, ops and sizes', function()
    local r = dflow('inspect ' .. loop)
    assert.equal('', r.err)
    assert.equal(0, r.status)
    for _, text in ipairs{ '42 nodes', '1 loop, 1 cond', 'inputs (2)', 'x:0  float32[?]', 'n:0  int32[]', 'outputs (2)', 'y:0  float32[?]',
                           'while/while_context  2 variables, 2 constants, parallel_iterations 10', 'Switch                       6' } do
      assert.is_truthy(r.out:find(text, 1, true), text .. '\n' .. r.out)
    end
  end)

  it('has the values of a model under its own names, and says how it is run', function()
    local path = os.tmpname()
    os.remove(path)
    path = path .. '.onnx'
    shell.write(path, model.bytes{ inputs = { s = { 'float', { 'n' }, sequence = true }, at = { 'int64', {} }, o = { 'int32', {}, optional = true } },
                                   outputs = { 't', 'n', 'p', 'q' }, { 'SequenceErase', { 's', 'at' }, { 't' } }, { 'SequenceLength', { 't' }, { 'n' } },
                                   { 'Identity', { 'o' }, { 'p' } }, { 'SequenceConstruct', { 'at', 'at' }, { 'q' } } })
    local out = dflow('inspect ' .. path).out
    os.remove(path)
    for _, text in ipairs{ 'inputs (3)\n  at  int64[]\n  o  optional int32\n  s  sequence of float32\n',
                           'outputs (4)\n  t  sequence of float32\n  n  int64[]\n  p  optional int32\n  q  sequence of 2\n',
                           ('run it: dflow run %s --feed at=… --feed o=… --feed s=…\n'):format(path) } do
      assert.is_truthy(out:find(text, 1, true), out)
    end
    local function how(of) return dflow('inspect ' .. of).out:match 'run it: ([^\n]*)' end
    assert.equal('dflow run ' .. loop .. ' --feed n=… --feed x=… --fetch while/Exit:0', how(loop))
    assert.equal('dflow run spec/models/keras --signature serving_default --feed conv1d_input=…', how 'spec/models/keras')
    assert.equal('dflow run spec/models/square.hlo.pb --feed x.1=…', how 'spec/models/square.hlo.pb')
  end)

  it('shows every node, and loops and conds as they would be written', function()
    local r = dflow('inspect ' .. loop .. ' --nodes --let --ops')
    assert.is_truthy(r.out:find('while/cond/Merge: float32[?], int32[] = Merge(while/cond/add, while/cond/mul)', 1, true), r.out)
    assert.is_truthy(r.out:find('= while{', 1, true))
    assert.is_truthy(r.out:find('= cond{ while/Equal', 1, true))
  end)

  it('says what is wrong', function()
    local r = dflow('inspect nobody.pb')
    assert.equal(1, r.status)
    assert.matches('^dflow inspect: cannot open nobody.pb', r.err)
    assert.matches('no graph was named', dflow('inspect').err)
    assert.matches('^usage: dflow inspect GRAPH', dflow('inspect --help').out)
  end)
end)
