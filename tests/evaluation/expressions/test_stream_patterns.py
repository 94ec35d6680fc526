"""Limit of the patterns of REGEX and REPLACE that come with the stream: bytes compiled in one instant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import re2

from dotr.evaluation.expressions import evaluator
from dotr.evaluation.limits import BOUNDS, LONGEST_TEXT, MOST_TEXT
from dotr.model.algebra import Var
from dotr.model.places import Document, Span
from dotr.model.terms import FALSE, TRUE, Term, literal
from dotr.syntax.sparql import parse_expression

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True)
def _start() -> Iterator[None]:
    BOUNDS.start(LONGEST_TEXT, MOST_TEXT)
    yield
    BOUNDS.start(LONGEST_TEXT, MOST_TEXT)


def value(text: str, **bound: Term) -> Term | None:
    expression = parse_expression(Span(Document("", text), 0, len(text)), {})
    result: Term | None = evaluator(expression, [Var(name) for name in bound])(*bound.values())
    return result


@pytest.mark.parametrize("text", ["REGEX(?x, ?p)", 'REPLACE(?x, ?p, "b") = "b"', 'REGEX(?x, CONCAT("^", ?p))'])
def test_patterns_of_an_instant_err_beyond_the_limit(text: str) -> None:
    def found() -> list[Term | None]:
        BOUNDS.start(LONGEST_TEXT, MOST_TEXT)
        return [value(text, x='"a"', p=literal(f"a|{number:04}" + "(b?){200}" * 20)) for number in range(100)]

    once = found()
    limit = once.index(None)
    assert 10 < limit < 90
    assert once == [TRUE] * limit + [None] * (100 - limit)
    assert found() == once, "what is cached is counted as well"
    assert value(text, x='"a"', p=literal("a|0000" + "(b?){200}" * 20)) == TRUE, "a pattern is counted once"
    assert value('REGEX(?x, "^a$")', x='"a"') == TRUE, "a pattern of the program is not counted"
    BOUNDS.start(LONGEST_TEXT, MOST_TEXT)
    assert value(text, x='"a"', p='"a"') == TRUE


@pytest.mark.parametrize("pattern", [r"\w" * 10_000, "a" * 20_000, r"\i" * 500, "(a{999}){999}"])
def test_long_pattern_of_the_stream_errs_and_that_of_the_program_may_not(pattern: str) -> None:
    assert value("REGEX(?x, ?p)", x='"a"', p=literal(pattern)) is None
    assert value("REGEX(?x, ?p)", x='"a"', p='"a"') == TRUE
    assert value(f'REGEX(?x, "{"a" * 20_000}")', x='"a"') == FALSE


def test_hundred_long_patterns_compile_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of 20 kB took 0.8 s each."""
    compiled: list[str] = []
    compile_pattern = re2.compile

    def recording(text: str, options: object) -> object:
        compiled.append(text)
        return compile_pattern(text, options)

    monkeypatch.setattr(re2, "compile", recording)
    for size in (20_000, 1_400):
        for number in range(100):
            value("REGEX(?x, ?p)", x='"a"', p=literal(f"{number}" + r"\w" * (size // 2)))
    assert len(compiled) <= 5
