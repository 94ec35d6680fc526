"""Difference between the expected and the actual outputs of a rule test (interface.md, A rule
test).

Idea: graphs and attributes are canonicalized, so that equality ignores the names of blank and
generated nodes. A maximum bipartite matching by augmenting paths pairs expectations with outputs,
independent of their order; the unpaired ones differ.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence, Set
from typing import Final, TypeAlias

from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, Literal, NamedNode, RdfFormat, parse
from pyoxigraph import Triple as TripleTerm

from dotr.evaluation.expressions.values.terms import NUMERIC, read
from dotr.evaluation.expressions.values.times import format_time
from dotr.model import dataclass
from dotr.model.terms import RDF_TYPE, Prefixes, Term, Triple, Variable, is_triple, rename_blanks, triple_parts, without_blank_labels
from dotr.model.time import Clock, Micros
from dotr.syntax.rendering import predicate_text, term_text, turtle_text


@dataclass(frozen=True, slots=True)
class Item:
    """Output or fact of interest, or an expectation of one, in which None matches anything."""

    time: Micros
    kind: str | None
    rule: str | None
    attributes: frozenset[str] | None
    graph: frozenset[str] | None

    def matches(self, expected: Item) -> bool:
        """True where this output, of the time of an expectation, meets it."""
        return (
            expected.kind in (None, self.kind)
            and expected.rule in (None, self.rule)
            and expected.attributes in (None, self.attributes)
            and expected.graph in (None, self.graph)
        )


def comparable(graph: Sequence[Triple]) -> frozenset[str]:
    """Canonical form of a graph: equal for isomorphic graphs only.

    >>> comparable([("<urn:dotr:1>", "<x:p>", "_:a")]) == comparable([("_:z", "<x:p>", "_:y")])
    True
    """
    lines = "".join(f"{s} {p} {o} .\n" for s, p, o in ([_as_blank(term) for term in triple] for triple in graph))
    dataset = Dataset(parse(lines, RdfFormat.N_TRIPLES))
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return frozenset(f"{quad.subject} {quad.predicate} {_text(quad.object)}" for quad in dataset)


def _text(node: NamedNode | BlankNode | Literal | TripleTerm) -> Term:
    return f"<<( {node} )>>" if isinstance(node, TripleTerm) else str(node)


def comparable_attributes(attributes: Mapping[Variable, Term]) -> frozenset[str]:
    """Canonical form of attributes, up to the names of blank nodes.

    >>> comparable_attributes({"room": "<x:A>"})
    frozenset({'room: <x:A>'})
    >>> comparable_attributes({"a": "_:x", "b": "_:x"}) == comparable_attributes({"a": "_:y", "b": "_:z"})
    False
    """
    blanks = {name: value for name, value in attributes.items() if without_blank_labels(value) != value}
    graph = comparable([("<urn:row>", f"<urn:attribute:{name}>", value) for name, value in blanks.items()]) if blanks else ()
    named = {name.removeprefix("<urn:attribute:")[:-1]: value for _, name, value in (line.split(" ", 2) for line in graph)}
    return frozenset(f"{name}: {named.get(name, value)}" for name, value in attributes.items())


def _as_blank(term: Term) -> Term:
    if is_triple(term):
        return f"<<( {' '.join(map(_as_blank, triple_parts(term)))} )>>"
    return f"_:g{term[10:-1]}" if term.startswith("<urn:dotr:") else term


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Expectation without output, output without expectation, or a similar pair of both.

    - `expected`: the expectation; None where there is none. `number` counts it from 0.
    - `actual`: the output; None where there is none.
    - `lines`: the diff as text.
    """

    expected: Item | None
    actual: Item | None
    number: int | None
    lines: tuple[str, ...]

    @property
    def time(self) -> Micros:
        """Time of both in µs since 1970."""
        item = self.actual or self.expected
        assert item is not None
        return item.time

    @property
    def text(self) -> str:
        """The diff, line by line."""
        return "\n".join(self.lines)


def discrepancies(
    expected: Sequence[Item], actual: Sequence[Item], clock: Clock, prefixes: Mapping[str, str], apart: Micros = 0
) -> tuple[Discrepancy, ...]:
    """Expectations and outputs that remain unpaired, in the order of time; none where all match.

    `clock` formats times, `prefixes` (prefix to namespace) shorten terms. `apart`: an output may be
    later than its expectation by as much (µs), where elements of one time were set apart.
    """
    pairs = _paired(expected, actual, apart)
    paired = set(pairs.values())
    extra = [item for s, item in enumerate(actual) if s not in paired]
    found: list[Discrepancy] = []
    for number, item in enumerate(expected):
        if number in pairs:
            continue
        like = next(
            (e for e in extra if 0 <= e.time - item.time <= apart and item.kind in (None, e.kind) and item.rule in (None, e.rule)), None
        )
        if like is not None:
            extra.remove(like)
            found.append(Discrepancy(item, like, number, tuple(_item_diff(item, like, clock, prefixes))))
        else:
            lines = [f"-     {text}" for _, text, _ in _lines(item, item, prefixes)]
            found.append(Discrepancy(item, None, number, (f"- expected {_head(item, clock)}", *lines)))
    for each in extra:
        lines = [f"+     {text}" for _, text, _ in _lines(each, each, prefixes)]
        found.append(Discrepancy(None, each, None, (f"+ got      {_head(each, clock)}", *lines)))
    return tuple(sorted(found, key=lambda each: each.time))


def difference(expected: Sequence[Item], actual: Sequence[Item], clock: Clock, prefixes: Mapping[str, str]) -> str:
    """Diff of the expectations and outputs that remain unpaired; empty where all match."""
    return "\n".join(each.text for each in discrepancies(expected, actual, clock, prefixes))


def _paired(expected: Sequence[Item], outputs: Sequence[Item], apart: Micros = 0) -> dict[int, int]:
    """Maximum matching of expectations to outputs that match them, as indexes (shortest augmenting
    paths).

    Example: expectations 0 and 1 both match output 0, expectation 0 also output 1. After {0: 0},
    expectation 1 takes output 0 and expectation 0 moves to output 1.
    """
    at: dict[Micros, list[int]] = {}
    for s, actual in enumerate(outputs):
        at.setdefault(actual.time, []).append(s)
    if apart:
        times = sorted(at)
        reached = [times[bisect_left(times, item.time) : bisect_right(times, item.time + apart)] for item in expected]
    else:
        reached = [[item.time] for item in expected]
    candidates = [
        [s for time in near for s in at.get(time, ()) if outputs[s].matches(item)] for item, near in zip(expected, reached, strict=True)
    ]
    pairs: dict[int, int] = {}
    matched: dict[int, int] = {}  # inverse of `pairs`
    for w in range(len(expected)):
        reached_from: dict[int, int] = {}  # output -> expectation that reached it
        frontier = deque([w])
        while frontier:
            following = frontier.popleft()
            found = next((s for s in candidates[following] if s not in matched), None)
            if found is not None:
                while found is not None:
                    before = pairs.get(following)
                    pairs[following], matched[found] = found, following
                    found, following = before, reached_from.get(before, w) if before is not None else w
                break
            for s in candidates[following]:
                if s not in reached_from:
                    reached_from[s] = following
                    frontier.append(matched[s])
    return pairs


def _item_diff(expected_item: Item, actual: Item, clock: Clock, prefixes: Mapping[str, str]) -> list[str]:
    """Diff of an expectation and the most similar output, in the fields of the expectation."""
    expected, got = _lines(expected_item, expected_item, prefixes), _lines(actual, expected_item, prefixes)
    both = set(expected) & set(got)
    marked = [*(("-", line) for line in expected if line not in both), *(("+", line) for line in got)]
    marked.sort(key=lambda each: each[1][0])
    missing = [line for line in expected if line not in both]
    lines = [f"  {_head(actual, clock)}"]
    for mark, line in marked:
        note = "  (the same value, another type)" if mark == "+" and any(_differ_in_type(line, each) for each in missing) else ""
        lines.append(f"{' ' if line in both else mark}     {line[1]}{note}")
    return lines


def _differ_in_type(a: _Line, b: _Line) -> bool:
    """True of two lines in one place, with one number of two types.

    >>> three, decimal = '"3"^^<http://www.w3.org/2001/XMLSchema#integer>', '"3.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    >>> _differ_in_type(("n", "", three), ("n", "", decimal)), _differ_in_type(("n", "", three), ("m", "", decimal))
    (True, False)
    """
    values = read(a[2]), read(b[2])
    return a[0] == b[0] and a[2] != b[2] and all(type(each) in NUMERIC for each in values) and values[0] == values[1]


def _head(item: Item, clock: Clock) -> str:
    parts = [f"at {format_time(item.time, clock)}", item.kind or "", f"by {item.rule}" if item.rule else ""]
    return " ".join(part for part in parts if part)


_Line: TypeAlias = tuple[str, str, Term]
"""The sort key of an attribute or a triple, its text and its value or object."""


def _lines(item: Item, expected: Item, prefixes: Mapping[str, str]) -> list[_Line]:
    """Lines of an item's attributes and triples, for the fields that `expected` has."""
    lines: list[_Line] = []
    if item.attributes is not None and expected.attributes is not None:
        for name, _, value in (line.partition(": ") for line in sorted(item.attributes)):
            lines.append((name, f"{name}: {term_text(value, prefixes)}", value))
    if item.graph is not None and expected.graph is not None:
        for subject, predicate, value in (line.split(" ", 2) for line in sorted(item.graph)):
            about = f"{term_text(subject, prefixes)} {predicate_text(predicate, prefixes)}"
            lines.append((f"{subject} {predicate}", f"{about} {term_text(value, prefixes)}", value))
    return lines


# Expectations of rule tests as YAML: an output as a new entry, terms and graphs as scalars.

_PLAIN_SCALAR: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?|true|false")


def entry_text(item: Item, fields: Set[str], clock: Clock, prefixes: Prefixes) -> str:
    """A flow mapping that expects an output, or a fact of interest.

    `fields` are the keys to write of `rule`, `attributes` and `graph`, and `fact` for a fact.

    >>> item = Item(12_000_000, "Fire", "R", frozenset({"n: <http://e/a>"}), frozenset())
    >>> entry_text(item, {"attributes"}, Clock(), {"": "http://e/"})
    '{ at: 12, event: Fire, attributes: { n: ":a" } }'
    """
    parts = [f"at: {format_time(item.time, clock)}", f"{'fact' if 'fact' in fields else 'event'}: {item.kind}"]
    if "rule" in fields and item.rule is not None:
        parts.append(f"rule: {item.rule}")
    if "attributes" in fields and item.attributes is not None:
        parts.append(f"attributes: {attributes_text(item.attributes, prefixes)}")
    if "graph" in fields and item.graph is not None:
        parts.append(f"graph: {scalar_text(graph_text(item.graph, prefixes))}")
    return f"{{ {', '.join(parts)} }}"


def attribute_terms(attributes: Set[str]) -> Mapping[str, Term]:
    """Terms of comparable attributes by name, sorted by name."""
    return {name: term for name, _, term in (line.partition(": ") for line in sorted(attributes))}


def attributes_text(attributes: Set[str], prefixes: Prefixes) -> str:
    """A flow mapping of comparable attributes."""
    texts = [f"{name}: {scalar_text(term_text(_renamed(term), prefixes))}" for name, term in attribute_terms(attributes).items()]
    return f"{{ {', '.join(texts)} }}" if texts else "{}"


def scalar_text(text: str) -> str:
    r"""A YAML scalar, in quotes unless it is a plain number, true or false.

    >>> [scalar_text(text) for text in ("3", ":a", '"it\'s"@en')] == ["3", '":a"', "'\"it''s\"@en'"]
    True
    """
    if _PLAIN_SCALAR.fullmatch(text):
        return text
    return f'"{text}"' if '"' not in text and "\\" not in text else "'" + text.replace("'", "''") + "'"


def graph_text(graph: Set[str], prefixes: Prefixes) -> str:
    """Turtle of a comparable graph, on one line. Blank nodes that are no objects have no names.

    >>> graph_text(frozenset({"_:c14n0 <http://e/of> <http://e/a>", f"_:c14n0 {RDF_TYPE} <http://e/A>"}), {"": "http://e/"})
    '[] a :A ; :of :a .'
    """
    triples = sorted((line.split(" ", 2) for line in graph), key=lambda each: (each[0], each[1] != RDF_TYPE, each[1], each[2]))
    return turtle_text([(_renamed(subject), predicate, _renamed(value)) for subject, predicate, value in triples], prefixes)


def _renamed(term: Term) -> Term:
    """A term with short names of blank nodes: `_:b0` for `_:c14n0`.

    >>> _renamed("_:c14n12"), _renamed('"_:c14n12"')
    ('_:b12', '"_:c14n12"')
    """
    if is_triple(term):
        return rename_blanks(term, lambda blank: blank.replace("_:c14n", "_:b"))
    return term.replace("_:c14n", "_:b", 1) if term.startswith("_:") else term
