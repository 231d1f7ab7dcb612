--- What help says of the gradient of each op, as its entry has it (`derivative` in runtime/op/op.h), by Lua name.
-- spec/repl/help_gradients_spec.lua computes each formula and compares.
local M = {
  -- by input: Lua in terms of the op's inputs, outputs and options and of dy, what arrives at its first output
  formulas = {},
  words = {},           -- where words say it better
  none = {},            -- why there is none
}

require 'dflow.docs.about' ('derivative', function(name, text)
  local why = text:match '^none: (.*)'
  if why then
    M.none[name] = why
  elseif not text:find '^[%w_]+ = ' then
    M.words[name] = text
  else
    M.formulas[name] = {}
    for part in (text .. ';'):gmatch '%s*(.-);' do
      local input, formula = part:match '^([%w_]+) = (.*)$'
      M.formulas[name][input] = formula
    end
  end
end)

return M
