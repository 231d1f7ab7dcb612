--- What holds of every file of runtime/, besides the floors (spec/floors.lua): which may name an op, and which may touch the
-- elements of a tensor; and which of stdlib/ may name an op. A name or a line that is not here fails; so does one here that the code no longer has.
local core = require 'dflow.backend'
local M = {}

local function files(where, ends)
  local list, pipe = {}, assert(io.popen("find " .. where .. " -name '*." .. (ends or '[ch]') .. "' | sort"))
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

--- The lines of a file without its comments.
local function code(path)
  local file = assert(io.open(path))
  local text = file:read '*a'
  file:close()
  text = text:gsub('/%*.-%*/', function(comment) return (comment:gsub('[^\n]', '')) end)
  return text:gmatch '([^\n]*)\n'
end

-- ---- names of ops ---------------------------------------------------------------------------------------------------

-- An op that is made is asked for by its name; that of a node is not asked: what matters of it is in its entry.
local makes = { 'dfi_op%(', 'dfi_opn%(', 'dfi_opnode%(', 'dfi_op_find%(', 'df_op_find%(', 'dfi_function_node%(', 'instead%(',
                'dfg_array%(', 'try_kernel%(' }

-- Names that are no question, with the reason.
M.named = {
  ['runtime/graph/control_flow.c'] = 'the primitives that conds and loops are made of, to make them and to know those made',
  ['runtime/resource/queue.c'] = 'what an error calls a queue',
  ['runtime/resource/tensor_array.c'] = 'what an error calls an array',
  ['runtime/gradient/function_grad.c'] = 'an op that is made later',
  ['runtime/engine/clock/recording.h'] = 'what a recording calls copies between devices, which are no nodes of the graph',
  ['runtime/check/trace.c'] = 'an entry',
  ['runtime/plan/simplify.c'] = 'which ops have a neutral operand, and which undo each other',
}

local ops = {}
for i = 0, core.op_count() - 1 do ops[core.op_info(i).type] = true end

--- Lines outside of the entries' own floors that compare a text with a word that begins as ops do, or that name an op
--- without making it. And files of `named` that name none.
function M.names()
  local wrong, used = {}, {}
  for _, path in ipairs(files 'runtime') do
    local own = path:find('^runtime/op/') or path:find('^runtime/ops/') or path:find('^runtime/tensorflow/')
    local number = 0
    for line in code(path) do
      number = number + 1
      local compares = line:find('str%w*cmp%(.-"%u') or line:find('strstr%(.-"%u')
      if not own and compares then wrong[#wrong + 1] = ('%s:%d: compares names: %s'):format(path, number, line) end
      local made = line:find '#include'
      for _, call in ipairs(makes) do made = made or line:find(call) end
      for word in line:gmatch '"(%u%w+)"' do
        if not own and not made and ops[word] then
          used[path] = true
          if not M.named[path] then wrong[#wrong + 1] = ('%s:%d: names %s: %s'):format(path, number, word, line) end
        end
      end
    end
  end
  for path in pairs(M.named) do if not used[path] then wrong[#wrong + 1] = path .. ' names no op' end end
  table.sort(wrong)
  return wrong
end

-- Files of stdlib/ that compare the type of a node with a name, with the reason. All others ask the entry: registry.primitive, registry.about.
local FILE_OF_OTHERS = 'says each op in the words of a format of others, or finds it there'
M.lua_named = {
  ['stdlib/dflow/check.lua'] = 'a custom gradient is the user\'s function, which is no part of the input that is looked at',
  ['stdlib/dflow/check/nodes.lua'] = 'how an op is tried whose gradient shows by its rows, or belongs to the user; and the check\'s own Trace',
  ['stdlib/dflow/command/inspect.lua'] = 'an input that may be left out, and a variable whose shape is an attribute',
  ['stdlib/dflow/draw/read.lua'] = 'calls and results of functions, whose bodies are drawn by themselves',
  ['stdlib/dflow/draw/model.lua'] = 'a Switch that another stands for is none that was simplified',
  ['stdlib/dflow/draw/svg.lua'] = 'a TensorArray is drawn as one that saves',
  ['stdlib/dflow/exchange/graphdef.lua'] = FILE_OF_OTHERS, ['stdlib/dflow/exchange/onnx.lua'] = FILE_OF_OTHERS,
  ['stdlib/dflow/exchange/onnx/forms.lua'] = FILE_OF_OTHERS,
  ['stdlib/dflow/front/intern.lua'] = 'below the registry: an input that is given, or may be left out, is itself',
  ['stdlib/dflow/front/table.lua'] = 'the kind of table that the function of that name makes',
  ['stdlib/dflow/front/queue.lua'] = 'the kind of queue that the function of that name makes',
  ['stdlib/dflow/exchange/quantize_model.lua'] = 'nodes of a file of TensorFlow are rewritten: which op each is, is all that the file says',
  ['stdlib/dflow/inspect/saved.lua'] = 'a shape is told as that of its tensor; an input that may be left out',
  ['stdlib/dflow/lanes.lua'] = 'effects that may differ by lane, a read of a variable, and an array that is made anew',
  ['stdlib/dflow/lanes/batch.lua'] = 'which arrays hold values that differ by lane, and constants',
  ['stdlib/dflow/lanes/flow.lua'] = 'constants of a branch',
  ['stdlib/dflow/repl/progress.lua'] = 'reads a predicate: what is compared, and what a trip adds',
}

--- Lines of stdlib/ that compare with the name of an op in a file that gives no reason. And files of `lua_named` that do not.
function M.lua_names()
  local wrong, used = {}, {}
  local pipe = assert(io.popen "find stdlib -name '*.lua' | sort")
  for path in pipe:lines() do
    local number = 0
    local script = path:find 'report/script%.lua$' or path:find '/docs/'          -- a page's JavaScript; examples, as a user writes them
    for line in io.lines(path) do
      number = number + 1
      local text = line:gsub('%-%-.*', ''):gsub("primitive%b() [=~]= '%a+'", ''):gsub('luacats', '')
      for word in text:gmatch "%f[%w_%.][%w_%.]+%)? [=~]= '(%u%w+)'" do
        local of_node = text:find('[tT]ype[%w_]* [=~]= ') or text:find('%f[%w]op [=~]= ') or text:find('node_type%b() [=~]= ')
                        or text:find('%f[%w]kind [=~]= ') or text:find('%f[%w]t [=~]= ') or text:find('plain [=~]= ')
        if ops[word] and of_node and not script then
          used[path] = true
          if not M.lua_named[path] then wrong[#wrong + 1] = ('%s:%d: compares with %s'):format(path, number, word) end
        end
      end
    end
  end
  pipe:close()
  for path in pairs(M.lua_named) do if not used[path] then wrong[#wrong + 1] = path .. ' compares with no op' end end
  table.sort(wrong)
  return wrong
end

-- ---- elements --------------------------------------------------------------------------------------------------------

-- Elements may lie where the host cannot read them. base/ and device/ know how; all others go by base/remote_memory.h (dfi_bytes_copy,
-- dfi_bytes_zero, dfi_bytes_update), or touch what is the host's for the reason given here. That this is so is tried, too: the memory
-- of spec/counter/device.c, and of the driver of spec/cuda, is closed to readers that do not ask.
local HOST_OP = 'kernels of ops without .remote: their inputs were brought to the host, their outputs are made there'
local CONSTANT = 'constants of the graph, which lie on the host'
local NATIVE = 'native code: enters only with what dfi_readable says the host can read'
local FILE = 'bytes and strings of files, made on the host'
M.elements = {
  ['runtime/engine/native/write_box.c'] = 'places of elements, made on the host',
  ['runtime/engine/native/straight.c'] = 'an arena of the host that compiled code writes to',
  ['runtime/plan/simplify.c'] = 'constants, which are of the host',
  ['runtime/ops/array_shape.c'] = 'limits of a range: .host_in, and constants while the graph is built',
  ['runtime/ops/array_v3.c'] = 'lengths: .host_out', ['runtime/ops/variant.c'] = 'handles, and what dfi_bytes_update adds',
  ['runtime/ops/list.c'] = 'handles; lengths: .host_out', ['runtime/ops/sparse.c'] = HOST_OP, ['runtime/ops/optional.c'] = HOST_OP,
  ['runtime/ops/ragged.c'] = HOST_OP, ['runtime/ops/queue.c'] = HOST_OP, ['runtime/ops/accumulator.c'] = HOST_OP,
  ['runtime/ops/candidate.c'] = HOST_OP, ['runtime/ops/accumulator_sparse.c'] = HOST_OP, ['runtime/ops/barrier.c'] = HOST_OP,
  ['runtime/ops/mutex.c'] = HOST_OP,
  ['runtime/ops/print.c'] = HOST_OP, ['runtime/ops/train.c'] = HOST_OP,
  ['runtime/ops/checkpoint.c'] = FILE, ['runtime/ops/files.c'] = FILE, ['runtime/resource/checkpoint.c'] = FILE, ['runtime/resource/checkpoint_part.c'] = FILE,
  ['runtime/ops/tensor_proto.c'] = FILE, ['runtime/tensorflow/functions_gradient.c'] = FILE, ['runtime/tensorflow/export.c'] = FILE,
  ['runtime/tensorflow/export_text.c'] = FILE, ['runtime/tensorflow/export_context.c'] = FILE, ['runtime/tensorflow/import.c'] = FILE,
  ['runtime/ops/math.c'] = 'a predicate: .host_out', ['runtime/ops/state.c'] = 'a predicate: DFI_REMOTE_LOOKS',
  ['runtime/ops/tensor_array.c'] = 'lengths: .host_out',
  ['runtime/graph/while.c'] = CONSTANT, ['runtime/cluster/form.c'] = CONSTANT, ['runtime/cluster/spmd.c'] = CONSTANT, ['runtime/plan/equal.c'] = CONSTANT,
  ['runtime/tensorflow/export_op.c'] = CONSTANT,
  ['runtime/tensorflow/export_attr.c'] = CONSTANT, ['runtime/tensorflow/import_attr.c'] = CONSTANT, ['runtime/tensorflow/import_variable.c'] = CONSTANT,
  ['runtime/engine/native/write_value.c'] = CONSTANT, ['runtime/engine/native/kernel.c'] = NATIVE, ['runtime/engine/native/enter.c'] = NATIVE,
  ['runtime/engine/observe/watch.c'] = 'a value that dfi_readable says the host can read',
  ['runtime/engine/observe/picture.c'] = 'what dfi_value_on_host gave, and tensors made here; one that is far has none',
  ['runtime/engine/tokens/group_run.c'] = 'groups are made of nodes that no remote device has (plan/group.c)',
  ['runtime/engine/tokens/batch.c'] = 'nodes of a plan that no remote device has (plan/batch.c)',
  ['runtime/resource/late.c'] = 'terms of sums of such nodes (plan/batch.c)',
  ['runtime/engine/cudagraph/cudagraph_fixed.c'] = 'compares places',
  ['runtime/engine/tokens/kernel.c'] = 'compares places, and numbers that scalar_out laid on the host',
  ['runtime/engine/tokens/executor.c'] = 'a predicate that dfi_remote_number has brought to the host',
  ['runtime/engine/cudagraph/cudagraph_capture.c'] = 'compares places; nothing is read',
  ['runtime/engine/cudagraph/cudagraph_arrays.c'] = 'says where, to the device', ['runtime/engine/cudagraph/cudagraph_journal.c'] = 'says where, to the device',
  ['runtime/engine/persistent/persistent_kernel.c'] = 'says where, to the device',
  ['runtime/engine/persistent/persistent_program.c'] = 'dfi_readable says that the host can read them',
  ['runtime/engine/cudagraph/cudagraph_sides.c'] = 'says where; what dfi_readable says the host can read is copied by dfi_bytes_copy',
  ['runtime/engine/cudagraph/cudagraph_inner.c'] = 'says where, to the device',
  ['runtime/engine/tokens/call.c'] = 'a view of a number in a slot',
  ['runtime/session/measure.c'] = 'a tensor of its own, made outside of any run',
  ['runtime/resource/variable.c'] = 'says where; nothing is read', ['runtime/resource/variable.h'] = 'says where; nothing is read',
  ['runtime/engine/owners/message.c'] = 'what goes to another process is brought to the host first, and comes there',
  ['runtime/resource/variable_place.c'] = 'elements of a copy on the host, copied back by dfi_bytes_copy',
  ['runtime/resource/train_step.c'] = 'rules of optimizers on the host; on a device they are a step of its own (variable_place.c)',
  ['runtime/resource/tensor_array.c'] = 'says where, or reads rows that dfi_readable says the host can read',
  ['runtime/resource/tensor_array_move.c'] = 'says where; what moves goes by dfi_bytes_copy',
  ['runtime/resource/table.c'] = HOST_OP, ['runtime/resource/queue_cells.c'] = HOST_OP,
  ['runtime/resource/values.c'] = 'strings and variants, which are the host\'s',
}

--- Lines that touch elements in files that give no reason. And files of `elements` that touch none.
function M.touching()
  local wrong, used = {}, {}
  for _, path in ipairs(files 'runtime') do
    local number = 0
    for line in code(path) do
      number = number + 1
      if not path:find '^runtime/device/' and not path:find '^runtime/base/' and line:find '%->data%f[^%w_]' and not line:find 'dfi_bytes_' then
        used[path] = true
        if not M.elements[path] then wrong[#wrong + 1] = ('%s:%d: touches elements: %s'):format(path, number, line) end
      end
    end
  end
  for path in pairs(M.elements) do if not used[path] then wrong[#wrong + 1] = path .. ' touches no elements' end end
  table.sort(wrong)
  return wrong
end

-- ---- files ------------------------------------------------------------------------------------------------------------

-- What is written goes through one writer, runtime/base/writer.c (stdlib: dflow.exchange.file), by which a file is whole or as it was. Who
-- opens a file to write, or moves one, besides it, with the reason.
M.writers = {
  ['runtime/base/writer.c'] = 'the writer',
  ['runtime/cluster/process.c'] = 'memory without a name, which ranks share',
  ['kernels/disk.c'] = 'code that is kept for the next process: what is not whole by its sum is none, and is made anew',
  ['kernels/ref/string_text.c'] = 'PrintV2 adds a line to the file that the graph names, if files may be touched',
  ['interp/prompt_history.c'] = 'a line more of the history; it is shortened through the writer',
  ['interp/program.c'] = 'locks a journal, and writes nothing',
  ['stdlib/dflow/repl/session.lua'] = 'an input more of the journal, which is read up to its last whole line',
  ['stdlib/dflow/summary.lua'] = 'a record more of the event file, which readers read up to its last whole record; and a graph, by way of a file',
  ['stdlib/dflow/repl/builtin.lua'] = 'a name for what an editor is to edit',
  ['stdlib/dflow/plot/picture.lua'] = 'names for what rsvg-convert reads and writes',
}

local writes = {
  c = { '%f[%w_]fopen%(.*, "[^"]*[wa+]', 'O_WRONLY', 'O_RDWR', 'O_CREAT', '%f[%w_]creat%(', '%f[%w_]freopen%(', '%f[%w_]mko?s?temps?%(', '%f[%w_]tmpfile%(',
        '%f[%w_]rename[at2]*%(', '%f[%w_]linkat%(', '%f[%w_]f?truncate%(' },
  lua = { "io%.open%([^)]*,%s*['\"][^'\"]*[wa+]", 'io%.output', 'io%.tmpfile', 'os%.rename', 'os%.tmpname', "io%.popen%([^)]*,%s*['\"]w" },
}

--- Lines that write files in those that give no reason. And files of `writers` that write none.
function M.writing()
  local wrong, used = {}, {}
  local function look(path, line, number, list)
    for _, pattern in ipairs(list) do
      if line:find(pattern) then
        used[path] = true
        if not M.writers[path] then wrong[#wrong + 1] = ('%s:%d: writes a file: %s'):format(path, number, line) end
      end
    end
  end
  for _, folder in ipairs{ 'runtime', 'kernels', 'interp' } do
    for _, path in ipairs(files(folder)) do
      local number = 0
      for line in code(path) do
        number = number + 1
        look(path, line, number, writes.c)
      end
    end
  end
  local pipe = assert(io.popen "find stdlib -name '*.lua' ! -path '*/docs/*' | sort")
  for path in pipe:lines() do
    local number = 0
    for line in io.lines(path) do
      number = number + 1
      look(path, (line:gsub('%-%-.*', '')), number, writes.lua)
    end
  end
  pipe:close()
  for path in pairs(M.writers) do if not used[path] then wrong[#wrong + 1] = path .. ' writes no file' end end
  table.sort(wrong)
  return wrong
end

-- ---- devices ---------------------------------------------------------------------------------------------------------

-- Lines of stdlib/ that say the name of the host's device, as an example for a user who is to write one. All others ask the core for it.
M.host_named = {
  ['stdlib/dflow/front/devices.lua'] = 'an error that shows what a list of devices looks like',
  ['stdlib/dflow/front/glossary.lua'] = 'what ConfigProto is called here',
}

--- Lines of stdlib/ that know what the host's device is called; pages of help and comments apart. And files of `host_named` that do not.
function M.host_names()
  local wrong, used = {}, {}
  local pipe = assert(io.popen "find stdlib -name '*.lua' | sort")
  for path in pipe:lines() do
    local number = 0
    for line in io.lines(path) do
      number = number + 1
      if not path:find '/docs/' and line:gsub('%-%-.*', ''):find 'cpu:%d' then
        used[path] = true
        if not M.host_named[path] then wrong[#wrong + 1] = ('%s:%d: says cpu:0 by itself'):format(path, number) end
      end
    end
  end
  pipe:close()
  for path in pairs(M.host_named) do if not used[path] then wrong[#wrong + 1] = path .. ' names no device' end end
  table.sort(wrong)
  return wrong
end

-- ---- names of functions ------------------------------------------------------------------------------------------------

-- What begins the name of a function that other files see. runtime/style: df_ is the library's, dfi_ is shared within it, dfg_ is what
-- gradient functions of entries call; kernels/ has the kinds of kernels, and dfk_ for what these share.
local prefixes = {
  runtime = { df = true, dfi = true, dfg = true, dfk = true },
  kernels = { df = true, dfk = true, dfc = true, ref = true, cpu = true, scalar = true },
}

local own = { static = true, typedef = true, ['else'] = true, ['return'] = true }

--- Functions that other files see by a name without one of those. What a macro makes begins with capitals and is not read.
function M.bare_names()
  local wrong = {}
  for folder, known in pairs(prefixes) do
    for _, path in ipairs(files(folder)) do
      local number = 0
      for line in code(path) do
        number = number + 1
        local before, name = line:match '^([%a_][%w_ %*]-)([%w_]+)%('
        local word = before and before:match '^[%w_]+'
        if word and before:find '[%s%*]$' and not own[word] and not word:find '^[%u_]+$' and name ~= '__attribute__' and not known[name:match '^%a+'] then
          wrong[#wrong + 1] = ('%s:%d: other files see %s'):format(path, number, name)
        end
      end
    end
  end
  table.sort(wrong)
  return wrong
end

-- ---- length ------------------------------------------------------------------------------------------------------------

-- Functions that are longer than others may be, with the reason.
M.long = {
  ['runtime/engine/tokens/executor.c engine_body'] = 'what a token may come to, in one function, so that what is needed of a run stays in registers',
  ['kernels/ref/train.c step'] = 'the rules of the optimizers one beside the other, each as its paper has it',
  ['kernels/cuda/train.cu take_step'] = 'the same for GPUs, which the tests compare with the former',
}
local LONGEST = 60

--- Functions of more lines than can be looked at together, `file:line name: lines` each.
function M.long_functions()
  local wrong, used = {}, {}
  for _, folder in ipairs{ 'runtime', 'kernels', 'interp' } do
    for _, path in ipairs(files(folder, '*[chu]')) do
      local number, name, begun = 0, nil, nil
      for line in io.lines(path) do
        number = number + 1
        local head = line:match '^%a[%w_ %*<>,]-([%w_]+)%('
        if head then name, begun = head, number end
        if line == '}' and name then
          local lines, key = number - begun + 1, path .. ' ' .. name
          if lines > LONGEST then
            used[key] = true
            if not M.long[key] then wrong[#wrong + 1] = ('%s:%d %s: %d lines'):format(path, begun, name, lines) end
          end
          name = nil
        end
      end
    end
  end
  for key in pairs(M.long) do if not used[key] then wrong[#wrong + 1] = key .. ' is not long' end end
  table.sort(wrong)
  return wrong
end

-- ---- modules -----------------------------------------------------------------------------------------------------------

--- Pairs of modules of stdlib/ each of which requires the other, wherever it does so: "a and b" each.
function M.circles()
  local requires, wrong = {}, {}
  for _, path in ipairs(files('stdlib', 'lua')) do
    local name, list = path:match '^stdlib/(.*)%.lua$':gsub('/', '.'), {}
    for line in io.lines(path) do
      for other in line:gsub('%-%-.*', ''):gmatch "require ?%(?'([%w_.]+)'" do list[other] = true end
    end
    requires[name] = list
  end
  for name, list in pairs(requires) do
    for other in pairs(list) do
      if name < other and requires[other] and requires[other][name] then wrong[#wrong + 1] = name .. ' and ' .. other end
    end
  end
  table.sort(wrong)
  return wrong
end

-- A comment names the thing that acts: a thread, a reader, an inspector. These words stand for none of them.
local NOBODY = { 'nobody', 'somebody', 'anybody', 'everybody', 'someone', 'whoever', 'whom', 'stands still', 'stand still', 'stood still' }

--- The comment on a line of C or Lua, '' where there is none. `inside`: a comment of C goes on from the line before; returned, too.
local function comment_of(line, is_c, inside)
  local at = 1
  while not is_c do                      -- over strings to the dashes
    local i, _, what = line:find('(["\'-])', at)
    if line:sub(i or 1, (i or 1) + 1) == '--' then return line:sub(i + 2), false end
    at = i and (what == '-' and i or line:find(what, i + 1, true) or #line) + 1
    if not at then return '', false end
  end
  local text = line:gsub('"[^"]*"', '""')
  if inside then
    local rest, more = text:match '^(.-)%*/(.*)$'
    if not rest then return text, true end
    local last, still = comment_of(more, true, false)
    return rest .. ' ' .. last, still
  end
  local begun = text:match '/%*(.*)$'
  if not begun then return '', false end
  return comment_of(begun, true, true)
end

--- Comments of runtime/, interp/ and stdlib/ that say one of these: "file:line: word" each.
function M.nobodies()
  local found = {}
  for path in io.popen "git ls-files runtime interp stdlib | grep -E '[.](c|h|lua)$'":lines() do
    local n, inside = 0, false
    local is_c = not path:find '%.lua$'
    for line in io.lines(path) do
      n = n + 1
      local text, goes_on = comment_of(line, is_c, inside)
      inside = goes_on
      for _, word in ipairs(NOBODY) do
        if (' ' .. text:lower() .. ' '):find('[^%w_]' .. word .. '[^%w_]') then found[#found + 1] = ('%s:%d: %s'):format(path, n, word) end
      end
    end
  end
  return found
end
M.comment_of = comment_of

return M
