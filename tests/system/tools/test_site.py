"""The site, of two versions in one folder: each page leads to the same page of the other."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import pwd
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.needs("plain_build", "root", "chromium"),
    pytest.mark.long("pyhybrid is built, and the site twice"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def run(*words: object, **variables: str) -> str:
    done = subprocess.run(
        [*map(str, words)], env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_versions(tmp_path: Path) -> None:
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    cache = Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache")  # HOME is another one here
    site = tmp_path / "site"
    for name in ("dev", "0.0.1"):
        built = run(
            *(CLONE / "scripts/docs.sh", "--site", site / "docs", name),
            PYTHON=base,
            XDG_CACHE_HOME=str(cache),
            SITE="/docs/",
        )
        assert built.strip() == str(site / "docs" / name / "index.html")
    assert json.loads((site / "docs/versions.json").read_text()) == [
        {"version": "0.0.1", "url": "/docs/0.0.1/", "preferred": True},
        {"version": "dev", "url": "/docs/dev/", "preferred": False},
    ]
    assert "url=0.0.1/" in (site / "docs/index.html").read_text()
    browser = ("chromium", "--headless", "--no-sandbox", "--disable-gpu")
    with served(site) as address:
        for name in ("dev", "0.0.1"):
            page = f"{address}/docs/{name}/howto/ci.html"
            shown = run(*browser, "--virtual-time-budget=10000", "--dump-dom", page)
            # On a narrow screen the choice stands elsewhere: it is there twice.
            choice = r'<a class="dropdown-item [^>]*href="([^"]*)"'
            assert set(re.findall(choice, shown)) == {
                "/docs/0.0.1/howto/ci.html",
                "/docs/dev/howto/ci.html",
            }
            assert set(re.findall(r'data-active-version="([^"]*)"', shown)) == {name}
