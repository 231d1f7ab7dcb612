-- run: once
-- What `make size` prints is counted, and pages are few.
local shell = require 'spec.shell'
local size = require 'spec.size'

describe('the table of sizes', function()
  local rows = {}
  setup(function() for _, row in ipairs(size.rows()) do rows[#rows + 1], rows[row[1]:match '^[^(,]*'] = row, row end end)

  it('counts the lines that git knows', function()
    local code = shell.run "git ls-files runtime | grep -E '\\.(c|h|mk|lua)$' | xargs cat | wc -l".out
    assert.equal(tonumber(code), size.lines('runtime', function(path) return path:find '%.[chl]u?a?$' or path:find '%.mk$' end))
    for _, row in ipairs(rows) do assert.is_true(tonumber(row[2]) ~= nil or row[2] == 'nothing is built', row[1]) end
    assert.is_true(tonumber(rows[1][2]) > 100000)
  end)

  it('has fewer than 8000 lines of pages and screens: what is not to be looked at is said as a property', function()
    assert.is_true(tonumber(rows['lines of pages and screens among these'][2]) < 8000)
  end)
end)
