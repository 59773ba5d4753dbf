#!/bin/sh
# Installs the system packages of the given groups (scripts/packages.txt) that are missing:
#
#     scripts/packages.sh build view
#
# As root, or with sudo that asks for no password.  Otherwise it prints the one line to type, and
# fails when a package of the group `build` is missing: without the others some steps are left
# out, and say so.  Where there is no dpkg it prints the list and goes on.
set -eu
cd "$(dirname "$0")/.."

say() { echo "packages: $*" >&2; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# The packages of one group; the distribution's own interpreters need their headers as well.
wanted() {
    sed -n "s/^$1  *//p" scripts/packages.txt
    [ "$1" = build ] || return 0
    for python in /usr/bin/python3.[0-9]*; do
        version=${python#/usr/bin/python}
        case $version in
        3.12 | 3.13 | 3.14 | 3.15) echo "python$version-dev" && echo "python$version-venv" ;;
        esac
    done
}

# Lines `package|alternative` of the groups "$@" of which nothing is installed.
missing() {
    for group in "$@"; do
        wanted "$group" | while IFS= read -r line; do
            found=
            for package in $(echo "$line" | tr '|' ' '); do
                if installed "$package"; then found=1; fi
            done
            [ -n "$found" ] || echo "$line"
        done
    done
}

# Of each line on stdin, the first alternative that apt knows (else the first).
choose() {
    while IFS= read -r line; do
        choice=
        for package in $(echo "$line" | tr '|' ' '); do
            if [ -z "$choice" ] && apt-cache show "$package" >/dev/null 2>&1; then
                choice=$package
            fi
        done
        echo "${choice:-${line%%|*}}"
    done | tr '\n' ' '
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "not a Debian or Ubuntu system; this needs the equivalents of:"
    for group in "$@"; do wanted "$group"; done | tr '\n' ' ' >&2
    echo >&2
    exit 0
fi

lines=$(missing "$@")
[ -n "$lines" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif sudo -n true 2>/dev/null; then
    as_root='sudo -n'
else
    say "missing; please type:  sudo apt-get install $(echo "$lines" | choose)"
    [ -z "$(missing build)" ] || exit 1
    exit 0
fi

apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300"
$apt update >&2 || say "apt-get update failed; trying with the lists that are here"
packages=$(echo "$lines" | choose)
say "installing $packages"
# shellcheck disable=SC2086  # a list of words
$apt --no-install-recommends install $packages >&2 || {
    say "apt-get install $packages failed"
    [ -z "$(missing build)" ] || exit 1
}
