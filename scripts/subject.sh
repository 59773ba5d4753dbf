#!/bin/sh
# Fails if the subject of a commit has no area before it, or more than 72 columns.
#
#     scripts/subject.sh          of the last commit
#     scripts/subject.sh FILE     of the message in FILE: a hook of git's
set -eu
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
    subject=$(grep -m 1 -v '^#' "$1")
else
    subject=$(git log -1 --format=%s)
fi
case $subject in
'Merge '* | 'Revert '*) exit 0 ;;
*': '*) ;;
*) echo "no area (\`sampler: …\`): $subject" && exit 1 ;;
esac
[ "$(printf %s "$subject" | wc -m)" -le 72 ] || {
    echo "more than 72 columns: $subject"
    exit 1
}
