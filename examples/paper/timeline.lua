--- What h:whatif{timeline = true} gives, drawn: a row for each device and stream, a bar for each thing that took time.
local M = {}

local COLOURS = { work = '#0072b2', out = '#d55e00', ['in'] = '#009e73', message = '#cc79a7' }
local NAMES = { work = 'compute', out = 'copy to the host', ['in'] = 'copy from the host', message = 'messages to' }
local LEFT, TOP, ROW, GAP = 190, 40, 34, 8

--- Which row an event belongs to: its text, and its colour.
local function row_of(e)
  if e.kind == 'work' then return e.device .. '  ' .. NAMES.work, COLOURS.work end
  if e.kind == 'copy' then
    local way = e.to == 'cpu:0' and 'out' or 'in'
    return (way == 'out' and e.device or e.to) .. '  ' .. NAMES[way], COLOURS[way]
  end
  return e.device .. '  ' .. NAMES.message .. ' ' .. e.to, COLOURS.message
end

--- The part of a timeline between two times, as an SVG document.
-- @param opts  title, width (960), from and to (seconds), keep (a function of an event: is it drawn?)
function M.svg(timeline, opts)
  local from, to, width = opts.from, opts.to, opts.width or 960
  local rows, list = {}, {}
  for _, e in ipairs(timeline) do
    if e.ends > from and e.begins < to and (not opts.keep or opts.keep(e)) then
      local text, colour = row_of(e)
      if not rows[text] then
        rows[text] = { text = text, colour = colour }
        list[#list + 1] = rows[text]
      end
      table.insert(rows[text], e)
    end
  end
  table.sort(list, function(a, b) return a.text < b.text end)
  local height = TOP + #list * (ROW + GAP) + 40
  local scale = (width - LEFT - 20) / (to - from)
  local out = { ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">')
    :format(width, height, width, height), ('<rect width="%d" height="%d" fill="#ffffff"/>'):format(width, height),
    ('<text x="%g" y="22" text-anchor="middle" font-size="14" fill="#222222">%s</text>'):format(width / 2, opts.title) }
  for i, row in ipairs(list) do
    local y = TOP + (i - 1) * (ROW + GAP)
    out[#out + 1] = ('<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>'):format(LEFT - 8, y + ROW / 2 + 4, row.text)
    out[#out + 1] = ('<rect x="%d" y="%d" width="%d" height="%d" fill="#f2f2f2"/>'):format(LEFT, y, width - LEFT - 20, ROW)
    for _, e in ipairs(row) do
      local left, right = math.max(e.begins, from), math.min(e.ends, to)
      out[#out + 1] = ('<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"><title>%s, iteration %d, %.1f µs</title></rect>')
        :format(LEFT + (left - from) * scale, y, math.max((right - left) * scale - 0.4, 0.4), ROW, row.colour, e.node, e.iteration, (e.ends - e.begins) * 1e6)
    end
  end
  local step = 10 ^ math.floor(math.log(to - from) / math.log(10) - 0.2)
  for k = math.ceil(from / step), math.floor(to / step) do
    local x = LEFT + (k * step - from) * scale
    out[#out + 1] = ('<line x1="%.2f" y1="%d" x2="%.2f" y2="%d" stroke="#444444"/>'):format(x, height - 36, x, height - 30)
    out[#out + 1] = ('<text x="%.2f" y="%d" text-anchor="middle" fill="#444444">%.4g</text>'):format(x, height - 16, k * step * 1000)
  end
  out[#out + 1] = ('<text x="%d" y="%d" text-anchor="end" fill="#222222">milliseconds</text>'):format(LEFT - 8, height - 16)
  out[#out + 1] = '</svg>'
  return table.concat(out, '\n') .. '\n'
end

return M
