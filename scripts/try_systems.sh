#!/bin/sh
# Tries the wheels of build/wheels/dist (make wheels) as their users have them: on Debian systems without a compiler, in
# chroots, as an ordinary user, on each CPython 3.12 to 3.15 that the system has; and that uninstalling leaves nothing.
#
#     scripts/try_systems.sh                       trixie, forky and sid: several patch releases of each version
#     scripts/try_systems.sh SUITE...              those
#     scripts/try_systems.sh SUITE=PREFIX          an interpreter of here, on a system that has none so new; with SUITE's
#                                                  packages that it needs in PACKAGES=
#
# Needs root and debootstrap.  Chroots are made once, in $XDG_CACHE_HOME/pyhybrid/systems (default ~/.cache; 0.5 GB each);
# MIRROR= is where Debian's packages come from.  What a run tries is scripts/try_wheel.py.
set -eu
cd "$(dirname "$0")/.."
clone=$PWD
systems=${XDG_CACHE_HOME:-$HOME/.cache}/pyhybrid/systems
mirror=${MIRROR:-http://deb.debian.org/debian}

say() { echo "systems: $*" >&2; }

[ "$(id -u)" = 0 ] || {
    say "a chroot is made and entered by root only"
    exit 1
}
# Mounts that nobody else sees, and that end with this script.
if [ "${PYHYBRID_SYSTEMS_INSIDE:-}" != 1 ]; then
    scripts/packages.sh matrix
    PYHYBRID_SYSTEMS_INSIDE=1 exec unshare --mount --propagation private "$clone/scripts/try_systems.sh" "$@"
fi

for name in http_proxy https_proxy no_proxy; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || network="${network:-} $name=$value"
done

inside() { # SUITE COMMAND...
    chroot=$systems/$1
    shift
    # shellcheck disable=SC2086  # words without spaces
    chroot "$chroot" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/tmp/home \
        DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 ${network:-} "$@"
}

prepare() { # SUITE
    chroot=$systems/$1
    if [ ! -e "$chroot/.complete" ]; then
        say "making $chroot"
        rm -rf "$chroot"
        mkdir -p "$systems"
        debootstrap --variant=minbase --include=ca-certificates "$1" "$chroot" "$mirror" \
            /usr/share/debootstrap/scripts/sid >"$chroot.log" 2>&1 || {
            tail "$chroot.log"
            exit 1
        }
        # A mirror may be a snapshot.
        echo 'Acquire::Check-Valid-Until "false";' >"$chroot/etc/apt/apt.conf.d/systems"
        chroot "$chroot" useradd --uid 1000 user
        touch "$chroot/.complete"
    fi
    for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$file" ] || cp --dereference "$file" "$chroot$file"
    done
    for folder in proc sys dev; do mount --rbind "/$folder" "$chroot/$folder"; done
    mount -t tmpfs -o mode=1777,exec tmpfs "$chroot/tmp"
    cp -r build/wheels/dist scripts/try_wheel.py "$chroot/tmp"
    build/wheels/tools/bin/python -m pip download --quiet --only-binary :all: --python-version 3.12 \
        --dest "$chroot/tmp/dist" pip pytest
    chmod -R a+rX "$chroot/tmp"
}

# Run inside, as the ordinary user.
# shellcheck disable=SC2016  # words of the shell inside
as_user='set -eu
mkdir -p "$HOME"
cd /tmp
rm -rf venv
"$0" -m venv --without-pip venv # not all have ensurepip
pip=$(echo dist/pip-*.whl)
venv/bin/python "$pip/pip" install --quiet --no-index "$pip"
venv/bin/python -m pip install --quiet --no-index --find-links dist pytest
venv/bin/python -m pip install --quiet --no-index --only-binary :all: --find-links dist pyhybrid
if command -v gcc cc; then echo "there is a compiler here" >&2; exit 1; fi
venv/bin/python try_wheel.py --uninstall'

failed=
for word in "${@:-trixie}" $([ $# -gt 0 ] || echo forky sid); do
    suite=${word%%=*}
    prepare "$suite"
    if [ "$suite" = "$word" ]; then
        inside "$suite" sh -c 'apt-get -q update && apt-get -q -y --no-install-recommends install $(
            apt-cache pkgnames python3.1 | grep -E "^python3[.]1[2-5]-venv$")' >>"$systems/$suite.log" 2>&1
        pythons=$(cd "$systems/$suite" && ls usr/bin/python3.1[2-5] | sed 's|^|/|')
    else
        prefix=${word#*=}
        [ -z "${PACKAGES:-}" ] || inside "$suite" sh -c "apt-get -q update && apt-get -q -y \
            --no-install-recommends install $PACKAGES" >>"$systems/$suite.log" 2>&1
        mkdir -p "$systems/$suite$prefix"
        chmod a+x "$systems/$suite/root"
        mount --bind "$prefix" "$systems/$suite$prefix"
        pythons=$(ls "$prefix"/bin/python3.1[2-5])
    fi
    for python in $pythons; do
        echo "=== $suite $python"
        inside "$suite" setpriv --reuid 1000 --regid 1000 --clear-groups sh -c "$as_user" "$python" || failed="$failed $suite:$python"
    done
done
[ -z "$failed" ] || say "failed:$failed"
[ -z "$failed" ]
