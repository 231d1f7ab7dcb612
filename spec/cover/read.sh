#!/bin/bash
# read.sh: reads a spec file in a tree built with MODE=cover and writes down where it has been (spec/cover/cover.lua).
#
#   spec/cover/read.sh FOLDER spec/x/y_spec.lua      run in the tree; leaves FOLDER/x.y_spec.places, .lines, .tests
#                                                    and .took: the status, seconds by the clock, of the processor. A file is
#                                                    read for DFLOW_COVER_SECONDS=1200 at most: what is read by then is asked
folder=$1 spec=$2
name=${spec#spec/} name=${name%.lua} name=$folder/${name//\//.}
[ -s "$name.took" ] && exit 0
rm -f "$name".*
build=$PWD/build/cover
export DFLOW_MODE=debug DFLOW_BUILD="$build" DFLOW_LIB="$build/libdflow.so" DFLOW_LUA=lua5.4
export LUA_PATH="$PWD/?.lua;$PWD/stdlib/?.lua;;" LUA_CPATH="$build/lua/?.so;;"
export DFLOW_COVER="$name.places" DFLOW_COVER_LINES="$name.lines" DFLOW_COVER_TESTS="$name.tests" DFLOW_COVER_FILES="$folder/files"
export DFLOW_COVER_MODULE="$build/lua/dflow/lines.so"
# Who counts instructions takes the hook for a while.
init='if _VERSION == "Lua 5.4" then
  local start, set = package.loadlib(os.getenv "DFLOW_COVER_MODULE", "dflow_cover_start"), debug.sethook
  if not start then return end
  start()
  function debug.sethook(...)
    set(...)
    if select("#", ...) == 0 then start() end
  end
end'
busted=$(command -v busted)
TIMEFORMAT='%R %U %S'
took=$({ time LD_PRELOAD=$DFLOW_COVER_MODULE LUA_INIT=$init timeout -k 5 "${DFLOW_COVER_SECONDS:-1200}" lua5.4 "$busted" -f .busted --helper=spec/cover/tests.lua --cpath="$build/lua/?.so" -o plainTerminal "$spec" >"$name.log" 2>&1 </dev/null
         echo $? >"$name.status"; } 2>&1)
echo "$(cat "$name.status") $took" | awk '{ print $1, $2, $3 + $4 }' >"$name.took"
