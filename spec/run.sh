#!/usr/bin/env bash
# run.sh: runs the tests in spec/ and counts them.
#
#   spec/run.sh lua5.4:debug luajit:release              each pair is an interpreter and a build in build/
#   spec/run.sh luajit:release spec/graph spec/x_spec.lua          these folders and files only; SPECS='…' says the same
#   DFLOW_TESTS=all spec/run.sh lua5.4:debug             also what `make test` leaves out
#
# Each file is a process of its own, and so is each test program in C. DFLOW_LANES of them (one more than there are cores, as
# some wait) run at a time, those first that take longest: build/seconds has what each took last, spec/seconds what the long
# ones take. A line is printed as each ends, with the seconds of a processor, which others do not change, and all that it said
# where a test failed. The last line is `N passed, N failed`; the exit status says the same. A file that ends early (a crash, a
# sanitizer's report) is one more failure, and so is one that hangs: it is ended after DFLOW_SPEC_SECONDS (20 minutes, two hours
# under a sanitizer). A failed test is not run again.
#
# A line `-- run: …` among the first of a file says when it runs: `test-all`, only with DFLOW_TESTS=all; `once`, under the first
# pair only, for what does not depend on the Lua; `first`, likewise, but with DFLOW_TESTS=all under each; `alone`, when all
# others have ended, one at a time, for what sleeps or counts seconds. A file that is named runs in any case.
# DFLOW_LOST=1: memory that nothing points to at the end is a failure, too, of lua5.4 (memory/lost.sh).
set -u
cd "$(dirname "$0")/.." || exit 1
busted=$(command -v busted) || { echo 'run.sh: busted was not found (make deps)' >&2; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
end() { for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do end "$child"; done; [ "$1" = $$ ] || kill "$1" 2>/dev/null; }
trap 'trap - INT TERM; end $$; exit 1' INT TERM
export DFLOW_NATIVE_CACHE="${DFLOW_NATIVE_CACHE-$PWD/build/native}"      # loops are compiled once for all runs

pairs= named=${SPECS:-}
for word in "$@"; do
  case $word in
    */*) named="$named $word"
         [ -e "$word" ] || { echo "run.sh: there is no $word" >&2; exit 1; } ;;
    *) pairs="$pairs $word" ;;
  esac
done
lanes=${DFLOW_LANES:-$(($(nproc) + 1))}

# ---- what runs ---------------------------------------------------------------------------------------
# The jobs of a pair, a line each: `pair file`.
jobs_of() { # pair is-first
  lua=${1%%:*} mode=${1#*:}
  if [ "$2" = 1 ] && [ -z "$named" ]; then
    for program in build/"$mode"/spec/*; do
      case $program in *.d) ;; *) [ -x "$program" ] && echo "$1 $program" ;; esac
    done
  fi
  find ${named:-spec} -name '*_spec.lua' | LC_ALL=C sort > "$work/files"
  xargs -r grep -m1 -H '^-- run: ' < "$work/files" > "$work/marks"
  awk -v pair="$1" -v first="$2" -v all="${DFLOW_TESTS:-}" -v named=" $named " '
    FILENAME ~ /marks$/ { at = index($0, ":-- run: "); mark[substr($0, 1, at - 1)] = substr($0, at); next }
    index(named, " " $0 " ") || !(mark[$0] ~ /test-all/ && all != "all" || mark[$0] ~ /once/ && !first || mark[$0] ~ /first/ && !first && all != "all") { print pair, $0 }
  ' "$work/marks" "$work/files"
}

first=1
for pair in $pairs; do
  jobs_of "$pair" $first
  first=0
done > "$work/unordered"
[ -s "$work/unordered" ] || { echo 'run.sh: there is nothing to run'; echo '0 passed, 0 failed'; exit 1; }

# `seconds pair file`, the longest first. What ran on another device takes other times.
on=${DFLOW_DEFAULT_DEVICE:+@$DFLOW_DEFAULT_DEVICE}
cat build/seconds spec/seconds 2>/dev/null | awk -v on="$on" '
  !jobs { if (!($2 " " $3 in took)) took[$2 " " $3] = $1; next }
  { key = $1 on " " $2; print (key in took ? took[key] : 1), $0 }' - jobs=1 "$work/unordered" | sort -s -k1,1nr > "$work/jobs"
count=$(wc -l < "$work/jobs")
grep -h -o '^.*:-- run:.*alone' "$work/marks" | sed 's/:-- run:.*//' > "$work/alone"
awk -v work="$work" '!jobs { alone[$0]; next } { print > (work ($3 in alone ? "/last" : "/lanes")) }' "$work/alone" jobs=1 "$work/jobs"

expected=$(awk -v lanes="$lanes" '{ n += $1 / lanes; if ($1 > most) most = $1 }
  END { if (most > n) n = most; printf "%d:%02d", n / 60, n % 60 }' "$work/jobs")
echo "$(awk '{ print $3 }' "$work/jobs" | sort -u | wc -l) files under${pairs// / }, $count runs, $lanes at a time: about $expected"

# ---- one run -----------------------------------------------------------------------------------------
# Runs what is named in a process group of its own: what it has started ends with it.
run() { # pair file
  local lua=${1%%:*} mode=${1#*:} seconds=1200 wrap=
  local build=$PWD/build/$mode interpreter=$lua
  # Under a sanitizer the interpreter must be built with it too, and ours is: the program is a Lua 5.4.
  case $lua:$mode in lua5.4:asan | lua5.4:tsan | lua5.4:ubsan) interpreter=$build/dflow ;; esac
  case $mode in asan | tsan | ubsan | valgrind) seconds=7200 ;; esac
  case $mode in tsan) wrap="setarch $(uname -m) -R" ;; esac            # it wants its addresses in the usual places
  case $lua in lua5.4) [ -z "${DFLOW_LOST:-}" ] || wrap="$wrap spec/memory/lost.sh" ;; esac
  export DFLOW_MODE="$mode" DFLOW_BUILD="$build" DFLOW_LIB="$build/libdflow.so" DFLOW_LUA="$lua" DFLOW_INTERPRETER="$interpreter"
  # The program has its modules by their whole path: loaded by another name, a module of ours would pass for the user's.
  export LUA_PATH="$PWD/?.lua;$PWD/stdlib/?.lua;;" LUA_CPATH="$build/lua/?.so;;"
  export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0:exitcode=99:allocator_may_return_null=1}"
  export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1:exitcode=99}"
  export TSAN_OPTIONS="${TSAN_OPTIONS:-ignore_noninstrumented_modules=1:suppressions=$PWD/spec/tsan.supp:exitcode=99:allocator_may_return_null=1}"
  case $2 in
    *.lua) exec timeout -k 10 "${DFLOW_SPEC_SECONDS:-$seconds}" $wrap "$interpreter" "$busted" -f .busted \
             --lpath="./?.lua;$PWD/stdlib/?.lua;$PWD/stdlib/?/init.lua" --cpath="$build/lua/?.so" -o plainTerminal "$2" ;;
    *) exec timeout -k 10 "${DFLOW_SPEC_SECONDS:-$seconds}" $wrap "$2" ;;
  esac
}

# "passed failed" of what a run printed. One that printed no count, or ended otherwise than its count says, is a failure more.
result() { # log status
  awk -v status="$2" '
    /^[0-9]+ success(es)? \/ [0-9]+ failures? \/ [0-9]+ errors? \/ / { p += $1; f += $4 + $7; seen = 1 }
    /^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; seen = 1 }
    END { print p + 0, f + (!seen || status && !f) }' "$1"
}

# What failed, a line each: file:line and the name of the test.
failures() { # log pair file status failed
  awk -v under="(${2/:/, })" '/^(Failure|Error) -> / { at = $3 ":" $5; getline; print "failed: " at " " $0, under; n++ }
    END { exit !n }' "$1" || echo "failed: $3 ended with status $4 (${2/:/, })"
}

# Says that a job has ended, and how far all of them are.
tell() { # number pair file passed failed seconds of-a-processor
  local line now=$SECONDS
  line=$(cat "$work"/*.done | awk -v count="$count" -v now="$now" -v lanes="$lanes" '
    !jobs { done++; weight += $1; next }
    { all += $1 }
    END { left = now < 20 || !weight ? (all - weight) / lanes : now * (all - weight) / weight
          printf "[%*d/%d, %d:%02d, %d:%02d left]", length(count), done, count, now / 60, now % 60, left / 60, left % 60 }' - jobs=1 "$work/jobs")
  [ "$5" = 0 ] || { echo "-- $3 under ${2/:/, }"; cat "$work/$1.log"; }
  printf '%s %s %s: %d passed%s, %s s (%s of a processor)\n' "$line" "${2%%:*}" "$3" "$4" "$([ "$5" = 0 ] || echo ", $5 failed")" "$6" "$7"
}

# One lane: takes the next job of the list that no other lane has until there is none.
lane() { # list
  local n=0 id weight pair file status began took cpu TIMEFORMAT='%U %S'
  while read -r weight pair file; do
    n=$((n + 1))
    id=${1##*/}$n
    mkdir "$work/$id.taken" 2>/dev/null || continue
    began=${EPOCHREALTIME/[.,]/}
    { time { (run "$pair" "$file") < /dev/null > "$work/$id.log" 2>&1; }; } 2> "$work/$id.cpu"
    status=$?
    cpu=$(awk '{ printf "%.1f", $1 + $2 }' "$work/$id.cpu")
    took=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
    took=$((took / 10)).$((took % 10))
    read -r passed failed < <(result "$work/$id.log" $status)
    [ "$failed" = 0 ] || failures "$work/$id.log" "$pair" "$file" $status > "$work/$id.failed"
    echo "$took $pair$on $file" > "$work/$id.seconds"
    echo "$weight $passed $failed" > "$work/$id.done"
    tell "$id" "$pair" "$file" "$passed" "$failed" "$took" "$cpu"
  done < "$1"
}

# ---- all of them -------------------------------------------------------------------------------------
children=
[ ! -e "$work/lanes" ] || for i in $(seq 1 "$lanes"); do lane "$work/lanes" & children="$children $!"; done
wait $children
[ ! -e "$work/last" ] || lane "$work/last"

if [ -d build ]; then                                     # of each the last seconds
  cat "$work"/*.seconds build/seconds 2>/dev/null | awk '!seen[$2, $3]++' | sort -nr > "$work/seconds" && mv "$work/seconds" build/seconds
fi
read -r passed failed ended < <(cat "$work"/*.done 2>/dev/null | awk '{ p += $2; f += $3 } END { print p + 0, f + 0, NR }')
echo
cat "$work"/*.failed 2>/dev/null
[ "$ended" = "$count" ] || { echo "failed: $((count - ended)) runs did not end"; failed=$((failed + count - ended)); }
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
