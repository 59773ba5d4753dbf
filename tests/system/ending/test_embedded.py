"""Programs that are their own sys.executable: never started as if they were an interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS, Run

import pyhybrid as package

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
LIBRARY = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY"))
CODE = f"""
import sys
sys.path.append({str(Path(package.__file__).parent.parent)!r})
import pyhybrid
p = pyhybrid.Profiler(output="out")
p.start()
sum(range(10**6))
p.stop()
print(sys.executable)
"""


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not LIBRARY.exists():
        pytest.skip("this interpreter has no library to link with")
    target = tmp_path_factory.mktemp("embedded") / "application"
    include = f"-I{sysconfig.get_path('include')}"
    libraries = [LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-lm", "-ldl", "-lutil", "-lpthread"]
    source = TARGETS / "embedded.c"
    subprocess.run(["gcc", "-o", target, include, source, *libraries, "-rdynamic"], check=True)
    return target


def start(
    application: Path, folder: Path, home: Path, code: str = CODE
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run it; how often it was started."""
    starts = folder / "starts"
    environment = {
        "EMBEDDED_CODE": textwrap.dedent(code),
        "EMBEDDED_HOME": str(home),
        "EMBEDDED_STARTS": str(starts),
    }
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(
        [application],
        cwd=work,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done, starts.stat().st_size


def lone_home(folder: Path) -> Path:
    """A prefix with the standard library, and without an interpreter."""
    library = folder / "home" / sys.platlibdir
    library.mkdir(parents=True)
    (library / VERSION).symlink_to(sysconfig.get_path("stdlib"))
    return folder / "home"


@pytest.mark.version
def test_its_prefix_has_an_interpreter(embedded: Path, tmp_path: Path) -> None:
    done, starts = start(embedded, tmp_path, Path(sys.base_prefix))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{embedded}\n", "")
    assert starts == 1
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["out.pyhybrid"]


@pytest.mark.further
@pytest.mark.version
def test_there_is_no_interpreter(
    embedded: Path, tmp_path: Path, pyhybrid: Callable[..., Run]
) -> None:
    """The .part stays, and we say how to read it."""
    done, starts = start(embedded, tmp_path, lone_home(tmp_path))
    assert (done.returncode, done.stdout, starts) == (0, f"{embedded}\n", 1)
    (line,) = done.stderr.splitlines()
    assert "out.pyhybrid.part could not be finished: no Python interpreter is known here" in line
    assert "`python -m pyhybrid report`" in line
    report = pyhybrid("report", cwd=tmp_path / "work")
    assert "999 Hz asked" in report.result.stdout
    assert not list((tmp_path / "work").glob("*.part"))


@pytest.mark.further
def test_without_an_output_nothing_could_come_of_it(embedded: Path, tmp_path: Path) -> None:
    code = CODE.replace('output="out"', "") + "print('not reached')"
    done, starts = start(embedded, tmp_path, lone_home(tmp_path), code)
    assert (done.returncode, done.stdout, starts) == (1, "", 1)
    assert "PyhybridError: no Python interpreter is known here" in done.stderr.splitlines()[-1]


@pytest.mark.further
def test_one_that_looks_like_an_interpreter_ends(embedded: Path, tmp_path: Path) -> None:
    """In the place of one, by its name: it is started once more, and does not profile itself."""
    home = lone_home(tmp_path)
    (home / "bin").mkdir()
    shutil.copy(embedded, home / "bin" / VERSION)
    done, starts = start(home / "bin" / VERSION, tmp_path, home)
    assert (done.returncode, starts) == (0, 2)
    assert "this process makes a profile: nothing is profiled in it" in done.stderr
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["out.pyhybrid.part"]
