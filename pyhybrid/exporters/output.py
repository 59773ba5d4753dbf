"""What exporters have in common: names without separators, and what to say when it is done."""

from typing import NamedTuple

# Readers of what is exported cut it at line ends, and stacks at semicolons.
SEPARATORS = str.maketrans({";": ":", "\n": " ", "\r": " "})


class Output(NamedTuple):
    """The file that was written (None: it was not, the notes say why), and notes for the user."""

    path: str | None
    notes: list[str]
