#!/bin/sh
# make fuzz: tests/fuzz, the readers of other programs' files over damaged ones, and random programs,
# each for a minute; and tests/unit of what Hypothesis draws.
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build unit test
found=$(scripts/pythons.sh first)
# In `make test` the seed is the same each time; here it is not.
: "${PYHYBRID_FUZZ_SEED:=$(date +%s)}"
export PYHYBRID_FUZZ_SEED PYHYBRID_FUZZ_S="${DURATION:-60}" PYTHONDONTWRITEBYTECODE=1
scripts/venv.sh "${found#* }" ".venvs/${found%% *}" build test torch >/dev/null
failed=
fuzz() { # ARGUMENT...
    # shellcheck disable=SC2086  # ARGS is a list of words
    .venvs/"${found%% *}"/bin/python -P -m pytest -rs -s -p no:cacheprovider "$@" ${ARGS:-} </dev/null ||
        [ $? = 5 ] || failed=1 # (5: ARGS chose none of them)
}
fuzz tests/fuzz tests/system/exact/test_exact_properties.py tests/system/exact/test_lines.py::test_random_programs -m 'not slow'
fuzz tests/unit -m hypothesis --hypothesis-seed="$PYHYBRID_FUZZ_SEED"
[ -z "$failed" ]
