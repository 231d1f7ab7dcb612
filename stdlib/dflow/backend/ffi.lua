--- The core table under LuaJIT: the functions of interp/binding*.c once more, over FFI.
--
-- Conventions are those of interp/binding.h. The declarations come from the library itself (`df_header`), so they
-- cannot disagree with it. Here are the library, errors and what all parts share; the parts are dflow.backend.ffi_*.
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
  local at_install = require('dflow.own').path 'dflow.libpath'
  local lib = try(os.getenv('DFLOW_LIB'))
    or try(at_install and dofile(at_install))
    or try(here .. '../../../build/release/libdflow.so')       -- in the source tree
    or try(here .. '../../../../../lib/libdflow.so.0')         -- PREFIX/share/lua/5.1/dflow/backend/
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

local element, where = require 'dflow.backend.ffi_element', require 'dflow.backend.ffi_where'
local core = { Tensor = {}, Error = {}, own = where.own, where = where.where, callers = where.callers, at = where.at,
               version = ffi.string(C.df_version()), lib = C }

local new, str, gc = ffi.new, ffi.string, ffi.gc
local err = new('df_error')
local floor = math.floor

-- ---- the collector's account: see dfb_charge in interp/binding.c -----------------------------------------------
local CHARGE_MIN = 16 * 2^20
local charged, threshold = 0, CHARGE_MIN
local four = new('int64_t[4]')

local function collect()
  charged = 0
  collectgarbage('collect')
  C.df_memory(four, four + 1, four + 2, four + 3)
  -- what a collection costs grows with the heap
  threshold = math.max(tonumber(four[0]), collectgarbage('count') * 1024, CHARGE_MIN)
end

local function charge(bytes)
  charged = charged + bytes
  if charged >= threshold then collect() end
end

-- ---- errors and boxes ---------------------------------------------------------------------------------------
local function text_or_nil(p)
  local s = str(p)
  if s ~= '' then return s end
end

local function raise()
  local source = text_or_nil(err.source) or core.where()
  local e = setmetatable({ code = str(C.df_code_name(err.code)), message = str(err.message), op = text_or_nil(err.op),
                           frame = text_or_nil(err.frame), source = source }, core.Error)
  if e.code == 'unavailable' and err.rank > 0 then e.rank, e.host = err.rank - 1, text_or_nil(err.host) end
  local now = core.where()
  if now == source then e.traceback = core.callers() else e.ran = now end
  if e.code == 'resource_exhausted' then collect() end       -- the next call has the memory of what has no holder
  error(e, 0)
end

local function fail(code, message)
  error(setmetatable({ code = code, message = message, source = core.where(), traceback = core.callers() }, core.Error),
        0)
end

local function open(box, kind)
  local p = type(box) == 'table' and box.p
  if p then return p end
  fail('failed_precondition', 'the ' .. kind .. ' is closed')
end

-- ---- tensors and lists -------------------------------------------------------------------------------------------
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

local dims_buffer = new('int64_t[8]')

--- A Lua list of dims into dims_buffer; the rank, -1 for nil.
local function take_dims(dims)
  if dims == nil then return -1 end
  local rank = #dims
  if rank > 8 then fail('invalid_argument', 'a shape of rank ' .. rank .. ': the highest rank is 8') end
  for i = 1, rank do
    local d = dims[i]
    if element.is_int64(d) then d = tonumber(d) end
    if type(d) ~= 'number' or d ~= floor(d) then
      fail('invalid_argument', 'dimension ' .. (i - 1) .. ' of the shape is ' .. tostring(d) .. ', not an integer')
    end
    dims_buffer[i - 1] = d
  end
  return rank
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

-- ---- small facts --------------------------------------------------------------------------------------------------
function core.memory_reset_peak() C.df_memory_reset_peak() end
function core.memory_fail(n, times) return tonumber(C.df_memory_fail(n, times or 1)), tonumber(C.df_memory_pieces()) end
function core.memory()
  C.df_memory(four, four + 1, four + 2, four + 3)
  return tonumber(four[0]), tonumber(four[1]), tonumber(four[2]), tonumber(four[3])
end

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

function core.status_line(text) C.df_status_line(text) end

function core.header() return str(C.df_header()) end
function core.op_about(op, what) return text_or_nil(C.df_op_about(op, what)) end

function core.op_info(op)
  return { id = op, type = str(C.df_op_type(op)), lua = text_or_nil(C.df_op_lua(op)),
           doc = text_or_nil(C.df_op_doc(op)),
           inputs = text_or_nil(C.df_op_inputs(op)), outputs = text_or_nil(C.df_op_outputs(op)),
           types = text_or_nil(C.df_op_types(op)), attrs = text_or_nil(C.df_op_attrs(op)),
           example = text_or_nil(C.df_op_example(op)), gradient = C.df_op_has_gradient(op),
           stateful = C.df_op_is_stateful(op) }
end

-- ---- the rest -------------------------------------------------------------------------------------------------------
local own = { err = err, raise = raise, fail = fail, open = open, charge = charge, wrap = wrap, checked = checked,
              pairs_of = pairs_of, list_of = list_of, take_dims = take_dims, dims_buffer = dims_buffer,
              SCALAR = 1, TENSOR = 2 }             -- the kinds of df_value
for _, part in ipairs{ 'tensor', 'graph', 'run', 'check', 'draw', 'watch', 'file', 'cluster' } do
  require('dflow.backend.ffi_' .. part)(core, C, own)
end

return core
