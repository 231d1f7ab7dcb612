--- `dflow manual [area]`: a page of the manual, or the list of them.
return function(area, ...)
  local help = require 'dflow.docs.help'
  if area == '--help' or area == '-h' then
    print('usage: dflow manual [area]\n'
          .. 'A page of the manual with an example that runs; without an area the list of pages.')
    return true
  end
  local text = help.manual(area)
  if not text or select('#', ...) > 0 then
    io.stderr:write(("dflow manual: there is no page '%s'; dflow manual lists them\n"):format(area))
    return false
  end
  print(text)
  return true
end
