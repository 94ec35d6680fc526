"""Reasons of an event of a continuous query: its solutions at a report, with their evidence.

Idea: the dataset of the report is restored (`dotr.languages.continuous.explanation.dataset`). Each
solution of the event is proved like a fact of a rule's query
(`dotr.explanations.evidence.proofs`), and each triple of its evidence is proved in the graph
of its window, down to elements. An element that is the graph of another unit's event is followed to
the reasons of that event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias, assert_never

from dotr.engine.replay import WindowElement
from dotr.explanations.evidence.event_reasons import UnitReasonFinder
from dotr.explanations.evidence.proofs import StatedTriple, TripleProof, parts_of_proofs, prove_solution
from dotr.explanations.evidence.reasons import SourceReason, UnitReason
from dotr.explanations.replay.firings import UnitFiring
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.evidence import Evidence, SolutionGroup, UsedMapping, UsedPath, UsedTriple, UsedWindow
from dotr.instant.queries.operators import EMPTY
from dotr.languages.continuous.evaluation.match_blocks import EventMapping
from dotr.languages.continuous.evaluation.report import SolutionRow
from dotr.languages.continuous.evaluation.run import row_graphs
from dotr.languages.continuous.explanation.dataset import ProvenGraph, ReportDataset
from dotr.languages.continuous.explanation.records import QueryRecord, RecordedReport, WindowElements
from dotr.languages.continuous.model import AskForm, ConstructForm, RelationToStream, SelectForm
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.model.units import MadeGraphs
from dotr.temporal.templates import compile_template

MOST_SOLUTIONS: Final = 100
"""Maximum number of solutions of a CONSTRUCT that are explained."""

_TRUE: Final = '"true"'


ProofScope: TypeAlias = "Term | tuple[Term, Micros] | None"
"""The graph of a triple in the evidence: a window, an item of a window at a time (µs since 1970), or
None for the default graph."""


@dataclass(frozen=True, eq=False)
class SolutionReason:
    """A solution of a query at a report.

    Attributes:
        row: its bound variables.
        multiplicity: how often the report has it.
        evidence: its evidence; empty if it is not found.
        proofs: the proof of each triple in the evidence, by graph and triple.
        mappings: the used mappings of MATCH blocks, by block and number.
    """

    row: Mapping[Variable, Term]
    multiplicity: int
    evidence: Evidence
    proofs: Mapping[tuple[ProofScope, Triple], TripleProof]
    mappings: Mapping[tuple[int, int], EventMapping]


class SolutionStatus(Enum):
    """Status of a reported solution against the report before: any, new, or removed."""

    ALL = "all"
    NEW = "new"
    REMOVED = "gone"


@dataclass(frozen=True, eq=False)
class ReportReason(UnitReason):
    """An event of a continuous query.

    Attributes:
        firing: the event.
        dataset: the dataset over which the solutions hold: at the report, or for DSTREAM at the
            report before.
        now: the dataset at the report of the event.
        before: the time of the report before in µs since 1970; None for the first report.
        status: the status of the solutions.
        solutions: the first solutions of the event; `total` is the number of all.
        counts: for NEW and REMOVED, the multiplicity of the first solution at the report and at the
            report before.
        made: the reasons of the events whose graphs the evidence uses as elements, by label, time
            and number, down to the maximum depth.
    """

    firing: UnitFiring
    dataset: ReportDataset
    now: ReportDataset
    before: Micros | None
    status: SolutionStatus
    solutions: tuple[SolutionReason, ...]
    total: int
    counts: tuple[int, int]
    made: Mapping[tuple[Label, Micros, int], UnitReason]

    def below(self) -> Iterable[SourceReason]:
        """The reasons of the events whose graphs are elements."""
        return self.made.values()

    def own_proofs(self) -> Iterator[TripleProof]:
        """The proofs of the triples in the evidence of each solution."""
        for solution in self.solutions:
            yield from solution.proofs.values()


@dataclass(frozen=True, eq=False)
class ReportReasons(UnitReasonFinder):
    """Finder of the reasons of recorded events of continuous queries."""

    @cached_property
    def _elements(self) -> WindowElements:
        return WindowElements(self.proofs.cached)

    @cached_property
    def _datasets(self) -> dict[tuple[Label, Micros], ReportDataset]:
        return {}

    def of(self, firing: UnitFiring, name: Term | None = None) -> ReportReason:
        """The reasons of an event.

        `name`: a fresh name in the graph of a CONSTRUCT; only the solution that creates it is
        explained.
        """
        record = self._record(firing.label)
        query = record.unit.query
        report = record.report_at(firing.time)
        assert report is not None, "an event of a query is of a report"
        earlier = record.before(report)
        now = self.dataset(firing.label, report)
        then = None if earlier is None else self.dataset(firing.label, earlier)
        status = _STATUS[query.relation]
        held = then if status is SolutionStatus.REMOVED and then is not None else now
        counts = (Counter[SolutionRow](), Counter[SolutionRow]())
        if status is not SolutionStatus.ALL or isinstance(query.form, ConstructForm):
            counts = _rows(now), Counter() if then is None or status is SolutionStatus.ALL else _rows(then)
        rows = self._rows_of(firing, status, counts, name)
        first = next(iter(rows), ())
        solutions = tuple([self._solution(held, row, times) for row, times in list(rows.items())[:MOST_SOLUTIONS]])
        return ReportReason(
            firing,
            held,
            now,
            None if earlier is None else earlier.time,
            status,
            solutions,
            sum(rows.values()),
            (counts[0][first], counts[1][first]),
            self._made(solutions),
        )

    def dataset(self, label: Label, report: RecordedReport) -> ReportDataset:
        """The dataset of a query at a report, restored once."""
        found = self._datasets.get((label, report.time))
        if found is None:
            replay = self.recorder.replay
            found = ReportDataset(replay.program, self.proofs.rules, self._record(label), report, self._elements, replay.clock)
            self._datasets[label, report.time] = found
        return found

    def _record(self, label: Label) -> QueryRecord:
        record = self.recorder.record(label, QueryRecord)
        assert record is not None, "the event is of a query"
        return record

    def _rows_of(
        self, firing: UnitFiring, status: SolutionStatus, counts: tuple[Counter[SolutionRow], Counter[SolutionRow]], name: Term | None
    ) -> Mapping[SolutionRow, int]:
        """The rows of an event with their multiplicities."""
        query = self._record(firing.label).unit.query
        names = names_of(query.form)
        if not isinstance(query.form, ConstructForm):
            return {tuple([firing.attributes.get(each) for each in names]): 1}
        now, then = counts
        rows = {SolutionStatus.ALL: now, SolutionStatus.NEW: now - then, SolutionStatus.REMOVED: then - now}[status]
        template = compile_template(query.form.template, names)
        ordered: Counter[SolutionRow] = Counter()
        for row, triples, _ in row_graphs(firing.label, template, names, firing.time, list(rows.elements())):
            if name is None or any(name in triple for triple in triples):
                ordered[row] += 1
        return ordered

    def _solution(self, dataset: ReportDataset, row: SolutionRow, times: int) -> SolutionReason:
        """A solution with its evidence and proofs."""
        form = dataset.query.form
        bound = {name: term for name, term in zip(names_of(form), row, strict=True) if term is not None}
        evidence: Evidence | None = ()
        if not isinstance(form, AskForm):
            evidence = prove_solution(dataset.query.query, bound, dataset.graph, lambda each: self._order(dataset, each))
        elif bound["answer"].startswith(_TRUE):
            some = next(iter(AlgebraCompiler().compile(form.query).solutions(dataset.graph, EMPTY, EMPTY)))
            solution = {name: some[name] for name in form.query.projection if name in some}
            evidence = prove_solution(form.query, solution, dataset.graph, lambda each: self._order(dataset, each))
        mappings = {key: dataset.mappings[key[0]][key[1]] for key in _used_mappings(evidence or ())}
        proofs: dict[tuple[ProofScope, Triple], TripleProof] = {}
        for scope, triple in _used(dataset, evidence or ()):
            proof = _graph(dataset, scope).proof(triple)
            if proof is not None:
                proofs.setdefault((scope, triple), self.proofs.extend(proof))
        return SolutionReason(bound, times, evidence or (), proofs, mappings)

    def _order(self, dataset: ReportDataset, evidence: Evidence) -> tuple[int, list[tuple[str, Triple]]]:
        """The sort key of solutions with equal rows: the height, then the triples."""
        used = list(_used(dataset, evidence))
        heights = [_graph(dataset, scope).height(triple) for scope, triple in used]
        return max(heights, default=0), [(str(scope), triple) for scope, triple in used]

    def _made(self, solutions: tuple[SolutionReason, ...]) -> Mapping[tuple[Label, Micros, int], UnitReason]:
        """The reasons of the events whose graphs are elements in the evidence of solutions."""
        found: dict[tuple[Label, Micros, int], UnitReason] = {}
        for element in used_elements(proof for each in solutions for proof in each.proofs.values()):
            if isinstance(element.stream, MadeGraphs):
                key = (element.stream.label, element.time, element.number)
                maker = None if key in found else self.recorder.firing_of_element(element)
                reason = None if maker is None else self.follow(maker)
                if reason is not None:
                    found[key] = reason
        return found


_STATUS: Final = {
    RelationToStream.RSTREAM: SolutionStatus.ALL,
    RelationToStream.ISTREAM: SolutionStatus.NEW,
    RelationToStream.DSTREAM: SolutionStatus.REMOVED,
}


def names_of(form: SelectForm | ConstructForm | AskForm) -> tuple[Variable, ...]:
    """The names of the terms of a row, as in the engine."""
    return ("answer",) if isinstance(form, AskForm) else tuple(form.query.projection)


def _rows(dataset: ReportDataset) -> Counter[SolutionRow]:
    """The bag of solutions at a report, as rows."""
    form = dataset.query.form
    solutions = AlgebraCompiler().compile(form.query).solutions(dataset.graph, EMPTY, EMPTY)
    if isinstance(form, AskForm):
        return Counter([(f'"{"true" if solutions else "false"}"^^<http://www.w3.org/2001/XMLSchema#boolean>',)])
    return Counter(tuple([solution.get(name) for name in form.query.projection]) for solution in solutions)


def _graph(dataset: ReportDataset, scope: ProofScope) -> ProvenGraph:
    match scope:
        case None:
            return dataset.default
        case str():
            return dataset.blocks[scope]
        case (window, time):
            return next(graph for at, graph in dataset.items[window] if at == time)
        case _:
            assert_never(scope)


def _used(dataset: ReportDataset, evidence: Evidence, scope: ProofScope = None) -> Iterator[tuple[ProofScope, Triple]]:
    """The triples of some evidence, each with its graph, including those of groups."""
    for item in evidence:
        match item:
            case UsedTriple(triple, _):
                yield scope, triple
            case UsedPath(_, _, _, triples):
                yield from ((scope, triple) for triple in triples)
            case SolutionGroup(_, _, members):
                for member in members:
                    yield from _used(dataset, member, scope)
            case UsedWindow(window, inner):
                yield from _used(dataset, inner, window)
            case UsedMapping(block, number):
                yield from (((each.window, each.time), each.triple) for each in dataset.mappings[block][number].used)
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
    """The elements of windows that are leaves of some proofs, each once."""
    found: dict[tuple[object, Micros, int], WindowElement] = {}
    for proof in parts_of_proofs(proofs):
        match proof:
            case StatedTriple(_, WindowElement() as element):
                found.setdefault((element.stream, element.time, element.number), element)
            case _:
                pass
    return list(found.values())
