--- The core table under LuaJIT: the functions of interp/binding*.c once more, over FFI.
--
-- Conventions are those of interp/binding.h. The declarations come from the library itself (`df_header`), so they
-- cannot disagree with it. Buffers for runs are made once and reused: a run makes no garbage but its results.
local ffi = require 'ffi'
local C

-- ---- the library ------------------------------------------------------------------------------------------
local function load_library()
  local here = debug.getinfo(1, 'S').source:match('^@(.*)ffi%.lua$') or './'
  local tried = {}
  local function try(path)
    if not path then return nil end
    local ok, lib = pcall(ffi.load, path)
    if ok then return lib end
    tried[#tried + 1] = tostring(lib)
  end
  local at_install = package.searchpath and package.searchpath('dflow.libpath', package.path)
  local lib = try(os.getenv('DFLOW_LIB'))
    or try(at_install and dofile(at_install))
    or try(here .. '../../build/release/libdflow.so')       -- in the source tree
    or try(here .. '../../../../lib/libdflow.so.0')         -- PREFIX/share/lua/5.1/dflow/
    or try('libdflow.so.0') or try('dflow')
  if not lib then
    error('dflow: libdflow was not found; set DFLOW_LIB to its path. Tried:\n  ' .. table.concat(tried, '\n  '), 0)
  end
  return lib
end

if not pcall(ffi.typeof, 'df_value') then
  ffi.cdef 'const char *df_header(void);'
  C = load_library()
  local text = ffi.string(C.df_header()) .. '\n'
  text = text:gsub('#ifdef __cplusplus.-#endif[^\n]*\n', '\n'):gsub('\n#[^\n]*', '\n'):gsub('\n#[^\n]*', '\n')
  text = text:gsub('const char %*df_header%(void%);', '')
  ffi.cdef(text)
else
  C = load_library()
end

local core = { Tensor = {}, Error = {}, version = ffi.string(C.df_version()), lib = C }

local new, str, gc, cast = ffi.new, ffi.string, ffi.gc, ffi.cast
local err = new('df_error')
local floor, huge = math.floor, math.huge

-- ---- errors and boxes ---------------------------------------------------------------------------------------
local function text_or_nil(p)
  local s = str(p)
  if s ~= '' then return s end
end

local function raise()
  local source = text_or_nil(err.source) or core.where()
  error(setmetatable({ code = str(C.df_code_name(err.code)), message = str(err.message), op = text_or_nil(err.op),
                       frame = text_or_nil(err.frame), source = source }, core.Error), 0)
end

local function fail(code, message)
  error(setmetatable({ code = code, message = message, source = core.where() }, core.Error), 0)
end

local function open(box, kind)
  local p = type(box) == 'table' and box.p
  if p then return p end
  fail('failed_precondition', 'the ' .. kind .. ' is closed')
end

-- ---- the collector's account: see dfb_charge in interp/binding.c -----------------------------------------------
local CHARGE_MIN = 16 * 2^20
local charged, threshold = 0, CHARGE_MIN
local four = new('int64_t[4]')

local function collect()
  charged = 0
  collectgarbage('collect')
  C.df_memory(four, four + 1, four + 2, four + 3)
  threshold = math.max(tonumber(four[0]), collectgarbage('count') * 1024, CHARGE_MIN)   -- what a collection costs grows with the heap
end

local function charge(bytes)
  charged = charged + bytes
  if charged >= threshold then collect() end
end

-- ---- tensors --------------------------------------------------------------------------------------------------
local Tensor = core.Tensor
local release_tensor = C.df_tensor_release

local function wrap(t)
  local object = setmetatable({ handle = gc(t, release_tensor) }, Tensor)
  charge(tonumber(C.df_tensor_bytes(t)) + 256)
  return object
end

local function checked(t)
  if t == nil then raise() end
  return wrap(t)
end

local FLOAT32, FLOAT64, INT32, UINT8, INT8, STRING, INT64, BOOL, BFLOAT16, FLOAT16 = 1, 2, 3, 4, 6, 7, 9, 10, 14, 19
local INT16, COMPLEX64, QINT8, QUINT8, QINT32, QINT16, QUINT16, UINT16, COMPLEX128, VARIANT, UINT32, UINT64
  = 5, 8, 11, 12, 13, 15, 16, 17, 18, 21, 22, 23
local element = { [FLOAT32] = 'float *', [FLOAT64] = 'double *', [INT32] = 'int32_t *', [UINT8] = 'uint8_t *',
                  [INT8] = 'int8_t *', [INT64] = 'int64_t *', [BOOL] = 'bool *', [INT16] = 'int16_t *', [UINT16] = 'uint16_t *',
                  [UINT32] = 'uint32_t *', [UINT64] = 'uint64_t *', [QINT8] = 'int8_t *', [QUINT8] = 'uint8_t *',
                  [QINT16] = 'int16_t *', [QUINT16] = 'uint16_t *', [QINT32] = 'int32_t *' }
local low  = { [INT32] = -2^31, [UINT8] = 0, [INT8] = -128, [INT64] = -2^63, [INT16] = -2^15, [UINT16] = 0, [UINT32] = 0, [UINT64] = 0,
               [QINT8] = -128, [QUINT8] = 0, [QINT16] = -2^15, [QUINT16] = 0, [QINT32] = -2^31 }
local high = { [INT32] = 2^31 - 1, [UINT8] = 255, [INT8] = 127, [INT64] = 2^63 - 1024, [INT16] = 2^15 - 1, [UINT16] = 2^16 - 1,
               [UINT32] = 2^32 - 1, [UINT64] = 2^64 - 2048, [QINT8] = 127, [QUINT8] = 255, [QINT16] = 2^15 - 1, [QUINT16] = 2^16 - 1,
               [QINT32] = 2^31 - 1 }
local int64_t, uint64_t = ffi.typeof('int64_t'), ffi.typeof('uint64_t')
local EXACT = 2^53

local function is_int64(v)
  return type(v) == 'cdata' and (ffi.istype(int64_t, v) or ffi.istype(uint64_t, v))
end

--- Can an element of dtype hold the Lua value v?
local function holds(dtype, v)
  local kind = type(v)
  if kind == 'number' then
    local lowest = low[dtype]
    if lowest then return v >= lowest and v <= high[dtype] and v == floor(v) end
    return dtype == FLOAT32 or dtype == FLOAT64 or dtype == FLOAT16 or dtype == BFLOAT16 or dtype == COMPLEX64 or dtype == COMPLEX128
  elseif kind == 'boolean' then
    return dtype == BOOL
  elseif kind == 'string' then
    return dtype == STRING
  elseif kind == 'table' then
    return (dtype == COMPLEX64 or dtype == COMPLEX128) and type(v.re) == 'number' and type(v.im) == 'number'
  elseif is_int64(v) then
    if dtype == UINT64 then return ffi.istype(uint64_t, v) or v >= 0 end
    return dtype == INT64 or (dtype == FLOAT32 or dtype == FLOAT64)
      or (low[dtype] ~= nil and v >= low[dtype] and v <= high[dtype])
  end
  return false
end

--- An int64 as a Lua number where that is exact, else as it is.
local function from_int64(v)
  local n = tonumber(v)
  if n > -EXACT and n < EXACT then return n end
  return v
end

-- LuaJIT keeps its other types in the payloads of NaNs, so a NaN is never read as it lies in memory.
local band, nan = require('bit').band, 0 / 0
local int32_p, uint16_p = ffi.typeof('int32_t *'), ffi.typeof('uint16_t *')
local function float32_at(p, i)
  if band(cast(int32_p, p)[i], 0x7fffffff) > 0x7f800000 then return nan end
  return cast('float *', p)[i]
end
local function float64_at(p, i)
  local words = cast(int32_p, p)
  local high = band(words[2 * i + 1], 0x7fffffff)
  if high > 0x7ff00000 or (high == 0x7ff00000 and words[2 * i] ~= 0) then return nan end
  return cast('double *', p)[i]
end

local function get_element(t, dtype, i)
  if dtype == STRING then
    local p = C.df_tensor_string(t, i, four)
    return str(p, tonumber(four[0]))
  elseif dtype == BOOL then
    return cast('bool *', C.df_tensor_data(t))[i]
  elseif dtype == INT64 then
    return from_int64(cast('int64_t *', C.df_tensor_data(t))[i])
  elseif dtype == FLOAT32 then
    return float32_at(C.df_tensor_data(t), i)
  elseif dtype == FLOAT64 then
    return float64_at(C.df_tensor_data(t), i)
  elseif dtype == UINT64 then
    return from_int64(cast('uint64_t *', C.df_tensor_data(t))[i])
  elseif dtype == COMPLEX64 then
    local p = C.df_tensor_data(t)
    return { re = float32_at(p, 2 * i), im = float32_at(p, 2 * i + 1) }
  elseif dtype == COMPLEX128 then
    local p = C.df_tensor_data(t)
    return { re = float64_at(p, 2 * i), im = float64_at(p, 2 * i + 1) }
  elseif dtype == VARIANT then
    return '<variant>'
  elseif dtype == FLOAT16 or dtype == BFLOAT16 then
    local bits = band(cast(uint16_p, C.df_tensor_data(t))[i], 0x7fff)
    if bits > (dtype == FLOAT16 and 0x7c00 or 0x7f80) then return nan end
  end
  return C.df_tensor_get(t, i)
end

local dims_buffer = new('int64_t[8]')

--- A Lua list of dims into dims_buffer; the rank, -1 for nil.
local function take_dims(dims)
  if dims == nil then return -1 end
  local rank = #dims
  if rank > 8 then fail('invalid_argument', 'a shape of rank ' .. rank .. ': the highest rank is 8') end
  for i = 1, rank do
    local d = dims[i]
    if is_int64(d) then d = tonumber(d) end
    if type(d) ~= 'number' or d ~= floor(d) then
      fail('invalid_argument', 'dimension ' .. (i - 1) .. ' of the shape is ' .. tostring(d) .. ', not an integer')
    end
    dims_buffer[i - 1] = d
  end
  return rank
end

local function make(dtype, dims)
  local rank = take_dims(dims)
  local t = C.df_tensor_new(dtype, rank < 0 and 0 or rank, dims_buffer, err)
  if t == nil then raise() end
  return t
end

function core.tensor_new(dtype, dims, flat)
  local t = make(dtype, dims)
  local n, given = tonumber(C.df_tensor_size(t)), #flat
  local data = element[dtype] and cast(element[dtype], C.df_tensor_data(t))
  for i = 0, n - 1 do
    local v = flat[given == 1 and 1 or i + 1]
    local fits = holds(dtype, v)
    if fits then
      if data then
        data[i] = v
      elseif dtype == STRING then
        fits = C.df_tensor_set_string(t, i, v, #v, err) == 0
      elseif type(v) == 'table' then
        fits = C.df_tensor_set_complex(t, i, v.re, v.im)
      else
        fits = C.df_tensor_set(t, i, v)
      end
    end
    if not fits then
      release_tensor(t)
      return nil, i + 1
    end
  end
  return wrap(t)
end

function core.tensor_from_bytes(dtype, dims, bytes)
  local t = make(dtype, dims)
  local want = tonumber(C.df_tensor_size(t)) * C.df_dtype_bytes(dtype)
  if dtype == STRING or dtype == VARIANT or want ~= #bytes then
    release_tensor(t)
    fail('invalid_argument', ('%d bytes of %s given, %d expected'):format(#bytes, str(C.df_dtype_name(dtype)), want))
  end
  if want > 0 then ffi.copy(C.df_tensor_data(t), bytes, want) end
  return wrap(t)
end

function core.tensor_bytes(object)
  local t = object.handle
  local dtype = C.df_tensor_dtype(t)
  if dtype == STRING or dtype == VARIANT then
    fail('invalid_argument', ('a tensor of %ss has no bytes of its own'):format(str(C.df_dtype_name(dtype))))
  end
  local n = tonumber(C.df_tensor_size(t)) * C.df_dtype_bytes(dtype)
  return n == 0 and '' or str(C.df_tensor_data(t), n)
end

function core.tensor_info(object)
  local t = object.handle
  return C.df_tensor_dtype(t), C.df_tensor_rank(t), tonumber(C.df_tensor_size(t))
end

--- {min, mean, max, finite, nan, inf, histogram}, nil for what holds no real numbers.
function core.tensor_summary(object)
  local s = ffi.new('df_summary')
  if not C.df_tensor_summary(object.handle, s) then return nil end
  local histogram = {}
  for i = 1, 16 do histogram[i] = tonumber(s.histogram[i - 1]) end
  return { min = s.min, mean = s.mean, max = s.max, finite = tonumber(s.finite), nan = tonumber(s.nan), inf = tonumber(s.inf),
           histogram = histogram }
end

function core.tensor_shape(object)
  local t, shape = object.handle, {}
  for i = 0, C.df_tensor_rank(t) - 1 do shape[i + 1] = tonumber(C.df_tensor_dim(t, i)) end
  return shape
end

function core.tensor_get(object, i)
  local t = object.handle
  local n = tonumber(C.df_tensor_size(t))
  if i < 0 or i >= n then fail('out_of_range', ('element %d of a tensor of %d'):format(i, n)) end
  return get_element(t, C.df_tensor_dtype(t), i)
end

function core.tensor_list(object)
  local t, list = object.handle, {}
  local dtype, n = C.df_tensor_dtype(t), tonumber(C.df_tensor_size(t))
  local data = element[dtype] and cast(element[dtype], C.df_tensor_data(t))
  if dtype == FLOAT32 then
    for i = 0, n - 1 do list[i + 1] = float32_at(data, i) end
  elseif dtype == FLOAT64 then
    for i = 0, n - 1 do list[i + 1] = float64_at(data, i) end
  elseif data and dtype ~= INT64 and dtype ~= UINT64 then
    for i = 0, n - 1 do list[i + 1] = data[i] end
  else
    for i = 0, n - 1 do list[i + 1] = get_element(t, dtype, i) end
  end
  return list
end

function core.tensor_reshape(object, dims)
  local rank = take_dims(dims)
  return checked(C.df_tensor_reshape(object.handle, rank < 0 and 0 or rank, dims_buffer, err))
end

function core.tensor_cast(object, dtype)
  return checked(C.df_tensor_cast(object.handle, dtype, err))
end

function core.tensor_rows(object, rows, first, count)
  local t = object.handle
  local rank, dtype = C.df_tensor_rank(t), C.df_tensor_dtype(t)
  if rank < 1 or dtype == VARIANT then
    fail('invalid_argument', ('rows are taken of numbers or strings of rank 1 or more, not of %s of rank %d')
      :format(str(C.df_dtype_name(dtype)), rank))
  end
  local dims, n = core.tensor_shape(object), tonumber(C.df_tensor_dim(t, 0))
  dims[1] = count
  local r = make(dtype, dims)
  local row = C.df_dtype_bytes(dtype)
  for i = 2, rank do row = row * dims[i] end
  local from, to = cast('char *', C.df_tensor_data(t)), cast('char *', C.df_tensor_data(r))
  for i = 0, count - 1 do
    local at = rows[first + i]
    if at < 0 or at >= n then
      release_tensor(r)
      fail('out_of_range', ('row %d of a tensor of %d rows'):format(at, n))
    end
    if dtype == STRING then
      local each = row / C.df_dtype_bytes(STRING)
      for j = 0, each - 1 do
        local s = C.df_tensor_string(t, at * each + j, four)
        if C.df_tensor_set_string(r, i * each + j, s, four[0], err) ~= 0 then
          release_tensor(r)
          raise()
        end
      end
    else
      ffi.copy(to + i * row, from + at * row, row)
    end
  end
  return wrap(r)
end

function core.read_file(path)
  return checked(C.df_read_file(path, err))
end

function core.inflate(bytes, size)
  local t = C.df_inflate(bytes, #bytes, size, err)
  if t == nil then raise() end
  local text = size == 0 and '' or str(C.df_tensor_data(t), size)
  release_tensor(t)
  return text
end

function core.crc32(bytes) return tonumber(C.df_crc32(bytes, #bytes)) end

-- ---- where -----------------------------------------------------------------------------------------------------
local own1, own2 = '@\0', '@\0'
local kinds = setmetatable({}, { __mode = 'k' })   -- function -> what kind_of says
local getinfo = debug.getinfo

function core.own(p1, p2)
  own1, own2 = p1, p2
end

local function line_of(info, line)
  local source, first = info.source, info.source:sub(1, 1)
  if first == '@' or first == '=' then source = source:sub(2) else source = info.short_src end
  return source .. ':' .. line
end

--- The frame of a user's function is gone, because it ended in a tail call: the last line before its `end`.
local function tail_line(level)
  local _, fn = debug.getlocal(level + 1, 1)
  if type(fn) ~= 'function' then return nil end
  local info = getinfo(fn, 'SL')
  if info.what == 'C' or info.source:sub(1, #own1) == own1 or info.source:sub(1, #own2) == own2 then return nil end
  local line
  for at in pairs(info.activelines or {}) do
    if at < info.lastlinedefined and (not line or at > line) then line = at end
  end
  return line_of(info, line or info.lastlinedefined)
end

--- What a function is: the name of the user's file it is from, true for dflow's own and C, 'call' for the one in call.lua.
local function kind_of(f)
  local info = getinfo(f, 'S')
  local source = info.source
  if info.what == 'C' then return true end
  if source:sub(1, #own1) == own1 or source:sub(1, #own2) == own2 then
    return source:sub(-9) == '/call.lua' and 'call' or true
  end
  local first = source:sub(1, 1)
  return { (first == '@' or first == '=') and source:sub(2) or info.short_src }
end

function core.where()
  local level = 2
  while true do
    local info = getinfo(level, 'fl')
    if not info then return nil end
    local f = info.func
    local kind = f and kinds[f]
    if not kind then
      kind = f and kind_of(f) or true
      if f then kinds[f] = kind end
    end
    if kind == 'call' then
      local line = tail_line(level)
      if line then return line end
    elseif kind ~= true and info.currentline >= 0 then
      return kind[1] .. ':' .. info.currentline
    end
    level = level + 1
  end
end

-- ---- small facts --------------------------------------------------------------------------------------------------
function core.memory_reset_peak() C.df_memory_reset_peak() end
function core.memory()
  C.df_memory(four, four + 1, four + 2, four + 3)
  return tonumber(four[0]), tonumber(four[1]), tonumber(four[2]), tonumber(four[3])
end

function core.memory_set_limit(bytes) C.df_memory_set_limit(bytes) end
function core.op_count() return C.df_op_count() end

-- Seconds that only go forward, from some moment on.
if not pcall(ffi.typeof, 'struct dflow_timespec') then
  ffi.cdef 'struct dflow_timespec { long tv_sec, tv_nsec; }; int clock_gettime(int clock, void *into);'
end
local CLOCK_MONOTONIC, timespec = 1, new('struct dflow_timespec')
function core.clock()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, timespec)
  return tonumber(timespec.tv_sec) + 1e-9 * tonumber(timespec.tv_nsec)
end

function core.sigint_guard(on) C.df_sigint_guard(on and true or false) end

function core.op_info(op)
  return { id = op, type = str(C.df_op_type(op)), lua = text_or_nil(C.df_op_lua(op)), doc = text_or_nil(C.df_op_doc(op)),
           inputs = text_or_nil(C.df_op_inputs(op)), outputs = text_or_nil(C.df_op_outputs(op)),
           types = text_or_nil(C.df_op_types(op)), attrs = text_or_nil(C.df_op_attrs(op)),
           example = text_or_nil(C.df_op_example(op)), gradient = C.df_op_has_gradient(op),
           stateful = C.df_op_is_stateful(op) }
end

-- ---- nodes ------------------------------------------------------------------------------------------------------------
local NODE_CHARGE = 400

function core.graph_new()
  local g = C.df_graph_new()
  if g == nil then fail('resource_exhausted', 'out of memory for a graph') end
  charge(65536)
  return gc(g, C.df_graph_release)
end

function core.graph_nodes(g) return C.df_graph_nodes(g) end
function core.graph_set_seed(g, seed) C.df_graph_set_seed(g, seed) end
function core.node_begin(g, op, where) C.df_node_begin(g, op, where) end
function core.node_input(g, node, index) C.df_node_input(g, node, index) end
function core.node_control(g, node) C.df_node_control(g, node) end
function core.node_name(g, name) C.df_node_name(g, name) end
function core.node_int(g, attr, v) C.df_node_int(g, attr, v) end
function core.node_float(g, attr, v) C.df_node_float(g, attr, v) end
function core.node_bool(g, attr, v) C.df_node_bool(g, attr, v and true or false) end
function core.node_string(g, attr, s) C.df_node_string(g, attr, s, #s) end
function core.node_dtype(g, attr, dtype) C.df_node_dtype(g, attr, dtype) end
function core.node_tensor(g, attr, t) C.df_node_tensor(g, attr, t.handle) end

function core.node_shape(g, attr, dims)
  local rank = take_dims(dims)
  C.df_node_shape(g, attr, rank, dims_buffer)
end

function core.node_ints(g, attr, list)
  local n = #list
  C.df_node_ints(g, attr, n, new('int64_t[?]', n + 1, list))
end

local function node_id(id)
  if id < 0 then raise() end
  charge(NODE_CHARGE)
  return id
end

function core.node_end(g) return node_id(C.df_node_end(g, err)) end

local add_buffer = new('int32_t[32]')
function core.add_node(g, op, where, n1, i1, n2, i2, n3, i3, ...)
  local n = 0
  if n1 then add_buffer[0], add_buffer[1], n = n1, i1, 1 end
  if n2 then add_buffer[2], add_buffer[3], n = n2, i2, 2 end
  if n3 then add_buffer[4], add_buffer[5], n = n3, i3, 3 end
  local more = select('#', ...)
  if more > 26 then fail('invalid_argument', (n + more / 2) .. ' inputs: add_node takes 16 at most') end
  for i = 1, more do add_buffer[5 + i] = select(i, ...) end
  return node_id(C.df_add_node(g, op, n + more / 2, add_buffer, where, err))
end

local put = {
  [FLOAT32] = function(v, x) v.as.f32 = x end, [FLOAT64] = function(v, x) v.as.f64 = x end,
  [INT32]   = function(v, x) v.as.i32 = x end, [INT64]   = function(v, x) v.as.i64 = x end,
  [UINT8]   = function(v, x) v.as.u8 = x end,  [INT8]    = function(v, x) v.as.i8 = x end,
  [BOOL]    = function(v, x) v.as.b = x end,   [INT16]   = function(v, x) v.as.i16 = x end,
  [UINT16]  = function(v, x) v.as.u16 = x end, [UINT32]  = function(v, x) v.as.u32 = x end,
  [UINT64]  = function(v, x) v.as.u64 = x end,
}
put[QINT8], put[QUINT8], put[QINT16], put[QUINT16], put[QINT32] = put[INT8], put[UINT8], put[INT16], put[UINT16], put[INT32]

local SCALAR, TENSOR = 1, 2
local one_value = new('df_value[1]')

function core.constant_scalar(g, dtype, x, name, where)
  if not put[dtype] or not holds(dtype, x) then return nil end
  local v = one_value[0]
  v.kind, v.dtype = SCALAR, dtype
  put[dtype](v, x)
  return node_id(C.df_constant(g, one_value, name, where, err))
end

function core.constant_tensor(g, object, name, where)
  local v = one_value[0]
  v.kind, v.dtype, v.as.tensor = TENSOR, C.df_tensor_dtype(object.handle), object.handle
  return node_id(C.df_constant(g, one_value, name, where, err))
end

local function pairs_of(list)   -- a flat Lua list as int32_t[], and its length
  local n = list and #list or 0
  return new('int32_t[?]', n + 2, list or {}), n
end

local function list_of(p, n)
  local list = {}
  for i = 0, n - 1 do list[i + 1] = p[i] end
  return list
end

function core.push_control(g, nodes)
  local p, n = pairs_of(nodes)
  C.df_push_control(g, n, p)
end
function core.pop_control(g) C.df_pop_control(g) end
function core.push_scope(g, name) C.df_push_scope(g, name) end
function core.pop_scope(g) C.df_pop_scope(g) end
function core.push_device(g, spec) C.df_push_device(g, spec) end
function core.pop_device(g) C.df_pop_device(g) end

function core.node_type(g, node) return str(C.df_node_type_of(g, node)) end
function core.node_name_of(g, node) return str(C.df_node_name_of(g, node)) end
function core.node_where(g, node) return str(C.df_node_where_of(g, node)) end
function core.node_by_name(g, name) return C.df_node_by_name(g, name) end
function core.node_outputs(g, node) return C.df_node_outputs(g, node) end
function core.node_inputs(g, node) return C.df_node_inputs(g, node) end

local two = new('int32_t[2]')
function core.node_input_of(g, node, i)
  C.df_node_input_of(g, node, i, two, two + 1)
  return two[0], two[1]
end

function core.output_dtype(g, node, index) return C.df_output_dtype(g, node, index) end
function core.output_rank(g, node, index) return C.df_output_rank(g, node, index) end
function core.output_dim(g, node, index, axis) return tonumber(C.df_output_dim(g, node, index, axis)) end

function core.output_shape(g, node, index)
  local rank = C.df_output_rank(g, node, index)
  if rank < 0 then return nil end
  local shape = {}
  for i = 0, rank - 1 do shape[i + 1] = tonumber(C.df_output_dim(g, node, index, i)) end
  return shape
end

function core.output_constant(g, node, index)
  local t = C.df_output_constant(g, node, index)
  if t == nil then return nil end
  return wrap(t)
end

function core.output_set_shape(g, node, index, dims)
  local rank = take_dims(dims)
  if C.df_output_set_shape(g, node, index, rank, dims_buffer, err) ~= 0 then raise() end
end

function core.node_context(g, node) return C.df_node_context(g, node) end
function core.needs_nothing(g, node, index) return C.df_output_needs_nothing(g, node, index) end
function core.flow_describe(g, node)
  local n = C.df_flow_describe(g, node, 0, nil)
  if n == 0 then return nil end
  local out, list = ffi.new('int32_t[?]', n), {}
  C.df_flow_describe(g, node, n, out)
  for i = 1, n do list[i] = out[i - 1] end
  return list
end
function core.saved(g, node)
  local n = C.df_saved(g, node, 0, nil)
  local out, list = ffi.new('int32_t[?]', n), {}
  C.df_saved(g, node, n, out)
  for i = 1, n do list[i] = out[i - 1] end
  return list
end
function core.flow_name(g, node) return ffi.string(C.df_flow_name(g, node)) end
function core.node_capture(g, node)
  local from = ffi.new('int32_t[2]')
  if C.df_node_capture(g, node, from, from + 1) then return from[0], from[1] end
end
function core.node_attrs_text(g, node)
  local text = ffi.new('char[512]')
  return ffi.string(text, C.df_node_attrs_text(g, node, 512, text))
end
local attr_value = ffi.new('df_attr_value[1]')
function core.node_attr(g, node, name)
  local type, v = C.df_node_attr(g, node, name, attr_value), attr_value[0]
  if type == 0 then return nil end
  type = string.char(type)
  if type == 'b' then return v.number ~= 0 end
  if type == 's' then return v.n > 0 and ffi.string(v.bytes, v.n) or '' end
  if type == 'h' or type == 'l' or type == 'y' then
    if v.n < 0 then return nil end
    local list = {}
    for i = 1, tonumber(v.n) do list[i] = tonumber(v.ints[i - 1]) end
    return list
  end
  return v.number
end
function core.current_context(g) return C.df_current_context(g) end

function core.push_top(g) C.df_push_top(g) end
function core.pop_top(g) C.df_pop_top(g) end

function core.variable_set_init(g, handle, node, index)
  if C.df_variable_set_init(g, handle, node, index, err) ~= 0 then raise() end
end

-- ---- control flow --------------------------------------------------------------------------------------------------------
function core.flow_depth(g) return C.df_flow_depth(g) end
function core.flow_abort(g, depth) C.df_flow_abort(g, depth) end

function core.cond_begin(g, node, index, name, where)
  if C.df_cond_begin(g, node, index, name, where, err) ~= 0 then raise() end
end

function core.cond_branch_end(g, outputs)
  local p, n = pairs_of(outputs)
  if C.df_cond_branch_end(g, n / 2, p, err) ~= 0 then raise() end
end

function core.cond_turn(g, side)
  if C.df_cond_turn(g, side, err) ~= 0 then raise() end
end

function core.cond_end(g, n)
  local out = new('int32_t[?]', 2 * n + 2)
  local op = C.df_cond_end(g, out, err)
  if op < 0 then raise() end
  return op, list_of(out, 2 * n)
end

function core.while_invariant(g, var, dims)
  local rank = take_dims(dims)
  C.df_while_invariant(g, var, rank, dims_buffer)
end

function core.while_var_name(g, var, name) C.df_while_var_name(g, var, name) end

function core.while_begin(g, init, parallel_iterations, maximum_iterations, back_prop, save, name, where)
  local p, n = pairs_of(init)
  local vars = new('int32_t[?]', n + 2)
  if C.df_while_begin(g, n / 2, p, parallel_iterations, maximum_iterations, back_prop and true or false, save, name, where,
                      vars, err) ~= 0 then raise() end
  return list_of(vars, n)
end

function core.while_pred_end(g, node, index, n)
  local vars = new('int32_t[?]', 2 * n + 2)
  if C.df_while_pred_end(g, node, index, vars, err) ~= 0 then raise() end
  return list_of(vars, 2 * n)
end

function core.while_end(g, results)
  local p, n = pairs_of(results)
  local exits = new('int32_t[?]', n + 2)
  if C.df_while_end(g, n / 2, p, exits, err) ~= 0 then raise() end
  return list_of(exits, n)
end

function core.push_outer(g) C.df_push_outer(g) end
function core.pop_outer(g) C.df_pop_outer(g) end

function core.while_add_var(g, node, index)
  local number = C.df_while_add_var(g, node, index, two, err)
  if number < 0 then raise() end
  return number, two[0], two[1]
end

function core.while_close_var(g, number, node, index)
  if C.df_while_close_var(g, number, node, index, two, err) ~= 0 then raise() end
  return two[0], two[1]
end

-- ---- gradients ---------------------------------------------------------------------------------------------------------
local on_custom, custom_error     -- the Lua function, and what it raised
local custom_callback             -- the one C callback, made when it is first needed: callbacks are never given back

function core.on_custom_gradient(fn)
  on_custom = fn
end

local function run_custom(_, id, n, dy, m, dx, e)
  local ok, result = pcall(on_custom, tonumber(id), list_of(dy, 2 * n), m)
  if not ok then
    custom_error = result
    e.code = 3
    e.message, e.op, e.frame, e.source = 'the gradient function failed', '', '', ''
    return 3
  end
  for i = 0, 2 * m - 1 do dx[i] = result[i + 1] end
  return 0
end

function core.gradients(g, ys, grad_ys, xs, stops, unconnected, where)
  local y, ny = pairs_of(ys)
  local gy, ng = pairs_of(grad_ys)
  local x, nx = pairs_of(xs)
  local s, ns = pairs_of(stops)
  if ng > 0 and ng ~= ny then fail('invalid_argument', ('%d grad_ys for %d ys'):format(ng / 2, ny / 2)) end
  local out = new('int32_t[?]', 3 * nx + 6)
  custom_callback = custom_callback or cast('df_custom_gradient_fn', run_custom)
  C.df_graph_on_custom_gradient(g, custom_callback, nil)
  if C.df_gradients(g, ny / 2, y, ng > 0 and gy or nil, nx / 2, x, ns / 2, s, unconnected, where, out, err) ~= 0 then
    if custom_error ~= nil then
      local e = custom_error
      custom_error = nil
      error(e, 0)
    end
    raise()
  end
  return list_of(out, 3 * nx)
end
jit.off(core.gradients)   -- a callback must not happen inside compiled code
jit.off(run_custom)

-- ---- TensorFlow's graphs -------------------------------------------------------------------------------------------------
function core.import_graph_def(g, bytes, prefix, names, to, where)
  local n, count = #names, #bytes
  local list = new('const char *[?]', n + 1)
  for i = 1, n do list[i - 1] = names[i] end
  if type(bytes) == 'table' then
    count = tonumber(C.df_tensor_size(bytes.handle))
    bytes = cast('const char *', C.df_tensor_data(bytes.handle))
  end
  local before = C.df_graph_nodes(g)
  if C.df_import_graph_def(g, bytes, count, prefix, n, list, (pairs_of(to)), where, err) ~= 0 then raise() end
  charge(NODE_CHARGE * (C.df_graph_nodes(g) - before))
end

function core.export_graph_def(g, outputs, with_context, text)
  local list = outputs and pairs_of(outputs)
  return checked(C.df_export_graph_def(g, outputs and #outputs / 2 or -1, list, with_context, text, err))
end

-- ---- sessions and runs ----------------------------------------------------------------------------------------------------
-- A box is {p = pointer}. The pointer has the finalizer, so that nothing which the finalizer's table keeps leads back to it.
function core.session_new(g, options)
  local s = C.df_session_new(g, options, err)
  if s == nil then raise() end
  charge(65536)
  return { p = gc(s, C.df_session_release), release = C.df_session_release }
end

function core.close(box)
  local p = type(box) == 'table' and box.p
  if not p then return end
  box.p = nil
  box.release(gc(p, nil))
end

function core.session_reset(s) C.df_session_reset(open(s, 'session')) end

local room = 16
local fetch_buffer, feed_buffer = new('int32_t[?]', 2 * room), new('int32_t[?]', 2 * room)
local values, results = new('df_value[?]', room), new('df_value[?]', room)

local function grow(n)
  while room < n do room = room * 2 end
  fetch_buffer, feed_buffer = new('int32_t[?]', 2 * room), new('int32_t[?]', 2 * room)
  values, results = new('df_value[?]', room), new('df_value[?]', room)
end

--- Fills the buffers from (fetches, feeds); returns their counts.
local function take_request(fetches, feeds)
  local nfetch, nfeed = #fetches / 2, feeds and #feeds / 4 or 0
  if nfetch > room or nfeed > room then grow(nfetch > nfeed and nfetch or nfeed) end
  local buffer = fetch_buffer
  for i = 0, 2 * nfetch - 1 do buffer[i] = fetches[i + 1] end
  buffer = feed_buffer
  for i = 0, nfeed - 1 do
    local at = 4 * i
    buffer[2 * i], buffer[2 * i + 1] = feeds[at + 1], feeds[at + 2]
    local dtype, x, v = feeds[at + 3], feeds[at + 4], values[i]
    if type(x) == 'table' then
      v.kind, v.dtype, v.as.tensor = TENSOR, C.df_tensor_dtype(x.handle), x.handle
    elseif put[dtype] and holds(dtype, x) then
      v.kind, v.dtype = SCALAR, dtype
      put[dtype](v, x)
    else
      fail('invalid_argument', ('the fed value %s cannot be held by dtype %s'):format(tostring(x), str(C.df_dtype_name(dtype))))
    end
  end
  return nfetch, nfeed
end

local function half(h)
  local sign, exponent, fraction = h >= 0x8000 and -1 or 1, floor(h / 1024) % 32, h % 1024
  if exponent == 0 then return sign * fraction * 2^-24 end
  if exponent == 31 then return fraction == 0 and sign * huge or 0 / 0 end
  return sign * (fraction + 1024) * 2^(exponent - 25)
end

local word = ffi.new('union { uint32_t u; float f; }')
local function bfloat16(h)
  if band(h, 0x7fff) > 0x7f80 then return nan end
  word.u = h * 65536
  return word.f
end

local take = {
  [FLOAT32] = function(v) return float32_at(v, 2) end, [FLOAT64] = function(v) return float64_at(v, 1) end,  -- the payload
  [INT32]   = function(v) return v.as.i32 end, [INT64]   = function(v) return from_int64(v.as.i64) end,
  [UINT8]   = function(v) return v.as.u8 end,  [INT8]    = function(v) return v.as.i8 end,
  [BOOL]    = function(v) return v.as.b end,   [FLOAT16] = function(v) return half(v.as.u16) end,
  [BFLOAT16] = function(v) return bfloat16(v.as.u16) end,
  [INT16]   = function(v) return v.as.i16 end, [UINT16]  = function(v) return v.as.u16 end,
  [UINT32]  = function(v) return v.as.u32 end, [UINT64]  = function(v) return from_int64(v.as.u64) end,
}
take[QINT8], take[QUINT8], take[QINT16], take[QUINT16], take[QINT32] = take[INT8], take[UINT8], take[INT16], take[UINT16], take[INT32]

--- A result as a Lua value; consumes what v holds.
local function value_of(v)
  local kind = v.kind
  if kind == SCALAR then return take[v.dtype](v) end
  if kind ~= TENSOR then
    C.df_value_release(v)
    return true
  end
  local t = v.as.tensor
  v.kind = 0
  if C.df_tensor_rank(t) > 0 or C.df_tensor_dtype(t) == VARIANT then return wrap(t) end
  local x = get_element(t, C.df_tensor_dtype(t), 0)
  release_tensor(t)
  return x
end

local function give_results(n, from)
  if n == 1 then return value_of(from[0]) end
  local list = {}
  for i = 1, n do list[i] = value_of(from[i - 1]) end
  return list
end

function core.session_run(s, fetches, feeds, timeout)
  local p = s.p or open(s, 'session')
  local nfetch, nfeed = take_request(fetches, feeds)
  if C.df_session_run_guarded(p, nfetch, fetch_buffer, nfeed, feed_buffer, values, timeout or 0, results, err) ~= 0 then
    raise()
  end
  return give_results(nfetch, results)
end

function core.session_run_one(s, node, index, feed_node, feed_index, dtype, x)
  local p = s.p or open(s, 'session')
  local nfeed = 0
  fetch_buffer[0], fetch_buffer[1] = node, index
  if feed_node then
    local v = values[0]
    if not holds(dtype, x) then
      fail('invalid_argument', ('the fed value %s cannot be held by dtype %s'):format(tostring(x), str(C.df_dtype_name(dtype))))
    end
    feed_buffer[0], feed_buffer[1], nfeed = feed_node, feed_index, 1
    v.kind, v.dtype = SCALAR, dtype
    put[dtype](v, x)
  end
  if C.df_session_run_guarded(p, 1, fetch_buffer, nfeed, feed_buffer, values, 0, results, err) ~= 0 then raise() end
  return value_of(results[0])
end

function core.session_start(s, fetches, feeds, timeout, options)
  local p = open(s, 'session')
  local nfetch, nfeed = take_request(fetches, feeds)
  local r = C.df_session_start(p, nfetch, fetch_buffer, nfeed, feed_buffer, values, timeout or 0, options, err)
  if r == nil then raise() end
  return { p = gc(r, C.df_run_release), release = C.df_run_release, session = s }
end

function core.run_wait(r, nfetch)
  local own = new('df_value[?]', nfetch + 1)
  if C.df_run_wait_guarded(open(r, 'run'), own, err) ~= 0 then raise() end
  return give_results(nfetch, own)
end

function core.run_done(r) return C.df_run_done(open(r, 'run')) end
function core.run_cancel(r) C.df_run_cancel(open(r, 'run')) end

local stats = new('df_stats')
local function stats_table()
  return { runs = tonumber(stats.runs), nodes_run = tonumber(stats.nodes_run), dead_tokens = tonumber(stats.dead_tokens),
           frames = tonumber(stats.frames), iterations = tonumber(stats.iterations),
           stack_pushes = tonumber(stats.stack_pushes), stack_pops = tonumber(stats.stack_pops) }
end

function core.session_stats(s)
  C.df_session_stats(open(s, 'session'), stats)
  return stats_table()
end

function core.run_stats(r)
  C.df_run_stats(open(r, 'run'), stats)
  return stats_table()
end

function core.session_plans(s) return C.df_session_plans(open(s, 'session')) end

function core.session_variable(s, node)
  if C.df_session_variable(open(s, 'session'), node, one_value, err) ~= 0 then raise() end
  return value_of(one_value[0])
end

require 'dflow.ffi_check'(core, C, { pairs_of = pairs_of, list_of = list_of, raise = raise, charge = charge, err = err })

require 'dflow.ffi_draw'(core, C, { pairs_of = pairs_of, list_of = list_of, raise = raise, err = err })

require 'dflow.ffi_watch'(core, C, open, raise, value_of, err)

return core
