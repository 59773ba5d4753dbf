"""A program by its name alone: commands that pip installed, modules, and what is neither."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from support import NO_PLUGINS, PATIENCE_S, TARGETS, Run, made_once

from pyhybrid.tables.profile import Profile

TOOL = """
import sys

def work(n):
    return n and work(n - 1)

def main():
    work(10)
    print(sys.argv, sys.path, sys.flags.safe_path, __name__, sys.modules["__main__"].__file__)
    return len(sys.argv)
"""
METADATA = "Metadata-Version: 2.1\nName: tool\nVersion: 1\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# What a frame of pyhybrid's own would have as its file.
OWN = f"{os.sep}pyhybrid{os.sep}"


def make_environment(folder: Path) -> None:
    """A virtual environment with pyhybrid and a package that has a command, installed by pip."""
    wheel = folder / "tool-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tool/__init__.py", TOOL)
        archive.writestr("tool/__main__.py", "import tool\ntool.main()\n")
        archive.writestr("no_main/__init__.py", "")
        archive.writestr("tool-1.dist-info/METADATA", METADATA)
        archive.writestr("tool-1.dist-info/WHEEL", WHEEL)
        archive.writestr(
            "tool-1.dist-info/entry_points.txt", "[console_scripts]\nthe-tool = tool:main\n"
        )
        archive.writestr("tool-1.dist-info/RECORD", "")
    # The long one has a script that the shell starts: `'''exec' PYTHON "$0" "$@"`.
    for home in (folder / "short", folder / ("a b" + "c" * 120)):
        venv.create(home, with_pip=False, symlinks=True)
        python = home / "bin" / "python"
        [packages] = home.glob("lib/python*/site-packages")
        (packages / "pyhybrid.pth").write_text("\n".join(p for p in sys.path if "-packages" in p))
        install = ["install", "-q", "--no-index", "--no-deps", "--no-compile", str(wheel)]
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        pip = [sys.executable, "-m", "pip", "--python", str(python), *install]
        subprocess.run(pip, check=True, env=environment)


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = made_once(tmp_path_factory, "environments", make_environment)
    return sorted(home for home in folder.iterdir() if home.is_dir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(TARGETS / "whoami.py", tmp_path / "module_here.py")
    return tmp_path


def run(folder: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip


def with_bin(home: Path) -> dict[str, str]:
    return {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("by", ["module", "command"])
def test_a_command_runs_as_it_is_typed(folder: Path, environments: list[Path], by: str) -> None:
    for home in environments:
        typed = run(folder, "the-tool", "a", "-m", "b", **with_bin(home))
        ours = [home / "bin" / "python", "-m", "pyhybrid"]
        if by == "command":
            main = "from pyhybrid.cli import main; main()"
            (folder / "pyhybrid").write_text(f"#!/usr/bin/env python\n{main}\n")
            ours = [home / "bin" / "python", folder / "pyhybrid"]
        profiled = run(folder, *ours, "--format", "folded", "the-tool", "a", "-m", "b")
        assert typed.stdout.count("the-tool") == 2, typed.stderr
        assert (profiled.stdout, profiled.returncode) == (typed.stdout, 4), profiled.stderr
        assert typed.returncode == profiled.returncode
        profile = Run.recorded(folder).profile()
        frames = profile.frames
        counted = {
            (frame.name, frame.file): row.calls
            for row in profile.exact
            for frame in [frames[profile.nodes.frame[row.node]]]
        }
        calls = {name: n for (name, file), n in counted.items() if "tool" in (file or "")}
        assert calls["main"] == calls["<module>"] == 1
        assert sum(row.calls for row in profile.exact if named(profile, row.node) == "work") == 11
        assert not [file for _, file in counted if OWN in (file or "")]
        profile.close()


def named(profile: Profile, node: int) -> str:
    return profile.frames[profile.nodes.frame[node]].name


@pytest.mark.further
def test_pytest_itself(folder: Path) -> None:
    (folder / "test_it.py").write_text("def test_it(): assert 1\n")
    ours = [sys.executable, "-P", "-m", "pyhybrid", "--format", "folded"]
    command = ("pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    done = run(folder, *ours, *command, PYTEST_ADDOPTS=NO_PLUGINS)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stderr
    profile = Run.recorded(folder).profile()
    assert [row.calls for row in profile.exact if named(profile, row.node) == "test_it"] == [1]
    profile.close()


def test_the_process_has_the_interpreters_name(folder: Path) -> None:
    """Native threads have it from the process: none is to look like the profiler's."""
    command = folder / "pyhybrid"
    command.write_text(f"#!{sys.executable}\nfrom pyhybrid.cli import main; main()\n")
    command.chmod(0o755)
    code = "print(open('/proc/self/comm').read())"
    done = run(folder, command, "-q", "--format", "folded", "-c", code)
    assert done.stdout.strip() == Path(sys.executable).name[:15], done.stderr


def test_a_module_runs_as_with_m(folder: Path) -> None:
    for words in (["module_here", "x", "-q"], ["json.tool", "--help"]):
        bare = run(folder, sys.executable, "-m", *words)
        profiled = run(folder, sys.executable, "-m", "pyhybrid", "-q", "--mode", "trace", *words)
        assert bare.returncode == 0 and profiled.stdout == bare.stdout, profiled.stderr


@pytest.mark.further
def test_a_file_of_that_name_wins(folder: Path, environments: list[Path]) -> None:
    (folder / "the-tool").write_text("print('the file')")
    (folder / "tool").mkdir()
    python = environments[0] / "bin" / "python"
    ours = [python, "-m", "pyhybrid", "-q", "--mode", "trace"]
    assert run(folder, *ours, "the-tool").stdout == "the file\n"
    # A folder that is no program does not: the repository of a tool has one of its name.
    (folder / "the-tool").unlink()
    (folder / "the-tool").mkdir()
    assert "/bin/the-tool'" in run(folder, *ours, "the-tool").stdout
    (folder / "the-tool" / "__main__.py").write_text("print('the folder')")
    assert run(folder, *ours, "the-tool").stdout == "the folder\n"


@pytest.mark.further
def test_where_there_is_no_room_it_runs_all_the_same(
    folder: Path, environments: list[Path]
) -> None:
    python = environments[0] / "bin" / "python"
    limited = ["sh", "-c", 'ulimit -n 12; "$@"', "sh", python, "-m", "pyhybrid", "the-tool"]
    done = run(folder, *limited)
    assert "the program runs without a profile" in done.stderr
    assert "/bin/the-tool'" in done.stdout


def test_what_is_no_program(folder: Path, environments: list[Path]) -> None:
    (folder / "bin").mkdir()
    for name, text in (("wrapper", "#!/bin/sh\nexec true\n"), ("other", "#!/nowhere/python3\n")):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    shutil.copy("/bin/true", folder / "bin" / "binary")
    for name, *expected in (
        ("the_tol", "there is no program 'the_tol'", "script.py", "-m module"),
        ("no_main", "there is no program 'no_main'"),
        ("reprot", "there is no program 'reprot'", "(`pyhybrid report`?)"),
        ("tree", "there is no program 'tree'", "(`pyhybrid report tree`?)"),
        ("the_tool.py", "can't open 'the_tool.py': No such file or directory"),
        ("wrapper", f"{folder}/bin/wrapper is no Python program"),
        ("binary", f"{folder}/bin/binary is no Python program"),
        ("other", "another interpreter: `/nowhere/python3 -m pyhybrid other`"),
    ):
        done = run(
            folder,
            *(environments[0] / "bin" / "python", "-m", "pyhybrid", name),
            **with_bin(folder),
        )
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith("pyhybrid: ") and done.stderr.count("\n") == 1
        for part in expected:
            assert part in done.stderr
    assert not list(folder.glob("out*"))
