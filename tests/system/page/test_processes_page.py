"""The page of a run of several processes: a table and lanes of them, some chosen, all apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from page_support import ALL, Browser, check_same, report
from support import made_once, printed, record

pytestmark = [pytest.mark.needs("viewers", "chromium"), pytest.mark.once]

SEVERAL = """
import multiprocessing, os, signal, threading, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))

def victim():
    burn(0.1)
    os.kill(os.getpid(), signal.SIGKILL)

context = multiprocessing.get_context("fork")
for function, name in ((burn, None), (burn, None), (victim, "victim")):
    process = context.Process(target=function, args=(0.15,) if not name else (), name=name)
    process.start()
    process.join()
thread = threading.Thread(target=burn, args=(0.05,), name="beside")
thread.start()
thread.join()
"""


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a program with a thread, whose children are two of a kind, and one that is killed."""

    def make(folder: Path) -> None:
        (folder / "several.py").write_text(SEVERAL)
        record(folder, "--format", "html", "several.py")

    return made_once(tmp_path_factory, "page-several", make)


def processes(folder: Path) -> dict[str, Any]:
    """By name."""
    told = json.loads(printed(folder, "report", "processes", "--json"))
    return {each["name"]: each for each in told["processes"]}


LANES = "await page.locator('.lanes .lane .name').allTextContents()"


def test_processes_are_chosen_by_groups_and_one_by_one(several: Path, browse: Browser) -> None:
    """In the head's table, in the lanes, and in the toolbar; figures are the report's."""
    steps = f"""
        const functions = () => page.evaluate('window.functions()');
        const hash = () => page.evaluate('location.hash');
        const table = await page.locator('.processes li').allTextContents();
        const done = {{open: {LANES}, table}};
        await page.locator('.processes button', {{hasText: '2 times ForkProcess'}}).click();
        done.group = [await functions(), await page.locator('.chosen').textContent()];
        done.hash = await hash();
        done.value = await page.locator('select.process').inputValue();
        await page.locator('.lanes .lane', {{hasText: 'victim'}}).click({{modifiers: ['Shift']}});
        done.three = await functions();
        const victim = page.locator('select.process option', {{hasText: 'victim'}});
        await page.selectOption('select.process', await victim.getAttribute('value'));
        done.one = await functions();
        await page.keyboard.press('Escape');
        done.all = await functions();
        await page.locator('.turn[aria-label*="2 times ForkProcess"]').click();
        done.folded = {LANES};
        done.facts = await page.locator('.facts').textContent();
        return done;
    """
    done = browse(several / "out.html", steps, ALL)
    known = processes(several)
    pids = {name: str(each["pid"]) for name, each in known.items()}
    two = ["--process", pids["ForkProcess-1"], "--process", pids["ForkProcess-2"]]
    check_same(done["group"][0], report(several, *two))
    check_same(done["three"], report(several, *two, "--process", pids["victim"]))
    check_same(done["one"], report(several, "--process", pids["victim"]))
    check_same(done["all"], report(several))
    assert "of 2 times ForkProcess" in done["group"][1]
    assert "processes=1-2" in done["hash"] and done["value"].startswith("group ")

    members = [f"ForkProcess-{n} {pids[f'ForkProcess-{n}']}" for n in (1, 2)]
    at = done["open"].index("2 times ForkProcess")
    assert done["open"][at + 1 : at + 3] == members
    threads = ["MainThread", "beside"]
    main = done["open"].index(f"several.py {pids['several.py']}")
    assert sorted(done["open"][main + 1 : main + 3]) == threads
    killed = f"victim ✕ {pids['victim']}"
    assert {*done["open"]} == {
        *members,
        *threads,
        "2 times ForkProcess",
        killed,
        done["open"][main],
    }
    assert {*done["open"]} - {*done["folded"]} == {*members}

    groups = report(several)["processes"]
    assert len(done["table"]) == len(groups) == 3
    for text, group in zip(done["table"], groups, strict=True):
        assert text.startswith(f"{100 * group['share']:.1f} %")
        assert text.endswith("cut off") == (group["cut_off"] > 0) == ("victim" in text)
    assert "4 processes" in done["facts"] and "not profiled" not in done["facts"]


@pytest.mark.further
def test_each_process_at_the_root(several: Path, browse: Browser) -> None:
    """Its box is as much as its samples are; axe-core finds nothing wrong, in either theme."""
    steps = """
        await page.selectOption('select.root', 'each');
        await page.focus('canvas[aria-label^="Flame graph"]');
        const told = [];
        const keys = ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowRight'];
        for (const key of keys) {
            await page.keyboard.press(key);
            told.push(await page.locator('.spoken').first().textContent());
        }
        const hash = await page.evaluate('location.hash');
        const wrong = await axe();
        await page.emulateMedia({colorScheme: 'dark'});
        const two = page.locator('select.process option', {hasText: '2 times'});
        await page.selectOption('select.process', await two.getAttribute('value'));
        await page.focus('canvas[aria-label^="Flame graph"]');
        const some = [];
        for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowRight']) {
            await page.keyboard.press(key);
            some.push((await page.locator('.spoken').first().textContent()).split(':')[0]);
        }
        return {told, hash, some, wrong: [...wrong, ...await axe()]};
    """
    done = browse(several / "out.html", steps, ALL)
    assert done["told"][0].startswith("all: ") and "root=each" in done["hash"]
    pids = {name: each["pid"] for name, each in processes(several).items()}
    names = {name: f"{name} (pid {pid})" for name, pid in pids.items()}
    shown = dict(told.split(": ", 1) for told in done["told"][1:])
    assert {*shown} == {*names.values()}

    def weight_ns(*options: str) -> int:
        samples = report(several, *options)["samples"]
        return int(samples["recorded_weight_ns"] - samples["own_weight_ns"])

    for name, text in names.items():
        part = weight_ns("--process", str(pids[name])) / weight_ns()
        told = float(shown[text].split(", ")[1].split(" %")[0])
        assert told == pytest.approx(100 * part, abs=0.06)
    assert {*done["some"][1:]} == {names["ForkProcess-1"], names["ForkProcess-2"]}
    assert done["wrong"] == []


@pytest.mark.further
def test_many_processes_have_few_lanes(tmp_path: Path, browse: Browser) -> None:
    """Until they are opened; then each has one, and each of its threads, if that is opened."""
    (tmp_path / "many.py").write_text("""
import os, threading

def work():
    sum(range(100_000))

for _ in range(40):
    child = os.fork()
    if not child:
        threads = [threading.Thread(target=work, name=f"worker-{n}") for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)
    os.waitpid(child, 0)
""")
    record(tmp_path, "--format", "html", "many.py")
    steps = f"""
        const shown = [{LANES}];
        await page.locator('.turn').first().click();
        shown.push({LANES});
        await page.locator('.turn').nth(1).click();
        shown.push({LANES});
        return shown;
    """
    first, opened, all_threads = browse(tmp_path / "out.html", steps)
    assert first[0] == "40 forks of many.py" and len(first) == 2
    assert first[1].startswith("many.py ")
    assert len(opened) == 42 and len({*opened}) == 42
    assert {*all_threads} - {*opened} == {"MainThread", "worker-0", "worker-1"}


CHILD = """
import multiprocessing, subprocess, sys

def work():
    sum(range(100_000))

if __name__ == "__main__":
    if sys.argv[1:]:
        subprocess.run(sys.argv[1:])
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
"""


@pytest.mark.further
@pytest.mark.parametrize(
    "command", [(), ("sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done")]
)
def test_children_that_are_not_profiled(
    tmp_path: Path, browse: Browser, command: tuple[str, ...]
) -> None:
    """Need care where they took long, and are not all left out on purpose."""
    (tmp_path / "child.py").write_text(CHILD)
    record(tmp_path, "--format", "html", "child.py", *command)
    steps = """
        const fact = page.locator('.facts > div').filter({hasText: /^not profiled/});
        return [await fact.getAttribute('class'), await fact.locator('dd').textContent()];
    """
    told = report(tmp_path)["run"]["unprofiled"]
    style, text = browse(tmp_path / "out.html", steps)
    assert text.startswith(f"{told['n']} of {told['n'] + 1} child processes")
    assert (style == "amber") == (told["much"] and not told["known"]) == bool(command)
