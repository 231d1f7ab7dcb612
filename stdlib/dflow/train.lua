--- df.train: what one trains with. `local step = df.train.Adam(0.001):minimize(loss)`, then `df.run(step, feeds)`.
--
-- The modules of dflow.train: optimizers (optimizer.lua, rules.lua), learning rates (schedules.lua), averages of
-- weights (average.lua), and the others of the list below.
local errors = require 'dflow.front.errors'

local M, names = {}, {}
for _, room in ipairs{ 'rules', 'wrapped', 'schedules', 'average', 'saver', 'minimise', 'loop', 'fit', 'synchronous',
                       'replicate', 'runners' } do
  for name, v in pairs(require('dflow.train.' .. room)) do
    M[name] = v
    names[#names + 1] = name
  end
end
table.sort(names)

return setmetatable(M, { __index = function(_, name)
  errors.bad("df.train has no '%s'%s", tostring(name), errors.hint_or_all(name, names))
end })
