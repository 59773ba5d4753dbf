"""Docstrings that are no sentences are found."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "docstrings.py"


def test_fragments_are_found_and_sentences_are_not() -> None:
    fault = runpy.run_path(str(SCRIPT))["fault"]
    fragments = [
        "By loop.",
        "A thread's samples.",
        "The value that is set.",
        "whole",
        "Of each\n\nx.",
    ]
    sentences = ["Return it.", "Is it so?  No.", "A row is a sample.", "`x` has\ntwo: no more."]
    assert all(map(fault, fragments)) and not any(map(fault, sentences))
