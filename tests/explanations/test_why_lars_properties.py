"""Every event of random programs with LARS files has reasons, and the elements that they name give it: the brute force of the page, asked
over these elements alone, has the event."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import assume, given, note

from dotr.datalog.entailment import Entailment
from dotr.engine.program import compile_program
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.explanations.firings import UnitFiring
from dotr.explanations.proofs import DerivedTriple, StatedTriple, TripleProof
from dotr.explanations.reasons import IntervalReason, LarsEventReason
from dotr.explanations.replay import ElementPlace, RejectedElement, Replay, ReplayedInstant
from dotr.explanations.unit_text import proofs_of
from dotr.explanations.why import WhyExplainer, unit_names
from dotr.model.lars import ReportKind
from dotr.model.places import Document
from dotr.model.stream import FedGraph
from dotr.model.time import Clock
from tests.engine.test_lars_random import PREFIXES as LARS_PREFIXES
from tests.engine.test_lars_random import STREAM, by_brute_force, documents_of
from tests.oracle.cases import read_turtle
from tests.oracle.isomorphism import canonical
from tests.support.properties import examples
from tests.support.strategies_continuous import SECOND
from tests.support.strategies_lars import LarsProgram, lars_programs

NOT_MONOTONE = (
    "NOT",
    "not ",
    "AGGREGATE",
    "LAST",
    "first ",
    "last ",
    "aggregate",
    "OPTIONAL",
    "MINUS",
    "POLICY",
    "COUNT",
    "consuming",
    "!",
    "GROUP",
    "every ",
)


def replay_of(elements: Sequence[tuple[float, str]], spec: ProgramSpec, prefixes: dict[str, str], stream: str | None) -> Replay:
    """The program over its elements, whose places are `stream:NUMBER`."""

    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        times = sorted({int(at * SECOND) for at, _ in elements})
        for time in times:
            here = [(number, turtle) for number, (at, turtle) in enumerate(elements) if int(at * SECOND) == time]
            graphs = [read_turtle(turtle, prefixes) for _, turtle in here]
            fed = [FedGraph.on(stream, graph) for graph in graphs] if stream is not None else [tuple(graph) for graph in graphs]
            yield ReplayedInstant(time, fed, [ElementPlace("stream", number + 1) for number, _ in here])

    return Replay("random", compile_program(spec), Clock(), {}, read)


def lines_of(proofs: Iterator[TripleProof]) -> set[int]:
    """The numbers of the elements at which some proofs end."""
    found: set[int] = set()
    pending = list(proofs)
    while pending:
        match pending.pop():
            case StatedTriple(_, ElementPlace(_, line)):
                found.add(line)
            case DerivedTriple(_, _, premises):
                pending += premises
            case _:
                pass
    return found


def assert_reasons_give_events(replay: Replay, alone: Callable[[set[int]], set[tuple[object, ...]]], *, is_monotone: bool) -> None:
    """Each event has a tree; where nothing is negated, the elements named give it again."""
    explainer = WhyExplainer(replay)
    recorder = explainer.recorder(unit_names(replay.program))
    asked = 0
    for firings in recorder.run():
        for firing in firings[:3]:
            reason = explainer.reason(recorder, firing)
            tree = explainer.tree(recorder, firing)
            assert len(tree.lines()) <= len(tree.lines(60))
            tree.to_json(), tree.to_mermaid()
            if not isinstance(firing, UnitFiring):
                continue
            match reason:
                case LarsEventReason(_, report):
                    assert reason.node is not None
                    is_again = is_monotone and report.kind is not ReportKind.ENDED
                case IntervalReason(query=query):
                    assert query is None or reason.parts
                    assert query is None or all(part.source is not None for part in reason.parts)
                    is_again = is_monotone and query is not None
                case _:
                    is_again = False
            if is_again and asked < 2:
                asked += 1
                key = (firing.time, firing.label, canonical(frozenset(firing.graph or ()), dict(firing.attributes)))
                assert key in alone(lines_of(proofs_of(reason))), f"{key} is not given by what is named:\n" + "\n".join(tree.lines())


def emptied(elements: Sequence[tuple[float, str]], kept: set[int]) -> list[tuple[float, str]]:
    return [(at, turtle if number + 1 in kept else "") for number, (at, turtle) in enumerate(elements)]


def refused_as_expected(spec: ProgramSpec) -> None:
    try:
        compile_program(spec)
    except Refused as refused:
        assume("D404" not in str(refused) and "D401" not in str(refused))
        raise


@given(lars_programs())
@examples(10)
def test_events_of_lars_files_have_reasons_that_give_them(program: LarsProgram) -> None:
    for text in (program.first, program.later):
        note(text)
    note(str(replace(program, first="", later="")))
    expected = by_brute_force(program)
    assume(not expected.decided_by_names and not expected.too_much)
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder) / "background.ttl"
        background.write_text("@prefix : <http://example.org/> .\n" + program.background)
        datalog = (Document("k.dlog", program.datalog),) if program.datalog else ()
        spec = ProgramSpec(tuple(documents_of(program)), datalog, (str(background),), Entailment("none"), prefixes=LARS_PREFIXES)
        refused_as_expected(spec)
        replay = replay_of(program.elements, spec, LARS_PREFIXES, STREAM)

        def alone(kept: set[int]) -> set[tuple[object, ...]]:
            given_by = by_brute_force(replace(program, elements=tuple(emptied(program.elements, kept))))
            return {(each.time, each.event, canonical(each.graph, each.attributes)) for each in given_by.outputs}

        texts = program.first + program.later + program.rules + program.queries + program.datalog
        is_monotone = not program.queries and not any(word in texts for word in NOT_MONOTONE)
        assert_reasons_give_events(replay, alone, is_monotone=is_monotone)
