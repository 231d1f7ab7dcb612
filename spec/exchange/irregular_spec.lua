-- Paths behind which there is no file: a pipe that may never have a writer, a socket, a folder, a terminal. No reader waits for one.
-- Everything is read in a process of its own, which is ended when it waits.
-- run: first
local shell = require 'spec.shell'

local program = shell.dflow
if program:sub(1, 1) ~= '/' then program = shell.run('pwd').out:gsub('%s+$', '') .. '/' .. program end
local root = shell.run('pwd').out:gsub('%s+$', '')

--- Runs a shell line in a new folder, where $dflow is the program; what it printed, both ways.
local function inside(line)
  local r = shell.run(([[folder=$(mktemp -d) && cd "$folder" && export LUA_PATH='%s/?.lua;%s/stdlib/?.lua;;' dflow='timeout 100 %s'
    { %s
    } 2>&1; status=$?; rm -rf "$folder"; exit $status]]):format(root, root, program, line))
  return (r.out:gsub('%s+$', '')), r.status
end

--- Every reader of the kinds of files there are, asked for what the shell line makes of $1: a line of each that says anything but `pattern`.
local function readers(make, pattern)
  return inside(([[cat > all.lua <<'END'
    local seen = 0
    for _, kind in ipairs(require 'spec.fuzz_kinds') do
      if kind.name == 'json' then goto next end                -- which the spec reads by itself
      kind.seeds()
      local path = kind.path or './there' .. (kind.ending or '')
      os.execute(([=[rm -rf '%%s'; make() { %s; }; make '%%s']=]):format(path, path))
      local ok, e = pcall(kind.read, path)
      local says = type(e) == 'table' and tostring(e.message) or tostring(e)
      seen = seen + 1
      if ok or type(e) ~= 'table' or not says:find('%s') then print(kind.name, says) end
      os.execute(("rm -rf '%%s'"):format(path))
      ::next::
    end
    print(seen > 20)
END
$dflow all.lua </dev/null]]):format(make, pattern))
end

describe('a path that is no file', function()
  it('but a pipe is refused by every reader', function()
    assert.equal('true', (readers([[mkfifo "$1"]], 'it is a pipe, not a file')))
  end)

  it('but a folder is refused by every reader', function()
    assert.equal('true', (readers([[mkdir "$1"]], 'Is a directory')))
  end)

  it('but a socket is refused by every reader', function()
    if not shell.run('command -v python3').out:find '%S' then pending 'python3 is not there' end
    assert.equal('true', (readers([[python3 -c "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])" "$1"]], 'it is a socket, not a file')))
  end)

  it('in a folder of a model says so, and not that there is none', function()
    assert.matches('cannot read ./model/saved_model.pb: it is a pipe, not a file', inside [[mkdir model; mkfifo model/saved_model.pb
      $dflow -e "df.import_graph_def './model'"]])
    assert.matches('cannot read ./model/saved_model.pbtxt: it is a device, not a file', inside [[mkdir model; ln -s /dev/zero model/saved_model.pbtxt
      $dflow -e "df.import_graph_def './model'"]])
    assert.matches('cannot read ./model: Is a directory', inside [[mkdir model; $dflow -e "df.import_graph_def './model'"]])
  end)

  it('ends at no zero byte: what is before one is another path', function()
    local df = require 'dflow'
    local path = os.tmpname()
    df.save_npy(path, df.tensor({ 1, 2 }, 'float32'))
    for _, read in ipairs{ df.load_npy, df.load_npz, df.data.csv, df.data.read } do
      local ok, e = pcall(read, path .. '\0x')
      assert.is_false(ok)
      assert.equal('invalid_argument', e.code)
      assert.matches('holds a zero byte', e.message)
    end
    os.remove(path)
  end)

  it('is read where the process was given it: standard input, and what a shell puts in its place', function()
    assert.equal('6\n6\n6', inside [[printf 'a\n6\n' > there.csv
      echo "print(df.data.csv(arg[1]).a:totable()[1])" > read.lua
      $dflow read.lua /dev/stdin < there.csv; cat there.csv | $dflow read.lua /dev/stdin; bash -c "$dflow read.lua <(sleep 0.1; cat there.csv)"]])
  end)

  it('is no script that is read twice: what is warned of, and what is quoted, is not waited for', function()
    assert.equal('7', inside [[mkfifo script; echo 'print(7)' > script & $dflow script]])
    local said = inside [[mkfifo script; printf 'local df = require "dflow"\ndf.matmul(1, 2, 3)\n' > script & $dflow script; echo $?]]
    assert.matches('script:2: .*1$', said)
  end)

  it('is not written where it is a pipe without a reader', function()
    for _, call in ipairs{ "df.save_npy('there', df.tensor{1})", "df.save_npz('there', {a = df.tensor{1}})", "df.save('there')", "df.draw(w, {path = 'there'})",
                           "df.export_graph_def('there', {outputs = {w + 1}})", "df.run(w + 1, nil, {trace = 'there'})" } do
      assert.matches('cannot write there: it is a pipe, and nobody reads from it',
                     (inside(([[mkfifo there; echo "local w = df.Variable(1.0) print(select(2, pcall(function() %s end)).message)" > a.lua; $dflow -l df=dflow a.lua]])
                       :format(call))), call)
    end
    assert.equal('136', inside [[mkfifo there; wc -c < there & sleep 0.3; $dflow -e "df.save_npy('there', df.tensor{1, 2})"; wait]])
    assert.equal('136\n136', inside [[$dflow -e "df.save_npy('/dev/stdout', df.tensor{1, 2})" | wc -c
      bash -c "$dflow -e \"df.save_npy('/dev/fd/63', df.tensor{1, 2})\" 63> >(wc -c); sleep 0.5"]])
  end)

  it('is written until Ctrl-C where it is not taken out', function()
    assert.equal('130', inside [[mkfifo there; sleep 50 < there & slow=$!; sleep 0.3
      timeout -k 10 60 "${dflow#timeout 100 }" -e "local t = df.run(df.zeros{100000}) io.open('ready', 'w'):close() df.save_npy('there', t)" 2> said & run=$!
      while [ ! -e ready ]; do sleep 0.1; done; sleep 1; kill -INT $(cat /proc/$run/task/$run/children)
      wait $run; echo $?; kill $slow; grep -q 'cannot write there: Operation canceled' said || cat said]])
  end)

  it("is not waited for as the user's init.lua, and as another chunk until Ctrl-C", function()
    local said = inside [[mkdir -p here/dflow; mkfifo here/dflow/init.lua; echo '3 * 4' | XDG_CONFIG_HOME=$PWD/here $dflow -i]]
    assert.matches('init.lua: it is a pipe, not a file', said)
    assert.matches('12', said)
    said = inside [[mkfifo there
      (echo "io.open('ready', 'w'):close() dofile 'there'"; while [ ! -e sent ]; do sleep 0.1; done; echo '3 * 4') | timeout -k 10 60 "${dflow#timeout 100 }" -i & run=$!
      while [ ! -e ready ]; do sleep 0.1; done; sleep 1; kill -INT $(cat /proc/$run/task/$run/children); touch sent; wait $run]]
    assert.matches('cannot open there: Interrupted', said)
    assert.matches('12', said)
  end)
end)
