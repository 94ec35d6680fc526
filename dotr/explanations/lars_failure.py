"""Answer to the question why a LARS file made no event of a label.

Idea: the file is replayed (`dotr.explanations.firings`), and the rules that conclude the reported
atom are taken apart: further rules, one for each part of a body, tell at each point how many rows
it has (`dotr.explanations.lars_probes`). The point at which a rule comes furthest is explained: the
item with which nothing is left. A conclusion that a file makes itself is taken apart in the same
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dotr.explanations.conditions import truth_in
from dotr.explanations.firings import FiringRecorder, UnitFiring
from dotr.explanations.lars_probes import BodyPart, with_parts
from dotr.explanations.lars_records import LarsRecord
from dotr.explanations.reason_text import with_values
from dotr.explanations.remembered_replay import RememberedReplay
from dotr.explanations.rendering import brief_text
from dotr.explanations.replay import Replay
from dotr.explanations.term_writer import TermWriter
from dotr.explanations.why_not import Question, counted
from dotr.expressions.times import format_time
from dotr.horizons.lars_rows import rows_of_atom
from dotr.horizons.rules import Point
from dotr.joins.limits import LimitExceeded
from dotr.layout.lars_units import LarsUnit
from dotr.model.algebra import Call, Const, Expression, Var
from dotr.model.datalog import Bind, FilterItem
from dotr.model.lars import (
    EventAtom,
    LarsAtom,
    LarsItem,
    LarsLiteral,
    LarsNot,
    LarsReport,
    LarsRule,
    ReportKind,
    may_share,
    predicate_of,
    slots_of_atom,
)
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros

_MOST_RULES: Final = 5
"""Number of rules that are taken apart for one label."""
_DEEPEST: Final = 3
"""Number of conclusions of the file itself that are followed in each other."""


@dataclass(frozen=True)
class PointWhyNot:
    """The answer for one replay.

    Attributes:
        case: the case of a rule test; empty otherwise.
        rule: the label.
        points: the number of points evaluated within what was asked; `events`: of events.
        stops: what stops each rule, or why a row makes no event: lines, those below a rule
            indented.
    """

    case: str
    rule: Label
    points: int
    events: int
    stops: tuple[str, ...] = ()

    @property
    def fired(self) -> bool:
        """True if there was an event within what was asked."""
        return self.events > 0

    def lines(self) -> list[str]:
        """The answer as lines of text: the counts first."""
        head = f"{self.rule}: {counted(self.points, 'point')} evaluated, {counted(self.events, 'event')}"
        return [head, *(f"  {line}" for line in self.stops)]

    def to_json(self) -> dict[str, object]:
        """The answer as a JSON object."""
        return {
            "rule": self.rule,
            "case": self.case or None,
            "fired": self.fired,
            "points": self.points,
            "events": self.events,
            "stops": list(self.stops),
        }


@dataclass(frozen=True)
class _RuleReached:
    """A rule at the point at which it came furthest: the number of rows of each part of its body, and
    a row of the last part that has one.
    """

    point: Point
    parts: tuple[BodyPart, ...]
    counts: tuple[int, ...]
    row: Mapping[Variable, Term]
    whole: tuple[Mapping[Variable, Term], ...]

    @property
    def far(self) -> int:
        """The number of parts that have rows."""
        return next((number for number, count in enumerate(self.counts) if not count), len(self.counts))


def why_no_point(replay: Replay, unit: LarsUnit, label: Label, question: Question | None = None) -> PointWhyNot:
    """The reason why a file made no event of a label.

    Args:
        replay: the program and its stream.
        unit: a file of the program.
        label: the label of one of its REPORTs.
        question: the points asked about, and the attributes of their events; None: all.

    >>> from dotr.workbench.replays import open_replays
    >>> [replay] = open_replays("tests/explanations/temporal.yaml", "1")
    >>> [unit] = [each for each in replay.program.units if isinstance(each, LarsUnit)]
    >>> print(why_no_point(replay, unit, "Recent").lines()[0])
    Recent: 12 points evaluated, 5 events
    """
    return _PointInquiry(replay, unit, label, question or Question()).answer()


class _PointInquiry:
    """The parts of one answer."""

    def __init__(self, replay: Replay, unit: LarsUnit, label: Label, question: Question) -> None:
        self._replay = RememberedReplay(replay).replay
        self._unit = unit
        self._report = next(report for report in unit.file.reports if report.label == label)
        self._question = question
        self._terms = TermWriter(replay.prefixes)
        self._record: LarsRecord

    def answer(self) -> PointWhyNot:
        """Replay, and put the answer together."""
        label = self._report.label
        recorder = FiringRecorder.of(self._replay, [label])
        events = [each for firings in recorder.run() for each in firings if isinstance(each, UnitFiring) and self._is_asked(each)]
        record = self._record = recorder.lars[self._unit.name]
        points = [each.point for each in record.points if self._covers(each.point)]
        if events or record.first is None or not record.points:
            return PointWhyNot(self._replay.case, label, len(points), len(events), () if events else ("no instant came",))
        try:
            stops = tuple(self._stops(self._report.atom, self._asked(self._report.atom), 0))
        except LimitExceeded as error:
            stops = (f"a point goes over a limit: {error}",)
        return PointWhyNot(self._replay.case, label, len(points), 0, stops)

    # --- what is asked ---

    def _covers(self, point: Point) -> bool:
        """True for a point whose times are asked about."""
        first, last, length = self._question.first, self._question.last, self._record_length
        return (first is None or first <= point * length) and (last is None or (point - 1) * length < last)

    @property
    def _record_length(self) -> Micros:
        return self._unit.file.resolution

    def _is_asked(self, event: UnitFiring) -> bool:
        def value(part: object) -> Term | None:
            return event.attributes.get(part.name) if isinstance(part, Var) else None

        asked = (Call("=", (Var(name), Const(term))) for name, term in self._question.where)
        is_covered = self._covers(event.time // self._record_length)
        return event.label == self._report.label and is_covered and all(truth_in(each, value) is True for each in asked)

    def _asked(self, atom: LarsAtom) -> dict[int, Term]:
        """The terms asked about, by their places in the reported atom."""
        where = dict(self._question.where)
        slots = enumerate(slots_of_atom(atom))
        return {
            place: slot.term if isinstance(slot, Const) else where[slot.name]
            for place, slot in slots
            if isinstance(slot, Const) or slot.name in where
        }

    # --- rules ---

    def _stops(self, atom: LarsAtom, asked: Mapping[int, Term], depth: int) -> Iterator[str]:
        """The reasons that stop each rule that concludes an atom; `asked`: terms at places of the atom."""
        rules = [(rule, bound) for rule in self._unit.file.rules if (bound := _bound_by_head(rule, atom, asked)) is not None]
        if not rules:
            yield f"no rule concludes {self._atom_text(atom)}{self._with(asked, atom)}"
        for rule, bound in rules[:_MOST_RULES]:
            reached = self._reached(rule, bound)
            if reached is None:
                yield f"{rule.name}: no point is evaluated then"
                continue
            if reached.far == len(reached.counts):
                yield f"{rule.name}: {self._not_new(reached)}" if depth == 0 else f"{rule.name}: {self._concluded(rule, reached)}"
                continue
            yield f"{rule.name}: {self._stop(reached)}"
            item = reached.parts[reached.far].item
            yield from (f"  {line}" for line in self._further(item, reached, depth))

    def _reached(self, rule: LarsRule, bound: Mapping[Variable, Term]) -> _RuleReached | None:
        """The latest point at which a rule comes furthest."""
        file, parts = with_parts(self._unit.file, rule)
        last = self._record.points[-1].point
        best: _RuleReached | None = None
        for model in self._record.line(file).every(last):
            assert model.point is not None
            if not self._covers(model.point):
                continue
            rows: dict[str, list[Mapping[Variable, Term]]] = {part.relation: [] for part in parts}
            names = {part.relation: part for part in parts}
            for fact, _ in model.closure.facts():
                part = names.get(fact[0])
                if part is not None and isinstance(fact[1], tuple) and part.agrees(fact[1], bound):
                    rows[part.relation].append(part.bindings(fact[1]))
            counts = tuple(len(rows[part.relation]) for part in parts)
            found = _RuleReached(model.point, tuple(parts), counts, {}, ())
            if best is None or found.far >= best.far:
                chosen = rows[parts[found.far - 1].relation] if found.far else []
                row = min(chosen, key=lambda each: sorted(each.items()), default={})
                best = _RuleReached(model.point, tuple(parts), counts, row, tuple(rows[parts[-1].relation]))
        return best

    def _not_new(self, reached: _RuleReached) -> str:
        """The reason why a row that holds makes no event."""
        time = self._time(reached.point)
        if self._report.kind is ReportKind.ENDED:
            return f"it holds at {time}, and has not ended then: REPORT ENDED tells what held at the point before"
        if self._report.kind is ReportKind.NEW:
            return f"it holds at {time}, and held already at the point before: REPORT NEW tells what begins"
        return f"it holds at {time}, and its atom has no event"

    def _concluded(self, rule: LarsRule, reached: _RuleReached) -> str:
        """The points to which a rule that holds puts its conclusions."""
        at = next((head.at for head in rule.heads if head.at is not None), None)
        if at is None:
            return f"it holds at {self._time(reached.point)}"
        times = sorted({self._terms.text(row[at]) for row in reached.whole if at in row})
        shown = ", ".join([*times[:_MOST_RULES], *(["…"] if len(times) > _MOST_RULES else [])])
        return f"at {self._time(reached.point)}, it holds for ?{at} = {shown}"

    # --- texts ---

    def _stop(self, reached: _RuleReached) -> str:
        """The item with which nothing is left, behind those that hold."""
        item = self._item_text(reached.parts[reached.far].item)
        at = f"at {self._time(reached.point)}"
        if not reached.far:
            return f"{at}, {item} never holds"
        passed = ", ".join(self._item_text(part.item) for part in reached.parts[: reached.far])
        count = reached.counts[reached.far - 1]
        return f"{at}, {passed} holds {'once' if count == 1 else f'{count:,} times'}; with {item}, never"

    def _further(self, item: LarsItem, reached: _RuleReached, depth: int) -> Iterator[str]:
        """Remarks on the item that stops a rule."""
        match item:
            case FilterItem(condition):
                values: dict[Expression, Term | None] = {Var(name): term for name, term in reached.row.items()}
                yield f"{with_values(condition, values, self._terms)} is false, or errs"
            case Bind():
                yield "it errs, or the variable has another term"
            case LarsNot():
                given = ", ".join(f"?{name} = {self._terms.text(term)}" for name, term in reached.row.items())
                yield f"what stands under NOT holds{f' with {given}' if given else ''}"
            case LarsLiteral():
                for atom in item.atoms:
                    yield from self._about(atom, reached, depth)

    def _about(self, atom: LarsAtom, reached: _RuleReached, depth: int) -> Iterator[str]:
        """Remarks on an atom that a window lacks: when the stream had one, or the rules for it."""
        file = self._unit.file
        if file.is_background(atom):
            yield f"the background is asked alone for {self._atom_text(atom)}"
            return
        if file.may_be_streamed(atom):
            yield self._last(atom, reached)
        if file.may_be_derived(atom) and depth < _DEEPEST:
            asked = {
                place: slot.term if isinstance(slot, Const) else reached.row[slot.name]
                for place, slot in enumerate(slots_of_atom(atom))
                if isinstance(slot, Const) or slot.name in reached.row
            }
            yield from self._stops(atom, asked, depth + 1)

    def _last(self, atom: LarsAtom, reached: _RuleReached) -> str:
        """The last time, up to a point, at which the stream had an atom of a predicate."""
        if isinstance(atom, EventAtom):
            points = [each.atoms.events for each in self._record.points if each.point <= reached.point]
            times = [time for events in points for time in events.get(atom.label, {}).values()]
            if times:
                return f"the last event {atom.label} before was at {format_time(max(times), self._replay.clock)}"
            return f"there is no event {atom.label} before: {self._replay.why_not_command(atom.label)}"
        selects, until = rows_of_atom(atom).selects, reached.point
        here = (each.atoms.triples for each in self._record.points if each.point <= until)
        found = max((time for triples in here for triple, time in triples.items() if selects(triple)), default=None)
        if found is None:
            return f"no element brings {self._atom_text(atom)} by then"
        return f"the last such triple came at {format_time(found, self._replay.clock)}"

    def _item_text(self, item: LarsItem) -> str:
        match item:
            case LarsLiteral() | LarsNot():
                return " ".join(item.span.text.split())
            case FilterItem(condition):
                return f"FILTER({brief_text(condition, self._terms.prefixes)})"
            case Bind(expression, variable):
                return f"BIND({brief_text(expression, self._terms.prefixes)} AS ?{variable})"

    def _atom_text(self, atom: LarsAtom) -> str:
        """An atom as the file has it."""
        for rule in self._unit.file.rules:
            for literal in (*rule.literals, *rule.negated):
                if literal.atom == atom:
                    return " ".join(literal.atom_span.text.split())
        for report in self._unit.file.reports:
            if report.atom == atom:
                return self._report_text(report)
        return str(predicate_of(atom))

    def _report_text(self, report: LarsReport) -> str:
        text = " ".join(report.span.text.split()).rstrip(" .")
        words = text.split(" AS ")[0].split()
        return " ".join(word for word in words if word not in ("REPORT", *(kind.value for kind in ReportKind)))

    def _with(self, asked: Mapping[int, Term], atom: LarsAtom) -> str:
        slots = slots_of_atom(atom)
        bound = [(slot.name, asked[place]) for place, slot in enumerate(slots) if isinstance(slot, Var) and place in asked]
        given = [f"?{name} = {self._terms.text(term)}" for name, term in bound]
        return f" with {', '.join(given)}" if given else ""

    def _time(self, point: Point) -> str | int:
        return format_time(point * self._record_length, self._replay.clock)


def _bound_by_head(rule: LarsRule, atom: LarsAtom, asked: Mapping[int, Term]) -> dict[Variable, Term] | None:
    """The terms of a rule's variables with which a head gives an atom; None: it never does."""
    for head in rule.heads:
        slots = slots_of_atom(head.atom)
        if not may_share(predicate_of(head.atom), predicate_of(atom)) or len(slots) != len(slots_of_atom(atom)):
            continue
        found: dict[Variable, Term] = {}
        for place, term in asked.items():
            slot = slots[place]
            if (slot.term if isinstance(slot, Const) else found.setdefault(slot.name, term)) != term:
                break
        else:
            return found
    return None
