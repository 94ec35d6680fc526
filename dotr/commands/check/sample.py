"""Sample of an input: statistics of its first records, in bounded memory."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Final, NamedTuple

from dotr.engine.stream_terms import MOST_TERMS, StreamTerms
from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.model import dataclass
from dotr.model.calendars import zone_of
from dotr.model.stream import Element, Reason
from dotr.model.terms import RDF_TYPE, Term, Triple, is_iri, unescaped
from dotr.model.time import LAST_MICRO, Micros, Unit
from dotr.streams.formats.reading import Reader
from dotr.streams.lateness import Lateness
from dotr.streams.merge.feeds import StandardInput
from dotr.streams.records import InputFile, Record
from dotr.streams.time_formats import UNIX
from dotr.streams.times import date_times_in, unit_by_size

_SILENCE: Final = 2.0
"""Seconds without a record after which reading of standard input ends."""

_MOST_COMPARED: Final = 8
"""Limit of the records of one time and subject that later ones are compared with."""

_LONGEST: Final = 42
"""Characters of a text that are shown, quotes included."""

_NUMBER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:[.,][0-9]+)?(?:[eE][+-]?[0-9]+)?")
_OUT_OF_RANGE: Final = re.compile(r"\b([0-9]{10,20}) is no time: it is out of range")
_DAY: Final = Unit.DAY.value
_YEAR: Final = 365 * _DAY


@dataclass(slots=True)
class ObjectTexts:
    """Texts among the objects of a predicate: their number, and that of those that look like
    numbers, with an example; `comma`: the example has a decimal comma. `objects`, `numerals`: the
    numbers of all objects, and of those that are numbers; `first`: the first text with its place.
    """

    count: int = 0
    numbers: int = 0
    example: str = ""
    comma: bool = False
    objects: int = 0
    numerals: int = 0
    first: str = ""

    def add(self, text: str) -> None:
        """Count a text."""
        self.count += 1
        if _NUMBER.fullmatch(text):
            self.numbers += 1
            if not self.example or ("," in text and not self.comma):
                self.example, self.comma = text, "," in text


@dataclass(slots=True)
class SampledTime:
    """Number of records with one kind of time, and the place of the first one."""

    count: int = 0
    first: str = ""

    def add(self, file: InputFile, record: Record) -> None:
        """Count a record."""
        self.count += 1
        self.first = self.first or place_of(file, record)


@dataclass(slots=True)
class LateRecords(SampledTime):
    """Records that come late by a similar time, with the longest of these in µs, and the number of
    the first one."""

    longest: Micros = 0
    number: int = 0

    def joined(self, other: LateRecords) -> LateRecords:
        """These and other records."""
        first = self if self.count and self.number < other.number else other
        return LateRecords(self.count + other.count, first.first, max(self.longest, other.longest), first.number)


@dataclass(frozen=True, slots=True)
class MixedValues:
    """Values of two records of one time (µs since 1970) that mix: both give the subject different
    values of these predicates; `places`: those of the records."""

    places: str
    time: Micros
    subject: Term
    predicates: tuple[Term, ...]


@dataclass(slots=True)
class InputSample:
    """The first records of an input.

    - `count`: records with a time; `files`: files that were opened; `ended`: there are no more.
    - `least`, `greatest`: the first and the last time, in µs since 1970.
    - `late`: records that are late under the declared lateness; `behind`: the least lateness in µs
      under which none is; `declared`: the declared one; `delays`: records that are not in order, by
      the number of binary digits of how late they come, in µs.
    - `repeated`: records of the time of one before, where every element is an instant.
    - `unreadable`: records that cannot be read; `reason`: that of the first.
    - `zoned`, `zoneless`, `far`: date-times with and without a zone, and integers that look like
      another unit, `far_unit`, than the declared one.
    - `texts`: the texts among the objects of each predicate; predicates beyond 1,000 are left out.
    - `shared`: by what records have in common with one before, of the same time and with the same
      predicates (the subject, under "", or the object of a predicate), their number.
    - `mixed`: the first values that mix, in the order of the file.
    - `times`, `tied`: the times of all records, and of those with the time of the one before.
    """

    terms: StreamTerms
    most: int
    count: int = 0
    files: int = 0
    ended: bool = False
    least: Micros = LAST_MICRO
    greatest: Micros = -LAST_MICRO
    late: int = 0
    behind: Micros = 0
    declared: Micros = 0
    delays: dict[int, LateRecords] = field(default_factory=dict)
    repeated: int = 0
    unreadable: SampledTime = field(default_factory=SampledTime)
    reason: str = ""
    zoned: SampledTime = field(default_factory=SampledTime)
    zoneless: SampledTime = field(default_factory=SampledTime)
    far: SampledTime = field(default_factory=SampledTime)
    far_unit: str = ""
    texts: dict[Term, ObjectTexts] = field(default_factory=dict)
    shared: Counter[Term] = field(default_factory=Counter)
    mixed: MixedValues | None = None
    times: set[Micros] = field(default_factory=set)
    tied: set[Micros] = field(default_factory=set)
    _times: tuple[bytes, dict[Micros, bool]] = (b"", {})
    _time: Micros = -LAST_MICRO
    _graphs: set[tuple[Triple, ...]] = field(default_factory=set)
    _keys: set[tuple[Term, Term, tuple[Term, ...]]] = field(default_factory=set)
    _said: dict[Term, list[tuple[int, dict[Term, set[Term]]]]] = field(default_factory=dict)
    _objects: dict[Term, Term] = field(default_factory=dict)
    _varied: set[Term] = field(default_factory=lambda: {""})

    @property
    def full(self) -> bool:
        """True if the requested number of records was read."""
        return self.count + self.unreadable.count >= self.most

    def outliers(self) -> tuple[Micros, LateRecords] | None:
        """The lateness in µs that loses records with a wrong clock alone, and these records.

        They come more than a day late and a hundred times as late as all others; they are at most
        one in a hundred, or half where they come more than a year late.
        """
        lost = LateRecords()
        delays = sorted(self.delays, reverse=True)
        for digits, below in zip(delays, [*delays[1:], 0], strict=True):
            lost = lost.joined(self.delays[digits])
            bulk = self.delays[below].longest if below else 0
            least = 1 << digits - 1
            share = 2 if least > _YEAR else 100
            if least > max(_DAY, self.declared, 100 * bulk) and lost.count * share <= self.count:
                return bulk, lost
        return None

    def read(self, file: InputFile, records: Iterator[Record]) -> None:
        """Count the records of a file until the sample is full. Lateness is relative to the same
        file."""
        self.files += 1
        self._time = -LAST_MICRO
        self.declared = file.delay
        lateness = Lateness.of(file)
        while not self.full:
            record = next(records, None)
            if record is None:
                return
            if record.reason is Reason.EMPTY:
                continue
            if record.time is None or record.element is None:
                self.unreadable.add(file, record)
                self.reason = self.reason or record.why
                if (found := _OUT_OF_RANGE.search(record.why)) and (unit := unit_by_size(int(found[1]), file.unit)):
                    self.far.add(file, record)
                    self.far_unit = self.far_unit or unit
            else:
                self._add(file, record, record.time, record.element, lateness)

    def _add(self, file: InputFile, record: Record, micros: Micros, element: Element, lateness: Lateness) -> None:
        self.count += 1
        self.least, self.greatest = min(self.least, micros), max(self.greatest, micros)
        verdict = lateness.verdict(micros)
        if behind := lateness.greatest - micros:
            self.behind = max(self.behind, behind)
            here = LateRecords(1, place_of(file, record), behind, self.count)
            self.delays[behind.bit_length()] = self.delays.get(behind.bit_length(), LateRecords()).joined(here)
        self.late += verdict is Reason.LATE
        self.repeated += verdict is Reason.SECOND
        self._add_time(file, record, micros)
        self._compare(element)
        if self.mixed is None:
            self._find_mixed(file, record, element)
        self.terms.note((element,))
        for _, predicate, value in element.triples:
            counted = self.texts.get(predicate)
            if counted is None:
                if len(self.texts) >= MOST_TERMS:
                    continue
                counted = self.texts[predicate] = ObjectTexts()
            counted.objects += 1
            if value.startswith('"') and value.endswith('"'):
                counted.first = counted.first or f"{value if len(value) <= _LONGEST else f'{value[:_LONGEST]}…'}, {place_of(file, record)}"
                counted.add(unescaped(value[1:-1]))
            elif value.startswith('"') and term_kind(value) is TermKind.NUMBER:
                counted.numerals += 1

    def _compare(self, element: Element) -> None:
        """Count what an element shares with others before it of the same time."""
        time, triples = element
        self.times.add(time)
        if time == self._time:
            self.tied.add(time)
        else:
            self._time, self._graphs, self._keys, self._said = time, set(), set(), {}
        for _, predicate, value in triples:
            if self._objects.setdefault(predicate, value) != value and len(self._varied) < MOST_TERMS:
                self._varied.add(predicate)
        if triples not in self._graphs:
            self._graphs.add(triples)
            kind = tuple([predicate for _, predicate, _ in triples])
            named = [("", subject) for subject, _, _ in triples] + [(p, value) for _, p, value in triples if p != RDF_TYPE]
            keys = {(name, term, kind) for name, term in named if is_iri(term)}
            self.shared.update({name for name, _, _ in keys & self._keys})
            self._keys |= keys

    def _find_mixed(self, file: InputFile, record: Record, element: Element) -> None:
        """Compare what an element says of each subject with the first elements of the same time."""
        values: dict[Term, dict[Term, set[Term]]] = {}
        for subject, predicate, value in element.triples:
            if is_iri(subject):
                values.setdefault(subject, {}).setdefault(predicate, set()).add(value)
        for subject, own in values.items():
            others = self._said.setdefault(subject, [])
            for line, said in others:
                differing = tuple(predicate for predicate in own if said.get(predicate, own[predicate]) != own[predicate])
                if len(differing) > 1:
                    self.mixed = MixedValues(f"{file.path}:{line} and :{record.line}", element.time, subject, differing)
                    return
            if len(others) < _MOST_COMPARED:
                others.append((record.line, own))

    @property
    def ties(self) -> int:
        """The number of records that share their time and a key with one before, where all times are
        whole seconds. A key is a subject, or the object of a predicate that has several objects.
        """
        if any(time % Unit.SECOND.value for time in self.times):
            return 0
        return max((number for name, number in self.shared.items() if name in self._varied), default=0)

    def _add_time(self, file: InputFile, record: Record, micros: Micros) -> None:
        """Count a time as a date-time with or without a zone, or as a large integer."""
        zone = file.map.time_zone if file.map else None
        form = file.map.time_format if file.map else None
        if form is not None:
            if "%z" not in form and form not in UNIX:
                self.zoneless.add(file, record)
            return
        if self._times[0] is not record.raw:  # the items of a JSON message share its text
            self._times = record.raw, date_times_in(record.decoded(file.map.codec if file.map else "utf-8"))
        has_zone = self._times[1].get(micros)
        if zone is not None and not has_zone:  # the text of a time without a zone has the local time
            has_zone = False if self._times[1].get(micros + zone_of(zone).offset(micros)) is False else None
        if has_zone is not None:
            (self.zoned if has_zone else self.zoneless).add(file, record)
        elif file.map is not None and file.map.is_dated:  # of cells that do not stand together in the text
            self.zoneless.add(file, record)
        elif zone is None and (unit := unit_by_size(micros // file.unit.value, file.unit)):
            self.far.add(file, record)
            self.far_unit = self.far_unit or unit


def sample_files(sample: InputSample, files: list[InputFile]) -> None:
    """Read the first records of files; raises `Refused` where one cannot be opened."""
    for file in files:
        if sample.full:
            return
        with Reader(file) as reader:
            sample.read(file, reader.records())
    sample.ended = not sample.full


def sample_partitions(sample: InputSample, files: Sequence[InputFile], read: Callable[[InputFile], Generator[Record]]) -> None:
    """Read the first records of each partition, equally many of each, by `read`."""
    share = -(-sample.most // max(1, len(files)))
    has_more = False
    for file in files:
        records = read(file)
        sample.read(file, islice(records, share))
        has_more = has_more or next(records, None) is not None
        records.close()
    sample.ended = not has_more


def sample_standard_input(sample: InputSample, like: InputFile, sleep: Callable[[float], None] = time.sleep) -> None:
    """Read the available records of standard input, up to its end or a pause of two seconds. Raises
    `Refused` if it cannot be read.
    """
    feed = StandardInput(like)
    sample.read(like, _waiting_records(feed, sample.most, sleep))
    sample.ended = feed.ended and not sample.full


def _waiting_records(feed: StandardInput, most: int, sleep: Callable[[float], None]) -> Iterator[Record]:
    waited = 0.0
    while waited < _SILENCE and not feed.ended:
        found = feed.read(most)
        if found is None:
            sleep(0.05)
            waited += 0.05
        else:
            waited = 0.0
            yield from found.records


def place_of(file: InputFile, record: Record) -> str:
    """The file and line of a record, for messages."""
    return f"{file.path}:{record.line}"


# The entries of a list of times, and columns with times of day, each read alone.


class TimeUse(NamedTuple):
    """An entry of `time`, read alone: the number of records that have it, of those `looked` at, and
    the first text of it that is a time of day (empty: none)."""

    written: str
    present: int
    looked: int
    clock: str


def time_uses(files: Sequence[InputFile], entries: Sequence[str], most: int) -> list[TimeUse]:
    """Counts of the first records of files, with each entry as `time`; without those that are
    no rows or objects, whatever their time."""
    uses = []
    for entry in entries:
        present, looked, clock, left = 0, 0, "", most
        for file in files:
            assert file.map is not None
            with Reader(replace(file, map=replace(file.map, time=entry)), elements=False) as reader:
                for record in islice(reader.records(), left):
                    left -= 1
                    if record.time is None and not _OF_TIME.search(record.why):
                        continue
                    looked += 1
                    present += record.time is not None or not _NOT_THERE.search(record.why)
                    found = None if clock or record.time is not None else _CLOCK.search(record.why)
                    clock = found[1] if found else clock
        uses.append(TimeUse(entry, present, looked, clock))
    return uses


_OF_TIME: Final = re.compile(r"(?:^|: )(?:its time, |it has no )")
_NOT_THERE: Final = re.compile(r"(?:^|: )it has no |: it is empty$")
_CLOCK: Final = re.compile(r": '?([0-9]{1,2}(?P<m>[:.h])[0-9]{2}(?:(?P=m)[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?[AaPp][Mm])?)'? is n")
"""The text of a time of day, in the reason why it is no time."""


def clock_format(text: str) -> str:
    """The format of a time of day.

    >>> clock_format("18.00.00"), clock_format("7:05:09,25"), clock_format("07h30"), clock_format("7:30 pm")
    ('%H.%M.%S', '%H:%M:%S,%f', '%Hh%M', '%I:%M %p')
    """
    half = text[-1] in "mM"
    _, mark, _, *rest = re.split(r"([:.h])", text.rstrip("aApPmM ").replace(",", ".,", 1))
    form = f"{'%I' if half else '%H'}{mark}%M"
    if rest:
        form += f"{rest[0]}%S"
        form += "" if len(rest) < 3 else ",%f" if rest[3].startswith(",") else ".%f"
    return form + (" %p" if half and " " in text else "%p" if half else "")
