#!/bin/sh
# A differential flame graph of two runs:
#
#     scripts/flamegraph/diff.sh before.folded after.folded >diff.svg
#
# Widths are those of the second run; red grew, blue shrank.  The first run is scaled to the total
# of the second, so that a longer run alone does not colour everything.  A path that is gone has no
# width: swap the files, with --negate, to see it.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 BEFORE AFTER [OPTION...] >SVG" >&2; exit 2; }
before=$1 after=$2
shift 2
flamegraph=$("$(dirname "$0")/find.sh")

# One line a stack: the stack, its count before, its count after.
awk '
    { count = $NF; sub(/ [0-9.]+$/, "") }
    FNR == NR { first[$0] += count; total1 += count; next }
    { second[$0] += count; total2 += count }
    END {
        scale = total1 ? total2 / total1 : 1
        for (stack in first) printf "%s %d %d\n", stack, first[stack] * scale + 0.5, second[stack]
        for (stack in second) if (!(stack in first)) printf "%s 0 %d\n", stack, second[stack]
    }' "$before" "$after" |
    perl "$flamegraph" --countname samples --title "$(basename "$before") to $(basename "$after")" "$@"
