--- A graph as text: `let … in`, one typed line per node, with `cond{…}` and `while{…}` nested as they were written; or a tree; or DOT.
--
--   let
--     x: float32[] = Placeholder(dtype=float32)  -- f.lua:1
--     while/Exit: float32[] = while{
--       while.1 = x
--       while Less: bool[] = Less(while.1, 100)
--       do    Mul: float32[] = Mul(while.1, while.1)
--       next  Mul
--     }
--   in while/Exit
--
-- The nodes that bring outer values into branches and loops are not shown: the outer value's name stands in their place. Small
-- constants stand where they are used.
local core = require 'dflow.backend'
local graph = require 'dflow.graph'
local errors = require 'dflow.errors'
local dtypes = require 'dflow.dtypes'
local text = require 'dflow.text'
local nest = require 'dflow.nest'

local M = {}

local COND, LOOP = 1, 2
local SMALL = 4              -- constants of up to this many elements are shown in place

--- The outputs and operations in what was asked for, as pairs node, index (-1: an operation); and their graph.
local function roots(what)
  local list, g = {}, nil
  local function add(x)
    local mt = getmetatable(x)
    if type(mt) == 'table' and rawget(mt, 'as_output') and mt ~= graph.Output then
      x = mt.as_output(x)
      mt = getmetatable(x)
    end
    if mt == graph.Output or mt == graph.Operation then
      g = g or x.graph
      list[#list + 1] = { x.node, mt == graph.Output and x.index or -1 }
    elseif nest.is_plain(x) then
      for _, v in pairs(x) do add(v) end
    else
      errors.bad('a graph is drawn of an Output, an operation or a table of these, not of %s', errors.describe(x))
    end
  end
  add(what)
  if not g then errors.bad('there is nothing to draw: the table holds no Output') end
  return list, g
end

--- Takes a cond's or a loop's numbers apart: dflow.h, df_flow_describe.
local function flow(g, node)
  local n = core.flow_describe(g, node)
  if not n then return nil end
  local f = { kind = n[1], id = n[1] * 1000000 + n[2], pred = { n[3], n[4] }, name = core.flow_name(g, node) }
  local at = 5
  local function pair()
    at = at + 2
    return { n[at - 1], n[at] }
  end
  for i = 1, n[5] do
    local v = {}
    if f.kind == COND then
      at = at + 1
      v.result = n[at]
      v.yes, v.no = pair(), pair()
    else
      v.exit, v.merge, v.switch = n[at + 1], n[at + 2], n[at + 3]
      at = at + 3
      v.init, v.next = pair(), pair()
      v.result = v.exit
    end
    f[i] = v
  end
  return f
end

local function type_text(g, node, index)
  return text.shape(dtypes.name[core.output_dtype(g, node, index)] or '?', core.output_shape(g, node, index))
end

--- A small constant as it is written; nil for other nodes.
local function literal(g, node)
  if core.node_type(g, node) ~= 'Const' then return nil end
  local t = core.output_constant(g, node, 0)
  if not t or t.size > SMALL then return nil end
  return (text.array(t):gsub('\n%s*', ' '))
end

--- The value that stands behind the nodes that only bring it in.
local function origin(g, node, index)
  while true do
    local from, from_index = core.node_capture(g, node)
    if not from then return node, index end
    node, index = from, from_index
  end
end

-- ---- the let-form ---------------------------------------------------------------------------------------------------
--- The text of the graph that leads to what: an Output, an operation, or a table of these.
-- @param opts  {lines = 400: more are left out, source = true: the Lua lines}
function M.letform(what, opts)
  opts = opts or {}
  local limit, with_source = opts.lines or 400, opts.source ~= false
  local asked, owner = roots(what)
  local g = owner.handle
  local blocks = {}            -- by context: the block that is being written
  local written, variables = {}, {}
  local need, operand

  local function put(block, line, where)
    if with_source and where and where ~= '' and where ~= block.where then
      line = line .. '  -- ' .. where
      block.where = where
    end
    block.lines[#block.lines + 1] = line
  end

  --- A block for a context; fn writes it. Its lines.
  local function inside(context, fn)
    local before = blocks[context]
    local block = { lines = {} }
    blocks[context] = block
    fn(block)
    blocks[context] = before
    return block.lines
  end

  local function append(block, lines, first, indent)
    for i, line in ipairs(lines) do block.lines[#block.lines + 1] = (i == 1 and first or indent) .. line end
  end

  local function name_of(node, index)
    if variables[node] then return variables[node] end
    local small = literal(g, node)
    if small then return small end
    local name = core.node_name_of(g, node)
    if core.node_outputs(g, node) > 1 and not (core.node_type(g, node) == 'Merge' and index == 0) then name = name .. ':' .. index end
    return name
  end

  function operand(pair)
    if pair[1] < 0 then return '?' end
    local node, index = origin(g, pair[1], pair[2])
    if not variables[node] and not literal(g, node) then need(node) end
    return name_of(node, index)
  end

  local function operands(list)
    local names = {}
    for i, pair in ipairs(list) do names[i] = operand(pair) end
    return table.concat(names, ', ')
  end

  local function results_of(f)
    local names = {}
    for i, v in ipairs(f) do
      names[i] = v.result >= 0 and ('%s: %s'):format(core.node_name_of(g, v.result), type_text(g, v.result, 0)) or '_'
    end
    return table.concat(names, ', ')
  end

  local function write_cond(f, block, node)
    for _, v in ipairs(f) do written[v.result] = true end
    local pred = operand(f.pred)
    local function branch(side)
      local context
      for _, v in ipairs(f) do context = context or (v[side][1] >= 0 and core.node_context(g, v[side][1])) end
      return inside(context or -1, function(b)
        local list = {}
        for i, v in ipairs(f) do list[i] = v[side] end
        local given = operands(list)
        put(b, 'give ' .. given)
      end)
    end
    local yes, no = branch 'yes', branch 'no'
    put(block, ('%s = cond{ %s'):format(results_of(f), pred), core.node_where(g, node))
    append(block, yes, '  then  ', '        ')
    append(block, no, '  else  ', '        ')
    block.lines[#block.lines + 1] = '}'
  end

  local function write_loop(f, block, node)
    for i, v in ipairs(f) do
      if v.exit >= 0 then written[v.exit] = true end
      local name = ('%s.%d'):format(f.name, i)
      variables[v.merge] = name
      if v.switch >= 0 then variables[v.switch] = name end
    end
    local starts = {}
    for i, v in ipairs(f) do starts[i] = ('%s.%d = %s'):format(f.name, i, operand(v.init)) end
    local pred_context = core.node_context(g, f[1].merge)
    local body_context = f[1].switch >= 0 and core.node_context(g, f[1].switch) or -1
    local pred = inside(pred_context, function(b)
      local name = operand(f.pred)
      local last = b.lines[#b.lines]
      if not last or last:sub(1, #name + 1) ~= name .. ':' then put(b, name) end
    end)
    local body = inside(body_context, function(b)
      local list = {}
      for i, v in ipairs(f) do list[i] = v.next end
      put(b, operands(list))
    end)
    put(block, ('%s = while{'):format(results_of(f)), core.node_where(g, node))
    append(block, starts, '  ', '  ')
    append(block, pred, '  while ', '        ')
    local last = table.remove(body)
    append(block, body, '  do    ', '        ')
    block.lines[#block.lines + 1] = '  next  ' .. (last or '')
    block.lines[#block.lines + 1] = '}'
  end

  --- Writes a node, and before it what it needs, into the block of its context.
  function need(node)
    if written[node] then return end
    written[node] = true
    local block = blocks[core.node_context(g, node)] or blocks.top
    local f = flow(g, node)
    if f and f.kind == COND then return write_cond(f, block, node) end
    if f and f.kind == LOOP then return write_loop(f, block, node) end
    local list = {}
    for i = 0, core.node_inputs(g, node) - 1 do list[i + 1] = { core.node_input_of(g, node, i) } end
    local inputs = operands(list)
    local attrs = core.node_attrs_text(g, node)
    local types = {}
    for i = 0, core.node_outputs(g, node) - 1 do types[i + 1] = type_text(g, node, i) end
    put(block, ('%s%s = %s(%s%s)'):format(core.node_name_of(g, node), #types > 0 and ': ' .. table.concat(types, ', ') or '',
        core.node_type(g, node), inputs, attrs ~= '' and (inputs ~= '' and '; ' or '') .. attrs or ''), core.node_where(g, node))
  end

  local result
  local lines = inside(core.node_context(g, asked[1][1]), function(block)
    blocks.top = block
    local list = {}
    for i, pair in ipairs(asked) do
      if pair[2] < 0 then
        need(pair[1])
        list[i] = core.node_name_of(g, pair[1])
      else
        list[i] = operand(pair)
      end
    end
    result = table.concat(list, ', ')
  end)
  if #lines == 0 then return result end
  local out = { 'let' }
  for i, line in ipairs(lines) do
    if i > limit then
      out[#out + 1] = ('  … %d more lines'):format(#lines - limit)
      break
    end
    out[#out + 1] = '  ' .. line
  end
  out[#out + 1] = 'in ' .. result
  return table.concat(out, '\n')
end

-- ---- a tree ---------------------------------------------------------------------------------------------------------
--- What an output is made of, each node below the one that uses it; a node that was shown is not opened again.
function M.tree(what, opts)
  local deepest = opts and opts.depth or 12
  local asked, owner = roots(what)
  local g, out, seen = owner.handle, {}, {}
  local function walk(node, index, lead, tail)
    node = origin(g, node, index)
    local small = literal(g, node)
    local types = core.node_outputs(g, node) > 0 and ': ' .. type_text(g, node, math.max(0, index) % core.node_outputs(g, node)) or ''
    local again = seen[node] and core.node_inputs(g, node) > 0 and ' …' or ''
    out[#out + 1] = small and lead .. small or ('%s%s%s = %s%s'):format(lead, core.node_name_of(g, node), types, core.node_type(g, node), again)
    if seen[node] or small then return end
    seen[node] = true
    local n = core.node_inputs(g, node)
    local depth = #tail / 2
    if n > 0 and depth >= deepest then
      out[#out + 1] = tail .. '  …'
      return
    end
    for i = 0, n - 1 do
      local input, place = core.node_input_of(g, node, i)
      local last = i == n - 1
      walk(input, place, tail .. (last and '`-' or '|-'), tail .. (last and '  ' or '| '))
    end
  end
  for _, pair in ipairs(asked) do walk(pair[1], pair[2], '', '') end
  return table.concat(out, '\n')
end

-- ---- DOT ------------------------------------------------------------------------------------------------------------
local function dot_quoted(s) return '"' .. s:gsub('[\\"]', '\\%0') .. '"' end

--- The graph for Graphviz, everything that leads to what; nodes of one control-flow context in one box.
function M.dot(what)
  local asked, owner = roots(what)
  local g, order, seen, groups, contexts = owner.handle, {}, {}, {}, {}
  local at = 1
  local function visit(node)
    if node >= 0 and not seen[node] then
      seen[node] = true
      order[#order + 1] = node
    end
  end
  for _, pair in ipairs(asked) do visit(pair[1]) end
  while order[at] do
    for i = 0, core.node_inputs(g, order[at]) - 1 do visit((core.node_input_of(g, order[at], i))) end
    at = at + 1
  end
  for _, node in ipairs(order) do
    local context = core.node_context(g, node)
    if not groups[context] then
      groups[context] = {}
      contexts[#contexts + 1] = context
    end
    table.insert(groups[context], node)
  end
  table.sort(contexts)
  local out = { 'digraph dflow {', '  rankdir = BT; node [shape = box, fontname = "monospace", fontsize = 10]; edge [fontsize = 8];' }
  for _, context in ipairs(contexts) do
    local indent = '  '
    if context ~= 0 then
      out[#out + 1] = ('  subgraph cluster_%d { color = gray; label = "";'):format(context)
      indent = '    '
    end
    for _, node in ipairs(groups[context]) do
      local small = literal(g, node)
      local label = small or ('%s\n%s'):format(core.node_name_of(g, node), core.node_type(g, node))
      out[#out + 1] = ('%sn%d [label = %s%s];'):format(indent, node, dot_quoted(label):gsub('\n', '\\n'), small and ', shape = plaintext' or '')
    end
    if context ~= 0 then out[#out + 1] = '  }' end
  end
  for _, node in ipairs(order) do
    for i = 0, core.node_inputs(g, node) - 1 do
      local from, index = core.node_input_of(g, node, i)
      if from >= 0 then
        out[#out + 1] = ('  n%d -> n%d [label = %s%s];'):format(from, node, dot_quoted(type_text(g, from, index)),
            core.node_type(g, from) == 'NextIteration' and ', style = dashed, constraint = false' or '')
      end
    end
  end
  out[#out + 1] = '}'
  return table.concat(out, '\n')
end

return M
