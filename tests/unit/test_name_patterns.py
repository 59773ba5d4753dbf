"""Patterns in the notation of the shell mean what fnmatch says they do."""

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from pyhybrid.base.light import matches
from pyhybrid.base.name_patterns import NamePatterns

TEXTS = st.text("ab*?[]!-\n", max_size=5)


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_as_fnmatch(patterns: list[str], name: str) -> None:
    expected = any(fnmatchcase(name, each) for each in patterns)
    assert NamePatterns(patterns).match(name) == expected


def test_all_kinds_together() -> None:
    names = NamePatterns(["call", "Py*", "wrap_*_call", "lib[io]omp"])
    assert all(map(names.match, ("call", "Py", "PyX", "wrap_x_call", "libiomp")))
    assert not any(map(names.match, ("calls", "xPy", "wrap_x_calls", "libomp", "")))


@given(TEXTS.map(lambda text: text.replace("?", "").replace("[", "")), TEXTS)
def test_of_stars_alone(pattern: str, name: str) -> None:
    assert matches(name, pattern) == fnmatchcase(name, pattern)
