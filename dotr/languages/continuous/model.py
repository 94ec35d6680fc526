"""Continuous queries: windows over streams, their reports, and a SPARQL query over their contents.

A query is evaluated whenever one of its windows reports. All times and lengths are in µs. The
origin of windows is part of the configuration, not of a query.
Source: continuous.md, sections 1 to 7.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.calendars import Calendar, Schedule
from dotr.model.places import Span
from dotr.model.templates import Template
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros
from dotr.model.units import GraphStream, UnitEvents
from dotr.temporal.intervals.patterns import MatchBlock
from dotr.temporal.layout.units import UnitRead

StreamName: TypeAlias = str
"""An IRI without brackets, or a plain name: `<sensors>` is `sensors`, `:s` is `http://…s`."""


# --- extents (section 3) ---


@dataclass(frozen=True, slots=True)
class RangeExtent:
    """`RANGE width STEP step` and `FROM NOW-width TO NOW-lag STEP step`.

    A window has the times in (c − width, c − lag]. It closes at each c = origin + i·step or, with
    `STARTING AT t0` (`start`), t0 + width + i·step.
    """

    width: Micros
    step: Micros
    lag: Micros = 0
    start: Micros | None = None


@dataclass(frozen=True, slots=True)
class LandmarkExtent:
    """`LANDMARK STEP step`: times since the last restart, else since t0 (`start`), else all.

    It is bounded by either `restart`, a length or a calendar, or `limit`, a number of elements. At
    the restarts of a calendar it closes, too; then it may have no `step`.
    """

    step: Micros | None
    restart: Schedule | None
    limit: int | None
    start: Micros | None = None

    @property
    def longest(self) -> Micros | None:
        """The greatest length in µs from one restart to the next."""
        return self.restart.longest if isinstance(self.restart, Calendar) else self.restart


@dataclass(frozen=True, slots=True)
class ElementsExtent:
    """`ELEMENTS count STEP step`: the latest items, whole, until they hold `count` elements."""

    count: int
    step: int


@dataclass(frozen=True, slots=True)
class TriplesExtent:
    """`TRIPLES count STEP step`: the latest items, whole, until they hold `count` triples."""

    count: int
    step: int


@dataclass(frozen=True, slots=True)
class NowExtent:
    """`NOW`: the item of the current time alone."""


Extent: TypeAlias = RangeExtent | LandmarkExtent | ElementsExtent | TriplesExtent | NowExtent


# --- reports (section 4) ---


@dataclass(frozen=True, slots=True)
class ReportPolicies:
    """Policies of one window, which reports at the times at which all policies that are set hold.

    - `window_close`: the window closes at the time.
    - `content_change`: the content differs from that of the window's last report.
    - `non_empty`: the content has an element.
    - `period`: the time is a multiple of this length; None without PERIODIC.
    """

    window_close: bool = False
    content_change: bool = False
    non_empty: bool = False
    period: Micros | None = None


# --- levels (section 5) ---


class EntailmentLevel(Enum):
    """Closure of a window's content under rules and entailment."""

    NONE = "NONE"
    SNAPSHOT = "SNAPSHOT"
    GRAPH = "GRAPH"
    WINDOW = "WINDOW"


@dataclass(frozen=True, slots=True)
class StreamLevel:
    """`STREAM WITHIN d`: a window is closed together with the last `within` µs of its stream."""

    within: Micros


Level: TypeAlias = EntailmentLevel | StreamLevel


@dataclass(frozen=True, slots=True)
class ContinuousWindow:
    """A window of a query.

    - `name`: its IRI, or a plain name `<w>`; None for a default window.
    - `level`: None where the query has none (`block_level` and `event_level` have the defaults).
    - `policies`: None for a window that never reports and is only read.
    - `span`: the whole FROM clause; `stream_span`: the stream's name in it.
    """

    name: Term | None
    stream: StreamName
    extent: Extent
    level: Level | None
    policies: ReportPolicies | None
    span: Span
    stream_span: Span

    @property
    def block_level(self) -> Level:
        """The level of the content of WINDOW blocks and of the default graph."""
        return EntailmentLevel.GRAPH if self.level is None else self.level

    @property
    def event_level(self) -> Level:
        """The level of the items that EVENTs match."""
        return EntailmentLevel.SNAPSHOT if self.level is None else self.level


# --- forms and results (section 6) ---


class RelationToStream(Enum):
    """Solutions that a report emits: all, or those added or removed since the last report."""

    RSTREAM = "RSTREAM"
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"


@dataclass(frozen=True, slots=True)
class SelectForm:
    """SELECT: an event for each solution."""

    query: Select


@dataclass(frozen=True, slots=True)
class ConstructForm:
    """CONSTRUCT: one event with the graph of all solutions.

    `query` projects all visible variables.
    """

    template: Template
    query: Select


@dataclass(frozen=True, slots=True)
class AskForm:
    """ASK: one solution, `answer`, true if `query` has a solution."""

    query: Select


QueryForm: TypeAlias = SelectForm | ConstructForm | AskForm


@dataclass(frozen=True, slots=True)
class ContinuousQuery:
    """A REGISTERed query.

    - `name`: the stream of a CONSTRUCT: an IRI, or the bare word of the text.
    - `label`: that of its events.
    - `windows`: in the order of the text; their names differ.
    - `matches`: MATCH blocks; `MatchPattern(i)` in the query has the solutions of the i-th.
    - `span`: the statement; `label_span`: its name.
    """

    name: StreamName
    label: Label
    relation: RelationToStream
    form: QueryForm
    windows: tuple[ContinuousWindow, ...]
    matches: tuple[MatchBlock, ...]
    span: Span
    label_span: Span

    @property
    def query(self) -> Select:
        """The SELECT whose solutions the form presents."""
        return self.form.query

    @property
    def makes_graphs(self) -> bool:
        """True of a CONSTRUCT: its events have graphs, so it is a stream."""
        return isinstance(self.form, ConstructForm)


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A continuous query with the stream of each of its windows; `attributes`, sorted, are those of
    its events.
    """

    query: ContinuousQuery
    streams: tuple[GraphStream, ...]
    attributes: tuple[Variable, ...]

    @property
    def name(self) -> str:
        """The name of the unit, which is its label."""
        return self.query.label

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.query.label_span

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """The events of the query's label."""
        return (UnitEvents(self.query.label, self.attributes, self.query.label_span, self.query.makes_graphs),)

    @property
    def reads(self) -> tuple[UnitRead, ...]:
        """A stream for each window, in their order."""
        windows = zip(self.query.windows, self.streams, strict=True)
        return tuple(UnitRead(stream, True, window.stream_span) for window, stream in windows)
