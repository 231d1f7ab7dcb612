-- What holds of every file of runtime/: spec/house/house.lua has the lists and their reasons.
-- run: once
local house = require 'spec.house.house'
local shell = require 'spec.shell'

--- What house.lua says of a runtime that has one file, with this line, and maybe another one.
local function with(path, text, other, its_text)
  local here = shell.run('pwd').out:gsub('%s+$', '')
  local dir = shell.run('mktemp -d').out:gsub('%s+$', '')
  shell.run(('mkdir -p %s/%s'):format(dir, path:match '^(.*)/'))
  shell.write(dir .. '/' .. path, text .. '\n')
  if other then shell.write(dir .. '/' .. other, its_text .. '\n') end
  local r = shell.run(([[cd %s && LUA_PATH='%s/?.lua;%s/stdlib/?.lua;;' ${DFLOW_INTERPRETER:-lua5.4} -e "
    local house = dofile '%s/spec/house/house.lua'
    for _, list in ipairs{ house.names(), house.touching(), house.bare_names(), house.long_functions(), house.writing(),
                          house.host_names(), house.circles() } do
      print(table.concat(list, '\\n')) end"]]):format(dir, here, here, here))
  shell.run('rm -rf ' .. dir)
  return r.out .. r.err
end

describe('runtime/', function()
  it('asks no node for its name: what matters of an op is in its entry', function()
    assert.are.same({}, house.names())
  end)

  it('is not asked for the name of a node by Lua either, but for a reason', function()
    assert.are.same({}, house.lua_names())
  end)

  it('tells Lua what the host\'s device is called: it says cpu:0 nowhere by itself', function()
    assert.are.same({}, house.host_names())
  end)

  it('touches elements only where they are the host\'s, and says why they are', function()
    assert.are.same({}, house.touching())
  end)

  it('writes files through its one writer, as do kernels/, interp/ and stdlib/, or says why not', function()
    assert.are.same({}, house.writing())
  end)

  it('gives what other files see a name that begins with its library, and kernels/ does so, too', function()
    assert.are.same({}, house.bare_names())
  end)

  it('has functions that can be looked at as a whole, as have kernels/ and interp/', function()
    assert.are.same({}, house.long_functions())
  end)

  it('has, in stdlib/, no two modules that require each other', function()
    assert.are.same({}, house.circles())
  end)

  it('names what acts in comments, as do interp/ and stdlib/: not somebody, and no run that stands still', function()
    assert.are.same({}, house.nobodies())
    local text, inside = house.comment_of('f("nobody"); /* a reader', true, false)
    assert.are.same({ ' a reader', true }, { text, inside })
    assert.are.same({ ' goes on   here  ', false }, { house.comment_of(' goes on */ x = 1; /* here */ y = 2;', true, true) })
    assert.are.equal(' here', (house.comment_of("local s = 'a -- b' -- here", false)))
  end)

  it('is read by something that sees a name compared, a list of names, elements read and a bare name', function()
    assert.is_truthy(with('runtime/plan/find.c', 'static bool a(const df_node *n) { return !strcmp(op_of(n)->type, "AddN"); }')
      :find('runtime/plan/find.c:%d+: compares names'))
    assert.is_truthy(with('runtime/plan/find.c', 'static const char *const cheap[] = { "Neg", "Abs" };'):find('names Neg'))
    assert.is_truthy(with('runtime/plan/find.c', 'float f(df_tensor *t) { return *(float *)t->data; }'):find('touches elements'))
    assert.is_truthy(with('runtime/plan/find.c', 'df_node *value(df_node *n) { return n; }'):find('other files see value', 1, true))
    assert.is_nil(with('runtime/plan/find.c', 'static df_node *value(df_node *n) { return n; }'):find('other files see', 1, true))
    assert.is_truthy(with('runtime/plan/find.c', 'FILE *f = fopen(path, "wb");'):find('find.c:1: writes a file', 1, true))
    assert.is_truthy(with('runtime/plan/find.c', 'int f = open(path, O_CREAT | O_WRONLY, 0644);'):find('find.c:1: writes a file', 1, true))
    assert.is_nil(with('runtime/plan/find.c', 'FILE *f = fopen(path, "re");'):find('find.c:1: writes a file', 1, true))
    assert.is_truthy(with('stdlib/dflow/find.lua', "local f = io.open(path, 'wb')"):find('find.lua:1: writes a file', 1, true))
    assert.is_nil(with('stdlib/dflow/find.lua', "local f = io.open(path, 'rb')"):find('find.lua:1: writes a file', 1, true))
    assert.is_truthy(with('stdlib/dflow/find.lua', "return stats.memory['cpu:0']"):find('find.lua:1: says cpu:0', 1, true))
    assert.is_nil(with('stdlib/dflow/find.lua', '-- such as cpu:0'):find('says cpu:0', 1, true))
    assert.is_truthy(with('stdlib/dflow/find.lua', "return function() return require('dflow.seek') end", 'stdlib/dflow/seek.lua', "require 'dflow.find'")
      :find('dflow.find and dflow.seek', 1, true))
    local long = 'static void turn(int n) {\n' .. ('  n++;\n'):rep(59) .. '}'
    assert.is_truthy(with('runtime/plan/find.c', long):find('find.c:1 turn: 61 lines', 1, true))
    assert.is_nil(with('runtime/plan/find.c', (long:gsub('  n%+%+;\n', '', 1))):find('find.c:1 turn', 1, true))
  end)
end)

describe('an entry', function()
  local core = require 'dflow.backend'
  local registry = require 'dflow.front.registry'

  it('is taken apart by the library', function()
    local e = registry.need 'MatMul'
    assert.are.equal(e, registry.entry 'matmul')
    local parts = core.op_about(e.id, 'parts')
    assert.are.equal('attr transpose_a bool 0 false', parts:match '^[^\n]+')
    assert.is_truthy(parts:find('\ntype T [%d,]+ float|int32|int64|complex\n'))
    assert.is_truthy(parts:find('\nin a one T . . T\nin b one T . . T\nout product one T . . T\n', 1, true))
    local dtypes = require 'dflow.front.dtypes'
    assert.is_true(e.types.T[dtypes.number.int32])
    assert.is_nil(e.types.T[dtypes.number.bool])
  end)

  it('says lists, what may be left out, what counts them and what is required', function()
    local function parts(type) return core.op_about(registry.need(type).id, 'parts') end
    assert.is_truthy(parts 'CustomGradient':find('attr nx int 1 \n', 1, true))
    assert.is_truthy(parts 'CustomGradient':find('out output list . [%d,]+ %-nx all\n'))
    assert.is_truthy(parts 'FunctionCall':find('out results list . [%d,]+ Tout Tout\n'))
    assert.is_truthy(parts 'TensorArray':find('out handle one . %d+ . handle\n'))
    assert.is_nil(core.op_about(-1, 'parts'))
    assert.is_nil(core.op_about(core.op_count(), 'parts'))
  end)

  it('is read nowhere else: Lua takes the words of the grammar from nowhere', function()
    local r = shell.run [[grep -rnE 'info\.(inputs|outputs|types|attrs)' stdlib interp --include=*.lua]]
    assert.are.equal('', r.out)
  end)
end)

describe('a reason why a change cannot be noticed', function()
  it('is of a line that its file has, and says what it becomes and why', function()
    for _, r in ipairs(dofile 'spec/mutants_reasons.lua') do
      assert.is_truthy(shell.read(r.file):find(r.before, 1, true), r.file .. ' has no line any more: ' .. r.before)
      assert.are_not.equal(r.before, r.after)
      assert.is_truthy(#r.reason > 0)
    end
  end)
end)
