"""Relations of a compiled LARS file: the inputs of each of them, and the meaning of their rows."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from dotr.languages.lars.closure.counts import CountedWindow, TupleCount
from dotr.languages.lars.closure.rows import AtomRows
from dotr.languages.lars.model import LarsReport
from dotr.model import dataclass
from dotr.model.algebra import Slot
from dotr.model.terms import Variable
from dotr.temporal.horizons.facts import StaticFacts
from dotr.temporal.horizons.rules import WindowRule

EACH_POINT: Final = "EACH POINT"
"""The relation whose one row, of no columns, holds at every point."""

NOW: Final = "NOW"
"""The relation whose one row is the time of the point evaluated."""

PointWindow: TypeAlias = tuple[int, int]
"""The least and the greatest distance, in points, of a window's points from its reference: α, β."""


class WindowFeed(NamedTuple):
    """A relation that an atom of point u of the stream enters, for the points u + α … u + β.

    `with_time`: the row ends with the time of u.
    """

    relation: str
    window: PointWindow
    with_time: bool


class RunFeed(NamedTuple):
    """A relation of atoms that hold at every point of a window.

    `window` None: the relation of all atoms of the point, each with the time of the point before
    its run.
    """

    relation: str
    window: PointWindow | None


@dataclass
class PointFeeds:
    """Relations that points themselves enter, by window; u is the point that enters, k the point
    evaluated, k₁ the first point of the line.

    - `within`: the time of u if it is evaluated; `each`: the time of any u; both hold at the points
      u + α … u + β.
    - `opened`: one row without columns, which holds from k₁ + α on.
    - `latest`: the time of point k − α, at k.
    - `steps`: by (β, j), the times of two evaluated points that are 2ʲ points apart.
    - `spans`: two times that cover the window by runs of 2ʲ points, for the greatest 2ʲ that is not
      longer than the window: that of its first point, and that of the point 2ʲ − 1 before its last.
    - `covers`: at k, the time of each earlier point in reach, and two times that cover the points
      after it up to k as in `spans`.
    - `has_now`: the relation `NOW` is read.
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
    """A count of atoms, and the windows that it feeds; `is_of_all`: all triples are counted."""

    count: TupleCount
    is_of_all: bool
    windows: list[CountedWindow] = field(default_factory=list)


class ReportedRows(NamedTuple):
    """A compiled REPORT.

    - `relation`: the relation of its atom; `rows`: the rows of that relation.
    - `slots`: the terms and variables of the atom, which a row must match.
    - `names`: the attributes, each with its column in a row, sorted by name.
    """

    report: LarsReport
    relation: str
    rows: AtomRows
    slots: tuple[Slot, ...]
    names: tuple[tuple[Variable, int], ...]


class RelationKind(Enum):
    """Meaning of a relation's rows.

    - PRESENT: atoms of the point evaluated.
    - SOMETIME: atoms of some point of a window. AT: the same, the time of that point as last
      column.
    - PUT: conclusions of rules at a point (a head with AT), its time as last column.
    - ALWAYS: atoms of all points of a window.
    - RUN: atoms that hold at 2ʲ points from that of a time on, the time as last column.
    - BEFORE: atoms of the point evaluated, the time of the point before their run as last column.
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
    """Meaning of a relation: atoms of some rows, in a window of points, or in a tuple window (the
    name of its `CountedWindow`).
    """

    kind: RelationKind
    rows: AtomRows
    window: PointWindow | str | None = None


@dataclass
class LarsRules:
    """A compiled file.

    - `windows`, `runs`: the relations that atoms of the stream feed, by the rows of the atoms.
    - `meanings`: the meaning of each relation of atoms.
    - `silent`: relations whose rows expire without an effect on conclusions.
    - `dense`: number of points that are all evaluated after a point with atoms; FOREVER: all are.
    - `reach`: number of points back for which evaluated points are kept.
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
        """The rows of the atoms of the stream that rules read, each once; without those of atoms
        that are only counted among all triples.
        """
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
