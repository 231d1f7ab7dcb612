--- What is read of event files, for the page of `:serve`: as they grow, thinned, resumed, damaged, and of others' programs.
local df = require 'dflow'
local wire = require 'dflow.exchange.wire'
local records = require 'dflow.data.records'
local events = require 'dflow.summary.events'
local json = require 'dflow.exchange.json'

local shell = require('spec.shell').output

describe('event files', function()
  local folder, writer, reader
  before_each(function()
    folder = shell('mktemp -d'):match '%S+'
    writer = df.summary.FileWriter(folder .. '/a/run')
    reader = events.reader(folder)
  end)
  after_each(function() shell('rm -rf ' .. folder) end)

  local function run() return reader.runs[folder .. '/a/run'] end
  local function steps(series)
    local list = {}
    for i, point in ipairs(series) do list[i] = point.step end
    return list
  end
  local function append(bytes)
    local f = assert(io.open(writer.path, 'ab'))
    f:write(bytes)
    f:close()
  end

  it('are read on from where they were read to, a record that is not whole yet the next time', function()
    writer:scalar('loss', 3, 0)
    assert.is_true(reader:read())
    assert.is_false(reader:read())
    local record = records.frame(wire.int(2, 7) .. wire.bytes(5, wire.bytes(1, wire.bytes(1, 'loss') .. wire.fixed32(2, '\0\0\128\63'))))
    append(record:sub(1, 20))
    reader:read()
    assert.same({ 0 }, steps(run().scalars.loss))
    append(record:sub(21))
    assert.is_true(reader:read())
    assert.same({ 0, 7 }, steps(run().scalars.loss))
    assert.equal(1, run().scalars.loss[2].v)
    local other = df.summary.FileWriter(folder .. '/b')                  -- another run, beside it
    other:scalar('loss', 1, 0)
    assert.is_true(reader:read())
    assert.equal(2, #reader.order)
  end)

  it('keep few points of many, evenly, the first and the last; a training that goes on again takes back what it passed', function()
    for i = 0, 9999 do writer:scalar('loss', i, i) end
    while reader:read() do end
    local list = steps(run().scalars.loss)
    assert.is_true(#list > 150 and #list <= 400, #list)
    assert.equal(0, list[1])
    assert.equal(9999, list[#list])
    for i = 2, #list - 1 do assert.is_true(list[i] - list[i - 1] <= 2 * (list[3] - list[2]), list[i]) end
    writer:scalar('loss', 5, 5000)
    reader:read()
    list = steps(run().scalars.loss)
    assert.equal(5000, list[#list])
  end)

  it('end where a byte is wrong, and say so; bytes of any kind are no error', function()
    math.randomseed(7)
    writer:scalar('loss', 1, 1)
    writer:histogram('w', df.tensor{ 1, 2, 3 }, 1)
    writer:image('i', df.tensor{ { 0, 1 } }, 1)
    local whole = assert(io.open(writer.path, 'rb')):read '*a'
    for n = 1, 300 do
      local at = math.random(#whole)
      local f = assert(io.open(('%s/%d.tfevents'):format(folder, n % 20), 'wb'))
      f:write(n % 3 == 0 and whole:sub(1, at) or whole:sub(1, at - 1) .. string.char(math.random(0, 255)) .. whole:sub(at + 1))
      f:close()
      local one = events.reader(folder)
      one:read()
      assert.is_truthy(json.read(one:shown()))
    end
    append 'this is no record, and long enough to be one'
    reader:read()
    assert.matches('"broken":"[^"]*tfevents[^"]*: no record at byte %d+"', reader:shown())
  end)

  it('have scalars as tensors, too, as newer writers have them', function()
    local tensor = wire.int(1, 1) .. wire.bytes(4, '\0\0\0\64')
    append(records.frame(wire.int(2, 1) .. wire.bytes(5, wire.bytes(1, wire.bytes(1, 'loss') .. wire.bytes(8, tensor)))))
    reader:read()
    assert.equal(2, run().scalars.loss[1].v)
  end)

  it('are runs by the folders that they lie in, called by what tells them apart', function()
    writer:scalar('loss', 1, 1)
    df.summary.FileWriter(folder .. '/a/other run'):scalar('loss', 1, 1)
    reader:read()
    local names = {}
    for _, r in ipairs(json.read(reader:shown()).runs) do names[#names + 1] = r.name end
    table.sort(names)
    assert.same({ 'other run', 'run' }, names)
  end)
end)
