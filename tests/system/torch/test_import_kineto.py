"""`pyhybrid import kineto`: work of a GPU below the calls that launched it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from page_support import Browser
from support import TARGETS, command, made_once
from torch_support import TorchProcess

from pyhybrid import gpu
from pyhybrid.gpu import Launch
from pyhybrid.gpu.kineto import read
from pyhybrid.tables.profile import Profile
from pyhybrid.views.findings.gpu_measures import GPU_MEASURES
from pyhybrid.views.findings.measured_profile import Measured

N_STEPS = 5  # of traced_model.py
US = 1000
KERNEL_NS = 2 * US
GRAPH = "[graph] "
N_REPLAYED, N_UNPLACED = 2, 2
# Kernels of each module, forward and backward, by themselves: a product of matrices has two
# gradients, each of weight and bias is added to what is there (and so is that of the input, which
# fc1 used), and `gelu` is called by Net itself.
ADDED = {"Net.fc1": 3, "Net.fc2": 2}
OWN = {"Net.fc1": (1, 2 + ADDED["Net.fc1"]), "Net.fc2": (1, 2 + ADDED["Net.fc2"]), "Net": (1, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    """Where a run left its profile, and a trace."""

    def make(folder: Path) -> None:
        program = TARGETS / "traced_model.py", "trace.json"
        torch_process.profiled(folder, "-q", "--mode", "trace", "--events", *program)
        done = command(folder, "import", "kineto", "trace.json")
        (folder / "said").write_text(done.stderr + done.stdout)

    return made_once(tmp_path_factory, "kineto", make)


@pytest.mark.needs("torch")
def test_kernels_are_below_their_modules(folder: Path) -> None:
    found: dict[str, list[int]] = {}
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        for work in profile.gpu:
            node = work.node
            if not node or work.name.startswith(GRAPH):
                continue
            while not profile.frames[profile.nodes.frame[node]].is_object:
                node = profile.nodes.parent[node]
            name = profile.frames[profile.nodes.frame[node]].name
            found.setdefault(name, [0, 0])[work.backward] += work.launches
            assert (work.ns, work.stream) == (work.launches * KERNEL_NS, 7)
    assert found == {name: [n * N_STEPS for n in each] for name, each in OWN.items()}


@pytest.mark.needs("torch")
def test_modules_have_their_time_on_the_gpu(folder: Path) -> None:
    done = command(folder, "report", "modules", "--json", "out.pyhybrid")
    told = {each["name"]: each for each in json.loads(done.stdout)["modules"]}
    of_all = [sum(n) for n in zip(*OWN.values(), strict=True)]
    for name, expected in {**OWN, "Net": of_all}.items():
        replayed_ns = N_REPLAYED * KERNEL_NS * (name != "Net.fc2")
        found = told[name]["gpu_ns"] - replayed_ns, told[name]["gpu_backward_ns"]
        assert found == tuple(n * N_STEPS * KERNEL_NS for n in expected), name
    assert "GPU forward" in command(folder, "report", "modules", "out.pyhybrid").stdout


@pytest.mark.needs("torch")
def test_what_a_graph_replays_is_below_its_launch(folder: Path) -> None:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        (replayed,) = (each for each in profile.gpu if each.name.startswith(GRAPH))
        assert replayed.launches == N_REPLAYED
        path = [profile.frames[frame].name for frame in frames_of(profile, replayed.node)]
        assert "Net.fc1" in path


def frames_of(profile: Profile, node: int) -> list[int]:
    """From a node to the root."""
    frames = []
    while node:
        frames.append(profile.nodes.frame[node])
        node = profile.nodes.parent[node]
    return frames


@pytest.mark.needs("torch")
def test_the_tree_has_a_column(folder: Path) -> None:
    head, *lines = command(folder, "report", "tree", "--min-time", "10us").stdout.splitlines()
    assert head.split()[3:6] == ["on", "GPU", "itself"]
    (module,) = (line for line in lines if line.endswith("Net.fc2 [Linear]"))
    assert f"{sum(OWN['Net.fc2']) * N_STEPS * KERNEL_NS // US} us" in module
    assert "ms" not in module
    (forward,) = (line for line in lines if "Net.forward (" in line)
    of_all = N_STEPS * sum(map(sum, OWN.values())) + N_REPLAYED
    assert forward.split()[3:7] == [f"{of_all * KERNEL_NS // US}", "us", "20", "us"]


@pytest.mark.further
@pytest.mark.needs("torch")
def test_kernels_are_lines_of_the_tree(folder: Path) -> None:
    """Below the function that launched them: launches, time, and which pass."""
    _, *tree = command(folder, "report", "tree", "--min-time", "10us").stdout.splitlines()
    found: dict[str, dict[str, list[str]]] = {}
    module = ""
    for line in tree:
        figures, is_kernel, name = line.partition(" [GPU] ")
        if is_kernel:
            found.setdefault(module, {})[name] = figures.split()
        elif line.endswith("]"):
            module = line.split("  ")[-1].strip().partition(" [")[0]
    product, gradients = (
        [f"{n}", *[f"{n * KERNEL_NS // US}", "us"] * 2] for n in (N_STEPS, 2 * N_STEPS)
    )
    for name, n in ADDED.items():
        added = [f"{n * N_STEPS}", *[f"{n * N_STEPS * KERNEL_NS // US}", "us"] * 2]
        assert found[name] == {
            "addmm": product,
            "mm (backward)": gradients,
            "add_ (backward)": added,
        }
    assert found["Net"] == {"gelu": product, "gelu_backward (backward)": product}


@pytest.mark.needs("torch")
def test_steps_have_the_time_of_what_they_launched(folder: Path) -> None:
    told = json.loads(command(folder, "report", "steps", "--json").stdout)
    forward, backward = (sum(each) * KERNEL_NS for each in zip(*OWN.values(), strict=True))
    assert told["gpu_steps"] == told["n_steps"] == N_STEPS
    medians = {name: each["gpu_median_ns"] for name, each in told["phases"].items()}
    assert (medians["forward"], medians["backward"]) == (forward, backward)
    assert (medians["optimizer"], medians["step"]) == (0, forward + backward)
    first, *others = (step["gpu"] for step in told["steps"])
    assert {each["step"] for each in others} == {forward + backward}
    assert first["forward"] == forward + N_REPLAYED * KERNEL_NS
    assert "on GPU" in command(folder, "report", "steps").stdout


@pytest.mark.further
@pytest.mark.needs("torch")
def test_the_report_says_what_the_gpu_did(folder: Path) -> None:
    gpu = json.loads(command(folder, "report", "--json").stdout)["gpu"]
    n = N_STEPS * sum(map(sum, OWN.values())) + N_REPLAYED + N_UNPLACED
    assert (gpu["launches"], gpu["total_ns"]) == (n, n * KERNEL_NS)
    assert gpu["below_no_call_ns"] == N_UNPLACED * KERNEL_NS
    assert 0 < gpu["busy"] < 1
    linear = next(each for each in gpu["functions"] if each["name"].startswith("Linear.forward"))
    of_linear = N_STEPS * sum(OWN["Net.fc1"] + OWN["Net.fc2"]) + N_REPLAYED
    assert linear["self_ns"] == linear["total_ns"] == of_linear * KERNEL_NS
    assert f"{n} kernels and copies" in command(folder, "report").stdout


@pytest.mark.further
@pytest.mark.once
@pytest.mark.needs("torch", "viewers", "chromium")
def test_the_page_has_it_by_function_and_in_time(
    folder: Path, tmp_path: Path, browse: Browser
) -> None:
    page = tmp_path / "page.html"
    command(folder, "page", "--no-open", "-o", page)
    steps = """
        const lanes = page.locator(".lanes.gpu canvas");
        await lanes.scrollIntoViewIfNeeded();
        const box = await lanes.boundingBox();
        let tip = "";
        for (let x = box.x; x < box.x + box.width && !tip.includes("gelu"); x++) {
            await page.mouse.move(x, box.y + 10);
            const shown = await page.locator(".tip").allInnerTexts();
            tip = shown.join();
        }
        return { tip, functions: await page.evaluate("window.functions()") };
    """
    shown = browse(page, steps)
    assert "backward of Net.forward" in shown["tip"] or "by Net.forward" in shown["tip"]
    on_gpu = {each["name"]: each["gpu_ns"] for each in shown["functions"]}
    of_all = N_STEPS * sum(map(sum, OWN.values())) + N_REPLAYED
    assert on_gpu["Net [Net]"] == of_all * KERNEL_NS


@pytest.mark.further
@pytest.mark.needs("torch")
def test_waits_are_below_what_waited(folder: Path) -> None:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        (wait,) = profile.gpu_waits
        assert (wait.name, wait.calls) == ("cudaStreamSynchronize", 1)
        assert profile.frames[profile.nodes.frame[wait.node]].name == "Linear.forward"
        found = GPU_MEASURES["syncs"](Measured(profile), {"fewest_steps": 4})
        assert found is not None
        assert (found["call"], found["function"]) == (wait.name, "Linear.forward")
        assert 0 < found["share"] < 1


@pytest.mark.further
@pytest.mark.needs("torch")
def test_what_is_below_no_call_is_said(folder: Path) -> None:
    n = N_STEPS * sum(map(sum, OWN.values())) + N_REPLAYED
    said = (folder / "said").read_text()
    assert f": {n} kernels and copies placed; {N_UNPLACED} below no call, " in said
    assert "1 launched before the trace begins" in said
    assert "1 launched while no call was logged" in said


@pytest.mark.further
@pytest.mark.needs("torch")
def test_single_activities_lie_where_the_trace_has_them(folder: Path) -> None:
    trace = json.loads((folder / "trace.json").read_text())
    work = [each for each in trace["traceEvents"] if each.get("cat") in ("kernel", "gpu_memcpy")]
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        activities, sums = profile.gpu_activities, {each.id: each for each in profile.gpu}
        assert sum(each.launches for each in sums.values()) == len(activities)
        assert {each.end_ns - each.begin_ns for each in activities} == {KERNEL_NS}
        known = [each for each in activities if sums[each.work].node]
        assert all((each.launch_ns or 0) < each.begin_ns for each in known)
        ((begin_ns, end_ns),) = profile.gpu_windows
        assert begin_ns <= known[0].begin_ns <= known[-1].end_ns <= end_ns
        lasted_us = max(e["ts"] for e in work) - min(e["ts"] for e in work)
        assert abs(known[-1].begin_ns - known[0].begin_ns - lasted_us * US) < US


@pytest.mark.further
@pytest.mark.needs("torch")
def test_what_does_not_fit_is_in_the_sums(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest activities stay, and threads that nobody knows launch what is below no call."""
    monkeypatch.setattr(gpu, "MAX_ACTIVITIES", 3)
    trace = read(str(folder / "trace.json"))
    n = len(trace.work)
    longer = [work._replace(end_ns=work.end_ns + i) for i, work in enumerate(trace.work)]
    unknown = [work._replace(device=1, launch=Launch(1, work.begin_ns)) for work in longer[:2]]
    trace.work = unknown + longer[2:]
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        placed = gpu.place(profile, trace)
    lasted = [each.end_ns - each.begin_ns for each in placed.activities]
    assert sorted(lasted) == [KERNEL_NS + i for i in range(n - 3, n)]
    assert placed.n_in_sums == n - 3
    assert placed.unplaced[gpu.NO_THREAD] == 2
    sums = dict.fromkeys((0, 1), (0, 0))
    for work in placed.work:
        launches, ns = sums[work.device]
        sums[work.device] = launches + work.launches, ns + work.ns
    assert sums[1] == (2, 2 * KERNEL_NS + 1)
    assert sums[0] == (n - 2, (n - 2) * KERNEL_NS + sum(range(2, n)))


@pytest.mark.further
@pytest.mark.needs("torch")
def test_an_import_again_is_the_same(folder: Path, tmp_path: Path) -> None:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        before = profile.gpu
    with gzip.open(tmp_path / "trace.json.gz", "wb") as file:
        file.write((folder / "trace.json").read_bytes())
    command(folder, "import", "kineto", tmp_path / "trace.json.gz", "out.pyhybrid")
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        assert profile.gpu == before


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("options", "trace", "said"),
    [
        ((), '{"traceEvents": []}', "no events"),
        (("--events",), "{", "cannot read trace.json"),
        (("--events",), "{}", "cannot read trace.json: no trace of torch.profiler's"),
        (("--events",), '{"traceEvents": []}', "a trace in which no GPU ran a kernel"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, options: tuple[str, ...], trace: str, said: str) -> None:
    (tmp_path / "program.py").write_text("def f(): pass\nf()\n")
    (tmp_path / "trace.json").write_text(trace)
    command(tmp_path, "-q", "--mode", "trace", *options, "program.py")
    done = command(tmp_path, "import", "kineto", "trace.json", check=False)
    assert done.returncode == 1
    assert said in done.stderr
