#!/bin/sh
# make test, make unit, make test-all, make test-slice: the C unit tests, tests/unit, tests/fuzz and tests/system.
#
#     scripts/test.sh              one or two tests of each behaviour, where it matters: eight minutes of two processors
#     scripts/test.sh unit         the C unit tests and tests/unit, on the first interpreter: without PyTorch, as anyone
#     scripts/test.sh all          everything, on every interpreter, as root and as an ordinary user
#     scripts/test.sh slice K/N    of what `all` has beyond the first, the K-th of N parts
#
# Tests are chosen by their markers (pyproject.toml), here alone, in `choose`; with ARGS='-k NAME' the first one takes
# further cases of that name, too.  A pass of tests/system runs in parallel (WORKERS=; by default three for two
# processors, since many tests wait); those marked `alone` come after it, one by one.  The ordinary user has no
# privileges, and perf_event is refused.  Some of it runs again with the interpreter's JIT, where there is one.  Runs
# everything, then fails if anything did; the last line says how much that was.
#
# PYHYBRID_TEST_AS (root or user) tells a test which pass it is in.  With CI=true nothing that a
# pass must have (torch, perf, root) may be missing.  With SAN=address, undefined or both the extension
# is built with these sanitizers, too, and runs the tests that they can; with SAN=thread, which puts off
# signals, the C tests alone.  A slice begins no test after LIMIT_S= seconds (600), and says how many it left.
set -eu
cd "$(dirname "$0")/.."

what=${1:-most}
case $what in
most | unit | all) ;;
slice) export PYHYBRID_SLICE="${2:?which one: K/N}" PYHYBRID_UNTIL=$(($(date +%s) + ${LIMIT_S:-600})) ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

# Prints the marker expression of a pass of tests/system, or of tests/unit; nothing: the pass is left out.
#   first   as root on the first interpreter       further   as root on each further one
#   user    as an ordinary user on the first       others    as an ordinary user on each further one
choose() { # PASS
    few='not slow and not further'
    case " ${ARGS:-}" in *' -k'*) few='not slow' ;; esac
    case $what-$1 in
    all-* | unit-*) echo 'slow or not slow' ;;
    most-first) echo "$few" ;;
    most-user) [ "$(id -u)" = 0 ] && echo "engine and $few" || echo "$few" ;;
    most-further) echo "version and $few" ;;
    most-others) ;;
    most-unit-first) echo "$few" ;;
    most-unit-further) echo "not exhaustive and $few" ;;
    slice-unit-first) echo 'slow or further' ;;
    slice-unit-further) echo 'slow or further or exhaustive' ;;
    slice-first) echo 'slow or further' ;;
    slice-user) echo 'slow or further or not engine' ;;
    slice-further) echo 'slow or further or not version' ;;
    slice-others) echo 'slow or not slow' ;;
    esac
}

needed='build test ranks'
if [ "$what" = unit ]; then
    scripts/packages.sh build unit
    pythons=$(scripts/pythons.sh first)
else
    scripts/packages.sh build unit view test
    scripts/node_modules.sh tests/viewers || true # their tests skip
    pythons=$(scripts/pythons.sh)
    needed="$needed torch"
    case $what-"${ARGS:-}" in most-*' -k'* | most-'-k'* | all-* | slice-*) needed="$needed trainers" ;; esac
    [ "$what" = most ] || needed="$needed ray servers spark"
fi
perf=$(scripts/find-perf.sh) || perf=
clone=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
export TMPDIR="$scratch"

case $what in all | slice) export PYHYBRID_FUZZ_S="${PYHYBRID_FUZZ_S:-8}" ;; esac
# What is drawn at random is the same each time; a slice draws anew, where it is not to be relied on.
[ "$what${CI:-}" != slice ] || export PYHYBRID_FUZZ_SEED="${PYHYBRID_FUZZ_SEED:-$(date +%s)}"
workers=${WORKERS:-$((($(nproc) * 3 + 1) / 2))}
failed=
ran=
report=
left=
export PYHYBRID_FAILURES="$scratch/failures" PYHYBRID_COUNTS="$scratch/counts"
: >"$PYHYBRID_COUNTS"
chmod 666 "$PYHYBRID_COUNTS"
NOTHING_CHOSEN=5 LEFT_OUT=77 # pytest's own, tests/as_user.py's

began=$(date +%s)
so_far() { s=$(($(date +%s) - began)) && echo "$((s / 60)) min $((s % 60)) s"; }

# The sum of what conftest.py wrote of sessions, from one of them on.
counted() { # NAME [AFTER]
    awk -v name="$1" -v after="${2:-0}" 'NR > after && $1 == name { n += $2 } END { print n + 0 }' "$PYHYBRID_COUNTS"
}

run() { # PASS COMMAND...
    pass=$1
    shift
    printf '\n=== %s (after %s)\n' "$pass" "$(so_far)"
    code=0
    : >"$PYHYBRID_FAILURES"
    chmod 666 "$PYHYBRID_FAILURES"
    "$@" || code=$?
    word=passed
    if [ "$code" = $NOTHING_CHOSEN ]; then
        word='nothing chosen'
    elif [ "$code" = $LEFT_OUT ] && [ "${CI:-}" != true ]; then
        word='left out'
    elif [ "$code" != 0 ]; then
        word=FAILED failed=1
    fi
    report="$report
  $pass: $word"
    [ ! -s "$PYHYBRID_FAILURES" ] || report="$report
$(sed 's/^/    /' "$PYHYBRID_FAILURES")"
}

c_tests() {
    build=build/$tag-c$san
    # shellcheck disable=SC2086  # SAN makes two words or none
    meson setup --reconfigure "$build" . -Dbuildtype=debugoptimized \
        ${SAN:+-Db_sanitize=$SAN -Db_lundef=false} >"$scratch/meson.log" 2>&1 || {
        cat "$scratch/meson.log"
        return 1
    }
    code=0
    meson test -C "$build" --print-errorlogs || code=$?
    passed=$(grep -c '"result": "OK"' "$build/meson-logs/testlog.json") || true
    echo "passed $passed" >>"$PYHYBRID_COUNTS"
    return $code
}

# From another folder, because in the clone `import pyhybrid` finds the folder of that name, which
# lacks what was compiled; and nothing is written there, because an ordinary user could not.
run_pytest() { # FOLDER ARGUMENT...
    folder=$1
    shift
    code=0
    # shellcheck disable=SC2086  # ARGS and launcher are lists of words
    (cd "$scratch" && under_sanitizer ${launcher:-} "$python" -P -m pytest -rs -p no:cacheprovider \
        -c "$clone/pyproject.toml" "$clone/tests/$folder" "$@" ${ARGS:-}) || code=$?
    [ "$code" = $NOTHING_CHOSEN ] || ran=1
    return "$code"
}

# One pass of tests/system: NAME for the report, then how it is chosen.
system() { # NAME PASS
    chosen=$(choose "$2")
    [ -n "$chosen" ] || return 0
    name="$tag: tests/system $1"
    if [ "$PYHYBRID_TEST_AS" = root ] && [ "$(id -u)" != 0 ]; then
        run "$name" not_root
        return
    fi
    before=$(wc -l <"$PYHYBRID_COUNTS")
    run "$name" run_pytest system -n "$workers" --dist worksteal -m "($chosen) and not alone"
    run "$name, alone" run_pytest system -m "($chosen) and alone"
    # Of both sessions: each found all tests of the pass.
    : "${left:=$(($(counted there "$before") / 2 - $(counted chosen "$before")))}"
}

not_root() {
    echo "not root: the pass as root is left out"
    return $LEFT_OUT
}

# ASan's library must be the first of a program that is not built with it; C++'s comes next, since ASan looks then for
# what throws.  CPython leaves memory behind, and with its own allocator ASan would not see where an object ends.
under_sanitizer() { # COMMAND...
    for_asan=
    case ${SAN:-} in
    *address*)
        for_asan="LD_PRELOAD=$(cc -print-file-name=libasan.so):$(cc -print-file-name=libstdc++.so.6) PYTHONMALLOC=malloc"
        ;;
    esac
    # shellcheck disable=SC2086  # two words or none
    env ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $for_asan "$@"
}

# What depends on how the interpreter executes code.
has_jit() { "$python" -c 'import sys; sys.exit(not sys._jit.is_available())' 2>/dev/null; }

with_jit() {
    files='test_join or test_counts or test_truths or test_halves or test_codes_die or test_c_calls'
    export PYTHON_JIT=1 PYTEST_ADDOPTS="-k '$files or test_lines'"
    system "as root, with the interpreter's JIT" "$1"
    unset PYTHON_JIT PYTEST_ADDOPTS
}

[ -z "$perf" ] || PATH=$(dirname "$perf"):$PATH
export PYTHONDONTWRITEBYTECODE=1
plain_path=$PATH
san=${SAN:+-$(echo "$SAN" | tr ',' '-')}
as_root=first as_user=user
while read -r tag interpreter <&3; do
    printf '\n=== %s: set-up (%s, after %s)\n' "$tag" "$interpreter" "$(so_far)"
    venv=.venvs/$tag$san
    # shellcheck disable=SC2086  # a list of words
    tools=$(scripts/venv.sh "$interpreter" "$venv" $needed)
    python=$clone/$venv/bin/python
    PATH=$clone/$venv/bin:$tools:$plain_path
    case $what-$as_root-${PYHYBRID_SLICE:-} in # they know nothing of an interpreter
    most-first-* | unit-* | all-* | slice-further-1/*) run "$tag: tests/c" c_tests ;;
    esac
    case ${SAN:-} in *thread*) continue ;; esac
    case $what-$as_root-${SAN:-} in # they know nothing of an interpreter
    most-first- | all-first-) fuzz=$clone/tests/fuzz ;;
    *) fuzz= ;;
    esac
    # shellcheck disable=SC2086  # a folder or none
    run "$tag: tests/unit${fuzz:+ and tests/fuzz}" run_pytest unit $fuzz -n "$(nproc)" -m "$(choose "unit-$as_root")"
    [ "$what" != unit ] || break
    export PYHYBRID_TEST_AS=root
    system "as root" $as_root
    ! has_jit || with_jit $as_root
    export PYHYBRID_TEST_AS=user
    launcher="$python -P $clone/tests/as_user.py"
    system "as an ordinary user, without perf_event" $as_user
    unset PYHYBRID_TEST_AS launcher
    as_root=further as_user=others
done 3<<EOF
$pythons
EOF

if [ -n "${ARGS:-}" ] && [ -z "$ran" ]; then
    report="$report
  no test at all was chosen by $ARGS" failed=1
fi
commit=$(git rev-parse --short HEAD 2>/dev/null) || commit=unknown
printf '\n=== scripts/test.sh%s (commit %s)%s\n' "${1:+ $*}" "$commit" "$report"
printf '%s: %s passed, %s skipped, %s failed, in %s' "$([ -z "$failed" ] && echo passed || echo FAILED)" "$(counted passed)" \
    "$(counted skipped)" "$(counted failed)" "$(so_far)"
case $what in
most) echo "; left to make test-all: ${left:-0} tests, and all in each further interpreter and as an ordinary user" ;;
unit) echo "; left to make test: tests/system and tests/fuzz" ;;
*) echo ;;
esac
[ -z "$failed" ]
