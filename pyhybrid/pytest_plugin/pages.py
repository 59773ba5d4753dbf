"""Pages for a browser at a run's end (`--pyhybrid-html`), one a profile."""

import os
from collections.abc import Iterator

import pyhybrid
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.html import Html


def write_pages(paths: list[str], folder: str) -> Iterator[str]:
    """Write the pages of these profiles into a folder, which is made; lines to say of it."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        yield f"no pages: {folder}: {error.strerror}"
        return
    for path in paths:
        name = os.path.basename(path).removesuffix(".pyhybrid") + ".html"
        try:
            with pyhybrid.load(path) as profile:
                output = export_to(Html(), profile, os.path.join(folder, name))
        except PyhybridError as error:
            yield f"no page: {error}"
        else:
            yield from (f"page: {output.path}", *output.notes)
