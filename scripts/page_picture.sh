#!/bin/sh
# Makes docs/page.png, the README's picture: the page of examples/train.py, zoomed to what `train` calls.
#
#     PATH=.venv/bin:$PATH scripts/page_picture.sh
#
# Needs pyhybrid and PyTorch in `python`, and chromium and node (tests/viewers).
set -eu
cd "$(dirname "$0")/.."

scripts/node_modules.sh tests/viewers
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
python -P -m pyhybrid -q -o "$folder/out" --format html examples/train.py --epochs 1
picture=$PWD/docs/page.png
BROWSE='{"viewport": {"width": 1180, "height": 940}}' CHROMIUM=$(command -v chromium) \
    node tests/viewers/browse.mjs "$folder/out.html" <<END
await page.focus('canvas[aria-label^="Flame graph"]');
const told = page.locator('.spoken').first();
for (let i = 0; i < 20 && !(await told.textContent()).startsWith('train ('); i++) await page.keyboard.press('ArrowDown');
await page.keyboard.press('Enter');
await page.evaluate("document.activeElement.blur(); scrollTo(0, 0)");
await page.screenshot({path: '$picture'});
END
