-- The front end, the examples and the specs run under Lua 5.4 and LuaJIT alike.
std = 'max'
max_line_length = 180
unused_args = false
-- Predicates and bodies share a signature and the names of the loop variables: unused and shadowing ones are the rule.
-- `not (x > y)` is not `x <= y` where NaN may come.
ignore = { '212', '213', '42.', '43.', '581', '582' }

-- What the dflow program presets.
files['examples'] = { read_globals = { 'df', 'cond', 'while_loop', 'TensorArray', 'gradients' } }
files['spec'] = { std = 'max+busted' }
files['spec/models/values.lua'] = { max_line_length = false }
files['spec/bench'] = { std = 'max' }
