#!/bin/sh
# misuse.sh PROGRAM SECONDS [SEED]: spec/misuse.lua with seed after seed, in a folder of its own; ends at the first that
# finds something, which is printed.
set -eu
program=$(realpath "$1") until=$(($(date +%s) + $2)) seed=${3:-$(date +%s)} here=$PWD
export LUA_PATH="$here/?.lua;$here/stdlib/?.lua;;" ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0:allocator_may_return_null=1}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
while [ "$(date +%s)" -lt "$until" ]; do
  for which in public core; do
    timeout 600 "$program" "$here/spec/misuse.lua" "$seed" 2000 $which > out 2> err || {
      echo "misuse.sh: seed $seed, $which: status $?"; tail -5 out; tail -40 err; exit 1; }
  done
  seed=$((seed + 1))
done
echo "misuse.sh: seeds up to $((seed - 1)): $(tail -1 out)"
