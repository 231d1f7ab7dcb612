--- df.autograph(fn): a function whose statements build the graph where an Output decides: Lua that is read, rewritten
-- and compiled again.
--
-- The source is found by what Lua knows of the function, its file and its lines, or the prompt's inputs. The new
-- function has the old one's upvalues (not copies of them), its lines and its names. What it calls is rewritten when it
-- is called, unless it is dflow's or C's.
local errors = require 'dflow.front.errors'
local quote = require 'dflow.front.quote'
local parser = require 'dflow.autograph.parser'
local rewrite = require 'dflow.autograph.rewrite'
local runtime = require 'dflow.autograph.runtime'
local recursion = require 'dflow.autograph.recursion'

local M = {}
local Unit = runtime.Unit
local weak_keys = { __mode = 'k' }
local load_text = rawget(_G, 'loadstring') and function(text, name, env)
  local chunk, why = rawget(_G, 'loadstring')(text, name)
  return chunk and rawget(_G, 'setfenv')(chunk, env), why
end or function(text, name, env) return load(text, name, 't', env) end

--- Where dflow's own files are.
local home = debug.getinfo(1, 'S').source:match '^(@.*)autograph%.lua$' or '?'

-- ---- sources --------------------------------------------------------------------------------------------------------
M.texts = {}                  -- texts that no file holds, by the chunk's name: `=(command line)`
M.whole = false               -- are whole scripts and all inputs of the prompt rewritten?
local trees = setmetatable({}, { __mode = 'v' })

--- The text of a chunk; nil where it is not known.
local function text_of(source)
  local known = M.texts[source]
  if known then return known end
  local mark = source:sub(1, 1)
  if source == '=(command line)' then return debug.getregistry()['dflow.command_line'] end
  if mark == '=' then                                -- the prompt's and the lessons' inputs
    local lines = {}
    while quote.read_line do
      local line = quote.read_line(source:sub(2), #lines + 1)
      if not line then break end
      lines[#lines + 1] = line
    end
    return #lines > 0 and table.concat(lines, '\n') or nil
  elseif mark ~= '@' then
    return source
  end
  local file = quote.open(source:sub(2))
  local text = file and file:read '*a'
  if file then file:close() end
  return text
end

--- The tree of a text; nil and why there is none.
local function tree_of(text)
  local tree = trees[text]
  if tree then return tree end
  local why, line
  tree, why, line = parser.parse(text)
  tree = tree or parser.parse('return ' .. text)            -- an expression
  if not tree then return nil, ('line %d: %s'):format(line, why) end
  trees[text] = tree
  return tree
end

local function upvalue_names(fn)
  local names, n = {}, 0
  while true do
    local name = debug.getupvalue(fn, n + 1)
    if not name then return names, n end
    n = n + 1
    if name ~= '_ENV' then names[name] = n end
  end
end

--- Could a function of the tree be fn, by its parameters and what it captures?
local function is_like(node, fn, info)
  if #node.params ~= (info.nparams or #node.params) then return false end
  for i, var in ipairs(node.params) do
    if debug.getlocal(fn, i) ~= var.name then return false end
  end
  local names, captured = upvalue_names(fn), {}
  for var in pairs(node.free or {}) do
    if not var.global then captured[var.name] = true end
  end
  for name in pairs(captured) do if not names[name] then return false end end
  for name in pairs(names) do
    if not captured[name] and name ~= rewrite.name and name ~= '' and name ~= '(no name)' and name ~= '(*no name)' then
      return false
    end
  end
  return true
end

--- The node of a function in its text; nil and why it is not there.
local function find(fn)
  local info = debug.getinfo(fn, 'Su')
  if info.what == 'C' then return nil, 'it is a function written in C' end
  if info.what == 'main' then return nil, 'it is a whole chunk' end
  local text = text_of(info.source)
  local stripped = info.source == '=?' or text and text:sub(1, 1) == '\27'
  if not text or stripped then
    return nil, ('its source is not there (%s)'):format(stripped and 'it was compiled by string.dump' or info.short_src)
  end
  local tree, why = tree_of(text)
  if not tree then return nil, ('%s is not as it was when the function was read: %s'):format(info.short_src, why) end
  local found, others, placed = nil, 0, false
  for _, node in ipairs(tree.functions) do
    if node.line == info.linedefined and node.last_line == info.lastlinedefined then
      placed = true
      if is_like(node, fn, info) then
        if not found or tree.text:sub(found.first, found.last) ~= tree.text:sub(node.first, node.last) then
          others = others + 1
        end
        found = node
      end
    end
  end
  if not placed or not found then
    return nil, ('%s has changed since the function was read, at line %d'):format(info.short_src, info.linedefined)
  end
  if others > 1 then
    return nil, ('line %d of %s has several functions that could be it: give each a line')
      :format(info.linedefined, info.short_src)
  end
  return found, tree, info
end

-- ---- conversion -----------------------------------------------------------------------------------------------------
local made_text = setmetatable({}, weak_keys)         -- by function: the text that it was compiled from

local function new_unit(infos, opts)
  return setmetatable({ infos = infos, opts = opts.of, options = opts, calls = opts.calls }, Unit)
end

--- Compiles the text of a function with fn's upvalues.
local function compile(text, fn, info, unit)
  local names, list = upvalue_names(fn), {}
  for name in pairs(names) do list[#list + 1] = name:find '^[%a_][%w_]*$' and name or nil end
  table.sort(list)
  local locals = #list > 0 and ('local %s; '):format(table.concat(list, ', ')) or ''
  local head = ('\n'):rep(info.linedefined - 1) .. ('local %s = ...; %sreturn '):format(rewrite.name, locals)
  local env = rawget(_G, 'getfenv') and rawget(_G, 'getfenv')(fn) or nil
  local own_env
  for i = 1, 256 do
    local name, value = debug.getupvalue(fn, i)
    if not name then break end
    if name == '_ENV' then own_env, env = i, value end
  end
  local chunk, why = load_text(head .. text, info.source, env or _G)
  if not chunk then return nil, why end
  local made = chunk(unit)
  for i = 1, 256 do
    local name = debug.getupvalue(made, i)
    if not name then break end
    local from = name == '_ENV' and own_env or names[name]
    if name ~= rewrite.name and from then debug.upvaluejoin(made, i, fn, from) end
  end
  return made
end

--- The rewritten function; nil and why there is none.
local function convert(fn, opts)
  local known = opts.made[fn]
  if known then return known end
  if upvalue_names(fn)[rewrite.name] then return fn end          -- a function inside of one that was rewritten
  local node, tree, info = find(fn)
  if not node then return nil, tree end
  local text, infos = rewrite.fn(tree, node)
  if not text then return nil, ('line %d: %s'):format(infos.line, infos.message) end
  if text:gsub('%s', '') == tree.text:sub(node.open.first, node.last):gsub('^', 'function'):gsub('%s', '') then
    return fn
  end
  local made, why = compile(text, fn, info, new_unit(infos, opts))
  if not made then return nil, why end
  opts.made[fn], made_text[made] = made, text
  return made
end

--- The text of the rewritten function of fn, which was rewritten or can be; nil and why it cannot be.
function M.text(fn)
  fn = recursion.inside(fn) or fn
  if made_text[fn] then return made_text[fn] end
  local node, tree = find(fn)
  if not node then return nil, tree end
  local text, infos = rewrite.fn(tree, node)
  if not text then return nil, ('line %d: %s'):format(infos.line, infos.message) end
  return text
end

--- A function's name in its source: `local function f`, `function m.f`.
function recursion.names(fn)
  local node, tree = find(fn)
  if not node then return nil end
  local before = tree.text:sub(1, node.open.first - 1)
  return before:match('function%s+[%w_.]-([%a_][%w_]*)%s*$') or before:match('function%s+[%w_.]*:([%a_][%w_]*)%s*$')
    or before:match('([%a_][%w_]*)%s*=%s*function%s*$')
end

--- Is it a function that autograph made, or part of one?
function M.is_made(fn)
  return recursion.inside(fn) ~= nil or made_text[fn] ~= nil or upvalue_names(fn)[rewrite.name] ~= nil
end

--- The rewritten function in what M.autograph returned; nil for any other.
M.inside = recursion.inside

-- ---- calls ----------------------------------------------------------------------------------------------------------
local special = { [pcall] = true, [xpcall] = true }
local takers = {}
for name in ('cond while_loop map_fn foldl foldr scan case switch_case custom_gradient name_scope device '
             .. 'colocate_with control_dependencies func checkpoint '
  .. 'variable_scope vmap associative_scan'):gmatch '%S+' do takers[#takers + 1] = name end

--- Is it a function of dflow's that calls functions? Those are rewritten, too.
local function takes_functions(f)
  local df = package.loaded['dflow'] or {}
  for _, name in ipairs(takers) do if rawget(df, name) == f then return true end end
  return false
end

local changing = { [table.insert] = true, [table.remove] = true, [table.sort] = true, [rawset] = true }
if table.move then changing[table.move] = true end

--- How a function is called from one that was rewritten: itself, or in words of its own.
local function called(unit, f)
  if changing[f] then
    return function(t, ...) return f(unit:own(t), ...) end
  elseif special[f] or takes_functions(f) then
    return function(...)
      local args = runtime.Unit.pack(...)
      for i = 1, args.n do
        if type(args[i]) == 'function' then args[i] = unit:fn(args[i]) end
        if type(args[i]) == 'table' and getmetatable(args[i]) == nil and takes_functions(f) then
          local list = {}
          for k, v in pairs(args[i]) do list[k] = type(v) == 'function' and unit:fn(v) or v end
          args[i] = list
        end
      end
      return f(runtime.Unit.unpack(args, 1, args.n))
    end
  end
  local info = debug.getinfo(f, 'S')
  if info.what == 'C' or info.source:sub(1, #home) == home or info.source:find('^@.*/dflow%.lua$')
    and info.source == home:gsub('dflow/$', 'dflow.lua') then
    return f
  end
  local made = convert(f, unit.options)
  if not made then return f end
  return recursion.enter(f, made, unit)
end

--- What is called where f stands in front of arguments. `what` is Lua's word for it.
function Unit:fn(f, what)
  local known = self.calls[f]
  if known then return known end
  if type(f) == 'function' then
    known = called(self, f)
    self.calls[f] = known
    return known
  end
  local mt = debug.getmetatable(f)
  local call = type(mt) == 'table' and rawget(mt, '__call')
  if call then
    if type(call) ~= 'function' or errors.is_data(f) == false then return f end
    return function(...) return self:fn(call)(f, ...) end
  end
  error(('attempt to call a %s value%s'):format(type(f), what and (' (%s)'):format(what) or ''), 2)
end

--- object:name(…)
function Unit:method(object, name, ...)
  if object == nil or type(object) == 'boolean' or (type(object) == 'number' and not debug.getmetatable(object)) then
    error(("attempt to index a %s value (method call '%s')"):format(type(object), name), 2)
  end
  return self:fn(object[name], ("method '%s'"):format(name))(object, ...)
end

-- ---- what users call ------------------------------------------------------------------------------------------------
local known = { 'parallel_iterations', 'save', 'swap_memory', 'maximum_iterations', 'shape_invariants', 'back_prop',
                'name' }

local function options_for(opts)
  local of = errors.options(opts, 'autograph', known)
  return { of = of, made = setmetatable({}, weak_keys), calls = setmetatable({}, weak_keys) }
end
local plain

--- df.autograph(fn, opts): fn, whose statements build the graph where an Output decides.
-- @param opts  while_loop's options, for each loop; shape_invariants by the names of variables
-- @return      a function with fn's parameters
function M.autograph(fn, opts)
  if type(fn) ~= 'function' then
    errors.bad('autograph takes a Lua function, not %s', errors.describe(fn))
  end
  if recursion.inside(fn) then return fn end
  local options = opts and options_for(opts) or plain or options_for()
  if not opts then plain = options end
  local made, why = convert(errors.behind(fn), options)
  if not made then errors.bad('autograph cannot rewrite this function: %s', why) end
  local unit = new_unit({}, options)
  return recursion.enter(fn, made, unit)
end

--- df.each(x, …)
M.each = runtime.each

--- The text of a whole chunk, rewritten, and whether anything is: nil and a message when it cannot be. It begins with a
-- line's words that find its unit, which goes when the chunk is loaded.
local chunks = {}
function M.chunk(text, opts)
  local tree, why, line = parser.parse(text)
  if not tree then return nil, why, line end
  local out, infos = rewrite.chunk(tree)
  if not out then return nil, infos.message, infos.line end
  if out == tree.text then return text end
  plain = plain or options_for()
  chunks[#chunks + 1] = new_unit(infos, opts and options_for(opts) or plain)
  return ("local %s = require 'dflow.autograph'.unit(%d); "):format(rewrite.name, #chunks) .. out
end

function M.unit(i) return chunks[i] end

--- Loads a file (nil: standard input), or a text that has this name, as `dflow --autograph` does. What is compiled
-- already stays as it is.
function M.load(path, text, name)
  if not text then
    local file, why = io.stdin, nil
    if path then file, why = io.open(path, 'rb') end
    if not file then error(('cannot open %s'):format(why), 0) end
    text, name = file:read '*a', path and '@' .. path or '=stdin'
    if path then file:close() end
  end
  text = text:gsub('^#[^\n]*', '')
  local made, message, line = text, nil, nil
  if text:sub(1, 1) ~= '\27' then made, message, line = M.chunk(text) end
  if name:sub(1, 1) == '=' then M.texts[name] = text end
  local chunk, words = load(made or text, name)
  if not chunk then error(words, 0) end
  if path then require('dflow.check.conditions').before(path, { autograph = true }) end
  if not made then error(('%s:%d: autograph: %s'):format(name:sub(2), line, message), 0) end
  return chunk
end

return M
