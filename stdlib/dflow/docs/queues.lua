--- The pages of queues and tables. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.FIFOQueue(capacity, dtypes, {…})
  Makes a queue of the session, first in, first out, with one dtype per component. capacity -1 is
  unbounded. An enqueue waits while the queue is full, a dequeue while it is empty. ?Queue lists its
  methods.
@queue
  example   local q = df.FIFOQueue(10, {'int32', 'float32'})
            df.run(q:enqueue(1, 2.5))
            return df.run(q:size())

df.PaddingFIFOQueue(capacity, dtypes, {…})
  Makes a FIFOQueue whose shapes may have -1. A batch pads elements that differ there with zeros.
@queue
  example   local q = df.PaddingFIFOQueue(10, 'float32', {shapes = {-1}})
            df.run(q:enqueue{1})
            df.run(q:enqueue{2, 3})
            return q:dequeue_many(2):eval()

df.RandomShuffleQueue(capacity, dtypes, {…})
  Makes a queue that returns its elements in random order.
@queue
  option    min_after_dequeue: int = 0  the number of elements that remain while the queue is open
  option    seed: int = nil  equal seeds give equal orders
  example   local q = df.RandomShuffleQueue(10, 'int32', {shapes = {}, seed = 1})
            df.run(q:enqueue_many{1, 2, 3})
            return q:dequeue_many(3):eval()

df.PriorityQueue(capacity, dtypes, {…})
  Makes a queue whose elements begin with an int64 priority: q:enqueue(priority, v…). The smallest
  priority is dequeued first, and the older of equal ones.
@queue
  example   local q = df.PriorityQueue(10, 'string')
            df.run(q:enqueue(2, 'later'))
            df.run(q:enqueue(1, 'first'))
            return df.run((select(2, q:dequeue())))

df.HashTable(keys, values, default, {…})
  Makes an immutable table from integers or strings to values. t:lookup(keys) returns their values, in
  the keys' shape, with the default for missing keys; t:size(), t:export().
  option    shared_name: string = nil  tables with the same name are one table in a session
@name
  example   local t = df.HashTable({'cat', 'dog'}, df.int32{1, 2}, df.int32(-1))
            return df.run(t:lookup{'dog', 'bat', 'cat'})

df.MutableHashTable(key_dtype, value_dtype, default, {…})
  Makes a table whose entries can change. Besides t:lookup(keys), t:size() and t:export() it has the
  operations t:insert(keys, values), t:remove(keys) and t:import(keys, values).
  option    shape: list = {}  the shape of a value
  option    shared_name: string = nil  tables with the same name are one table in a session
@name
  example   local t = df.MutableHashTable('string', 'float32', 0)
            df.run(t:insert({'a', 'b'}, {1, 2}))
            df.run(t:remove{'a'})
            return df.run(t:lookup{'a', 'b'})
]==]
