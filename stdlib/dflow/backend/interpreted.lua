--- Keeps LuaJIT's compiler away from dflow's own modules where it is one of the betas.
--
-- The LuaJIT of Debian 12 (2.1.0-beta3 of March 2022) now and then records a wrong constant when it compiles our code
-- (a nil taken for a string, in a core of the specs), and its collector or the trace then crashes: about once in ten
-- minutes of the specs, never with the compiler off. Turning single optimisations off (-fwd, -cse, -fold) made it
-- worse. What users write is compiled as ever; building graphs is a matter of calls into the library. Releases since
-- 2023 are left as they are.
if not jit.version:find('beta', 1, true) then return true end
jit.off(true, true)
local own = require 'dflow.own'

--- Loads a module of dflow and turns the compiler off for all functions in it.
local function load_interpreted(name)
  if name:sub(1, 6) ~= 'dflow.' then return nil end
  local path, why = own.path(name)
  if not path then return why end
  local chunk, message = loadfile(path)
  if not chunk then error(("error loading module '%s' from file '%s':\n\t%s"):format(name, path, message), 3) end
  jit.off(chunk, true)
  return chunk
end

table.insert(package.loaders, 2, load_interpreted)
return true
