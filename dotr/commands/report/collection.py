"""Content of a report, found in one pass over a replay.

Memory: bounded by the bins of the timeline, the events that are kept, and the state of the rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Final, Generic, TypeVar

from dotr.commands.report.data import InputSummary, Lane, LaneKind, RejectedExample, RejectedSummary, ReportedEvent, RuleSummary
from dotr.engine.driver import ClosedInstant, Engine, Rejection
from dotr.engine.replay import InputProgress, RejectedElement, Replay, ReplayedInstant
from dotr.engine.stream_terms import stream_terms
from dotr.model import dataclass
from dotr.model.stream import DeadLetter, Element, Firing, Reason, output_order
from dotr.model.terms import Label, Prefixes, Term, Triple
from dotr.model.time import Micros
from dotr.runtimes.monitoring.rule_summary import rule_lines
from dotr.runtimes.monitoring.totals import Totals
from dotr.syntax.rendering import TermWriter, step_names, term_text
from dotr.temporal.matching.rule_counts import RuleCounts

BINS: Final = 100_000
"""Greatest number of bins of the timeline."""
EVENTS: Final = 50_000
"""Number of events that a report shows one by one."""
_COUNTED: Final = 200
"""Number of rules up to which bindings are counted after each clause, which needs a matcher per
rule."""
_EXAMPLES: Final = 5
"""Number of dead letters of a reason that a report shows."""
_LONGEST_TEXT: Final = 400
"""Number of characters after which the text of a dead letter is cut."""
_FRESH: Final = "<urn:dotr:"
"""The prefix of fresh names."""


@dataclass(frozen=True, slots=True)
class Collected:
    """Result of a pass over a replay: totals, the timeline, events, and rows of tables."""

    totals: Totals
    first: Micros | None
    last: Micros | None
    bin_width: Micros
    lanes: tuple[Lane, ...]
    firings: Sequence[Firing]
    rules: tuple[RuleSummary, ...]
    rejected: tuple[RejectedSummary, ...]
    inputs: tuple[InputSummary, ...]


def collect(replay: Replay, input_of: Mapping[str, str], *, events: int = EVENTS, bins: int = BINS) -> Collected:
    """The content of a report on a replay.

    Args:
        replay: the program and its stream.
        input_of: the name of the input of each file; another file is an input by itself.
        events: number of events that are kept.
        bins: greatest number of bins of the timeline.
    """
    return _Collector(replay, input_of, events, bins).collected()


class _Collector:
    def __init__(self, replay: Replay, input_of: Mapping[str, str], events: int, bins: int) -> None:
        self._replay = replay
        self._program = replay.program
        self._input_of = input_of
        self._bins: TimeBins[tuple[LaneKind, str]] = TimeBins(bins)
        self._kept = KeptEvents(events)
        self._terms = stream_terms(self._program)
        self._labels: dict[int, str] = {}
        self._elements = self._instants = self._facts = self._events = self._dropped = self._inconsistent = 0
        self._spans: dict[tuple[LaneKind, str], tuple[int, Micros, Micros]] = {}
        self._files: dict[str, dict[str, None]] = {name: {} for name in input_of.values()}
        for file, name in input_of.items():
            self._files[name][file] = None
        self._reasons: Counter[Reason] = Counter()
        self._rejected_by_input: Counter[str] = Counter()
        self._examples: dict[Reason, list[RejectedExample]] = {}
        rules = self._program.rules.rules
        counted = frozenset(rule.name for rule in rules) if len(rules) <= _COUNTED else frozenset[str]()
        self._engine = Engine(self._program, replay.clock, self._program.stage_two(replay.clock, counted), self._add_firings)

    def collected(self) -> Collected:
        """Read the replay to its end."""
        engine = self._engine
        for instant in self._replay.instants(self._reject):
            if self._terms.wanted:
                self._terms.note([Element(instant.time, graph) for graph in instant.graphs])
            firings, closed = engine.step(instant.time, instant.graphs)
            self._count(instant, closed)
            self._add_firings(firings)
            self._reject_failed()
        if self._replay.ended:
            for firings in engine.finish():
                self._add_firings(firings)
            self._reject_failed()
        totals = Totals(self._elements, self._instants, self._facts, self._events, dict(self._reasons), self._dropped, self._inconsistent)
        kinds = ((LaneKind.INPUT, self._files), (LaneKind.FACT, self._fact_labels()), (LaneKind.RULE, self._rule_names()))
        lanes = [Lane(kind, name, self._bins.of((kind, name))) for kind, names in kinds for name in names]
        rejected = self._bins.of((LaneKind.DEAD_LETTER, ""))
        return Collected(
            totals,
            *self._span(),
            self._bins.width,
            (*lanes, *([Lane(LaneKind.DEAD_LETTER, "", rejected)] if rejected else [])),
            self._kept.events(),
            tuple(self._rule_rows()),
            tuple(RejectedSummary(reason, count, tuple(self._examples[reason])) for reason, count in self._reasons.most_common()),
            tuple(self._input_rows()),
        )

    def _add(self, time: Micros, kind: LaneKind, name: str, count: int) -> None:
        self._bins.add(time, (kind, name), count)
        known, first, last = self._spans.get((kind, name), (0, time, time))
        self._spans[kind, name] = known + count, min(first, time), max(last, time)

    def _span(self) -> tuple[Micros | None, Micros | None]:
        """The first and the last time of elements and events; those of dead letters where there are
        no others."""
        spans = [(first, last) for (kind, _), (_, first, last) in self._spans.items() if kind is not LaneKind.DEAD_LETTER]
        spans = spans or [(first, last) for _, first, last in self._spans.values()]
        return min([first for first, _ in spans], default=None), max([last for _, last in spans], default=None)

    def _count(self, instant: ReplayedInstant, closed: ClosedInstant) -> None:
        """Count an instant after stage one."""
        facts, rejected, failing = closed
        for rejection in (*rejected, *failing):
            self._reject_in_instant(instant, rejection)
        if facts.inconsistencies:
            self._inconsistent += 1
        if facts.rejected:
            return
        self._instants += 1
        self._elements += len(instant.graphs) - len(rejected)
        left_out = {each.element for each in rejected}
        for name, count in Counter(self._input(place.file) for k, place in enumerate(instant.places) if k not in left_out).items():
            self._add(instant.time, LaneKind.INPUT, name, count)
        for stream, rows in facts.facts.items():
            label = self._labels.get(stream)
            if label is None:
                label = self._labels[stream] = self._program.query_label([stream])
            self._facts += len(rows)
            self._add(instant.time, LaneKind.FACT, label, len(rows))

    def _input(self, file: str) -> str:
        name = self._input_of.get(file) or self._input_of.get(file.rpartition("/")[0], file)  # TOPIC/PARTITION
        self._files.setdefault(name, {})[file] = None
        return name

    def _add_firings(self, firings: Iterable[Firing]) -> None:
        for firing in firings:
            self._events += 1
            self._dropped += firing.dropped
            self._kept.add(firing)
            self._add(firing.time, LaneKind.RULE, firing.rule, 1)

    def _reject(self, rejected: RejectedElement) -> None:
        self._add_dead_letter(rejected.dead_letter)

    def _reject_failed(self) -> None:
        """Count the anchors at which rules have failed."""
        for letter in self._engine.failed:
            self._add_dead_letter(letter)
        self._engine.failed.clear()

    def _reject_in_instant(self, instant: ReplayedInstant, rejection: Rejection) -> None:
        place = instant.places[rejection.element]
        writer = TermWriter(self._replay.prefixes)
        text = ""
        for triple in instant.graphs[rejection.element]:
            if len(text) > _LONGEST_TEXT:
                break
            text += f"{writer.triple(triple)} .\n"
        self._add_dead_letter(
            DeadLetter(rejection.reason, self._input(place.file), place.file, place.line, instant.time, text, rejection.why)
        )

    def _add_dead_letter(self, letter: DeadLetter) -> None:
        reason, name, file, line, time, text, why, _ = letter
        self._reasons[reason] += 1
        self._rejected_by_input[name] += 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            cut = text.strip() if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT].strip()} …"
            place = f"{file}:{line}" if file and line else file or name
            examples.append(RejectedExample(place, time, why, cut))
        if time is not None:
            self._add(time, LaneKind.DEAD_LETTER, "", 1)

    def _fact_labels(self) -> Iterable[str]:
        """Labels of the queries that rules read, in the order of the streams."""
        ticks = {each.stream for each in self._program.stage_one.ticks}
        streams = [stream for stream in range(len(self._program.layout.streams)) if stream not in ticks]
        return dict.fromkeys(self._program.query_label([stream]) for stream in streams)

    def _rule_names(self) -> Iterable[str]:
        return dict.fromkeys(self._program.unit_names)

    def _rule_rows(self) -> Iterable[RuleSummary]:
        rules = self._program.rules.rules
        counts = self._engine.rule_counts
        totals = Totals(rules=counts, terms=frozenset(self._terms.terms))
        lines = rule_lines(self._program, totals, self._replay.name, every=True, clock=self._replay.clock)
        for rule, line in zip(rules, lines[: len(rules)], strict=True):  # lines on other units follow
            count, first, last = self._spans.get((LaneKind.RULE, rule.name), (0, None, None))
            place = rule.span.file_line
            own = counts.get(rule.name, RuleCounts())
            steps = step_names(rule.clauses, has_condition=rule.condition is not None)
            funnel = tuple(zip(steps, own.after, strict=True)) if own.after else ()
            yield RuleSummary(
                rule.name,
                f"(internal) {rule.documentation}".rstrip() if rule.internal else rule.documentation,
                place,
                count,
                first,
                last,
                own.anchors,
                funnel,
                {
                    **{steps[place - 1]: number for place, number in own.errors.items()},
                    **({"delayed by": own.delay_errors} if own.delay_errors else {}),
                },
                "" if count else _reason(line),
            )
        for unit in self._program.units:
            for made in unit.makes:
                count, first, last = self._spans.get((LaneKind.RULE, made.label), (0, None, None))
                place = made.span.file_line
                wrong = sum(counts.get(made.label, RuleCounts()).errors.values())
                errors = {"FILTER": wrong} if wrong else {}
                reason = "" if count else "It made no event."
                yield RuleSummary(made.label, "", place, count, first, last, 0, errors=errors, reason_not_fired=reason)

    def _input_rows(self) -> Iterable[InputSummary]:
        progress = {each.name: each for each in self._replay.progress()}
        furthest = max((each.passed for each in progress.values() if each.passed is not None), default=None)
        for name, files in self._files.items():
            count, first, last = self._spans.get((LaneKind.INPUT, name), (0, None, None))
            each = progress.get(name, InputProgress(name, None, ended=True))
            lag = None if each.passed is None or furthest is None else 0 if each.ended else furthest - each.passed
            yield InputSummary(name, tuple(files), count, self._rejected_by_input[name], first, last, each.passed, lag, each.ended)


def _reason(line: str) -> str:
    """The reason in a line of a run's summary, without the name of the rule and the command.

    >>> _reason("Rule Jump never fired: its anchor Temp has no fact. dotr why-not bms.yaml --rule Jump")
    'Its anchor Temp has no fact.'
    """
    text = line.partition(": ")[2].partition(" dotr why-not ")[0]
    return text[:1].upper() + text[1:]


def reported_events(firings: Sequence[Firing], prefixes: Prefixes, internal: Set[Label] = frozenset()) -> list[ReportedEvent]:
    """Events with their terms as Turtle; the type of an internal one says that it is internal."""

    @lru_cache(maxsize=1 << 16)
    def text_of(term: Term) -> str:
        return term_text(term, prefixes)

    def reported(firing: Firing) -> ReportedEvent:
        writer = TermWriter(prefixes)
        for name, term in firing.attributes:
            writer.name_blank(term, name)

        def text(term: Term) -> str:
            return writer.text(term) if "_:" in term else text_of(term)

        attributes = tuple([(name, text(term)) for name, term in firing.attributes])
        graph = tuple([(text(s), writer.predicate(p), text(o)) for s, p, o in firing.graph or ()])
        label = f"{firing.event} (internal)" if firing.event in internal else firing.event
        return ReportedEvent(firing.time, firing.rule, label, attributes, graph, event_name(firing))

    return list(map(reported, firings))


def event_name(firing: Firing) -> str:
    """The fresh name of an event, empty if its rule makes none.

    >>> name = "<urn:dotr:77ffbde2802184a6c638a859667866e8>"
    >>> event_name(Firing(12, "R", "Fire", (), ((name, "<http://e/at>", '"A"'),), 0))
    'urn:dotr:77ffbde2802184a6c638a859667866e8'
    """
    attribute_terms = {term for _, term in firing.attributes}
    terms = (term for triple in firing.graph or () for term in _ends(triple))
    return next((term[1:-1] for term in terms if term.startswith(_FRESH) and term not in attribute_terms), "")


def _ends(triple: Triple) -> tuple[Term, Term]:
    return triple[0], triple[2]


# Counts over time in bounded memory.
#
# Idea: counts are kept by bin of time. The first width of a bin is 1 µs. Whenever there are more bins
# than allowed, the width becomes the next one of a list, and adjacent bins are added up.
# Cost: amortised constant for a count; memory is bounded by the number of bins for each key.

Key = TypeVar("Key")

_SECOND: Final = 1_000_000
_WIDTHS: Final = (
    *(1_000, 10_000, 100_000),
    *(seconds * _SECOND for seconds in (1, 2, 10, 30, 60, 120, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)),
)
"""Widths of bins in µs after the first one, each a multiple of the one before; then they double."""


class TimeBins(Generic[Key]):
    """Counts of keys by bin of time, with at most `limit` bins that are not empty.

    >>> bins = TimeBins[str](limit=2)
    >>> for time in (10, 11, 17):
    ...     bins.add(time, "a", 1)
    >>> bins.width, dict(bins.of("a"))
    (1000, {0: 3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.width: Micros = 1
        self._used: set[int] = set()
        self._counts: defaultdict[Key, dict[int, int]] = defaultdict(dict)

    def add(self, time: Micros, key: Key, count: int) -> None:
        """Add to the count of a key at a time in µs since 1970."""
        number = time // self.width
        counts = self._counts[key]
        counts[number] = counts.get(number, 0) + count
        if number not in self._used:
            self._used.add(number)
            while len(self._used) > self.limit:
                self._widen()

    def _widen(self) -> None:
        before = self.width
        self.width = next((width for width in _WIDTHS if width > before), before * 2)
        factor = self.width // before
        self._used = {number // factor for number in self._used}
        for key, counts in self._counts.items():
            wider: dict[int, int] = {}
            for number, count in counts.items():
                wider[number // factor] = wider.get(number // factor, 0) + count
            self._counts[key] = wider

    def of(self, key: Key) -> Mapping[int, int]:
        """The counts of a key by number of bin; empty where it was never added. A bin begins at its
        number times the width.
        """
        return self._counts.get(key, {})


# Bounded sample of the events of a stream, which a report lists.
#
# Invariant: the first and the last events of the stream are kept, half of the limit each, and the
# first and the last ones of every rule.

_OF_A_RULE: Final = 5
"""Number of the first and of the last events of a rule that are kept in any case."""


class KeptEvents:
    """Events in bounded memory: about `limit`, and ten for each rule.

    >>> kept = KeptEvents(limit=2)
    >>> for time in range(30):
    ...     kept.add(Firing(time, "R", "E", (), (), 0))
    >>> [firing.time for firing in kept.events()]
    [0, 1, 2, 3, 4, 25, 26, 27, 28, 29]
    """

    def __init__(self, limit: int) -> None:
        self._half = -(-limit // 2)
        self._count = 0
        self._first: list[tuple[int, Firing]] = []
        self._last: deque[tuple[int, Firing]] = deque(maxlen=self._half)
        self._by_rule: dict[str, tuple[list[tuple[int, Firing]], deque[tuple[int, Firing]]]] = {}

    def add(self, firing: Firing) -> None:
        """Add the next event."""
        numbered = self._count, firing
        self._count += 1
        (self._first if len(self._first) < self._half else self._last).append(numbered)
        of_rule = self._by_rule.get(firing.rule)
        if of_rule is None:
            of_rule = self._by_rule[firing.rule] = [], deque(maxlen=_OF_A_RULE)
        first, last = of_rule
        (first if len(first) < _OF_A_RULE else last).append(numbered)

    def events(self) -> Sequence[Firing]:
        """The events that are kept, in the order of the output."""
        kept = dict(self._first) | dict(self._last)
        for first, last in self._by_rule.values():
            kept |= dict(first) | dict(last)
        return sorted(kept.values(), key=output_order)
