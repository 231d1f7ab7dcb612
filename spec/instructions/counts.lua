--- Instructions per iteration of the loops of loops.lua, as `make bench-quick COUNTS=write` wrote them down.
return {
  ["counter"] = 499,   -- 494 but for the question whether the iteration was lent a tensor (engine/loan.c)
  ["nested"] = 832,
  ["cond_in_loop"] = 1636,
  ["rnn"] = 10485,
  ["counter values"] = 635,   -- 625 before loops were lent tensors
  ["rnn values"] = 11475,
  ["lstm_gradient"] = 81363,
  ["softmax"] = 54447,   -- 51155 before short rows in place were copied first, which takes a quarter of the time (kernels/cpu/nn.c)
}
