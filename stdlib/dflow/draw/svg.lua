--- A picture's model as SVG: one file without scripts or references, light or dark as the reader's system is.
local layout = require 'dflow.draw.layout'
local registry = require 'dflow.front.registry'
local title_of = require('dflow.draw.model').title

local M = {}
-- width and height of the letters that are planned with; the font is 12px monospace
local CHAR, LINE = 7.3, 16
local SOFT = 6.1                     -- width of the small ones, 10px
local LONGEST = 34                   -- letters of a line in a node; longer ones are cut in their middle
-- nodes from which on constants and straight chains are drawn together; where there are closed boxes, too
local MANY, FEW = 150, 40

-- Colours by name, for light paper and for dark. They are written out in every rule: many readers of SVG (rsvg,
-- Inkscape, LaTeX) know no CSS variables and would paint all of it black.
local light = { bg = '#ffffff', fg = '#1d1f21', soft = '#686d75', line = '#b9bec6', node = '#ffffff', edge = '#7d848e',
                back = '#1f6feb', saved = '#a03fb5', sent = '#c4561a', frame = '#4673b4', cond = '#b98a1f',
                grad = '#a03fb5', flow = '#edf2fa', var = '#eef6ec', test = '#fff6df', da = '#0072b2', db = '#d55e00',
                dc = '#009e73', dd = '#cc79a7', de = '#b8860b', df = '#56b4e9' }
local dark = { bg = '#16181b', fg = '#e6e6e3', soft = '#9aa0a9', line = '#474c55', node = '#212429', edge = '#848b96',
               back = '#6ea8fe', saved = '#d58be6', sent = '#f0965e', frame = '#6e9fe6', cond = '#e6c06a',
               grad = '#d58be6', flow = '#232c3a', var = '#223026', test = '#3a3320', da = '#4aa3d8', db = '#f0894a',
               dc = '#3cc9a0', dd = '#e3a3c6', de = '#e0b84c', df = '#8ccdf2' }
local rules = [[
svg { background: @bg; }
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: @fg; }
.soft { font-size: 10px; fill: @soft; } .name { fill: @soft; } .op { font-weight: 600; }
.box > rect { fill: @frame; fill-opacity: 0.06; stroke: @line; } .cond > rect { fill: @cond; fill-opacity: 0.07; }
.gradient > rect { fill: @grad; fill-opacity: 0.05; } .inner > rect { stroke-dasharray: 2 3; }
.title { paint-order: stroke; stroke: @bg; stroke-width: 4px; stroke-linejoin: round; font-weight: 600; } .title .soft { font-weight: 400; }
.node > rect, .node > path { fill: @node; stroke: @line; }
.flow > rect { fill: @flow; } .variable > rect, .result > rect { fill: @var; } .test > path, .decides > rect { fill: @test; }
.free > rect { stroke-dasharray: 3 3; } .free text { fill: @soft; }
.edge { fill: none; stroke: @edge; } .control { stroke-dasharray: 3 3; } .back { stroke: @back; stroke-width: 1.4; }
.saved { stroke: @saved; stroke-width: 1.6; } .sent { stroke: @sent; stroke-width: 1.6; stroke-dasharray: 7 3; }
.box.da > rect { fill: @da; fill-opacity: 0.1; stroke: @da; } .box.db > rect { fill: @db; fill-opacity: 0.1; stroke: @db; }
.box.dc > rect { fill: @dc; fill-opacity: 0.1; stroke: @dc; } .box.dd > rect { fill: @dd; fill-opacity: 0.1; stroke: @dd; }
.box.de > rect { fill: @de; fill-opacity: 0.1; stroke: @de; } .box.df > rect { fill: @df; fill-opacity: 0.1; stroke: @df; }
.node.da > rect { stroke: @da; stroke-width: 2; } .node.db > rect { stroke: @db; stroke-width: 2; } .node.dc > rect { stroke: @dc; stroke-width: 2; }
.node.dd > rect { stroke: @dd; stroke-width: 2; } .node.de > rect { stroke: @de; stroke-width: 2; } .node.df > rect { stroke: @df; stroke-width: 2; }
.tip { fill: @edge; } .tip-back { fill: @back; } .tip-saved { fill: @saved; } .tip-sent { fill: @sent; }
]]
local closed_rules = [[
.closed > rect { fill: @flow; stroke: @frame; } .bundle { stroke-width: 2.2; }
]]
local function both(text)
  return text:gsub('@(%l+)', light) .. '@media (prefers-color-scheme: dark) {\n' .. text:gsub('@(%l+)', dark) .. '}\n'
end
local style, closed_style = both(rules), both(rules .. closed_rules)

--- The class of a device's colour.
local function device_class(item)
  return (item.colour or 0) > 0 and ' d' .. ('abcdef'):sub(item.colour, item.colour) or ''
end

-- ---- text -----------------------------------------------------------------------------------------------------------
local function escaped(s)
  return (tostring(s):gsub('[%z\1-\8\11\12\14-\31]', '?'):gsub('[&<>"]',
      { ['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;' }))
end

--- How many columns a text takes: letters of the east take two.
local function columns(s)
  local n = 0
  for c in s:gmatch '[%z\1-\127\194-\244][\128-\191]*' do
    local narrow = #c < 3 or (#c == 3 and (c < '\225\132\128' or (c >= '\226\128\128' and c < '\226\186\128')
                                           or c >= '\239\191\160'))
    n = n + (narrow and 1 or 2)
  end
  return n
end

local function letters(s)
  local list = {}
  for c in s:gmatch '[%z\1-\127\194-\244][\128-\191]*' do list[#list + 1] = c end
  return list
end

--- At most `most` columns: the middle is left out.
local function cut(s, most)
  if columns(s) <= most then return s end
  local list = letters(s)
  local head, tail, used = {}, {}, 1
  local i, j = 1, #list
  while i <= j do
    local c = #head <= #tail and list[i] or list[j]
    if used + columns(c) > most then break end
    used = used + columns(c)
    if #head <= #tail then
      head[#head + 1] = c
      i = i + 1
    else
      table.insert(tail, 1, c)
      j = j - 1
    end
  end
  return table.concat(head) .. '…' .. table.concat(tail)
end

local function short(name) return name:match '([^/]*)$' end
local function file_of(where) return where and where:match '([^/\\]*)$' or '' end

-- ---- what is drawn of a node ----------------------------------------------------------------------------------------
--- The full line of a node, for its tooltip.
local function told(n)
  if n.closed then return ('%s: %d nodes%s'):format(n.title, n.count, n.where and '  ' .. n.where or '') end
  local name = n.variable or n.name or n.op
  local line = ('%s%s = %s')
    :format(n.name or n.op, #n.outs > 0 and ': ' .. table.concat(n.outs, ', ') or '', n.literal or n.op)
  if n.variable then line = ('%s (loop variable %s)'):format(line, name) end
  if n.called then line = n.called .. ' is ' .. line end
  if n.attrs and n.attrs ~= '' and not n.literal then line = line .. '  {' .. n.attrs .. '}' end
  if n.note then line = line .. '  (' .. n.note .. ')' end
  if n.requested then line = line .. '  (asked for ' .. n.requested .. ')' end
  return n.where and n.where ~= '' and line .. '  ' .. n.where or line
end

--- Operands written in the node: constants, where there are few.
local function written(n)
  local parts, any = {}, false
  for i, a in ipairs(n.args) do
    local text = a.literal and a.text or a.node and a.node.folded and a.node.literal
    parts[i], any = text or '·', any or text
  end
  return any and #parts <= 4 and '(' .. table.concat(parts, ', ') .. ')' or ''
end

local flow = { Enter = true, Exit = true, Merge = true, Switch = true, NextIteration = true, LoopCond = true }
local flow_ops = setmetatable({}, { __index = function(t, type)
  t[type] = flow[registry.primitive(type)] or false
  return t[type]
end })

--- What needs no token in a run.
local free = { ['in place'] = true, passed = true, merged = true, duplicate = true, unused = true }

--- The lines of a node: {text, class} each, and its size.
local function prepare(n, with_source)
  local lines = {}
  local function add(text, class) lines[#lines + 1] = { text = cut(text, LONGEST), class = class } end
  local types = table.concat(n.outs, ', ')
  n.class = n.kind
  n.first, n.last, n.rank = n.kind == 'variable' or registry.primitive(n.op) == 'Enter', n.kind == 'result',
    n.kind ~= 'op' and n.which or nil
  if n.closed then
    add(n.times and ('%s × %d'):format(n.op, n.times) or n.op, 'op')
    add(('%d nodes%s%s')
      :format(n.count, n.times and ' each' or '', #n.notes > 0 and ' · ' .. table.concat(n.notes, ', ') or ''), 'name')
    n.class = 'op closed'
  elseif n.kind == 'test' then
    add(n.op, 'op')
    local a = n.args[1]
    if a and not a.node then lines[1].text = n.op .. ' ' .. a.text end
  elseif n.chain then
    local ops = {}
    for i, part in ipairs(n.chain) do ops[i] = part.op end
    if n.alike then add(n.op, 'op')
    else add(#ops > 3 and ('%s → … → %s'):format(ops[1], ops[#ops]) or table.concat(ops, ' → '), 'op') end
    add(('%d %s, %s'):format(#ops, n.alike and 'of them' or 'nodes', n.chain[#ops].outs[1] or ''), 'name')
    n.class = 'op chain'
  elseif n.kind == 'variable' then
    add(('%s: %s'):format(short(n.variable), types), 'op')
    if n.args[1].literal then
      lines[1].text = cut(('%s: %s = %s'):format(short(n.variable), types, n.args[1].text), LONGEST)
    end
  elseif n.kind == 'result' then
    local yes, no = n.args[1], n.args[2]
    add(('result: %s'):format(types), 'op')
    local function shown(a) return a.literal and a.text or '·' end
    if yes.literal or no.literal then add(('%s else %s'):format(shown(yes), shown(no)), 'name') end
  elseif n.literal then add(('%s: %s'):format(n.literal, types), 'op')
  else
    add((flow_ops[n.op] and n.name and n.name:find(n.op, 1, true) and short(n.name) or n.op_shown or n.op)
        .. written(n), 'op')
    local name = n.called or short(n.name)
    if name == n.op or name:match '^(.-)_%d+$' == n.op then name = '' end
    add(name .. (name ~= '' and types ~= '' and ': ' or '') .. types, 'name')
    if lines[2].text == '' then lines[2] = nil end
    local saves = n.op == 'TensorArray' and n.attrs:find 'saved=true' and n.attrs:match "tensor_array_name='([^']*)'"
    if saves then lines[2].text = cut('saves ' .. saves, LONGEST) end
    if flow_ops[n.op] then n.class = 'op flow' end
  end
  if n.decides then n.class = n.class .. ' decides' end
  if n.centre then n.class = n.class .. ' decides' end
  if free[n.lowering] or n.neighbour then n.class = n.class .. ' free' end
  local wide = 4
  for _, l in ipairs(lines) do wide = math.max(wide, columns(l.text)) end
  n.w, n.h = math.ceil(wide * CHAR) + 16, #lines * LINE + 10
  if with_source and n.where and n.where ~= '' and not n.chain and not n.closed and n.kind ~= 'test' then
    -- beside the first line where there is room, at the cost of a little
    local where = cut(file_of(n.where), 20)
    local room = n.w - 22 - columns(lines[1].text) * CHAR
    local need = columns(where) * SOFT
    if room + 44 >= need then
      n.w = math.max(n.w, math.ceil(n.w + need - room))
      n.beside = where
    end
  end
  if n.kind == 'test' then n.w, n.h = n.w + 18, n.h end
  n.lines = lines
end

-- ---- large graphs ---------------------------------------------------------------------------------------------------
--- Draws constants within their users, straight chains as one node, and so what comes in alike and goes to one place.
local function fold(model)
  local ins, users = {}, {}
  for _, e in ipairs(model.edges) do
    users[e.from] = users[e.from] or {}
    table.insert(users[e.from], e)
    ins[e.to] = ins[e.to] or {}
    table.insert(ins[e.to], e)
  end
  for _, n in ipairs(model.nodes) do
    local use = users[n]
    if n.literal and use and use[1].kind ~= 'back' then
      n.folded = use[1].to
      for _, e in ipairs(use) do e.gone = true end
      for _, e in ipairs(ins[n] or {}) do e.gone = true end
    end
  end
  local function only(list)                       -- the only edge left of a list
    local found
    for _, e in ipairs(list or {}) do
      if not e.gone then
        if found then return nil end
        found = e
      end
    end
    return found
  end
  local function plain(n)
    return n.kind == 'op' and ins[n] and not n.folded and not n.decides and #n.outs == 1 and not flow_ops[n.op]
  end
  local taken = {}
  for _, n in ipairs(model.nodes) do
    if plain(n) and not taken[n] then
      local chain, at = { n }, n
      while true do
        local e = only(users[at])
        local to = e and e.kind == 'data' and e.to
        if not to or to.box ~= n.box or taken[to] or not plain(to) or only(ins[to]) ~= e then break end
        chain[#chain + 1], at = to, to
      end
      local before = only(ins[n])
      local up = before and before.kind == 'data' and before.from
      local could_begin = not (up and plain(up) and up.box == n.box and only(users[up]) == before)
      if #chain >= 3 and could_begin then
        for _, part in ipairs(chain) do taken[part] = chain end
        chain.head = { kind = 'op', op = 'chain', chain = chain, outs = chain[#chain].outs, args = {}, box = n.box,
                       place = n.place }
      end
    end
  end
  local alike = {}                               -- what takes nothing and goes to one place, with others like it
  for _, n in ipairs(model.nodes) do
    local e = n.kind == 'op' and not ins[n] and not n.folded and not taken[n] and only(users[n])
    if e and not flow_ops[n.op] then
      local group = alike[e.to] or {}
      alike[e.to] = group
      local key = n.op .. table.concat(n.outs, ',') .. e.kind
      group[key] = group[key] or {}
      if group[key][1] == nil or group[key][1].box == n.box then table.insert(group[key], n) end
    end
  end
  for _, group in pairs(alike) do
    for _, list in pairs(group) do
      if #list > 3 then
        for _, part in ipairs(list) do taken[part] = list end
        list.head = { kind = 'op', op = list[1].op, chain = list, alike = true, outs = list[1].outs, args = {},
                      box = list[1].box }
      end
    end
  end
  local function shown(n) return taken[n] and taken[n].head or n end
  local edges, once = {}, {}
  for _, e in ipairs(model.edges) do
    local from, to = shown(e.from), shown(e.to)
    local again = from.alike and once[from]
    once[from] = true
    if not e.gone and not again and not (from == to and from.chain) then
      edges[#edges + 1] = { from = from, to = to, kind = e.kind, text = e.text, side = e.side, slot = e.slot,
                            slots = e.slots }
    end
  end
  local function prune(box)
    local items = {}
    for _, item in ipairs(box.items) do
      if item.items then prune(item) end
      if taken[item] then
        if taken[item][taken[item].head.alike and 1 or #taken[item]] == item then
          items[#items + 1] = taken[item].head
        end
      elseif not item.folded then items[#items + 1] = item end
    end
    box.items = items
  end
  prune(model.top)
  return edges
end

-- ---- the file -------------------------------------------------------------------------------------------------------
local function prepare_box(box, with_source)
  local title = cut(title_of(box), 60)
  local more = {}
  for i, s in ipairs(box.notes) do more[i] = s end
  if with_source and box.where then more[#more + 1] = file_of(box.where) end
  box.caption, box.more = title, cut(table.concat(more, ' · '), 70)
  box.title_w = math.ceil(columns(title) * CHAR + (box.more ~= '' and columns(box.more) * SOFT + 14 or 0))
  box.title_h = 24
end

-- the order in which they stand beside each other
local sides = { test = 0, ['do'] = 1, ['then'] = 0, ['else'] = 1 }
local kinds = { control = 'waits for', back = "a loop's way back", saved = 'saved for the gradient',
                sent = 'sent to another device' }

--- @param opts  {source = true: with the Lua lines}
function M.write(model, opts)
  local with_source = opts.source ~= false
  local hosts = {}                                     -- nodes that are drawn with another
  for _, e in ipairs(model.edges) do
    local n = e.to
    if n.kind ~= 'test' and e.kind ~= 'control' then
      n.taken = (n.taken or 0) + 1
      e.slot = n.taken
    end
  end
  for _, e in ipairs(model.edges) do e.slots = e.slot and e.to.taken end
  local edges = #model.nodes > (model.closed and FEW or MANY) and fold(model) or model.edges
  for _, n in ipairs(model.nodes) do
    if n.folded then
      hosts[n.folded] = hosts[n.folded] or {}
      table.insert(hosts[n.folded], n)
    end
  end
  local nodes, boxes = {}, {}
  local function gather(box)
    for _, item in ipairs(box.items) do
      item.rank = sides[item.kind]
      if item.items then
        prepare_box(item, with_source)
        boxes[#boxes + 1] = item
        gather(item)
      else
        prepare(item, with_source)
        nodes[#nodes + 1] = item
      end
    end
  end
  local head = { cut(table.concat(model.results, ', '), 90) }
  for _, s in ipairs(model.notes) do head[#head + 1] = cut(s, 120) end
  gather(model.top)
  local top = model.top
  top.title_h, top.title_w = 0, math.ceil(columns(head[1]) * CHAR) + 90
  for i = 2, #head do top.title_w = math.max(top.title_w, math.ceil(columns(head[i]) * SOFT)) end
  local ways = layout.place(top, edges)
  local lift = 20 + 14 * #head
  local seen, legend = {}, {}
  for _, w in ipairs(ways) do
    local kind = w.edge.kind
    if kinds[kind] and not seen[kind] then
      seen[kind] = true
      legend[#legend + 1] = kind
    end
  end
  table.sort(legend)
  local legend_w = 28
  for _, kind in ipairs(legend) do legend_w = legend_w + 46 + #kinds[kind] * SOFT end
  local width, height = math.ceil(math.max(top.w, legend_w)), math.ceil(top.h + lift + (#legend > 0 and 26 or 6))

  local out = {}
  local function say(form, ...) out[#out + 1] = select('#', ...) > 0 and form:format(...) or form end
  say('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">', width, height,
      width, height)
  say('<title>%s, %s</title>', escaped(head[1]), model.stage)
  say('<style>%s</style>', model.closed and closed_style or style)
  say('<defs>')
  for _, tip in ipairs{ '', '-back', '-saved', '-sent' } do
    say('<marker id="tip%s" class="tip%s" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
      .. 'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.8L8 4L0 7.2z"/></marker>', tip, tip)
  end
  say('</defs>')
  say('<text x="14" y="20" class="op">%s<tspan class="soft" dx="10">%s</tspan></text>', escaped(head[1]), model.stage)
  for i = 2, #head do say('<text x="14" y="%d" class="soft">%s</text>', 6 + 15 * i, escaped(head[i])) end
  say('<g transform="translate(0 %d)">', lift)
  local inner = { ['then'] = true, ['else'] = true, test = true, ['do'] = true }
  for _, b in ipairs(boxes) do
    say('<g class="box %s%s">', inner[b.kind] and 'inner ' .. b.kind or b.kind, device_class(b))
    if b.saved then say('<title>%s</title>', escaped(b.saved)) end
    say('<rect x="%d" y="%d" width="%d" height="%d" rx="8"/></g>', b.x, b.y, b.w, b.h)
  end
  for _, w in ipairs(ways) do
    local kind = w.edge.kind
    local tip = (kind == 'back' or kind == 'saved' or kind == 'sent') and '-' .. kind or ''
    say('<path class="edge %s" d="%s"%s/>', w.edge.bundle and kind .. ' bundle' or kind, w.d, w.arrives
        and (' marker-end="url(#tip%s)"'):format(tip) or '')
  end
  for _, w in ipairs(ways) do
    if w.leaves and w.edge.side and not w.back then
      say('<text class="soft" x="%g" y="%g">%s</text>', w.x + 3, w.y + 10, w.edge.side == 'true' and 'T' or 'F')
    end
  end
  for _, n in ipairs(nodes) do
    say('<g class="node %s%s">', n.class, device_class(n))
    local tips = {}
    if n.chain then for i, part in ipairs(n.chain) do tips[i] = told(part) end
    elseif n.kind == 'test' then tips[1] = n.op .. ' ' .. (n.args[1] and n.args[1].text or '')
    else tips[1] = told(n) end
    for _, part in ipairs(n.chain or { n }) do
      for _, other in ipairs(hosts[part] or {}) do tips[#tips + 1] = told(other) end
    end
    say('<title>%s</title>', escaped(table.concat(tips, '\n')))
    if n.kind == 'test' then
      say('<path d="M%g %gh%gl9 %gl-9 %gh%gl-9 %gz"/>', n.x + 9, n.y, n.w - 18, n.h / 2, n.h / 2, 18 - n.w, -n.h / 2)
    else
      local round = (n.kind == 'variable' or n.kind == 'result') and n.h / 2 or 4
      if n.closed then                     -- a pile of sheets
        for i = n.times and 2 or 1, 1, -1 do
          say('<rect x="%d" y="%d" width="%d" height="%d" rx="6"/>', n.x + 3 * i, n.y + 3 * i, n.w, n.h)
        end
      end
      say('<rect x="%d" y="%d" width="%d" height="%d" rx="%d"/>', n.x, n.y, n.w, n.h, round)
      if n.chain then say('<path d="M%g %gv%g" fill="none"/>', n.x + 3, n.y + 5, n.h - 10) end
    end
    for i, l in ipairs(n.lines) do
      local x, anchor = n.x + 8, ''
      if n.kind == 'test' then x, anchor = n.x + n.w / 2, ' text-anchor="middle"' end
      say('<text x="%g" y="%g"%s class="%s">%s</text>', x, n.y + LINE * i, anchor, l.class, escaped(l.text))
    end
    if n.beside then
      say('<text x="%g" y="%g" text-anchor="end" class="soft">%s</text>', n.x + n.w - 7, n.y + LINE - 1,
          escaped(n.beside))
    end
    say('</g>')
  end
  for _, b in ipairs(boxes) do
    say('<text x="%d" y="%d" class="title">%s%s</text>', b.x + 10, b.y + 16, escaped(b.caption),
      b.more ~= '' and ('<tspan class="soft" dx="10">%s</tspan>'):format(escaped(b.more)) or '')
  end
  say('</g>')
  local x = 14
  for _, kind in ipairs(legend) do
    local tip = kind ~= 'control' and '-' .. kind or ''
    say('<path class="edge %s" d="M%g %gh26" marker-end="url(#tip%s)"/>', kind, x, height - 13, tip)
    say('<text x="%g" y="%g" class="soft">%s</text>', x + 32, height - 10, kinds[kind])
    x = x + 46 + #kinds[kind] * SOFT
  end
  say('</svg>')
  return table.concat(out, '\n')
end

return M
