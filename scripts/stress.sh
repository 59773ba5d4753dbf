#!/bin/sh
# make stress: tests/system/sampler/test_stress.py on every interpreter, each of its tests for minutes.
set -eu
cd "$(dirname "$0")/.."

scripts/packages.sh build unit view test
export PYHYBRID_STRESS_S="${DURATION:-180}" PYTHONDONTWRITEBYTECODE=1
scripts/pythons.sh | while read -r tag interpreter; do
    printf '\n=== %s (%s)\n' "$tag" "$interpreter"
    scripts/venv.sh "$interpreter" ".venvs/$tag" build test torch >/dev/null
    # shellcheck disable=SC2086  # ARGS is a list of words
    .venvs/"$tag"/bin/python -P -m pytest -p no:cacheprovider tests/system/sampler/test_stress.py ${ARGS:-} </dev/null
done
