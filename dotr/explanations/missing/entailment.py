"""Entailment regimes, stronger than the program's, under which a missing triple would hold.

Idea: the instant is closed under the regime together with a part of the background: the triples of
the involved terms, and the schema triples that connect them. Rules without NOT and AGGREGATE are
monotone, so a conclusion from this part is one from the whole background. A minimal set of schema
triples for the conclusion is found by division (QuickXplain, Junker 2004).

Cost: some dozen closures of a few thousand triples at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from dotr.errors.diagnostics import Refused
from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex, is_hidden
from dotr.explanations.missing.partial_joins import ClosedGraph
from dotr.instant.datalog.background.knowledge import close_background, without_collection
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.datalog.strata.stratification import is_nonmonotonic
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import matches
from dotr.instant.queries.operators import EMPTY
from dotr.model.algebra import BgpItem, Const, Link
from dotr.model.datalog import DatalogRule
from dotr.model.terms import OWL, RDF_FIRST, RDF_REST, RDF_TYPE, RDFS, Term, Triple, Variable, is_iri
from dotr.model.traverse import walk

_MAX_SCHEMA: Final = 20_000
"""Maximum number of schema triples of a background that are searched."""
_MAX_TRIPLES: Final = 2_000
"""Maximum number of background triples that an instant is closed with."""
_MAX_EDGES: Final = 50
"""Maximum number of background triples of one predicate with one term as their object."""
_MAX_ROWS: Final = 20


class MissingEntailment(NamedTuple):
    """An entailment regime under which a pattern has an answer, and a minimal set of schema triples
    for it.
    """

    regime: Entailment
    schema: tuple[Triple, ...]


def entailment_that_gives(
    part: BgpItem, rows: Sequence[Mapping[Variable, Term]], closed: ClosedGraph, datalog: Iterable[DatalogRule], used: Entailment
) -> MissingEntailment | None:
    """The weakest entailment regime above `used` under which a pattern has an answer.

    Args:
        part: the pattern.
        rows: partial answers; an answer of the pattern for one of them suffices.
        closed: the instant, closed under `used`.
        datalog: the Datalog rules of the program.
        used: the regime of the program.

    Returns:
        None if no regime suffices.
    """
    regimes = {Entailment.NONE: (Entailment.RDFS, Entailment.OWL2RL), Entailment.RDFS: (Entailment.OWL2RL,), Entailment.OWL2RL: ()}[used]
    if not regimes:
        return None
    monotone = tuple(rule for rule in datalog if not rule.of_rule_set and not is_nonmonotonic(rule))
    rows = rows[:_MAX_ROWS]
    seeds = {node.term for node in walk(part) if isinstance(node, Const)}
    seeds |= {node.predicate for node in walk(part) if isinstance(node, Link)}
    delta = list(closed.delta.visible())
    terms = dict.fromkeys(term for triple in delta for term in (triple[0], triple[2]) if is_iri(term))
    terms |= dict.fromkeys(term for row in rows for term in row.values())
    terms |= dict.fromkeys(slot.term for slot in (part.subject, part.object) if isinstance(slot, Const))
    near = _near(terms, closed.background)
    seeds |= {term for triple in (*delta, *near) for term in triple}
    schema = _leading(seeds, list(islice(_schema(closed.background), _MAX_SCHEMA)))
    base = [*delta, *(triple for triple in near if triple not in set(schema))]
    for regime in regimes:

        def gives(chosen: Sequence[Triple], regime: Entailment = regime) -> bool:
            index = _closed((*base, *chosen), regime, monotone)
            return index is not None and _matches(Graph(index, TripleIndex()), part, rows)

        if gives(schema):
            return MissingEntailment(regime, tuple(_needed(gives, schema)))
    return None


@lru_cache(maxsize=4)
def _closed(triples: tuple[Triple, ...], regime: Entailment, rules: tuple[DatalogRule, ...]) -> TripleIndex | None:
    """The closure of triples under a regime and further rules; None where it cannot be computed.
    The patterns of a query that are missing at one instant mostly share it."""
    try:
        with without_collection():
            return close_background(triples, [*rule_set(regime), *rules], 100 * _MAX_TRIPLES).index()
    except (LimitExceeded, Refused):
        return None


def _matches(graph: Graph, part: BgpItem, rows: Sequence[Mapping[Variable, Term]]) -> bool:
    return any(next(matches(graph, (part,), row, EMPTY), None) is not None for row in rows)


def _needed(gives: Callable[[Sequence[Triple]], bool], schema: Sequence[Triple]) -> list[Triple]:
    """A minimal part of the schema that suffices."""

    def among(background: list[Triple], added: bool, candidates: list[Triple]) -> list[Triple]:
        if added and gives(background):
            return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        first, second = candidates[:half], candidates[half:]
        of_second = among([*background, *first], bool(first), second)
        return [*among([*background, *of_second], bool(of_second), first), *of_second]

    return [] if not schema or gives([]) else among([], False, list(schema))


def _is_schema(triple: Triple) -> bool:
    _, predicate, value = triple
    if predicate == RDF_TYPE:
        return value.startswith((f"<{OWL}", f"<{RDFS}"))
    return predicate.startswith((f"<{RDFS}", f"<{OWL}")) or predicate in (RDF_FIRST, RDF_REST)


def _schema(background: TripleIndex) -> Iterator[Triple]:
    """The schema triples of a background."""
    for predicate in background.predicates():
        if predicate == RDF_TYPE:
            for class_ in background.by_object[predicate]:
                if class_.startswith((f"<{OWL}", f"<{RDFS}")):
                    yield from background.match(None, predicate, class_)
        elif _is_schema(("", predicate, "")):
            yield from background.match(None, predicate, None)


def _near(terms: Iterable[Term], background: TripleIndex) -> list[Triple]:
    """The triples of the background with one of some terms as subject or object, without schema."""
    found: dict[Triple, None] = {}
    for predicate in background.predicates():
        by_subject, by_object = background.by_subject[predicate], background.by_object.get(predicate, NO_ENDS)
        for term in terms:
            for value in by_subject.get(term, NO_TERMS):
                found[term, predicate, value] = None
            if predicate != RDF_TYPE:
                for subject in islice(by_object.get(term, NO_TERMS), _MAX_EDGES):
                    found[subject, predicate, term] = None
            if len(found) > _MAX_TRIPLES:
                return list(found)
    return [triple for triple in found if not _is_schema(triple) and not is_hidden(triple[1])]


def _leading(seeds: set[Term], schema: list[Triple]) -> list[Triple]:
    """The schema triples connected with some terms, the nearest first; all of a small schema."""
    if len(schema) <= _MAX_TRIPLES:
        return schema
    by_term: dict[Term, list[Triple]] = {}
    for triple in schema:
        for term in {triple[0], triple[2]}:
            by_term.setdefault(term, []).append(triple)
    found: dict[Triple, None] = {}
    reached, frontier = set(seeds), list(seeds)
    while frontier and len(found) < _MAX_TRIPLES:
        further: list[Term] = []
        for term in frontier:
            for triple in by_term.get(term, ()):
                found[triple] = None
                for end in (triple[0], triple[2]):
                    if end not in reached and not end.startswith((f"<{OWL}", f"<{RDFS}")):
                        reached.add(end)
                        further.append(end)
        frontier = further
    return list(found)[:_MAX_TRIPLES]
