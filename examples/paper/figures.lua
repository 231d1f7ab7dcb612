--- The experiments of the papers, as programs: of each a CSV and pictures in examples/paper/figures, and its part of the page that sets it beside what was published.
--
--   dflow examples/paper/figures.lua                    all of them, in a few minutes
--   dflow examples/paper/figures.lua fig12 'trips=16'   one, with options of its own
--
-- An experiment is a module: title; clock ('real', 'virtual' or both); published, what the paper gives, in words; measure(options), which gives {columns =, rows =, note =};
-- draw(result), a plot or {name = plot}; says(result), a sentence on what agrees with the paper and what does not.
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
package.path = here .. '/?.lua;' .. package.path
local papers = {
  { 'Dynamic Control Flow in Large-Scale Machine Learning (EuroSys 2018)', 'clock', 'fig11', 'fig12', 'table1', 'fig13', 'fig14', 'fig15', 'fig16' },
  { 'TensorFlow: A System for Large-Scale Machine Learning (OSDI 2016)', 'osdi_table1', 'osdi_fig7', 'osdi_fig8', 'osdi_fig9' },
  { 'A workload study: a CNN and an LSTM on digits', 'study_threads', 'study_batch', 'study_width', 'study_length' },
}
local page = here .. '/figures/README.md'

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

--- The same as a table of Markdown.
local function markdown(result)
  local out = {}
  local function line(row)
    local cells = {}
    for k, v in ipairs(row) do cells[k] = (type(v) == 'number' and ('%.4g'):format(v) or tostring(v):gsub('_', ' ')) end
    out[#out + 1] = '| ' .. table.concat(cells, ' | ') .. ' |'
  end
  line(result.columns)
  out[2] = '|' .. ('---|'):rep(#result.columns)
  for _, row in ipairs(result.rows) do line(row) end
  return table.concat(out, '\n')
end

-- ---- the machine ---------------------------------------------------------------------------------------------------------
local function first_of(path, pattern)
  local f = io.open(path)
  local found = f and f:read('*a'):match(pattern)
  if f then f:close() end
  return found
end

local function machine()
  local cores = 0
  for line in io.lines '/proc/cpuinfo' do if line:find '^processor' then cores = cores + 1 end end
  local load = tonumber(first_of('/proc/loadavg', '^(%S+)') or 0)
  return ('%d cores of %s'):format(cores, first_of('/proc/cpuinfo', 'model name%s*:%s*([^\n]*)') or 'a processor without a name'),
    load > 1.5 and (', busy with other work (load %.1f)'):format(load) or ''
end
local processor, busy = machine()

-- ---- the page --------------------------------------------------------------------------------------------------------------
--- The parts of the page that is there, by the name of their experiment.
local function parts()
  local found, f = {}, io.open(page)
  local text = f and f:read '*a' or ''
  if f then f:close() end
  for name, part in text:gmatch '<!%-%- ([%w_]+) %-%->\n(.-)<!%-%- end %-%->' do found[name] = part end
  return found
end

local function part_of(name, experiment, result, pictures)
  local clock = experiment.clock:find 'real' and ('%s time; %s, %s%s'):format(experiment.clock, processor, os.date '!%Y-%m-%d', busy) or 'virtual time'
  local out = { '### ' .. experiment.title, '', ('*%s.*'):format(clock) }
  for _, file in ipairs(pictures) do out[#out + 1] = ('\n![%s](%s)'):format(experiment.title, file) end
  out[#out + 1] = ''
  out[#out + 1] = markdown(result)
  out[#out + 1] = ''
  if experiment.published then out[#out + 1] = 'The paper: ' .. experiment.published .. '\n' end
  if experiment.says then out[#out + 1] = 'Here: ' .. experiment.says(result) .. '\n' end
  if result.note then out[#out + 1] = result.note:gsub('^%l', string.upper) .. '.\n' end
  return table.concat(out, '\n')
end

local function write_page(found)
  local out = { '# Each figure beside what was published', '', 'Written by `make figures`: [../README.md](../README.md) says what the clocks are. In *virtual time* a'
    .. ' number is the same on every machine; in *real time* it is that\nof the machine named beside it.', '' }
  for _, paper in ipairs(papers) do
    out[#out + 1] = '## ' .. paper[1] .. '\n'
    for i = 2, #paper do
      if found[paper[i]] then out[#out + 1] = ('<!-- %s -->\n%s<!-- end -->\n'):format(paper[i], found[paper[i]]) end
    end
  end
  write(page, table.concat(out, '\n'))
end

-- ---- all of it --------------------------------------------------------------------------------------------------------------
--- Draws a plot, or each of a table of them; gives the files' names in the order of the alphabet.
local function draw(name, experiment, result)
  local drawn, files = experiment.draw(result), {}
  for suffix, plot in pairs(drawn.svg and { [''] = drawn } or drawn) do
    files[#files + 1] = name .. suffix .. '.svg'
    write(('%s/figures/%s'):format(here, files[#files]), plot:svg{ width = 640, height = 400 })
  end
  table.sort(files)
  return files
end

local chosen, options, all = arg[1], arg[2] or '', {}
for _, paper in ipairs(papers) do for i = 2, #paper do all[#all + 1] = paper[i] end end
local found = parts()
for _, name in ipairs(chosen and { chosen } or all) do
  local experiment, began = require(name), os.time()
  local result = experiment.measure(assert((loadstring or load)('return {' .. options .. '}'))())
  print(('%s (%s time)\n%s%s'):format(experiment.title, experiment.clock, lines(result, '\t'), result.note and result.note .. '\n' or ''))
  if experiment.says then print(experiment.says(result)) end
  print(('%d s\n'):format(os.time() - began))
  write(('%s/figures/%s.csv'):format(here, name), lines(result, ','))
  found[name] = part_of(name, experiment, result, draw(name, experiment, result))
  write_page(found)
  for _ = 1, 2 do collectgarbage() end               -- what its sessions had is free before the next one
end
