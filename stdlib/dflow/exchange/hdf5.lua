--- HDF5 files, as Keras writes weights: .h5, and the member model.weights.h5 of a .keras file. Each dataset has its
-- path as its name: 'layers/dense/vars/0'. libhdf5 reads them (runtime/base/hdf5.c).
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'
local errors = require 'dflow.front.errors'

local M = {}
M.MEMBER = 'model.weights.h5'

--- What is in a file: names, about(name) -> {dtype, shape}, tensor(name), as dflow.train.checkpoint opens files.
-- @param bytes  nil: those of the file; else a string, the member of an archive
function M.open(path, bytes)
  local file = bytes and core.tensor_from_bytes(dtypes.number.uint8, { #bytes }, bytes) or core.read_file(path)
  local function named(ok, e)
    if ok then return e end
    if errors.is(e) then e.message = errors.shown(path .. ': ' .. e.message) end
    error(e, 0)
  end
  local out, kinds = { names = {}, metadata = {} }, {}
  local list = named(pcall(core.hdf5_list, file)):list()
  for i = 1, #list, 2 do
    out.names[#out.names + 1] = list[i]
    kinds[list[i]] = list[i + 1]
  end
  function out.tensor(name) return named(pcall(core.hdf5_read, file, name)) end
  function out.about(name)
    local shape = {}
    if kinds[name]:find '^!' then return out.tensor(name) end          -- which says why it is not read
    for d in kinds[name]:gmatch ' (%d+)' do shape[#shape + 1] = tonumber(d) end
    return { dtype = kinds[name]:match '^%w+', shape = shape }
  end
  return out
end

return M
