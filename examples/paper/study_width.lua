--- The workload study: steps of a CNN and an LSTM by their hidden size, units of the LSTM and four times the filters of the CNN's first layer. Real time.
local study = require 'study'
return study.sweep('width', 'Hidden size', { 16, 32, 64, 128, 256, 512 }, 'hidden size', {
  says = function(result)
    return ('%d times the hidden size is %.1f times the flops a second in the CNN and %.1f times in the LSTM, whose products are small until then; flops for each byte grow '
      .. '%.1f and %.1f times.')
      :format(study.growth(result, 1), study.growth(result, 4), study.growth(result, 10), study.growth(result, 6), study.growth(result, 12))
  end,
})
