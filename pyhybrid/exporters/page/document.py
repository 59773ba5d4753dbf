"""One HTML file around the data: script and style are in it, and nothing else may run or load."""

import base64
import hashlib
import json
from html import escape
from pathlib import Path
from typing import Any

from pyhybrid.exporters.page.columns import Columns

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


def document(title: str, meta: dict[str, Any], columns: Columns) -> str:
    """The file's text.  `meta` may have whatever texts: it goes to the columns."""
    js, css = ((_FOLDER / name).read_text("utf-8") for name in ("page.js", "page.css"))
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
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()
