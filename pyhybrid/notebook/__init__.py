"""A profile below a notebook's cell: its page in a frame, or where that is large a link to it."""

import html
import io
import linecache
import os
import tempfile
from typing import TYPE_CHECKING

from pyhybrid.tables.profile import Profile

if TYPE_CHECKING:
    from pyhybrid.exporters.html import Html

MOST_BYTES = 300_000  # of a page within the notebook's file
HEIGHT = 640  # pixels


def html_of(profile: Profile) -> str:
    """Return HTML for the notebook.  Raises PyhybridError where a large page cannot be written."""
    from pyhybrid.exporters.html import Html

    page = Html()
    page.texts = _texts(profile)
    for page.with_source in (True, False):
        written = io.BytesIO()
        page.write(profile, written)
        text = html.escape(written.getvalue().decode("utf-8", "replace"))
        if len(text.encode()) <= MOST_BYTES:
            frame = f'style="width:100%;height:{HEIGHT}px;border:0" title="profile"'
            return f'<iframe srcdoc="{text}" {frame}></iframe>'
    page.with_source = True
    return _link(profile, page)


def _texts(profile: Profile) -> dict[str, str]:
    """Return the texts of the cells, as far as this process is the one that ran them."""
    cells: dict[str, str] = profile.meta.get("cells") or {}
    if profile.process.pid != os.getpid():
        return {}
    return {name: "".join(linecache.getlines(file)) for file, name in cells.items()}


def _link(profile: Profile, page: "Html") -> str:
    """Return a link to the page in a file beside the notebook, the same one each time."""
    from pyhybrid.exporters.destination import export_to

    began = int(profile.meta.get("start_unix_ns") or 0)
    folder = "" if os.access(".", os.W_OK) else tempfile.gettempdir()
    path = os.path.join(folder, f"pyhybrid-{profile.process.pid}-{began // 1_000_000_000}.html")
    export_to(page, profile, path)
    shown = html.escape(path)
    return f'The profile is large: <a href="{shown}" target="_blank">{shown}</a>'
