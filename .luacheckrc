-- The front end, the examples and the specs run under Lua 5.4 and LuaJIT alike.
std = 'max'
max_line_length = 120
unused_args = false
ignore = { '212', '213' } -- unused arguments and loop variables: predicates and bodies share a signature

-- What the dflow program presets.
files['examples'] = { read_globals = { 'df', 'cond', 'while_loop', 'TensorArray', 'gradients' } }
files['spec'] = { std = 'max+busted' }
files['spec/bench'] = { std = 'max' }
