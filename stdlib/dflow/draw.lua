--- df.draw: the graph that leads to an Output, as text, for Graphviz, or as a picture, at the stages that it goes
-- through.
local core = require 'dflow.backend'
local files = require 'dflow.exchange.file'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local devices = require 'dflow.front.devices'
local naming = require 'dflow.front.naming'
local model = require 'dflow.draw.model'
local read = require 'dflow.draw.read'

local M = {}

local writers = {
  let = function(m, opts) return require('dflow.draw.text').let(m, opts) end,
  tree = function(m, opts) return require('dflow.draw.text').tree(m, opts) end,
  dot = function(m) return require('dflow.draw.dot').write(m) end,
  svg = function(m, opts) return require('dflow.draw.svg').write(m, opts) end,
}
M.forms = { 'tree', 'let', 'dot', 'svg' }
M.stages = model.stages

--- The model at gradient of a graph that has the gradient: boxes say what is saved of them.
local function model_of_gradient(asked, g)
  local m = model.make(g.handle, asked, 'gradient', nil, asked.view, g.groups)
  for _, pair in ipairs(asked) do
    local saved = require('dflow.inspect.saved').by_name(g, pair[1])
    for _, box in ipairs(m.flows) do
      local found = not box.saved and saved[box.flow.name]
      if found then
        box.saved = found.text
        if found.amount then box.notes[#box.notes + 1] = 'saves ' .. found.amount end
      end
    end
  end
  return m
end

--- The model, with the gradient of each float output by what it comes from: in a copy, so the user's graph stays as it
-- is.
local function with_gradient(asked, g)
  local flat = {}
  for i, pair in ipairs(asked) do flat[2 * i - 1], flat[2 * i] = pair[1], 0 end
  for _, id in ipairs(core.graph_needs(g.handle, flat)) do
    if core.node_pass(g.handle, id) > 0 then return model_of_gradient(asked, g) end   -- it is a gradient already
  end
  local copy = require 'dflow.check.copy'
  local gradients = require 'dflow.front.gradients'
  copy.check_idle(g, 'draw')
  local ys, all = {}, { whole = asked.whole, view = asked.view, parameters = asked.parameters }
  for _, pair in ipairs(asked) do
    local y = pair[2] >= 0 and graph.output(g, pair[1], pair[2])
    if y and dtypes.is_float(graph.dtype(y)) and core.node_context(g.handle, y.node) == 0 then ys[#ys + 1] = y end
    all[#all + 1] = pair
  end
  if #ys == 0 then errors.bad('draw: only a float Output has a gradient, so there is none to show') end
  local xs = {}
  for _, y in ipairs(ys) do
    for _, x in ipairs(require('dflow.inspect.saved').sources(g, y)) do xs[#xs + 1] = x end
  end
  if #xs == 0 then
    errors.bad('draw: %s depends on no float Variable or placeholder, so it has no gradient to show', ys[1].name)
  end
  return copy.within(g, {}, ys, function()
    for _, dx in ipairs(gradients.gradients(ys, xs, { unconnected = 'none' })) do
      if dx then
        local list = gradients.is_slices(dx) and { dx.values, dx.indices } or { dx }
        for _, o in ipairs(list) do all[#all + 1] = { o.node, o.index } end
      end
    end
    return model_of_gradient(all, g)
  end)
end

--- By node: where it is in a run of the graph's default session. Nil where there can be no such run: then the picture
-- shows what was asked for.
local function placed(asked, g)
  local session = require('dflow.front.session').default(g)
  local flat = {}
  for i, pair in ipairs(asked) do flat[2 * i - 1], flat[2 * i] = pair[1], pair[2] end
  local ok, list = pcall(devices.placement, session.handle, flat)
  if not ok or asked.whole then return nil end
  local by_node = {}
  for _, p in ipairs(list) do by_node[p.id] = p.device end
  return by_node
end

--- The model of what was asked for at a stage.
-- @param view  which part of it and which boxes are open (model.make), or nil
function M.model(what, stage, view)
  model.check_stage(stage)
  local asked, g = read.roots(what)
  asked.view, asked.parameters = view, g.parameters
  local m = stage == 'gradient' and with_gradient(asked, g)
    or model.make(g.handle, asked, stage, stage == 'partitioned' and placed(asked, g) or nil, view, g.groups)
  if package.loaded['dflow.repl.session'] then             -- at the prompt: what variables call the nodes
    local names = naming.collect(g)
    for _, n in ipairs(m.nodes) do
      local called = n.id and not n.closed and naming.label(names, n.id, 0)
      n.called = called and not (n.variable and n.variable:sub(-#called - 1) == '.' .. called) and called or nil
    end
  end
  return m
end

--- What is shown, from the options: an svg of much has boxes for layers and scopes, and closes as many as it takes.
local function view_of(opts, form)
  for _, key in ipairs{ 'depth', 'within' } do
    local n = opts[key]
    if n ~= nil and (type(n) ~= 'number' or not (n >= 1) or (n ~= math.floor(n) and n < math.huge)) then
      errors.bad('draw: %s is a whole number from 1 up, not %s', key, errors.describe(n))
    end
  end
  if opts.only ~= nil and (type(opts.only) ~= 'string' or opts.only == '') then
    errors.bad('draw: only is a part of a name, not %s', errors.describe(opts.only))
  end
  local centre = opts.around
  if centre ~= nil and type(centre) ~= 'string' then
    if getmetatable(centre) ~= graph.Output and getmetatable(centre) ~= graph.Operation then
      errors.bad('draw: around is an Output, an operation or the name of a node, not %s', errors.describe(centre))
    end
    centre = core.node_name_of(centre.graph.handle, centre.node)
  end
  if opts.within ~= nil and centre == nil then
    errors.bad('draw: within is how many edges from a node; it goes with around')
  end
  local asked = opts.depth or opts.only or centre
  if not asked and form ~= 'svg' then return nil end
  return { asked = asked and true, depth = opts.depth, only = opts.only, around = centre, steps = opts.within,
           closes = form == 'svg' }
end

--- df.draw(x, {as = 'svg', at = 'built', path = nil, lines = nil, source = true, depth = nil, only = nil, around = nil,
-- within = 2})
-- @param x     an Output, an operation, a Variable, a Graph, or a table of these
-- @param opts  as: 'tree', 'let', 'dot' or 'svg'; without it as path ends (.svg, .dot, .gv), else 'let'. at: 'built'
--              (as typed), 'lowered' (to the primitives, and what a run makes of them), 'gradient' (with the gradient
--              of x, or with what x is the gradient of), 'partitioned' (by device). path: a file to write. lines: so
--              many of a tree or let-form at most. source = false:
--              without the Lua lines. depth: boxes of layers, scopes, loops and conds are open to so many levels;
--              without it an svg of more than 40 nodes closes as many as it takes. only: what has this in its name, and
--              what is next to it. around: a node, by itself or its name, and what is at most `within` edges from it
-- @return      the text; nothing when it went to a file
function M.draw(x, opts)
  opts = errors.options(opts, 'draw', { 'as', 'at', 'path', 'lines', 'source', 'depth', 'only', 'around', 'within' })
  if x == nil then errors.bad('draw takes an Output, an operation, a Graph or a table of these') end
  local ending = opts.path and tostring(opts.path):match '%.(%a+)$'
  local form = opts.as or ({ svg = 'svg', dot = 'dot', gv = 'dot' })[ending] or 'let'
  local write = writers[form]
  if not write then errors.bad("draw: `as` is 'tree', 'let', 'dot' or 'svg', not %s", errors.describe(form)) end
  if opts.lines ~= nil and (type(opts.lines) ~= 'number' or not (opts.lines >= 1)
                            or opts.lines ~= math.floor(opts.lines)) then
    errors.bad('draw: lines is a whole number from 1 up, not %s', errors.describe(opts.lines))
  end
  if opts.lines ~= nil and opts.lines < math.huge and form ~= 'tree' and form ~= 'let' then
    errors.bad("draw: lines is of a tree or let-form, and `as` is '%s'", form)
  end
  errors.flag(opts.source, 'draw', 'source')
  local text = write(M.model(x, opts.at or 'built', view_of(opts, form)),
                     { lines = opts.lines or (opts.path and math.huge or nil), source = opts.source })
  if not opts.path then return text end
  files.with(opts.path, function(f) f:write(text, '\n') end, 'draw')
end

return M
