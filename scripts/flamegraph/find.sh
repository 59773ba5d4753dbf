#!/bin/sh
# Prints where flamegraph.pl is: $FLAMEGRAPH, on PATH, or in Debian's libdevel-nytprof-perl.
for path in "${FLAMEGRAPH:-}" "$(command -v flamegraph.pl)" /usr/share/perl5/Devel/NYTProf/flamegraph.pl; do
    if [ -n "$path" ] && [ -e "$path" ]; then
        realpath "$path"
        exit 0
    fi
done
echo "no flamegraph.pl: apt-get install libdevel-nytprof-perl, or set FLAMEGRAPH=/path/to/it" >&2
exit 1
