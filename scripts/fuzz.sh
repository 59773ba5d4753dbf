#!/bin/sh
# make fuzz: tests/fuzz, the readers of other programs' files over damaged ones, each for a minute.
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build test
found=$(scripts/pythons.sh first)
# In `make test` the seed is the same each time; here it is not.
: "${PYHYBRID_FUZZ_SEED:=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"
export PYHYBRID_FUZZ_SEED PYHYBRID_FUZZ_S="${DURATION:-60}" PYTHONDONTWRITEBYTECODE=1
scripts/venv.sh "${found#* }" ".venvs/${found%% *}" build test torch >/dev/null
# shellcheck disable=SC2086  # ARGS is a list of words
.venvs/"${found%% *}"/bin/python -P -m pytest -rs -s -p no:cacheprovider tests/fuzz ${ARGS:-} </dev/null
