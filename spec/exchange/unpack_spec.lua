--- What files unpack to: 2^30 bytes or 100 times the file, DFLOW_UNPACK_LIMIT in the place of 2^30. A small file that stands for very
-- much is an error at once.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'

describe('a small file that unpacks to much', function()
  local base = os.tmpname()
  local graph, npz = base .. '.gz', base .. '.npz'

  local function contents(path)
    return shell.read(path)
  end
  local function little(n, bytes)
    local out = {}
    for i = 1, bytes do out[i], n = string.char(n % 256), math.floor(n / 256) end
    return table.concat(out)
  end
  --- The bytes, deflated, and their checksum as four bytes: a gzip file without its first 10 and last 8 bytes.
  local function deflated(bytes)
    shell.write(base, bytes)
    assert(os.execute(('gzip -nc <%s >%s.deflated'):format(base, base)))
    local packed = contents(base .. '.deflated')
    os.remove(base .. '.deflated')
    return packed:sub(11, -9), packed:sub(-8, -5)
  end
  --- An npz file of deflated members, each {packed, checksum, size}.
  local function write_npz(members)
    local parts, directory, at = {}, {}, 0
    for i, m in ipairs(members) do
      local facts = '\20\0\0\0\8\0\0\0\0\0' .. m[2] .. little(#m[1], 4) .. little(m[3], 4) .. '\5\0\0\0'
      local name = ('%d.npy'):format(i)
      directory[i] = 'PK\1\2\20\0' .. facts .. ('\0'):rep(10) .. little(at, 4) .. name
      parts[#parts + 1] = 'PK\3\4' .. facts .. name .. m[1]
      at = at + #parts[#parts]
    end
    local list = table.concat(directory)
    shell.write(npz, table.concat(parts) .. list .. 'PK\5\6\0\0\0\0' .. little(#members, 2):rep(2) .. little(#list, 4) .. little(at, 4) .. '\0\0')
  end
  --- A .npy of three million zeros.
  local function zeros()
    local header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3000000,), }"
    header = header .. (' '):rep(63 - (#header + 10) % 64) .. '\n'
    return '\147NUMPY\1\0' .. little(#header, 2) .. header .. ('\0'):rep(3000000)
  end
  --- What the chunk prints where the environment says that limit; it has `df` and the path.
  local function run(limit, path, chunk)
    shell.write(base, ('local df, path = require "dflow", %q\nlocal ok, e = pcall(function() %s end)\nprint(ok and "read" or e.code .. ": " .. e.message)')
      :format(path, chunk))
    return shell.run(('%s %s %s'):format(limit and 'DFLOW_UNPACK_LIMIT=' .. limit or '', shell.lua, base)).out
  end
  teardown(function() for _, path in ipairs{ base, graph, npz } do os.remove(path) end end)

  it('is refused when it is a gzipped graph, by path and as bytes, and the message names the limit', function()
    local text = 'node { name: "x" op: "NoOp" }\n' .. ('# nothing at all\n'):rep(200000)
    shell.write(base, text)
    assert(os.execute(('gzip -nc <%s >%s'):format(base, graph)))
    for _, chunk in ipairs{ 'df.import_graph_def(path)', 'local f = io.open(path, "rb") df.import_graph_def(f:read("*a"))' } do
      local said = run(2000000, graph, chunk)
      assert.matches('resource_exhausted: .*unpacks to more than 2000000 bytes; DFLOW_UNPACK_LIMIT says how many are taken', said)
      assert.equal('read\n', run(4000000, graph, chunk))
      assert.equal('read\n', run(nil, graph, chunk))
    end
  end)

  it('is read whatever the limit is when it does not unpack', function()
    shell.write(graph, 'node { name: "x" op: "NoOp" }\n' .. ('# nothing at all\n'):rep(10000))
    assert.equal('read\n', run(1000, graph, 'df.import_graph_def(path)'))
  end)

  it('is refused when it is an npz, member by member and in all', function()
    local packed, checksum = deflated(zeros())
    local size = #zeros()
    write_npz{ { packed, checksum, size }, { packed, checksum, size } }
    assert.equal('read\n', run(nil, npz, 'assert(df.load_npz(path)["2"].shape[1] == 3000000)'))
    for _, limit in ipairs{ 2000000, 4000000 } do
      assert.matches(('resource_exhausted: .*unpacks to more than %d bytes; DFLOW_UNPACK_LIMIT says how many are taken'):format(limit),
                     run(limit, npz, 'df.load_npz(path)'))
    end
  end)

  it('is refused at once when it cannot unpack to what it says', function()
    local packed, checksum = deflated(zeros())
    write_npz{ { packed, checksum, 1000000000 } }
    local message = support.message_of(df.load_npz, npz)
    assert.matches('damaged', message)
    write_npz{ { packed, checksum, 4000000000 } }
    assert.matches('unpacks to more than 1073741824 bytes', support.message_of(df.load_npz, npz))
  end)

  it('is refused when it is a graph of many tensors that list one value', function()
    local nodes = {}
    for i = 1, 20 do
      nodes[i] = ('node { name: "c%d" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor {'
        .. ' dtype: DT_FLOAT tensor_shape { dim { size: 100000 } } float_val: 1 } } } }\n'):format(i)
    end
    shell.write(graph, table.concat(nodes))
    local said = run(3000000, graph, 'df.import_graph_def(path)')
    assert.matches('resource_exhausted: .*node `c%d+` of 400000 bytes makes the file unpack to more than it may; DFLOW_UNPACK_LIMIT', said)
    assert.equal('read\n', run(8000000, graph, 'df.import_graph_def(path)'))
  end)
end)
