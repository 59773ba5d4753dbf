"""The page that shows a profile: its data as columns, its sources, and the document around them."""

import base64
import gzip
import json
from array import array
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyhybrid.base.hashes import sha256

# Columns of whole numbers in few bytes, which the page's script reads (web/src/columns.ts).
#
# A column's values are little-endian and as wide as the largest needs, one to seven bytes, and all
# first bytes come first, then all second ones: so gzip finds more that is alike.


class Columns:
    """Collect named columns, which become one text."""

    def __init__(self) -> None:
        # Of each: where it begins, how many values it has, how many bytes each of them.
        self.index: dict[str, tuple[int, int, int]] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: Iterable[int]) -> None:
        """Add a column of numbers from 0 to 2**53."""
        column = values if isinstance(values, array) else array("Q", values)
        width = max((max(column, default=0).bit_length() + 7) // 8, 1)
        raw = column.tobytes()
        step = column.itemsize
        planes = [raw[byte::step] for byte in range(min(width, step))]
        self._put(name, len(column), len(planes), planes)

    def add_text(self, name: str, texts: Iterable[str]) -> None:
        """Add texts, which may have whatever characters."""
        joined = "\0".join(text.replace("\0", "\ufffd") for text in texts)
        data = joined.encode("utf-8", "backslashreplace")
        self._put(name, len(data), 1, [data])

    def _put(self, name: str, n: int, width: int, parts: list[bytes]) -> None:
        self.index[name] = (self._size, n, width)
        self._parts += parts
        self._size += n * width

    def text(self) -> str:
        """Return all of them, gzip in base64."""
        return base64.b64encode(gzip.compress(b"".join(self._parts), 6, mtime=0)).decode()


def steps(values: Iterable[int], before: int = 0) -> "array[int]":
    """Return the steps between values, the first from `before`; none is less than the last."""
    return array("Q", (to - since for since, to in pairwise([before, *values])))


# One HTML file around the data: script and style are in it, and nothing else may run or load.

_FOLDER = Path(__file__).parent

# https://www.w3.org/TR/CSP3/: no network, no eval, of scripts and styles those with these hashes.
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; "
    "form-action 'none'"
)
_DOCUMENT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{css}</style>
<div id="app"><noscript>This page needs its own script, which may not run here.</noscript></div>
<script type="application/json" id="index">{index}</script>
<script type="text/plain" id="data">{data}</script>
<script>{js}</script>
</html>
"""


def document(title: str, meta: dict[str, Any], columns: Columns, script: str = "") -> str:
    """Return the file's text.  `meta` may have whatever texts: it goes to the columns.  `script`
    shows them; "": the one of web/."""
    js, css = ((_FOLDER / name).read_text("utf-8") for name in ("page.js", "page.css"))
    js = script or js
    policy = _POLICY.format(script=_hash(js), style=_hash(css))
    columns.add_text("meta", [json.dumps(meta, separators=(",", ":"))])
    return _DOCUMENT.format(
        policy=policy,
        title=escape(title.encode("utf-8", "backslashreplace").decode()),
        css=css,
        index=json.dumps(columns.index, separators=(",", ":")),
        data=columns.text(),
        js=js,
    )


def _hash(text: str) -> str:
    digest = sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()
