#!/bin/sh
# Makes the virtual environment VENV for the interpreter PYTHON, with pyhybrid built and installed:
#
#     scripts/venv.sh PYTHON VENV NAME...      e.g.  scripts/venv.sh /usr/bin/python3 .venv build torch
#
# What requirements/NAME.txt lists is heavy and seldom changes (torch: 5 GB), so it is installed
# once, into $XDG_CACHE_HOME/pyhybrid/PYTHONVERSION-NAME-HASH (default ~/.cache), and VENV only has
# a .pth file that points there.  A cached environment counts when its file `.complete`, written
# last, is there; clones share it.  Remove the folder to get the space back.  `NAME?` is left out
# where it is not cached.
#
# With SAN=address (or others) it is built with these sanitizers.  What has not changed since the last time is not
# built again.
#
# Prints the folders of the tools that came along (meson, pytest, ruff...), to be put on PATH.
set -eu
cd "$(dirname "$0")/.."
python=$1 venv=$2
shift 2

cache=${XDG_CACHE_HOME:-$HOME/.cache}/pyhybrid
version=$("$python" -I -c 'import platform; print(platform.python_version())')
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

say() { echo "venv: $*" >&2; }

site_packages() { "$1" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

make_venv() { # FOLDER OPTION...
    folder=$1
    shift
    rm -rf "$folder"
    "$python" -m venv "$@" "$folder" || {
        say "$python cannot make virtual environments (Debian, Ubuntu: the package python${version%.*}-venv)"
        exit 1
    }
}

place() { # NAME: where its environment is, or will be
    echo "$cache/$version-$1-$(sha256sum "requirements/$1.txt" | cut -c 1-12)"
}

cached() { # NAME: sets $env
    env=$(place "$1")
    mkdir -p "$cache"
    exec 9>"$env.lock"
    flock 9
    if [ ! -e "$env/.complete" ] || ! "$env/bin/python" -c '' 2>/dev/null; then
        [ "$1" != torch ] || say "installing torch for Python $version: about 5 GB on disk, once"
        say "$env"
        make_venv "$env"
        alone=
        [ "$1" != trainers ] || alone=--no-deps # torch is in another list
        # shellcheck disable=SC2086  # one word or none
        "$env/bin/python" -m pip install --quiet $alone -r "requirements/$1.txt" >&2
        touch "$env/.complete"
    fi
    exec 9>&-
}

# 1. VENV itself, made anew when it is another interpreter's, whose objects are of no use.  It borrows pip
# from the cache.
name=$(basename "$venv")
objects=build/${name#.}
base=$("$python" -I -c 'import os, sys; print(os.path.realpath(sys._base_executable or sys.executable))')
if ! [ "$("$venv/bin/python" -I -c 'import os, sys; print(os.path.realpath(sys.executable))' 2>/dev/null)" = "$base" ]; then
    rm -rf "$objects"
    make_venv "$venv" --without-pip
fi
site=$(site_packages "$venv/bin/python")

# 2. What it needs.  An interpreter that has a torch of its own keeps it.
tools=
for each in "$@"; do
    name=${each%\?} own=
    optional=${each#"$name"}
    if [ "$name" = torch ]; then
        own=$("$python" -P -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null) || own=
    fi
    if [ -n "$own" ]; then
        say "using the torch that $python has"
        echo "$own" >"$site/_pyhybrid_torch.pth"
    elif [ -z "$optional" ] || [ -e "$(place "$name")/.complete" ]; then
        cached "$name"
        site_packages "$env/bin/python" >"$site/_pyhybrid_$name.pth"
        tools=${tools:+$tools:}$env/bin
        [ "$name" != build ] || builder=$env
    fi
done

# 3. pyhybrid.  The build folder stays, so that a second build only compiles what changed.
unchanged() {
    [ -e "$venv/.built" ] && [ -z "$(find meson.build meson.options pyproject.toml README.md src pyhybrid tests/c \
        scripts/table_as_json.py scripts/venv.sh -newer "$venv/.built" -print -quit)" ]
}
if ! unchanged; then
    set --
    [ -z "${SAN:-}" ] || for option in b_sanitize="$SAN" b_lundef=false buildtype=debugoptimized; do
        set -- "$@" "-Csetup-args=-D$option"
    done
    touch "$venv/.begun"
    PATH=$tools:$PATH "${builder:?the requirements build are always needed}/bin/python" -m pip \
        --python "$venv/bin/python" install --quiet --no-deps --no-build-isolation \
        -Cbuild-dir="$objects" "$@" . >&2
    mv "$venv/.begun" "$venv/.built"
fi
ln -sfn "$objects/compile_commands.json" . # for editors
echo "$tools"
