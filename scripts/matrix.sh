#!/bin/sh
# make matrix: `make test-all` on the interpreters of Debian sid (CPython 3.14 and 3.15), in a chroot, and on one of tail
# calls, which these are not: 3.14, built there.
#
# Needs root and debootstrap.  The chroot is made once, in $XDG_CACHE_HOME/pyhybrid/matrix (default
# ~/.cache; 1.3 GB, and 5.4 GB of torch for each version); remove the folder to have it made anew.
# MIRROR= is where Debian's packages come from, SOURCE= CPython's source (empty: without it).
set -eu
cd "$(dirname "$0")/.."

clone=$PWD
chroot=${XDG_CACHE_HOME:-$HOME/.cache}/pyhybrid/matrix
mirror=${MIRROR:-http://deb.debian.org/debian}
versions="3.14 3.15"
source=${SOURCE-https://www.python.org/ftp/python/3.14.7/Python-3.14.7.tar.xz}
tail_calls=/opt/tail-calls

say() { echo "matrix: $*" >&2; }

[ "$(id -u)" = 0 ] || {
    say "a chroot is made and entered by root only"
    exit 1
}

# Mounts that nobody else sees, and that end with this script.
if [ "${PYHYBRID_MATRIX_INSIDE:-}" != 1 ]; then
    scripts/packages.sh matrix
    PYHYBRID_MATRIX_INSIDE=1 exec unshare --mount --propagation private "$clone/scripts/matrix.sh" "$@"
fi

# How this machine reaches the network, as far as it is set.
for name in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_EXTRA_INDEX_URL; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || set -- "$@" "$name=$value"
done
network=$(printf '%s\n' "$@")

inside() { # COMMAND...
    # shellcheck disable=SC2086  # words without spaces
    chroot "$chroot" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive CI="${CI:-}" ARGS="${ARGS:-}" SAN="${SAN:-}" $network "$@"
}

mkdir -p "$chroot"
exec 9>"$chroot.lock"
flock 9
if [ ! -e "$chroot/.complete" ]; then
    say "making $chroot"
    rm -rf "$chroot"
    debootstrap --variant=minbase --include=ca-certificates sid "$chroot" "$mirror" >"$chroot.log" 2>&1 || {
        tail "$chroot.log"
        exit 1
    }
    # A mirror may be a snapshot.
    echo 'Acquire::Check-Valid-Until "false";' >"$chroot/etc/apt/apt.conf.d/matrix"
fi

# Names, pip's index and certificates are this machine's.
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || cp --dereference "$file" "$chroot$file"
done
mount --bind "$chroot" "$chroot" # tests/as_user.py wants `/` to be a mount
for folder in proc sys dev; do
    mount --rbind "/$folder" "$chroot/$folder"
done
mount -t tmpfs -o mode=1777 tmpfs "$chroot/tmp"

packages=$(for v in $versions; do echo "python$v-dev" "python$v-venv" "libpython$v-testsuite"; done)
if [ "$(cat "$chroot/.complete" 2>/dev/null)" != "$packages" ]; then
    # shellcheck disable=SC2086  # a list of words
    { inside apt-get -q update && inside apt-get -q -y --no-install-recommends install $packages; } \
        >>"$chroot.log" 2>&1 || {
        tail "$chroot.log"
        exit 1
    }
    echo "$packages" >"$chroot/.complete"
fi

# Much as those release it who build with clang: with link-time optimization, which inlines the eval loop, and stripped.
# shellcheck disable=SC2016  # words of the shell inside
if [ -n "$source" ] && [ ! -e "$chroot$tail_calls/.complete" ]; then
    say "building CPython with tail calls"
    inside PREFIX="$tail_calls" SOURCE="$source" sh -euc '
        apt-get -q -y --no-install-recommends install gcc make pkg-config xz-utils \
            libbz2-dev libffi-dev liblzma-dev libsqlite3-dev libssl-dev zlib1g-dev
        rm -rf "$PREFIX" /usr/src/cpython
        mkdir /usr/src/cpython
        cd /usr/src/cpython
        python3.14 -c "import os, urllib.request as u; u.urlretrieve(os.environ[\"SOURCE\"], \"source.tar.xz\")"
        tar -xf source.tar.xz --strip-components 1
        ./configure -q --prefix="$PREFIX" --with-tail-call-interp --with-lto
        make -s -j "$(nproc)"
        make -s install
        strip --strip-debug "$PREFIX"/bin/python3.14
        cd "$PREFIX"
        rm -rf /usr/src/cpython
        bin/python3 -c "import bz2, ctypes, lzma, sqlite3, ssl, sysconfig
assert sysconfig.get_config_var(\"Py_TAIL_CALL_INTERP\")"
        touch .complete
    ' >>"$chroot.log" 2>&1 || {
        tail "$chroot.log"
        exit 1
    }
fi

# The files as they are here; what was built there before stays.
mkdir -p "$chroot/srv/pyhybrid"
(cd "$chroot/srv/pyhybrid" && find . -mindepth 1 -maxdepth 1 ! -name build ! -name .venvs -exec rm -rf {} +)
git -C "$clone" ls-files -z --cached --others --exclude-standard |
    xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' - |
    tar --create --null --files-from=- | tar --extract --directory "$chroot/srv/pyhybrid" --no-same-owner
pythons=$(for v in $versions; do echo "/usr/bin/python$v"; done)
inside env PYTHON="$pythons${source:+ $tail_calls/bin/python3}" \
    sh -c 'cd /srv/pyhybrid && scripts/test.sh all'
