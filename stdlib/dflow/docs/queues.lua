--- The pages of queues and tables. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.FIFOQueue(capacity, dtypes, {…})
  A queue of the session, first in, first out. One dtype per component; capacity -1: no bound. A
  full queue holds back enqueues, an empty one dequeues. ?Queue tells its methods.
@queue
  example   local q = df.FIFOQueue(10, {'int32', 'float32'})
            df.run(q:enqueue(1, 2.5))
            return df.run(q:size())

df.PaddingFIFOQueue(capacity, dtypes, {…})
  A FIFOQueue whose shapes may have -1: elements that differ there are filled up with zeros in a
  batch.
@queue
  example   local q = df.PaddingFIFOQueue(10, 'float32', {shapes = {-1}})
            df.run(q:enqueue{1})
            df.run(q:enqueue{2, 3})
            return q:dequeue_many(2):eval()

df.RandomShuffleQueue(capacity, dtypes, {…})
  A queue that gives its elements in random order.
@queue
  option    min_after_dequeue: int = 0  so many stay in it while it is open
  option    seed: int = nil  the same one gives the same order
  example   local q = df.RandomShuffleQueue(10, 'int32', {shapes = {}, seed = 1})
            df.run(q:enqueue_many{1, 2, 3})
            return q:dequeue_many(3):eval()

df.PriorityQueue(capacity, dtypes, {…})
  A queue whose elements begin with an int64 priority: q:enqueue(priority, v…). The smallest
  comes first, of equal ones the older.
@queue
  example   local q = df.PriorityQueue(10, 'string')
            df.run(q:enqueue(2, 'later'))
            df.run(q:enqueue(1, 'first'))
            return df.run((select(2, q:dequeue())))

df.HashTable(keys, values, default, {…})
  A table from whole numbers or strings to values, filled once: t:lookup(keys) gives their values, of
  the keys' shape, and the default where a key is not there; t:size(), t:export().
  option    shared_name: string = nil  tables of one name are one, in a session
@name
  example   local t = df.HashTable({'cat', 'dog'}, df.int32{1, 2}, df.int32(-1))
            return df.run(t:lookup{'dog', 'bat', 'cat'})

df.MutableHashTable(key_dtype, value_dtype, default, {…})
  A table whose entries come and go: besides t:lookup(keys), t:size() and t:export() it has
  t:insert(keys, values), t:remove(keys) and t:import(keys, values), which are operations.
  option    shape: list = {}  of a value
  option    shared_name: string = nil  tables of one name are one, in a session
@name
  example   local t = df.MutableHashTable('string', 'float32', 0)
            df.run(t:insert({'a', 'b'}, {1, 2}))
            df.run(t:remove{'a'})
            return df.run(t:lookup{'a', 'b'})
]==]
