#!/bin/sh
# make test: for every interpreter, the C unit tests, tests/unit, and tests/system twice, as root
# and as an ordinary user whom perf_event is refused; some of it again with the interpreter's JIT, where
# there is one; tests/fuzz with the first.  Runs everything, then fails if anything did.
#
# PYHYBRID_TEST_AS (root or user) tells a test which pass it is in.  With CI=true nothing that a
# pass must have (torch, perf, root) may be missing.  With SAN=address, undefined or both the extension
# is built with these sanitizers, too, and runs the tests that they can; with SAN=thread, which puts off
# signals, the C tests alone.
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build view test
pythons=$(scripts/pythons.sh)
perf=$(scripts/find-perf.sh) || perf=
clone=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
export TMPDIR="$scratch"

failed=
report=
export PYHYBRID_FAILURES="$scratch/failures"
fuzzed=${SAN:-}

run() { # PASS COMMAND...
    pass=$1
    shift
    printf '\n=== %s\n' "$pass"
    code=0
    : >"$PYHYBRID_FAILURES"
    chmod 666 "$PYHYBRID_FAILURES"
    "$@" || code=$?
    word=passed
    if [ "$code" = 77 ] && [ "${CI:-}" != true ]; then
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
    meson test -C "$build" --print-errorlogs
}

# From another folder, because in the clone `import pyhybrid` finds the folder of that name, which
# lacks what was compiled; and nothing is written there, because an ordinary user could not.
run_pytest() { # FOLDER [LAUNCHER...]
    folder=$1
    shift
    # shellcheck disable=SC2086  # ARGS is a list of words
    (cd "$scratch" && under_sanitizer "$@" "$python" -P -m pytest -rs -p no:cacheprovider \
        -c "$clone/pyproject.toml" "$clone/tests/$folder" ${ARGS:-})
}

# ASan's library must be the first of a program that is not built with it.  CPython leaves memory behind,
# and with its own allocator ASan would not see where an object ends.
under_sanitizer() { # COMMAND...
    for_asan=
    case ${SAN:-} in
    *address*) for_asan="LD_PRELOAD=$(cc -print-file-name=libasan.so) PYTHONMALLOC=malloc" ;;
    esac
    # shellcheck disable=SC2086  # two words or none
    env ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $for_asan "$@"
}

as_root() {
    if [ "$(id -u)" != 0 ]; then
        echo "not root: the pass as root is left out"
        return 77
    fi
    PYHYBRID_TEST_AS=root run_pytest system
}

# What depends on how the interpreter executes code.
has_jit() { "$python" -c 'import sys; sys.exit(not sys._jit.is_available())' 2>/dev/null; }

with_jit() {
    files='test_join or test_counts or test_truths or test_halves or test_codes_die or test_c_calls'
    PYTHON_JIT=1 PYTEST_ADDOPTS="-k '$files or test_lines'" as_root
}

as_user() {
    PYHYBRID_TEST_AS=user run_pytest system "$python" -P "$clone/tests/as_user.py"
}

[ -z "$perf" ] || PATH=$(dirname "$perf"):$PATH
export PYTHONDONTWRITEBYTECODE=1
plain_path=$PATH
san=${SAN:+-$(echo "$SAN" | tr ',' '-')}
while read -r tag interpreter <&3; do
    printf '\n=== %s: set-up (%s)\n' "$tag" "$interpreter"
    venv=.venvs/$tag$san
    tools=$(scripts/venv.sh "$interpreter" "$venv" build test torch)
    python=$clone/$venv/bin/python
    PATH=$clone/$venv/bin:$tools:$plain_path
    run "$tag: tests/c" c_tests
    case ${SAN:-} in *thread*) continue ;; esac
    run "$tag: tests/unit" run_pytest unit
    [ -n "$fuzzed" ] || run "$tag: tests/fuzz" run_pytest fuzz
    fuzzed=1
    run "$tag: tests/system as root" as_root
    ! has_jit || run "$tag: tests/system as root, with the interpreter's JIT" with_jit
    run "$tag: tests/system as an ordinary user, without perf_event" as_user
done 3<<EOF
$pythons
EOF

printf '\n=== make test%s\n' "$report"
[ -z "$failed" ]
