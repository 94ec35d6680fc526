"""Properties of explanations of queries without facts: their stops and rules agree with the oracle."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from dotr.explanations.missing.conclusion import UnfulfilledRule, UnfulfilledRules
from dotr.explanations.missing.fact import close_quietly
from dotr.explanations.missing.partial_joins import (
    ClosedGraph,
    FilterStop,
    JoinStop,
    OperatorStop,
    PatternSolver,
    QueryStop,
    TermStop,
    UnionStop,
    at_most_reached,
    find_stop,
    joined_pattern,
    most_reached,
    reached,
)
from dotr.explanations.missing.stop_text import StopText, datalog_rules
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.instant.instants import merge
from dotr.model.algebra import Bgp, Filter, Pattern, Select, TriplePattern
from dotr.model.rules import FactSource
from dotr.model.stream import Element
from dotr.model.terms import Triple
from dotr.model.traverse import in_scope
from dotr.syntax.rendering import TermWriter
from dotr.temporal.layout.retention import roles
from tests.oracle import algebra
from tests.support.properties import compiled, examples, shown
from tests.support.strategies import STRATIFIED, ProgramText, programs, programs_of_queries
from tests.support.strategies_streams import streams


def assert_agreed(text: ProgramText, elements: list[Element]) -> None:
    """Each stop of each query at each instant agrees with the oracle's solutions."""
    shown(text, elements)
    program = compiled(text)
    queries: list[Select] = [shared.query for shared in program.rules.queries]
    for rule in program.rules.rules:
        roles = (rule.anchor, *(clause.role for clause in rule.clauses))
        queries += [role.source.query for role in roles if isinstance(role.source, FactSource)]
    rules, vocabulary, solver = datalog_rules(program), StreamVocabulary(), PatternSolver()
    for time in sorted({element.time for element in elements}):
        given_triples = merge(time, [element.triples for element in elements if element.time == time]).triples
        closure = close_quietly(program, given_triples)
        assume(closure is not None)
        assert closure is not None
        known = sorted({*closure.background.visible(), *closure.delta.visible()})
        closed = ClosedGraph(closure, program.spec.limits)
        for query in dict.fromkeys(queries):
            try:
                rows = algebra.solutions(query, known, {})
            except (algebra.NamesDecide, KeyError):  # a temporal constraint of a shared query
                continue
            stop = find_stop(query, closed, solver)
            assert (stop is None) == bool(rows)
            if stop is not None:
                assert_stop(stop, known)
                assert reached(stop) <= at_most_reached(query, closure)
                failures = UnfulfilledRules(rules, closed, given_triples, vocabulary, TermWriter({}))
                for pattern, solutions in missing_triples(stop):
                    for failure in failures.of_pattern(pattern, solutions):
                        assert_failure(failure, known)
                assert list(StopText(program, rules, vocabulary, closed, given_triples, TermWriter({})).sentences(stop))


def assert_agreed_with_terms(text: ProgramText, elements: list[Element], data: st.DataObject) -> None:
    """Each stop of the solutions that have a term agrees with the oracle's solutions with the term."""
    shown(text, elements)
    program = compiled(text)
    queries = dict.fromkeys(
        each.source.query for rule in program.rules.rules for each in roles(rule) if isinstance(each.source, FactSource)
    )
    solver = PatternSolver()
    for time in sorted({element.time for element in elements}):
        given_triples = merge(time, [element.triples for element in elements if element.time == time]).triples
        closure = close_quietly(program, given_triples)
        assume(closure is not None)
        assert closure is not None
        known = sorted({*closure.background.visible(), *closure.delta.visible()})
        closed = ClosedGraph(closure, program.spec.limits)
        candidates = sorted({term for triple in known for term in triple if not term.startswith("_:")} | {"<http://e/none>"})
        for query in queries:
            if not query.projection:
                continue
            terms = {data.draw(st.sampled_from(query.projection)): data.draw(st.sampled_from(candidates))}
            try:
                rows = with_terms(query, known, terms)
            except (algebra.NamesDecide, KeyError):  # a temporal constraint of a shared query
                continue
            stop = find_stop(query, closed, solver, terms)
            assert (stop is None) == bool(rows)
            if stop is None:
                assert at_most_reached(query, closure, terms) == at_most_reached(query, None, terms)
                continue
            assert_stop(stop, known, terms)
            assert reached(stop) <= at_most_reached(query, closure, terms)
            assert reached(stop) <= most_reached(query, terms)
            writer = TermWriter({}, terms)
            assert list(StopText(program, datalog_rules(program), StreamVocabulary(), closed, given_triples, writer).sentences(stop))


def with_terms(pattern: Pattern, known: list[Triple], terms: dict[str, str]) -> list[dict[str, str]]:
    """The oracle's solutions of a pattern that have the terms of the variables in its scope."""
    own = {name: term for name, term in terms.items() if name in in_scope(pattern)}
    return [row for row in algebra.solutions(pattern, known, {}) if all(row.get(name) == term for name, term in own.items())]


def assert_stop(stop: QueryStop, known: list[Triple], terms: dict[str, str] | None = None) -> None:
    def count(pattern: Pattern) -> int:
        return len(with_terms(pattern, known, terms or {}))

    match stop:
        case JoinStop(joined, rows, missing, inside):
            assert len(rows) == (count(joined_pattern(joined)) if joined else 1) > 0
            for row in rows:
                assert all(row.get(name, term) == term for name, term in (terms or {}).items())
            assert missing
            for part in missing:
                assert not count(joined_pattern([*joined, part]))
            if inside is not None:
                assert_stop(inside, known, terms)
        case FilterStop(pattern, rows, failed, _):
            assert count(pattern) == len(rows) > 0
            for each in failed:
                assert not count(Filter(Bgp(()), (each.condition,))) or each.row
        case OperatorStop(_, pattern, rows):
            assert not rows or count(pattern) == len(rows)
        case UnionStop(sides):
            for side in sides:
                assert_stop(side, known, terms)
        case TermStop(pattern, _, names):
            assert names
            assert not count(pattern)


def missing_triples(stop: QueryStop) -> list[tuple[TriplePattern, tuple[dict[str, str], ...]]]:
    match stop:
        case JoinStop(_, rows, missing):
            return [(part, rows) for part in missing if isinstance(part, TriplePattern)]
        case UnionStop(sides):
            return [each for side in sides for each in missing_triples(side)]
        case _:
            return []


def assert_failure(failure: UnfulfilledRule, known: list[Triple]) -> None:
    assert set(failure.premises) <= set(known)
    if failure.missing is not None:
        assert not algebra.solutions(Bgp((failure.missing,)), known, {})
    for further in failure.further:
        assert_failure(further, known)


@examples(25)
@given(programs() | programs_of_queries(), streams(longest=4), st.data())
def test_stops_of_requested_terms_agree_with_the_oracle(text: ProgramText, elements: list[Element], data: st.DataObject) -> None:
    assert_agreed_with_terms(text, elements, data)


@examples(60)
@given(programs(), streams(longest=4))
def test_stops_of_programs_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)


@examples(60)
@given(programs_of_queries(), streams(longest=4))
def test_stops_of_queries_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)


@examples(40)
@given(programs(STRATIFIED), streams(longest=4))
def test_stops_of_stratified_programs_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)
