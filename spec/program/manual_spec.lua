-- man dflow: it knows every option, command and variable that there is, and none that there is not; its examples run.
-- run: first
local shell = require 'spec.shell'

local function contents(path)
  return shell.read(path)
end

--- The words of a macro's line: blanks part them unless they are quoted.
local function arguments(line)
  local list, at = {}, 1
  while at <= #line do
    local first = line:find('%S', at)
    if not first then break end
    local word, after
    if line:sub(first, first) == '"' then
      word, after = line:match('^"([^"]*)"()', first)
    else
      word, after = line:match('^(%S+)()', first)
    end
    list[#list + 1], at = word, after
  end
  return list
end

local function plain(text)
  return (text:gsub('\\f%b[]', ''):gsub('\\f%u', ''):gsub('\\%-', '-'):gsub('\\%(aq', "'"):gsub('\\%(bu', '*'):gsub('\\&', ''):gsub('\\e', '\\'))
end

--- The page: a list of {section =, heads = {…}, text =, examples = {{commands, output}}}.
local function read_page()
  local sections, section = {}, nil
  local head, example, output = false, nil, nil
  for line in (contents('interp/dflow.1') .. '\n'):gmatch('([^\n]*)\n') do
    local macro, rest = line:match('^%.(%u+) ?(.*)$')
    local text
    if macro == 'SH' then
      section = { name = plain(rest), heads = {}, text = {}, examples = {} }
      sections[section.name] = section
    elseif macro == 'TP' then
      head = true
    elseif macro == 'EX' then
      example, output = { '', '' }, false
    elseif macro == 'RS' then
      output = true
    elseif macro == 'EE' then
      table.insert(section.examples, example)
      example = nil
    elseif macro == 'B' or macro == 'I' then
      text = rest
    elseif macro and #macro == 2 and macro:find('^[BIR][BIR]$') then
      text = table.concat(arguments(rest))
    elseif not macro then
      text = line
    end
    if text and section then
      text = plain(text)
      if example then
        local at = output and 2 or 1
        example[at] = example[at] .. text .. '\n'
      elseif head then
        table.insert(section.heads, text)
        head = false
      end
      table.insert(section.text, text)
    end
  end
  for _, s in pairs(sections) do s.text = table.concat(s.text, ' ') end
  return sections
end

describe('the manual', function()
  local page = read_page()

  --- Option words such as -e and --color in the heads of a section.
  local function options_of(section)
    local set = {}
    for _, head in ipairs(section.heads) do
      for word in (' ' .. head):gmatch('[ ,](%-%-?[%a-]*)') do set[word] = true end
    end
    return set
  end

  it('has no mistakes that man would warn of', function()
    if shell.run('command -v man && command -v groff').status ~= 0 then return pending('there is no man') end
    local r = shell.run('man --warnings -E UTF-8 -l -Tutf8 -Z interp/dflow.1 >/dev/null')
    assert.are.equal('', r.err)
    assert.are.equal(0, r.status)
  end)

  it('lists the options that --help lists, and no others', function()
    local told, known, seen = shell.run(shell.dflow .. ' --help').out, options_of(page.OPTIONS), {}
    for word in told:gmatch('\n  (%-%S*)') do
      word = word:gsub('=.*$', '')
      assert.is_truthy(known[word], word .. ' is not in the manual')
      seen[word] = true
    end
    for word in pairs(known) do assert.is_truthy(seen[word], word .. ' is not in --help') end
    for command, of in pairs{ run = { '--feed', '--fetch', '--signature', '--init', '--out', '--repeat', '--threads', '--timeout', '--device', '--trace' },
                              inspect = { '--ops', '--nodes', '--let' } } do
      local help = shell.run(('%s %s --help'):format(shell.dflow, command)).out
      local listed = options_of(page['TENSORFLOW GRAPHS'])
      for word in help:gmatch('\n  (%-%-%l+)') do assert.is_truthy(listed[word] or word == '--help', command .. ' ' .. word) end
      for _, word in ipairs(of) do assert.is_truthy(help:find(word, 1, true), command .. ' ' .. word) end
    end
  end)

  it('lists the commands of the prompt, by the groups of :help', function()
    local out = shell.run(("printf ':help\\n' | %s -i"):format(shell.dflow)).out
    local groups, n = {}, 0
    for head in table.concat(page.COMMANDS.heads, '\n'):gmatch '[^\n]+' do groups[head] = true end
    for list in out:gsub('\n\n', '\0'):gmatch '%f[%Z]%l+: [^%z\n]+\n(  :[^?%z]+)%f[%z]' do
      list, n = list:gsub('%s+', ' '):sub(2), n + 1
      assert.is_truthy(groups[list], list)
    end
    assert.are.equal(5, n)
  end)

  it('lists every environment variable that the sources ask for', function()
    local listed = {}
    for _, head in ipairs(page.ENVIRONMENT.heads) do for name in head:gmatch('[%u%d_]+') do listed[name] = true end end
    local asked = shell.run([[grep -rhoE "(getenv ?\(?|dfk_disk disk = \{ )[\"'][A-Z_0-9]+" runtime kernels interp stdlib | grep -oE "[A-Z][A-Z_0-9]+$" | sort -u]]).out
    local n = 0
    for name in asked:gmatch('[^\n]+') do
      assert.is_truthy(listed[name], name .. ' is not in the manual')
      n = n + 1
    end
    assert.is_true(n > 8)
    for name in pairs(listed) do
      if name:find('^DFLOW_') then assert.is_truthy(asked:find(name, 1, true), name .. ' is asked for nowhere') end
    end
  end)

  it('has examples that print what it says', function()
    local folder = os.tmpname() .. '.d'
    local dflow = shell.run('realpath ' .. shell.dflow).out:match('[^\n]+')
    shell.run(('mkdir -p %s && ln -s %s %s/dflow'):format(folder, dflow, folder))
    assert.is_true(#page.EXAMPLES.examples >= 5)
    for _, example in ipairs(page.EXAMPLES.examples) do
      local r = shell.run(('cd %s && PATH="%s:$PATH" && %s'):format(folder, folder, example[1]))
      assert.are.equal(example[2], r.out, example[1] .. r.err)
    end
    os.execute('rm -rf ' .. folder)
  end)

  it('names the files that the program uses, and the exit status it ends with', function()
    local home = os.tmpname() .. '.home'
    os.execute('mkdir -p ' .. home .. '/.config/dflow')
    shell.write(home .. '/.config/dflow/init.lua', 'print "init"')
    local r = shell.run(('env -u XDG_CONFIG_HOME -u XDG_STATE_HOME HOME=%s %s -i'):format(home, shell.dflow), '1 + 1\n')
    assert.is_truthy(r.out:find('init\n', 1, true), r.out .. r.err)
    assert.are.equal('2\n', r.out:match('> (2\n)'))
    assert.is_truthy(shell.run('ls ' .. home .. '/.local/state/dflow/sessions').out:find('%.lua'))
    os.execute('rm -rf ' .. home)
    for _, path in ipairs{ '$XDG_STATE_HOME/dflow/sessions/', '$XDG_CONFIG_HOME/dflow/init.lua', '$XDG_STATE_HOME/dflow/history' } do
      assert.is_truthy(page.FILES.text:find(path, 1, true), path)
    end
    assert.are.equal(1, shell.run(shell.dflow .. ' --nonsense').status)
    assert.are.equal(1, shell.run(shell.dflow .. " -e 'error()'").status)
    assert.are.equal(0, shell.run(shell.dflow, 'error()').status)
    assert.are.equal(0, shell.run(shell.dflow .. ' -i', 'error()').status)
  end)
end)
