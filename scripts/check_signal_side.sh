#!/bin/sh
# What the signal side may call: compares the undefined symbols of its objects with a list.
#
#     scripts/check_signal_side.sh build/check/src/*/lib*_signal.a
#
# Everything that the signal handler runs is in these archives, so a call to malloc, to a lock or into
# Python shows up here as a symbol that is not in scripts/signal_side_allowed.txt.
set -eu
: "${1:?the paths of the archives lib*_signal.a}"
allowed=$(dirname "$0")/signal_side_allowed.txt

for archive; do
    [ -e "$archive" ] || {
        echo "no such archive: $archive"
        exit 1
    }
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# nm's letters: U w v undefined, the other capitals defined for others to use.
symbols() { # LETTERS
    awk -v letters="^[$1]\$" '$2 ~ letters { print $1 }' "$scratch/symbols" | sort -u
}

nm --format=posix "$@" >"$scratch/symbols"
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
