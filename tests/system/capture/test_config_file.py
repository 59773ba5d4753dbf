"""Runs whose options are in files: what they say holds, and the profile tells which they were."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support import Run

PROGRAM = """
import helper, sys
def wanted_a(): pass
def wanted_b(): pass
def inner(): helper.helped()
for f in (wanted_a, wanted_b, inner):
    f()
"""
HELPER = "def helped(): pass\ndef wanted_elsewhere(): pass\nwanted_elsewhere()\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def counted(run: Run, name: str = "out.pyhybrid") -> set[str]:
    profile = run.profile(name)
    nodes = (profile.nodes.frame[row.node] for row in profile.exact if row.calls)
    frames = [profile.frames[frame] for frame in nodes]
    return {frame.name for frame in frames if (frame.file or "").endswith(".py")}


def test_a_project(pyhybrid: Callable[..., Run], project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.pyhybrid]\nmode = "trace"\nformat = "pstats"\noutput = "mine"\ninclude = "^wanted"\n'
    )
    run = pyhybrid("program.py")
    assert {each.name for each in project.glob("mine*")} == {"mine.pyhybrid", "mine.pstats"}
    assert counted(run, "mine.pyhybrid") == {"wanted_a", "wanted_b", "wanted_elsewhere"}
    notes = run.profile("mine.pyhybrid").meta["notes"]
    assert f"options from {project}/pyproject.toml" in notes
    assert "options from" in run.result.stderr
    plain = pyhybrid("--no-config", "--mode", "sample", "program.py")
    assert "options from" not in plain.result.stderr and (project / "out.folded").exists()


def test_the_command_line_wins(pyhybrid: Callable[..., Run], project: Path) -> None:
    (project / "mine.yaml").write_text(yaml.safe_dump({"include": ["helped"], "mode": "trace"}))
    env = {"PYHYBRID_CONFIG": "mine.yaml"}
    assert counted(pyhybrid("program.py", env=env)) == {"helped"}
    assert counted(pyhybrid("--include", "inner", "program.py", env=env)) == {"inner"}


@pytest.mark.further
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"include_timers": ["^wanted"], "exclude_files": ["helper"]}, {"wanted_a", "wanted_b"}),
        ({"include_files": ["helper"], "exclude_timers": ['"<module>"']},
         {"helped", "wanted_elsewhere"}),
        ({"include_timers": []}, set()),
    ],
)  # fmt: skip
def test_keys_of_perfstubs(
    pyhybrid: Callable[..., Run], project: Path, keys: dict[str, list[str]], expected: set[str]
) -> None:
    """They choose without that live output, too."""
    (project / "filter.json").write_text(json.dumps(keys))
    run = pyhybrid("--config", "filter.json", "--mode", "trace", "program.py")
    assert counted(run) == expected


def test_an_error_is_one_line_before_anything_runs(
    pyhybrid: Callable[..., Run], project: Path
) -> None:
    (project / "pyproject.toml").write_text("[tool.pyhybrid]\nhertz = 5\n")
    run = pyhybrid("program.py", check=False)
    assert run.result.returncode == 2
    assert run.result.stderr == (
        f"pyhybrid: {project}/pyproject.toml: there is no option 'hertz': the nearest one is 'hz'\n"
    )
    assert not list(project.glob("out*"))


@pytest.mark.further
def test_from_within_a_program(project: Path) -> None:
    """A decorated function's files go where the file says, in the formats that it names."""
    (project / "mine.json").write_text(
        json.dumps({"output": "mine", "mode": "trace", "format": ["pstats"], "paused": True})
    )
    (project / "job.py").write_text(
        "import pyhybrid\n@pyhybrid.profile(config='mine.json')\ndef f(): g()\ndef g(): pass\nf()\n"
    )
    subprocess.run([sys.executable, "-P", "job.py"], cwd=project, check=True)
    assert {each.name for each in project.glob("mine.*")} == {
        "mine.json",
        "mine.pyhybrid",
        "mine.pstats",
    }
    run = Run.recorded(project)
    assert {"f", "g"} <= counted(run, "mine.pyhybrid")
    run.close()
