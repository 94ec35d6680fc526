"""V(W | B), the facts that the contents of windows entail given the background (continuous.md,
section 5), maintained incrementally from report to report.

Idea (section 11 of that page; IMaRS, sections 3 and 6): an item of time u is inserted with horizon
u, and the closure's point is o + 1, the least time in the content (o, t]. A fact's horizon is then
the maximum, over its derivations, of the minimum time of the premises, for any RANGE. The fact
follows from the items after o if its horizon is greater than o. So windows of one stream and level
that end together are *views* of one closure, each with its own o.

| level | rules of the closure | an item is inserted as |
| --- | --- | --- |
| NONE | none | its triples |
| SNAPSHOT | none | the triples that it entails, closed as an instant |
| GRAPH, WINDOW | all, over the background | its triples |

Contents are recomputed (`dotr.instant.datalog.content_entailment`) in programs with NOT or
AGGREGATE, whose background may lose conclusions, and at the level STREAM. Equal names (owl:sameAs)
are closed by the rules of the tables, and not by representatives: a class of n names costs n²
triples. Contradictions are reported as after recomputing: once, under the representatives, without
those of the background alone.

Cost: proportional to the changes (`dotr.temporal.horizons.closure`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from dotr.evaluation.limits import LIMITS
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.closure.instant import needs_more_than
from dotr.instant.datalog.content_entailment import ContentCloser
from dotr.instant.datalog.strata.stratification import is_nonmonotonic
from dotr.languages.continuous.model import EntailmentLevel
from dotr.languages.continuous.windows.extents import Series
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple
from dotr.model.time import Micros
from dotr.temporal.horizons.closure import ClosureView, HorizonClosure
from dotr.temporal.horizons.facts import NOW, StaticFacts
from dotr.temporal.horizons.index import HeldIndex
from dotr.temporal.horizons.rules import CONTRADICTION, FOREVER, NEVER, FactChanges, FactRow, WindowFact


def is_kept(rules: Iterable[DatalogRule], level: EntailmentLevel) -> bool:
    """True if the facts that a content entails are maintained incrementally, False if recomputed.

    >>> is_kept([], EntailmentLevel.GRAPH)
    True
    """
    return level in (EntailmentLevel.NONE, EntailmentLevel.SNAPSHOT) or not any(map(is_nonmonotonic, rules))


class ItemEntailment(NamedTuple):
    """The triples and contradictions that an item entails, given a content; each with its horizon.

    The horizon is the time in µs since 1970 of the earliest item of the content that the derivation
    needs; `FOREVER` if it needs none.
    """

    triples: list[tuple[Triple, Micros]]
    contradictions: list[tuple[Contradiction, Micros]]


class WindowClosure:
    """Incremental closure of the content of a window, for levels and rules of `is_kept`.

    - `knowledge`: the background, closed under `rules`. A new version of it needs a new closure,
      into which the content is inserted again.
    - `background`: replaces the background of `knowledge`, for example by that of the lowest
      stratum; closed under the rules.
    - `begins`: the times after which contents begin, if they are known. Items between two of them
      leave together, so they get one horizon.
    - `limit`: the greatest number of triples.
    - `owns`: at SNAPSHOT, test of the subjects whose triples are inserted; None: all are.

    Times are in µs since 1970. Raises `ValueError` unless `is_kept`.

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
        begins: Series | None = None,
        owns: Callable[[Term], bool] | None = None,
    ) -> None:
        if not is_kept(rules, level):
            raise ValueError("rules with NOT or AGGREGATE: the background may lose conclusions, close the content anew")
        self._knowledge: Final = knowledge
        self.background: Final = knowledge.background if background is None else background
        self._begins: Final = begins
        self._owns: Final = owns
        self._has_invisible: Final = any(rule.of_rule_set or not rule.head for rule in rules)
        self._closer: Final = ContentCloser(knowledge, rules, limit) if level is EntailmentLevel.SNAPSHOT else None
        has_rules = level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW)
        self._closure: Final = HorizonClosure(rules if has_rules else (), StaticFacts(self.background) if has_rules else None, limit=limit)
        self._pending: dict[Micros, list[Triple]] = {}
        self._item_contradictions: deque[tuple[Micros, Contradiction]] = deque()
        self._begin: Micros | None = None

    @property
    def index(self) -> TripleIndex:
        """The triples that the content entails, as of the last `advance`; read-only."""
        return self._closure.index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the content entails without those of the background, for default
        graphs."""
        return HeldIndex(self._closure.held, without=self.background)

    def insert(self, time: Micros, triples: Iterable[Triple]) -> None:
        """Inserts an element that enters the content.

        All elements of one time must be inserted before the next `advance`.
        """
        item = self._pending.get(time)
        if item is None:
            self._pending[time] = list(triples)
        else:
            item += triples

    def advance(self, begin: Micros) -> FactChanges:
        """Moves to the content that begins after `begin`; returns the triples that began and ended.

        Raises `ValueError` where `begin` descends, `LimitExceeded` over the limit; after the latter
        the closure cannot be used.
        """
        pending, self._pending = self._pending, {}
        for time, triples in pending.items():
            if time > begin:
                self._closure.insert_all(self._inserted_triples(time, triples), begin + 1, self._horizon(time))
        self._begin = begin
        while self._item_contradictions and self._item_contradictions[0][0] <= begin:
            self._item_contradictions.popleft()
        return self.seen(self._closure.advance(begin + 1))

    def _horizon(self, time: Micros) -> Micros:
        """The horizon of an item: its time; if the begins are known, the least time that leaves
        contents together with it.
        """
        before = None if self._begins is None else self._begins.last_before(time)
        return time if before is None else before + 1

    def seen(self, changes: FactChanges) -> FactChanges:
        """The changes of triples that are visible to queries: without contradictions and hidden
        triples.
        """
        if not self._has_invisible:
            return changes

        def find() -> tuple[list[WindowFact], list[WindowFact], list[WindowFact]]:
            began, ended, renewed = (list(filter(_is_visible, facts)) for facts in (changes.began, changes.ended, changes.renewed))
            return began, ended, renewed

        return FactChanges(find=find)

    def _inserted_triples(self, time: Micros, triples: list[Triple]) -> Sequence[WindowFact]:
        """The triples to insert for an item; at SNAPSHOT those that it entails."""
        if self._closer is None:
            return triples
        entailed = self._closer.close(triples)
        self._item_contradictions += [(time, each) for each in entailed.contradictions]
        return list(entailed.triples) if self._owns is None else [each for each in entailed.triples if self._owns(each[0])]

    def entailed_by(self, triples: Iterable[Triple], begin: Micros) -> ItemEntailment:
        """V(triples | B and the items of the content after `begin`): the triples and contradictions
        that `triples`, which must be in the content, entail.

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
        return ItemEntailment(facts, found)

    def contradictions(self, begin: Micros | None = None) -> tuple[Contradiction, ...]:
        """The contradictions of the content after `begin` (None: of the whole content), each once,
        sorted.
        """
        after = self._begin if begin is None else begin
        found = [_contradiction(row) for row, cell in self._closure.held.rows(CONTRADICTION) if after is None or cell[NOW] > after]
        reported = self.told(found, after)
        if not self._item_contradictions:
            return reported
        return tuple(sorted({*reported, *(each for time, each in self._item_contradictions if after is None or time > after)}))

    def told(self, found: Sequence[Contradiction], begin: Micros | None = None) -> tuple[Contradiction, ...]:
        """The reported form of contradictions that rules found: sorted, without those of the
        background alone, and one for all names that are equal in the content after `begin` (None:
        in the whole).
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
    """Closure of a shorter window with the same end as a closure's content."""

    def __init__(self, closure: WindowClosure, view: ClosureView) -> None:
        self._closure = closure
        self._view = view
        self._begin: Micros | None = None

    @property
    def index(self) -> TripleIndex:
        """The triples that the window's content entails, as of the last `advance`; read-only."""
        return self._view.index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the window's content entails, without those of the background."""
        return HeldIndex(self._view.index.held, self._view.index.least, self._closure.background)

    def advance(self, begin: Micros) -> FactChanges:
        """Moves to the content that begins after `begin`, in µs since 1970; returns the triples
        that began, were renewed and ended.

        Raises `ValueError` where `begin` descends, or lies before the closure's.
        """
        self._begin = begin
        return self._closure.seen(self._view.advance(begin + 1))

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions of the window's content."""
        return self._closure.contradictions(self._begin)

    def told(self, found: Sequence[Contradiction]) -> tuple[Contradiction, ...]:
        """The reported form of contradictions of the content, as in `WindowClosure.told`."""
        return self._closure.told(found, self._begin)


def _contradiction(row: FactRow) -> Contradiction:
    triples = zip(row[1::3], row[2::3], row[3::3], strict=True)
    return Contradiction(row[0], tuple(sorted(set(triples))))


def _is_visible(fact: WindowFact) -> bool:
    return len(fact) == 3 and not is_hidden(fact[1])
