--- The experiments of the paper, as programs: a CSV and an SVG of each in examples/paper/figures.
--
--   dflow examples/paper/figures.lua                    all of them, in a few minutes
--   dflow examples/paper/figures.lua fig12 'trips=16'   one, with options of its own
--
-- README.md beside this file sets what they give beside what was published.
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
package.path = here .. '/?.lua;' .. package.path
local all = { 'fig11', 'fig12', 'table1', 'fig13', 'fig14', 'fig15', 'fig16' }

local function write(path, text)
  local f = assert(io.open(path, 'w'))
  f:write(text)
  f:close()
end

local function cell(v)
  if type(v) == 'number' then return ('%.6g'):format(v) end
  return tostring(v)
end

--- A table of rows, as lines of cells that `mark` joins.
local function lines(result, mark)
  local out = { table.concat(result.columns, mark) }
  for i, row in ipairs(result.rows) do
    local cells = {}
    for k, v in ipairs(row) do cells[k] = cell(v) end
    out[i + 1] = table.concat(cells, mark)
  end
  return table.concat(out, '\n') .. '\n'
end

local chosen, options = arg[1], arg[2] or ''
for _, name in ipairs(chosen and { chosen } or all) do
  local experiment = require(name)
  local result = experiment.measure(assert((loadstring or load)('return {' .. options .. '}'))())
  print(('%s (%s time)\n%s%s'):format(experiment.title, experiment.clock, lines(result, '\t'), result.note and result.note .. '\n' or ''))
  write(('%s/figures/%s.csv'):format(here, name), lines(result, ','))
  if experiment.draw then write(('%s/figures/%s.svg'):format(here, name), experiment.draw(result):svg{ width = 640, height = 400 }) end
end
