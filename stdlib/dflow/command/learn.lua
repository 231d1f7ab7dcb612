--- `dflow learn [n]`: the lessons, at the terminal or in a pipe.
return function(n, ...)
  local learn = require 'dflow.learn'
  if n == '--help' or n == '-h' then
    print('usage: dflow learn [lesson]\nFourteen lessons in which you predict, run, and are told why, each with two '
          .. 'exercises.\n'
      .. 'skip shows a solution, q leaves.\n\n       dflow learn --notebooks [folder]\nThe same as notebooks for '
         .. 'Jupyter, a file each (make install-kernel).')
    return true
  end
  if n == '--notebooks' then
    local ok, first, many = pcall(learn.write_notebooks, (...) or '.')
    if not ok then io.stderr:write('dflow learn: ', tostring(first),
                                   '\n') else print(('%d notebooks were written; the first is %s'):format(many,
                                       first)) end
    return ok
  end
  local number = tonumber(n or '')
  if n and (not number or not learn.lessons()[number] or select('#', ...) > 0) then
    io.stderr:write(('dflow learn: there is no lesson %s; there are 1 to %d\n'):format(tostring(n), #learn.lessons()))
    return false
  end
  local program = require 'dflow.program'
  local columns, seen = program.terminal().columns or 80, program.terminal().output
  local wrapped = require('dflow.repl.values').wrapped
  local help = require 'dflow.docs.help'
  -- Ctrl-C at a question leaves, as q does
  learn.run(number, function(prompt) return program.line(prompt) or nil end, function(text)
    for line in (tostring(text) .. '\n'):gmatch('([^\n]*)\n') do
      if #line > columns and not line:find('^ ') and line:find('^[%w"(]') then
        help.width = math.max(40, math.min(100, columns))
        line = help.wrap(line, '')
      end
      print(seen and line:find('^ ') and wrapped(line, columns) or line)
    end
  end)
  return true
end
