"""Random graphs and streams from a small world: two classes, four properties, three names, a few values that are equal without being
the same term, so that joins, ties, equal values and consumption happen often."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from dotr.model.stream import Element
from dotr.model.terms import RDF_TYPE, XSD, Triple, literal

NAMESPACE = "http://example.org/"
HEADER = f"PREFIX : <{NAMESPACE}>\nPREFIX xsd: <{XSD}>\n"

CLASSES = (":A", ":B")
PROPERTIES = (":p", ":q", ":r", ":s")
NAMES = (":n0", ":n1", ":n2")
NUMBERS = ("0", "1", "2", "3", "1.0", "2.50", "1e0", "-1")
VALUES = (*NUMBERS, '"1"', '"b"', "true")
TERMS = {
    **{name: f"<{NAMESPACE}{name[1:]}>" for name in (*CLASSES, *PROPERTIES, *NAMES)},
    **{text: literal(text, XSD + "integer") for text in ("0", "1", "2", "3", "-1")},
    **{text: literal(text, XSD + "decimal") for text in ("1.0", "2.50")},
    "1e0": literal("1e0", XSD + "double"),
    '"1"': literal("1"),
    '"b"': literal("b"),
    "true": literal("true", XSD + "boolean"),
    "a": RDF_TYPE,
}

SECOND = 1_000_000


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

    for _ in range(draw(st.sampled_from([1, 2, 1, 2, 3, 0]))):
        subject = draw(st.sampled_from(nodes))
        parts = draw(st.sampled_from(["apq", "ap", "apqrs", "a", "p", "q", "pr", "qs"]))
        for part in parts:
            if part == "a":
                add(subject, "a", draw(st.sampled_from(CLASSES)))
            elif part in "pr":
                add(subject, f":{part}", draw(st.sampled_from(VALUES)))
            else:
                add(subject, f":{part}", draw(st.sampled_from(nodes)))
    return tuple(found)


@st.composite
def streams(draw: st.DrawFn, longest: int = 10) -> list[Element]:
    """Elements in any order, with ties, gaps, repeats, blank nodes and empty graphs."""
    graphs = draw(st.lists(triples(), min_size=2, max_size=4))
    elements = []
    for _ in range(draw(st.integers(longest // 2, longest))):
        time = draw(st.integers(0, 8)) * SECOND
        graph = draw(st.sampled_from(graphs) if draw(st.booleans()) else triples())
        elements.append(Element(time, graph))
    return elements


def turtle(graph: Sequence[Triple]) -> str:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in graph)
