"""Reasons of an event of a continuous query: its solutions at a report, and what they used.

Idea: the report is looked at as it was (`dotr.explanations.report_scene`). Each solution of the
event is proved as the fact of a rule's query is (`dotr.explanations.query_proof`), and each triple
that it used in the graph of its window, down to elements. An element that another unit made is
followed to the reason of that unit's event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from dotr.engine.query_run import row_graphs
from dotr.engine.report_evaluation import SolutionRow
from dotr.explanations.event_reasons import ProofsByTime
from dotr.explanations.firings import AnyFiring, FiringRecorder, UnitFiring
from dotr.explanations.proofs import StatedTriple, TripleProof, parts_of_proofs
from dotr.explanations.query_proof import Evidence, SolutionGroup, UsedMapping, UsedPath, UsedTriple, UsedWindow, prove_solution
from dotr.explanations.query_records import RecordedReport
from dotr.explanations.reasons import Given, ProofScope, ReportReason, SolutionReason, UnitReason
from dotr.explanations.replay import WindowElement
from dotr.explanations.report_scene import ProvenGraph, ReportScene
from dotr.explanations.window_elements import WindowElements
from dotr.layout.units import MadeGraphs
from dotr.model.continuous import AskForm, ConstructForm, RelationToStream, SelectForm
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.outputs import compile_template
from dotr.queries.evaluate import AlgebraCompiler
from dotr.queries.operators import EMPTY

MOST_SOLUTIONS: Final = 100
"""Number of solutions of a CONSTRUCT that are explained."""

_TRUE: Final = '"true"'


@dataclass(frozen=True, eq=False)
class ReportReasons:
    """Finder of the reasons of events of continuous queries that a recorder has seen.

    Attributes:
        recorder: the recorder.
        proofs: the rules of the background, and what makes proofs longer.
        elements: the finder of the places of elements.
        follow: the reason of another event; None where it is not followed further.
    """

    recorder: FiringRecorder
    proofs: ProofsByTime
    elements: WindowElements
    follow: Callable[[AnyFiring], UnitReason | None]
    _scenes: dict[tuple[Label, Micros], ReportScene] = field(default_factory=dict)

    def of(self, firing: UnitFiring, name: Term | None = None) -> ReportReason:
        """The reasons of an event; with a name, of a CONSTRUCT's event, only the solution that
        makes the name.
        """
        record = self.recorder.records[firing.label]
        query = record.unit.query
        report = record.report_at(firing.time)
        assert report is not None, "an event of a query is of a report"
        earlier = record.before(report)
        now = self.scene(firing.label, report)
        then = None if earlier is None else self.scene(firing.label, earlier)
        given = _GIVEN[query.relation]
        held = then if given is Given.GONE and then is not None else now
        counts = (Counter[SolutionRow](), Counter[SolutionRow]())
        if given is not Given.ALL or isinstance(query.form, ConstructForm):
            counts = _rows(now), Counter() if then is None or given is Given.ALL else _rows(then)
        rows = self._given(firing, given, counts, name)
        first = next(iter(rows), ())
        solutions = tuple([self._solution(held, row, times) for row, times in list(rows.items())[:MOST_SOLUTIONS]])
        return ReportReason(
            firing,
            held,
            now,
            None if earlier is None else earlier.time,
            given,
            solutions,
            sum(rows.values()),
            (counts[0][first], counts[1][first]),
            self._made(solutions),
        )

    def scene(self, label: Label, report: RecordedReport) -> ReportScene:
        """The sight of a query at a report; it is made once."""
        found = self._scenes.get((label, report.time))
        if found is None:
            replay = self.recorder.replay
            record = self.recorder.records[label]
            found = ReportScene(replay.program, self.proofs.rules, record, report, self.elements, replay.clock)
            self._scenes[label, report.time] = found
        return found

    def _given(
        self, firing: UnitFiring, given: Given, counts: tuple[Counter[SolutionRow], Counter[SolutionRow]], name: Term | None
    ) -> Mapping[SolutionRow, int]:
        """The rows of an event, each with how often it is given."""
        query = self.recorder.records[firing.label].unit.query
        names = names_of(query.form)
        if not isinstance(query.form, ConstructForm):
            return {tuple([firing.attributes.get(each) for each in names]): 1}
        now, then = counts
        rows = {Given.ALL: now, Given.NEW: now - then, Given.GONE: then - now}[given]
        template = compile_template(query.form.template, names)
        ordered: Counter[SolutionRow] = Counter()
        for row, triples, _ in row_graphs(firing.label, template, names, firing.time, list(rows.elements())):
            if name is None or any(name in triple for triple in triples):
                ordered[row] += 1
        return ordered

    def _solution(self, scene: ReportScene, row: SolutionRow, times: int) -> SolutionReason:
        """A solution with what it used."""
        form = scene.query.form
        bound = {name: term for name, term in zip(names_of(form), row, strict=True) if term is not None}
        evidence: Evidence | None = ()
        if not isinstance(form, AskForm):
            evidence = prove_solution(scene.query.query, bound, scene.graph, lambda each: self._order(scene, each))
        elif bound["answer"].startswith(_TRUE):
            some = next(iter(AlgebraCompiler().compile(form.query).solutions(scene.graph, EMPTY, EMPTY)))
            solution = {name: some[name] for name in form.query.projection if name in some}
            evidence = prove_solution(form.query, solution, scene.graph, lambda each: self._order(scene, each))
        mappings = {key: scene.mappings[key[0]][key[1]] for key in _used_mappings(evidence or ())}
        proofs: dict[tuple[ProofScope, Triple], TripleProof] = {}
        for scope, triple in _used(scene, evidence or ()):
            proof = _graph(scene, scope).proof(triple)
            if proof is not None:
                proofs.setdefault((scope, triple), self.proofs.further(proof))
        return SolutionReason(bound, times, evidence or (), proofs, mappings)

    def _order(self, scene: ReportScene, evidence: Evidence) -> tuple[int, list[tuple[str, Triple]]]:
        """The order of solutions that give the same row: by height, then by text."""
        used = list(_used(scene, evidence))
        heights = [_graph(scene, scope).height(triple) for scope, triple in used]
        return max(heights, default=0), [(str(scope), triple) for scope, triple in used]

    def _made(self, solutions: tuple[SolutionReason, ...]) -> Mapping[tuple[Label, Micros, int], UnitReason]:
        """The reasons of the events whose graphs are elements that solutions used."""
        found: dict[tuple[Label, Micros, int], UnitReason] = {}
        for element in used_elements(proof for each in solutions for proof in each.proofs.values()):
            if isinstance(element.stream, MadeGraphs):
                key = (element.stream.label, element.time, element.number)
                maker = None if key in found else self.recorder.maker_of(element)
                reason = None if maker is None else self.follow(maker)
                if reason is not None:
                    found[key] = reason
        return found


_GIVEN: Final = {RelationToStream.RSTREAM: Given.ALL, RelationToStream.ISTREAM: Given.NEW, RelationToStream.DSTREAM: Given.GONE}


def names_of(form: SelectForm | ConstructForm | AskForm) -> tuple[Variable, ...]:
    """The names of the terms of a row, as the engine has them."""
    return ("answer",) if isinstance(form, AskForm) else tuple(form.query.projection)


def _rows(scene: ReportScene) -> Counter[SolutionRow]:
    """The bag of solutions at a report, as rows."""
    form = scene.query.form
    solutions = AlgebraCompiler().compile(form.query).solutions(scene.graph, EMPTY, EMPTY)
    if isinstance(form, AskForm):
        return Counter([(f'"{"true" if solutions else "false"}"^^<http://www.w3.org/2001/XMLSchema#boolean>',)])
    return Counter(tuple([solution.get(name) for name in form.query.projection]) for solution in solutions)


def _graph(scene: ReportScene, scope: ProofScope) -> ProvenGraph:
    match scope:
        case None:
            return scene.default
        case str():
            return scene.blocks[scope]
        case (window, time):
            return next(graph for at, graph in scene.items[window] if at == time)
        case _:
            assert_never(scope)


def _used(scene: ReportScene, evidence: Evidence, scope: ProofScope = None) -> Iterator[tuple[ProofScope, Triple]]:
    """The triples that some evidence used, each with its graph, those of groups included."""
    for item in evidence:
        match item:
            case UsedTriple(triple, _):
                yield scope, triple
            case UsedPath(_, _, _, triples):
                yield from ((scope, triple) for triple in triples)
            case SolutionGroup(_, _, members):
                for member in members:
                    yield from _used(scene, member, scope)
            case UsedWindow(window, inner):
                yield from _used(scene, inner, window)
            case UsedMapping(block, number):
                yield from (((each.window, each.time), each.triple) for each in scene.mappings[block][number].used)
            case _:
                pass


def _used_mappings(evidence: Evidence) -> Iterator[tuple[int, int]]:
    for item in evidence:
        match item:
            case UsedMapping(block, number):
                yield block, number
            case UsedWindow(_, inner):
                yield from _used_mappings(inner)
            case SolutionGroup(_, _, members):
                for member in members:
                    yield from _used_mappings(member)
            case _:
                pass


def used_elements(proofs: Iterator[TripleProof]) -> list[WindowElement]:
    """The elements of windows at which some proofs end, each once."""
    found: dict[tuple[object, Micros, int], WindowElement] = {}
    for proof in parts_of_proofs(proofs):
        match proof:
            case StatedTriple(_, WindowElement() as element):
                found.setdefault((element.stream, element.time, element.number), element)
            case _:
                pass
    return list(found.values())
