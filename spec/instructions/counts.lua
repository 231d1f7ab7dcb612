--- Instructions per iteration of the loops of loops.lua, as `make bench-quick COUNTS=write` wrote them down.
return {
  ["counter"] = 497,
  ["nested"] = 826,
  ["cond_in_loop"] = 1640,
  ["rnn"] = 10424,
  ["counter values"] = 625,
  ["rnn values"] = 11384,
  ["lstm_gradient"] = 83329,
  ["softmax"] = 51155,
}
