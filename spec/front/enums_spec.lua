-- The numbers of dflow.h's enums, as the Lua side knows them.
local enums = require 'dflow.backend.enums'

describe('the enums of dflow.h', function()
  it('are read from the header that the library carries', function()
    assert.are.equal(0, enums.DF_OK)
    assert.are.equal(11, enums.DF_OUT_OF_RANGE)
    assert.are.equal(3, enums.DF_RUN_OVER)
  end)
  it('count on from a number that is given, and take comments for what they are', function()
    local e = enums.parse 'enum { A = 3, B, /* C, */ D = 0x10, E }; typedef enum x { F, G } x;'
    assert.are.same({ A = 3, B = 4, D = 16, E = 17, F = 0, G = 1 }, e)
  end)
  it('have no number for a name that the header does not have', function()
    local ok, why = pcall(function() return enums.DF_NONSENSE end)
    assert.is_false(ok)
    assert.is_truthy(tostring(why):find('dflow.h has no enumerator DF_NONSENSE', 1, true))
  end)
end)
