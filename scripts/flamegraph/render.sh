#!/bin/sh
# A flame graph of folded stacks, Python and native frames told apart by colour:
#
#     scripts/flamegraph/render.sh out.folded >out.svg
#     scripts/flamegraph/render.sh out.folded --width 1800 >out.svg
#
#   blue    Python: `qualname (file.py:12)`
#   orange  C++: a demangled name
#   yellow  C: the interpreter, libc, kernels written in assembly
#   green   the kernel: `vfs_read_[k]`, `[kernel]`
#   grey    `[pseudo]` frames
#
# What follows the file goes to flamegraph.pl, which is $FLAMEGRAPH, or on PATH, or Debian's.  It has
# no palette like ours, but it takes the colour of a name from a file `palette.map` in its folder.
# It writes < and > as ( and ), and its bottom frame has no name.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 FOLDED [OPTION...] >SVG" >&2; exit 2; }
folded=$1
shift
flamegraph=$("$(dirname "$0")/find.sh")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed 's/ [0-9.]*$//' "$folded" | tr ';<>' '\n()' | sort -u | awk '
    BEGIN { print "->rgb(225,225,225)" }
    function shade(name,    i, h) { # 0 to 30, the same for a name in every picture
        for (i = 1; i <= length(name); i++)
            h = (h * 31 + index("etaoinshrdlucmfwypvbgkjqxz_0123456789", substr(name, i, 1))) % 65521
        return h % 31
    }
    {
        s = shade($0)
        if ($0 ~ /_\[k\]$/ || $0 == "[kernel]") colour = 110 + s "," 190 + s "," 110 + s
        else if ($0 ~ / \(.*[^:]:[0-9]+\)$/) colour = 70 + s "," 145 + s "," 225
        else if ($0 ~ /^\[/) colour = 190 + s / 2 "," 190 + s / 2 "," 190 + s / 2
        else if ($0 ~ /::|[(]/) colour = 245 "," 130 + s "," 60 + s
        else colour = 240 "," 200 + s "," 90 + s
        print $0 "->rgb(" colour ")"
    }' >"$scratch/palette.map"

input=$(realpath "$folded")
cd "$scratch"
perl "$flamegraph" --cp --minwidth 1 --colors orange --countname samples --title "$(basename "$folded")" "$@" "$input"
