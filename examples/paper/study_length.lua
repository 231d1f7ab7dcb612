--- The workload study: steps of a CNN and an LSTM by the size of the input, 28 N rows of 28 pixels. Real time.
local study = require 'study'
return study.sweep('N', 'Inputs of 28 N rows', { 1, 2, 4, 8, 16, 32 }, 'N', {
  says = function(result)
    return ('%d times the rows take the CNN %.1f times as long and the LSTM %.1f times, and %.1f and %.1f times the memory, as one keeps its layers for the '
      .. 'gradient and the other its iterations. The LSTM does %.2f times the flops a second, the CNN %.2f times: longer inputs bring no more to do at once than one '
        .. 'iteration has.')
      :format(study.growth(result, 1), study.growth(result, 2), study.growth(result, 8), study.growth(result, 7), study.growth(result, 13), study.growth(result, 10),
        study.growth(result, 4))
  end,
})
