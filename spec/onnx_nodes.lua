--- The standard's own tests of its operators: `dflow spec/onnx_nodes.lua FOLDER [PATTERN]`, where FOLDER is onnx/backend/test/data/node of
-- the `onnx` package, or what spec/onnx_nodes.py wrote. Each case is a model, and inputs and outputs as TensorProtos (onnx_case.lua). Says
-- how many give what is expected, why others do not, and what it is that dflow does not know. What is right and small, and what small
-- models are refused with, is kept in spec/models/onnx_nodes.gz, and read by the specs: RECORD=spec/models/onnx_nodes.gz writes it anew.
local case = require 'spec.onnx_case'
local folder, pattern, verbose = arg[1], arg[2] or '.', os.getenv 'VERBOSE'
local SMALL = 6000

local function bytes_of(path)
  local f = io.open(path, 'rb')
  if not f then return nil end
  local bytes = f:read '*a'
  f:close()
  return bytes
end

local record = os.getenv 'RECORD' and assert(io.popen(("gzip -9n >'%s'"):format(os.getenv 'RECORD'), 'w'))

--- Adds the files of a case to the record, or its model, inputs and what it is refused with: a line "path size" before the bytes of each.
local function keep(name, refused)
  if not record then return end
  local parts, size = {}, 0
  local function put(path, text)
    local bytes = text or bytes_of(folder .. '/' .. name .. '/' .. path)
    if bytes then parts[#parts + 1], size = ('%s/%s %d\n%s'):format(name, path, #bytes, bytes), size + #bytes end
  end
  put 'model.onnx'
  if refused then put('refused', refused) end
  for _, kind in ipairs(refused and { 'input' } or { 'input', 'output' }) do
    for i = 0, 31 do put(('test_data_set_0/%s_%d.pb'):format(kind, i)) end
  end
  if size <= SMALL then record:write(table.concat(parts)) end
end

local good, wrong, unknown, reasons = 0, 0, 0, {}
--- Why a model is refused, without the names in it.
local function reason(text)
  return text:match 'does not know the ONNX operator [%w_]+' or text:match 'the ONNX node .- %((.*)' or text:gsub("'.-'", '…')
end
local names = io.popen(("ls '%s'"):format(folder))
for name in names:lines() do
  if name:find(pattern) then
    local ok, why = pcall(case, folder .. '/' .. name, bytes_of)
    if ok and not why then
      good = good + 1
      keep(name)
    else
      local text = type(why) == 'table' and why.message or tostring(why)
      if type(why) == 'table' and why.code == 'unimplemented' then
        unknown = unknown + 1
        keep(name, text)
        local r = reason((text:gsub('^.*model.onnx: ', '')))
        reasons[r] = (reasons[r] or 0) + 1
      else wrong = wrong + 1 end
      if verbose or not (type(why) == 'table' and why.code == 'unimplemented') then print(name, (text:gsub('^.*model.onnx: ', ''):gsub('\n', ' '))) end
    end
  end
end
names:close()
if record then record:close() end
local list = {}
for r in pairs(reasons) do list[#list + 1] = r end
table.sort(list, function(a, b) return reasons[a] > reasons[b] or reasons[a] == reasons[b] and a < b end)
for _, r in ipairs(list) do print(('%5d not implemented: %s'):format(reasons[r], r)) end
print(('%d right, %d wrong, %d not implemented'):format(good, wrong, unknown))
