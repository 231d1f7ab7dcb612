--- Checkpoints: df.save, df.restore, df.train.Saver, safetensors as such, and results that stay Tensors.
local df = require 'dflow'
local support = require 'spec.support'
local near, same, message_of = support.near, support.same, support.message_of

local shell = require('spec.shell').output
local function write(path, bytes) local f = assert(io.open(path, 'wb')) f:write(bytes) f:close() end
local function read(path) local f = assert(io.open(path, 'rb')) local s = f:read '*a' f:close() return s end
local error_of = require('spec.support').error_of

local function pause()
  local idle = df.FIFOQueue(1, 'int32')
  pcall(df.run, idle:dequeue(), nil, { timeout = 0.05 })
end

describe('checkpoints', function()
  local folder, path
  before_each(function()
    folder = shell('mktemp -d'):match '%S+'
    path = folder .. '/model.safetensors'
  end)
  after_each(function() shell('rm -rf ' .. folder) end)

  local function model()
    local w = df.Variable({ { 1.0, 2.0 }, { 3.0, 4.0 } }, { name = 'w' })
    local b = df.Variable(df.float64{ 0.5 }, { name = 'b' })
    return w, b, df.train.Adam(0.1):minimize(df.reduce_sum(w ^ 2) + df.cast(df.reduce_sum(b ^ 2), 'float32'))
  end

  it('bring back all variables, slots and where the random ops were', function()
    local w, b, step = model()
    local noise = df.random_normal({ 3 }, { seed = 4 })
    for _ = 1, 3 do df.run(step) end
    df.save(path)
    local function go_on() return df.run{ noise, step } and { df.run(noise), df.run(w), df.run(b) } end
    local first = go_on()
    df.restore(path)
    near(go_on(), first, { rtol = 0, atol = 0 })
    df.reset()                                          -- another process would build the model anew
    w, b, step = model()
    noise = df.random_normal({ 3 }, { seed = 4 })
    assert.same({ 'b', 'b/m', 'b/v', 'beta1_power', 'beta1_power_1', 'beta2_power', 'beta2_power_1', 'w', 'w/m', 'w/v' }, (df.restore(path)))
    near(go_on(), first, { rtol = 0, atol = 0 })
  end)

  it('hold hundreds of variables of long names, each found by its name', function()
    local all = {}
    for i = 1, 400 do all[('layer_%03d/%s/kernel_%d'):format(i, ('inner/'):rep(i % 7), i)] = df.tensor({ i, -i }, i % 2 == 0 and 'float32' or 'int32') end
    local prefix = folder .. '/many'
    df.save_checkpoint(prefix, all)
    local back, n = df.load_checkpoint(prefix), 0
    for name, t in pairs(back) do
      n = n + 1
      assert.same(all[name]:totable(), t:totable())
      assert.equal(all[name].dtype, t.dtype)
    end
    assert.equal(400, n)
  end)

  it('keep every dtype and rank', function()
    local vars, values = {}, {}
    for _, d in ipairs{ 'float64', 'float32', 'float16', 'bfloat16', 'int64', 'int32', 'int8', 'uint8', 'bool' } do
      for rank = 0, 2 do
        local t = df.tensor(d == 'bool' and true or 3, d, ({ {}, { 2 }, { 2, 0 } })[rank + 1])
        local v = df.Variable(t, { name = d .. rank })
        vars[#vars + 1], values[v] = v, t
      end
    end
    df.save(path, { variables = vars })
    local list = df.load_safetensors(path)
    for v, t in pairs(values) do
      assert.same({ t.dtype, t.shape }, { list[v.name].dtype, list[v.name].shape })
      assert.equal(tostring(t), tostring(list[v.name]))
    end
    df.restore(path, { variables = vars })
  end)

  it('are of the session that is named', function()
    local w = df.Variable(1.0, { name = 'w' })
    local s = df.Session{}
    s:run(w:assign(5.0))
    df.save(path, { session = s })
    assert.equal(1, df.run(w))
    df.restore(path)
    assert.equal(5, df.run(w))
    w:load(7, s)
    assert.equal(7, s:run(w))
    df.restore(path, { session = s })
    assert.equal(5, s:run(w))
    assert.matches('belongs to another graph', message_of(df.save, path, { session = df.Session{ graph = df.Graph() }, variables = { w } }))
  end)

  it('set all variables or none, and say what differs', function()
    local w, b = df.Variable({ 1.0, 2.0 }, { name = 'w' }), df.Variable(3.0, { name = 'b' })
    df.save_safetensors(path, { w = df.tensor{ 8.0, 9.0 }, b = df.tensor({ 1.0, 2.0, 3.0 }), other = df.tensor{ 1 } })
    local e = error_of(df.restore, path)
    assert.equal('invalid_argument', e.code)
    for _, part in ipairs{ path, "'b' is float32[3] in the file", 'the variable b is float32[]', "'other'" } do
      assert.is_truthy(e.message:find(part, 1, true), e.message)
    end
    near(df.run{ w, b }, { { 1, 2 }, 3 })
    df.save_safetensors(path, { w = df.tensor{ 8.0, 9.0 }, old = df.tensor(4.0) })
    e = error_of(df.restore, path)
    assert.equal('not_found', e.code)
    assert.matches("it has no 'b'", e.message)
    assert.matches("it has 'old'", e.message)
    near(df.run(w), { 1, 2 })
    df.save_safetensors(path, { w = df.tensor({ 8, 9 }, 'float64') })
    assert.matches("'w' is float64%[2%]", error_of(df.restore, path, { variables = { w } }).message)
  end)

  it('are restored in part, under other names, and from npz', function()
    local w, b = df.Variable({ 1.0, 2.0 }, { name = 'w' }), df.Variable(3.0, { name = 'b' })
    df.save_safetensors(path, { ['model.w'] = df.tensor{ 8.0, 9.0 } })
    assert.same({ 'w' }, (df.restore(path, { map = { ['model.w'] = w }, partial = true })))
    near(df.run{ w, b }, { { 8, 9 }, 3 })
    w:load{ 0, 0 }
    df.restore(path, { map = function(name) return name:gsub('^model%.', '') .. '' end, variables = { w } })
    near(df.run(w), { 8, 9 })
    assert.matches("no variable has that name", message_of(df.restore, path, { map = { ['model.w'] = 'v' } }))
    df.save_npz(folder .. '/x.npz', { w = df.tensor{ 5.0, 6.0 }, b = df.tensor(7.0) })
    df.restore(folder .. '/x.npz')
    near(df.run{ w, b }, { { 5, 6 }, 7 })
    df.save(path, { variables = { first = w } })
    assert.is_truthy(df.load_safetensors(path).first)
    df.restore(path, { variables = { first = w } })
  end)

  it('takes what fits where a part is enough, and tells why the rest was not taken', function()
    local path = os.tmpname() .. '.safetensors'
    df.Variable({ 1.0, 2.0, 3.0 }, { name = 'w' })
    df.Variable({ 5.0, 6.0 }, { name = 'u' })
    df.Variable(1.0, { name = 'gone' })
    df.save(path)
    df.reset()
    local w, u, new = df.Variable({ 9.0 }, { name = 'w' }), df.Variable({ 0.0, 0.0 }, { name = 'u' }), df.Variable(8.0, { name = 'new' })
    local names, _, skipped = df.restore(path, { partial = true })
    assert.same({ 'u' }, names)
    assert.same({ w = 'it is float32[1], in the file float32[3]', gone = 'there is no variable for it', new = 'the file does not have it' }, skipped)
    assert.same({ { 9 }, { 5, 6 }, 8 }, { df.run(w):totable(), df.run(u):totable(), df.run(new) })
    assert.matches("'w' is float32%[3%] in the file", support.message_of(df.restore, path))
    assert.matches("has none of the variables as they are: 'w' is float32%[3%]", support.message_of(df.restore, path, { variables = { w }, partial = true }))
    os.remove(path)
    df.reset()
    assert.matches('cannot open', support.message_of(df.restore, path))           -- before there are variables, too
  end)

  it('are kept, the last few and the best', function()
    local w = df.Variable(1.0, { name = 'w' })
    local prefix = folder .. '/run'
    local saver = df.train.Saver{ max_to_keep = 2 }
    assert.is_nil(saver:latest(prefix))
    for step = 8, 12 do
      w:load(step)
      assert.equal(('%s-%d.safetensors'):format(prefix, step), saver:save(prefix, { step = step }))
    end
    assert.same({ prefix .. '-11.safetensors', prefix .. '-12.safetensors' }, saver:checkpoints(prefix))
    assert.equal(prefix .. '-12.safetensors', saver:latest(prefix))
    assert.equal(prefix .. '-12.safetensors', df.train.Saver():latest(prefix))
    assert.equal('run-11.safetensors run-12.safetensors ', (shell('ls ' .. folder):gsub('%s', ' ')))
    w:load(0)
    saver:restore(prefix .. '-11')
    assert.equal(11, df.run(w))
    local best = df.train.Saver{ max_to_keep = 1, best = 'min' }
    prefix = folder .. '/best'
    for step, metric in ipairs{ 3, 1, 2, 0 / 0 } do best:save(prefix, { step = step, metric = metric }) end
    assert.same({ prefix .. '-2.safetensors', prefix .. '-4.safetensors' }, best:checkpoints(prefix))
    assert.same({ prefix .. '-2.safetensors', 1 }, { df.train.Saver{ best = 'min' }:best(prefix) })
    local all = df.train.Saver{ max_to_keep = 0 }
    local count = df.Variable(df.int64(3), { name = 'count' })
    for _ = 1, 7 do
      all:save(folder .. '/all', { step = count })
      df.run(count:assign_add(1))
    end
    assert.equal(7, #all:checkpoints(folder .. '/all'))
    assert.equal(folder .. '/all.safetensors', all:save(folder .. '/all'))
  end)

  it('lie in the folder that the program was started in where the prefix names none', function()
    local script = ([[
      local df = require 'dflow'
      local v, saver = df.Variable(1.0, {name = 'v'}), df.train.Saver{max_to_keep = 2, best = 'max'}
      for step = 1, 4 do saver:save('model', {step = step, metric = -step}) end
      print(saver:latest 'model', saver:best('model'), (select(2, saver:best 'model')), df.train.Saver():latest 'model', df.train.Saver():latest 'nothing')
      v:load(7)
      saver:restore 'model-4'
      print(df.run(v), table.concat(saver:checkpoints 'model', ' '))]])
    write(folder .. '/save.lua', script)
    local said = shell(("program=$(realpath %s/dflow) && cd %s && $program save.lua 2>&1"):format(os.getenv 'DFLOW_BUILD' or 'build/release', folder))
    assert.equal('model-4.safetensors\tmodel-1.safetensors\t-1\tmodel-4.safetensors\tnil\n1.0\tmodel-1.safetensors model-3.safetensors model-4.safetensors\n',
                 said)
  end)

  it('have their folder made', function()
    df.Variable(1.0, { name = 'w' })
    for _, background in ipairs{ false, true } do
      local saver = df.train.Saver{ background = background }
      local prefix = ("%s/it's %s/deep/model"):format(folder, background)
      saver:save(prefix, { step = 1 })
      assert.equal(prefix .. '-1.safetensors', saver:latest(prefix))
    end
    write(folder .. '/plain', '')
    assert.is_truthy(error_of(function() df.train.Saver():save(folder .. '/plain/model') end).code)
    assert.matches('mkdir %-p ' .. folder:gsub('%p', '%%%0') .. '/none', tostring(error_of(df.save, folder .. '/none/x')))
  end)

  it('are replaced, large ones too, and nothing of the old one stays open', function()
    local v = df.Variable(df.zeros{ 20, 262144 }, { name = 'v' })                 -- 20 MB
    for k = 1, 3 do
      df.run(v:assign(df.fill({ 20, 262144 }, k + 0.0)))
      df.save(path)
    end
    v:load(df.run(df.zeros{ 20, 262144 }))
    df.restore(path)
    assert.equal(3, df.run(v[19][262143]))
    local open
    for _ = 1, 100 do
      open = shell('ls -l /proc/$PPID/fd 2>/dev/null'):find('model.safetensors (deleted)', 1, true)
      if not open then break end
      shell 'sleep 0.05'
    end
    assert.is_nil(open)
    assert.equal('model.safetensors\n', shell('ls -A ' .. folder))
  end)

  it("say so where a session comes first, as in TensorFlow's Python, or the step by place", function()
    local s = df.Session()
    assert.matches("saver:save('m', {session = s, step = n})", message_of(function() df.train.Saver():save(s, 'm', 10) end), 1, true)
    assert.matches("saver:restore('m', {session = s})", message_of(function() df.train.Saver():restore(s, 'm') end), 1, true)
    assert.matches('{step = n}', tostring(error_of(function() df.train.Saver():save(folder .. '/m', 10) end)), 1, true)
  end)

  it('lie in several files where one would be too large', function()
    local w = df.Variable(df.tensor({ 1, 2, 3, 4 }, 'float64'), { name = 'w' })
    local b = df.Variable(df.tensor({ 5, 6 }, 'float32'), { name = 'b' })
    local prefix = folder .. '/m'
    local saver = df.train.Saver{ max_to_keep = 1, shard_bytes = 16 }
    for step = 1, 3 do saver:save(prefix, { step = step }) end
    assert.equal(3, select(2, shell('ls ' .. folder):gsub('\n', '')))
    w:load{ 0, 0, 0, 0 }
    b:load{ 0, 0 }
    saver:restore(prefix .. '-3')
    near(df.run{ w, b }, { { 1, 2, 3, 4 }, { 5, 6 } })
    shell(('rm %s/m-3-*-00001*'):format(folder))
    assert.equal('not_found', error_of(df.restore, prefix .. '-3.safetensors.index.json').code)
    write(folder .. '/evil.json', '{"weight_map": {"w": "../../etc/passwd"}}')
    assert.equal('data_loss', error_of(df.restore, folder .. '/evil.json').code)
  end)

  it('are refused when they are damaged, at whatever byte', function()
    local w = df.Variable({ 1.0, 2.0 }, { name = 'w' })
    df.save(path)
    local bytes = read(path)
    for n = 0, #bytes - 1 do
      write(path, bytes:sub(1, n))
      assert.equal('data_loss', error_of(df.restore, path).code)
    end
    write(path, bytes .. 'x')
    assert.equal('data_loss', error_of(df.restore, path).code)
    local function head(text, data)
      write(path, string.char(#text, 0, 0, 0, 0, 0, 0, 0) .. text .. (data or ''))
      local e = error_of(df.load_safetensors, path)
      assert.is_truthy(e.message:find(path, 1, true), e.message)
      return e.code
    end
    local eight = ('x'):rep(8)
    for _, text in ipairs{ '[]', '{', '{"w":3}', '{"w":{}}', '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}}',
                           '{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}', '{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}',
                           '{"w":{"dtype":"F32","shape":[1e18,1e18],"data_offsets":[0,8]}}', '{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
                           '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
                           '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"v":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
                           '{"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}}', '{"\\ud800":1}',
                           '{"w":{"dtype":"F64","shape":null,"data_offsets":[0,8]}}', '{"w":{"dtype":"F64","shape":{"1":8},"data_offsets":[0,8]}}',
                           '{"__metadata__":null,"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' } do
      assert.equal('data_loss', head(text, eight), text)
    end
    assert.equal('unimplemented', head('{"w":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}}', eight))
    write(path, ('\255'):rep(8) .. 'x')
    assert.equal('data_loss', error_of(df.restore, path).code)
    assert.equal('not_found', error_of(df.restore, folder .. '/none').code)
    near(df.run(w), { 1, 2 })
  end)

  it('are whole or as before when the process is killed', function()
    local program = (os.getenv 'DFLOW_BUILD' or 'build/release') .. '/dflow'
    local clock = require('dflow.backend').clock
    local began = clock()
    shell(program .. [[ -e "local v = df.Variable(1.0) df.save(']] .. path .. [[')"]])
    local once = clock() - began                        -- how long a process takes until it has saved
    os.remove(path)
    write(folder .. '/loop.lua', ([[local df = require 'dflow'
      local v = df.Variable(function() return df.zeros{100000} end, {name = 'v'})
      for i = 1, 1e9 do v:load(df.tensor(i, 'float32', {100000})) df.save(%q) end]]):format(path))
    local seen, i = 0, 0
    while i < 20 or seen == 0 and i < 28 do             -- later and later, where the machine became slow meanwhile
      i = i + 1
      shell(('timeout -s KILL %.3f %s %s/loop.lua 2>&1'):format(once * (i > 20 and i - 18 or 1 + i * 7 % 20 * 0.05), program, folder))
      local ok, list = pcall(df.load_safetensors, path)
      if ok then
        seen = seen + 1
        assert.equal(list.v:at(0), list.v:at(99999))
      else
        assert.equal('not_found', list.code)
      end
    end
    assert.is_true(seen > 0)
  end)

  it('hold what queues hold, in order, when asked to', function()
    local fifo = df.FIFOQueue(10, { 'float32', 'int32' }, { shapes = { { 2 }, {} }, name = 'jobs' })
    local ragged = df.PaddingFIFOQueue(-1, { 'float32' }, { shapes = { { -1 } }, name = 'ragged' })
    local best = df.PriorityQueue(-1, { 'int32' }, { shapes = { {} }, name = 'best' })
    local any = df.RandomShuffleQueue(-1, { 'int32' }, { shapes = { {} }, min_after_dequeue = 3, seed = 1, name = 'any' })
    local none = df.FIFOQueue(2, { 'string' }, { name = 'none' })
    df.Variable(1.0, { name = 'w' })
    local noise = df.random_uniform({}, { seed = 3 })
    for _, opts in ipairs{ {}, { background = true }, { shard_bytes = 20 } } do
      local s, t = df.Session{}, df.Session{}
      for i = 1, 4 do s:run{ fifo:enqueue({ i, i * 2 }, i), ragged:enqueue(df.ones{ i }), best:enqueue(df.int64(i % 2), i), any:enqueue(i) } end
      opts.queues = { fifo, ragged, best, any, none }
      local saver = df.train.Saver(opts)
      local at = saver:save(path, { session = s, step = 1 })
      saver:wait()
      t:run(fifo:enqueue({ 9, 9 }, 9))                          -- what was in it makes room
      saver:restore(at, { session = t })
      assert.equal(s:run(noise), t:run(noise))                  -- looking and filling count for no runs
      for _, now in ipairs{ s, t } do                           -- nothing was taken out
        local seen, all = {}, {}
        for i = 1, 4 do seen[i] = { now:run({ fifo:dequeue() })[2], now:run(ragged:dequeue()).size, now:run({ best:dequeue() })[2] } end
        assert.same({ { 1, 1, 2 }, { 2, 2, 4 }, { 3, 3, 1 }, { 4, 4, 3 } }, seen)
        now:run(any:close())
        for i = 1, 4 do all[i] = now:run(any:dequeue()) end
        table.sort(all)
        assert.same({ 1, 2, 3, 4 }, all)
        assert.equal(0, now:run(none:size()))
      end
      s:close()
      t:close()
    end
    df.save(path, { queues = fifo })
    assert.equal('not_found', error_of(df.restore, path, { queues = { ragged } }).code)
    assert.matches('element 1 is the number 3', error_of(df.save, path, { queues = { 3 } }).message)
    assert.matches('not a table with names', error_of(df.save, path, { queues = { jobs = fifo } }).message)
    local other = df.Graph():as_default(function() return df.FIFOQueue(1, { 'int32' }, { name = 'far' }) end)
    assert.matches("save: the queue 'far' belongs to another graph", error_of(df.save, path, { queues = { other } }).message)
    df.run(none:enqueue('text'))
    assert.matches("the queue 'none' holds strings", error_of(df.save, path, { queues = { none } }).message)
    df.run(fifo:close())
    assert.equal('failed_precondition', error_of(df.restore, path, { queues = { fifo } }).code)
    local small = df.Graph()
    small:as_default(function()
      df.Variable(1.0, { name = 'w' })
      local q = df.FIFOQueue(10, { 'float32', 'float32' }, { shapes = { { 2 }, {} }, name = 'jobs' })
      local s = df.Session{ graph = small }
      for i = 1, 2 do s:run(q:enqueue({ i, i }, i)) end
      df.save(path, { session = s, queues = { q } })
      s:close()
    end)
    df.reset()
    df.Variable(1.0, { name = 'w' })
    assert.matches('component 2 of the queue .jobs. is int32%[%], in .* it is float32%[%]', error_of(df.restore, path,
      { queues = { df.FIFOQueue(10, { 'float32', 'int32' }, { shapes = { { 2 }, {} }, name = 'jobs' }) } }).message)
    df.reset()
    local w = df.Variable(5.0, { name = 'w' })
    local wide = df.FIFOQueue(10, { 'float32', 'float32' }, { shapes = { { 3 }, {} }, name = 'jobs' })
    df.run(wide:enqueue({ 7, 8, 9 }, 1))
    assert.matches('component 1 of the queue .jobs. is float32%[3%], in .* it is float32%[2%]', error_of(df.restore, path, { queues = { wide } }).message)
    assert.same({ 5, 1 }, df.run{ w, wide:size() })                   -- all or nothing
    df.reset()
    df.Variable(1.0, { name = 'w' })
    assert.matches("elements of the queue 'jobs' have 1 components, in .* they have more", error_of(df.restore, path,
      { queues = { df.FIFOQueue(10, { 'float32' }, { shapes = { { 2 } }, name = 'jobs' }) } }).message)
    df.reset()
    df.Variable(1.0, { name = 'w' })
    assert.matches('2 elements of the queue .jobs., which holds 1', error_of(df.restore, path,
      { queues = { df.FIFOQueue(1, { 'float32', 'float32' }, { shapes = { { 2 }, {} }, name = 'jobs' }) } }).message)
  end)

  it('restore a queue in one step: waiters for room or elements go on with what was restored', function()
    df.Variable(1.0, { name = 'w' })
    local q = df.FIFOQueue(2, 'int32', { shapes = {}, name = 'full' })
    local take, size = q:dequeue(), q:size()
    df.run(q:enqueue_many{ 1, 2 })
    df.save(path, { queues = q })
    for _ = 1, 2 do df.run(take) end
    local many = df.start(q:enqueue_many{ 7, 8, 9 })                -- two of them have room
    for _ = 1, 1000 do if df.run(size) == 2 then break end pause() end
    local one = df.start(q:enqueue(10))
    pause()
    df.restore(path, { queues = q })
    assert.is_false(many:done() or one:done())
    assert.same({ 1, 2 }, { df.run(take), df.run(take) })           -- not 7, which was in it
    assert.same({ 9, 10 }, { df.run(take), df.run(take) })
    many:wait()
    one:wait()
    local batch = df.start(q:dequeue_many(3))
    pause()
    df.restore(path, { queues = q })
    pause()
    assert.is_false(batch:done())
    df.run(q:enqueue(5))
    same(batch:wait(), { 1, 2, 5 })
  end)

  it('restore a queue that lies on another device, and of a graph that nothing is added to any more', function()
    df.Variable(1.0, { name = 'w' })
    local q = df.device('sim:1', function() return df.PriorityQueue(4, 'float32', { shapes = { {} }, name = 'far' }) end)
    local first = df.placeholder('int64', {})
    local put, take = q:enqueue(first, 2.5), { q:dequeue() }
    local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    local saver = df.train.Saver{ queues = q }
    q.graph:finalize()
    for _, p in ipairs{ 3, 1, 2 } do s:run(put, { [first] = p }) end
    local at = saver:save(path, { session = s })
    s:run(take)
    saver:restore(at, { session = s })
    local seen = {}
    for i = 1, 3 do seen[i] = s:run(take)[1] end
    assert.same({ 1, 2, 3 }, seen)
    s:close()
  end)

  it('say what they are asked wrongly', function()
    local w = df.Variable(1.0, { name = 'w' })
    assert.matches('path is expected', message_of(df.save, 3))
    assert.matches("no option 'vars'", message_of(df.save, path, { vars = { w } }))
    assert.matches('a list of Variables', message_of(df.save, path, { variables = { 3 } }))
    assert.matches('session is table', message_of(df.save, path, { session = {} }))
    assert.matches('max_to_keep', message_of(df.train.Saver, { max_to_keep = -1 }))
    assert.matches('metric is a number', message_of(function() df.train.Saver{ best = 'max' }:save(folder .. '/x') end))
    local s = df.Variable('words', { name = 's' })
    assert.matches('no string', message_of(df.save, path, { variables = { s } }))
    assert.matches('none of the variables', message_of(function()
      df.save(path, { variables = { w } })
      df.restore(path, { variables = { s }, partial = true })
    end))
  end)
end)

describe('a run with tensors = true', function()
  it('leaves results of rank 0 Tensors, with their dtype', function()
    local x, i, t = df.constant(1.5, 'float64'), df.int64(7), df.constant('words')
    local got = df.run({ x, { i }, t, df.constant{ 1, 2 } }, nil, { tensors = true })
    assert.same({ 'float64', 'int64', 'string' }, { got[1].dtype, got[2][1].dtype, got[3].dtype })
    assert.equal(1.5, got[1]:item())
    assert.equal('float32', df.run(df.float32(1), nil, { tensors = true }).dtype)
    assert.equal('bool', df.run(df.constant(true), nil, { tensors = true }).dtype)
    assert.equal(1.5, df.run(x))
    assert.equal('float64', df.start(x, nil, { tensors = true }):wait().dtype)
    local s = df.Session{ tensors = true }
    assert.equal('int64', s:run(i).dtype)
    assert.equal(7, s:run(i, nil, { tensors = false }))
    assert.is_true(df.run(df.no_op(), nil, { tensors = true }))
    assert.matches('tensors is true or false', message_of(df.run, x, nil, { tensors = 1 }))
  end)

  it('saves scalars with their dtype', function()
    local path = os.tmpname()
    df.save_npz(path, df.run({ a = df.float64(0.1), b = df.int64(5), c = df.constant(true) }, nil, { tensors = true }))
    local list = df.load_npz(path)
    os.remove(path)
    assert.same({ 'float64', 'int64', 'bool', 0 }, { list.a.dtype, list.b.dtype, list.c.dtype, list.a.rank })
    assert.equal(0.1, list.a:item())
  end)
end)

describe('a map of names', function()
  it('that speaks of what the file does not have is an error', function()
    local path = os.tmpname()
    df.save_safetensors(path, { w = df.tensor{ 1.0, 2.0 } })
    local v = df.Variable({ 0.0, 0.0 }, { name = 'v' })
    local e = support.error_of(df.restore, path, { map = { v = 'w' } })
    assert.equal('not_found', e.code)
    assert.matches("map names 'v', which .* does not have.*goes from names in the file to variables", tostring(e))
    df.restore(path, { map = { w = 'v' } })
    os.remove(path)
    assert.same({ 1, 2 }, df.run(v):totable())
  end)
end)

describe('a Saver that writes in the background', function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
  end)
  after_each(function() os.execute('rm -rf ' .. folder) end)

  it('writes what the variables were when it was asked, and keeps as many as any other', function()
    local w, saver = df.Variable({ 0.0, 0.0 }, { name = 'w' }), df.train.Saver{ max_to_keep = 2, background = true }
    for i = 1, 4 do
      w:load{ i, -i }
      assert.equal(('%s/m-%d.safetensors'):format(folder, i), saver:save(folder .. '/m', { step = i }))
      w:load{ 99, 99 }
    end
    assert.equal(folder .. '/m-4.safetensors', saver:latest(folder .. '/m'))
    assert.same({ folder .. '/m-3.safetensors', folder .. '/m-4.safetensors' }, saver:checkpoints(folder .. '/m'))
    saver:restore(folder .. '/m-3')
    assert.same({ 3, -3 }, df.run(w):totable())
    local plain = df.train.Saver{}
    w:load{ 4, -4 }
    plain:save(folder .. '/n')
    local a, b = df.load_safetensors(folder .. '/n.safetensors'), df.load_safetensors(folder .. '/m-4.safetensors')
    assert.same(a.w:totable(), b.w:totable())
  end)

  it('says what went wrong at the next call, once', function()
    local _, saver = df.Variable(1.0, { name = 'w' }), df.train.Saver{ background = true }
    shell(('mkdir %s/there.safetensors'):format(folder))
    saver:save(folder .. '/there')
    local e = support.error_of(saver.wait, saver)
    assert.matches('cannot write .*/there.safetensors', tostring(e))
    shell(('rmdir %s/there.safetensors'):format(folder))
    saver:wait()
    saver:save(folder .. '/there')
    saver:wait()
    assert.matches('true or false', message_of(df.train.Saver, { background = 1 }))
    assert.matches('shard_bytes', message_of(df.train.Saver, { background = true, shard_bytes = 10 }))
  end)
end)
