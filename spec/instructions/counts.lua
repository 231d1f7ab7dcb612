--- Instructions per iteration of the loops of loops.lua, as `make bench-quick COUNTS=write` wrote them down.
return {
  ["counter"] = 497,
  ["nested"] = 829,
  ["cond_in_loop"] = 1643,   -- 1636 before what waits for the window was opened by swapping, too (engine/tokens/frame.c)
  ["rnn"] = 10485,
  ["counter values"] = 632,   -- 625 before reads of variables were lent (engine/tokens/borrowed_read.c), which is code in the same function
  ["rnn values"] = 11475,
  ["lstm_gradient"] = 81363,
  ["softmax"] = 54447,   -- 51155 before short rows in place were copied first, which takes a quarter of the time (kernels/cpu/nn.c)
}
