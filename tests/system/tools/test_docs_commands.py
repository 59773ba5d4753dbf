"""The commands of README.md and docs/ run as they stand there, those of a page one after the other.

Each page has a folder with programs and profiles of the names that it uses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S, command, made_once

CLONE = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"^(?:for \w+ in [\w ]+; do )?(?:[A-Z_]+=\S+ )?"
    r"(?:python -m pyhybrid|pyhybrid(?! python)|pytest --pyhybrid) "
)

PROGRAM = """
import json, sys, threading, time
import pyhybrid

class Loader:
    def next(self): return json.dumps(list(range(2000)))

def hash_word(word): return sum(map(ord, word))

def tokenize(text): return [hash_word(word) for word in text.split(",")]

def train_step(batch):
    with pyhybrid.region("request", path="/"):
        time.sleep(0.06)
        return tokenize(batch)

def rank(n): return sum(i * i % 7 for i in range(n))

def load(loader):
    for _ in range(3): loader.next(), rank(10_000)

def main():
    pyhybrid.enable()
    loader = Loader()
    thread = threading.Thread(target=load, args=(loader,), name="data-0")
    thread.start()
    for _ in range(5): train_step(loader.next())
    thread.join()
    pyhybrid.disable()

main()
"""
TEST = "def test_speed(): assert sum(range(100_000)) > 0\n"
PROGRAMS = (
    *("train.py", "old/train.py", "new/train.py", "examples/train.py", "server.py", "worker.py"),
    "serve.py",
    *("benchmark.py", "base/benchmark.py", "sim.py", "script.py"),
)
PROFILES = (
    "out",
    "run",
    "a",
    "before",
    "after",
    "before1",
    "before2",
    "after1",
    "after2",
    "base1",
    "base2",
)
PROFILES += "new1", "new2", "lines"
# Of pages whose commands other tests run, or nobody can.
ELSEWHERE = {
    "attach.md": "tests/system/attach",
    "live.md": "tests/system/live",
    "training.md": "tests/system/torch",
    "coming-from.md": "test_coming_from.py",
    "live-outputs.md": "tests/system/emit",
    "options.md": "words in brackets",
}
# What stands for something else there, and what a command means that a folder like this has not.
CHANGES = {
    "../base/": "base/",
    "PYHYBRID_CONFIG=/etc/pyhybrid.json": "PYHYBRID_CONFIG=slow-steps.toml",
    "--bundle DIR": "--bundle bundle",
    "pyhybrid snapshot 4711": "pyhybrid snapshot --help",
    "report --process 4711": "report --process '*train.py*'",
    "-m pytest tests/test_speed.py": "-m pytest -p no:cacheprovider tests/test_speed.py",
    "loader*": "data*",
    "diff before.ranks after.ranks": "diff out.ranks out.ranks",
    "spark=spark://head:7077 /shared/run7/out.ranks": "duckdb out.ranks",
    # To a server, as tests/unit/test_push.py does.
    "--push http://host:4040 --push-steps 100 out.ranks/rank-2.pyhybrid": "",
    "--push http://host:4040": "",
    "--push parca+http://host:7070": "",
    "~/.config/fish/completions/": "",
    "~/.local/share/man/man1/": "",
    "gunicorn -w": "gunicorn --check-config -w",  # which ends
    "--process 'loader worker'": "--process gunicorn",
    "--process 'rank 1'": "--process gunicorn",
    "folded --process 4711": "folded --process gunicorn",
    "python -m pyhybrid report steps\n": "python -m pyhybrid report\n",  # of a model that answers
    "--epochs 2": "",
    "--epochs 1 --steps 10": "",
    "python -m pyhybrid page ": "python -m pyhybrid page --no-open ",
    "python -m pyhybrid page\n": "python -m pyhybrid page --no-open\n",
}
EXIT_CODES = {2: "--fail-if", 1: ".cautions == []"}  # it cannot tell; the run is short


def commands(page: Path) -> Iterator[str]:
    for language, text in BLOCK.findall(page.read_text()):
        if language in ("sh", ""):
            yield from (line for line in text.splitlines() if COMMAND.match(line))


SERVERS = ("processes.md",)  # pages that start some
PAGES = [
    page
    for page in (CLONE / "README.md", *sorted((CLONE / "docs").rglob("*.md")))
    if page.name not in ELSEWHERE and any(commands(page))
]


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        for name in PROGRAMS:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(PROGRAM)
        (folder / "app.py").write_text("def application(environ, start_response): return []\n")
        (folder / "tests").mkdir()
        (folder / "tests" / "test_speed.py").write_text(TEST)
        (folder / "slow-steps.toml").write_text('keep = ["train_step"]\n')
        command(folder, "-q", "-t", "train_step", "train.py")
        for name in PROFILES:
            if name != "out":
                shutil.copy(folder / "out.pyhybrid", folder / f"{name}.pyhybrid")

    made = made_once(tmp_path_factory, "docs_commands", make)
    shutil.copytree(made, tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.further
@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.needs("servers")] if page.name in SERVERS else [])
        for page in PAGES
    ],
    ids=lambda page: page.name,
)
def test_they_run(folder: Path, page: Path) -> None:
    environment = {**os.environ, "ARTEFACTS": str(folder)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    for line in commands(page):
        typed = line + "\n"
        for there, here in CHANGES.items():
            typed = typed.replace(there, here)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", typed.removesuffix("&\n")],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0 or EXIT_CODES.get(done.returncode, "\0") in line, (line, done)
        assert "Traceback" not in done.stderr
