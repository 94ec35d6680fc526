"""Explanation of a label of a LARS file without an event.

Idea: the file is replayed (`dotr.explanations.replay.firings`). For each rule that concludes the
reported atom, probe rules count the rows of each prefix of its body at every point
(`dotr.languages.lars.explanation.reasons`). The point at which the longest prefix has rows is
explained, by the next item. Rules for an atom that the file derives itself are explained in the
same way. Cost: for each rule, the models of all points once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dotr.engine.replay import CachedReplay, Replay
from dotr.evaluation.expressions import has_terms
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import LimitExceeded
from dotr.explanations.missing.stop_text import datalog_rules
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.explanations.replay.firings import FiringRecorder, UnitFiring
from dotr.explanations.text.narrative import WhyNot, sentences
from dotr.explanations.text.pattern_text import atom_text, slot_text
from dotr.explanations.text.reason_text import with_values
from dotr.explanations.text.tree import counted, first_of
from dotr.explanations.why_not.survey import Question
from dotr.languages.lars.closure.rows import fits, rows_of_atom
from dotr.languages.lars.explanation.reasons import BodyPart, with_parts, with_times
from dotr.languages.lars.explanation.records import LarsRecord
from dotr.languages.lars.model import (
    Always,
    EventAtom,
    LarsAtom,
    LarsFile,
    LarsItem,
    LarsLiteral,
    LarsNot,
    LarsReport,
    LarsRule,
    ReportKind,
    Since,
    Sometime,
    TimeWindow,
    may_share,
    predicate_of,
    slots_of_atom,
)
from dotr.model import dataclass
from dotr.model.algebra import Const, Expression, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem
from dotr.model.terms import Label, Term, Variable, is_iri
from dotr.model.time import Interval
from dotr.syntax.rendering import TermWriter, brief_text
from dotr.syntax.scan import one_line
from dotr.temporal.horizons.rules import FactRow, Point

_MOST_RULES: Final = 5
"""Maximum number of rules that are explained for one atom."""
_DEEPEST: Final = 3
"""Maximum depth of explanations of atoms that the file derives itself."""


@dataclass(frozen=True)
class _RuleReached:
    """The evaluation of a rule at the point at which the longest prefix of its body has rows.

    - `parts`, `counts`: the prefixes of the body, and the number of rows of each.
    - `row`: a row of the longest prefix with rows.
    - `whole`: the rows of the whole body.
    """

    point: Point
    parts: tuple[BodyPart, ...]
    counts: tuple[int, ...]
    row: Mapping[Variable, Term]
    whole: tuple[Mapping[Variable, Term], ...]

    @property
    def passed(self) -> int:
        """The number of leading parts that have rows."""
        return next((number for number, count in enumerate(self.counts) if not count), len(self.counts))


def why_no_point(replay: Replay, file: LarsFile, label: Label, question: Question) -> WhyNot:
    """The reason for which a file produced no event of a label.

    Args:
        replay: the program and its stream.
        file: a file of the program.
        label: the label of one of its REPORTs.
        question: the requested points, and the attributes of their events.

    >>> from dotr.commands.why.questions import open_replays
    >>> [replay] = open_replays("tests/explanations/temporal.yaml", "1")
    >>> [unit] = [each for each in replay.program.units if each.name == "temporal.lars"]
    >>> print(unit.why_not(replay, "Recent", Question()).lines()[0])
    Recent: 11 points evaluated, 5 events
    """
    return _PointInquiry(replay, file, label, question).answer()


class _PointInquiry:
    """Search for the answer to one question."""

    def __init__(self, replay: Replay, file: LarsFile, label: Label, question: Question) -> None:
        self._replay = CachedReplay(replay).replay
        self._file = file
        self._report = next(report for report in file.reports if report.label == label)
        self._question = question
        self._terms = TermWriter(replay.prefixes)
        self._record: LarsRecord

    def answer(self) -> WhyNot:
        """Run the replay, and build the answer."""
        label = self._report.label
        recorder = FiringRecorder.of(self._replay, [label])
        events = [each for firings in recorder.run() for each in firings if isinstance(each, UnitFiring) and self._is_requested(each)]
        found = recorder.record(label, LarsRecord)
        assert found is not None
        record = self._record = found
        points = [each.point for each in record.points if self._covers(each.point)]
        if events or record.first is None or not record.points:
            return self._answer(len(points), len(events), () if events else ("no instant came",))
        try:
            stops = (*self._stops(self._report.atom, _terms_of(self._report.atom, dict(self._question.where)), 0), *self._unknown())
        except LimitExceeded as error:
            stops = (f"a point goes over a limit: {error}",)
        return self._answer(len(points), 0, stops)

    def _answer(self, points: int, events: int, stops: tuple[str, ...]) -> WhyNot:
        """The answer, with the number of requested points that were evaluated.

        `stops`: lines with the item that stops each rule, or the reason for which a row is no
        event; lines below a rule are indented.
        """
        label = self._report.label
        head = f"{label}: {counted(points, 'point')} evaluated, {counted(events, 'event')}"
        return WhyNot.of(self._replay.case, label, events > 0, head, sentences(stops), points=points, events=events, stops=stops)

    # --- the question ---

    def _covers(self, point: Point) -> bool:
        """True for a point with a requested time."""
        first, last, length = self._question.first, self._question.last, self._file.resolution
        return (first is None or first <= point * length) and (last is None or (point - 1) * length < last)

    def _is_requested(self, event: UnitFiring) -> bool:
        is_covered = self._covers(event.time // self._file.resolution)
        return event.label == self._report.label and is_covered and has_terms(event.attributes, self._question.where)

    def _unknown(self) -> Iterator[str]:
        """A sentence on the first requested term that neither elements nor the background have."""
        terms = [term for _, term in self._question.where if is_iri(term)]
        vocabulary = StreamVocabulary(datalog_rules(self._replay.program), names=terms)
        for instant in self._replay.instants() if terms else ():
            for graph in instant.graphs:
                vocabulary.add(graph, instant.time)
        yield from filter(None, [vocabulary.unknown(terms, self._replay.program.knowledge.background, self._terms)])

    # --- rules ---

    def _stops(self, atom: LarsAtom, terms: Mapping[int, Term], depth: int) -> Iterator[str]:
        """Lines on the item that stops each rule for an atom; `terms`: terms by position of the
        atom."""
        rules = [(rule, bound) for rule in self._file.rules if (bound := _bound_by_head(rule, atom, terms)) is not None]
        if not rules:
            yield f"no rule concludes {self._atom_text(atom)}{self._with(terms, atom)}"
        for rule, bound in rules[:_MOST_RULES]:
            reached = self._reached(rule, bound)
            if reached is None:
                yield f"{rule.name}: no point is evaluated then"
                continue
            if reached.passed == len(reached.counts):
                yield f"{rule.name}: {self._not_new(reached)}" if depth == 0 else f"{rule.name}: {self._concluded(rule, reached)}"
                continue
            yield f"{rule.name}: {self._stop(reached)}"
            item = reached.parts[reached.passed].item
            yield from (f"  {line}" for line in self._further(rule, item, reached, depth))

    def _reached(self, rule: LarsRule, bound: Mapping[Variable, Term]) -> _RuleReached | None:
        """The evaluation of a rule at the point with the longest prefix; of several, at the
        latest."""
        file, parts = with_parts(self._file, rule)
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
            if best is None or found.passed >= best.passed:
                chosen = rows[parts[found.passed - 1].relation] if found.passed else []
                row = min(chosen, key=lambda each: sorted(each.items()), default={})
                best = _RuleReached(model.point, tuple(parts), counts, {**bound, **row}, tuple(rows[parts[-1].relation]))
        return best

    def _not_new(self, reached: _RuleReached) -> str:
        """The reason for which a row that holds is no event."""
        time = self._time(reached.point)
        if self._report.kind is ReportKind.ENDED:
            return f"it holds at {time}, and has not ended then: REPORT ENDED outputs what held at the point before and holds no more"
        if self._report.kind is ReportKind.NEW:
            return f"it holds at {time}, and held already at the point before: REPORT NEW outputs what begins to hold"
        return f"it holds at {time}, and its atom has no event"

    def _concluded(self, rule: LarsRule, reached: _RuleReached) -> str:
        """The points at which a rule that holds concludes its heads."""
        at = next((head.at for head in rule.heads if head.at is not None), None)
        if at is None:
            return f"it holds at {self._time(reached.point)}"
        times = sorted({self._terms.text(row[at]) for row in reached.whole if at in row})
        return f"at {self._time(reached.point)}, it holds for ?{at} = {first_of(times, _MOST_RULES)}"

    # --- texts ---

    def _stop(self, reached: _RuleReached) -> str:
        """The first item without a row, after the items that hold."""
        item = self._item_text(reached.parts[reached.passed].item)
        at = f"at {self._time(reached.point)}"
        if not reached.passed:
            return f"{at}, {item} never holds"
        passed = ", ".join(self._item_text(part.item) for part in reached.parts[: reached.passed])
        count = reached.counts[reached.passed - 1]
        return f"{at}, {passed} holds {'once' if count == 1 else f'{count:,} times'}; with {item}, never"

    def _further(self, rule: LarsRule, item: LarsItem, reached: _RuleReached, depth: int) -> Iterator[str]:
        """Remarks on the item that stops a rule."""
        match item:
            case FilterItem(condition):
                values: dict[Expression, Term | None] = {Var(name): term for name, term in reached.row.items()}
                yield f"{with_values(condition, values, self._terms)} is false, or errs"
            case Bind():
                yield "it errs, or the variable has another term"
            case LarsNot():
                given = ", ".join(f"?{name} = {self._terms.text(term)}" for name, term in reached.row.items())
                held = self._held(rule, item.literals, reached)
                yield f"{held} stands under NOT" if held else f"the atom under NOT holds{f' with {given}' if given else ''}"
            case LarsLiteral(reach=Since()) | LarsLiteral(reach=Always(TimeWindow())) if (
                nearest := self._nearest(rule, item, reached)
            ) is not None:
                yield self._broken(rule, item, nearest)
                if self._file.may_be_derived(item.atom) and depth < _DEEPEST:
                    yield from self._about(item.atom, reached, depth)
            case LarsLiteral():
                for atom in item.atoms:
                    yield from self._about(atom, reached, depth)

    def _about(self, atom: LarsAtom, reached: _RuleReached, depth: int) -> Iterator[str]:
        """Remarks on an atom missing from a window: its last time in the stream, or the rules for
        it."""
        file = self._file
        if file.is_background(atom):
            yield f"only the background is searched for {self._atom_text(atom)}"
            return
        if file.may_be_streamed(atom):
            yield self._last(atom, reached)
            yield from self._instead(atom, reached)
        if file.may_be_derived(atom) and depth < _DEEPEST:
            yield from self._stops(atom, _terms_of(atom, reached.row), depth + 1)

    # --- times of atoms ---

    def _times(self, rule: LarsRule, literals: Sequence[LarsLiteral], reached: _RuleReached) -> list[dict[Variable, Term]]:
        """The rows of literals at the reached point, with the time of each as a column."""
        file, part = with_times(self._file, rule, literals)
        model = self._record.line(file).at(reached.point)
        rows = [fact[1] for fact, _ in model.closure.facts() if fact[0] == part.relation and isinstance(fact[1], tuple)]
        return [part.bindings(row) for row in rows if part.agrees(row, reached.row)]

    def _held(self, rule: LarsRule, literals: Sequence[LarsLiteral], reached: _RuleReached) -> str:
        """The atoms of literals that hold, each with its latest time; empty if none is found."""
        shown: dict[Term, str] = {self._record.time_term(each.point): str(self._time(each.point)) for each in self._record.points}
        rows = self._times(rule, literals, reached)
        if not rows:
            return ""
        row = max(rows, key=lambda each: [list(shown).index(term) if term in shown else -1 for term in each.values()])
        texts = []
        for number, literal in enumerate(literals):
            at = row.get(str(number))
            time = str(self._time(reached.point)) if at is None else shown.get(at) or self._terms.text(at)
            texts.append(f"{self._named(literal.atom, {**reached.row, **row})} at {time}")
        return " and ".join(texts)

    def _nearest(self, rule: LarsRule, literal: LarsLiteral, reached: _RuleReached) -> _RuleReached | None:
        """The reached point with terms for all variables of ALWAYS or SINCE: of several, those that
        are at most points of the window; None where none is at any."""
        reach = literal.reach
        assert isinstance(reach, Since | Always)
        if all(name in reached.row for name in literal.variables):
            return reached
        atom = reach.other if isinstance(reach, Since) else literal.atom
        counts: Counter[tuple[tuple[Variable, Term], ...]] = Counter()
        for row in self._times(rule, [replace(literal, atom=atom, reach=Sometime(reach.window))], reached):
            counts[tuple(sorted((name, term) for name, term in row.items() if name != "0"))] += 1
        found = max(sorted(counts), key=lambda each: counts[each], default=())
        row = {**reached.row, **dict(found)}
        return replace(reached, row=row) if all(name in row for name in literal.variables) else None

    def _broken(self, rule: LarsRule, literal: LarsLiteral, reached: _RuleReached) -> str:
        """The point that lacks the atom of ALWAYS, or of SINCE after its second atom."""
        reach, length, first = literal.reach, self._file.resolution, self._record.first
        assert isinstance(reach, Since | Always)
        assert isinstance(reach.window, TimeWindow)
        assert first is not None
        least, greatest = reach.window.reach(length)
        start, end = max(reached.point - greatest, first), reached.point - least
        since = ""
        if isinstance(reach, Since):
            begun = self._points_of(rule, replace(literal, atom=reach.other, reach=Sometime(reach.window)), reached, start, end)
            if not begun:
                return f"{self._named(reach.other, reached.row)} is at no point of the window"
            since = f"{self._named(reach.other, reached.row)} was last at {self._time(max(begun))}, and "
            start, end = max(begun) + 1, reached.point
        window = TimeWindow(Interval((reached.point - end) * length, (reached.point - start) * length, True, True))
        has = self._points_of(rule, replace(literal, reach=Sometime(window)), reached, start, end)
        lacking = next((point for point in range(end, start - 1, -1) if point not in has), None)
        if lacking is None:
            return f"{since}the window has no point"
        return f"{since}{self._named(literal.atom, reached.row)} is not at {self._time(lacking)}"

    def _points_of(self, rule: LarsRule, literal: LarsLiteral, reached: _RuleReached, start: Point, end: Point) -> set[Point]:
        """The points of a range that have the atom of a literal."""
        times = {row.get("0") for row in self._times(rule, [literal], reached)}
        return {point for point in range(start, end + 1) if self._record.time_term(point) in times}

    def _named(self, atom: LarsAtom, row: Mapping[Variable, Term]) -> str:
        """An atom with the terms of its variables."""
        if isinstance(atom, TriplePattern):
            return atom_text(atom, self._terms, row)
        values = ", ".join(slot_text(slot, self._terms, row) for slot in slots_of_atom(atom))
        name = atom.label if isinstance(atom, EventAtom) else atom.relation
        return f"{name}({values})"

    def _last(self, atom: LarsAtom, reached: _RuleReached) -> str:
        """The last time, up to the point, at which the stream had an atom of the predicate."""
        if isinstance(atom, EventAtom):
            points = [each.atoms.events for each in self._record.points if each.point <= reached.point]
            row_of, fits_row = rows_of_atom(atom).row_of_event, self._fits(atom, reached)
            all_of_label = [(row_of(event), time) for events in points for event, time in events.get(atom.label, {}).items()]
            times = [time for row, time in all_of_label if row is not None and fits_row(row)]
            if times:
                return f"the last event {atom.label} before was at {format_time(max(times), self._replay.clock)}"
            given = ", ".join(
                f"{name} {self._terms.text(reached.row[slot.name])}"
                for name, slot in atom.attributes
                if isinstance(slot, Var) and slot.name in reached.row
            )
            return f"there is no event {atom.label}{given and f' with {given}'} before: {self._replay.why_not_command(atom.label)}"
        selects, until, is_named = rows_of_atom(atom).selects, reached.point, self._fits(atom, reached)
        here = (each.atoms.triples for each in self._record.points if each.point <= until)
        found = max((time for triples in here for triple, time in triples.items() if selects(triple) and is_named(triple)), default=None)
        if found is None:
            return f"no element brings {self._named(atom, reached.row)} by then"
        return f"the last such triple came at {format_time(found, self._replay.clock)}"

    def _instead(self, atom: LarsAtom, reached: _RuleReached) -> Iterator[str]:
        """The last triple, up to the point, that has a missing triple's subject and predicate."""
        if not isinstance(atom, TriplePattern) or not self._question.where:
            return
        subject, predicate = (
            slot.term if isinstance(slot, Const) else reached.row.get(slot.name) for slot in (atom.subject, atom.predicate)
        )
        here = [each.atoms.triples for each in self._record.points if each.point <= reached.point]
        is_named = self._fits(atom, reached)
        of_subject = [(time, triple) for triples in here for triple, time in triples.items() if triple[:2] == (subject, predicate)]
        if of_subject and not any(is_named(triple) for _, triple in of_subject):
            time, triple = max(of_subject)
            yield f"{self._terms.triple(triple)} is there instead, at {format_time(time, self._replay.clock)}"

    def _fits(self, atom: LarsAtom, reached: _RuleReached) -> Callable[[FactRow], bool]:
        """The test of a row against the terms of an atom, those of the reached row among them."""
        row = reached.row
        slots = tuple(Const(row[each.name]) if isinstance(each, Var) and each.name in row else each for each in slots_of_atom(atom))
        return fits(slots) or (lambda _: True)

    def _item_text(self, item: LarsItem) -> str:
        match item:
            case LarsLiteral() | LarsNot():
                return one_line(item.span)
            case FilterItem(condition):
                return f"FILTER({brief_text(condition, self._terms.prefixes)})"
            case Bind(expression, variable):
                return f"BIND({brief_text(expression, self._terms.prefixes)} AS ?{variable})"

    def _atom_text(self, atom: LarsAtom) -> str:
        """The text of an atom in the file."""
        for rule in self._file.rules:
            for literal in (*rule.literals, *rule.negated):
                if literal.atom == atom:
                    return one_line(literal.atom_span)
        for report in self._file.reports:
            if report.atom == atom:
                return self._report_text(report)
        return str(predicate_of(atom))

    def _report_text(self, report: LarsReport) -> str:
        text = one_line(report.span).rstrip(" .")
        words = text.split(" AS ")[0].split()
        return " ".join(word for word in words if word not in ("REPORT", *(kind.value for kind in ReportKind)))

    def _with(self, terms: Mapping[int, Term], atom: LarsAtom) -> str:
        slots = slots_of_atom(atom)
        bound = [(slot.name, terms[place]) for place, slot in enumerate(slots) if isinstance(slot, Var) and place in terms]
        given = [f"?{name} = {self._terms.text(term)}" for name, term in bound]
        return f" with {', '.join(given)}" if given else ""

    def _time(self, point: Point) -> str | int:
        return format_time(point * self._file.resolution, self._replay.clock)


def _terms_of(atom: LarsAtom, row: Mapping[Variable, Term]) -> dict[int, Term]:
    """The terms of an atom under bindings of its variables, by position."""
    terms = [slot.term if isinstance(slot, Const) else row.get(slot.name) for slot in slots_of_atom(atom)]
    return {place: term for place, term in enumerate(terms) if term is not None}


def _bound_by_head(rule: LarsRule, atom: LarsAtom, terms: Mapping[int, Term]) -> dict[Variable, Term] | None:
    """The terms of a rule's variables that unify a head with an atom; None: no head unifies."""
    for head in rule.heads:
        slots = slots_of_atom(head.atom)
        if not may_share(predicate_of(head.atom), predicate_of(atom)) or len(slots) != len(slots_of_atom(atom)):
            continue
        found: dict[Variable, Term] = {}
        for place, term in terms.items():
            slot = slots[place]
            if (slot.term if isinstance(slot, Const) else found.setdefault(slot.name, term)) != term:
                break
        else:
            return found
    return None
