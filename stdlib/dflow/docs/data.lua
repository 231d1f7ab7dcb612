--- The pages of df.data, as docs/functions.lua has those of df.
local pages = require 'dflow.docs.pages'

local text = [==[
df.data
  Readers of data sets and batches of them: df.data.idx, df.data.batches, df.data.read,
  df.data.permutation.
  example   type(df.data.idx)

df.data.idx(path)
  The Tensor of an IDX file (MNIST's format), plain or gzip.
  example   local path = os.tmpname()
            local f = io.open(path, 'wb')
            f:write('\0\0\8\1\0\0\0\3abc') f:close()
            local t = df.data.idx(path)
            os.remove(path)
            return t

df.data.read(path)
  A file's bytes as a string; a gzip file comes unpacked.
  example   local path = os.tmpname()
            local f = io.open(path, 'wb')
            f:write('abc') f:close()
            local s = df.data.read(path)
            os.remove(path)
            return s

df.data.permutation(n, seed)
  The numbers from 0 to n - 1 in random order, the same for a seed under every Lua.
  example   df.data.permutation(5, 1)

df.data.batches(tensors, size, {…})
  An iterator over batches of rows: the number of the batch from 1, then a Tensor for each tensor.
  option    shuffle: bool = true  each epoch in another random order
  option    seed: int = nil  of that order; the time otherwise
  option    drop_remainder: bool = true  false: the last batch may be smaller
  option    epochs: int = 1  how often all rows come
  example   local n = 0
            for i, x in df.data.batches(df.tensor{1.5, 2, 3, 4}, 2, {seed = 1}) do
              n = n + x.size
            end
            return n
]==]

--- By name without `df.`: a page.
return function(macros)
  local found = {}
  for _, page in ipairs(pages.read(text, macros)) do
    found[page[1]:gsub('^df%.', ''):match('^[%w_.]+')] = page
  end
  return found
end
