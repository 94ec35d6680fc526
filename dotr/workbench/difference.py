"""What a rule test expected and what it got, compared (interface.md, A rule test).

Graphs, and attributes that are blank nodes, are compared up to the names of blank and generated nodes: both are named canonically first.
Every expectation is paired with an output that answers it, by augmenting paths, so that no order decides; what is left over is the
difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import ndiff

from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, Literal, NamedNode, RdfFormat, parse
from pyoxigraph import Triple as TripleTerm

from dotr.expressions.times import written
from dotr.model.terms import Term, Triple, Variable, is_triple, nameless, triple_parts
from dotr.model.time import Clock, Micros
from dotr.workbench.written import line_text


@dataclass(frozen=True, slots=True)
class Item:
    """An output or a fact of interest, or what is expected of one: None where the test does not say."""

    time: Micros
    kind: str | None
    rule: str | None
    attributes: frozenset[str] | None
    graph: frozenset[str] | None

    def answers(self, wanted: Item) -> bool:
        """Whether it is as expected."""
        return (
            self.time == wanted.time
            and wanted.kind in (None, self.kind)
            and wanted.rule in (None, self.rule)
            and wanted.attributes in (None, self.attributes)
            and wanted.graph in (None, self.graph)
        )


def comparable(graph: Sequence[Triple]) -> frozenset[str]:
    """A graph's triples with its blank and generated nodes named canonically: equal for isomorphic graphs alone.

    >>> comparable([("<urn:dotr:1>", "<x:p>", "_:a")]) == comparable([("_:z", "<x:p>", "_:y")])
    True
    """
    lines = "".join(f"{s} {p} {o} .\n" for s, p, o in ([_unnamed(term) for term in triple] for triple in graph))
    dataset = Dataset(parse(lines, RdfFormat.N_TRIPLES))
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return frozenset(f"{quad.subject} {quad.predicate} {_text(quad.object)}" for quad in dataset)


def _text(node: NamedNode | BlankNode | Literal | TripleTerm) -> Term:
    return f"<<( {node} )>>" if isinstance(node, TripleTerm) else str(node)


def comparable_attributes(attributes: Mapping[Variable, Term]) -> frozenset[str]:
    """Attributes made comparable in the same way.

    >>> comparable_attributes({"room": "<x:A>"})
    frozenset({'room: <x:A>'})
    >>> comparable_attributes({"a": "_:x", "b": "_:x"}) == comparable_attributes({"a": "_:y", "b": "_:z"})
    False
    """
    blanks = {name: value for name, value in attributes.items() if nameless(value) != value}
    graph = comparable([("<urn:row>", f"<urn:attribute:{name}>", value) for name, value in blanks.items()]) if blanks else ()
    named = {name.removeprefix("<urn:attribute:")[:-1]: value for _, name, value in (line.split(" ", 2) for line in graph)}
    return frozenset(f"{name}: {named.get(name, value)}" for name, value in attributes.items())


def _unnamed(term: Term) -> Term:
    if is_triple(term):
        return f"<<( {' '.join(map(_unnamed, triple_parts(term)))} )>>"
    return f"_:g{term[10:-1]}" if term.startswith("<urn:dotr:") else term


def difference(wanted: Sequence[Item], seen: Sequence[Item], clock: Clock, prefixes: Mapping[str, str]) -> str:
    """A diff of what no pairing of expected and actual can bring together; empty where all is as expected."""
    partner: dict[int, int] = {}

    def pair(w: int, tried: set[int]) -> bool:
        for s, actual in enumerate(seen):
            if s not in tried and actual.answers(wanted[w]):
                tried.add(s)
                if s not in partner or pair(partner[s], tried):
                    partner[s] = w
                    return True
        return False

    missing = [wanted[w] for w in range(len(wanted)) if not pair(w, set())]
    extra = [actual for s, actual in enumerate(seen) if s not in partner]
    shown: list[tuple[Micros, list[str]]] = []
    for item in missing:
        like = next((e for e in extra if e.time == item.time and item.kind in (None, e.kind) and item.rule in (None, e.rule)), None)
        if like is not None:
            extra.remove(like)
            shown.append((item.time, _unlike(item, like, clock, prefixes)))
        else:
            shown.append((item.time, [f"- expected {_head(item, clock)}", *(f"-     {line}" for line in _lines(item, item, prefixes))]))
    shown += [(e.time, [f"+ got      {_head(e, clock)}", *(f"+     {line}" for line in _lines(e, e, prefixes))]) for e in extra]
    return "\n".join(line for _, lines in sorted(shown, key=lambda entry: entry[0]) for line in lines)


def _unlike(wanted: Item, actual: Item, clock: Clock, prefixes: Mapping[str, str]) -> list[str]:
    """The diff of an expectation and the output that comes next to it, in what the expectation says."""
    lines = ndiff(_lines(wanted, wanted, prefixes), _lines(actual, wanted, prefixes))
    return [f"  {_head(actual, clock)}", *(f"{line[0]}     {line[2:]}" for line in lines if line[0] != "?")]


def _head(item: Item, clock: Clock) -> str:
    parts = [f"at {written(item.time, clock)}", item.kind or "", f"by {item.rule}" if item.rule else ""]
    return " ".join(part for part in parts if part)


def _lines(item: Item, wanted: Item, prefixes: Mapping[str, str]) -> list[str]:
    """An item's attributes and triples, of which only those that `wanted` speaks of."""
    lines = [] if item.attributes is None or wanted.attributes is None else sorted(item.attributes)
    lines += [] if item.graph is None or wanted.graph is None else sorted(item.graph)
    return [line_text(line, prefixes) for line in lines]
