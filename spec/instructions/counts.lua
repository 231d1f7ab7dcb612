--- Instructions per iteration of the loops of loops.lua, as they were when they were last written here.
return {
  counter = 715,
  nested = 1163,
  cond_in_loop = 2104,
  rnn = 12620,
  ['counter values'] = 863,
  ['rnn values'] = 13590,
  lstm_gradient = 79631,
  softmax = 71526,
}
