"""Extent and options of a window: the text between the brackets of its FROM clause.

Every option is parsed and checked by itself, so that all problems are reported.
Source: continuous.md, sections 1, 3, 4, 5 and 10.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.evaluation.expressions.values.datetimes import read_date_time
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.model import (
    ElementsExtent,
    EntailmentLevel,
    Extent,
    LandmarkExtent,
    Level,
    NowExtent,
    RangeExtent,
    ReportPolicies,
    StreamLevel,
    TriplesExtent,
)
from dotr.model import dataclass
from dotr.model.calendars import UNITS_OF_CALENDARS, Calendar, calendar_of
from dotr.model.places import Span
from dotr.model.terms import XSD, unescaped
from dotr.model.time import LAST_MICRO, Micros, Unit
from dotr.syntax.cursor import Cursor, UnreadablePart, clipped
from dotr.syntax.quantities import MINUTES_AS_M, InvalidDuration, parse_duration
from dotr.syntax.sparql.tokens import resolve_name

_OPTIONS: Final = ("STARTING", "REPORT", "ENTAILMENT")
_AFTER_LENGTH: Final = (*_OPTIONS, "STEP", "SLIDE", "TUMBLING", "RESTARTING", "LIMIT", "AND", "TO")
_EXTENTS: Final = "Write RANGE 10s STEP 5s, FROM NOW-10s TO NOW-5s, LANDMARK STEP 5s RESTARTING EVERY 1h, ELEMENTS 10, TRIPLES 100 or NOW."
_DURATION_HINT: Final = "A length of time is written 10s, 5 min, 1 h 30 min or PT5M."
_DURATION_TYPES: Final = (XSD + "duration", XSD + "dayTimeDuration")
_MAX_DIGITS: Final = 18


@dataclass(slots=True)
class WindowSpec:
    """The text between the brackets.

    - `extent`: None after a problem; `start`: STARTING AT, in µs since 1970.
    - `places`: those of EXTENT and of the options, by keyword.
    """

    extent: Extent | None = None
    start: Micros | None = None
    policies: ReportPolicies | None = None
    level: Level | None = None
    places: dict[str, Span] = field(default_factory=dict)

    @property
    def placed_extent(self) -> Extent | None:
        """The extent, with STARTING AT if it is of time."""
        if self.start is not None and isinstance(self.extent, RangeExtent | LandmarkExtent):
            return replace(self.extent, start=self.start)
        return self.extent


def read_spec(cursor: Cursor, unit: Unit) -> WindowSpec:
    """Read `EXTENT`, then the options in any order, up to the end of the cursor.

    `unit`: the unit of a number without one. Raises `UnreadablePart` at a syntax error. Any other
    problem is recorded, and its part is left out.
    """
    spec = WindowSpec()
    first = cursor.position
    spec.extent = _ExtentReader(cursor, unit).extent()
    spec.places["EXTENT"] = cursor.span_since(first)
    while cursor.position < cursor.end:
        _read_option(cursor, unit, spec)
    _check(cursor, spec)
    return spec


@dataclass(slots=True)
class _ExtentReader:
    """Recursive descent over the lexemes of an extent."""

    cursor: Cursor
    unit: Unit

    def extent(self) -> Extent | None:
        """The extent; None after a recorded problem. Raises `UnreadablePart`."""
        cursor = self.cursor
        if cursor.is_word("RANGE") and cursor.at(1).text.upper() in ("ELEMENTS", "TRIPLES"):
            cursor.position += 1
        if cursor.is_word("ELEMENTS") or cursor.is_word("TRIPLES"):
            kind = ElementsExtent if cursor.is_word("ELEMENTS") else TriplesExtent
            cursor.position += 1
            count = whole_number(cursor)
            step: int | None = 1
            if cursor.take_words("STEP"):
                step = whole_number(cursor)
            return kind(count, step) if count and step else None
        if cursor.take_words("RANGE"):
            return self._range()
        if cursor.take_words("FROM"):
            return self._past()
        if cursor.take_words("LANDMARK"):
            return self._landmark()
        if cursor.take_words("NOW"):
            return NowExtent()
        hint = did_you_mean(cursor.here.text.upper(), ["RANGE", "ELEMENTS", "TRIPLES", "LANDMARK", "NOW"])
        raise cursor.unexpected("the extent of the window", f"{hint} {_EXTENTS}".strip())

    def _range(self) -> Extent | None:
        width = self.length()
        if self.cursor.take_words("TUMBLING"):
            return RangeExtent(width, width) if width else None
        step = width
        if self.cursor.take_words("STEP") or self.cursor.take_words("SLIDE"):
            step = self.length()
        return RangeExtent(width, step) if width and step else None

    def _past(self) -> Extent | None:
        """`FROM NOW-2h TO NOW-1h STEP 10 min`; the default of STEP is the length of the window."""
        cursor, first = self.cursor, self.cursor.position
        if not cursor.take_words("NOW"):
            raise cursor.unexpected("NOW", "Write FROM NOW-10s TO NOW-5s.")
        if not cursor.take_mark("-"):
            raise cursor.unexpected("- and a length of time", "A window reaches back: FROM NOW-10s TO NOW.")
        width = self.length(may_be_zero=True)
        if not cursor.take_words("TO"):
            raise cursor.unexpected("TO", "Write FROM NOW-10s TO NOW.")
        if not cursor.take_words("NOW"):
            raise cursor.unexpected("NOW", "Write TO NOW, or TO NOW-5s.")
        lag: Micros | None = 0
        if cursor.take_mark("-"):
            lag = self.length(may_be_zero=True)
        place = cursor.span_since(first)
        step: Micros | None = None
        if stepped := cursor.take_words("STEP"):
            step = self.length()
        if width is None or lag is None:
            return None
        if width <= lag:
            hint = "The first bound lies further back than the second: FROM NOW-10s TO NOW-5s."
            cursor.report(WindowCode.EMPTY_EXTENT, "no time lies in this window", place, hint)
            return None
        if stepped and step is None:
            return None
        return RangeExtent(width, step or width - lag, lag)

    def _landmark(self) -> Extent | None:
        cursor = self.cursor
        stepped = cursor.take_words("STEP")
        step = self.length() if stepped else None
        if cursor.take_words("RESTARTING"):
            if not cursor.take_words("EVERY"):
                raise cursor.unexpected("EVERY", "Write RESTARTING EVERY 1 d.")
            if cursor.here.text.lower() in UNITS_OF_CALENDARS:
                calendar = _calendar(cursor)
                return LandmarkExtent(step, calendar, None) if calendar and (step or not stepped) else None
        if not stepped:
            hint = "Write LANDMARK STEP 1 min RESTARTING EVERY 1 d, LANDMARK RESTARTING EVERY DAY, or LANDMARK STEP 1 min LIMIT 10000."
            raise cursor.unexpected("STEP", hint)
        if cursor.at(-1).text.upper() == "EVERY":
            restart = self.length()
            return LandmarkExtent(step, restart, None) if step and restart else None
        if cursor.take_words("LIMIT"):
            limit = whole_number(cursor)
            return LandmarkExtent(step, None, limit) if step and limit else None
        raise cursor.unexpected(
            "RESTARTING EVERY or LIMIT",
            "A landmark window grows, so it needs a bound: RESTARTING EVERY 1 d, or LIMIT 10000, a number of elements.",
        )

    def length(self, *, may_be_zero: bool = False) -> Micros | None:
        """A duration, in µs; None after a recorded problem."""
        return read_length(self.cursor, self.unit, _AFTER_LENGTH, may_be_zero=may_be_zero)


def _calendar(cursor: Cursor) -> Calendar | None:
    """Take `DAY AT 06:00 IN "Europe/Berlin"`; None after a recorded problem."""
    unit, at, zone = cursor.here.text, None, None
    place = cursor.span_of(cursor.here)
    cursor.position += 1
    if cursor.take_words("AT"):
        at, place = cursor.text_until(cursor.find("IN", *_AFTER_LENGTH, marks=("]",)))
    zone_place = place
    if cursor.take_words("IN"):
        quoted, zone_place = cursor.text_until(cursor.find(*_AFTER_LENGTH, marks=("]",)))
        if quoted[:1] not in ("'", '"') or quoted[-1] != quoted[0]:
            raise UnreadablePart(Diagnostic(cursor.syntax_code, "expected a zone in quotes", zone_place, 'Write IN "Europe/Berlin".'))
        zone = quoted[1:-1]
    try:
        return calendar_of(unit, at, zone)
    except (LookupError, ValueError) as error:
        reason, _, hint = str(error).partition(". ")
        is_zone = isinstance(error, LookupError)
        cursor.report(WindowCode.UNKNOWN_ZONE if is_zone else WindowCode.NO_TIME_OF_DAY, reason, zone_place if is_zone else place, hint)
        return None


def read_length(cursor: Cursor, unit: Unit, before: Sequence[str], *, may_be_zero: bool = False) -> Micros | None:
    """Take a duration, in µs, that ends before one of some words; None after a recorded problem.

    `unit`: the unit of a number without one. Raises `UnreadablePart` if there is no text.
    """
    text, span = cursor.text_until(_end_of_length(cursor, cursor.find(*before, marks=("]",))))
    if not text:
        raise cursor.unexpected("a length of time", _DURATION_HINT)
    try:
        length = parse_duration(_untyped(cursor, text, span, _DURATION_TYPES), MINUTES_AS_M, unit)
    except InvalidDuration as error:
        hint = error.hint or _DURATION_HINT
        cursor.report(WindowCode.NO_DURATION, str(error), span, hint)
        return None
    if length == 0 and not may_be_zero:
        cursor.report(WindowCode.NO_DURATION, "a length of no time", span, f"Write how long. {_DURATION_HINT}")
        return None
    return length


def _end_of_length(cursor: Cursor, stop: int) -> int:
    """The position of the first word that is no part of a duration, as REPROT in `10 s REPROT`."""
    for index in range(cursor.position + 1, stop):
        before, lexeme = cursor.lexemes[index - 1], cursor.lexemes[index]
        if lexeme.group == "word" and lexeme.start > before.end and before.group != "number" and lexeme.text.lower() not in MINUTES_AS_M:
            return index
    return stop


def whole_number(cursor: Cursor) -> int | None:
    """Take a whole number above 0; None after a recorded problem."""
    stop = cursor.find(*_AFTER_LENGTH, marks=("]",))
    text, span = cursor.text_until(stop)
    if not text:
        raise cursor.unexpected("a whole number", "Write how many: ELEMENTS 10.")
    if re.fullmatch(r"[0-9]+", text) and len(text) > _MAX_DIGITS:
        cursor.report(WindowCode.NO_NUMBER, f"a number of {len(text):,} digits", span, "No stream has so many elements.")
        return None
    if not re.fullmatch(r"[0-9]+", text) or not int(text):
        cursor.report(WindowCode.NO_NUMBER, f"{clipped(text)} is no whole number above 0", span, "Write how many: 1, 2, 3 …")
        return None
    return int(text)


def _untyped(cursor: Cursor, text: str, span: Span, datatypes: Sequence[str]) -> str:
    """The lexical form of a literal of one of these datatypes; text that is no literal, unchanged.

    Raises `UnreadablePart` for a literal of another datatype.
    """
    if text[:1] not in "\"'":
        return text
    last = cursor.lexemes[cursor.position - 1]
    quote = text[0]
    closing = text.rfind(quote)
    datatype = resolve_name(cursor.scan, last) if last.group in ("iri", "pname") and "^^" in text[closing:] else ""
    if datatype not in datatypes:
        shown = " or ".join(f"xsd:{each.removeprefix(XSD)}" for each in datatypes)
        raise UnreadablePart(Diagnostic(WindowCode.NO_DURATION, f"{clipped(text)} is no literal of type {shown}", span, _DURATION_HINT))
    return unescaped(text[1:closing])


_TIME_HINT: Final = "A time is an integer in the configuration's time.unit, or a date-time: 2024-01-01T00:00:00Z."


def _read_time(cursor: Cursor, unit: Unit) -> Micros | None:
    """Take an integer or a date-time, plain or as a literal; return the time in µs since 1970.

    None after a recorded problem. `unit`: the unit of the integer.
    """
    text, span = cursor.text_until(cursor.find(*_OPTIONS, "AND", marks=("]",)))
    if not text:
        raise cursor.unexpected("a time", _TIME_HINT)
    try:
        text = _untyped(cursor, text, span, (XSD + "dateTime", XSD + "dateTimeStamp", XSD + "integer"))
    except UnreadablePart:
        cursor.report(WindowCode.NO_TIME, f"{clipped(text)} is no time", span, _TIME_HINT)
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        time = int(text) * unit.value
    else:
        # `2024-01-01 00:00Z` is read as `2024-01-01T00:00:00Z`.
        full = re.sub(r"^(\d+-\d\d-\d\d)[ T](\d\d:\d\d)(?!:)", r"\1T\2:00", text).replace(" ", "T", 1)
        value = read_date_time(full)
        if value is None:
            cursor.report(WindowCode.NO_TIME, f"{clipped(text)} is no time", span, _TIME_HINT)
            return None
        time = int(value.instant * 1_000_000 // 1)
    if not -LAST_MICRO < time < LAST_MICRO:
        cursor.report(WindowCode.NO_TIME, f"{clipped(text)} is no time: it is out of range", span, "Is time.unit right?")
        return None
    return time


def _read_option(cursor: Cursor, unit: Unit, spec: WindowSpec) -> None:
    first = cursor.position
    if cursor.take_words("STARTING"):
        if not cursor.take_words("AT"):
            raise cursor.unexpected("AT", "Write STARTING AT 0.")
        start = _read_time(cursor, unit)
        if _is_first(cursor, spec, "STARTING AT", first):
            spec.start = start
    elif cursor.take_words("REPORT"):
        policies = _read_policies(cursor, unit)
        if _is_first(cursor, spec, "REPORT", first):
            spec.policies = policies
    elif cursor.take_words("ENTAILMENT"):
        level = _read_level(cursor, unit)
        if _is_first(cursor, spec, "ENTAILMENT", first):
            spec.level = level
    else:
        hint = did_you_mean(cursor.here.text.upper(), [*_OPTIONS, "STEP"])
        expected = "] or STARTING AT, REPORT, ENTAILMENT"
        raise cursor.unexpected(
            expected, hint or "Behind the extent come options: STARTING AT 0, REPORT ON WINDOW CLOSE, ENTAILMENT GRAPH."
        )


def _is_first(cursor: Cursor, spec: WindowSpec, option: str, first: int) -> bool:
    """Record the place of an option; False, with an error, if the window has the option already."""
    place = cursor.span_since(first)
    if option in spec.places:
        cursor.report(WindowCode.OPTION_TWICE, f"{option} is given twice", place, "Leave one of them out.")
        return False
    spec.places[option] = place
    return True


_POLICY_HINT: Final = "Policies are ON WINDOW CLOSE, ON CONTENT CHANGE, NON-EMPTY CONTENT and PERIODIC 10s, joined by AND."


def _read_policies(cursor: Cursor, unit: Unit) -> ReportPolicies:
    """Policies joined by AND; `_` between words is permitted: ON_WINDOW_CLOSE."""
    seen: set[str] = set()
    period: Micros | None = None
    while True:
        first = cursor.position
        policy = _policy(cursor)
        if policy == "PERIODIC":
            length = read_length(cursor, unit, _AFTER_LENGTH)
            period = length if period is None else period
        if policy in seen:
            cursor.report(WindowCode.OPTION_TWICE, f"{policy} is given twice", cursor.span_since(first), "Leave one of them out.")
        seen.add(policy)
        if not cursor.take_words("AND"):
            break
    return ReportPolicies("WINDOW CLOSE" in seen, "CONTENT CHANGE" in seen, "NON-EMPTY CONTENT" in seen, period)


def _policy(cursor: Cursor) -> str:
    """Take the words of one policy; return its name in `_POLICIES`."""
    words, start = "", cursor.position
    for length in range(1, 6):
        lexeme = cursor.at(length - 1)
        if not (lexeme.group == "word" or lexeme.text == "-"):
            break
        words = f"{words} {lexeme.text.upper()}".replace("_", " ").replace("-", " ").strip()
        name = _POLICIES.get(" ".join(words.split()))
        if name is not None:
            cursor.position += length
            return name
    cursor.position = start
    hint = did_you_mean(words, list(_POLICIES))
    raise cursor.unexpected("a policy", f"{hint} {_POLICY_HINT}".strip())


_POLICIES: Final = {
    "WINDOW CLOSE": "WINDOW CLOSE",
    "ON WINDOW CLOSE": "WINDOW CLOSE",
    "CONTENT CHANGE": "CONTENT CHANGE",
    "ON CONTENT CHANGE": "CONTENT CHANGE",
    "NON EMPTY CONTENT": "NON-EMPTY CONTENT",
    "PERIODIC": "PERIODIC",
}


_LEVELS: Final = {
    "NONE": EntailmentLevel.NONE,
    "SNAPSHOT": EntailmentLevel.SNAPSHOT,
    "GRAPH": EntailmentLevel.GRAPH,
    "WINDOW": EntailmentLevel.WINDOW,
}


def _read_level(cursor: Cursor, unit: Unit) -> Level | None:
    if cursor.take_words("STREAM"):
        if not cursor.take_words("WITHIN"):
            raise cursor.unexpected("WITHIN", "Write how far back the stream is known: ENTAILMENT STREAM WITHIN 1 h.")
        within = read_length(cursor, unit, _AFTER_LENGTH)
        return None if within is None else StreamLevel(within)
    word = cursor.here.text.upper()
    if cursor.here.group == "word" and word in _LEVELS:
        cursor.position += 1
        return _LEVELS[word]
    hint = did_you_mean(word, [*_LEVELS, "STREAM WITHIN"])
    raise cursor.unexpected("a level of entailment", f"{hint} Levels are NONE, SNAPSHOT, GRAPH, WINDOW and STREAM WITHIN 1 h.".strip())


def _check(cursor: Cursor, spec: WindowSpec) -> None:
    """Report options that contradict each other or the extent."""
    extent, policies, level = spec.extent, spec.policies, spec.level
    if "STARTING AT" in spec.places and isinstance(extent, ElementsExtent | TriplesExtent | NowExtent):
        hint = "Only windows of time start somewhere: RANGE, FROM NOW and LANDMARK."
        cursor.report(WindowCode.WRONG_START, "STARTING AT for a window that is not of time", spec.places["STARTING AT"], hint)
    if policies is not None and policies.non_empty and not (policies.window_close or policies.content_change or policies.period):
        hint = "It sets no time. Write ON WINDOW CLOSE AND NON-EMPTY CONTENT, or PERIODIC 10s AND NON-EMPTY CONTENT."
        if not any(problem.span and spec.places["REPORT"].contains(problem.span) for problem in cursor.scan.problems):
            cursor.report(WindowCode.NON_EMPTY_ALONE, "NON-EMPTY CONTENT alone", spec.places["REPORT"], hint)
    if policies is not None and policies.window_close and isinstance(extent, NowExtent):
        hint = "NOW is the element of each time: write ON CONTENT CHANGE, which is also what it does without REPORT."
        cursor.report(WindowCode.NOW_NEVER_CLOSES, "the window NOW never closes", spec.places["REPORT"], hint)
    by_calendar = isinstance(extent, LandmarkExtent) and isinstance(extent.restart, Calendar)
    if by_calendar and policies is not None and policies.window_close and policies.period:
        message = "PERIODIC with WINDOW CLOSE for a window that restarts by calendar"
        hint = "It closes when the clock of its zone says so. Write STEP for more closes, or PERIODIC alone."
        cursor.report(WindowCode.CALENDAR_AND_PERIODIC, message, spec.places["REPORT"], hint)
    if isinstance(level, StreamLevel):
        _check_stream_level(cursor, level, extent, spec.places["ENTAILMENT"])


def _check_stream_level(cursor: Cursor, level: StreamLevel, extent: Extent | None, place: Span) -> None:
    """Report STREAM WITHIN of a window without a length of time, or shorter than the window."""
    match extent:
        case RangeExtent(width):
            length: Micros | None = width
        case LandmarkExtent():
            length = extent.longest
        case NowExtent():
            length = 0
        case _:
            length = None
    if length is None and extent is not None:
        hint = "The stream is known for a length of time, so the window has to have one too. Write ENTAILMENT WINDOW, or a RANGE."
        cursor.report(WindowCode.WRONG_STREAM_LEVEL, "STREAM WITHIN for a window that has no length of time", place, hint)
    elif length is not None and level.within < length:
        hint = "The stream has to be known for as long as the window reaches: write at least that, or ENTAILMENT WINDOW."
        cursor.report(WindowCode.WRONG_STREAM_LEVEL, "STREAM WITHIN is shorter than the window", place, hint)
