"""Properties of the contents of instants: facts and derived triples equal those of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from hypothesis import given

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace, RejectedElement, Replay, ReplayedInstant
from dotr.explanations.facts import FactsReader
from dotr.instant.instants import merge
from dotr.model.stream import Element, Instant
from dotr.model.terms import WELL_KNOWN, Term, Triple, rename_blanks
from dotr.model.time import Micros
from dotr.syntax.turtle.graphs import read_graph
from tests.oracle.isomorphism import canonical
from tests.support.properties import compiled, examples, shown
from tests.support.strategies import STRATIFIED, ProgramText, programs, programs_of_queries
from tests.support.strategies_streams import streams


def by_appearance(triples: tuple[Triple, ...]) -> tuple[Triple, ...]:
    """Triples with the blank nodes `_:0`, `_:1`, … as elements have them."""
    names: dict[Term, Term] = {}

    def name(blank: Term) -> Term:
        return names.setdefault(blank, f"_:{len(names)}")

    return tuple((rename_blanks(s, name), p, rename_blanks(o, name)) for s, p, o in triples)


def replay_of(program: CompiledProgram, text: ProgramText, elements: list[Element]) -> Replay:
    instants: dict[Micros, list[tuple[Triple, ...]]] = {}
    for element in elements:
        instants.setdefault(element.time, []).append(by_appearance(element.triples))

    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for time, graphs in sorted(instants.items()):
            yield ReplayedInstant(time, graphs, [ElementPlace("stream", number) for number in range(1, len(graphs) + 1)])

    return Replay("random", program, text.clock, program.rules.prefixes, read)


def terms_read(texts: dict[str, str], program: CompiledProgram) -> dict[str, Term]:
    """The terms of attributes in Turtle."""
    graph = "".join(f"<x:s> <x:{name}> {text} .\n" for name, text in texts.items())
    return {predicate[3:-1]: value for _, predicate, value in read_graph(graph, {**WELL_KNOWN, **program.rules.prefixes}, 100)}


def assert_shown(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    program = compiled(text)
    replay = replay_of(program, text, elements)
    views = list(FactsReader(replay, everything=True).views())
    instants = list(replay.instants())
    assert [view.time for view in views] == [instant.time for instant in instants]
    for view, instant in zip(views, instants, strict=True):
        triples = merge(instant.time, instant.graphs).triples
        facts = Counter((fact.label, canonical([], terms_read(dict(fact.attributes), program))) for fact in view.facts)
        expected = program.facts_of_interest(Instant(instant.time, triples))
        assert facts == Counter((fact.type, canonical([], dict(fact.attributes))) for fact in expected)
        closure = program.knowledge.close(triples)
        assert len(view.derived) == len(set(closure.delta.visible()) - set(triples))
        assert all(each.origin for each in view.derived)
        list(view.lines())
        view.to_json()


@examples(50)
@given(programs(STRATIFIED, entailments=("none", "none", "rdfs", "owl2rl")), streams(longest=4))
def test_facts_of_programs_equal_those_of_a_run(text: ProgramText, elements: list[Element]) -> None:
    assert_shown(text, elements)


@examples(40)
@given(programs_of_queries(), streams(longest=4))
def test_facts_of_queries_equal_those_of_a_run(text: ProgramText, elements: list[Element]) -> None:
    assert_shown(text, elements)
