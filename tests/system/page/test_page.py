"""The HTML page: a browser shows what `report` says, and nothing that others wrote runs in it."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from page_support import ALL, FUNCTIONS, Browser, check_same, report
from support import TARGETS, Run, made_once, record

from pyhybrid.report.cautions import MOST_COUNTING, MOST_SAMPLING
from pyhybrid.symbols.plumbing import is_interpreter
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import times

pytestmark = [pytest.mark.needs("viewers", "chromium"), pytest.mark.once]


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory, perfed: Path) -> Path:
    """Where its profile is, and pages of it: out.html, and one without inlined functions."""

    def make(folder: Path) -> None:
        (folder / "out.pyhybrid").hardlink_to(perfed / "out.pyhybrid")
        record(folder, "page", "--no-open")
        record(folder, "page", "--no-open", "--no-inlines", "-o", "no-inlines.html")

    return made_once(tmp_path_factory, "page-perfed", make)


NO_NAME = re.compile(r"!(\+0x|\?)")  # symbols/resolve.py

# What the address says, and the report's options.
CHOICES = {
    ALL: [],
    f"{ALL}&threads=1": ["--thread", "loader*"],
    "#frames=plumbing": ["--all-frames"],
    f"{ALL}&frames=python": ["--python-only"],
    f"{ALL}&frames=native": ["--native-only"],
    f"{ALL}&gil=held": ["--gil", "held"],
    f"{ALL}&gil=neither&frames=native": ["--gil", "neither", "--native-only"],
}


def quiet_moments(path: Path) -> list[int]:
    """Times since the start, in the middle of gaps between all samples."""
    with Profile.open(str(path)) as profile:
        start = profile.process.start_ns or 0
        at = sorted(ns - start for chunk in profile.timeline() for ns in times(chunk))
    gaps = [(before + after) // 2 for before, after in pairwise(at) if after - before > 100_000]
    return [gaps[len(gaps) // 3], gaps[2 * len(gaps) // 3]]


def test_the_table_says_what_the_report_says(here: Path, browse: Browser) -> None:
    """Whatever is chosen.  (Inlined functions are found by other paths where some are left out.)"""
    begin, end = quiet_moments(here / "out.pyhybrid")
    within = ["--from", f"{begin / 1e9:.9f}s", "--to", f"{end / 1e9:.9f}s"]
    choices = {**CHOICES, f"{ALL}&from={begin}&to={end}": within}
    steps = f"""
        const shown = [];
        for (const hash of {list(choices)}) {{
            await go(hash);
            shown.push(await page.evaluate('window.functions()'));
        }}
        return shown;
    """
    shown = browse(here / "no-inlines.html", steps)
    for functions, options in zip(shown, choices.values(), strict=True):
        told = report(here, "--no-inlines", *options)
        if "--all-frames" in options:  # nameless functions are all of a library's there
            told["functions"] = [f for f in told["functions"] if not NO_NAME.search(f["name"])]
        if "--native-only" in options:
            # The report no longer knows that importlib called builtin_exec, and shows it.
            told["functions"] = [
                f for f in told["functions"] if not is_interpreter(f["module"] or "")
            ]
        check_same(functions, told)
    n_samples = {
        hash: sum(row["samples"] for row in rows) for hash, rows in zip(choices, shown, strict=True)
    }
    restricted = {hash for hash in choices if re.search("threads|gil|from", hash)}
    assert {hash for hash, n in n_samples.items() if n < n_samples[ALL]} >= restricted, n_samples
    assert any(row["calls"] and row["total_ns"] for row in shown[0])


@pytest.mark.further
def test_dragging_over_the_threads_zooms_everything(here: Path, browse: Browser) -> None:
    steps = """
        const before = await page.evaluate('window.functions()');
        const lanes = await page.locator('.lanes canvas').boundingBox();
        await page.mouse.move(lanes.x + lanes.width * 0.3, lanes.y + 10);
        await page.mouse.down();
        await page.mouse.move(lanes.x + lanes.width * 0.6, lanes.y + 10);
        await page.mouse.up();
        const after = await page.evaluate('window.functions()');
        const grey = await page.locator('td.grey').count();
        const hash = await page.evaluate('location.hash');
        await page.keyboard.press('Escape');
        return {before, after, grey, hash, again: await page.evaluate('window.functions()')};
    """
    done = browse(here / "out.html", steps, ALL)
    check_same(done["before"], report(here))

    def samples(rows: list[dict[str, Any]]) -> int:
        return sum(row["samples"] for row in rows)

    assert 0 < samples(done["after"]) < samples(done["before"])
    assert all(row["calls"] is None for row in done["after"])
    assert done["grey"]
    assert "from=" in done["hash"] and "to=" in done["hash"]
    assert done["again"] == done["before"]


@pytest.fixture(scope="session")
def importing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the time is in an import."""
    work = """import time
def {name}():
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
{name}()
"""

    def make(folder: Path) -> None:
        (folder / "heavy.py").write_text(work.format(name="while_imported"))
        (folder / "light.py").write_text("import heavy\n" + work.format(name="by_itself"))
        record(folder, "--format", "html", "light.py", PYTHONPATH=str(folder))

    return made_once(tmp_path_factory, "page-importing", make)


@pytest.mark.further
def test_imports_are_one_frame_until_they_are_wanted(importing: Path, browse: Browser) -> None:
    steps = """
        const shown = [await page.evaluate('window.functions()')];
        const chosen = [];
        for (const choice of ['all', 'out']) {
            await page.selectOption('label:has-text("imports") select', choice);
            shown.push(await page.evaluate('window.functions()'));
            chosen.push(await page.locator('.chosen').textContent());
            chosen.push(await page.evaluate('location.hash'));
        }
        return [shown, chosen];
    """
    shown, chosen = browse(importing / "out.html", steps)
    assert [chosen[1], chosen[3]] == ["#imports=all", "#imports=out"]
    assert ["without imports" in chosen[0], "without imports" in chosen[2]] == [False, True]
    check_same(shown[1], report(importing))
    folded, whole, without = (
        {row["name"].partition(" (")[0]: row for row in rows} for rows in shown
    )
    assert folded["[import heavy]"]["total_ns"] == whole["_find_and_load"]["total_ns"] > 0
    assert folded["[import heavy]"]["self_ns"] == folded["[import heavy]"]["total_ns"]
    assert "[import heavy]" not in whole
    assert folded["while_imported"]["total_ns"] == 0 < whole["while_imported"]["total_ns"]
    assert folded["while_imported"]["calls"] == whole["while_imported"]["calls"] == 1
    assert folded["by_itself"] == whole["by_itself"] == without["by_itself"]
    assert "[import heavy]" not in without and without["while_imported"]["total_ns"] == 0
    own = sum(row["self_ns"] for row in folded.values()) - folded["[import heavy]"]["self_ns"]
    assert sum(row["self_ns"] for row in without.values()) == own


@pytest.mark.further
def test_imports_leave_their_width_to_the_rest(importing: Path, browse: Browser) -> None:
    """Their box says so, also where it is read aloud."""
    steps = """
        const canvas = page.locator('canvas[aria-label^="Flame graph"]');
        const {x, y, width} = await canvas.boundingBox();
        const tips = [];
        for (const part of [0.7, 0.95]) {
            await page.mouse.move(x + part * width, y + 2.5 * 18);
            tips.push(await page.locator('.tip').textContent());
        }
        const label = await canvas.getAttribute('aria-label');
        await canvas.focus();
        const keys = ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowRight'];
        for (const key of keys) await page.keyboard.press(key);
        return {tips, label, told: await page.locator('.spoken').textContent()};
    """
    done = browse(importing / "out.html", steps)
    assert done["tips"][0].startswith("by_itself")
    assert "[import heavy]" in done["tips"][1] and "narrower" in done["tips"][1]
    assert "narrower" in done["label"]
    assert done["told"].startswith("[import heavy]: ") and "drawn narrower" in done["told"]


@pytest.mark.further
def test_lines_of_the_program(regions: Path, browse: Browser) -> None:
    """They are the report's, and a click shows the source there."""
    steps = """
        const lines = await page.evaluate('window.programLines()');
        const shown = await page.locator('.program li').allTextContents();
        await page.click('.program button >> nth=0');
        await page.waitForSelector('.code tr.here');
        const here = await page.locator('.code tr.here').getAttribute('data-line');
        await go('#threads=999');
        const none = await page.evaluate('window.programLines()');
        return {lines, shown, here: Number(here), none};
    """
    done = browse(regions / "out.html", steps)
    told = report(regions)["program_lines"]
    assert told and all(line["text"] for line in told)
    keys = ("file", "line", "weight")
    assert {tuple(line[key] for key in keys) for line in done["lines"]} == {
        (line["file"], line["line"], line["weight_ns"]) for line in told
    }
    assert done["shown"][0].endswith(told[0]["text"]) and done["here"] == told[0]["line"]
    assert done["none"] == []


@pytest.mark.further
def test_the_address_keeps_the_view(here: Path, browse: Browser) -> None:
    file = here / "out.html"
    steps = """
        await page.fill('#search', 'leaf');
        await page.click('tbody tr[data-frame]');
        await page.getByRole('tab', {name: 'Callers and callees'}).click();
        return await page.evaluate('location.hash');
    """
    hash = browse(file, steps)
    again = """
        const selected = await page.locator('.selected b').textContent();
        const callers = await page.locator('[aria-label^=Callers]').count();
        return [await page.inputValue('#search'), selected, callers > 0];
    """
    assert browse(file, again, hash) == ["leaf", "leaf", True]


@pytest.mark.further
def test_findings_are_the_reports(here: Path, browse: Browser) -> None:
    steps = "return await page.locator('.findings b, .findings code').allTextContents();"
    told = report(here)["findings"]
    assert browse(here / "out.html", steps) == [
        each[key] for each in told for key in ("text", "command")
    ]


@pytest.mark.further
def test_keys_choose_a_time(here: Path, browse: Browser) -> None:
    """Half of it, a part of that, all again; what is chosen is read aloud."""
    steps = """
        await page.focus('.lanes canvas[aria-label^="Threads over time"]');
        const told = [];
        const keys = ['ArrowDown', 'ArrowDown', 'ArrowRight', 'Home', 'End', 'ArrowUp', 'ArrowUp'];
        for (const key of keys) {
            await page.keyboard.press(key);
            const of = new URLSearchParams((await page.evaluate('location.hash')).slice(1));
            told.push([Number(of.get('from')), Number(of.get('to'))]);
        }
        await page.keyboard.press('ArrowDown');
        return {told, status: await page.locator('.chosen[role="status"]').textContent()};
    """
    done = browse(here / "out.html", steps)
    (from_half, to_half), first, second, home, end, half, whole = done["told"]
    long = to_half - from_half
    assert from_half == pytest.approx(long / 2, abs=2)
    assert first[1] - first[0] == pytest.approx(long / 2, abs=2)
    assert second[0] - first[0] == pytest.approx(long / 4, abs=2)
    assert home == [0, pytest.approx(long / 2, abs=2)]
    assert end == [pytest.approx(1.5 * long, abs=2), pytest.approx(2 * long, abs=2)]
    assert half == [pytest.approx(long, abs=3), pytest.approx(2 * long, abs=2)]
    assert whole == [0, 0]
    assert " from " in done["status"]


@pytest.mark.further
def test_keys_and_what_is_read_aloud(here: Path, browse: Browser) -> None:
    """Keys move through the flame graph; axe-core finds nothing wrong, in either theme."""
    steps = """
        await page.focus('canvas[aria-label^="Flame graph"]');
        const told = [];
        for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'Enter']) {
            await page.keyboard.press(key);
            told.push(await page.locator('.spoken').first().textContent());
        }
        const hash = await page.evaluate('location.hash');
        const wrong = await axe();
        await page.emulateMedia({colorScheme: 'dark'});
        return {told, hash, wrong: [...wrong, ...await axe()]};
    """
    done = browse(here / "out.html", steps)
    assert done["wrong"] == []
    assert done["told"][0].startswith("all: ")
    assert all("%" in told for told in done["told"][1:3])
    assert "focus=" in done["hash"]


@pytest.mark.further
def test_all_views_are_drawn(here: Path, browse: Browser) -> None:
    """Each one's canvases have several colours, also where there is little room; axe-core finds
    nothing wrong in any, in either theme."""
    steps = """
        const drawn = () => [...document.querySelectorAll('canvas')].map((canvas) => {
            const {width, height} = canvas;
            const canvas2 = new OffscreenCanvas(width, height);
            const copy = canvas2.getContext('2d', {willReadFrequently: true});
            copy.drawImage(canvas, 0, 0);
            const {data} = copy.getImageData(0, 0, width, height);
            return new Set(new Uint32Array(data.buffer)).size;
        });
        const [colors, wrong] = [{}, []];
        const frame = await page.locator('tbody tr[data-frame]').first().getAttribute('data-frame');
        for (const width of [1280, 400]) {
            await page.setViewportSize({width, height: 800});
            for (const view of ['flame', 'inverted', 'callers', 'source', 'calls']) {
                await go(`#view=${view}&function=${frame}`);
                colors[view + width] = await page.evaluate(drawn);
                if (width < 1280) continue;
                for (const theme of ['light', 'dark']) {
                    await go(`#view=${view}&function=${frame}&heat=1&theme=${theme}`);
                    wrong.push(...await axe());
                }
            }
        }
        return {colors, wrong};
    """
    done = browse(here / "out.html", steps)
    assert done["wrong"] == []
    colors = done["colors"]
    assert [len(each) for each in colors.values()] == 2 * [2, 2, 3, 1, 1]
    assert min(map(min, colors.values())) > 3


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(
        tmp_path_factory,
        "hostile",
        lambda folder: record(folder, "--format", "html", TARGETS / "hostile.py"),
    )


def test_names_are_no_markup(hostile: Path, browse: Browser) -> None:
    steps = """
        const images = async () => await page.locator('img').count();
        const text = await page.locator('body').textContent();
        await page.fill('#search', 'onerror');
        await page.click('tbody tr[data-frame]');
        await page.getByRole('tab', {name: 'Source'}).click();
        await page.hover('.lanes .lane >> nth=0');
        const source = await page.locator('.code').textContent();
        const frame = await page.locator('tbody tr[data-frame]').first().getAttribute('data-frame');
        let found = await images();
        for (const view of ['flame', 'inverted', 'callers', 'source', 'calls']) {
            await go(`#view=${view}&function=${frame}&heat=1&imports=all`);
            await page.hover('main canvas, main button, main td');
            found += await images();
        }
        return {images: found, text, source, title: await page.title()};
    """
    told = browse(hostile / "out.html", steps)
    assert told["images"] == 0
    assert "</script><img src=x onerror=alert(1)>" in told["text"]
    assert "# </script><img src=x onerror=alert(2)>" in told["source"]
    assert told["title"] == "python " + str(TARGETS / "hostile.py")


def test_views_that_have_nothing_are_not_there(importing: Path, browse: Browser) -> None:
    """Neither as a tab, nor by a key, nor by the address."""
    steps = """
        const tabs = await page.getByRole('tab').allTextContents();
        const shown = [await page.getByRole('tab', {selected: true}).textContent()];
        for (const key of ['4', '5']) {
            await page.keyboard.press(key);
            shown.push(await page.getByRole('tab', {selected: true}).textContent());
        }
        return {tabs, shown, footer: await page.locator('footer').textContent()};
    """
    done = browse(importing / "out.html", steps, "#view=calls")
    assert report(importing)["durations"] == []
    assert done["tabs"] == ["Flame graph", "Inverted", "Callers and callees", "Source"]
    assert done["shown"] == ["Flame graph", "Source", "Source"]
    assert "1-4 views" in done["footer"]


def policy(text: str) -> str:
    return text.partition('Content-Security-Policy" content="')[2].partition('"')[0]


def test_nothing_else_may_run_or_load(hostile: Path, browse: Browser) -> None:
    text = (hostile / "out.html").read_text()
    told = policy(text)
    assert "default-src 'none'" in told
    assert "unsafe" not in told and "http" not in told
    steps = """
        return await page.evaluate(async () => {
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
            let fetched = true;
            try { await fetch('data:text/plain,x'); } catch { fetched = false; }
            return [window.ran ?? false, fetched];
        });
    """
    with pytest.raises(AssertionError, match="Content Security Policy"):
        browse(hostile / "out.html", steps)


def data_of(file: Path) -> bytes:
    text = file.read_text()
    packed = text.partition('id="data">')[2].partition("<")[0]
    return zlib.decompress(base64.b64decode(packed), wbits=31)


@pytest.mark.further
def test_source_text_can_be_left_out(hostile: Path, tmp_path: Path, browse: Browser) -> None:
    marker = b"What a page must not run"
    assert marker in data_of(hostile / "out.html")
    assert b"holds" not in data_of(hostile / "out.html")
    out = tmp_path / "without.html"
    record(hostile, "page", "--no-open", "--no-source", "-o", str(out))
    assert marker not in data_of(out)
    assert "source text" not in browse(out, "return await page.locator('.facts').textContent();")
    told = browse(hostile / "out.html", "return await page.locator('.facts').textContent();")
    assert "source text" in told


@pytest.fixture(scope="session")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("--format", "html", "--keep", "step", "--include", "regions.py", "--lines")
    return made_once(
        tmp_path_factory,
        "page-regions",
        lambda folder: record(folder, *options, TARGETS / "regions.py"),
    )


@pytest.mark.further
def test_kept_calls(regions: Path, browse: Browser) -> None:
    """Their durations are the report's; a click on a bar lists its calls, one on a call shows the
    samples of it."""
    steps = """
        const told = await page.locator('.calls .of').allTextContents();
        await page.click('.calls .of > button >> nth=0');
        const rows = await page.locator('.calls tbody tr').count();
        const bars = [];
        for (const bar of await page.locator('.calls .of >> nth=0').locator('.bars button').all()) {
            await bar.click();
            const listed = await page.locator('.calls tbody tr').count();
            bars.push([await bar.getAttribute('aria-label'), listed]);
        }
        const kept = await page.evaluate('location.hash');
        const wrong = await axe();
        await page.click('.calls .bars [aria-pressed="true"]');
        const again = await page.locator('.calls tbody tr').count();
        await page.click('.calls tbody button >> nth=0');
        return {told, rows, bars, kept, wrong, again, hash: await page.evaluate('location.hash')};
    """
    done = browse(regions / "out.html", steps, "#view=calls")
    durations = report(regions)["durations"]
    assert len(done["told"]) == len(durations)
    for text, each in zip(done["told"], durations, strict=True):
        assert text.startswith(f"{each['name']}{each['calls']} call")
    assert done["rows"] == done["again"] == durations[0]["calls"]
    assert sum(listed for _, listed in done["bars"]) == done["rows"]
    for label, listed in done["bars"]:
        assert f": {listed} call" in label
    assert "took=" in done["kept"] and done["wrong"] == []
    with Profile.open(str(regions / "out.pyhybrid")) as profile:
        start = profile.process.start_ns or 0
        spans = {(call.begin_ns - start, call.end_ns - start) for call in profile.calls}
    found = re.search(r"from=(\d+)&to=(\d+)", done["hash"])
    assert found and (int(found[1]), int(found[2])) in spans
    assert "threads=" in done["hash"]


@pytest.mark.further
def test_lines(regions: Path, browse: Browser) -> None:
    """Hits are the report's; samples of all lines together are those of the file's functions."""
    steps = """
        await page.selectOption('.source select', {index: 0});
        const rows = await page.locator('.code tbody tr').evaluateAll((rows) => rows.map((row) => [
            Number(row.dataset.line), ...[...row.children].map((cell) => cell.textContent),
        ]));
        return {rows, all: await page.evaluate('window.functions()')};
    """
    done = browse(regions / "out.html", steps, "#view=source")
    hits = {
        line["line"]: line["hits"]
        for function in report(regions)["lines"]
        for line in function["lines"]
    }
    shown = {row[0]: int(row[3].replace(",", "")) for row in done["rows"] if row[3]}
    assert shown == hits
    burn = next(row for row in done["all"] if row["name"].startswith("burn "))
    own_ns = sum(row["self_ns"] for row in done["all"])
    source = (TARGETS / "regions.py").read_text().splitlines()
    first = source.index("def burn(seconds):") + 1
    of_burn = range(first, first + source[first:].index("") + 1)
    shares = [row[1] for row in done["rows"] if row[0] in of_burn and row[1]]
    own = sum(float(share.removesuffix(" %")) for share in shares)
    assert own == pytest.approx(100 * burn["python_ns"] / own_ns, abs=0.1 * len(shares))


@pytest.mark.further
def test_the_heat_map_has_all_samples(regions: Path, browse: Browser) -> None:
    steps = """
        await page.click('text=heat map');
        const heat = await page.locator('.heat canvas').boundingBox();
        await page.mouse.move(heat.x + 2, heat.y + heat.height - 2);
        await page.mouse.down();
        await page.mouse.move(heat.x + heat.width / 2, heat.y + 2);
        await page.mouse.up();
        return await page.evaluate('location.hash');
    """
    assert "from=0&to=" in browse(regions / "out.html", steps)


@pytest.mark.further
def test_processes(tmp_path: Path, browse: Browser) -> None:
    """Of a merged profile one is shown alone, as `report --process` shows it."""
    (tmp_path / "sums.py").write_text(
        "import sys\nfor n in range(300): sum(range(int(sys.argv[1])))\n"
    )
    for name, n in (("a", 30_000), ("b", 60_000)):
        record(tmp_path, "-q", "--format", "folded", "-o", name, "sums.py", n)
    record(tmp_path, "merge", "a.pyhybrid", "b.pyhybrid", "-o", "out")
    record(tmp_path, "page", "--no-open")
    steps = """
        const options = await page.locator('.process option').allTextContents();
        const shown = [];
        for (const process of ['1', '-1']) {
            await page.selectOption('.process', process);
            shown.push(await page.evaluate('window.functions()'));
        }
        return {options, shown};
    """
    done = browse(tmp_path / "out.html", steps, ALL)
    assert [each.strip().partition(" ")[2] for each in done["options"][1:]] == [
        "times sums.py",
        "python sums.py 30000",
        "python sums.py 60000",
    ]
    check_same(done["shown"][0], report(tmp_path, "--process", "*sums.py 60000"))
    check_same(done["shown"][1], report(tmp_path))


@pytest.fixture
def run(pyhybrid: Callable[..., Run]) -> Iterator[Callable[..., Run]]:
    yield pyhybrid


@pytest.mark.further
def test_without_samples_it_shows_exact_times(run: Callable[..., Run], browse: Browser) -> None:
    done = run("--mode", "trace", "--format", "html", TARGETS / "selected.py")
    told = report(done.folder)
    shown = browse(done.path("out.html"), FUNCTIONS)
    check_same(shown, told)
    heads = "return await page.locator('.functions th').allTextContents();"
    assert not any("with native" in head for head in browse(done.path("out.html"), heads))


@pytest.mark.further
def test_a_short_run(run: Callable[..., Run], browse: Browser) -> None:
    """Of few samples the shares are rough, and the page says so."""
    done = run("--format", "html", "-c", "sum(range(10**5))")
    steps = "return await page.locator('.facts .amber').allTextContents();"
    assert any("few" in fact for fact in browse(done.path("out.html"), steps))


@pytest.mark.further
def test_the_page_scrolls_over_the_graph(here: Path, browse: Browser) -> None:
    """All its rows are there, also where the window is low, and keys go to those out of sight; the
    head folds, but for what needs care, and the address keeps that."""
    steps = """
        const canvas = page.locator('canvas[aria-label^="Flame graph"]');
        const whole = await canvas.evaluate((canvas) => canvas.parentElement.clientHeight);
        await canvas.hover({position: {x: 5, y: 5}});
        const before = await page.evaluate('scrollY');
        await page.mouse.wheel(0, 30);
        await page.waitForFunction((before) => scrollY > before, before);
        await canvas.focus();
        for (let i = 0; i < 12; i++) await page.keyboard.press('ArrowDown');
        const told = await page.locator('.spoken').first().textContent();
        const bottom = await canvas.evaluate((canvas) => canvas.getBoundingClientRect().bottom);
        const amber = await page.locator('.facts .amber').count();
        await page.keyboard.press('h');
        const hash = await page.evaluate('location.hash');
        const facts = await page.locator('.facts > div').count();
        const others = await page.locator('.lanes, .program').count();
        return {whole, told, bottom, hash, amber, folded: [facts, others]};
    """
    low = {"width": 1000, "height": 260}
    done = browse(here / "out.html", steps, viewport=low)
    assert done["whole"] > low["height"] and done["whole"] % 18 == 0
    assert not done["told"].startswith("all") and done["bottom"] >= low["height"]
    assert done["hash"] == "#folded=1" and done["folded"] == [done["amber"], 0]


@pytest.mark.further
def test_on_paper(here: Path, browse: Browser) -> None:
    """Dark on white, lanes beside their names, nothing cut off, nothing to click or point at."""
    steps = """
        await page.hover('canvas[aria-label^="Flame graph"]');
        await page.emulateMedia({media: 'print'});
        const box = async (name) => await page.locator(name).last().boundingBox();
        const clicked = page.locator('.tip, .theme, .tabs, .toolbar select, .more');
        const look = async () => ({
            theme: await page.evaluate('document.documentElement.dataset.theme'),
            lane: await box('.lanes .lane'), lanes: await box('.lanes canvas'),
            flame: await box('.flame canvas'),
            rows: await page.locator('.functions tbody tr[data-frame]').count(),
            buttons: await clicked.filter({visible: true}).count(),
        });
        await page.evaluate("dispatchEvent(new Event('beforeprint'))");
        const paper = await look();
        await page.emulateMedia({media: 'screen'});
        await page.evaluate("dispatchEvent(new Event('afterprint'))");
        return {paper, screen: await look()};
    """
    paper = {"width": 732, "height": 1000}
    done = browse(here / "out.html", steps, "#theme=dark", viewport=paper)
    shown = done["paper"]
    assert shown["theme"] == "light" and done["screen"]["theme"] == "dark"
    assert shown["lanes"]["x"] >= shown["lane"]["x"] + shown["lane"]["width"]
    assert shown["lanes"]["y"] < shown["lane"]["y"] + shown["lane"]["height"]
    for each in ("lanes", "flame"):
        assert shown[each]["x"] + shown[each]["width"] <= paper["width"]
    assert shown["buttons"] == 0 < done["screen"]["buttons"]
    assert shown["rows"] == 40


@pytest.mark.further
def test_kinds_and_states_are_seen_without_colours(here: Path, browse: Browser) -> None:
    """Patterns are drawn over them, and over the lanes, which the address keeps; axe-core finds
    nothing wrong."""
    steps = """
        const drawn = async () => await Promise.all(['.flame canvas', '.lanes canvas'].map(
            (each) => page.locator(each).first().evaluate((canvas) => canvas.toDataURL())
        ));
        const plain = await drawn();
        await page.getByLabel('patterns').check();
        const patterned = await drawn();
        const wrong = await axe();
        const hash = await page.evaluate('location.hash');
        await page.getByLabel('patterns').uncheck();
        const differ = patterned.map((each, i) => each !== plain[i]);
        return {differ, again: `${await drawn()}` === `${plain}`, hash, wrong};
    """
    done = browse(here / "out.html", steps)
    assert done == {"differ": [True, True], "again": True, "hash": "#patterns=1", "wrong": []}


@pytest.mark.further
def test_shares_have_their_time(here: Path, browse: Browser) -> None:
    """Of the samples, as the report has it; costs need care from where the report's do."""
    steps = """
        const cells = await page.locator('tbody tr:first-of-type td .share').allTextContents();
        const costs = page.locator('.facts > div').filter({hasText: /^cost/});
        const cost = await costs.getAttribute('class');
        const first = (await page.evaluate('window.functions()'))[0];
        return {cells, first, cost};
    """
    done = browse(here / "out.html", steps)
    told = report(here)
    own_ns = told["samples"]["recorded_weight_ns"] - told["samples"]["own_weight_ns"]
    ns = [done["first"][key] for key in ("self_ns", "python_ns", "total_ns")]
    for text, each in zip(done["cells"], (n for n in ns if n), strict=True):
        share, _, time = text.partition(" % ")
        assert float(share) == pytest.approx(100 * each / own_ns, abs=0.06)
        number, unit = time.split()
        assert float(number) * {"s": 1e9, "ms": 1e6}[unit] == pytest.approx(each, rel=0.01)
    cost, cpu_ns = told["cost"], told["run"]["cpu_ns"]
    is_high = cost["overhead"] >= MOST_SAMPLING or cost["counting_ns"] >= MOST_COUNTING * cpu_ns
    assert (done["cost"] == "amber") == is_high


@pytest.mark.further
def test_lines_that_wait_for_threads_come_last(tmp_path: Path, browse: Browser) -> None:
    """By wall-clock time; their share is as it is."""
    program = """
from threading import Thread
from time import perf_counter

def work():
    end = perf_counter() + 0.3
    while perf_counter() < end:
        sum(range(1000))

thread = Thread(target=work)
thread.start()
thread.join()
"""
    (tmp_path / "joins.py").write_text(program)
    record(tmp_path, "--clock", "wall", "--format", "html", "joins.py")
    lines = browse(tmp_path / "out.html", "return await page.evaluate('window.programLines()');")
    waiting = [line["waits"] for line in lines]
    assert waiting == sorted(waiting) and not waiting[0] and waiting[-1]
    at = program.splitlines().index("thread.join()") + 1
    joins = next(line for line in lines if line["line"] == at)
    assert joins["waits"] and joins["weight"] > 0.2e9
    told = [(each["line"], each["waits"]) for each in report(tmp_path)["program_lines"]]
    assert told == [(each["line"], each["waits"]) for each in lines]


@pytest.mark.further
def test_on_a_phone_functions_have_room(here: Path, browse: Browser) -> None:
    """Names of threads are whole, and nothing is printed over them."""
    steps = """
        const cell = await page.locator('tbody tr[data-frame] td.function').first().boundingBox();
        const wide = await page.evaluate('document.documentElement.scrollWidth');
        const look = (lane) => {
            const [name, share] = lane.children;
            const [left, right] = [name, share].map((each) => each.getBoundingClientRect());
            const parts = [name, ...name.children];
            const isWhole = parts.every((each) => each.scrollWidth <= each.clientWidth);
            return [name.textContent, isWhole, right.x - left.right];
        };
        const found = await page.locator('.lanes .lane').elementHandles();
        const lanes = await Promise.all(found.map((lane) => lane.evaluate(look)));
        return [cell.x + cell.width, cell.width, wide, lanes];
    """
    phone = {"width": 390, "height": 844}
    end, width, wide, lanes = browse(here / "out.html", steps, viewport=phone)
    assert end <= 390 and width > 130
    assert wide <= 390
    assert all(gap >= 0 for _, _, gap in lanes)
    assert ["MainThread", True] in [lane[:2] for lane in lanes]
