#!/bin/sh
# make docs: the site, into build/docs.  Warnings are errors, broken links within the site are warnings,
# and the network is not used.
#
# All pages are read anew (-E), for some are made from the source.  Needs pyhybrid installed, since options, formats and the API's pages are made from it.
set -eu
cd "$(dirname "$0")/.."

found=$(scripts/pythons.sh first)
python=.venvs/site/bin/python
scripts/venv.sh "${found#* }" .venvs/site build docs >/dev/null
"$python" -P -m sphinx -q -E -W --keep-going -b html -d build/docs.doctrees docs build/docs
echo "$PWD/build/docs/index.html"
