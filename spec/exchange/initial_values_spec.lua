--- What the variables of an imported graph begin with.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local node = require('spec.exchange.graphdef_text').node

describe('an imported variable', function()
  it('begins with the value that it had in the session of which the graph was exported', function()
    local w, n = df.Variable(df.constant{ 1.0, 2.0 }, { name = 'w' }), df.Variable(df.int32(3), { name = 'n', trainable = false })
    local y = w * 2 + df.cast(n, 'float32')
    local s = df.Session{}
    s:run(w:assign{ 5.0, 6.0 })
    s:run(n:assign_add(df.int32(1)))
    for _, ending in ipairs{ '.pb', '.pbtxt', '.meta' } do
      local path = os.tmpname()
      df.export_graph_def(path .. ending, { session = s, outputs = { y } })
      local g = df.import_graph_def(path .. ending)
      support.near(df.Session{ graph = g }:run(g:output(y.name)), { 14, 16 })
      shell.run(('rm -f %s %s%s'):format(path, path, ending))
    end
  end)

  it('begins with nothing where a graph assigns in a node of another name', function()
    local shape = { 'shape { }' }
    local g = df.import_graph_def(table.concat({
      node('w', 'VarHandleOp', {}, { dtype = 'DT_FLOAT', shape = shape, shared_name = 'w' }),
      node('c', 'Const', {}, { dtype = 'DT_FLOAT', value = { 'tensor { dtype: DT_FLOAT tensor_shape { } float_val: 7 }' } }),
      node('later', 'AssignVariableOp', { 'w', 'c' }, { dtype = 'DT_FLOAT' }), node('y', 'ReadVariableOp', { 'w' }, { dtype = 'DT_FLOAT' }),
    }, '\n'))
    local s = df.Session{ graph = g }
    local ok, err = pcall(s.run, s, g:output 'y:0')
    assert.is_false(ok)
    assert.equal('failed_precondition', err.code)
    s:run(g:op 'later')
    assert.equal(7, s:run(g:output 'y:0'))
  end)
end)
