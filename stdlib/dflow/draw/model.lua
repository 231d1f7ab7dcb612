--- A picture's model at one of four stages: nested boxes with nodes in them, and edges between nodes.
--
--   built        what was typed: conds and loops as boxes, loop variables and results as nodes, small constants where
--                they are used
--   lowered      the primitives that it became, frames as boxes, control edges, and what a run makes of each node
--   gradient     as built, together with the gradient, in a box of its own; backward loops know whose gradient they are
--   partitioned  as lowered, in a box for each device
--
-- A node: {id, op, name, outs, attrs, where, kind, literal, args, box, ...}. kind is 'op', 'variable', 'result' or
-- 'test' (no node of the graph: what a cond or loop decides by). args are its operands in order: {node =, text =, label
-- =, kind =}, `node` nil for a literal.
-- A box: {kind, title, where, items, parent, ...}; its items are nodes and boxes in an order in which they could run.
-- An edge: {from, to, kind, text}: kind is 'data', 'back' (a loop's way back), 'control', 'saved' (from a loop to its
-- gradient) or 'sent' (to another device).
local devices = require 'dflow.front.devices'
local errors = require 'dflow.front.errors'
local registry = require 'dflow.front.registry'
local read = require 'dflow.draw.read'
local grouping = require 'dflow.draw.groups'

local M = {}
M.stages = { 'built', 'lowered', 'gradient', 'partitioned' }
M.colours = 6                 -- of devices, then they come again

local hidden = { enter = true, switch = true, next = true, exit = true, capture = true, loop_cond = true, pivot = true }

local function new_box(parent, kind, title, where)
  local box = { kind = kind, title = title, where = where ~= '' and where or nil, parent = parent, items = {},
                notes = {} }
  if parent then table.insert(parent.items, box) end
  return box
end

--- What a box is called: its kind and its name, or the name alone where that says the kind.
function M.title(box)
  local named = box.kind == 'cond' or box.kind == 'while' or box.kind == 'frame' or box.kind == 'device'
  if not named or box.title:match('[^/]*$'):sub(1, #box.kind) == box.kind then return box.title end
  return box.kind .. ' ' .. box.title
end

local function put(model, box, node)
  node.box = box
  table.insert(box.items, node)
  model.nodes[#model.nodes + 1] = node
  return node
end

local function edge(model, from, to, kind, text)
  model.edges[#model.edges + 1] = { from = from, to = to, kind = kind, text = text }
end

--- How many iterations overlap, where it is not what it is by default.
local function note_window(box, n)
  if n and n ~= 32 then box.notes[#box.notes + 1] = ('parallel_iterations = %d'):format(n) end
end

-- ---- built ----------------------------------------------------------------------------------------------------------
--- The value that stands behind the nodes that only bring it in: a node of the picture or a literal, and its index and
-- name there.
local function resolve(r, id, index)
  local n, name = r.by_id[id], nil
  while n do
    local role = n.role
    if role == 'exit' then
      name = name or n.name
      n = r.by_id[n.ins[1][1]]
    elseif role == 'switch' or role == 'capture' or role == 'loop_cond' or role == 'pivot' then
      n, index = r.by_id[n.ins[1][1]], n.ins[1][2]
    elseif role == 'enter' or role == 'next' then
      n, index = r.by_id[n.ins[1][1]], n.ins[1][2]
    else break end
  end
  return n, index, name
end

local function operand(r, pair)
  if not pair or pair[1] < 0 then return { text = '?' } end
  local n, index, name = resolve(r, pair[1], pair[2])
  if not n then return { text = '?' } end
  if n.literal and not n.shown then return { text = n.literal, literal = true } end
  if not name then
    name = n.variable or n.name
    local one = n.role == 'result' or n.role == 'variable' or (registry.primitive(n.op) == 'Merge' and index == 0)
    if #n.outs > 1 and not one then name = name .. ':' .. index end
  end
  return { node = n, index = index, text = name, type = n.outs[index + 1] }
end

--- Boxes for conds, loops and the contexts in them, each made when it is first asked for.
local function context_boxes(model, r, box_of)
  local boxes, of_context = {}, {}
  for _, kind in ipairs{ 'cond', 'loop' } do
    for number, f in pairs(r.flows[kind]) do
      for side = 0, 1 do of_context[f['inside_' .. side]] = { f = f, kind = kind, number = number, side = side } end
    end
  end
  local context_box, flow_box
  function flow_box(kind, number)
    local key = kind .. number
    local box = boxes[key]
    if not box then
      local f = r.flows[kind][number]
      box = new_box(f.parent > 0 and context_box(f.parent) or box_of(f), kind == 'cond' and 'cond' or 'while', f.name,
                    f.where)
      box.flow, box.pass = f, f.pass
      if kind == 'loop' then note_window(box, f.parallel_iterations) end
      if kind == 'loop' and f.save ~= 'keep' then box.notes[#box.notes + 1] = ("save = '%s'"):format(f.save) end
      local other = r.flows[kind][f.gradient_of]
      if other then box.notes[#box.notes + 1] = 'gradient of ' .. other.name end
      other = r.flows[kind][f.repeats]
      if other then box.notes[#box.notes + 1] = 'runs iterations of ' .. other.name .. ' again' end
      boxes[key] = box
      model.flows[#model.flows + 1] = box
    end
    return box
  end
  function context_box(id)
    local c = of_context[id]
    if not c then return model.top end
    local key = 'context' .. id
    if not boxes[key] then
      local kind = c.kind == 'cond' and (c.side == 1 and 'then' or 'else') or (c.side == 0 and 'test' or 'do')
      boxes[key] = new_box(flow_box(c.kind, c.number), kind, kind == 'test' and 'while' or kind)
    end
    return boxes[key]
  end
  return context_box, flow_box
end

--- Frames of primitives that belong to no loop known: those of imported graphs that could not be raised.
local function frame_box(boxes, model, frame, outer)
  if not frame then return outer end
  local key = frame.key .. (outer.device or '')
  if not boxes[key] then
    local box = new_box(frame_box(boxes, model, frame.parent, outer), 'frame', frame.name, frame.where)
    note_window(box, frame.parallel_iterations)
    boxes[key] = box
  end
  return boxes[key]
end

--- Loop variables, results and what decides: the nodes of a cond's or loop's box that are no ops.
local function join_flows(model, r)
  for _, box in ipairs(model.flows) do
    local f = box.flow
    if f.pred_node >= 0 and r.by_id[f.pred_node] then
      local pred = operand(r, { f.pred_node, f.pred_index })
      box.pred = pred
      local inside
      for _, item in ipairs(box.items) do if item.kind == 'test' and item.items then inside = item end end
      if box.kind == 'while' and pred.node and pred.node.box == inside then pred.node.decides = true
      else
        local word = box.kind == 'cond' and 'if' or 'while'
        local test = { kind = 'test', op = word, outs = {}, args = { pred }, where = box.where, box = box }
        table.insert(box.items, 1, test)
        model.tests[#model.tests + 1] = test
        if pred.node then edge(model, pred.node, test, 'data') end
      end
    end
  end
end

local function args_of(r, n)
  local args = {}
  if n.role == 'variable' then
    local enter = r.by_id[n.ins[1][1]]
    args[1] = operand(r, enter.role == 'enter' and enter.ins[1] or n.ins[1])
    args[1].label = 'from'
    local back = n.ins[2] and r.by_id[n.ins[2][1]]
    if back then
      args[2] = operand(r, back.role == 'next' and back.ins[1] or n.ins[2])
      args[2].label, args[2].kind = 'next', 'back'
    end
  elseif n.role == 'result' or n.role == 'done' then
    args[1], args[2] = operand(r, n.ins[2]), operand(r, n.ins[1])
    args[1].label, args[2].label = 'then', 'else'
  else
    for i, pair in ipairs(n.ins) do args[i] = operand(r, pair) end
  end
  return args
end

local function built(model, r, box_of)
  local frames = {}
  local context_box, flow_box = context_boxes(model, r, box_of)
  for _, pair in ipairs(r.asked) do r.by_id[pair[1]].shown = true end
  local shown = {}
  for _, n in ipairs(r.nodes) do
    local skip = hidden[n.role] or (n.literal and not n.shown) or (n.role == 'done' and not n.shown)
    if not skip then
      shown[#shown + 1] = n
      local box
      n.kind = n.role == 'variable' and 'variable' or (n.role == 'result' or n.role == 'done') and 'result' or 'op'
      if n.kind == 'variable' then box = flow_box('loop', n.flow)
      elseif n.kind == 'result' then box = flow_box('cond', n.flow)
      elseif n.context > 0 then box = context_box(n.context)
      else box = frame_box(frames, model, n.frame, box_of(n)) end
      put(model, box, n)
      if n.kind ~= 'op' then n.outs = { n.outs[1] } end      -- which input its Merge took is of no interest here
      if n.kind == 'variable' then n.label, n.exit = n.variable, r.exits[n.flow] and r.exits[n.flow][n.which] end
    end
  end
  join_flows(model, r)
  for _, n in ipairs(shown) do
    n.args = args_of(r, n)
    for _, a in ipairs(n.args) do
      if a.node then
        edge(model, a.node, n, (a.kind == 'back' or registry.primitive(a.node.op) == 'NextIteration') and 'back'
             or 'data', a.type)
      end
    end
    n.after = {}
    for _, id in ipairs(n.controls) do
      local from = r.by_id[id]
      if from and from.kind == 'op' and not (from.literal and not from.shown) or (from and from.role == 'exit') then
        from = resolve(r, id, 0)
        if from and from.box then
          n.after[#n.after + 1] = from
          edge(model, from, n, 'control')
        end
      end
    end
  end
  for i, pair in ipairs(r.asked) do
    model.results[i] = pair[2] < 0 and r.by_id[pair[1]].name or operand(r, pair).text
  end
end

-- ---- lowered --------------------------------------------------------------------------------------------------------
local said = { ['in place'] = 'read in place', passed = 'handed on: no token', scalar = 'on numbers', fed = 'fed',
               merged = 'merged: Enter and NextIteration deliver for it', duplicate = 'as another Switch: no token',
               simplified = 'simplified', unused = 'not run: nothing waits for it' }

local function lowered(model, r, box_of)
  local frames = {}
  for _, n in ipairs(r.nodes) do
    n.kind = 'op'
    n.lowering = model.lowered and model.lowered[n.id]
    n.note = n.lowering == 'duplicate' and n.op ~= 'Switch' and 'simplified: another node gives its value'
      or said[n.lowering]
    put(model, frame_box(frames, model, n.frame, box_of(n)), n)
  end
  for _, n in ipairs(r.nodes) do
    n.args, n.after = {}, {}
    for i, pair in ipairs(n.ins) do
      local from = r.by_id[pair[1]]
      local name = from.name .. ((#from.outs > 1 and not (registry.primitive(from.op) == 'Merge' and pair[2] == 0))
                                 and ':' .. pair[2] or '')
      local a = { node = from, index = pair[2], text = name, type = from.outs[pair[2] + 1] }
      a.kind = registry.primitive(from.op) == 'NextIteration' and 'back' or nil
      a.side = registry.primitive(from.op) == 'Switch' and (pair[2] == 1 and 'true' or 'false') or nil
      n.args[i] = a
      edge(model, from, n, a.kind or 'data', a.type)
      model.edges[#model.edges].side = a.side
    end
    for i, id in ipairs(n.controls) do
      n.after[i] = r.by_id[id]
      edge(model, r.by_id[id], n, 'control')
    end
  end
  for i, pair in ipairs(r.asked) do
    local n = r.by_id[pair[1]]
    model.results[i] = n.name .. (pair[2] >= 0 and #n.outs > 1 and registry.primitive(n.op) ~= 'Merge' and ':'
                                  .. pair[2] or '')
  end
end

local function lowering_notes(model, r)
  local f = model.lowered
  if not f then
    model.notes[#model.notes + 1] = 'no run: ' .. tostring(model.no_run)
    return
  end
  local count = {}
  for _, n in ipairs(r.nodes) do
    local kind = n.lowering == 'duplicate' and n.op ~= 'Switch' and 'simplified' or n.lowering
    count[kind] = (count[kind] or 0) + 1
  end
  local run = 'a run of it: %d of %d nodes of the graph needed, %d with tokens (engine: tokens)'
  model.notes[#model.notes + 1] = run:format(#r.nodes, r.total, f.tokens)
  local parts = {}
  for _, kind in ipairs{ 'in place', 'passed', 'merged', 'duplicate', 'simplified', 'unused' } do
    if count[kind] then parts[#parts + 1] = ('%d %s'):format(count[kind], (said[kind]:gsub(':.*$', ''))) end
  end
  if #parts > 0 then model.notes[#model.notes + 1] = table.concat(parts, ', ') end
end

-- ---- order ----------------------------------------------------------------------------------------------------------
--- A heap of items by their age.
local function heap()
  local list = {}
  local h = {}
  function h.push(item)
    local at = #list + 1
    list[at] = item
    while at > 1 do
      local up = math.floor(at / 2)
      if list[up].age <= list[at].age then break end
      list[up], list[at] = list[at], list[up]
      at = up
    end
  end
  function h.pop()
    local first, n = list[1], #list
    list[1] = list[n]
    list[n] = nil
    local at = 1
    while true do
      local least, left = at, 2 * at
      if list[left] and list[left].age < list[least].age then least = left end
      if list[left + 1] and list[left + 1].age < list[least].age then least = left + 1 end
      if least == at then return first end
      list[least], list[at] = list[at], list[least]
      at = least
    end
  end
  return h
end

--- The box that holds both, and the items of it that lead to each.
function M.meet(a, b)
  local depth = {}
  local function chain(x)
    local list = {}
    local item, box = x, x.box
    while box do
      list[#list + 1] = { item = item, box = box }
      item, box = box, box.parent
    end
    return list
  end
  local left, right = chain(a), chain(b)
  for _, step in ipairs(left) do depth[step.box] = step.item end
  for _, step in ipairs(right) do
    if depth[step.box] then return step.box, depth[step.box], step.item end
  end
end

--- Puts the items of each box into an order in which they could run, as they were built where that leaves a choice.
local function sort_items(model)
  local after, count = {}, {}
  for _, e in ipairs(model.edges) do
    if e.kind ~= 'back' then
      local _, from, to = M.meet(e.from, e.to)
      if from ~= to then
        after[from] = after[from] or {}
        if not after[from][to] then
          after[from][to] = true
          count[to] = (count[to] or 0) + 1
        end
      end
    end
  end
  local function age(item)                   -- loop variables come first in their box
    if not item.items then return item.id or math.huge end
    local least = math.huge
    for _, inner in ipairs(item.items) do
      local a = age(inner)
      inner.age = inner.kind == 'variable' and a - 2 ^ 31 or a
      least = math.min(least, a)
    end
    return least
  end
  local function sort(box)
    local ready, out, left = heap(), {}, {}
    for _, item in ipairs(box.items) do if (count[item] or 0) == 0 then ready.push(item) else left[item] = true end end
    local aged
    while #out < #box.items do
      local item = ready.pop()
      if not item then                       -- boxes that wait for each other: the oldest goes first
        if not aged then
          aged = {}
          for _, x in ipairs(box.items) do aged[#aged + 1] = x end
          table.sort(aged, function(a, b) return a.age < b.age end)
        end
        for _, x in ipairs(aged) do
          if left[x] then
            item = x
            break
          end
        end
      end
      left[item] = nil
      out[#out + 1] = item
      item.done = true
      for to in pairs(after[item] or {}) do
        count[to] = count[to] - 1
        if count[to] == 0 and left[to] then
          left[to] = nil
          ready.push(to)
        end
      end
    end
    box.items = out
    for i, item in ipairs(out) do
      item.place, item.done = i, nil
      if item.items then sort(item) end
    end
  end
  model.top.age = age(model.top)
  sort(model.top)
end

-- ---- stages ---------------------------------------------------------------------------------------------------------
local function new_model(stage)
  local model = { stage = stage, nodes = {}, edges = {}, tests = {}, flows = {}, results = {}, notes = {} }
  model.top = new_box(nil, 'top', '')
  return model
end

--- By context: the cond or loop that it is of.
local function flows_of_contexts(r)
  local of = {}
  for _, kind in ipairs{ 'cond', 'loop' } do
    for _, f in pairs(r.flows[kind]) do of[f.inside_0], of[f.inside_1] = f, f end
  end
  return of
end

--- What is drawn together: an outermost cond or loop with all that is in it, or a node at the top level. By node:
-- {nodes, pass, id}.
local function find_units(r)
  local of_context, units, of = flows_of_contexts(r), {}, {}
  for _, n in ipairs(r.nodes) do
    local f = of_context[n.context]
    if n.role == 'exit' then f = r.flows.loop[n.flow]
    elseif n.role == 'result' or n.role == 'done' then f = r.flows.cond[n.flow] end
    while f and of_context[f.parent] do f = of_context[f.parent] end
    local u = f and of[f]
    if not u then
      u = { nodes = {}, flow = f, pass = (f or n).pass, id = n.id }
      units[#units + 1] = u
      if f then of[f] = u end
    end
    table.insert(u.nodes, n)
    of[n] = u
  end
  for _, u in ipairs(units) do
    local seen = {}
    u.needs = {}
    for _, n in ipairs(u.nodes) do
      local function need(id)
        local from = of[r.by_id[id]]
        if from ~= u and not seen[from] then
          seen[from] = true
          table.insert(u.needs, from)
        end
      end
      for _, pair in ipairs(n.ins) do need(pair[1]) end
      for _, id in ipairs(n.controls) do need(id) end
    end
  end
  return units
end

--- Whether each node is forward (0), of the k-th gradient (k), or made of that afterwards (k + 0.5): its `group`. What
-- is needed is not later than that, however it was made: what a gradient pass adds to a forward loop is forward.
-- @return  the groups that there are, in order
local function find_groups(r)
  local units, first, last = find_units(r), {}, 0
  for _, u in ipairs(units) do
    if u.pass > 0 then first[u.pass], last = math.min(first[u.pass] or math.huge, u.id), math.max(last, u.pass) end
  end
  for _, u in ipairs(units) do              -- when it was made
    u.rank = u.pass
    for pass = 1, u.pass == 0 and last or 0 do
      if first[pass] and first[pass] < u.id then u.rank = pass + 0.5 end
    end
  end
  local groups = {}
  for rank = 0, last + 0.5, 0.5 do
    local stack, any = {}, false
    for _, u in ipairs(units) do
      if not u.group and u.rank == rank then
        u.group = rank
        if rank % 1 > 0 and #u.needs > 0 then     -- made later, of what there was before: as late as that
          local latest = 0
          for _, from in ipairs(u.needs) do latest = math.max(latest, from.group or rank) end
          if latest == 0 then u.group = 0 end
        end
        any = any or u.group == rank
        stack[#stack + 1] = u
      end
    end
    while #stack > 0 do
      local u = table.remove(stack)
      for _, from in ipairs(u.needs) do
        if not from.group then
          from.group = u.group
          stack[#stack + 1] = from
        end
      end
    end
    if any then groups[#groups + 1] = rank end
  end
  for _, u in ipairs(units) do
    for _, n in ipairs(u.nodes) do n.group = u.group end
    if u.flow then u.flow.group = u.group end
  end
  return groups
end

--- Where a node is placed: where its session says, else on the host's device, the first, which has kernels for all.
-- What was asked for and did not come about is the second result.
local function device_for(n, host, placed)
  local asked, wanted = n.asked, n.asked:lower():match '%a+:%d+$'
  if placed and placed[n.id] then return placed[n.id], asked ~= '' and wanted ~= placed[n.id] and asked or nil end
  return host, asked ~= '' and wanted ~= host and asked or nil
end

--- Gives each device a number, in the order of their names with the host's 0: node.colour and box.colour. Before a
-- graph is partitioned a node has the device that was asked for.
local function colour_devices(model, host)
  local number, names = {}, {}
  for _, n in ipairs(model.nodes) do
    local name = n.device or (n.asked or ''):lower():match '%a+:%d+$'
    n.on = name
    if name and not number[name] then
      number[name] = true
      names[#names + 1] = name
    end
  end
  table.sort(names)
  local last = 0
  for _, name in ipairs(names) do
    if name == host then number[name] = 0
    else
      number[name] = last % M.colours + 1
      last = last + 1
    end
  end
  for _, n in ipairs(model.nodes) do
    n.colour = n.on and number[n.on] or 0
    local box = n.box
    while box and not box.device do box = box.parent end
    if box then box.colour = number[box.device] end
  end
end

--- Boxes for layers and scopes, the part that was asked for, and what of it is open.
local function look(model, view, groups, r)
  grouping.nest(model, grouping.by_node(groups, r.total, r.gradient_of))
  local found = true
  if view.only then found = grouping.only(model, view.only) end
  if found and view.around then found = grouping.around(model, view.around, view.steps or 2) end
  if not found then
    errors.bad('draw: no node, layer, scope or loop of it is called %s',
               errors.describe(view.only and not view.around and view.only or view.around))
  end
  if view.closes or view.depth then grouping.close(model, view.depth, M.title) end
end

--- @param g        the graph's handle
-- @param asked    pairs of node and index
-- @param stage    one of M.stages
-- @param placed   by node: the device that it is on in a run, or nil
-- @param view     {depth =, only =, around =, closes = true: boxes are closed when there is much}, or nil: no boxes but
--                 those of conds and loops
-- @param groups   of the graph: what was built together
function M.make(g, asked, stage, placed, view, groups)
  local model, host = new_model(stage), devices.names()[1]
  local r = read.graph(g, asked)
  if stage == 'lowered' or stage == 'partitioned' then
    model.lowered, model.no_run = read.lowered(g, r)
    local boxes = {}
    local function box_of(n)
      if stage == 'lowered' then return model.top end
      n.device, n.requested = device_for(n, host, placed)
      local box = boxes[n.device]
      if not box then
        box = new_box(model.top, 'device', n.device)
        box.device, boxes[n.device] = n.device, box
      end
      return box
    end
    lowered(model, r, box_of)
    if stage == 'lowered' then lowering_notes(model, r) end
    if stage == 'partitioned' then
      local many = 0
      for _ in pairs(boxes) do many = many + 1 end
      model.notes[1] = many == 1 and 'one partition: nothing is sent' or ('%d partitions'):format(many)
      for _, e in ipairs(model.edges) do if e.from.device ~= e.to.device then e.kind = 'sent' end end
    end
  elseif stage == 'gradient' then
    local groups = find_groups(r)
    local boxes, names, k, passes = {}, { [0] = 'forward' }, 0, 0
    for _, group in ipairs(groups) do if group > 0 and group % 1 == 0 then passes = passes + 1 end end
    for _, group in ipairs(groups) do
      if group > 0 and group % 1 == 0 then
        k = k + 1
        names[group] = passes > 1 and 'gradient ' .. k or 'gradient'
      elseif group > 0 then names[group] = passes > 1 and 'made of gradient ' .. k or 'made of the gradient' end
    end
    local function box_of(n)
      local pass = n.group                     -- of a node, or of a cond or loop
      if not boxes[pass] then
        boxes[pass] = new_box(model.top, pass % 1 == 0 and pass > 0 and 'gradient' or 'forward', names[pass])
      end
      return boxes[pass]
    end
    built(model, r, box_of)
    for _, e in ipairs(model.edges) do
      local from, to = e.from.group, e.to.group
      local handle = e.text and e.text:find '^resource' and not registry.about(e.from.op, 'variable')
      if from and to and from ~= to and handle then e.kind = 'saved' end
    end
  else
    built(model, r, function() return model.top end)
  end
  colour_devices(model, host)
  if asked.whole then model.results = { ('a graph of %d operations'):format(r.total) } end
  if view and (view.asked or #model.nodes > grouping.MANY) then look(model, view, groups, r) end
  sort_items(model)
  return model
end

--- Raises for a stage that there is not.
function M.check_stage(stage)
  for _, s in ipairs(M.stages) do if s == stage then return s end end
  errors.bad("draw: `at` is 'built', 'lowered', 'gradient' or 'partitioned', not %s", errors.describe(stage))
end

return M
