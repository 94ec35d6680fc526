"""Reasons of events of random programs, verified by the oracle over the elements that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hypothesis import assume

from dotr.engine.replay import ElementPlace, RejectedElement, Replay, ReplayedInstant
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.explanations.evidence.proofs import DerivedTriple, StatedTriple, TripleProof
from dotr.explanations.evidence.reasons import proofs_of
from dotr.explanations.replay.firings import UnitFiring
from dotr.explanations.why import WhyExplainer
from dotr.languages.epsparql.explanation.text import IntervalReason
from dotr.languages.lars.explanation.reasons import LarsEventReason
from dotr.languages.lars.model import ReportKind
from dotr.languages.programs import compile_program
from dotr.model.stream import FedGraph
from dotr.model.time import Clock
from tests.oracle.cases import read_turtle
from tests.oracle.isomorphism import canonical
from tests.support.strategies_continuous import SECOND

NOT_MONOTONE: Final = (
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
"""Keywords of non-monotonic programs, whose events may depend on missing facts."""


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
    """Asserts that each event has a tree; if the program is monotonic, the elements named in it suffice for the event."""
    explainer = WhyExplainer(replay)
    recorder = explainer.recorder(replay.program.unit_names)
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
                case IntervalReason():
                    assert reason.parts
                    assert all(part.source is not None for part in reason.parts)
                    is_again = is_monotone
                case _:
                    is_again = False
            if is_again and asked < 2:
                asked += 1
                key = (firing.time, firing.label, canonical(frozenset(firing.graph or ()), dict(firing.attributes)))
                assert key in alone(lines_of(proofs_of(reason))), f"{key} is not given by what is named:\n" + "\n".join(tree.lines())


def emptied(elements: Sequence[tuple[float, str]], kept: set[int]) -> list[tuple[float, str]]:
    """The elements, with triples only in those of some numbers, counted from 1."""
    return [(at, turtle if number + 1 in kept else "") for number, (at, turtle) in enumerate(elements)]


def refused_as_expected(spec: ProgramSpec) -> None:
    """Skip an example whose units depend on each other cyclically at one moment."""
    try:
        compile_program(spec)
    except Refused as refused:
        assume("D404" not in str(refused) and "D401" not in str(refused))
        raise
