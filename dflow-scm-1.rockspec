rockspec_format = '3.0'
package = 'dflow'
version = 'scm-1'
source = { url = 'git+file://.' }
description = {
  summary = 'Dynamic dataflow: cond, while_loop, TensorArray and gradients',
  detailed = [[
Builds dataflow graphs with loops, conditionals and TensorArrays from Lua, differentiates them in reverse mode,
and runs them as tagged tokens in frames. Under Lua 5.4 through a C module.]],
  license = 'MIT',
}
dependencies = { 'lua >= 5.1, < 5.5' }
external_dependencies = {
  OPENBLAS = { header = 'cblas.h' },
  SLEEF = { header = 'sleef.h' },
  ZLIB = { header = 'zlib.h' },
}
build = {
  type = 'make',
  build_target = 'all',
  build_variables = { CFLAGS = '$(CFLAGS)' },
  install_variables = { PREFIX = '$(PREFIX)' },
}
test = { type = 'busted' }
test_dependencies = { 'busted >= 2.1' }
