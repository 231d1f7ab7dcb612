--- A line about a run that a script waits for, where standard error is a terminal.
--
-- A run on a thread of its own costs some forty microseconds more than a call, so only what may last is watched: what
-- took long the last time, and in a graph with loops what has not been run before.
local core = require 'dflow.backend'
local nest = require 'dflow.front.nest'
local progress = require 'dflow.repl.progress'
local program = require 'dflow.program'
local runs = require 'dflow.front.session'

local M = {}
local EVERY = 0.1              -- seconds between two looks
local SLOW = 0.3               -- what takes longer than this is watched the next time
local PATIENCE = 0.015         -- for a kernel to end, so that it can be seen where the run is
local OVER = 3
local lasts = setmetatable({}, { __mode = 'k' })     -- of what was fetched: did it take long? nil: it has not been run
local ended = 0                -- when a run that was not watched ended last

--- What a fetch is known by: of a table the first one in it.
local function known_by(fetches)
  while fetches ~= nil and nest.is_plain(fetches) do
    local _, first = next(fetches)
    fetches = first
  end
  return fetches == nil and 'nothing' or fetches
end

--- Waits for h, showing how far it is. Ctrl-C has cancelled it before it is known here.
local function watch_over(h)
  local line = progress.new(h, program, true)
  core.run_patience(h.handle, PATIENCE)
  local ok, why = pcall(function()
    while core.run_settle(h.handle, EVERY) ~= OVER do line:show() end
  end)
  line:clear()
  core.run_patience(h.handle, -1)
  if not ok then
    h:cancel()
    pcall(h.wait, h)
    error(why, 0)
  end
end

local function call(s, fetches, feeds, opts, key)
  local result = runs.run_now(s, fetches, feeds, opts)
  local now = core.clock()
  lasts[key] = now - ended > SLOW        -- or the script did something else meanwhile, and one run too many is watched
  ended = now
  return result
end

--- s:run of a script.
local function run(s, fetches, feeds, opts)
  local key = known_by(fetches)
  local watched = lasts[key]
  if watched == nil then watched = s.graph.may_last end
  if not watched or (opts and opts.paused) then return call(s, fetches, feeds, opts, key) end
  local began = core.clock()
  local with = { at_once = true }
  for name, v in pairs(opts or {}) do with[name] = v end
  local h = s:start(fetches, feeds, with)
  watch_over(h)
  ended = core.clock()
  lasts[key] = ended - began > SLOW
  return h:wait()
end

--- From now on runs are watched.
function M.begin()
  runs.foreground = run
end

return M
