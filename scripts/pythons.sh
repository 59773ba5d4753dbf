#!/bin/sh
# Prints the interpreters to build for, one a line, as `TAG PATH`: every CPython >= 3.12 with
# headers and a GIL on PATH and in ~/.pyenv/versions, each installation once.
#
#     scripts/pythons.sh           all of them
#     scripts/pythons.sh first     the first one
#
# PYTHON=, when set, names the ones to use instead.  TAG is the version (3.12.1), with a suffix
# (3.12.1-2) where two installations have the same.
set -eu

# Runs in the candidate: prints version, installation and path (not that of a pyenv shim), or `-`
# and why not.  A shim of a version that is not selected prints nothing.
probe='
import os, platform, sys
def refuse(why):
    print("-", why)
    raise SystemExit
if sys.implementation.name != "cpython": refuse("is not CPython")
if sys.version_info < (3, 12): refuse("is older than 3.12")
import sysconfig
if sysconfig.get_config_var("Py_GIL_DISABLED"): refuse("is free-threaded")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    refuse("lacks its headers (python%d.%d-dev)" % sys.version_info[:2])
base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
print(platform.python_version(), base, sys.executable, sep="\t")
'

# Every path that may be one: NAMEs are looked up on PATH and in pyenv's versions.
candidates() {
    for name in ${PYTHON:-python3 python3.12 python3.13 python3.14 python3.15}; do
        case $name in
        */*) echo "$name" ;;
        *)
            echo "$PATH" | tr ':' '\n' | sed "s|\$|/$name|"
            printf '%s\n' "$HOME"/.pyenv/versions/*/bin/"$name"
            ;;
        esac
    done
}

found=$(candidates | while IFS= read -r path; do
    [ -x "$path" ] || continue
    answer=$("$path" -I -c "$probe" 2>/dev/null </dev/null) || answer=
    case $answer in
    '- is older'* | '') ;;
    '- '*) echo "pythons: left out: $path ${answer#- }" >&2 ;;
    *) echo "$answer" ;;
    esac
done | awk -F '\t' '!seen[$2]++ { print $1 (n[$1]++ ? "-" n[$1] : ""), $3 }')

if [ -z "$found" ]; then
    echo "pyhybrid needs CPython 3.12 or newer with its headers, and found none${PYTHON:+ in PYTHON=$PYTHON}:" \
        "install python3-dev and python3-venv where the system's python3 is that new," \
        "else 'pyenv install 3.13' (or name one: make PYTHON=/path/to/python3)" >&2
    exit 2
fi
if [ "${1:-}" = first ]; then
    echo "$found" | head -n 1
else
    echo "$found"
fi
