--- The line that df.progress writes, as a whole: how far, how fast, how long still.
local progress = require 'dflow.progress'

describe('a line of df.progress', function()
  it('tells how far a loop is, how fast, and how long it still takes', function()
    assert.equal('340/1000  ########----------------  34%  170/s  4 s left', progress.line(340, 1000, 2))
    assert.equal('epoch  1/3  ########----------------  33%  0.5/s  4 s left', progress.line(1, 3, 2, 'epoch'))
    assert.equal('3/3  ######################## 100%  1.5/s  0 s left', progress.line(3, 3, 2))
  end)

  it('says nothing of a speed before any time has passed, nor of a rest that is not known', function()
    assert.equal('3/4  ##################------  75%  0/s  0 s left', progress.line(3, 4, 0))
    assert.equal('3  0/s', progress.line(3, nil, 0))
    assert.equal('images  30  15/s', progress.line(30, nil, 2, 'images'))
    assert.equal('0/0  ######################## 100%  0/s  0 s left', progress.line(0, 0, 1))
  end)
end)
