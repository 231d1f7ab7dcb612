--- Instructions per iteration of the loops of loops.lua, as they were when they were last written here.
return {
  counter = 715,
  nested = 1163,
  cond_in_loop = 2104,
  rnn = 10719,
  ['counter values'] = 863,
  ["rnn values"] = 11797,
  lstm_gradient = 86454,
  softmax = 51739,
}
