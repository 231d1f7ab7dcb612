--- The pages of what sessions and runs keep: variables, arrays, queues. Text for pages.lua, which docs/types.lua reads
-- with its own.
return [==[
Variable (variable, v)
  A value that persists between runs. It can be used as an Output and has the same methods; it is read
  where it is used. Each session has its own value.
  field     dtype  its dtype
  field     shape  its static shape
  field     name  its name
  field     op  the operation that makes the handle
  field     graph  its Graph
  field     source  'file:line' that made it
  example   local v = df.Variable(1.0) df.run(v:assign_add(2)) return df.run(v)

v:load(x, session?)
  Sets the value in a session, by default the default session. It adds no node to the graph.
  example   local v = df.Variable(1.5) v:load(4)
            return df.run(v)

v:eval(feeds?, {…})
  Returns the value in the default session.
@run
  example   df.Variable(1.5):eval()

v:value()
  Builds a read and returns it as an Output. It reads each time the place where it was built runs.
  example   df.run(df.Variable(1.5):value())

v:read_value()
  The same as v:value().
  example   df.run(df.Variable(1.5):read_value())

v:assign(x, {…})
  Assigns x to the variable. Returns the new value as an Output.
@name
  example   df.run(df.Variable(1.5):assign(4))

v:assign_add(x, {…})
  Adds x to the variable. Returns the new value.
@name
  example   df.run(df.Variable(1.5):assign_add(4))

v:assign_sub(x, {…})
  Subtracts x from the variable. Returns the new value.
@name
  example   df.run(df.Variable(1.5):assign_sub(4))

v:scatter_sub(indices, updates, {…})
  Subtracts updates from rows `indices`. Returns the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_sub({0, 2}, {10, 10}))

v:scatter_min(indices, updates, {…})
  Sets rows `indices` to the minimum of themselves and updates. Returns the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_min({0, 2}, {0, 0}))

v:scatter_mul(indices, updates, {…})
  Multiplies rows `indices` by updates. Returns the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_mul({0, 2}, {10, 10}))

v:scatter_update(indices, updates, {…})
  Assigns updates to rows `indices`. Returns the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_update({0, 2}, {10, 10}))

v:scatter_add(indices, updates, {…})
  Adds updates to rows `indices`. Returns the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_add({0, 2}, {10, 10}))

v:scatter_div(indices, updates, {…})
  Divides rows `indices` by updates. Returns the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_div({0, 2}, {2, 2}))

v:scatter_max(indices, updates, {…})
  Sets rows `indices` to the maximum of themselves and updates. Returns the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_max({0, 2}, {10, 10}))


TensorArray (tensor_array, ta)
  An array of tensors, for loops. A method that changes the array returns the changed array. Each
  element is written once and may be read many times. All methods have gradients.
  field     dtype  the dtype of the elements
  field     element_shape  the static shape of an element
  field     name  its name, as in error messages
  field     op  the operation that makes the handle
  example   TensorArray('float32', 2):write(0, 1):write(1, 2):stack()

ta:write(i, v)
  Writes v to element i. Returns the changed array. Each element is written once.
  example   TensorArray('float32', 2):write(0, 1):write(1, 2):stack()

ta:read(i, {…})
  Reads element i.
@name
  example   TensorArray('float32', 2):unstack{5, 6}:read(1)

ta:stack({…})
  Stacks all elements along a new axis 0.
@name
  example   TensorArray('float32', 2):unstack{5, 6}:stack()

ta:unstack(t)
  Writes t[i] to element i, for all rows of t. Returns the changed array.
  example   TensorArray('float32', 2):unstack{{1, 2}, {3, 4}}:read(0)

ta:gather(indices, {…})
  Stacks the elements of these indices along a new axis 0.
@name
  example   TensorArray('float32', 3):unstack{5, 6, 7}:gather{2, 0}

ta:scatter(indices, t)
  Writes t[k] to element indices[k]. Returns the changed array.
  example   TensorArray('float32', 2):scatter({1, 0}, {5, 6}):stack()

ta:concat({…})
  Concatenates all elements along their axis 0.
@name
  example   TensorArray('float32', 2):split({1, 2, 3}, {1, 2}):concat()

ta:split(t, lengths)
  Writes the next lengths[i] rows of t to element i. Returns the changed array.
  example   TensorArray('float32', 2):split({1, 2, 3}, {1, 2}):read(1)

ta:size({…})
  Returns the number of elements, a scalar int32.
@name
  example   TensorArray('float32', 2):size()

ta:grad(source)
  Returns the array of gradients of this array, under the name source.
  example   TensorArray('float32', 1):unstack{5}:grad('mine'):write(0, 2):read(0)

ta:identity()
  Returns the same array from a new node, which control dependencies can order.
  example   TensorArray('float32', 2):unstack{5, 6}:identity():read(0)


Queue (queue, q)
  A queue of the session. df.FIFOQueue, df.PaddingFIFOQueue, df.RandomShuffleQueue and
  df.PriorityQueue make one. Its methods build ops, which wait for room or elements in a run.
  field     name  its name
  field     dtypes  the dtypes of its components
  example   @filled
            return df.run(q:size())

q:size({…})
  Returns the number of elements in the queue, a scalar int32.
@name
  example   @filled
            return df.run(q:size())

q:enqueue(v, …, {…})
  Returns an operation that adds one element, with a value for each component. It waits while the queue
  is full.
@name
  example   @filled
            df.run(q:enqueue(4))
            return df.run(q:size())

q:enqueue_many(v, …, {…})
  Returns an operation that adds the rows of v along axis 0, one by one. It waits for room.
@name
  example   @filled
            return df.run(q:size())

q:dequeue({…})
  Removes the next element and returns its components. It waits for an element.
@name
  example   @filled
            return df.run(q:dequeue())

q:dequeue_many(n, {…})
  Removes n elements and stacks them along a new axis 0. It waits for all of them.
@name
  example   @filled
            return df.run(q:dequeue_many(2))

q:dequeue_up_to(n, {…})
  The same as dequeue_many, but returns the remaining elements of a closed queue.
@name
  example   @filled
            df.run(q:close())
            return df.run(q:dequeue_up_to(5))

q:is_closed()
  Returns whether the queue is closed, a scalar bool.
  example   @filled
            return df.run(q:is_closed())

q:close({…})
  Returns an operation that closes the queue. A later enqueue is cancelled; a dequeue that finds too few
  elements ends with out_of_range.
  option    cancel_pending: bool = false  true: cancels enqueues that wait for room, too
@name
  example   @filled
            df.run(q:close())
            return df.run(q:is_closed())

]==]
