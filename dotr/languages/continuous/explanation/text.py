"""Text of events of continuous queries: a tree of reasons, down to elements of windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias, assert_never

from dotr.engine.replay import Replay, WindowElement
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.event_reasons import UnitReasonFinder
from dotr.explanations.evidence.proofs import DerivedTriple, StatedTriple, TripleProof, parts_of_proofs, prove_solution
from dotr.explanations.evidence.reasons import SourceReason, UnitReason
from dotr.explanations.replay.firings import UnitFiring
from dotr.explanations.text.tree import JsonValue, ReasonKind, WhyTree, counted
from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.evidence import Evidence, SolutionGroup, UsedMapping, UsedPath, UsedTriple, UsedWindow
from dotr.instant.queries.operators import EMPTY
from dotr.languages.continuous.evaluation.match_blocks import EventMapping
from dotr.languages.continuous.evaluation.report import SolutionRow
from dotr.languages.continuous.evaluation.run import row_graphs
from dotr.languages.continuous.explanation.dataset import ProvenGraph, ReportDataset
from dotr.languages.continuous.explanation.records import QueryRecord, RecordedReport, WindowElements
from dotr.languages.continuous.model import (
    AskForm,
    ConstructForm,
    ElementsExtent,
    LandmarkExtent,
    NowExtent,
    RangeExtent,
    RelationToStream,
    SelectForm,
    TriplesExtent,
)
from dotr.languages.continuous.windows.extents import landmark_at, range_at
from dotr.model import dataclass
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.model.units import MadeGraphs
from dotr.syntax.rendering import TermWriter
from dotr.temporal.templates import compile_template

# Reasons of an event of a continuous query: its solutions at a report, with their evidence.
#
# Idea: the dataset of the report is restored (`dotr.languages.continuous.explanation.dataset`). Each
# solution of the event is proved like a fact of a rule's query
# (`dotr.explanations.evidence.proofs`), and each triple of its evidence is proved in the graph
# of its window, down to elements. An element that is the graph of another unit's event is followed to
# the reasons of that event.


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


_MOST_SHOWN: Final = 5
"""Maximum number of solutions of a CONSTRUCT in the text."""
_MAX_LISTED: Final = 3
"""Maximum number of elements that are listed for a removed solution."""


class ReportWriter(UnitEventWriter):
    """Writer of events of continuous queries as trees; it implements `ScopedEvidence`."""

    def __init__(self, context: WriterContext) -> None:
        super().__init__(context)
        self._shown: set[tuple[Label, Micros, int]] = set()
        self._reason: ReportReason | None = None
        self._solution: SolutionReason | None = None
        self._scope: ProofScope = None

    # --- the event ---

    def tree(self, reason: UnitReason) -> WhyTree:
        """The reasons of an event."""
        assert isinstance(reason, ReportReason)
        firing, query = reason.firing, reason.dataset.query
        outer = self._reason, self._solution, self._scope
        self._reason = reason
        form = query.form
        text = self._headline(firing)
        solutions = [self._written(each) for each in reason.solutions]
        children: tuple[WhyTree, ...] = ()
        details: tuple[WhyTree, ...] = ()
        if isinstance(form, ConstructForm):
            shown = f", {_MOST_SHOWN} shown" if len(solutions) > _MOST_SHOWN else ""
            text += f"; {counted(reason.total, 'solution')}{shown}"
            nodes = [
                WhyTree(ReasonKind.SOLUTION, f"solution {self._row(each)}".rstrip(), children=parts)
                for each, parts in zip(reason.solutions, solutions, strict=True)
            ]
            children, details = tuple(nodes[:_MOST_SHOWN]), tuple(nodes[_MOST_SHOWN:MOST_SOLUTIONS])
        elif isinstance(form, AskForm) and not any(each.evidence for each in reason.solutions):
            children = tuple(self._without(reason.dataset))
        else:
            children = solutions[0]
        children = (*self._over(reason.dataset, reason.solutions), *children)
        fields: dict[str, JsonValue] = {
            "event": firing.label,
            "rule": firing.label,
            "time": self._time(firing.time),
            "name": firing.names[0][1:-1] if firing.names else None,
            "attributes": {name: self._reasons.terms.text(term) for name, term in firing.attributes.items()},
        }
        tree = WhyTree(ReasonKind.EVENT, text, query.label_span.file_line, (*self._relation(reason, children),), details, fields)
        self._reason, self._solution, self._scope = outer
        return tree

    def name_blanks(self, reason: UnitReason) -> None:
        """Name blank nodes after the variables of the query."""
        assert isinstance(reason, ReportReason)
        for each in reason.solutions:
            for name, term in each.row.items():
                self._reasons.terms.name_blank(term, name)
            self._name_evidence(each.evidence)

    def _name_evidence(self, evidence: Evidence) -> None:
        self._reasons.name_blanks(evidence)
        for item in evidence:
            if isinstance(item, UsedWindow):
                self._name_evidence(item.evidence)

    def _relation(self, reason: ReportReason, parts: tuple[WhyTree, ...]) -> Iterator[WhyTree]:
        """The reason for which the report outputs its solutions, with their nodes."""
        before = "" if reason.before is None else f"the report before, at {self._time(reason.before)}"
        now, then = reason.counts
        match reason.status:
            case SolutionStatus.ALL:
                yield from parts
            case SolutionStatus.NEW:
                yield from parts
                text = f"new: not among the solutions of {before}" if before else "new: this is the first report"
                if then:
                    text = f"new: {_times(now)} now, {_times(then)} at {before}"
                yield WhyTree(ReasonKind.REPORT, text)
            case SolutionStatus.REMOVED:
                yield WhyTree(ReasonKind.REPORT, f"a solution of {before}", children=parts)
                yield WhyTree(ReasonKind.REPORT, f"gone at {self._time(reason.firing.time)}: {self._removal(reason)}")
            case _:
                assert_never(reason.status)

    def _removal(self, reason: ReportReason) -> str:
        """The elements whose removal ended a solution, or else the arrived elements that ended
        it."""
        now = {_key(each): each for content in reason.now.contents for each in content}
        then = {_key(each) for content in reason.dataset.contents for each in content}
        used = used_elements(proof for each in reason.solutions for proof in each.proofs.values())
        removed = [each for each in used if _key(each) not in now]
        if removed:
            return f"{_listed(removed)} {'is' if len(removed) == 1 else 'are'} no longer in {self._windows(reason.now)}"
        arrived = [each for key, each in now.items() if key not in then]
        return f"{_listed(arrived)} came" if arrived else "it is no solution any more"

    def _windows(self, dataset: ReportDataset) -> str:
        return ", ".join(self._window(dataset, number) for number in range(len(dataset.query.windows)))

    def _without(self, dataset: ReportDataset) -> Iterator[WhyTree]:
        """The windows of a dataset without a solution."""
        for number in range(len(dataset.query.windows)):
            content = counted(len(dataset.contents[number]), "element")
            yield WhyTree(ReasonKind.WINDOW, f"no solution over {self._window(dataset, number)}: {content}")

    def _over(self, dataset: ReportDataset, solutions: Sequence[SolutionReason]) -> Iterator[WhyTree]:
        """The windows that are no node of a solution: default windows, and those of groups."""
        grouped = any(isinstance(item, SolutionGroup) for each in solutions for item in each.evidence)
        for number, window in enumerate(dataset.query.windows):
            if solutions and any(each.evidence for each in solutions) and (grouped or window.name is None):
                content = counted(len(dataset.contents[number]), "element")
                yield WhyTree(ReasonKind.WINDOW, f"over {self._window(dataset, number)}: {content}")

    # --- solutions ---

    def _written(self, solution: SolutionReason) -> tuple[WhyTree, ...]:
        self._solution, self._scope = solution, None
        outer, self._reasons.scoped = self._reasons.scoped, self
        nodes = self._evidence(solution.evidence)
        self._reasons.scoped = outer
        return nodes

    def _evidence(self, evidence: Evidence) -> tuple[WhyTree, ...]:
        assert self._solution is not None
        found = {triple: proof for (scope, triple), proof in self._solution.proofs.items() if scope == self._scope}
        return tuple(self._reasons.evidence(evidence, found))

    def node(self, item: UsedWindow | UsedMapping) -> WhyTree:
        """The evidence of a solution in a window, or in a MATCH."""
        assert self._reason is not None
        assert self._solution is not None
        match item:
            case UsedWindow(window, evidence):
                outer, self._scope = self._scope, window
                children = self._evidence(evidence)
                self._scope = outer
                dataset = self._reason.dataset
                number = next(number for number, each in enumerate(dataset.query.windows) if each.name == window)
                content = counted(len(dataset.contents[number]), "element")
                fields: dict[str, JsonValue] = {"window": self._reasons.terms.text(window), "elements": len(dataset.contents[number])}
                return WhyTree(ReasonKind.WINDOW, f"in {self._window(dataset, number)}: {content}", "", children, fields=fields)
            case UsedMapping(block, number):
                return self._mapping(self._solution.mappings[block, number])
            case _:
                assert_never(item)

    def _mapping(self, mapping: EventMapping) -> WhyTree:
        """A mapping of a MATCH: the items that its EVENTs match, in the order of time."""
        assert self._solution is not None
        items: dict[tuple[Term, Micros], list[Triple]] = {}
        for each in sorted(mapping.used, key=lambda each: each.time):
            items.setdefault((each.window, each.time), []).append(each.triple)
        nodes = []
        for (window, time), triples in items.items():
            proofs = [self._solution.proofs[(window, time), triple] for triple in dict.fromkeys(triples)]
            text = f"EVENT {self._reasons.terms.text(window)} at {self._time(time)}"
            nodes.append(
                WhyTree(ReasonKind.ITEM, text, children=tuple(map(self._reasons.triple, proofs)), fields={"time": self._time(time)})
            )
        first, last = self._time(mapping.first), self._time(mapping.last)
        return WhyTree(ReasonKind.MATCH, f"MATCH at {first}" if first == last else f"MATCH from {first} to {last}", children=tuple(nodes))

    def member(self, evidence: Evidence) -> WhyTree:
        """A member of a group: its triples with their places, and the proofs of derived triples."""
        assert self._solution is not None
        used = list(dict.fromkeys(self._members(evidence, self._scope)))
        proofs = [proof for key in used if (proof := self._solution.proofs.get(key)) is not None]
        stated = [proof.place for proof in proofs if isinstance(proof, StatedTriple)]
        made = [each for each in dict.fromkeys(stated) if isinstance(each, WindowElement) and each.place is None]
        below = [self._reasons.triple(proof) for proof in proofs if isinstance(proof, DerivedTriple)]
        below += [node for each in made for node in self.made(each)]
        text = " . ".join(self._reasons.terms.triple(triple) for _, triple in used)
        return WhyTree(ReasonKind.MEMBER, text, "; ".join(dict.fromkeys(map(str, stated))), tuple(below))

    def _members(self, evidence: Evidence, scope: ProofScope) -> Iterator[tuple[ProofScope, Triple]]:
        assert self._solution is not None
        for item in evidence:
            match item:
                case UsedTriple(triple, _):
                    yield scope, triple
                case UsedPath(_, _, _, triples):
                    yield from ((scope, triple) for triple in triples)
                case UsedWindow(window, inner):
                    yield from self._members(inner, window)
                case UsedMapping(block, number):
                    for each in self._solution.mappings[block, number].used:
                        yield (each.window, each.time), each.triple
                case _:
                    pass

    def made(self, element: WindowElement) -> tuple[WhyTree, ...]:
        """The reason of the event whose graph is an element; the tree has it only once."""
        if not isinstance(element.stream, MadeGraphs) or self._reason is None:
            return ()
        key = (element.stream.label, element.time, element.number)
        reason = self._reason.made.get(key)
        if reason is None:
            return ()
        if key in self._shown:
            return (WhyTree(ReasonKind.EVENT, f"{element.stream.label} at {element.shown}, as above"),)
        self._shown.add(key)
        return (self._of(reason),)

    # --- parts of the text ---

    def _window(self, dataset: ReportDataset, number: int) -> str:
        return window_at(dataset, number, self._replay, self._reasons.terms)

    def _row(self, solution: SolutionReason) -> str:
        times = f" ({_times(solution.multiplicity)})" if solution.multiplicity > 1 else ""
        return self._reasons.attributes({name: term for name, term in solution.row.items() if name[0] not in "._"}) + times


def _key(element: WindowElement) -> tuple[object, Micros, int]:
    return element.stream, element.time, element.number


def _listed(elements: Sequence[WindowElement]) -> str:
    """`data/in.ndjson:1, at 1; data/in.ndjson:2, at 2`."""
    texts = sorted(map(str, elements))
    return "; ".join([*texts[:_MAX_LISTED], *([f"{len(texts) - _MAX_LISTED} more"] if len(texts) > _MAX_LISTED else [])])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


# Text of the windows of a report.


def window_at(dataset: ReportDataset, number: int, replay: Replay, terms: TermWriter) -> str:
    """A window of a query with the times of its content at a report: `<w> (0, 4]`."""
    window = dataset.query.windows[number]
    name = "the default window" if window.name is None else terms.text(window.name)
    return f"{name} {_extent_at(dataset, number, replay)}"


def _extent_at(dataset: ReportDataset, number: int, replay: Replay) -> str:
    extent, origin, time, clock = dataset.query.windows[number].extent, replay.program.spec.origin, dataset.report.time, replay.clock
    match extent:
        case RangeExtent():
            low, high = range_at(extent, origin, time)
            return f"({format_time(low, clock)}, {format_time(high, clock)}]"
        case LandmarkExtent():
            begin = landmark_at(extent, origin, time)
            return f"({'…' if begin is None else format_time(begin, clock)}, {format_time(time, clock)}]"
        case ElementsExtent(count, _):
            return f"ELEMENTS {count}"
        case TriplesExtent(count, _):
            return f"TRIPLES {count}"
        case NowExtent():
            return f"at {format_time(time, clock)}"
        case _:
            assert_never(extent)
