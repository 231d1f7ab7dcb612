--- The workload study: steps of a CNN and an LSTM by the size of the batch. Real time.
local study = require 'study'
return study.sweep('batch', 'Batches', { 1, 4, 16, 64, 256, 1024 }, 'examples in a batch', {
  published = 'Zhu et al. (TBD, IISWC 2018, on GPUs): more examples at once speed every network up; recurrent ones still when the memory is full, convolutional ones less '
    .. 'and less.',
  says = function(result)
    local last, before = result.rows[#result.rows], result.rows[#result.rows - 1]
    return ('from %d examples at once to %d the CNN does %.2f times as many in a second, the LSTM %.2f times; of a batch of one to the largest it is %.1f and %.1f times.')
      :format(before[1], last[1], last[3] / before[3], last[9] / before[9], study.growth(result, 3), study.growth(result, 9))
  end,
})
