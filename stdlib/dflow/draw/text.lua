--- A picture's model as text: a let-form, or a tree.
--
--   let
--     x: float32[] = Placeholder(dtype=float32)  -- f.lua:1
--     while/Exit: float32[] = while{
--       while.v = x
--       while Less: bool[] = Less(while.v, 100)
--       do    Mul: float32[] = Mul(while.v, while.v)
--       next  Mul
--     }
--   in while/Exit
local title_of = require('dflow.draw.model').title

local M = {}

--- `Mul(x, 2.; attribute=value)`; what it only waits for stands behind a ^, as TensorFlow writes it.
local function closed(n) return ('%s%s { %d nodes }'):format(n.op, n.times and ' × ' .. n.times or '', n.count) end

local function call(n)
  local parts = {}
  for i, a in ipairs(n.args) do
    parts[i] = a.node and a.node.device ~= n.device and ('Recv(%s, %s)'):format(a.node.device, a.text) or a.text
  end
  if n.literal then parts[1] = n.literal end
  for _, from in ipairs(n.after) do parts[#parts + 1] = '^' .. from.name end
  local inputs = table.concat(parts, ', ')
  local attrs = n.literal and '' or n.attrs:gsub(" ?frame_name='[^']*'", ''):gsub(' ?parallel_iterations=%d+',
      ''):gsub('^ ', '')
  return ('%s(%s%s)'):format(n.op, inputs, attrs ~= '' and (inputs ~= '' and '; ' or '') .. attrs or '')
end

local function typed(name, n) return #n.outs > 0 and name .. ': ' .. table.concat(n.outs, ', ') or name end

local function note(n)
  local parts = {}
  parts[1] = n.called
  if n.note then parts[#parts + 1] = n.note end
  if n.requested then parts[#parts + 1] = 'asked for ' .. n.requested end
  return #parts > 0 and table.concat(parts, '; ') or nil
end

-- ---- the let-form ---------------------------------------------------------------------------------------------------
--- @param opts  {lines = 400: more are left out, source = true: the Lua lines}
function M.let(model, opts)
  local limit, with_source = opts.lines or 400, opts.source ~= false
  local write_items

  --- The line, with what is to be said of it behind it; a Lua line once in a row.
  local function put(block, line, where, more)
    local remark
    if with_source and where and where ~= '' and where ~= block.where then
      remark, block.where = where, where
    end
    if more then remark = (remark and remark .. '; ' or '') .. more end
    block[#block + 1] = remark and line .. '  -- ' .. remark or line
  end

  local function append(block, lines, first, indent)
    for i, line in ipairs(lines) do block[#block + 1] = (i == 1 and first or indent) .. line end
  end

  local function inside(items)
    local block = {}
    write_items(block, items)
    return block
  end

  local function part_of(box, kind)
    for _, item in ipairs(box.items) do if item.items and item.kind == kind then return item end end
  end

  local function own_nodes(box, kind)
    local list = {}
    for _, item in ipairs(box.items) do if item.kind == kind and not item.items then list[#list + 1] = item end end
    table.sort(list, function(a, b) return a.which < b.which end)
    return list
  end

  local function remarks(box) return #box.notes > 0 and table.concat(box.notes, ', ') or nil end

  local function write_cond(block, box)
    local results, names, gives = own_nodes(box, 'result'), {}, { {}, {} }
    for i, n in ipairs(results) do
      names[i] = typed(n.name, n)
      gives[1][i], gives[2][i] = n.args[1].text, n.args[2].text
    end
    local what = #names > 0 and table.concat(names, ', ') .. ' = ' or ''
    put(block, ('%scond{ %s'):format(what, box.pred and box.pred.text or '?'), box.where, remarks(box))
    for i, side in ipairs{ 'then', 'else' } do
      local part = part_of(box, side)
      local lines = inside(part and part.items or {})
      lines[#lines + 1] = ('give %s'):format(table.concat(gives[i], ', '))
      append(block, lines, '  ' .. side .. '  ', '        ')
    end
    block[#block + 1] = '}'
  end

  local function write_while(block, box)
    local variables, names, nexts = own_nodes(box, 'variable'), {}, {}
    for i, n in ipairs(variables) do
      names[i] = n.exit and typed(n.exit, n) or '_'
      nexts[i] = n.args[2] and n.args[2].text or '?'
    end
    put(block, ('%s = while{'):format(table.concat(names, ', ')), box.where, remarks(box))
    for _, n in ipairs(variables) do block[#block + 1] = ('  %s = %s'):format(n.variable, n.args[1].text) end
    local part = part_of(box, 'test')
    local test = inside(part and part.items or {})
    local pred = box.pred and box.pred.text or '?'
    local last = test[#test]
    if not last or last:sub(1, #pred + 1) ~= pred .. ':' then test[#test + 1] = pred end
    append(block, test, '  while ', '        ')
    part = part_of(box, 'do')
    append(block, inside(part and part.items or {}), '  do    ', '        ')
    block[#block + 1] = '  next  ' .. table.concat(nexts, ', ')
    block[#block + 1] = '}'
  end

  local function write_box(block, box)
    if box.kind == 'cond' then return write_cond(block, box) end
    if box.kind == 'while' then return write_while(block, box) end
    local named = box.kind == 'frame' or box.kind == 'device'
    put(block, ('%s%s{'):format(named and box.kind .. ' ' or '', box.title), box.where, remarks(box))
    append(block, inside(box.items), '  ', '  ')
    block[#block + 1] = '}'
  end

  function write_items(block, items)
    for _, item in ipairs(items) do
      if item.items then write_box(block, item)
      elseif item.kind == 'op' then
        local name = typed(item.name, item)
        put(block, item.closed and closed(item) or ('%s = %s'):format(name, call(item)), item.where, note(item))
      end
    end
  end

  local result = table.concat(model.results, ', ')
  if #model.nodes == 1 and model.nodes[1].literal and model.stage == 'built' then return model.nodes[1].literal end
  local lines = inside(model.top.items)
  local out = { 'let' }
  for _, s in ipairs(model.notes) do out[#out + 1] = '  -- ' .. s end
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

-- ---- the tree -------------------------------------------------------------------------------------------------------
local function tree_line(n)
  if n.closed then return closed(n) end
  if n.kind == 'variable' then
    return ('%s = %s%s'):format(typed(n.variable, n), n.args[1].text, n.args[2] and ', next ' .. n.args[2].text or '')
  elseif n.kind == 'result' then
    return ('%s = %s else %s'):format(typed(n.name, n), n.args[1].text, n.args[2].text)
  end
  return ('%s = %s'):format(typed(n.name, n), n.literal and n.literal or n.op)
end

--- Boxes within boxes, one line for each node, with its Lua line.
function M.tree(model, opts)
  local limit, with_source = opts.lines or 400, opts.source ~= false
  local out, left = {}, 0
  local function say(lead, line, ...)
    if #out >= limit then
      left = left + 1
      return
    end
    local remarks = {}
    for i = 1, select('#', ...) do
      local s = select(i, ...)
      if s and s ~= '' then remarks[#remarks + 1] = s end
    end
    out[#out + 1] = lead .. line .. (#remarks > 0 and '  -- ' .. table.concat(remarks, '; ') or '')
  end
  local function walk(items, lead)
    local shown = {}
    for _, item in ipairs(items) do if item.kind ~= 'test' or item.items then shown[#shown + 1] = item end end
    for i, item in ipairs(shown) do
      local last = i == #shown
      local own, inner = lead .. (last and '`-' or '|-'), lead .. (last and '  ' or '| ')
      if item.items then
        local test = item.kind == 'cond' and item.pred and 'if ' .. item.pred.text or ''
        say(own, title_of(item), test, table.concat(item.notes, ', '), with_source and item.where or '')
        walk(item.items, inner)
      else say(own, tree_line(item), note(item) or '', with_source and item.where or '') end
    end
  end
  say('', table.concat(model.results, ', '), table.concat(model.notes, '; '))
  walk(model.top.items, '')
  if left > 0 then out[#out + 1] = ('… %d more lines'):format(left) end
  return table.concat(out, '\n')
end

return M
