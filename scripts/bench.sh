#!/bin/sh
# make bench: the figures that the docs state, measured here.  See tests/bench/run.py.
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build
found=$(scripts/pythons.sh first)
scripts/venv.sh "${found#* }" .venv build torch test >/dev/null
# shellcheck disable=SC2086  # ARGS is a list of words
.venv/bin/python tests/bench/run.py --pairs "${PAIRS:-15}" ${ARGS:-}
