"""`pyhybrid diff --html`: the page says what the comparison says, and runs nothing of others'."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_support import Browser
from support import TARGETS, Run, made_once, record

pytestmark = [pytest.mark.needs("viewers", "chromium"), pytest.mark.once]

PROGRAM = TARGETS / "compared.py"


@pytest.fixture
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs `a`, `b` and `c`; in `d` `augment` works four times as long, and `extra` runs."""

    def make(folder: Path) -> None:
        for name, factor in (("a", 1), ("b", 1), ("c", 1), ("d", 4)):
            record(folder, "-q", "-o", name, "--format", "folded", PROGRAM, 60, factor)

    return made_once(tmp_path_factory, "compared_pages", make)


@pytest.fixture
def page(four: Path, pyhybrid: Callable[..., Run], tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Of `a` and `d`, and what the comparison says."""
    file = tmp_path / "diff.html"
    options = ("--json", "--html", str(file), "a.pyhybrid", "d.pyhybrid")
    return file, json.loads(pyhybrid("diff", *options, cwd=four).result.stdout)


def test_the_table_and_the_graph_say_what_the_comparison_says(
    page: tuple[Path, dict[str, Any]], browse: Browser
) -> None:
    file, told = page
    steps = """
        const rows = await page.evaluate('window.functions()');
        await page.focus('canvas');
        const spoken = [];
        for (let i = 0; i < 5; i++) {
            await page.keyboard.press('ArrowDown');
            spoken.push(await page.locator('.spoken').first().textContent());
        }
        const facts = await page.locator('.said').textContent();
        const changed = await page.locator('td b').allTextContents();
        return {rows, spoken, facts, changed};
    """
    done = browse(file, steps)
    tested = [each for each in told["functions"] if each["total"]]
    shown = [row for row in done["rows"] if row["after"] is not None]
    # Several may have one name, as `<module>`.
    assert Counter((row["name"], row["before"], row["after"], row["differs"]) for row in shown) == (
        Counter(
            (each["function"]["name"], total["before"], total["after"], each["differs"])
            for each in tested
            for total in [each["total"]]
        )
    )
    assert done["rows"][0]["differs"]
    assert done["spoken"][0].startswith("all: ")
    (augment,) = (text for text in done["spoken"] if text.startswith("augment ("))
    errors = re.search(r"([\d.]+) standard errors more", augment)
    (total,) = (each["total"] for each in tested if each["function"]["name"] == "augment")
    assert errors and float(errors[1]) > 2
    change = total["after"] / total["before"] - 1
    assert f": +{100 * change:.1f} %," in augment
    assert "compared.py 60 4" in done["facts"]
    assert done["changed"] == ["0 → 1"]


@pytest.mark.further
def test_standard_errors_of_several_runs(
    four: Path, pyhybrid: Callable[..., Run], tmp_path: Path, browse: Browser
) -> None:
    """Time of the root is the mean, and runs of one program differ by few errors."""
    file = tmp_path / "diff.html"
    a, b, c = (f"{name}.pyhybrid" for name in "abc")
    sides = (a, b, c, "--", b, c, a)
    told = pyhybrid("diff", "--json", "--html", str(file), *sides, cwd=four).result.stdout
    steps = """
        await page.focus('canvas');
        await page.keyboard.press('ArrowDown');
        return await page.locator('.spoken').first().textContent();
    """
    assert json.loads(told)["by_runs"]
    assert "+0.0 %, 0.0 standard errors" in browse(file, steps)


@pytest.mark.further
def test_views_address_and_accessibility(
    page: tuple[Path, dict[str, Any]], browse: Browser
) -> None:
    steps = """
        const drawn = () => [...document.querySelectorAll('canvas')].map((canvas) => {
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
            copy.drawImage(canvas, 0, 0);
            const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size;
        });
        const frame = await page.locator('tbody tr[data-frame]').first().getAttribute('data-frame');
        const [colors, wrong] = [{}, []];
        for (const width of [1280, 400]) {
            await page.setViewportSize({width, height: 800});
            for (const view of ['flame', 'inverted', 'callers']) {
                for (const theme of ['light', 'dark']) {
                    await go(`#view=${view}&width=larger&function=${frame}&theme=${theme}`);
                    colors[view + width + theme] = await page.evaluate(drawn);
                    wrong.push(...await axe());
                }
            }
        }
        await page.selectOption('select', 'before');
        await page.fill('#search', 'augment');
        await page.keyboard.press('Escape');
        await page.fill('#search', 'step');
        await page.locator('#search').blur();
        await page.keyboard.press('2');
        return {colors, wrong, hash: await page.evaluate('location.hash')};
    """
    done = browse(page[0], steps)
    assert done["wrong"] == []
    assert [len(each) for each in done["colors"].values()] == 2 * [1, 1, 1, 1, 2, 2]
    assert min(map(min, done["colors"].values())) > 3
    assert {"view=inverted", "width=before", "search=step"} <= set(done["hash"][1:].split("&"))
    again = "return [await page.inputValue('select'), await page.inputValue('#search')];"
    assert browse(page[0], again, done["hash"]) == ["before", "step"]


def test_names_are_no_markup(tmp_path: Path, pyhybrid: Callable[..., Run], browse: Browser) -> None:
    record(tmp_path, "-q", "--format", "folded", TARGETS / "hostile.py")
    file = tmp_path / "diff.html"
    pyhybrid("diff", "--html", str(file), "out.pyhybrid", "out.pyhybrid", cwd=tmp_path)
    steps = """
        await page.hover('canvas');
        const row = page.locator('tr', {hasText: 'onerror'}).first();
        const frame = await row.getAttribute('data-frame');
        for (const view of ['inverted', 'callers', 'flame']) {
            await go(`#view=${view}&function=${frame}`);
        }
        return [await page.locator('img').count(), await page.locator('body').textContent()];
    """
    images, text = browse(file, steps)
    assert images == 0
    assert "</script><img src=x onerror=alert(1)>" in text
