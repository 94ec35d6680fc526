"""Patterns of names: those of ASCII texts and those of all texts match the same in ASCII texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.syntax import names as characters
from dotr.syntax.names import name_characters
from dotr.syntax.sparql.tokens import _lexer
from dotr.syntax.turtle.terms import name_tokens

pytestmark = pytest.mark.core

ASCII = st.text(st.sampled_from("aZ0_:-.?$<>\"'\\@^|&{}()[]~%# \n/eE+") | st.characters(max_codepoint=127), max_size=30)


@given(ASCII)
def test_ascii_texts_have_the_same_tokens(text: str) -> None:
    own, full = _lexer(name_characters(text)), _lexer(characters._ALL)
    assert own is not full
    for start in range(len(text)):
        assert _found(own, text, start) == _found(full, text, start)
    for one, other in zip(name_tokens(name_characters(text)), name_tokens(characters._ALL), strict=True):
        assert [_found(one, text, start) for start in range(len(text))] == [_found(other, text, start) for start in range(len(text))]


def _found(pattern: re.Pattern[str], text: str, start: int) -> tuple[str | None, str] | None:
    match = pattern.match(text, start)
    return None if match is None else (match.lastgroup, match[0])


def test_letters_beyond_ascii_are_those_of_the_standard() -> None:
    letters = re.compile(f"[{characters._ALL.letters}]")
    inside = ["é", "ʰ", "\u200c", "\u2070", "丂", "\ufdf0", "\U00010000", "\U000effff"]
    outside = ["×", "÷", "\u00b7", "\u0300", "\u037e", "\u2000", "\ue000", "\U000f0000", "_", "-", "0"]
    assert all(map(letters.fullmatch, inside))
    assert not any(map(letters.fullmatch, outside))
