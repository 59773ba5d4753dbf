"""Snapshots of CUDA memory, made by hand as torch/cuda/memory.py says they are: not on a GPU."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from pyhybrid.cli import main
from pyhybrid.errors import PyhybridError
from pyhybrid.gpu.memory_snapshot import read_snapshot
from pyhybrid.report.memory_listing import memory_listing
from pyhybrid.report.table import shown
from pyhybrid.views.training.device_memory import device_memory
from pyhybrid.views.training.memory import of_devices

LINEAR = "/v/lib/python3.12/site-packages/torch/nn/modules/linear.py"


def frames(name: str, line: int) -> list[dict[str, Any]]:
    return [
        {"filename": "??", "line": 0, "name": "c10::cuda::allocate"},
        {"filename": LINEAR, "line": 130, "name": "forward"},
        {"filename": "/home/me/model.py", "line": line, "name": name},
    ]


def event(action: str, address: int, size: int, line: int = 0, us: int = 0) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": us} | (
        {"frames": frames("forward", line)} if line else {"frames": []}
    )


def block(address: int, size: int, requested: int, state: str, line: int = 0) -> dict[str, Any]:
    known = frames("forward", line) if line else []
    return {"address": address, "size": size, "requested_size": requested} | {
        "state": state,
        "frames": known,
    }


def snapshot() -> dict[str, Any]:
    """Of 1000 that lived before, 600 at line 5 are given back; the peak is 1000 + 3000 + 2000."""
    segment = {"device": 0, "address": 0, "total_size": 20_000, "stream": 0} | {
        "segment_type": "large",
        "blocks": [
            block(0, 400, 390, "active_allocated", 3),
            block(400, 9600, 0, "inactive"),
            block(10_000, 2000, 2000, "active_awaiting_free", 9),
            block(12_000, 8000, 0, "inactive"),
        ],
    }
    empty = {"device": 0, "address": 50_000, "total_size": 7000, "blocks": []} | {
        "blocks": [block(50_000, 7000, 0, "inactive")]
    }
    trace = [
        event("alloc", 1000, 3000, 5, 10),
        event("alloc", 10_000, 2000, 9, 20),
        event("free_requested", 1000, 3000, us=30),
        event("free_completed", 1000, 3000, us=40),
        event("free_completed", 5000, 600, us=50),
        event("segment_alloc", 50_000, 7000, us=60),
        {"action": "oom", "size": 9_000_000, "device_free": 1_000_000, "stream": 0}
        | {"frames": frames("train", 12), "time_us": 70},
    ]
    return {"segments": [segment, empty], "device_traces": [trace, []]}


def write(folder: Path, content: object) -> str:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(content))
    return str(path)


def test_peak_end_and_pieces(tmp_path: Path) -> None:
    (device,) = read_snapshot(write(tmp_path, snapshot()))
    assert (device.reserved, device.alive, device.rounded) == (27_000, 2400, 10)
    assert (device.largest_free, device.stuck, device.before) == (9600, 17_600, 1000)
    assert (device.peak, device.peak_ns, device.n_events) == (6000, 20_000, 7)
    rows = {
        stack[-1][1] if stack else 0: (site.at_peak, site.alive, site.allocated, site.pieces)
        for stack, site in device.sites.items()
    }
    assert rows == {
        3: (400, 400, 0, 0),
        5: (3000, 0, 3000, 1),
        9: (2000, 2000, 2000, 1),
        0: (600, 0, 0, 0),
    }
    assert sum(each[0] for each in rows.values()) == device.peak
    assert all(file != "??" for stack in device.sites for file, *_ in stack)


def test_what_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path, snapshot())
    lines = [*shown(memory_listing(of_devices(device_memory(path, read_snapshot(path), None))))]
    assert lines[0].startswith("GPU 0, of snapshot.pickle: at most 0.01 MB lived, ")
    asked, free = "9.00 MB asked for in train (model.py:12)", "1.00 MB free on the device"
    assert f"out of memory: {asked}, {free}" in lines
    assert any(line.endswith("  forward < forward (model.py:5)") for line in lines)


def test_without_a_profile_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, snapshot())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["import", "memory", path])
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("GPU 0, of snapshot.pickle: ")


def test_old_formats(tmp_path: Path) -> None:
    """A list of segments, whose blocks have a history, and no addresses."""
    history = [{"addr": 0, "real_size": 90, "frames": frames("forward", 4)}]
    blocks = [{"size": 128, "state": "active_allocated", "history": history}]
    old = [{"device": 1, "address": 0, "total_size": 512, "blocks": blocks}]
    (device,) = read_snapshot(write(tmp_path, old))
    assert (device.number, device.alive, device.rounded, device.peak) == (1, 128, 38, 128)


class Runs:
    """What runs code as it is read."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("made",)


@pytest.mark.parametrize(
    "content",
    [
        {"segments": [Runs()]},
        OrderedDict(segments=[]),
        {"segments": 1},
        {"segments": [{"total_size": 1}]},
        {"segments": [], "device_traces": [[{}]]},
        {"segments": [{"device": 0, "address": 0, "total_size": "x", "blocks": [None]}]},
        5,
    ],
)
def test_what_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PyhybridError) as raised:
        read_snapshot(write(tmp_path, content))
    assert "\n" not in str(raised.value) and not (tmp_path / "made").exists()


@pytest.mark.parametrize("data", [b"", b"\x80\x04", b"no pickle", b"\x80\x04\x82\x01."])
def test_what_is_no_pickle_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(PyhybridError, match="no snapshot of CUDA memory"):
        read_snapshot(str(tmp_path / "x"))
    with pytest.raises(PyhybridError, match="cannot read"):
        read_snapshot(str(tmp_path / "none"))
