#!/bin/sh
# Makes the page's script and style, pyhybrid/exporters/page/page.js and page.css, of web/, and before
# that web/src/records.ts, the types of what the page reads, of the records that Python declares.
#
#     scripts/page.sh             and checks the types
#     scripts/page.sh --check     fails if those that are there are other ones
set -eu
cd "$(dirname "$0")/.."

folder=$PWD/pyhybrid/exporters/page
made=$folder
if [ "${1:-}" = --check ]; then
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
fi
types=web/src/records.ts
[ "$made" = "$folder" ] || types=$made/records.ts
python3 -P scripts/page_types.py "$types"
cmp "$types" web/src/records.ts || {
    echo "web/src/records.ts is not what Python declares: scripts/page.sh"
    exit 1
}
scripts/node_modules.sh web
(cd web && node_modules/.bin/tsc && node build.mjs "$made")
for name in page.js page.css; do
    cmp "$made/$name" "$folder/$name" || {
        echo "$folder/$name is not what web/ makes: scripts/page.sh"
        exit 1
    }
done
