--- Command lines of `dflow run` and `dflow inspect`: `--name value` or `--name=value`, and what is left.
local M = {}

--- What a command's function raises when it was called wrongly: a table with the message.
local Usage = {}
M.Usage = Usage
function M.wrong(text, ...)
  error(setmetatable({ message = text:format(...) }, Usage), 0)
end

--- Takes the words apart. `known` says for each option 'flag', 'value' or 'list'. Returns the options and the other
-- words.
function M.parse(words, known)
  local opts, rest, i = {}, {}, 1
  for name, kind in pairs(known) do if kind == 'list' then opts[name] = {} end end
  local plain = false
  while i <= #words do
    local word = words[i]
    local name, value = word:match('^%-%-([%w_-]+)=(.*)$')
    name = name or word:match('^%-%-([%w_-]+)$')
    if plain or word:sub(1, 1) ~= '-' or word == '-' then
      rest[#rest + 1] = word
    elseif word == '--' then
      plain = true
    elseif not name or not known[name] then
      M.wrong("there is no option '%s'", word)
    elseif known[name] == 'flag' then
      if value then M.wrong("the option --%s takes no value", name) end
      opts[name] = true
    else
      if not value then
        i = i + 1
        value = words[i]
        if not value then M.wrong("the option --%s needs a value", name) end
      end
      if known[name] == 'list' then
        opts[name][#opts[name] + 1] = value
      elseif opts[name] then
        M.wrong('--%s is given twice: %s and %s', name, opts[name], value)
      else
        opts[name] = value
      end
    end
    i = i + 1
  end
  return opts, rest
end

--- Runs fn(words); prints what it raises. The status that the program ends with: true when all went well.
function M.main(name, help, fn, words)
  for _, word in ipairs(words) do
    if word == '--help' or word == '-h' then
      io.stdout:write(help)
      return true
    end
  end
  local ok, err = pcall(fn, words)
  if ok then return true end
  io.stdout:flush()
  if getmetatable(err) == Usage then
    io.stderr:write(('dflow %s: %s\n')
      :format(name, err.message), ('(dflow %s --help says how it is called)\n'):format(name))
  else
    io.stderr:write(('dflow %s: '):format(name), tostring(err):gsub('^[^\n]-%.lua:%d+: ', '', 1), '\n')
  end
  return false
end

return M
