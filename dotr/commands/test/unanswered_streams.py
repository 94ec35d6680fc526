"""Streams without an answer of any query, for which a case that expects nothing passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from dotr.commands.test.cases import Case
from dotr.engine.program import CompiledProgram
from dotr.instant.instants import merge
from dotr.model.algebra import Const, Link, Negated
from dotr.model.rules import FactSource
from dotr.model.stream import Fact
from dotr.model.terms import RDF_TYPE, Term, Triple
from dotr.model.traverse import AlgebraNode, walk
from dotr.syntax.datalog import parse_datalog
from dotr.syntax.rendering import term_text
from dotr.temporal.layout.retention import roles

_MOST: Final = 3
"""The largest number of terms that a note names."""


def unanswered_stream_note(program: CompiledProgram, case: Case, static: Sequence[Fact], prefixes: Mapping[str, str]) -> list[str]:
    """A note for a case with elements for which no query has an answer; none otherwise.

    `static` are the facts that hold of the background alone; `prefixes` shorten terms.
    """
    graphs = [graph for graphs in case.elements.values() for graph in graphs]
    if not any(graphs) or not program.reported:
        return []
    of_background = {(fact.type, *sorted(fact.attributes.items())) for fact in static}
    for time, elements in case.elements.items():
        facts = program.facts_of_interest(merge(time, elements))
        if len(facts) > len(static) or any((fact.type, *sorted(fact.attributes.items())) not in of_background for fact in facts):
            return []
    unknown = [term_text(term, {**prefixes, **program.rules.prefixes}) for term in _unknown_terms(program, graphs)]
    return [f"no query takes anything of this stream{_in_no_rule(unknown)}"]


def _in_no_rule(terms: Sequence[str]) -> str:
    """
    >>> _in_no_rule(["b:valeu"]), _in_no_rule(["b:u", "b:v"]), _in_no_rule(["b:u", "b:v", "b:w", "b:x", "b:y"])
    ('; b:valeu occurs in no rule', '; b:u and b:v occur in no rule', '; b:u, b:v, b:w and 2 more occur in no rule')
    """
    if len(terms) < 2:
        return f"; {terms[0]} occurs in no rule" if terms else ""
    more = len(terms) - _MOST
    *first, last = [*terms[:_MOST], f"{more} more"] if more > 0 else terms
    return f"; {', '.join(first)} and {last} occur in no rule"


def _unknown_terms(program: CompiledProgram, graphs: Iterable[Sequence[Triple]]) -> list[Term]:
    """Predicates and classes of graphs that no rule and no triple of the background has, in the
    order of appearance."""
    occurring: dict[Term, None] = {}
    for graph in graphs:
        for _, predicate, value in graph:
            occurring[value if predicate == RDF_TYPE else predicate] = None
    known = set(_terms_of_rules(program))
    index = program.knowledge.background.by_subject
    return [
        term for term in occurring if term not in known and term not in index and not any(term in subjects for subjects in index.values())
    ]


def _terms_of_rules(program: CompiledProgram) -> Iterator[Term]:
    """Constants and predicates of paths in queries and Datalog rules."""
    parts: dict[AlgebraNode, None] = dict.fromkeys(shared.query for shared in program.rules.queries)
    for rule in program.rules.rules:
        parts |= dict.fromkeys(role.source.query for role in roles(rule) if isinstance(role.source, FactSource))
    for document in program.spec.datalog:
        for datalog in parse_datalog(document, program.spec.prefixes):
            parts |= dict.fromkeys((*datalog.head, *datalog.body))
    for part in parts:
        for node in walk(part):
            match node:
                case Const(term) | Link(term):
                    yield term
                case Negated(forward, backward):
                    yield from (*(forward or ()), *(backward or ()))
