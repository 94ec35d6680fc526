"""Reasons of failed rule tests: why an expected event is missing, and why there is an unexpected
one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from dotr.commands.test.cases import Case, LoadedTest
from dotr.commands.test.difference import Discrepancy, Item, attribute_terms
from dotr.engine.driver import close_instant
from dotr.engine.program import CompiledProgram
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.unit import why_no_event
from dotr.explanations.why import EventQuestion, WhyExplainer
from dotr.explanations.why_not.rule import why_not
from dotr.explanations.why_not.survey import Question
from dotr.instant.instants import merge
from dotr.model.algebra import Const, Link, Negated
from dotr.model.rules import EventSource, FactSource, Rule
from dotr.model.stream import Fact, FedGraph
from dotr.model.terms import RDF_TYPE, Term, Triple, is_blank, without_blank_labels
from dotr.model.time import Micros
from dotr.model.traverse import AlgebraNode, walk
from dotr.syntax.rendering import term_text
from dotr.temporal.layout.retention import roles
from dotr.temporal.layout.units import units_by_label

_MOST: Final = 5
"""Most events of a case whose reasons are shown."""


class FailureReasons:
    """Reasons of the differences of case `number`, counted from 0. Each reason replays the case."""

    def __init__(self, test: LoadedTest, number: int) -> None:
        self._replay = test.replay(number)
        self._times = test.cases[number].elements.keys()
        self._shown = 0

    @cached_property
    def _labels(self) -> Collection[str]:
        """The labels of units other than rules."""
        return units_by_label(self._replay.program.units).keys()

    @cached_property
    def _explainer(self) -> WhyExplainer:
        return WhyExplainer(self._replay)

    def of(self, discrepancy: Discrepancy) -> str:
        """The answer of `why-not` for a missing event, the first level of `why` for an additional
        one; empty for a pair that differs, and beyond the first few events of a case.
        """
        if (discrepancy.expected is not None and discrepancy.actual is not None) or self._shown == _MOST:
            return ""
        self._shown += 1
        lines = self._why_not(discrepancy.expected) if discrepancy.expected is not None else self._why(discrepancy.actual)
        return "\n".join(lines)

    def _why_not(self, item: Item) -> Sequence[str]:
        """Reasons of the rules that could have made an event."""
        if item.kind is None and item.rule is None:
            return ()
        rules = [each for each in self._replay.program.rules.rules if item.kind in (None, each.event) and item.rule in (None, each.name)]
        units = [] if item.rule not in (None, item.kind) else [each for each in self._labels if item.kind in (None, each)]
        if units:
            question = Question(item.time, item.time)
            return [line for label in units for line in why_no_event(self._replay, label, question).lines()]
        if item.time not in self._times and rules and not any(map(_is_timed, rules)):
            return [f"No element is at {format_time(item.time, self._replay.clock)}, and no rule of this event waits or ticks."]
        question = Question(item.time, item.time)
        return [line for rule in rules for line in why_not(self._replay, rule.name, question).lines()]

    def _why(self, item: Item | None) -> Sequence[str]:
        if item is None or item.rule is None:
            return ()
        of_rule = item.rule in {rule.name for rule in self._replay.program.rules.rules}
        if not of_rule and item.rule not in self._labels:
            return ()
        attributes = attribute_terms(item.attributes or frozenset())
        where = tuple((name, term) for name, term in attributes.items() if not is_blank(term) and without_blank_labels(term) == term)
        tree = self._explainer.answer(EventQuestion(None, item.rule, item.time, where)).tree
        return () if tree is None else tree.lines(1 if of_rule else 2)


def _is_timed(rule: Rule) -> bool:
    """True if a rule can fire at a time without an element, by itself or by an event that it
    reads."""
    return rule.anchor.delay > 0 or isinstance(rule.anchor.source, EventSource) or rule.anchor.source.period is not None


# Streams without an answer of any query, for which a case that expects nothing passes.

_MOST_TERMS: Final = 3
"""The largest number of terms that a note names."""


def unanswered_stream_note(program: CompiledProgram, case: Case, static: Sequence[Fact], prefixes: Mapping[str, str]) -> list[str]:
    """A note for a case with elements for which no query has an answer; none otherwise.

    `static` are the facts that hold of the background alone; `prefixes` shorten terms.
    """
    graphs = [graph for graphs in case.elements.values() for graph in graphs]
    if not any(graphs) or not program.projected:
        return []
    if any(_is_read_by_a_unit(program, time, elements) for time, elements in case.elements.items()):
        return []
    of_background = {(fact.type, *sorted(fact.attributes.items())) for fact in static}
    for time, elements in case.elements.items():
        facts = program.facts_of_interest(merge(time, elements))
        if len(facts) > len(static) or any((fact.type, *sorted(fact.attributes.items())) not in of_background for fact in facts):
            return []
    unknown = [term_text(term, {**prefixes, **program.rules.prefixes}) for term in _unknown_terms(program, graphs)]
    return [f"no query takes anything of this stream{_in_no_rule(unknown)}"]


def _is_read_by_a_unit(program: CompiledProgram, time: Micros, elements: Sequence[tuple[Triple, ...]]) -> bool:
    """True if a unit of another language takes an element: it is on a stream that a query reads, or
    a LARS file reads a triple, or EP-SPARQL a solution of the instant."""
    if not program.units:
        return False
    names = {each.name for each in program.layout.fed_streams}
    if any((graph.stream in names) if isinstance(graph, FedGraph) else len(names) == 1 for graph in elements):
        return True
    facts = close_instant(program, time, elements).facts
    of_rules = {role.source for rule in program.rules.rules for role in roles(rule)}
    of_units = [number for number, source in enumerate(program.layout.streams) if source not in of_rules]
    return any(facts.triples.values()) or any(facts.facts.get(number) for number in of_units)


def _in_no_rule(terms: Sequence[str]) -> str:
    """
    >>> _in_no_rule(["b:valeu"]), _in_no_rule(["b:u", "b:v"]), _in_no_rule(["b:u", "b:v", "b:w", "b:x", "b:y"])
    ('; b:valeu occurs in no rule', '; b:u and b:v occur in no rule', '; b:u, b:v, b:w and 2 more occur in no rule')
    """
    if len(terms) < 2:
        return f"; {terms[0]} occurs in no rule" if terms else ""
    more = len(terms) - _MOST_TERMS
    *first, last = [*terms[:_MOST_TERMS], f"{more} more"] if more > 0 else terms
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
    for datalog in program.own_datalog:
        parts |= dict.fromkeys((*datalog.head, *datalog.body))
    for part in parts:
        for node in walk(part):
            match node:
                case Const(term) | Link(term):
                    yield term
                case Negated(forward, backward):
                    yield from (*(forward or ()), *(backward or ()))
