--- Tensors under LuaJIT: see dflow.ffi.
local ffi = require 'ffi'
local element = require 'dflow.backend.ffi_element'
local new, str, cast = ffi.new, ffi.string, ffi.cast
local holds, float32_at, float64_at = element.holds, element.float32_at, element.float64_at
local FLOAT32, FLOAT64, STRING, INT64, UINT64, VARIANT, BOOL =
  element.FLOAT32, element.FLOAT64, element.STRING, element.INT64, element.UINT64, element.VARIANT, element.BOOL

--- Adds them to the core table.
-- @param own  what dflow.ffi keeps to itself: err, raise, fail, wrap, checked, take_dims, dims_buffer
return function(core, C, own)
  local err, raise, fail, wrap, checked = own.err, own.raise, own.fail, own.wrap, own.checked
  local take_dims, dims_buffer = own.take_dims, own.dims_buffer
  local release_tensor, length = C.df_tensor_release, new('int64_t[1]')

  local function make(dtype, dims)
    local rank = take_dims(dims)
    local t = C.df_tensor_new(dtype, rank < 0 and 0 or rank, dims_buffer, err)
    if t == nil then raise() end
    return t
  end

  function core.tensor_new(dtype, dims, flat)
    local t = make(dtype, dims)
    local n, given = tonumber(C.df_tensor_size(t)), #flat
    local data = element.pointer[dtype] and cast(element.pointer[dtype], C.df_tensor_data(t))
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
    if dtype == BOOL then bytes = bytes:gsub('[^%z\1]', '\1') end        -- a byte of a file may be any
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

  --- {min, mean, max, deviation, finite, nan, inf, histogram}, nil for what holds no real numbers.
  function core.tensor_summary(object)
    local s = new('df_summary')
    if not C.df_tensor_summary(object.handle, s) then return nil end
    local histogram = {}
    for i = 1, 16 do histogram[i] = tonumber(s.histogram[i - 1]) end
    return { min = s.min, mean = s.mean, max = s.max, deviation = s.deviation, finite = tonumber(s.finite),
             nan = tonumber(s.nan), inf = tonumber(s.inf),
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
    return element.get(C, t, C.df_tensor_dtype(t), i)
  end

  function core.tensor_list(object)
    local t, list = object.handle, {}
    local dtype, n = C.df_tensor_dtype(t), tonumber(C.df_tensor_size(t))
    local data = element.pointer[dtype] and cast(element.pointer[dtype], C.df_tensor_data(t))
    if dtype == FLOAT32 then
      for i = 0, n - 1 do list[i + 1] = float32_at(data, i) end
    elseif dtype == FLOAT64 then
      for i = 0, n - 1 do list[i + 1] = float64_at(data, i) end
    elseif data and dtype ~= INT64 and dtype ~= UINT64 then
      for i = 0, n - 1 do list[i + 1] = data[i] end
    else
      for i = 0, n - 1 do list[i + 1] = element.get(C, t, dtype, i) end
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
          local s = C.df_tensor_string(t, at * each + j, length)
          if C.df_tensor_set_string(r, i * each + j, s, length[0], err) ~= 0 then
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
end
