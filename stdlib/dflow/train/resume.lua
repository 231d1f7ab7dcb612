--- Where df.train.fit is, in a checkpoint's metadata: epoch, place in the data, sums of the epoch and what the history
-- has. A run that goes on from there makes the steps that were left, on the batches that were left: no row is lost,
-- none is read twice.
local errors = require 'dflow.front.errors'
local checkpoint = require 'dflow.train.checkpoint'
local nest = require 'dflow.front.nest'

local M = {}
local KEY = 'dflow.fit'

--- What of the options decides what comes in which order.
local function order_of(o)
  return ('batch_size %d seed %d shuffle %s rows %s'):format(o.batch_size, o.seed, o.shuffle, o.rows or '-')
end

--- fit's state as text. state: {history =, epoch =, done =, lowest =, since =, place = {state =, sums =, rows =, number
-- =} or nil}
local function text_of(o, state)
  local lines = { order_of(o), ('at %d %d %.17g %d'):format(state.epoch, state.done, state.lowest, state.since) }
  local function add(...) lines[#lines + 1] = (...):format(select(2, ...)) end
  local h, place = state.history, state.place
  if h.best then add('best %d', h.best) end
  for _, kind in ipairs{ 'training', 'validation' } do
    local of = kind == 'validation' and (h.validation or {}) or h
    for _, name in ipairs(nest.keys(of)) do
      for i, v in ipairs(kind == 'training' and (name == 'validation' or name == 'options') and {}
                         or type(of[name]) == 'table' and of[name] or {}) do
        add('%s %s %d %.17g', kind, name, i, v)
      end
    end
  end
  if place then
    add('place %d %d %s', place.rows, place.number, place.state)
    for _, name in ipairs(nest.keys(place.sums)) do add('sum %s %.17g', name, place.sums[name]) end
  end
  return table.concat(lines, '\n')
end

--- 'inf' and 'nan' are numbers, too, which Lua's tonumber does not know.
local function number(text)
  if text:find 'inf' then return text:find '-' and -math.huge or math.huge end
  return tonumber(text) or 0 / 0
end

--- Writes a checkpoint: all variables of the session's graph, where its random ops are, and where fit is.
function M.save(o, state)
  checkpoint.save(o.checkpoint, { session = o.session, metadata = { [KEY] = text_of(o, state) } })
  state.saved = state.done
end

--- Is there a checkpoint to go on from?
function M.is_there(o)
  local f = io.open(o.checkpoint, 'rb')
  if f then f:close() end
  return f ~= nil
end

--- Sets the session's variables, and fit's state, to what the checkpoint has.
function M.restore(o, state)
  local text = checkpoint.open(o.checkpoint, 'fit').metadata[KEY]
  if not text then
    errors.raise('failed_precondition',
                 'fit: %s is no checkpoint of fit: take another path, or set the variables by df.restore and leave '
                 .. 'checkpoint away', o.checkpoint)
  end
  local order = text:match '^[^\n]*'
  if order ~= order_of(o) then
    errors.raise('failed_precondition',
                 "fit: %s was written with '%s', and this is '%s': what is left of the data would be another; remove "
                 .. "the file to begin anew",
                 o.checkpoint, order, order_of(o))
  end
  checkpoint.restore(o.checkpoint, { session = o.session })
  local h = state.history
  for name, v in pairs(h) do
    if type(v) == 'table' and name ~= 'validation' and name ~= 'options' then h[name] = nil end
  end
  h.loss, h.best, h.validation, state.place = {}, nil, h.validation and {} or nil, nil
  local function note(of, rest)
    local name, i, v = rest:match '^(%S+) (%d+) (%S+)$'
    of[name] = of[name] or {}
    of[name][tonumber(i)] = number(v)
  end
  for kind, rest in text:gmatch '\n(%S+) ([^\n]*)' do
    if kind == 'at' then
      local epoch, done, lowest, since = rest:match '^(%d+) (%d+) (%S+) (%d+)$'
      state.epoch, state.done, state.lowest, state.since = tonumber(epoch), tonumber(done), number(lowest),
        tonumber(since)
    elseif kind == 'best' then h.best = tonumber(rest)
    elseif kind == 'training' then note(h, rest)
    elseif kind == 'validation' and h.validation then note(h.validation, rest)
    elseif kind == 'place' then
      local rows, count, at = rest:match '^(%d+) (%d+) (.*)$'
      state.place = { rows = tonumber(rows), number = tonumber(count), state = at, sums = {} }
    elseif kind == 'sum' and state.place then
      local name, v = rest:match '^(%S+) (%S+)$'
      state.place.sums[name] = number(v)
    end
  end
  h.epochs = state.epoch - 1
  state.saved = state.done
end

return M
