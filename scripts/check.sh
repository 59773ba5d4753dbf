#!/bin/sh
# make check: what can be found without running the program.  Every step runs, then it fails if
# any did.
#
#     scripts/check.sh          everything
#     scripts/check.sh quick    without a compiler and the site: seconds, for a hook of git's
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build check
found=$(scripts/pythons.sh first)
tools=$(scripts/venv.sh "${found#* }" .venv build check)
PATH=$PWD/.venv/bin:$tools:$PATH
build=build/check

failed=
step() { # NAME COMMAND...
    name=$1
    shift
    printf '\n=== %s\n' "$name"
    "$@" || {
        echo "FAILED: $name"
        failed="$failed, $name"
    }
}

warnings() {
    rm -rf "$build"
    meson setup "$build" . -Dwerror=true -Dbuildtype=debugoptimized >"$build.log" 2>&1 || {
        cat "$build.log"
        return 1
    }
    meson compile -C "$build"
}

# Our own files only, with the flags that they are built with.
static_analysis() {
    cppcheck --quiet --project="$build/compile_commands.json" --error-exitcode=1 --inline-suppr \
        -D__x86_64__ --enable=warning,performance,portability --suppress='*:*/include/python3*' \
        --suppress='*:/usr/include/*' -j 2
}

# To mend a file: clang-format -i FILE.
format() {
    git ls-files --cached --others --exclude-standard -- 'src/*.[ch]' 'tests/*.[ch]' |
        xargs clang-format --dry-run -Werror
}

mkdir -p build
[ "${CI:-}" = true ] || step "subject of the commit" scripts/subject.sh # CI's last commit may be a merge's own
step "heads of files" python -P scripts/map.py --check
step "docstrings" python -P scripts/docstrings.py
if [ "${1:-}" != quick ]; then
    step "compiler warnings" warnings
    step "signal-side symbols" scripts/check_signal_side.sh "$build"/src/*/lib*_signal.a
    step "cppcheck" static_analysis
    step "site" scripts/docs.sh
    step "page" scripts/page.sh --check
fi
step "clang-format" format
step "ruff" ruff check .
step "ruff format" ruff format --check .
step "rooms" lint-imports --no-cache --no-logo
step "mypy" python -P -m mypy --strict --cache-dir=build/mypy pyhybrid

[ -z "$failed" ] || {
    printf '\nmake check failed: %s\n' "${failed#, }"
    exit 1
}
printf '\nmake check: all passed\n'
