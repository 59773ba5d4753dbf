#!/bin/sh
# What wheels are linked with, of the packages and sources that scripts/wheels.txt lists (scripts/wheels.sh uses it):
#
#     scripts/wheel_libraries.sh folder       prints a folder that has `root`, an older C library with its headers and
#                                             all libraries, compilers `cc` and `c++` that know nothing else, and
#                                             `licences`; made once, in $XDG_CACHE_HOME/pyhybrid/wheels-HASH (~/.cache)
#     scripts/wheel_libraries.sh install      elfutils and SQLite into /usr/local, in an image whose C library is as old
#                                             itself (.github/workflows/wheels.yml)
#
# elfutils is built without debuginfod, whose client would bring curl along, and SQLite, static, without what needs a
# newer C library.  MIRROR= is where Debian's files come from; each is checked by its SHA-256.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C

fetch() { # FOLDER USE...: the files into FOLDER
    folder=$1
    shift
    mkdir -p "$folder"
    for use; do sed -n "s/^$use  *//p" scripts/wheels.txt; done | while read -r path sum; do
        file=$folder/${path##*/}
        curl --fail --silent --show-error --location --retry 3 -o "$file" "${MIRROR:-http://deb.debian.org}/$path"
        echo "$sum  $file" | sha256sum --check --quiet
    done
}

sources() { # FOLDER: unpacks FOLDER/files there, with Debian's patches
    for file in "$1"/files/*.orig.tar.*; do
        name=$(basename "${file%%.orig.tar*}")
        mkdir "$1/$name"
        tar -C "$1/$name" --strip-components 1 -xf "$file"
        for patches in "$1/files/$name"-*.debian.tar.*; do
            [ -e "$patches" ] || continue
            tar -C "$1/$name" -xf "$patches"
            sed '/^#/d; /^$/d' "$1/$name/debian/patches/series" | while read -r patch; do
                patch -d "$1/$name" -p1 -s <"$1/$name/debian/patches/$patch"
            done
        done
    done
}

# Builds what is in FOLDER for PREFIX, into DESTDIR.
build() { # FOLDER DESTDIR PREFIX LIBDIR
    (
        cd "$1"/sqlite3_*
        ./configure -q --disable-tcl --disable-shared >/dev/null
        make -s sqlite3.c sqlite3.h >/dev/null
        $CC -O2 -fPIC -ffile-prefix-map="$1=." -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_THREADSAFE=1 -DSQLITE_DQS=0 \
            -c sqlite3.c -o sqlite3.o
        ar rcD libsqlite3.a sqlite3.o
        install -D -m 644 sqlite3.h -t "$2$3/include"
        install -D -m 644 libsqlite3.a -t "$2$4"
        mkdir -p "$2$4/pkgconfig"
        printf '%s\n' "libdir=$4" "Name: SQLite" "Description: static" "Version: $(cat VERSION)" \
            "Libs: -L\${libdir} -lsqlite3" >"$2$4/pkgconfig/sqlite3.pc"
    )
    (
        cd "$1"/elfutils_*
        ./configure -q --prefix="$3" --libdir="$4" --disable-debuginfod --disable-libdebuginfod --disable-nls \
            --disable-demangler --with-zlib --with-bzlib --with-lzma --with-zstd \
            CFLAGS="-O2 -pthread -ffile-prefix-map=$1=." LDFLAGS=-pthread
        for part in lib libcpu libelf libebl libdwelf libdwfl backends libdw; do make -s -C $part -j "$(nproc)"; done
        for part in libelf libebl libdwelf libdwfl libdw config; do make -s -C $part install DESTDIR="$2"; done
        rm -f "$2$4/libelf.a" "$2$4/libdw.a"
        strip --strip-unneeded "$2$4"/libelf-*.so "$2$4"/libdw-*.so
    ) >"$1/elfutils.log" 2>&1 || {
        tail -n 30 "$1/elfutils.log" >&2
        return 1
    }
}

# A compiler that finds libraries in FOLDER/root alone.  (Debian's have their own folder before that of --sysroot.)
compiler() { # FOLDER NAME PROGRAM
    cat >"$1/$2" <<'END'
#!/bin/sh
root=$(dirname "$0")/root
libraries=$root/usr/lib/x86_64-linux-gnu
exec PROGRAM --sysroot="$root" -B"$libraries" -L"$libraries" -L"$root/lib/x86_64-linux-gnu" \
    -Wl,-rpath-link,"$root/lib/x86_64-linux-gnu:$libraries" "$@"
END
    sed -i "s|PROGRAM|$(command -v "$3")|" "$1/$2"
    chmod +x "$1/$2"
}

# Licences of what auditwheel will bundle, into FOLDER/licences.
licences() { # FOLDER ROOT
    mkdir "$1/licences"
    sed -n 's|^bundled .*/\([^_/]*\)_.*|\1|p' scripts/wheels.txt | while read -r name; do
        cp "$2/usr/share/doc/$name/copyright" "$1/licences/$name"
    done
    for name in COPYING-LGPLV3 COPYING-GPLV2 COPYING; do
        cp "$1"/elfutils_*/$name "$1/licences/elfutils-$name"
    done
}

case ${1:-} in
folder)
    hash=$(cat scripts/wheels.txt scripts/wheel_libraries.sh | sha256sum | cut -c 1-12)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/pyhybrid/wheels-$hash
    mkdir -p "$cache"
    exec 9>"$cache.lock"
    flock 9
    if [ ! -e "$cache/.complete" ]; then
        echo "wheels: making $cache" >&2
        rm -rf "$cache"
        root=$cache/root triplet=/usr/lib/x86_64-linux-gnu
        fetch "$cache/files" libc bundled headers source patches
        for file in "$cache"/files/*.deb; do dpkg-deb -x "$file" "$root"; done
        find "$root" -type l -lname '/*' |
            while IFS= read -r link; do ln -sfnr "$root$(readlink "$link")" "$link"; done
        # libgcc's unwinder, which is linked in: that of newer systems asks what only newer C libraries have.
        mv "$root"/usr/lib/gcc/x86_64-linux-gnu/10/libgcc*.a "$root$triplet"
        rm -r "$root/usr/lib/gcc"
        compiler "$cache" cc gcc
        compiler "$cache" c++ g++
        sources "$cache"
        CC=$cache/cc CXX=$cache/c++ PKG_CONFIG_LIBDIR=$root$triplet/pkgconfig
        export CC CXX PKG_CONFIG_LIBDIR
        build "$cache" "$root" /usr "$triplet"
        sed -i "s|=/usr|=$root/usr|" "$root$triplet"/pkgconfig/*.pc
        licences "$cache" "$root"
        rm -rf "$cache"/elfutils_* "$cache"/sqlite3_*
        touch "$cache/.complete"
    fi
    echo "$cache"
    ;;
install)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    export CC="${CC:-gcc}"
    fetch "$work/files" source patches
    sources "$work"
    build "$work" "" /usr/local /usr/local/lib64
    ldconfig
    mkdir -p /usr/local/share/licences
    cp "$work"/elfutils_*/COPYING* /usr/local/share/licences
    for package in bzip2-libs xz-libs libzstd; do
        for file in /usr/share/licenses/$package/*; do cp "$file" "/usr/local/share/licences/$package-${file##*/}"; done
    done
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
