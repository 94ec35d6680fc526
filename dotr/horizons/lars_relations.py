"""Relations of a compiled LARS file: what feeds each of them, and the meaning of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from dotr.horizons.counts import CountedWindow, TupleCount
from dotr.horizons.facts import StaticFacts
from dotr.horizons.lars_rows import AtomRows
from dotr.horizons.rules import WindowRule
from dotr.model.algebra import Slot
from dotr.model.lars import LarsReport
from dotr.model.terms import Variable

EACH_POINT: Final = "EACH POINT"
"""The relation whose one row, of no columns, holds at every point."""

NOW: Final = "NOW"
"""The time of the point evaluated."""

PointWindow: TypeAlias = tuple[int, int]
"""The least and the greatest distance of a window's points, α and β."""


class WindowFeed(NamedTuple):
    """A relation that an atom of the stream enters at u for the points u + α … u + β."""

    relation: str
    window: PointWindow
    with_time: bool


class RunFeed(NamedTuple):
    """A relation of atoms that held at every point of a window; without a window: each atom of the
    point, with the time just before its run began.
    """

    relation: str
    window: PointWindow | None


@dataclass
class PointFeeds:
    """Relations that points themselves enter, each with its window.

    - `within`: the time of an evaluated point; `each`: of every point; both at u + α … u + β.
    - `opened`: one row, from k₁ + α on. `latest`: the time of point k − α, at k.
    - `steps`: by window and j the times of two points of reach that lie 2ʲ points apart.
    - `spans`: at k, for the longest 2ʲ that is no longer than the window, the times of its first
      point and of the point from which on 2ʲ points reach to its last.
    - `covers`: at k, the time of each earlier point in reach, and as for `spans` two times between
      it and k.
    - `has_now`: `NOW` is read.
    """

    within: dict[PointWindow, str] = field(default_factory=dict)
    each: dict[PointWindow, str] = field(default_factory=dict)
    opened: dict[int, str] = field(default_factory=dict)
    latest: dict[int, str] = field(default_factory=dict)
    steps: dict[tuple[int, int], str] = field(default_factory=dict)
    spans: dict[PointWindow, list[str]] = field(default_factory=dict)
    covers: dict[int, list[str]] = field(default_factory=dict)
    has_now: bool = False


@dataclass
class CountFeed:
    """A count of atoms, of all triples or of some, and the windows that it feeds."""

    count: TupleCount
    is_of_all: bool
    windows: list[CountedWindow] = field(default_factory=list)


class ReportedRows(NamedTuple):
    """A REPORT: the relation of its atom's rows, a test of these, and the columns of its attributes,
    sorted.
    """

    report: LarsReport
    relation: str
    rows: AtomRows
    slots: tuple[Slot, ...]
    names: tuple[tuple[Variable, int], ...]


class RelationKind(Enum):
    """Meaning of a relation's rows.

    - PRESENT: atoms of the point evaluated. SOMETIME: of a point of a window. AT: the same, with
      that point's time behind the row. PUT: conclusions at a point, with its time.
    - ALWAYS: atoms of all points of a window. RUN: atoms with a time, from which on they held at
      2ʲ points. BEFORE: atoms with the time of the point just before their run.
    - BACKGROUND: atoms of B.
    """

    PRESENT = "present"
    SOMETIME = "sometime"
    AT = "at"
    PUT = "put"
    ALWAYS = "always"
    RUN = "run"
    BEFORE = "before"
    BACKGROUND = "background"


class RelationMeaning(NamedTuple):
    """Meaning of a relation: atoms of some rows, in a window of points, or in a tuple window (its
    name in `CountedWindow`)."""

    kind: RelationKind
    rows: AtomRows
    window: PointWindow | str | None = None


@dataclass
class LarsRules:
    """A compiled file.

    - `windows`, `runs`: what atoms of the stream feed, by their rows.
    - `meanings`: of the relations of atoms.
    - `silent`: relations whose ends change nothing by themselves.
    - `dense`: for so many points after one with atoms every point is evaluated, FOREVER: always.
    - `reach`: for so many points back points themselves are remembered.
    """

    rules: list[WindowRule] = field(default_factory=list)
    static: StaticFacts = field(default_factory=StaticFacts)
    windows: dict[AtomRows, list[WindowFeed]] = field(default_factory=dict)
    runs: dict[AtomRows, list[RunFeed]] = field(default_factory=dict)
    counts: list[CountFeed] = field(default_factory=list)
    points: PointFeeds = field(default_factory=PointFeeds)
    reports: list[ReportedRows] = field(default_factory=list)
    meanings: dict[str, RelationMeaning] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    dense: int = 0
    reach: int = 0

    @property
    def streamed(self) -> list[AtomRows]:
        """The atoms of the stream that are read, but those that are only counted with all triples."""
        found = dict.fromkeys([*self.windows, *self.runs])
        for feed in self.counts:
            found.update(dict.fromkeys(window.rows for window in feed.windows))
        return list(found)

    @property
    def reads_all_triples(self) -> bool:
        """True if triples of every property are read."""
        return any(each.is_of_all for each in self.counts) or any(
            rows.is_of_triples and rows.predicate.iri is None  # type: ignore[union-attr]
            for rows in self.streamed
        )
