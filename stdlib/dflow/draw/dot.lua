--- A picture's model for Graphviz: a node for each node, a cluster for each box, an edge for each value.
local title_of = require('dflow.draw.model').title

local M = {}

local function quoted(s) return '"' .. tostring(s):gsub('[\\"]', '\\%0'):gsub('\n', '\\n') .. '"' end

local looks = {
  data = '',
  control = 'style = dashed, color = gray50, arrowhead = open',
  back = 'color = "#1f6feb", penwidth = 1.4, constraint = false',
  saved = 'color = "#a03fb5", penwidth = 1.6',
  sent = 'color = "#c4561a", style = "dashed,bold", label = "Send, Recv"',
}

local function label_of(n)
  if n.closed then return ('%s%s\n%d nodes'):format(n.op, n.times and ' × ' .. n.times or '', n.count) end
  if n.kind == 'test' then return n.args[1] and n.op .. ' ' .. n.args[1].text or n.op end
  if n.kind == 'variable' then
    return ('%s: %s%s'):format(n.variable, n.outs[1], n.args[1].literal and ' = ' .. n.args[1].text or '')
  end
  if n.literal then return n.literal end
  local parts, any = {}, false
  for i, a in ipairs(n.args) do
    parts[i] = a.literal and a.text or '·'
    any = any or a.literal
  end
  return ('%s\n%s%s'):format(n.name, n.op, any and '(' .. table.concat(parts, ', ') .. ')' or '')
end

-- Of devices but the host, as in the SVG.
local colours = { '"#0072b2"', '"#d55e00"', '"#009e73"', '"#cc79a7"', '"#b8860b"', '"#56b4e9"' }
local function colour_of(item, otherwise) return colours[item.colour or 0] or otherwise end

local shapes = { variable = 'shape = box, style = rounded', result = 'shape = box, style = rounded',
                 test = 'shape = hexagon' }

local function titled(box)
  local first = title_of(box)
  return #box.notes > 0 and first .. '\n' .. table.concat(box.notes, ', ') or first
end

--- The text; `dot -Tsvg` and its like make a picture of it.
function M.write(model)
  local out, tests, clusters = {}, {}, 0
  local function say(form, ...) out[#out + 1] = form:format(...) end
  for i, n in ipairs(model.tests) do tests[n] = 't' .. i end
  local function id(n) return tests[n] or 'n' .. n.id end
  out[1] = 'digraph dflow {'
  out[2] = '  graph [fontname = "monospace", fontsize = 10]; node [shape = box, fontname = "monospace", fontsize = 10];'
  out[3] = '  edge [fontname = "monospace", fontsize = 8];'
  local notes = { table.concat(model.results, ', ') .. ', ' .. model.stage }
  for _, s in ipairs(model.notes) do notes[#notes + 1] = s end
  say('  label = %s; labelloc = t;', quoted(table.concat(notes, '\n')))
  local function walk(items, indent)
    for _, item in ipairs(items) do
      if item.items then
        clusters = clusters + 1
        say('%ssubgraph cluster_%d {', indent, clusters)
        say('%s  label = %s; color = %s; style = rounded; tooltip = %s;', indent, quoted(titled(item)),
            colour_of(item, 'gray60'),
          quoted(item.where or item.title))
        walk(item.items, indent .. '  ')
        say('%s}', indent)
      else
        local parts = { 'label = ' .. quoted(label_of(item)) }
        if shapes[item.kind] then parts[#parts + 1] = shapes[item.kind] end
        if item.kind == 'op' and item.literal then parts[#parts + 1] = 'shape = plaintext' end
        if (item.colour or 0) > 0 then parts[#parts + 1] = ('color = %s, penwidth = 2'):format(colour_of(item)) end
        if item.note and item.lowering ~= 'scalar' then parts[#parts + 1] = 'color = gray60, fontcolor = gray40' end
        local tip = { item.name or item.op }
        if item.note then tip[#tip + 1] = item.note end
        if item.requested then tip[#tip + 1] = 'asked for ' .. item.requested end
        if item.where and item.where ~= '' then tip[#tip + 1] = item.where end
        parts[#parts + 1] = 'tooltip = ' .. quoted(table.concat(tip, '  '))
        say('%s%s [%s];', indent, id(item), table.concat(parts, ', '))
      end
    end
  end
  walk(model.top.items, '  ')
  for _, e in ipairs(model.edges) do
    local parts = {}
    if looks[e.kind] ~= '' then parts[1] = looks[e.kind] end
    if e.text and e.kind ~= 'sent' then parts[#parts + 1] = 'label = ' .. quoted(e.text) end
    if e.side then parts[#parts + 1] = ('taillabel = "%s"'):format(e.side == 'true' and 'T' or 'F') end
    say('  %s -> %s%s;', id(e.from), id(e.to), #parts > 0 and ' [' .. table.concat(parts, ', ') .. ']' or '')
  end
  out[#out + 1] = '}'
  return table.concat(out, '\n')
end

return M
