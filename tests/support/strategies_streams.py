"""Random graphs and streams over few names, so that joins, ties and consumption happen often.

Two classes, four properties, three names, a few values that are equal without being the same term;
occasionally a value of any other kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

from dotr.model.stream import Element
from dotr.model.terms import RDF, RDF_REIFIES, RDF_TYPE, XSD, Term, Triple, literal

NAMESPACE = "http://example.org/"
HEADER = f"PREFIX : <{NAMESPACE}>\nPREFIX xsd: <{XSD}>\n"

CLASSES = (":A", ":B")
PROPERTIES = (":p", ":q", ":r", ":s")
NAMES = (":n0", ":n1", ":n2")
NUMBERS = ("0", "1", "2", "3", "1.0", "2.50", "1e0", "-1")
VALUES = (*NUMBERS, '"1"', '"b"', "true")


def _typed(lexical: str, datatype: str) -> tuple[str, Term]:
    return f'"{lexical}"^^xsd:{datatype}', literal(lexical, XSD + datatype)


RARE: dict[str, Term] = dict(
    [
        _typed("0.1", "double"),
        _typed("2.5", "float"),
        _typed("-0.0", "double"),
        _typed("NaN", "double"),
        _typed("INF", "double"),
        _typed("01", "byte"),
        _typed("x", "integer"),
        _typed("300", "byte"),
        _typed("1970-01-01T00:00:02Z", "dateTime"),
        _typed("1969-12-31T23:30:00.5-01:30", "dateTime"),
        _typed("2014-08-01T07:50:00", "dateTime"),
        _typed("PT2S", "dayTimeDuration"),
        ('"b"@en', literal("b", RDF + "langString", "en")),
        ('"abc"@de', literal("abc", RDF + "langString", "de")),
        ('"ab cB1"', literal("ab cB1")),
        ('""', literal("")),
        ('"z"^^:T', literal("z", NAMESPACE + "T")),
        ("false", literal("false", XSD + "boolean")),
        ("0.1", literal("0.1", XSD + "decimal")),
        ("10", literal("10", XSD + "integer")),
    ]
)
"""Values of every other kind, with their texts in a rule."""

TERMS = {
    **{name: f"<{NAMESPACE}{name[1:]}>" for name in (*CLASSES, *PROPERTIES, *NAMES)},
    **{text: literal(text, XSD + "integer") for text in ("0", "1", "2", "3", "-1")},
    **{text: literal(text, XSD + "decimal") for text in ("1.0", "2.50")},
    "1e0": literal("1e0", XSD + "double"),
    '"1"': literal("1"),
    '"b"': literal("b"),
    "true": literal("true", XSD + "boolean"),
    "a": RDF_TYPE,
    **RARE,
}

SECOND = 1_000_000
MOST_VALUES = (*VALUES, *VALUES, *VALUES, *RARE)
"""Common values and, less often, rare ones."""


_Option = TypeVar("_Option")


@cache
def _index(number: int) -> st.SearchStrategy[int]:
    return st.integers(0, number - 1)


def pick(draw: st.DrawFn, options: Sequence[_Option]) -> _Option:
    """One of some options, by a shared strategy: one for each list would dominate the run time."""
    return options[draw(_index(len(options)))]


@st.composite
def triples(draw: st.DrawFn, blanks: int = 2) -> tuple[Triple, ...]:
    """A small graph; its blank nodes are numbered by appearance."""
    nodes = [*NAMES, *(f"_:{i}" for i in range(blanks))]
    found: list[Triple] = []
    numbers: dict[str, str] = {}

    def term(text: str) -> str:
        return numbers.setdefault(text, f"_:{len(numbers)}") if text.startswith("_:") else TERMS[text]

    def add(subject: str, predicate: str, value: str) -> None:
        triple = (term(subject), TERMS[predicate], term(value))
        if triple not in found:
            found.append(triple)

    def quoted(depth: int = 1) -> Term:
        """A triple term of the same vocabulary as the triples."""
        subject, predicate = term(pick(draw, nodes)), pick(draw, (":p", ":p", ":q", ":r"))
        value = quoted(0) if depth and draw(st.integers(0, 4)) == 4 else term(pick(draw, nodes if predicate == ":q" else MOST_VALUES))
        return f"<<( {subject} {TERMS[predicate]} {value} )>>"

    for _ in range(pick(draw, [2, 1, 3, 2, 3, 0])):
        subject = pick(draw, nodes)
        parts = pick(draw, ["apq", "ap", "apqrs", "apq", "p", "q", "pr", "qs", "apr", "tq", "pt"])
        for part in parts:
            if part == "t":
                triple = (term(subject), RDF_REIFIES, quoted())
                if triple not in found:
                    found.append(triple)
            elif part == "a":
                add(subject, "a", pick(draw, CLASSES))
            elif part in "pr":
                add(subject, f":{part}", pick(draw, MOST_VALUES))
            else:
                add(subject, f":{part}", pick(draw, nodes))
    return tuple(found)


@st.composite
def streams(draw: st.DrawFn, longest: int = 10) -> list[Element]:
    """Elements in any order, with ties, gaps, repeats, blank nodes and empty graphs; some begin before the epoch or lie between seconds."""
    graphs = draw(st.lists(triples(), min_size=2, max_size=4))
    start = pick(draw, [0, 0, 0, -3, 7]) * SECOND
    gap = pick(draw, [0, 0, 0, 13]) * SECOND
    step = pick(draw, [SECOND, SECOND, SECOND, SECOND // 2])
    elements: list[Element] = []
    for _ in range(draw(st.integers(longest // 2, longest))):
        if elements and draw(st.integers(0, 9)) == 9:
            elements.append(pick(draw, elements))  # the same element, at the same time
            continue
        count = draw(st.integers(0, 8))
        time = start + count * step + (gap if count > 4 else 0)
        graph = pick(draw, graphs) if draw(st.booleans()) else draw(triples())
        elements.append(Element(time, graph))
    return elements


def turtle(graph: Sequence[Triple]) -> str:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in graph)
