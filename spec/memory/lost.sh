#!/bin/sh
# lost.sh: runs a program, which ends with status 99 where it has memory in the end that nothing points to any more: the leak sanitizer says
# where it was taken. LuaJIT hides pointers from it, so the program is Lua 5.4 or one in C. Status 98: there is no such sanitizer here.
#
#   spec/memory/lost.sh build/debug/dflow program.lua
#   DFLOW_LOST=1 spec/run.sh lua5.4:debug spec/resource/queue_spec.lua         whole spec files
set -u
here=$(dirname "$0")
library=$(cc -print-file-name=liblsan.so 2>/dev/null)
case $library in
  /*) ;;
  *) echo 'lost.sh: the compiler has no leak sanitizer' >&2; exit 98 ;;
esac
alone=${DFLOW_BUILD:-$here/../../build/debug}/lost.so
if [ ! "$alone" -nt "$here/lost.c" ]; then
  { mkdir -p "$(dirname "$alone")" && cc -shared -fPIC -O1 "$here/lost.c" -o "$alone.$$" && mv "$alone.$$" "$alone"; } || exit 98
fi
exec env DFLOW_STRESS="bare${DFLOW_STRESS:+,$DFLOW_STRESS}" LD_PRELOAD="$library $alone" LSAN_OPTIONS="exitcode=99:print_suppressions=0:${LSAN_OPTIONS:-}" "$@"
