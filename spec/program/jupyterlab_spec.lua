-- A notebook in JupyterLab, in a real browser: all cells are run, and what a reader would see is there. DFLOW_JUPYTER names a Python
-- that has jupyterlab.
local browser = require 'spec.browser'
local shell = require 'spec.shell'
local json = require 'dkjson'

local python = os.getenv 'DFLOW_JUPYTER'
local function why_not()
  if not python then return 'DFLOW_JUPYTER names no Python that has jupyterlab' end
  if shell.run(python .. ' -c "import jupyterlab"').status ~= 0 then return python .. ' has no jupyterlab' end
  if not browser.available() then return 'there is no Chromium' end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return 'the sanitizers are too slow for a notebook' end
end

--- A server over a folder with the notebook of the examples and dflow's kernel: its address, its folder.
local function serve()
  local folder = os.tmpname() .. '.lab'
  shell.run('mkdir -p ' .. folder .. '/work ' .. folder .. '/share/kernels/dflow && cp examples/notebook.ipynb ' .. folder .. '/work')
  local dflow = shell.run('realpath ' .. shell.dflow).out:gsub('%s+$', '')
  shell.write(folder .. '/share/kernels/dflow/kernel.json',
    json.encode{ argv = { dflow, '--kernel', '{connection_file}' }, display_name = 'dflow (Lua)', language = 'lua' })
  local port = shell.run(python .. ' -c "import socket; s = socket.socket(); s.bind((\'127.0.0.1\', 0)); print(s.getsockname()[1])"').out:match '%d+'
  os.execute(('cd %s/work && HOME=%s JUPYTER_PATH=%s/share timeout 170 %s -m jupyterlab --no-browser --allow-root --ServerApp.port=%s '
    .. '--ServerApp.token= --ServerApp.password= --LabApp.expose_app_in_browser=True >%s/log 2>&1 & echo $! >%s/pid')
    :format(folder, folder, folder, python, port, folder, folder))
  return 'http://127.0.0.1:' .. port .. '/', folder
end

--- What an expression gives once it is no longer null, false or an error; at most a minute.
local function await(b, expression)
  for _ = 1, 300 do
    local ok, value = pcall(b.eval, b, expression)
    if ok and value and value ~= json.null then return value end
    os.execute 'sleep 0.2'
  end
  error('never so: ' .. expression)
end

describe('JupyterLab', function()
  it('runs the notebook of the examples and shows values, the graph, the plot and the error', function()
    local why = why_not()
    if why then return pending(why) end
    local address, folder = serve()
    local b
    finally(function()
      if b then b:close() end
      shell.run(('kill $(cat %s/pid); sleep 0.5; rm -rf %s'):format(folder, folder))
    end)
    for _ = 1, 300 do
      if shell.run(python .. ' -c "import urllib.request as u; u.urlopen(\'' .. address .. 'api\')"').status == 0 then break end
      os.execute 'sleep 0.2'
    end
    b = browser.open(address .. 'lab/tree/notebook.ipynb', { width = 1280, height = 2400 })
    await(b, 'window.jupyterapp && jupyterapp.shell.currentWidget && jupyterapp.shell.currentWidget.context.isReady')
    await(b, 'jupyterapp.shell.currentWidget.sessionContext.session && jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === "idle"')
    b:eval 'jupyterapp.commands.execute("notebook:run-all-cells").catch(() => 0)'
    local cells = 'jupyterapp.shell.currentWidget.content.model.cells'
    await(b, ('(() => { const c = %s; return c.get(c.length - 1).outputs.length > 0 })()'):format(cells))
    local texts = b:eval 'Array.from(document.querySelectorAll(".jp-OutputArea-output pre")).map(e => e.textContent.trim())'
    assert.equal('{8.0, 12.0}', texts[1])                    -- x ^ 3 at 2, and its slope
    local pictures = b:eval 'Array.from(document.querySelectorAll(".jp-OutputArea-output svg, .jp-OutputArea-output img")).map(e => e.getBoundingClientRect().width)'
    assert.is_true(#pictures >= 2, 'a graph and a plot are drawn')
    for _, width in ipairs(pictures) do assert.is_true(width > 100) end
    assert.matches('df.ones{2, 3} * df.ones{2}', b:eval 'document.querySelector(".jp-OutputArea-output[data-mime-type*=error], .jp-RenderedText[data-mime-type*=stderr]").textContent', 1, true)
  end)
end)
