rockspec_format = '3.0'
package = 'dflow'
version = 'scm-1'
source = { url = 'git+file://.' }
description = {
  summary = 'Dynamic dataflow: cond, while_loop, TensorArray and gradients',
  detailed = [[
Builds dataflow graphs with loops, conditionals and TensorArrays from Lua, differentiates them in reverse mode,
and runs them as tagged tokens in frames. Under Lua 5.4 through a C module, under LuaJIT through its FFI.]],
  license = 'MIT',
}
dependencies = { 'lua >= 5.1, < 5.5' }
-- No external_dependencies: LuaRocks does not look into Debian's folders of an architecture, and pkg-config does.
-- The Makefile chooses compiler and flags: LuaRocks' own (-O2 -fPIC) would make the kernels slow and build all anew.
-- LuaRocks moves what lies in LUADIR and LIBDIR into its tree, so the library is found from where the modules are.
build = {
  type = 'command',
  build_command = 'env -u CC -u LD -u CFLAGS make lib core jit',
  install_command = 'env -u CC -u LD -u CFLAGS make install-rock LUADIR="$(LUADIR)" LIBDIR="$(LIBDIR)"',
}
test = { type = 'busted' }
test_dependencies = { 'busted >= 2.1' }
