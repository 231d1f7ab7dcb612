#!/bin/sh
# run.sh: reads the sentences of spec/ aloud and counts them.
#
#   spec/run.sh lua5.4:debug luajit:release        each pair is an interpreter and a build in build/
#   spec/run.sh luajit:release spec/graph/cond_spec.lua  these files only; SPECS='…' says the same
#
# The last line is `N passed, N failed` over all pairs, and the exit status says the same; what failed is told once more
# before it. A run that ends early (a crash, a sanitizer's report) counts as one more failure, and so does one that hangs: it is ended
# after DFLOW_SPEC_SECONDS (two hours, six under a sanitizer). The files of a few failed
# sentences are read a second time, and a third, by themselves: what holds then is counted as passed and told as unsteady, which is a
# fault of the sentence or of the program, and an issue. DFLOW_STEADY=1 does without the second reading. DFLOW_LOST=1: memory to which nothing
# points any more in the end is a failure, too, of lua5.4 (memory/lost.sh).
set -u
cd "$(dirname "$0")/.." || exit 1
busted=$(command -v busted) || { echo 'run.sh: busted was not found (make deps)' >&2; exit 1; }
work=$(mktemp -d) || exit 1
export DFLOW_NATIVE_CACHE="${DFLOW_NATIVE_CACHE-$PWD/build/native}"      # the same loops in every reading
trap 'rm -rf "${whole:-$work}"' EXIT
passed=0 failed=0

# Under a sanitizer the interpreter must be built with it too, and ours is: the program is a Lua 5.4.
interpreter() { # lua mode
  case $1:$2 in
    lua5.4:asan | lua5.4:tsan | lua5.4:ubsan) echo "$PWD/build/$2/dflow" ;;
    *) echo "$1" ;;
  esac
}
wrap() {
  case $1 in
    asan | tsan | ubsan | valgrind) seconds=21600 ;;
    *) seconds=7200 ;;
  esac
  # In a group of its own: what it has started ends with it.
  printf 'timeout -k 10 %s ' "${DFLOW_SPEC_SECONDS:-$seconds}"
  case $1 in
    # The thread sanitizer wants its addresses in the usual places.
    tsan) echo "setarch $(uname -m) -R" ;;
  esac
  case $lua in lua5.4) [ -z "${DFLOW_LOST:-}" ] || printf 'spec/memory/lost.sh ' ;; esac
}

# Adds what one run printed, and how it ended, to the counts.
count() { # log status
  set -- "$1" "$2" $(awk '
    /^[0-9]+ success(es)? \/ [0-9]+ failures? \/ [0-9]+ errors? \/ / { p += $1; f += $4 + $7; seen = 1 }
    /^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; seen = 1 }
    END { print p + 0, f + 0, seen + 0 }' "$1")
  [ "$5" = 1 ] && { [ "$2" = 0 ] || [ "$4" -gt 0 ]; } || set -- "$1" "$2" "$3" $(($4 + 1)) 0
  passed=$((passed + $3)) failed=$((failed + $4))
}

# "Failure -> spec/x_spec.lua @ 12" and the sentence below it, a line each: file:line sentence.
sentences() { awk '/^(Failure|Error) -> / { at = $3 ":" $5; getline; print at " " $0 }' "$1"; }

# Did every sentence that failed, and no other of its files, hold in that reading?
held() { # log status sentences
  [ "$2" = 0 ] || return 1
  awk -v n="$3" '/^[0-9]+ success(es)? \/ 0 failures? \/ 0 errors? \/ / { held = $1 >= n } END { exit !held }' "$1" || return 1
  while read -r at sentence; do grep -A1 '^Pending -> ' "$1" | grep -qxF "$sentence" && return 1; done < "$work/bad"
  return 0
}

# Reads the files of at most five failed sentences again. $1: what ran, the rest: the command without files.
again() { # title command…
  title=$1; shift
  sentences "$work/log" > "$work/bad"
  files=$(sed 's/:.*//' "$work/bad" | sort -u) n=$(wc -l < "$work/bad")
  # Only where that is all that went wrong: busted ends with how many failed; a signal or a sanitizer with another status.
  if [ "$n" -gt 0 ] && [ "$n" -le 5 ] && [ "$ended" = "$n" ] && [ $((failed - before)) = "$n" ] && [ -z "${DFLOW_STEADY:-}" ]; then
    echo "== again under $title:" $files
    for reading in second third; do
      { "$@" $files 2>&1; echo $? > "$work/status"; } > "$work/log2"
      cat "$work/log2"
      held "$work/log2" "$(cat "$work/status")" "$n" || continue
      sed 's/^/unsteady, held when read again: /' "$work/bad" >> "$work/told"
      passed=$((passed + n)) failed=$((failed - n))
      return
    done
  fi
  sed "s|^|failed under $title: |" "$work/bad" >> "$work/told"
}

pairs=
for word in "$@"; do
  case $word in
    */*) SPECS="${SPECS:-} $word"
         [ -e "$word" ] || { echo "run.sh: there is no $word" >&2; exit 1; } ;;
    *) pairs="$pairs $word" ;;
  esac
done

# Where they are read in lanes: the files, one a line, those first that take longest.
slowest_first() {
  find ${SPECS:-spec} -name '*_spec.lua' | LC_ALL=C sort > "$work/all"
  cat spec/cuda/seconds "$build/seconds" 2>/dev/null |
    awk 'FNR == NR && FILENAME == "-" { took[$2] = $1; next } { print took[$1] + 0, $1 }' - "$work/all" | sort -k1,1nr -k2 | cut -d' ' -f2
}

# One lane: takes the next file that no other lane has until there is none.
lane() { # command without a file…
  n=0
  while read -r file; do
    n=$((n + 1))
    mkdir "$work/$n" 2>/dev/null || continue
    began=$(date +%s)
    "$@" "$file" < /dev/null > "$work/$n/log" 2>&1
    status=$?
    grep -q '^[0-9]* success' "$work/$n/log" || echo "0 passed, 1 failed: $file ended early, with status $status" >> "$work/$n/log"
    echo "$status" > "$work/$n/status"
    echo "$(($(date +%s) - began)) $file" > "$work/$n/seconds"
    { echo "-- $file"; cat "$work/$n/log"; } > "$work/$n/heard"
    cat "$work/$n/heard"
  done < "$work/files"
}

# All files in DFLOW_LANES lanes; what was said goes to $work/log, how many failed to $work/status.
read_in_lanes() { # command without a file…
  slowest_first > "$work/files"
  lanes=
  for i in $(seq 1 "$DFLOW_LANES"); do lane "$@" & lanes="$lanes $!"; done
  wait $lanes
  cat "$work"/*/log > "$work/log"
  cat "$work"/*/status | awk '{ n += $1 } END { print n + 0 }' > "$work/status"
  cat "$work"/*/seconds "$build/seconds" 2>/dev/null | awk '!seen[$2]++' | sort -nr > "$work/seconds"
  mv "$work/seconds" "$build/seconds"
  grep -h 'ended early, with status' "$work/log" >> "$work/told"
}

# Reads one pair to its end; what it counted goes to $work/counts, what failed to $work/told.
read_pair() { # lua:mode
  lua=${1%%:*} mode=${1#*:}
  build=$PWD/build/$mode
  export DFLOW_MODE="$mode" DFLOW_BUILD="$build" DFLOW_LIB="$build/libdflow.so" DFLOW_LUA="$lua"
  DFLOW_INTERPRETER=$(interpreter "$lua" "$mode") && export DFLOW_INTERPRETER      # for sentences that run scripts
  # The program has its modules by their whole path: loaded by another name, a module of ours would pass for the user's.
  lpath="./?.lua;$PWD/stdlib/?.lua;$PWD/stdlib/?/init.lua"
  export LUA_PATH="$PWD/?.lua;$PWD/stdlib/?.lua;;" LUA_CPATH="$build/lua/?.so;;"
  export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0:exitcode=99}"
  export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1:exitcode=99}"
  export TSAN_OPTIONS="${TSAN_OPTIONS:-suppressions=$PWD/spec/tsan.supp:exitcode=99}"

  # Programs in C: each is a spec of its own.
  for program in "$build"/spec/*; do
    [ -x "$program" ] && [ -z "${SPECS:-}" ] || continue
    case $program in *.d) continue ;; esac
    case $lua in luajit) continue ;; esac    # they know no Lua: once is enough
    echo "== ${program#"$PWD"/}"
    { $(wrap "$mode") "$program" 2>&1; echo $? > "$work/status"; } | tee "$work/log"
    before=$failed
    count "$work/log" "$(cat "$work/status")"
    [ "$failed" = "$before" ] || echo "failed: ${program#"$PWD"/}" >> "$work/told"
  done

  before=$failed
  if [ -n "${DFLOW_LANES:-}" ]; then
    echo "== specs under $lua with build/$mode, $DFLOW_LANES files at a time"
    read_in_lanes $(wrap "$mode") "$(interpreter "$lua" "$mode")" "$busted" -f .busted --lpath="$lpath" --cpath="$build/lua/?.so" -o plainTerminal
  else
    echo "== specs under $lua with build/$mode"
    { $(wrap "$mode") "$(interpreter "$lua" "$mode")" "$busted" -f .busted --lpath="$lpath" --cpath="$build/lua/?.so" \
        -o plainTerminal ${SPECS:-spec} 2>&1; echo $? > "$work/status"; } | tee "$work/log"
  fi
  ended=$(cat "$work/status")
  count "$work/log" "$ended"
  if [ "$failed" != "$before" ]; then
    again "$lua with build/$mode" $(wrap "$mode") "$(interpreter "$lua" "$mode")" "$busted" -f .busted --lpath="$lpath" --cpath="$build/lua/?.so" \
      -o plainTerminal
    grep -q '^[0-9]* success' "$work/log" || echo "ended early under $lua with build/$mode: exit status $ended" >> "$work/told"
  fi
  echo "$passed $failed" > "$work/counts"
}

# Every pair in a folder of its own, side by side: the sentences wait (for clocks, terminals, other programs) more than they compute. The
# first is heard while it reads, the others when it is their turn.
whole=$work n=0
end() { for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do end "$child"; done; [ "$1" = $$ ] || kill "$1" 2>/dev/null; }
trap 'trap - INT TERM; end $$; exit 1' INT TERM
for pair in $pairs; do
  n=$((n + 1)) work=$whole/$n
  mkdir "$work"
  : > "$work/told"
  if [ "$n" = 1 ]; then read_pair "$pair" & else read_pair "$pair" > "$work/heard" 2>&1 & fi
  echo $! > "$work/reader"
done
for n in $(seq 1 "$n"); do
  work=$whole/$n
  wait "$(cat "$work/reader")"
  [ "$n" = 1 ] || cat "$work/heard"
  read -r p f < "$work/counts" || { p=0 f=1; echo "pair $n ended without a count" >> "$work/told"; }
  passed=$((passed + p)) failed=$((failed + f))
done

echo
cat "$whole"/*/told
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
