"""Steps of inference: calls of a model that is not trained, by their tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from json_page import check_report
from support import TARGETS, made_once, printed
from torch_support import TorchProcess

pytestmark = pytest.mark.needs("torch")

N = 60
BATCH, PROMPT = 2, 16
LAST = BATCH * (PROMPT + N - 1)  # tokens of the last call without a cache
MS = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, torch_process: TorchProcess) -> Path:
    def make(folder: Path) -> None:
        said = torch_process.profiled(
            folder, "-q", "--format", "folded", TARGETS / "decoding.py", N
        )
        (folder / "said").write_text(said)

    return made_once(tmp_path_factory, "decoding", make)


@pytest.fixture
def said(folder: Path) -> dict[str, int]:
    done: dict[str, int] = json.loads((folder / "said").read_text().splitlines()[-1])
    return done


def steps(folder: Path) -> Any:
    return json.loads(printed(folder, "report", "steps", "--json"))


@pytest.mark.version
def test_prefill_and_decode_are_apart(folder: Path, said: dict[str, int]) -> None:
    report = steps(folder)
    assert report["n_steps"] == 4 * N + 1 and not report["trains"]
    calls = {each["kind"]: each for each in report["calls"]}
    tokens = {kind: (each["n"], each["tokens"]) for kind, each in calls.items()}
    assert tokens == {
        "prefill": (2, 2 * BATCH * PROMPT),
        "decode": (2 * N - 2, (2 * N - 2) * BATCH),
        "all again": (2 * N, 2 * N * BATCH),
        "call": (1, 0),  # a mode of the program's hears what is done with tensors
    }
    again = calls["all again"]
    assert (again["first_tokens"], again["last_tokens"]) == (BATCH * PROMPT, LAST)
    cached_ns = calls["prefill"]["total_ns"] + calls["decode"]["total_ns"]
    assert abs(cached_ns - said["cached"]) < 0.02 * said["cached"] + 2 * MS
    assert abs(again["total_ns"] - said["again"]) < 0.02 * said["again"] + 2 * MS
    assert 2 * MS <= calls["decode"]["model_p50_ns"] <= calls["decode"]["p50_ns"] - MS


def test_who_is_between_the_calls(folder: Path) -> None:
    shown = printed(folder, "report", "steps").splitlines()
    assert shown[0].startswith(f"{4 * N + 1} steps of inference, calls of a model: median ")
    (row,) = (line for line in shown if line.startswith("other ") and "choose" in line)
    assert "/decoding.py:" in row
    (line,) = (line for line in shown if line.startswith("all again"))
    assert f" {BATCH * PROMPT}..{LAST} " in line


def test_a_decode_loop_without_a_cache_is_found(folder: Path) -> None:
    found = [each["text"] for each in json.loads(printed(folder, "report", "--json"))["findings"]]
    (text,) = (each for each in found if "with all tokens again" in each)
    assert (
        f"is {2 * N} calls of a model with all tokens again, {BATCH * PROMPT} to {LAST} of them"
        in text
    )


@pytest.mark.further
def test_no_code_of_the_program_runs(
    folder: Path, said: dict[str, int], torch_process: TorchProcess
) -> None:
    bare = torch_process.run(folder, TARGETS / "decoding.py", 1)
    assert said["heard"] == json.loads(bare.splitlines()[-1])["heard"] > 0


SAMPLES = """
import torch
from torch.func import functional_call, grad, vmap

net = torch.nn.Linear(64, 1)
params = {k: v.detach() for k, v in net.named_parameters()}

def loss(p, x, y):
    return (functional_call(net, p, (x[None],)) - y).square().mean()

def each(x, y):
    return [grad(loss)(params, a, b) for a, b in zip(x, y)]

def at_once(x, y):
    return vmap(grad(loss), (None, 0, 0))(params, x, y)

for _ in range(600):
    at_once(torch.randn(8, 64), torch.randn(8))
x, y = torch.randn(1000, 64), torch.randn(1000)
each(x, y)
"""


@pytest.mark.further
def test_samples_one_by_one_are_found(torch_process: TorchProcess, tmp_path: Path) -> None:
    (tmp_path / "samples.py").write_text(SAMPLES)
    torch_process.profiled(tmp_path, "-q", "--format", "folded", tmp_path / "samples.py")
    found = json.loads(printed(tmp_path, "report", "--json"))["findings"]
    (text,) = (each["text"] for each in found if each["rule"] == "one by one")
    assert "is grad_impl (" in text and "called 1,000 times, by each" in text


@pytest.mark.parametrize("fault", ["lock", pytest.param("gil", marks=pytest.mark.further)])
def test_requests_of_a_server(torch_process: TorchProcess, tmp_path: Path, fault: str) -> None:
    """An engine's thread decodes for all requests that are open; what slows them is named."""
    torch_process.profiled(
        *(tmp_path, "-q", "--format", "folded", "--keep", "handle", "--usage", "cpu"),
        *("--clock", "wall", TARGETS / "batching_server.py", 40, fault),
    )
    text = printed(tmp_path, "report", "requests", "--json")
    check_report(["requests", "--json"], text)
    report = json.loads(text)
    model = report["model"]
    assert report["n"] == 40 and 1 <= model["open_p50"] <= model["open_max"] <= 4
    assert model["of_request_p50"] >= 8 and model["in_p50_ns"] > 0  # a prefill, and seven words
    shown = printed(tmp_path, "report", "requests")
    place = "split" if fault == "gil" else "refresh"
    waits_for = "the GIL" if fault == "gil" else "locks"
    assert any(
        waits_for in line and f"{place} (" in line and " on other" in line
        for line in shown.splitlines()
    )
