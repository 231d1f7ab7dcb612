--- Files under LuaJIT: see dflow.backend.ffi and interp/binding_file.c.
local ffi = require 'ffi'
local element = require 'dflow.backend.ffi_element'
local str, gc, new = ffi.string, ffi.gc, ffi.new
local STRING, VARIANT = element.STRING, element.VARIANT

--- Adds them to the core table.
-- @param own  what dflow.backend.ffi keeps to itself: err, raise, fail, open, checked, take_dims, dims_buffer
return function(core, C, own)
  local err, raise, fail, open, checked = own.err, own.raise, own.fail, own.open, own.checked
  local release_tensor = C.df_tensor_release

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

  function core.crc32c(bytes) return tonumber(C.df_crc32c(bytes, #bytes)) end

  function core.file_size(path)
    local n = C.df_file_size(path, err)
    if n < 0 then raise() end
    return tonumber(n)
  end

  function core.file_read(path, offset, dtype, dims)
    local rank = own.take_dims(dims)
    return checked(C.df_file_read(path, new('int64_t', offset), dtype, rank < 0 and 0 or rank, own.dims_buffer, err))
  end

  function core.decode_image(bytes, channels) return checked(C.df_decode_image(bytes, #bytes, channels, err)) end

  function core.hdf5_list(bytes) return checked(C.df_hdf5_list(bytes.handle, err)) end

  function core.hdf5_read(bytes, name) return checked(C.df_hdf5_read(bytes.handle, name, err)) end

  function core.folder_list(path) return checked(C.df_folder_list(path, err)) end

  function core.file_create(path)
    local f = C.df_file_create(path, err)
    if f == nil then raise() end
    return { p = gc(f, C.df_file_discard), release = C.df_file_discard }
  end

  function core.file_write(file, what)
    local f, bytes = open(file, 'file'), what
    local n
    if type(what) == 'string' then
      n = #what
    else
      local t = what.handle
      local dtype = C.df_tensor_dtype(t)
      if dtype == STRING or dtype == VARIANT then
        fail('invalid_argument', ('a tensor of %ss has no bytes of its own'):format(str(C.df_dtype_name(dtype))))
      end
      bytes, n = C.df_tensor_data(t), tonumber(C.df_tensor_size(t)) * C.df_dtype_bytes(dtype)
    end
    if C.df_file_write(f, bytes, n, err) ~= 0 then raise() end
  end

  function core.file_commit(file)
    local f = open(file, 'file')
    file.p = nil
    if C.df_file_commit(gc(f, nil), err) ~= 0 then raise() end
  end
end
