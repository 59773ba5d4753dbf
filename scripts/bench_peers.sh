#!/bin/sh
# make bench-peers: the same programs under other profilers.  See tests/bench/peers.py.
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build view
found=$(scripts/pythons.sh first)
tools=$(scripts/venv.sh "${found#* }" .venvs/peers build torch peers)
perf=$(scripts/find-perf.sh) && tools=$tools:$(dirname "$perf")
# shellcheck disable=SC2086  # ARGS is a list of words
PATH=$tools:$PATH .venvs/peers/bin/python tests/bench/peers.py --pairs "${PAIRS:-15}" ${ARGS:-}
