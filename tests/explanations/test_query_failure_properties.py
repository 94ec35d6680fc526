"""Properties of explanations of queries without facts: their stops and rules agree with the oracle."""

from __future__ import annotations

from hypothesis import assume, given

from dotr.explanations.missing.conclusion import UnfulfilledRule, UnfulfilledRules
from dotr.explanations.missing.fact import close_quietly
from dotr.explanations.missing.partial_joins import (
    ClosedGraph,
    FilterStop,
    JoinStop,
    OperatorStop,
    PatternSolver,
    QueryStop,
    UnionStop,
    at_most_reached,
    find_stop,
    joined_pattern,
    reached,
)
from dotr.explanations.missing.stop_text import StopText, datalog_rules
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.instant.instants import merge
from dotr.model.algebra import Bgp, Filter, Pattern, Select, TriplePattern
from dotr.model.rules import FactSource
from dotr.model.stream import Element
from dotr.model.terms import Triple
from dotr.syntax.rendering import TermWriter
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


def assert_stop(stop: QueryStop, known: list[Triple]) -> None:
    def count(pattern: Pattern) -> int:
        return len(algebra.solutions(pattern, known, {}))

    match stop:
        case JoinStop(joined, rows, missing, inside):
            assert count(joined_pattern(joined)) == len(rows) > 0
            assert missing
            for part in missing:
                assert not count(joined_pattern([*joined, part]))
            if inside is not None:
                assert_stop(inside, known)
        case FilterStop(pattern, rows, failed, _):
            assert count(pattern) == len(rows) > 0
            for each in failed:
                assert not count(Filter(Bgp(()), (each.condition,))) or each.row
        case OperatorStop(_, pattern, rows):
            assert not rows or count(pattern) == len(rows)
        case UnionStop(sides):
            for side in sides:
                assert_stop(side, known)


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
