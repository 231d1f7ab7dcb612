--- df.summary: event files that TensorBoard reads back (PYTHON names a Python that has tensorboard).
local df = require 'dflow'
local support = require 'spec.support'
local message_of = support.message_of

local shell = require('spec.shell').output

local host_it = require('spec.support').host_it(it, pending)

describe('an event file', function()
  local folder
  before_each(function() folder = shell('mktemp -d'):match '%S+' end)
  after_each(function() shell('rm -rf ' .. folder) end)

  local function fill()
    local w = df.summary.FileWriter(folder .. '/a/run')
    for i = 0, 3 do w:scalar('loss', 1 / (i + 1), i) end
    w:scalar('one', df.tensor(2.5), 7)
    w:histogram('weights', df.tensor{ 1, 2, 2, 3, 0 / 0 }, 3, { bins = 4 })
    w:image('picture', df.tensor(0.5, 'float32', { 5, 7, 3 }), 2)
    w:text('note', 'hello *world*', 1)
    df.identity(df.constant{ 1.0, 2.0 } * 2)
    w:graph()
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, df.tanh(v, { name = 'turn' }) end,
                               { df.int32(0), df.ones{ 2 } })
    local h = df.start(y, nil, { log = true })
    h:wait()
    w:run_metadata('at the end', h, 4)
    w:close()
    return w
  end

  host_it('numbers the pictures of a batch, and not one that is alone', function()
    local w = df.summary.FileWriter(folder)
    for n = 1, 3 do w:image('of' .. n, df.tensor(0.25, 'float32', { n, 2, 3, 4 }), n) end
    w:image('flat', df.tensor({ { 0, 255, 7 } }, 'uint8'), 0)
    w:close()
    local tags = {}
    for r in df.data.tfrecord(w.path) do tags[#tags + 1] = tostring(r):match '(%a+%d*/image[/%d]*)%"' or tostring(r):match '(%a+%d*/image[/%d]*)' end
    assert.same({ 'of1/image', 'of2/image/0', 'of2/image/1', 'of3/image/0', 'of3/image/1', 'of3/image/2', 'flat/image' }, tags)
  end)

  host_it('is a list of records whose checksums are right', function()
    local w = fill()
    local list = {}
    for r in df.data.tfrecord(w.path) do list[#list + 1] = r end
    assert.equal(11, #list)
    assert.is_truthy(list[1]:find('brain.Event:2', 1, true))
    assert.is_truthy(list[2]:find('loss', 1, true))
    -- of a Value its tag and simple_value, four bytes, end the Event
    assert.equal('\10\4loss\21\0\0\0\63', list[3]:sub(-11))
    assert.is_truthy(list[10]:find('Const', 1, true))
    assert.is_truthy(list[11]:find('at the end', 1, true))
    assert.is_truthy(list[11]:find('device:CPU:0', 1, true))
    assert.is_truthy(list[11]:find('Tanh, 3 times', 1, true))
    assert.matches('tfevents', w.path)
  end)

  host_it('is followed by another when there was no room for a record', function()
    local script = folder .. '/script.lua'
    require('spec.shell').write(script, ([[
      local df = require 'dflow'
      local w = df.summary.FileWriter('%s')
      w:scalar('before', 1, 0)
      local ok, e = pcall(w.text, w, 'long', ('x'):rep(3000), 1)
      print(ok, e.code, e.message:find(w.path, 1, true) ~= nil)
      local first = w.path
      w:scalar('behind', 2, 2)
      w:close()
      local list = {}
      for r in df.data.tfrecord(w.path) do list[#list + 1] = r end
      print(#list, list[2]:find('behind', 1, true) ~= nil)
      list = {}
      print(pcall(function() for r in df.data.tfrecord(first) do list[#list + 1] = r end end), #list, list[2]:find('before', 1, true) ~= nil)]]):format(folder))
    local r = require('spec.shell').run(("trap '' XFSZ; ulimit -f 1; exec %s %s"):format(require('spec.shell').dflow, script))
    assert.matches('^false\tresource_exhausted\ttrue\n2\ttrue\nfalse.-\t2\ttrue\n$', r.out, nil, r.err)
  end)

  it('holds pictures that are PNG files', function()
    local w = fill()
    local png
    for r in df.data.tfrecord(w.path) do png = png or r:match('\137PNG.*IEND....') end
    assert.equal('\0\0\0\13IHDR\0\0\0\7\0\0\0\5\8\2\0\0\0', png:sub(9, 29))
    local core = require 'dflow.backend'
    -- before IEND stand its length, the checksum of the chunk and that of Adler, four bytes each
    local rows = core.inflate(png:sub(png:find('IDAT', 1, true) + 6, png:find('IEND', 1, true) - 13), 5 * 22)
    assert.equal(('\0' .. ('\128'):rep(21)):rep(5), rows)
  end)

  it('is read back by TensorBoard', function()
    local python = os.getenv 'PYTHON'
    if not python or shell(python .. ' -c "import tensorboard" 2>&1'):find '%S' then return pending 'PYTHON names no Python that has tensorboard' end
    fill()
    local said = shell(('%s spec/training/summary_check.py %s/a/run 2>/dev/null'):format(python, folder))
    for _, line in ipairs{ 'scalar loss %[%(0, 1.0%), %(1, 0.5%), %(2, 0.333333%), %(3, 0.25%)%]', 'scalar one %[%(7, 2.5%)%]',
                           'histogram weights 4.0 1.0 3.0 4.0 4', 'image picture/image 5 7', "tensor note %[b'hello %*world%*'%]", 'graph %d',
                           'run at the end /job:localhost/replica:0/task:0/device:CPU:0 .*while/turn: Tanh, 3 times' } do
      assert.matches(line, said)
    end
  end)

  it('says what it does not take', function()
    local w = df.summary.FileWriter(folder)
    assert.matches('one number is expected', message_of(w.scalar, w, 'x', { 1, 2 }, 0))
    assert.matches('step is a whole number', message_of(w.scalar, w, 'x', 1, -1))
    assert.matches('the tag is a name', message_of(w.scalar, w, 3, 1, 0))
    assert.matches('%[height, width%]', message_of(w.image, w, 'x', df.tensor{ 1, 2 }, 0))
    assert.matches('a string is expected', message_of(w.text, w, 'x', 3, 0))
    local y = df.constant(1.0) + 1
    local h = df.start(y)
    h:wait()
    assert.matches('the run has no log; start it with {log = true}', message_of(w.run_metadata, w, 'x', h, 0), 1, true)
    assert.matches('a run such as df.start', message_of(w.run_metadata, w, 'x', y, 0))
    w:close()
    df.summary.FileWriter(folder .. '/graph', df.default_graph()):close()                 -- as in TensorFlow's Python
    assert.matches('its options are a table', message_of(df.summary.FileWriter, folder, 'x'))
    assert.matches('is closed', message_of(w.scalar, w, 'x', 1, 0))
    local f = io.open(folder .. '/plain', 'w')
    f:close()
    assert.is_false(pcall(df.summary.FileWriter, folder .. '/plain'))
  end)
end)
