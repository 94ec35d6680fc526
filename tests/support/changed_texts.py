"""Texts of a language with random changes, and the invariants of the diagnostics of any text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from hypothesis import strategies as st

from dotr.errors.diagnostics import Diagnostic

TextChange: TypeAlias = tuple[int, int, str]
"""A position, the number of characters that are removed there, and the text that is inserted there."""


def changes(pieces: Sequence[str], reach: int, longest: int) -> st.SearchStrategy[list[TextChange]]:
    """Up to four changes at places up to `reach`, each removing up to `longest` characters."""
    return st.lists(st.tuples(st.integers(0, reach), st.integers(0, longest), st.sampled_from(pieces)), max_size=4)


def changed(text: str, some: Iterable[TextChange]) -> str:
    """The text after all changes, applied in sequence."""
    for start, length, piece in some:
        text = text[:start] + f" {piece} " + text[start + length :]
    return text


def check_places(diagnostics: Iterable[Diagnostic], text: str) -> None:
    """Asserts that each problem has a place in the text, and a message."""
    for each in diagnostics:
        assert each.span is not None
        assert 0 <= each.span.start <= each.span.end <= max(len(text), 1)
        assert str(each)
