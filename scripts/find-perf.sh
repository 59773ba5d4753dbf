#!/bin/sh
# Prints the path of a perf that works.  Ubuntu's /usr/bin/perf is a wrapper that refuses when there
# are no tools for the running kernel (in a container: the host's); any version reads a perf.data.
for path in "$(command -v perf)" /usr/lib/linux-tools/*/perf /usr/lib/linux-tools-*/perf; do
    if [ -x "$path" ] && "$path" --version >/dev/null 2>&1; then
        echo "$path"
        exit 0
    fi
done
exit 1
