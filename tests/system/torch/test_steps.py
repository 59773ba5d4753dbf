"""Steps of a training and their phases, of loops as people write them; `report steps`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from page_support import Browser
from support import TARGETS, Run, command, made_once, printed
from torch_support import TorchProcess

from pyhybrid.tables.profile import Profile
from pyhybrid.views.findings import findings
from pyhybrid.views.training.steps import Step, find_steps

pytestmark = pytest.mark.needs("torch")

N_BATCHES = 8  # of an epoch of training_loops.py
STEPS = {
    "plain": N_BATCHES,
    "epochs": 3 * N_BATCHES,
    "evaluated_first": N_BATCHES,
    "accumulating": N_BATCHES // 4,
    "several_optimizers": N_BATCHES,
    "adversaries": N_BATCHES,
    "closure": N_BATCHES,
    "same_batch": 20,
    "one_ahead": 2 * N_BATCHES,
    "two_batches": N_BATCHES // 2,
    "recomputing": N_BATCHES,
    "saving": N_BATCHES,
}
MS = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    """Where the loops left their profile, and the numbers of their threads."""

    def make(folder: Path) -> None:
        options = ("-q", "--format", "folded", "--hz", "199")
        said = torch_process.profiled(folder, *options, TARGETS / "training_loops.py")
        (folder / "said").write_text(said)

    return made_once(tmp_path_factory, "steps", make)


@pytest.fixture(scope="module")
def profile(folder: Path) -> Iterator[Profile]:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        yield profile


@pytest.fixture(scope="module")
def steps(folder: Path, profile: Profile) -> dict[str, list[Step]]:
    """By loop."""
    tids = dict(line.split() for line in (folder / "said").read_text().splitlines())
    names = {int(tid): name for name, tid in tids.items()}
    found: dict[str, list[Step]] = {name: [] for name in tids}
    for step in find_steps(profile).steps:
        found[names[profile.threads[step.thread].tid]].append(step)
    return found


def n_spans(step: Step) -> dict[str, int]:
    """How often each phase ran."""
    return {phase: len(spans) for phase, spans in step.spans.items()}


@pytest.mark.further
@pytest.mark.version
def test_each_loop_has_its_steps(steps: dict[str, list[Step]]) -> None:
    assert {name: len(each) for name, each in steps.items()} == STEPS


@pytest.mark.further
@pytest.mark.version
def test_phases_add_up(profile: Profile, steps: dict[str, list[Step]]) -> None:
    for name, each in steps.items():
        for step in each:
            assert sum(step.phases.values()) == step.total_ns
            assert sum(step.phases_cpu.values()) == step.cpu_ns
            assert min(step.phases.values()) >= 0, name
            assert step.cpu_ns > 0
            for phase, spans in step.spans.items():
                assert sum(end - begin for begin, end in spans) == step.phases[phase]
        for before, after in pairwise(each):
            assert before.end_ns <= after.begin_ns
    assert profile.calls == []  # the user's own: none were asked for


@pytest.mark.further
@pytest.mark.version
def test_what_ran_in_them(steps: dict[str, list[Step]]) -> None:
    once = {"data": 1, "forward": 1, "backward": 1, "optimizer": 1}
    first, after = {**once, "data": 2}, {**once, "zero_grad": 1}  # an epoch begins, too
    for step, then in zip(steps["plain"], [first] + (N_BATCHES - 1) * [after], strict=True):
        assert n_spans(step) == then
    for step in steps["evaluated_first"]:
        assert n_spans(step) in (first, after)  # not of the evaluation
    epochs = steps["epochs"]
    assert all(n_spans(step)["forward"] == 1 for step in epochs)
    apart = [b.begin_ns - a.end_ns for a, b in pairwise(epochs)]
    long = [at for at, ns in enumerate(apart) if ns]
    assert long == [N_BATCHES - 1, 2 * N_BATCHES - 1]  # evaluated between epochs
    assert all(apart[at] >= 8 * 3 * MS for at in long)
    for step, n_data in zip(steps["accumulating"], (5, 4), strict=True):
        assert {n_spans(step)[each] for each in ("forward", "backward")} == {4}
        assert n_spans(step)["data"] == n_data
    assert all(n_spans(step)["optimizer"] == 2 for step in steps["several_optimizers"])
    for step in steps["adversaries"]:
        assert n_spans(step)["optimizer"] == n_spans(step)["backward"] == 2
        assert n_spans(step)["data"] == 1 + (step is steps["adversaries"][0])
    assert [n_spans(step)["data"] for step in steps["one_ahead"][:3]] == [3, 1, 1]
    assert all(n_spans(step)["forward"] == 2 for step in steps["two_batches"])
    for step in steps["recomputing"]:
        assert n_spans(step)["forward"] == 1  # again within the backward pass, which has it
    saved = [step.number for step in steps["saving"] if "checkpoint" in step.phases]
    assert saved == [steps["saving"][5].number]  # after the fifth: the sixth begins there


@pytest.mark.further
@pytest.mark.version
def test_a_closure_is_not_the_optimizers(steps: dict[str, list[Step]]) -> None:
    for step in steps["closure"]:
        phases = n_spans(step)
        assert phases["forward"] == phases["backward"] == phases["zero_grad"] == 1
        assert step.phases_cpu["other"] >= 4 * MS  # of the closure itself
    # (What is taken from a virtual machine may count as a thread's time, once in a while.)
    of_optimizer = sorted(step.phases_cpu["optimizer"] for step in steps["closure"])
    assert of_optimizer[N_BATCHES // 2] < 2 * MS


def test_report(folder: Path) -> None:
    text = printed(folder, "report", "steps")
    lines = text.splitlines()
    n = sum(STEPS.values())
    assert lines[0].startswith(f"{n} steps of a training: median ")
    # (Another column is there where a collection of garbage took a part of the steps.)
    assert lines[1].removesuffix("(gc)").split() == [
        "step", "data", "forward", "backward", "optimizer", "zero_grad", "checkpoint", "other",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:6]] == ["median", "p95", "share", "on"]
    report = json.loads(printed(folder, "report", "steps", "--json", "--slowest", "3"))
    assert report["n_steps"] == len(report["steps"]) == n
    assert len(report["slowest"]) == 3
    assert report["n_lacking"] == 0
    assert report["between_ns"] > 0
    shares = {name: each["share"] for name, each in report["phases"].items()}
    assert shares.pop("step") == pytest.approx(1)
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.further
@pytest.mark.once
def test_diff_with_itself(folder: Path) -> None:
    """As many steps, and no phase differs."""
    file = "out.pyhybrid"
    told = json.loads(printed(folder, "diff", "--json", file, file))["steps"]
    report = json.loads(printed(folder, "report", "steps", "--json"))
    n, figures = report["n_steps"], report["phases"]
    assert [each["name"] for each in told] == ["total", "cpu", *(p for p in figures if p != "step")]
    assert all(each["n_steps"] == [[n], [n]] for each in told)
    assert not any(each["median_differs"] or each["mean_differs"] for each in told)
    for each in told:
        of_report = figures.get("step" if each["name"] == "total" else each["name"])
        if of_report:
            mean_ns = of_report["share"] * sum(s["end_ns"] - s["begin_ns"] for s in report["steps"])
            assert each["mean"]["before"] == pytest.approx(mean_ns / n)
    lines = printed(folder, "diff", file, file).splitlines()
    title = f"steps of a training ({n} -> {n}), median time"
    first, *rest = (line for line in lines if line.startswith(title))
    assert first.startswith(f"{title}: 0 of ")
    assert rest == [f"{title}, within noise"]


DIFFERENT = """
import sys
sys.path.insert(0, {targets!r})
from training_loops import *

class Slow(Samples):
    def __len__(self): return 120
    def __getitem__(self, i):
        spin({ms})
        return super().__getitem__(i)

loop = Loop()
loop.loader = torch.utils.data.DataLoader(Slow(), batch_size=2)
plain(loop)
"""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.needs("viewers", "chromium")
def test_diff_of_two_runs(pyhybrid: Callable[..., Run], tmp_path: Path, browse: Browser) -> None:
    """One run a side tells that loading takes thirty times as long, on a busy machine, too."""
    for name, ms in (("a", 1), ("b", 30)):
        script = DIFFERENT.format(targets=str(TARGETS), ms=ms)
        pyhybrid("-q", "--format", "folded", "-o", tmp_path / name, "-c", script)
    files = (tmp_path / "a.pyhybrid", tmp_path / "b.pyhybrid")
    limit = ("--fail-if", "step(data) > +50%")
    page = tmp_path / "diff.html"
    run = pyhybrid("diff", "--json", "--html", page, *files, *limit, check=False)
    assert run.result.returncode == 1
    told = json.loads(run.result.stdout)
    found = {each["name"]: each for each in told["steps"]}
    for name in ("data", "total", "cpu"):
        assert found[name]["median_differs"]
        assert found[name]["median"]["low"] > 1
    shown = browse(page, "return await page.locator('.step-changes tr').allTextContents();")
    assert len(shown) == 1 + len(found)
    (data,) = (row for row in shown if row.startswith("data"))
    assert "ms" in data
    markdown = pyhybrid("diff", "--markdown", *files).result.stdout
    assert "\n**steps of a training (60 -\\> 60), median time: " in markdown


def test_one_thread(folder: Path) -> None:
    report = json.loads(printed(folder, "report", "steps", "--json", "--thread", "same_batch"))
    assert report["n_steps"] == 20


@pytest.mark.further
@pytest.mark.once
@pytest.mark.needs("viewers", "chromium")
def test_the_pages_row_of_steps(folder: Path, tmp_path: Path, browse: Browser) -> None:
    """It has the report's steps; a click, keys and the list of the slowest zoom to one, which the
    address keeps."""
    printed(folder, "page", "--no-open", "-o", tmp_path / "out.html")
    report = json.loads(printed(folder, "report", "steps", "--json"))
    look = """
        const row = page.locator('.steps canvas');
        const told = async () => page.locator('.steps .told > span').first().textContent();
        const hash = async () => page.evaluate('location.hash');
        const press = async (...keys) => {
            for (const key of keys) await page.keyboard.press(key);
        };
        const seen = {steps: await page.evaluate('window.steps()')};
        await row.focus();
        await press('ArrowRight', 'ArrowRight', 'ArrowRight');
        seen.third = await told();
        await press('Enter');
        seen.zoomed = await hash();
        seen.functions = (await page.evaluate('window.functions()')).length;
        await press('Backspace', 'ArrowDown');
        seen.slowest = [await hash(), await told()];
        await page.locator('.steps summary').click();
        seen.list = await page.locator('.steps li').allTextContents();
        await page.locator('.steps li button').nth(1).click();
        seen.second = [await hash(), await told()];
        await page.mouse.move(0, 0);
        seen.wrong = await axe();
        await page.locator('.steps li button').nth(1).click();
        seen.all = [await hash(), await told()];
        const first = seen.steps[0], {width} = await row.boundingBox();
        const x = (first.begin_ns + first.end_ns) / 2 / %d * width;
        await row.hover({position: {x, y: 15}});
        seen.tip = await page.locator('[role=tooltip]').textContent();
        await row.click({position: {x, y: 15}});
        seen.clicked = await hash();
        return seen;
    """
    wall_ns = json.loads(printed(folder, "report", "--json"))["run"]["wall_ns"]
    seen = browse(tmp_path / "out.html", look % wall_ns)
    told = report["steps"]
    for mine, theirs in zip(seen["steps"], told, strict=True):
        for name in ("number", "begin_ns", "end_ns"):
            assert mine[name] == theirs[name]
        assert mine["phases"] == {name: ns for name, ns in theirs["phases"].items() if ns}

    def span(number: int) -> str:
        return f"from={told[number]['begin_ns']}&to={told[number]['end_ns']}"

    slowest = report["slowest"]
    assert seen["third"].startswith("step 2: ")
    assert all(phase in seen["third"] for phase in ("data", "forward", "backward", "optimizer"))
    assert span(2) in seen["zoomed"]
    assert seen["slowest"][0] == ""
    assert seen["slowest"][1].startswith(f"step {slowest[0]['number']}: ")
    assert [line.split()[1] for line in seen["list"]] == [str(each["number"]) for each in slowest]
    for each, line in zip(slowest, seen["list"], strict=True):
        assert f"{each['phase']} +" in line
    assert span(slowest[1]["number"]) in seen["second"][0]
    assert f"; slow: {seen['list'][1].partition(' ')[2].partition(' ')[2]}" in seen["second"][1]
    assert seen["all"] == ["", ""]
    assert seen["wrong"] == []
    assert re.match(r"step \d+: ", seen["tip"])
    assert any(span(step["number"]) in seen["clicked"] for step in told)


PLANTED = """
import io, sys, time
sys.path.insert(0, {targets!r})
from training_loops import *

class Slow(Samples):
    def __len__(self): return 80
    def __getitem__(self, i):
        if i == 40: heavy_sample()
        if i == 60: time.sleep(1.5)
        return super().__getitem__(i)

def heavy_sample(): spin(2500)
def on_gradient(gradient):
    if step == 33: spin(1000)
    if step == 36: nested(70)

class Nested(torch.autograd.Function):
    # Backward within backward: beyond a depth of 60 a thread of the engine's own carries it out.
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        nested(ctx.depth - 1) if ctx.depth else innermost()
        return gradient, None

def nested(depth):
    with torch.enable_grad():
        x = Nested.apply(torch.ones(1, requires_grad=True), depth)
    x.backward()

def innermost(): spin(1500)

loop = Loop()
loop.loader = torch.utils.data.DataLoader(Slow(), batch_size=2)
loop.net[1].register_full_backward_hook(lambda *_: on_gradient(_))
for step, batch in enumerate(loop.loader):
    loop.train(batch)
"""


@pytest.mark.further
def test_the_slowest_and_why(torch_process: TorchProcess, tmp_path: Path) -> None:
    program = PLANTED.format(targets=str(TARGETS))
    torch_process.profiled(tmp_path, "-q", "--format", "folded", "-c", program)
    report: dict[str, Any] = json.loads(printed(tmp_path, "report", "steps", "--json"))
    assert report["n_steps"] == 40
    slowest = {each["number"]: each for each in report["slowest"]}
    batch, waited, hook, helped = (slowest[step] for step in (20, 30, 33, 36))
    assert batch["phase"] == "data"
    assert "heavy_sample" in batch["function"] or "spin" in batch["function"]
    assert batch["more_cpu_ns"] > 2400 * MS
    assert waited["phase"] == "data"
    assert waited["more_ns"] > 1400 * MS
    assert waited["more_cpu_ns"] < 500 * MS
    assert hook["phase"] == "backward"
    assert "spin" in hook["function"] or "on_gradient" in hook["function"]
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        (finding,) = (each for each in findings(profile) if each.rule == "slow steps")
    most = finding.evidence["most"]
    # The last two together may be as long as the first.
    spun = ("spin", "innermost", "Nested.backward")  # one below the other
    known = ("data: heavy_sample", "data: spin", *(f"backward: {name}" for name in spun))
    assert most.partition(" (")[0] in known
    assert f"slow ones took more than usual, most of it {most}" in finding.text
    assert finding.evidence["slow"] >= 3
    assert helped["phase"] == "backward"
    assert helped["function"].partition(" ")[0] in spun
    assert helped["more_ns"] >= helped["more_cpu_ns"] > 750 * MS
    assert report["helped_ns"] > 750 * MS
    own_cpu_ns = report["steps"][36]["phases_cpu"]["backward"]
    assert own_cpu_ns < 500 * MS
    lines = printed(tmp_path, "report", "steps").splitlines()
    assert any("in backward's own threads" in line for line in lines)
    (waited_line,) = (line for line in lines if line.startswith("  step 30:"))
    assert "data +" in waited_line
    assert "the thread did not run" in waited_line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "rule", "says"),
    [
        ("loader", "loader", "20 steps is waiting for data, most of it in spin ("),
        ("optimizer", "optimizer", "one parameter after the other (_single_tensor_adam ("),
        ("syncs", "syncs", "is .item() or the like, most of it .item() in count_right at "),
        ("metric", "between phases", "20 steps is in none of their phases, most of it in spin ("),
        (
            "hook",
            "python in backward",
            "Python that the backward pass calls, most of it on_gradient (",
        ),
    ],
)
def test_findings(pyhybrid: Callable[..., Run], what: str, rule: str, says: str) -> None:
    program = TARGETS / "planted_training.py"
    path = {"PYTHONPATH": str(TARGETS)}
    profile = pyhybrid("-q", "--format", "folded", program, what, env=path).profile()
    of_training = {"loader", "optimizer", "syncs", "between phases", "python in backward"}
    of_training -= {"between phases"} if what == "syncs" else set()  # these are, too
    found = {each.rule: each for each in findings(profile) if each.rule in of_training}
    assert found.keys() == {rule}
    assert says in found[rule].text
    assert found[rule].share > (0.2 if rule == "syncs" else 0.5)


WAITS = """\
import time
begin = time.perf_counter()
import torch
def wait(values):
    item = values[0].item
    for _ in range(2000):
        item(), item(), item(), item()
x = torch.ones(3)
end = 2 * time.perf_counter() - begin + 2  # as long as importing it took, and more
while time.perf_counter() < end:
    wait(x)
"""


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_waits_without_steps_have_their_line(
    pyhybrid: Callable[..., Run], tmp_path: Path, clock: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(WAITS)
    line = 1 + next(n for n, text in enumerate(WAITS.splitlines()) if "item()," in text)
    options = "-q", "--format", "folded", "--mode", "sample", "--clock", clock
    with pyhybrid(*options, program).profile() as profile:
        (found,) = (each for each in findings(profile) if each.rule == "syncs")
    assert f"most of it .item() in wait at {program.name}:{line}" in found.text


@pytest.mark.slow
def test_no_steps(pyhybrid: Callable[..., Run]) -> None:
    script = f"""
import sys; sys.path.insert(0, {str(TARGETS)!r})
from training_loops import *
plain(Loop())
"""
    run = pyhybrid("-q", "--format", "folded", "--torch", "no-steps", "-c", script)
    assert run.profile().watched_calls == []
    done = command(run.folder, "report", "steps", check=False)
    assert done.returncode == 1
    assert "no steps of a training" in done.stderr
    keeping = ("--keep", "plain", "--max-calls", "1", "--usage", "cpu")
    profile = pyhybrid("-q", "--format", "folded", *keeping, "-c", script).profile()
    assert [profile.frames[profile.nodes.frame[c.node]].name for c in profile.calls] == ["plain"]
    # An epoch begins; the ninth batch: there is none.
    assert len(profile.watched_calls) == 1 + 9 + 8 * 4
    assert sum(call.raised for call in profile.watched_calls) == 1
    assert len(find_steps(profile).steps) == 8


KEPT = """
import torch
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
optimizer, total = torch.optim.SGD(net.parameters(), 0.01), 0
for _ in range(60):
    loss = net(torch.randn(512, 256)).square().mean()
    loss.backward(retain_graph=True)
    optimizer.step()
    total = total + loss
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * 4096)
"""


@pytest.mark.further
def test_what_a_loop_keeps_is_found(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Each step four activations of 512 KB at least: half of what PyTorch keeps of it."""
    (tmp_path / "program.py").write_text(KEPT)
    run = pyhybrid("--format", "folded", "program.py")
    report = json.loads(pyhybrid("report", "steps", "--json").result.stdout)
    memory = report["memory"]
    assert memory["last"] == pytest.approx(int(run.result.stdout.splitlines()[-1]), rel=0.02)
    assert 1.5e6 < memory["per_step"] < 6e6
    assert [each["resident"] > 0 for each in report["steps"]] == [True] * 60
    (found,) = (line for line in run.result.stderr.splitlines() if "resident memory" in line)
    assert "MB in each of 60 steps" in found
