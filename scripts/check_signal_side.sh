#!/bin/sh
# What the signal side may call: compares the undefined symbols of its objects with a list.
#
#     scripts/check_signal_side.sh build/check/libsignal_side.a
#
# Everything that the signal handler runs is in this archive, so a call to malloc, to a lock or into
# Python shows up here as a symbol that is not in scripts/signal_side_allowed.txt.
set -eu
archive=${1:?the path of libsignal_side.a}
allowed=$(dirname "$0")/signal_side_allowed.txt

[ -e "$archive" ] || {
    echo "no such archive: $archive"
    exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# nm's letters: U w v undefined, the other capitals defined for others to use.
symbols() { # LETTERS
    nm --format=posix "$archive" | awk -v letters="^[$1]\$" '$2 ~ letters { print $1 }' | sort -u
}

symbols Uwv >"$scratch/undefined"
symbols A-TV-Z >"$scratch/defined"
sed 's/[[:space:]]*#.*//; /^$/d' "$allowed" | sort -u >"$scratch/allowed"
comm -23 "$scratch/undefined" "$scratch/defined" | comm -23 - "$scratch/allowed" >"$scratch/foreign"

[ ! -s "$scratch/foreign" ] || {
    echo "used on the signal side, but not in $allowed:"
    sed 's/^/    /' "$scratch/foreign"
    exit 1
}
echo "$(wc -l <"$scratch/undefined") undefined symbols, all allowed"
