-- Changes that no spec can or should notice, and why: lines as they are before and after (see spec/mutants.lua).
return {
  { file = 'runtime/engine/executor.c', before = 'x->bytes += (int64_t)(sizeof *f + 8 * 4 + sizeof *f->constants * s->nconsts + 64);',
    after = 'x->bytes += (int64_t)(sizeof *f + 8 * 5 + sizeof *f->constants * s->nconsts + 64);',
    reason = 'an estimate of what a frame costs: eight bytes more are as good' },
  { file = 'stdlib/dflow/inspect/report/grid.lua', before = 'local x, h, line = PAD, 0, {}', after = 'local x, h, line = PAD, 1, {}',
    reason = 'the same: the height of a row is that of its highest item, and none is that low' },
  { file = 'kernels/window.c', before = '!dfk_slide_of(&c->x, dfk_string(k, PADDING), given ? pads->ints[4] : 0, given ? pads->ints[5] : 0, why,',
    after = '!dfk_slide_of(&c->x, dfk_string(k, PADDING), given ? pads->ints[4] : 0, given ? pads->ints[5] : 1, why,',
    reason = 'the same: the paddings are looked at where they are given' },
  { file = 'kernels/cpu/reduce.c', before = 's.rows = PIECE / b < 128 ? 128 : PIECE / b;', after = 's.rows = PIECE / b < 129 ? 128 : PIECE / b;',
    reason = 'the same: where it is 128 both give 128' },
  { file = 'kernels/ref/letters.c', before = 'const bool wide = encoding->i == 5 && !memcmp(encoding->s, "utf-8", 5);',
    after = 'const bool wide = encoding->i == 5 && !memcmp(encoding->s, "utf-8", 6);', reason = 'the same: a string ends with a zero that is not counted' },
}
