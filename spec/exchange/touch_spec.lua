--- A graph may come from anywhere: what it computes opens no file, starts no process and makes no connection unless the program gave leave.
local df = require 'dflow'
local shell = require 'spec.shell'

-- What opens a path, starts a process or makes a connection in C, and dflow's own functions that do.
local OPENS = { 'fopen', 'freopen', 'open', 'openat', 'creat', 'opendir', 'mkdir', 'rmdir', 'unlink', 'remove', 'rename', 'mkstemp', 'truncate', 'chmod',
                'symlink', 'link', 'popen', 'system', 'fork', 'vfork', 'posix_spawn', 'execl', 'execv', 'execvp', 'execve', 'dlopen', 'socket', 'connect',
                'bind', 'accept', 'stat', 'access', 'glob', 'dfk_library_open', 'df_read_file', 'df_file_create', 'dfi_file_open', 'dfi_checkpoint_open', 'dfi_checkpoint_write', 'dfi_checkpoint_remove' }

-- What kernels and ops may call of these, each by the function that calls it, and why a graph cannot reach it without leave.
local KNOWN = {
  ['kernels/ref/string_text.c'] = { ref_print_v2 = 'asks' },
  ['runtime/ops/checkpoint.c'] = { write_all = 'its callers ask', kernel_save = 'asks', kernel_restore = 'asks', remove_parts = 'its caller asks',
                                   read_part = 'its caller asks', kernel_merge = 'asks', kernel_write_whole = 'asks' },
  ['runtime/ops/files.c'] = { kernel_read = 'asks', kernel_write = 'asks', names_of = 'its caller asks' },
  ['runtime/ops/table_file.c'] = { dfi_table_fill_from_file = 'asks' },
  ['runtime/resource/checkpoint.c'] = 'reads and writes checkpoints for ops that have asked',
  ['kernels/disk.c'] = 'the cache of compiled kernels, under names of its own',
  ['kernels/cpu/blas.c'] = 'a library of a fixed name', ['kernels/cpu/lapack.c'] = 'a library of a fixed name',
  ['kernels/cpu/onednn.c'] = 'a library of a fixed name', ['kernels/ref/letters.c'] = 'a library of a fixed name',
  ['kernels/library.c'] = 'for libraries of fixed names', ['kernels/cuda/driver.c'] = 'libraries of fixed names',
}

local function without_comments(text) return (text:gsub('/%*.-%*/', ' '):gsub('"[^"\n]*"', '""')) end

--- The functions of a C file that call one of OPENS: name -> what it calls.
local function openers(path)
  local found, current = {}, '(top)'
  for line in without_comments(shell.read(path)):gmatch '[^\n]+' do
    current = line:match '^[%a_][^;]-([%w_]+)%(' or current
    for _, name in ipairs(OPENS) do
      for at in line:gmatch('()' .. name .. '%s*%(') do
        local before = line:sub(at - 1, at - 1)
        if not before:match '[%w_>.]' and current ~= name then found[current] = name end
      end
    end
  end
  return found
end

describe('what a graph computes', function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    shell.run('mkdir ' .. folder)
  end)
  after_each(function() shell.run('rm -r ' .. folder) end)

  it('opens a path, starts a process or makes a connection only in functions that ask, or that no graph leads to', function()
    local seen, files = 0, io.popen 'find kernels runtime/ops runtime/resource -name "*.c" | sort'
    for path in files:lines() do
      for caller, what in pairs(openers(path)) do
        seen = seen + 1
        local known = KNOWN[path]
        if type(known) == 'table' then known = known[caller] end
        assert(known, ('%s calls %s in %s: let it ask dfk_may_touch, and list it here'):format(caller, what, path))
      end
    end
    files:close()
    assert(seen > 10)
    for path, known in pairs(KNOWN) do
      for caller, how in pairs(type(known) == 'table' and known or {}) do
        if how == 'asks' then
          local body = shell.read(path):match('\n[%w_ ]-' .. caller .. '%b()%s*(%b{})')
          assert(body and (body:find('dfk_may_touch(', 1, true) or body:find('dfi_path_input(', 1, true)), caller .. ' does not ask')
        end
      end
    end
  end)

  local function const(name, value)
    return ('node { name: "%s" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value" value { tensor { dtype: DT_STRING ' ..
            'tensor_shape { %s} string_val: "%s" } } } }\n'):format(name, name == 'names' and 'dim { size: 1 } ' or '', value)
  end

  --- Every op that touches a file of the name that it is given, as a graph that fetches `y`.
  local function graphs(path)
    local strings = const('path', path) .. const('names', 'w') ..
      'node { name: "slices" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value" value { tensor { dtype: DT_STRING ' ..
      'tensor_shape { dim { size: 1 } } string_val: "" } } } }\n'
    return {
      PrintV2 = const('text', 'hi') .. ('node { name: "y" op: "PrintV2" input: "text" attr { key: "output_stream" value { s: "file://%s" } } }'):format(path),
      SaveV2 = strings .. [[node { name: "y" op: "SaveV2" input: "path" input: "names" input: "slices" input: "names"
        attr { key: "dtypes" value { list { type: DT_STRING } } } }]],
      RestoreV2 = strings .. [[node { name: "y" op: "RestoreV2" input: "path" input: "names" input: "slices"
        attr { key: "dtypes" value { list { type: DT_STRING } } } }]],
      ReadFile = strings .. 'node { name: "y" op: "ReadFile" input: "path" }',
      WriteFile = strings .. 'node { name: "y" op: "WriteFile" input: "path" input: "path" }',
      WriteWholeFile = strings .. 'node { name: "y" op: "WriteWholeFile" input: "path" input: "names" attr { key: "parts" value { list { type: DT_STRING } } } }',
      MatchingFiles = strings .. 'node { name: "y" op: "MatchingFiles" input: "path" }',
      MergeV2Checkpoints = strings .. [[node { name: "y" op: "MergeV2Checkpoints" input: "names" input: "path" }]],
    }
  end

  it('is refused where it would touch a file, and leaves none', function()
    for op, text in pairs(graphs(folder .. '/written')) do
      local g = df.import_graph_def(text)
      local ok, err = pcall(function() df.Session{ graph = g }:run(g:op 'y') end)
      assert(not ok, op)
      assert.equal('permission_denied', err.code, op)
      assert.matches('may not touch the file', err.message)
    end
    assert.equal('', shell.run('ls -A ' .. folder).out)
  end)

  it('prints to a file where the program gives leave', function()
    local g = df.import_graph_def(graphs(folder .. '/written').PrintV2, { files = true })
    df.Session{ graph = g }:run(g:op 'y')
    assert.equal('hi\n', shell.read(folder .. '/written'))
  end)

  it('does not take a string for leave that the path is not made of', function()
    local fed = 'node { name: "fed" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } attr { key: "shape" value { shape { } } } }\n'
    for op, text in pairs(graphs(folder .. '/written')) do
      local g = df.import_graph_def(fed .. text .. ' node { name: "seen" op: "Identity" input: "fed" }')
      local ok, err = pcall(function() df.Session{ graph = g }:run({ g:op 'y', g:output 'seen:0' }, { [g:output 'fed:0'] = folder }) end)
      assert(not ok, op)
      assert.equal('permission_denied', err.code, op)
    end
  end)

  it('calls no function of the program by its number', function()
    local called = 0
    df.lua_func(function(x) called = called + 1 return x end, { df.float32(1) }, { 'float32' })
    for _, op in ipairs{ 'HostCall', 'HostCallStateless' } do
      local g = df.import_graph_def(([[
        node { name: "x" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
        node { name: "y" op: "%s" input: "x" attr { key: "host" value { i: 0 } } attr { key: "id" value { i: 1 } }
          attr { key: "Tout" value { list { type: DT_FLOAT } } } }]]):format(op))
      local ok, err = pcall(function() df.Session{ graph = g }:run(g:op 'y') end)
      assert(not ok)
      assert.equal('unimplemented', err.code)
    end
    assert.equal(0, called)
  end)
end)
