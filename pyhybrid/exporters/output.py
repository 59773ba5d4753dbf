"""What an exporter has to say when it is done."""

from typing import NamedTuple


class Output(NamedTuple):
    """The file that was written (None: it was not, the notes say why), and notes for the user."""

    path: str | None
    notes: list[str]
