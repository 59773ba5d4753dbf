#!/bin/sh
# make demo: from a fresh clone to a profile of a training run, and three views of it.
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build view
found=$(scripts/pythons.sh first)
scripts/venv.sh "${found#* }" .venv build torch >/dev/null
clone=$PWD
python=$clone/.venv/bin/python
perf=$(scripts/find-perf.sh) || perf=

title() { printf '\n--- %s\n' "$*"; }

rm -rf demo
mkdir demo
cd demo

title "python -m pyhybrid --hz 999 examples/train.py"
"$python" -m pyhybrid --hz 999 "$clone/examples/train.py"

title "perf report"
if [ -n "$perf" ]; then
    "$perf" report --stdio --no-children -g none 2>/dev/null | grep -v '^#' | cut -c 1-150 | sed '/^$/d; 25q'
else
    echo "perf is not installed: skipped"
fi

title "flame graph"
../scripts/flamegraph/render.sh out.folded >out.svg && echo "$PWD/out.svg"

title "files"
ls -l "$PWD"
