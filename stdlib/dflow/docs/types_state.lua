--- The pages of what sessions and runs keep: variables, arrays, queues. Text for pages.lua, which docs/types.lua reads
-- with its own.
return [==[
Variable (variable, v)
  A value that stays from run to run. Usable wherever an Output is, with the same methods; a bare
  one is read where it is used. Each session has its own value.
  field     dtype  its dtype
  field     shape  its static shape
  field     name  its name
  field     op  the operation of its handle
  field     graph  its Graph
  field     source  'file:line' that made it
  example   local v = df.Variable(1.0) df.run(v:assign_add(2)) return df.run(v)

v:load(x, session?)
  Sets its value in a session, the default one otherwise, without building anything.
  example   local v = df.Variable(1.5) v:load(4)
            return df.run(v)

v:eval(feeds?, {…})
  Its value in the default session.
@run
  example   df.Variable(1.5):eval()

v:value()
  A read on its own, as an Output: of the value at the place where it is built.
  example   df.run(df.Variable(1.5):value())

v:read_value()
  The same as v:value().
  example   df.run(df.Variable(1.5):read_value())

v:assign(x, {…})
  x is its value from then on; gives the new value as an Output.
@name
  example   df.run(df.Variable(1.5):assign(4))

v:assign_add(x, {…})
  Adds x to it; gives the new value.
@name
  example   df.run(df.Variable(1.5):assign_add(4))

v:assign_sub(x, {…})
  Subtracts x from it; gives the new value.
@name
  example   df.run(df.Variable(1.5):assign_sub(4))

v:scatter_sub(indices, updates, {…})
  Its rows `indices` lose updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_sub({0, 2}, {10, 10}))

v:scatter_min(indices, updates, {…})
  Its rows `indices` are at most updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_min({0, 2}, {0, 0}))

v:scatter_mul(indices, updates, {…})
  Its rows `indices` are multiplied by updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_mul({0, 2}, {10, 10}))

v:scatter_update(indices, updates, {…})
  Its rows `indices` become updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_update({0, 2}, {10, 10}))

v:scatter_add(indices, updates, {…})
  Its rows `indices` have added to them updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_add({0, 2}, {10, 10}))

v:scatter_div(indices, updates, {…})
  Its rows `indices` are divided by updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_div({0, 2}, {2, 2}))

v:scatter_max(indices, updates, {…})
  Its rows `indices` are at least updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_max({0, 2}, {10, 10}))


TensorArray (tensor_array, ta)
  An array of tensors for loops. What changes it returns the next array. Each place is written
  once, read as often as one likes, and all of it has a gradient.
  field     dtype  of its elements
  field     element_shape  the static shape of an element
  field     name  its name, which errors use
  field     op  the operation of its handle
  example   TensorArray('float32', 2):write(0, 1):write(1, 2):stack()

ta:write(i, v)
  Place i holds v; the next array. Each place is written once.
  example   TensorArray('float32', 2):write(0, 1):write(1, 2):stack()

ta:read(i, {…})
  What place i holds.
@name
  example   TensorArray('float32', 2):unstack{5, 6}:read(1)

ta:stack({…})
  All elements along a new axis 0.
@name
  example   TensorArray('float32', 2):unstack{5, 6}:stack()

ta:unstack(t)
  Place i holds t[i]; the next array.
  example   TensorArray('float32', 2):unstack{{1, 2}, {3, 4}}:read(0)

ta:gather(indices, {…})
  These elements along a new axis 0.
@name
  example   TensorArray('float32', 3):unstack{5, 6, 7}:gather{2, 0}

ta:scatter(indices, t)
  Place indices[k] holds t[k]; the next array.
  example   TensorArray('float32', 2):scatter({1, 0}, {5, 6}):stack()

ta:concat({…})
  All elements one behind the other along their axis 0.
@name
  example   TensorArray('float32', 2):split({1, 2, 3}, {1, 2}):concat()

ta:split(t, lengths)
  Place i holds the next lengths[i] rows of t; the next array.
  example   TensorArray('float32', 2):split({1, 2, 3}, {1, 2}):read(1)

ta:size({…})
  How many places there are now, a scalar int32.
@name
  example   TensorArray('float32', 2):size()

ta:grad(source)
  The array of gradients that belongs to this array under the name source.
  example   TensorArray('float32', 1):unstack{5}:grad('mine'):write(0, 2):read(0)

ta:identity()
  The same array behind a node of its own, which control dependencies can order.
  example   TensorArray('float32', 2):unstack{5, 6}:identity():read(0)


Queue (queue, q)
  A queue of the session: df.FIFOQueue, df.PaddingFIFOQueue, df.RandomShuffleQueue or
  df.PriorityQueue makes one. Its methods build ops; in a run they wait for room or elements.
  field     name  its name
  field     dtypes  of its components
  example   @filled
            return df.run(q:size())

q:size({…})
  How many elements it holds, a scalar int32.
@name
  example   @filled
            return df.run(q:size())

q:enqueue(v, …, {…})
  An operation that puts in one element, a value for each component; it waits while the queue is
  full.
@name
  example   @filled
            df.run(q:enqueue(4))
            return df.run(q:size())

q:enqueue_many(v, …, {…})
  An operation that puts in the rows of v along axis 0, one by one, as there is room.
@name
  example   @filled
            return df.run(q:size())

q:dequeue({…})
  The components of the next element; waits for one.
@name
  example   @filled
            return df.run(q:dequeue())

q:dequeue_many(n, {…})
  n elements, stacked along a new axis 0; waits for all of them.
@name
  example   @filled
            return df.run(q:dequeue_many(2))

q:dequeue_up_to(n, {…})
  As dequeue_many, but of a closed queue what is left will do.
@name
  example   @filled
            df.run(q:close())
            return df.run(q:dequeue_up_to(5))

q:is_closed()
  Was it closed? A scalar bool.
  example   @filled
            return df.run(q:is_closed())

q:close({…})
  An operation: nothing more is put in, and what waits for elements that cannot come any more ends
  with out_of_range. With cancel_pending what waits for room ends, too.
  option    cancel_pending: bool = false  what waits for room ends, too, with cancelled
@name
  example   @filled
            df.run(q:close())
            return df.run(q:is_closed())

]==]
