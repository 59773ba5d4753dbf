#!/bin/sh
# make release: what is uploaded for this commit, and that it is right; it uploads nothing.
#
#     scripts/release.sh                all of it
#     scripts/release.sh --no-tests     where CI has run them
#
# In turn: the tree is clean and the changelog has the version; `make test` and `make check`; the wheels, built twice,
# in two folders, with the same bytes (from the sdist, which is tried by that); `twine check`; each wheel installed and
# tried (scripts/try_wheel.py).  build/release has the files, SHA256SUMS and the list of what is in them (SBOM, CycloneDX);
# build/site the site, beside those of other versions if they have been laid there (scripts/docs.sh).
set -eu
cd "$(dirname "$0")/.."

say() { echo "release: $*" >&2; }
stop() {
    say "$*"
    exit 1
}

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' pyhybrid/__init__.py)
[ -z "$(git status --porcelain)" ] || stop "the tree has changes"
commit=$(git rev-parse HEAD)
grep -q "^## \[$version\]" CHANGELOG.md || stop "CHANGELOG.md has no [$version]"
! grep -q "^## \[$version\] - not released" CHANGELOG.md || say "CHANGELOG.md still says: [$version] - not released"

if [ "${1:-}" != --no-tests ]; then
    make test check
fi

out=build/release
rm -rf build/wheels "$out"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
scripts/wheels.sh
mv build/wheels/dist "$out"

say "again, elsewhere"
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
git clone -q --no-hardlinks . "$again/clone"
(cd "$again/clone" && scripts/wheels.sh)
(cd "$again/clone/build/wheels/dist" && sha256sum -- *) | (cd "$out" && sha256sum --check --quiet) ||
    stop "the second build differs"

build/wheels/tools/bin/twine check --strict "$out"/*
scripts/pythons.sh | while read -r tag python; do
    say "trying $tag"
    "$python" -m venv --clear "$again/$tag"
    "$again/$tag/bin/python" -m pip install --quiet pytest
    "$again/$tag/bin/python" -m pip install --quiet --no-index --find-links "$out" pyhybrid
    "$again/$tag/bin/python" scripts/try_wheel.py
done

scripts/docs.sh --site build/site
build/wheels/tools/bin/python scripts/wheel_contents.py --sbom "$version" >"$out/pyhybrid-$version.cdx.json"
[ "$(git rev-parse HEAD)" = "$commit" ] || stop "there was a commit meanwhile"
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
cat "$out/SHA256SUMS"
