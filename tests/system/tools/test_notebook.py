"""A notebook, run in a real kernel: what `%%pyhybrid` and `%pyhybrid` show, how cells are named."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, made_once

pytestmark = [pytest.mark.once, pytest.mark.needs("nbclient")]

WORK = """
import functools, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass

def add(a, b):
    burn(0.01)
    return a + b
"""
TREE = """
from pyhybrid.report.tree import tree_lines
print("\\n".join(tree_lines(_)))
"""
CELLS = [
    "%load_ext pyhybrid",
    WORK,
    "%%pyhybrid --hz 500 -t add\nx = functools.reduce(add, range(21))\nx",
    "profile = _",
    TREE
    + """
print(profile.meta["hz_asked"], len(profile.call_times), x)
""",
    """
import pyhybrid.notebook
pyhybrid.notebook.MOST_BYTES = 1000
profile
""",
    "%%pyhybrid --hz nonsense\n1",
    "%%pyhybrid\n1 / 0",
    "print(pyhybrid_is_not_here)",
    "%pyhybrid --hz 250 -t add y = add('a b', \"'s\")",
    "print(repr(y), _.meta['hz_asked'], len(_.call_times))",
    "%pyhybrid --hz 250",
    """
import asyncio
async def later(value):
    burn(0.05)
    await asyncio.sleep(0)
    return value

async def several():
    yield 2
""",
    """%%pyhybrid -t later
z = [await later(1)]
z += [each async for each in several()]
await later(z)
""",
    TREE + "print(_.call_times[0].calls, z)",
    "%pyhybrid -t later await later(3)",
    "%%pyhybrid --help\nawait later(4)",
    "%%pyhybrid\nawait later(5)\n1 / 0",
    "%reload_ext pyhybrid\n%pyhybrid await later(6)",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What each cell gave."""
    import nbformat

    def make(folder: Path) -> None:
        from nbclient import NotebookClient

        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
        spec = folder / "kernels" / "this"
        spec.mkdir(parents=True)
        command = [sys.executable, "-P", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel = {"argv": command, "display_name": "this", "language": "python"}
        (spec / "kernel.json").write_text(json.dumps(kernel))
        from jupyter_client.kernelspec import KernelSpecManager

        manager = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
        client = NotebookClient(
            book,
            timeout=PATIENCE_S,
            startup_timeout=PATIENCE_S,
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.create_kernel_manager().kernel_spec_manager = manager
        client.km.kernel_name = "this"
        client.execute()
        nbformat.write(book, folder / "run.ipynb")

    folder = made_once(tmp_path_factory, "notebook", make)
    assert (folder / "run.ipynb").exists()
    return [cell.outputs for cell in nbformat.read(folder / "run.ipynb", 4).cells]


def text_of(outputs: list[Any]) -> str:
    return "".join(each.get("text", "") for each in outputs)


def test_the_page_is_shown(outputs: list[list[Any]]) -> None:
    value, shown = outputs[2]
    assert value.data["text/plain"] == "210"
    assert shown.output_type == "execute_result"
    page = shown.data["text/html"]
    assert len(page) < 300_000
    (inner,) = re.findall(r'^<iframe srcdoc="([^"]*)" ', page)
    document = html.unescape(inner)
    assert document.startswith("<!doctype html>")
    assert "Content-Security-Policy" in document
    assert shown.data["text/plain"].startswith("<profile ")
    columns = re.findall(r'<script[^>]* id="data"[^>]*>([^<]*)', document)[0]
    assert b"def burn(seconds):\n    end = " in gzip.decompress(base64.b64decode(columns))


@pytest.mark.further
def test_cells_have_names(outputs: list[list[Any]]) -> None:
    """And what calls them is left out."""
    lines = text_of(outputs[4]).splitlines()
    rows = [line.split("%")[-1].strip() for line in lines[1:-1]]
    assert rows[0] == "<module> (Cell [3]:1)"
    (add,) = (line for line in lines if "add (Cell [2]:7)" in line)
    assert add.split()[2] == "20"
    assert not any(re.search(r"ipykernel|IPython|asyncio|notebook/magic", row) for row in rows)
    assert sum("Cell [3]" in row for row in rows) == 1
    assert lines[-1] == "500 1 210"


@pytest.mark.further
def test_a_large_profile_is_a_link(outputs: list[list[Any]], tmp_path: Path) -> None:
    (shown,) = outputs[5]
    (path,) = re.findall(r'<a href="(pyhybrid-\d+-\d+\.html)"', shown.data["text/html"])
    assert path.endswith(".html")


@pytest.mark.further
def test_what_is_wrong_is_one_line(outputs: list[list[Any]]) -> None:
    errors = [each for each in outputs[6] if each.output_type in ("stream", "error")]
    assert "pyhybrid: argument --hz" in str(errors)


@pytest.mark.further
def test_what_a_cell_raises_is_raised(outputs: list[list[Any]]) -> None:
    """And the next cell runs."""
    (error,) = (each for each in outputs[7] if each.output_type == "error")
    assert error.ename == "ZeroDivisionError"
    traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))
    assert "Cell In[8], line 1\n----> 1 1 / 0" in traceback
    assert "magic.py" not in traceback
    (error,) = outputs[8]
    assert error.ename == "NameError"


def test_a_statement(outputs: list[list[Any]]) -> None:
    """Behind the options, as it stands there."""
    (shown,) = outputs[9]
    assert "<iframe " in shown.data["text/html"] or "<a href=" in shown.data["text/html"]
    assert text_of(outputs[10]) == """"a b's" 250 1\n"""
    assert "nothing to profile" in str(outputs[11])


@pytest.mark.further
def test_what_awaits(outputs: list[list[Any]]) -> None:
    """A cell runs in the kernel's loop, and what calls it is left out, also when it goes on."""
    value, shown = outputs[13]
    assert value.data["text/plain"] == "[1, 2]"
    assert shown.data["text/plain"].startswith("<profile ")
    *lines, last = text_of(outputs[14]).splitlines()
    assert last == "2 [1, 2]"
    rows = [line.split("%")[-1].strip() for line in lines[1:]]
    assert rows[0] == "<module> (Cell [14]:1)"
    assert not any(re.search(r"ipykernel|IPython|asyncio|notebook/magic", row) for row in rows)
    (later,) = (line for line in lines if "later (Cell [13]:2)" in line)
    assert later.split()[2] == "2"


@pytest.mark.further
def test_a_statement_that_awaits(outputs: list[list[Any]]) -> None:
    for cell, value in ((15, "3"), (18, "6")):
        shown = [each.data["text/plain"] for each in outputs[cell]]
        assert shown[0] == value and shown[1].startswith("<profile ")


@pytest.mark.further
def test_help_and_errors_of_what_awaits(outputs: list[list[Any]]) -> None:
    assert "--hz" in text_of(outputs[16])
    (error,) = (each for each in outputs[17] if each.output_type == "error")
    assert error.ename == "ZeroDivisionError"
