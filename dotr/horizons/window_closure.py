"""V(W | B), what windows of one stream and level say (continuous.md, section 5), kept from report
to report.

Idea (section 11 of that page; IMaRS, sections 3 and 6): an item of time u is inserted with horizon
u, and the clock is the least time that the content (o, t] still holds, o + 1. A fact's horizon is
then the greatest, over its derivations, of the least time of its premises, whatever the RANGE, and
the fact follows from the items after o where it is greater than o. So windows of one stream and
level that end together are *views* of one closure, each with its own o.

| level | the closure | an item |
| --- | --- | --- |
| NONE | without rules | as it is |
| SNAPSHOT | without rules | what it says, closed as an instant |
| GRAPH, WINDOW | over the background, with the rules | as it is |

Programs with NOT or AGGREGATE, whose background may lose conclusions, close a content anew
(`dotr.datalog.said`), and so does the level STREAM. Equal names (owl:sameAs) are closed by the
rows of the tables, kept like others, not by representatives: a class of n names costs n² of them.
Contradictions are told as by closing anew: once, under the representatives, and none of the
background's own.

Cost: what comes and goes (`dotr.horizons.closure`); anew, that of the content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from dotr.datalog.background import Knowledge
from dotr.datalog.closure import Contradiction, needs_more_than
from dotr.datalog.said import SaidCloser
from dotr.datalog.strata import is_nonmonotonic
from dotr.horizons.closure import HorizonClosure
from dotr.horizons.facts import NOW, StaticFacts
from dotr.horizons.index import HeldIndex
from dotr.horizons.rules import CONTRADICTION, FOREVER, NEVER, FactChanges, FactRow, WindowFact
from dotr.horizons.views import ClosureView
from dotr.joins.limits import LIMITS
from dotr.model.continuous import EntailmentLevel
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple
from dotr.model.time import Micros
from dotr.store.triples import TripleIndex, is_hidden
from dotr.windows.extents import TimeSeries


def is_kept(rules: Iterable[DatalogRule], level: EntailmentLevel) -> bool:
    """True where what a window says is kept from report to report, False where it is closed anew.

    >>> is_kept([], EntailmentLevel.GRAPH)
    True
    """
    return level in (EntailmentLevel.NONE, EntailmentLevel.SNAPSHOT) or not any(map(is_nonmonotonic, rules))


class SaidItem(NamedTuple):
    """V of triples: triples and contradictions, each with its horizon, that of the earliest item
    that it needs beside them; `FOREVER` where it needs none.
    """

    triples: list[tuple[Triple, Micros]]
    contradictions: list[tuple[Contradiction, Micros]]


class WindowClosure:
    """Closure of the content of windows, where it is kept (`is_kept`).

    `knowledge`: the background, closed under `rules`; a new version of it needs a new closure, into
    which the content is inserted again. `background`: another background, closed under the rules,
    than all of it: that of the lowest stratum. `begins`: the times after which all contents begin,
    if they are known: items between two of them leave together, so they get one horizon. `limit`:
    the greatest number of triples said. `owns`: the subjects of which it has what items say at
    SNAPSHOT; None: all. Raises `ValueError` where it is not kept.

    >>> from dotr.model.algebra import Const, TriplePattern, Var
    >>> at, inside = (TriplePattern(Var("a"), Const(name), Var("b")) for name in ("<at>", "<in>"))
    >>> rule = DatalogRule("r", (inside,), (at,))
    >>> closure = WindowClosure(EntailmentLevel.GRAPH, Knowledge.load([], [rule]), [rule])
    >>> closure.insert(3, [("<s>", "<at>", "<c>")])
    >>> closure.insert(5, [("<t>", "<at>", "<c>")])
    >>> short = closure.view()
    >>> len(closure.advance(0).began), [str(fact) for fact in short.advance(3).began]
    (4, ["('<t>', '<at>', '<c>')", "('<t>', '<in>', '<c>')"])
    >>> list(short.index.match("<t>", None, None)), len(closure.index)
    ([('<t>', '<at>', '<c>'), ('<t>', '<in>', '<c>')], 4)
    >>> closure.advance(3).ended, len(closure.index)
    ([('<s>', '<at>', '<c>'), ('<s>', '<in>', '<c>')], 2)
    """

    def __init__(
        self,
        level: EntailmentLevel,
        knowledge: Knowledge,
        rules: Sequence[DatalogRule],
        limit: int = LIMITS.triples,
        background: TripleIndex | None = None,
        begins: TimeSeries | None = None,
        owns: Callable[[Term], bool] | None = None,
    ) -> None:
        if not is_kept(rules, level):
            raise ValueError("rules with NOT or AGGREGATE: the background may lose conclusions, close the content anew")
        self._knowledge: Final = knowledge
        self.background: Final = knowledge.background if background is None else background
        self._begins: Final = begins
        self._owns: Final = owns
        self._has_unseen: Final = any(rule.of_rule_set or not rule.head for rule in rules)
        self._closer: Final = SaidCloser(knowledge, rules, limit) if level is EntailmentLevel.SNAPSHOT else None
        has_rules = level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW)
        self._closure: Final = HorizonClosure(rules if has_rules else (), StaticFacts(self.background) if has_rules else None, limit=limit)
        self._coming: dict[Micros, list[Triple]] = {}
        self._item_contradictions: deque[tuple[Micros, Contradiction]] = deque()
        self._begin: Micros | None = None

    @property
    def index(self) -> TripleIndex:
        """The triples that the content says, as of the last `advance`."""
        return self._closure.index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the content says and the background does not have: the default graph's."""
        return HeldIndex(self._closure.held, without=self.background)

    def insert(self, time: Micros, triples: Iterable[Triple]) -> None:
        """Inserts an element that enters the content.

        All elements of one time are inserted before the next `advance`.
        """
        item = self._coming.get(time)
        if item is None:
            self._coming[time] = list(triples)
        else:
            item += triples

    def advance(self, begin: Micros) -> FactChanges:
        """Moves to the content that begins after `begin`; returns what began and ended since.

        Raises `ValueError` where `begin` descends, `LimitExceeded` over the limit; after the latter
        the closure is of no use.
        """
        coming, self._coming = self._coming, {}
        for time, triples in coming.items():
            if time > begin:
                self._closure.insert_all(self._said(time, triples), begin + 1, self._horizon(time))
        self._begin = begin
        while self._item_contradictions and self._item_contradictions[0][0] <= begin:
            self._item_contradictions.popleft()
        return self.seen(self._closure.advance(begin + 1))

    def _horizon(self, time: Micros) -> Micros:
        """The horizon of an item: the first time that contents with it hold together."""
        before = None if self._begins is None else self._begins.last_before(time)
        return time if before is None else before + 1

    def seen(self, changes: FactChanges) -> FactChanges:
        """The changes of triples that queries see: without contradictions and hidden triples."""
        if not self._has_unseen:
            return changes

        def find() -> tuple[list[WindowFact], list[WindowFact], list[WindowFact]]:
            return list(filter(_is_seen, changes.began)), list(filter(_is_seen, changes.ended)), list(filter(_is_seen, changes.renewed))

        return FactChanges(find=find)

    def _said(self, time: Micros, triples: list[Triple]) -> Sequence[WindowFact]:
        if self._closer is None:
            return triples
        said = self._closer.close(triples)
        self._item_contradictions += [(time, each) for each in said.contradictions]
        return list(said.triples) if self._owns is None else [each for each in said.triples if self._owns(each[0])]

    def said_by(self, triples: Iterable[Triple], begin: Micros) -> SaidItem:
        """V(triples | B and the items of the content after `begin`), the triples being in the content.

        Raises `LimitExceeded`.
        """
        facts: list[tuple[Triple, Micros]] = []
        found: list[tuple[Contradiction, Micros]] = []
        for fact, horizon in self._closure.grown(triples, FOREVER, begin).items():
            if len(fact) == 3:
                if not is_hidden(fact[1]):
                    facts.append((fact, horizon))
            elif fact[0] == CONTRADICTION:
                found.append((_contradiction(fact[1]), horizon))
        return SaidItem(facts, found)

    def contradictions(self, begin: Micros | None = None) -> tuple[Contradiction, ...]:
        """The contradictions of the content after `begin` (None: the whole), each once, sorted."""
        after = self._begin if begin is None else begin
        found = [_contradiction(row) for row, cell in self._closure.held.rows(CONTRADICTION) if after is None or cell[NOW] > after]
        told = self.told(found, after)
        if not self._item_contradictions:
            return told
        return tuple(sorted({*told, *(each for time, each in self._item_contradictions if after is None or time > after)}))

    def told(self, found: Sequence[Contradiction], begin: Micros | None = None) -> tuple[Contradiction, ...]:
        """Contradictions by the rules' own rows, as they are told of: sorted, none of the background
        alone, and one for all names that are equal in the content after `begin` (None: the whole).
        """
        if not found:
            return ()
        new = [each for each in found if needs_more_than(self.background, each.triples)]
        held = HeldIndex(self._closure.held, NEVER if begin is None else begin + 1)
        return self._knowledge.told(new, held)

    def view(self) -> WindowClosureView:
        """A shorter window that ends with this one."""
        return WindowClosureView(self, self._closure.view())


class WindowClosureView:
    """Closure of a shorter window that ends together with a closure's content."""

    def __init__(self, closure: WindowClosure, view: ClosureView) -> None:
        self._closure = closure
        self._view = view
        self._begin: Micros | None = None

    @property
    def index(self) -> TripleIndex:
        """The triples that the window's content says, as of the last `advance`."""
        return self._view.index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the window's content says and the background does not have."""
        return HeldIndex(self._view.index.held, self._view.index.least, self._closure.background)

    def advance(self, begin: Micros) -> FactChanges:
        """Moves to the content that begins after `begin`; returns what began, was renewed and ended
        since.

        Raises `ValueError` where `begin` descends, or lies before the closure's.
        """
        self._begin = begin
        return self._closure.seen(self._view.advance(begin + 1))

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions of the window's content."""
        return self._closure.contradictions(self._begin)

    def told(self, found: Sequence[Contradiction]) -> tuple[Contradiction, ...]:
        """Contradictions that triples of the content make, as they are told of."""
        return self._closure.told(found, self._begin)


def _contradiction(row: FactRow) -> Contradiction:
    triples = zip(row[1::3], row[2::3], row[3::3], strict=True)
    return Contradiction(row[0], tuple(sorted(set(triples))))


def _is_seen(fact: WindowFact) -> bool:
    return len(fact) == 3 and not is_hidden(fact[1])
