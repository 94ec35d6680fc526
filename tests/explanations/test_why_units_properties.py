"""Every event of random programs with continuous queries has reasons, and its evidence suffices: a brute-force evaluation over the elements
of its evidence alone has the solution."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import assume, given, note

from dotr.engine.replay import ElementPlace, RejectedElement, Replay, ReplayedInstant, WindowElement
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.explanations.replay.firings import UnitFiring
from dotr.explanations.text.tree import ReasonKind
from dotr.explanations.why import WhyExplainer
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.continuous.explanation.text import ReportReason, SolutionReason, SolutionStatus, used_elements
from dotr.languages.continuous.model import AskForm, EntailmentLevel
from dotr.languages.continuous.reading import compile_continuous, events_of
from dotr.languages.programs import compile_program
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.stream import FedGraph
from dotr.model.terms import Triple
from dotr.model.time import Clock
from tests.languages.continuous.test_continuous_random import PREFIXES
from tests.oracle.algebra import Dataset, selected
from tests.oracle.cases import read_turtle, world
from tests.oracle.continuous import Knowledge, Streamed, block_graph, event_items, merge
from tests.oracle.isomorphism import canonical
from tests.oracle.match import Matching
from tests.support.properties import examples
from tests.support.strategies_continuous import SECOND, ContinuousProgram, continuous_programs

STREAM = "http://example.org/"


def replay_of(program: ContinuousProgram, spec: ProgramSpec) -> Replay:
    """The program over its elements, whose places are `stream:NUMBER`."""

    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for time in sorted({at for at, _, _ in program.elements}):
            here = [(number, name, turtle) for number, (at, name, turtle) in enumerate(program.elements) if at == time]
            graphs = [FedGraph.on(STREAM + name, read_turtle(turtle, PREFIXES)) for _, name, turtle in here]
            yield ReplayedInstant(int(time * SECOND), graphs, [ElementPlace("stream", number + 1) for number, _, _ in here])

    return Replay("random", compile_program(spec), Clock(), {}, read)


def assert_evidence_suffices(reason: ReportReason, solution: SolutionReason, known: Knowledge) -> None:
    """The oracle has the solution over the elements in its proofs alone."""
    dataset = reason.dataset
    form, time = dataset.query.form, dataset.report.time
    named = {(each.stream, each.time, each.number) for each in used_elements(iter(solution.proofs.values()))}

    def left(elements: object) -> list[Streamed]:
        assert isinstance(elements, list)
        kept = [each for each in elements if (each.stream, each.time, each.number) in named]
        return [Streamed(each.time, frozenset(each.triples), number) for number, each in enumerate(kept)]

    graphs, items = {}, {}
    together: set[Triple] = set()
    apart: set[Triple] = set()
    for number, window in enumerate(dataset.query.windows):
        held, stream = left(list(dataset.contents[number])), left(list(dataset.history(number)))
        seen = block_graph(window.block_level, held, time, stream, known)
        if window.name is not None:
            graphs[window.name] = sorted(seen)
            items[window.name] = event_items(window.event_level, held, time, stream, known)
        elif window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW):
            together |= merge(held)
        else:
            apart |= seen
    matches = []
    for number, block in enumerate(dataset.query.matches):
        used = frozenset((each.window, each.time, each.triple) for each in dataset.report.used[number])
        matches.append([each.bindings for each in Matching(items, used, known.clock).mappings(block.events, {}, None)])
    found = selected(dataset.query.query, Dataset(sorted(known.close(together) | apart), graphs, matches), {})
    if isinstance(form, AskForm):
        assert bool(found) == solution.row["answer"].startswith('"true"')
    else:
        rows = [{name: term for name, term in each.items() if name in form.query.projection} for each in found]
        assert canonical((), dict(solution.row)) in [canonical((), row) for row in rows], "names of blank nodes are free"


@given(continuous_programs())
@examples(25)
def test_evidence_of_query_events_suffices_for_them(program: ContinuousProgram) -> None:
    note(program.queries)
    note(str(program))
    query_file, rule_file = Document("q.rspql", program.queries), Document("r.dotr", program.rules)
    queries = compile_continuous([query_file], PREFIXES).checked().queries
    rules = compile_rules([rule_file], PREFIXES, units=events_of(queries))
    assume(not rules.errors)
    datalog = [("k.dlog", program.datalog)] if program.datalog else []
    base = world(rules, [program.background], datalog, program.entailment, PREFIXES)
    known = Knowledge(base.background, base.datalog, base.entailment, base.clock, program.origin * SECOND)
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder) / "background.ttl"
        background.write_text("".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items()) + program.background)
        spec = ProgramSpec(
            (query_file, rule_file),
            tuple(Document(name, text) for name, text in datalog),
            (str(background),),
            Entailment(program.entailment),
            prefixes=PREFIXES,
            origin=program.origin * SECOND,
        )
        try:
            replay = replay_of(program, spec)
        except Refused as refused:
            assume("D404" not in str(refused) and "D401" not in str(refused))
            raise
        explainer = WhyExplainer(replay)
        recorder = explainer.recorder(replay.program.unit_names)
        is_monotone = "NOT" not in program.datalog and "AGGREGATE" not in program.datalog and "[] :" not in program.background
        for firings in recorder.run():
            for firing in firings[:20]:
                reason = explainer.reason(recorder, firing)
                tree = explainer.tree(recorder, firing)
                assert tree.kind is ReasonKind.EVENT
                assert len(tree.lines()) <= len(tree.lines(60))
                tree.to_json(), tree.to_mermaid()
                if not isinstance(firing, UnitFiring):
                    continue
                assert isinstance(reason, ReportReason)
                assert reason.total == 1 or reason.firing.graph is not None
                if reason.status is not SolutionStatus.ALL:
                    more, less = reason.counts if reason.status is SolutionStatus.NEW else reversed(reason.counts)
                    assert more > less
                for solution in reason.solutions[:10]:
                    for element in used_elements(iter(solution.proofs.values())):
                        assert_is_an_element(element, program)
                    if is_monotone and not (isinstance(reason.dataset.query.form, AskForm) and not solution.evidence):
                        assert_evidence_suffices(reason, solution, known)


def assert_is_an_element(element: WindowElement, program: ContinuousProgram) -> None:
    """The place of an element of an input is that of an element with its time and number of triples."""
    if element.place is not None:
        at, _, turtle = program.elements[element.place.line - 1]
        assert at * SECOND == element.time
        assert len(set(read_turtle(turtle, PREFIXES))) == len(element.triples)
