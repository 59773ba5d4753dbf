#!/bin/sh
# make docs: the site, into build/docs.  Warnings are errors, broken links within the site are warnings,
# and the network is not used.
#
#     scripts/docs.sh                        into build/docs
#     scripts/docs.sh --site FOLDER [NAME]   into FOLDER/NAME (the version), beside those of other versions, which stay;
#                                            each page then lets one choose another version; SITE= is where FOLDER will be
#                                            on its server (default /)
#
# All pages are read anew (-E), for some are made from the source.  Needs pyhybrid installed, since options, formats and the API's pages are made from it.
set -eu
cd "$(dirname "$0")/.."

site= name= output=build/docs
if [ "${1:-}" = --site ]; then
    site=${2:?which folder}
    name=${3:-$(sed -n 's/^__version__ = "\(.*\)"/\1/p' pyhybrid/__init__.py)}
    output=$site/$name
fi
found=$(scripts/pythons.sh first)
python=.venvs/site/bin/python
scripts/venv.sh "${found#* }" .venvs/site build docs >/dev/null
PYHYBRID_SITE_NAME=$name "$python" -P -m sphinx -q -E -W --keep-going -b html -d build/docs.doctrees docs "$output"
echo "$(realpath "$output")/index.html"

# The names that are versions come first, the newest before all; where there is a release, it is what the folder opens.
[ -z "$site" ] || SITE=${SITE:-/} "$python" -P - "$site" <<'END'
import json, os, sys
from pathlib import Path
from packaging.version import InvalidVersion, Version

def order(name):
    try:
        return True, Version(name)
    except InvalidVersion:
        return False, name

folder = Path(sys.argv[1])
names = sorted((each.parent.name for each in folder.glob("*/objects.inv")), key=order, reverse=True)
released = [each for each in names if order(each)[0] and not order(each)[1].is_prerelease]
first = (released or names)[0]
known = [{"version": each, "url": os.environ["SITE"].rstrip("/") + f"/{each}/"} for each in names]
for each in known:
    each["preferred"] = each["version"] == first
(folder / "versions.json").write_text(json.dumps(known, indent=1) + "\n")
(folder / "index.html").write_text(
    f'<!doctype html>\n<meta http-equiv="refresh" content="0; url={first}/">\n<a href="{first}/">{first}</a>\n'
)
END
