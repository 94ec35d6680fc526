"""The closure of an instant under a program with NOT and AGGREGATE: stratum after stratum, with what it takes back of the background.

Idea: the background is closed once, by strata. Of an instant, each stratum is closed over the one below, which is settled then. Where a
new triple touches what a rule of the stratum negates or aggregates (`dotr.knowledge.watching`), static conclusions can fall and others
rise: what may have lost its reason is hidden, with all that was derived from it in the stratum; what follows from the rest all the same
comes back (delete and rederive: Gupta, Mumick, Subrahmanian 1993). What stays hidden is `removed`, for this instant alone: the next one
begins with the background as it was.
Without an entailment regime, a stratum's rules read nothing that a higher one derives, so that all strata share one index of the whole
background. A regime is closed in every stratum, so that its rules must not see what belongs to a higher one: each stratum has an index of
its own then; and an instant is first closed over the whole background at once, which is exact unless a watched triple comes.
Invariant: after a stratum, the view and the new triples share none, and are its model over background and instant.
Cost: of an instant whose predicates no higher stratum reads, that of its closure. Otherwise a look at its predicates a stratum, the cases
touched, what hung on them, and, where something is hidden, handlers that know no fixed background. A group that changes is summed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from dotr.knowledge.below import Model
from dotr.knowledge.closure import Closer, Closure, Contradiction, Rules, contradictions
from dotr.knowledge.derivations import Alarm, Derivation, Layer, Push, derivation, matched, support
from dotr.knowledge.limits import LIMITS, LimitExceeded
from dotr.knowledge.loops import Row
from dotr.knowledge.ordering import variables
from dotr.knowledge.positions import Position
from dotr.knowledge.strata import Key, key_of
from dotr.knowledge.triples import TripleIndex, is_hidden
from dotr.knowledge.views import View
from dotr.knowledge.watching import Asking, Watches
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import DatalogRule, Not
from dotr.model.terms import Term, Triple

Numbered: TypeAlias = tuple[DatalogRule, int]
"""A rule and its stratum; one of a rule set belongs to the lowest."""

NOTHING: Final = TripleIndex()


class State(NamedTuple):
    """The model of a stratum at an instant: the background without what is gone, and the new triples."""

    view: TripleIndex
    new: Layer
    gone: dict[Triple, None]

    @property
    def model(self) -> Model:
        return Model(self.view, self.new)


@dataclass(eq=False)
class Changes:
    """What a stratum's watched atoms make of the changes below: cases that held and may not any more, and cases to be looked at."""

    lost: list[tuple[Asking, Row]] = field(default_factory=list)
    risen: list[tuple[Asking, Row]] = field(default_factory=list)


@dataclass(eq=False)
class Head:
    """A head of a rule of some stratum."""

    rule: DatalogRule
    stratum: int
    head: TriplePattern

    @cached_property
    def support(self) -> Derivation:
        return support(self.rule, self.stratum, variables(self.head))


class Level:
    """A stratum over its background. `active` are the rules that take part in its closure, `heads` those that can derive what it holds;
    `watches` are the watched atoms, by the strata of their rules; `models` is what the rules ask of the background, by stratum."""

    def __init__(
        self,
        index: TripleIndex,
        active: Sequence[Numbered],
        heads: Sequence[Numbered],
        watches: Sequence[tuple[int, Watches]],
        models: Sequence[Model],
    ) -> None:
        self.index = index
        self.rules = Rules((rule for rule, _ in active), (stratum for _, stratum in active))
        self.closer = Closer(self.rules, index)
        self.watches = watches
        self.models = models
        self._derivations: dict[Position, Derivation] = {}
        self._may_derive = heads
        self._heads: dict[Key, list[Head]] | None = None

    def may_use(self, new: TripleIndex) -> bool:
        """Whether a rule reads a predicate of these triples."""
        narrow = self.rules.narrow
        return bool(self.rules.wide) or any(predicate in narrow for predicate in new.by_subject)

    def follow(self, triple: Triple, background: TripleIndex, new: TripleIndex, push: Push, alarms: list[Alarm]) -> None:
        """What follows from a triple by the rules of this level, over any background."""
        for position in self._positions(triple):
            terms = matched(position.pattern, triple)
            if terms is not None:
                derive = self._derivations.get(position)
                if derive is None:
                    names = variables(position.pattern)
                    derive = self._derivations[position] = derivation(position.rule, position.stratum, names, position.number)
                derive(background, new, push, alarms, *terms.values())

    def _positions(self, triple: Triple) -> Iterator[Position]:
        predicate = triple[1]
        places = self.rules.narrow.get(predicate)
        if places is not None:
            for object in (None, triple[2]):
                for work in places.get(object, ()):
                    if work.position is not None:
                        yield work.position
        for position in self.rules.wide:
            if position.rule.of_rule_set or isinstance(position.pattern.predicate, Const) or not is_hidden(predicate):
                yield position

    def is_supported(self, triple: Triple, background: TripleIndex, new: TripleIndex) -> bool:
        """Whether a rule of this level or one below derives a triple."""
        if self._heads is None:
            self._heads = {}
            for rule, stratum in self._may_derive:
                for head in rule.head:
                    self._heads.setdefault(key_of(head), []).append(Head(rule, stratum, head))
        _, predicate, object = triple
        found: list[bool] = []
        for key in ((predicate, object), (predicate, None), (None, object), (None, None)):
            for each in self._heads.get(key, ()):
                terms = matched(each.head, triple)
                if terms is not None:
                    each.support(background, new, found.append, *terms.values())
                    if found:
                        return True
        return False


class Stratified:
    """Closes instants under a stratified program. `late` are the static conclusions of the strata above the lowest.

    `everything` closes over the whole background at once, where levels have an index each; `apart` says that this is not exact even where
    nothing is touched: the rule set derives static triples, above the lowest stratum, that a rule of their own stratum or a lower one
    negates or aggregates.
    """

    def __init__(
        self, levels: Sequence[Level], everything: Closer | None, late: frozenset[Triple], static: frozenset[Contradiction], *, apart: bool
    ) -> None:
        self._levels = levels
        self._everything = everything
        self._late = late
        self._static = static
        self._apart = apart
        self._top = levels[-1]
        self._limit = LIMITS.triples
        self._matters = _read_above(levels)

    def limit_to(self, most: int) -> None:
        """So many triples an instant may have beyond the background."""
        self._limit = most
        for closer in [self._everything, *(level.closer for level in self._levels)]:
            if closer is not None:
                closer.limit = most

    def close(self, triples: Iterable[Triple]) -> Closure:
        """K(t) for an instant that holds these triples. Raises `LimitExceeded`."""
        given = list(triples)
        if self._everything is not None and not self._apart:
            new = Layer(self._top.models)
            exceeded: LimitExceeded | None = None
            closure = Closure(self._top.index, new, ())
            try:
                closure = self._everything.close(given, new)
            except LimitExceeded as error:
                exceeded = error
            if not any(True for _, watches in self._top.watches for _ in watches.touched_by(new)):
                if exceeded is not None:
                    raise exceeded
                return closure
        return self._by_strata(given)

    def _by_strata(self, given: list[Triple]) -> Closure:
        lowest = self._levels[0]
        new = Layer(lowest.models)
        closure = lowest.closer.close(given, new)
        if self._everything is None and self._matters is not None and self._matters.isdisjoint(new.by_subject):
            return Closure(lowest.index, new, closure.contradictions)
        found = set(closure.contradictions)
        states = [State(lowest.index, new, {})]
        shared = self._everything is None
        work = _Work(self._late, frozenset(given), len(self._levels) if shared else 0, states, found)
        for level in self._levels[1:]:
            states.append(work.settled(level))  # noqa: PERF401 (each looks at those before it)
        view, new, gone = states[-1]
        if len(new) > self._limit:
            raise LimitExceeded(self._limit)
        return Closure(view, new, tuple(sorted(found - self._static)), TripleIndex(gone) if gone else None)


def _read_above(levels: Sequence[Level]) -> frozenset[Term] | None:
    """The predicates that the strata above the lowest read, negate or aggregate; None: any."""
    found: set[Term] = set()
    for level in levels[1:]:
        watched = [watches.predicates for _, watches in level.watches]
        if level.rules.wide or None in watched:
            return None
        found.update(level.rules.narrow, *(each for each in watched if each is not None))
    return frozenset(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """The closure of one instant, level by level. `shared` is the number of levels where they share one index, else 0; `states` are those
    settled so far, the lowest first."""

    late: frozenset[Triple]
    given: frozenset[Triple]
    shared: int
    states: list[State]
    found: set[Contradiction]

    def settled(self, level: Level) -> State:
        """The state of a level over those below."""
        below = self.states[-1]
        changes = self._changes(level)
        if self.shared and not (below.gone or changes.lost or changes.risen or level.may_use(below.new)):
            return below
        gone = self._hidden(level, changes)
        view = View(level.index, gone) if gone else level.index
        seeds: list[Triple] = []
        again: list[Triple] = []
        if self.shared:
            new, again = below.new, list(below.new)
            new.models = [Model(view, new)] * self.shared
        else:
            new, seeds = Layer([Model(NOTHING, NOTHING), *(state.model for state in self.states)]), list(below.new)
        self._close(level, view, new, seeds, again, gone)
        raised = self._raised(level, view, new, changes, gone)
        if raised:
            self._close(level, view, new, raised, (), gone)
        back = [triple for triple in gone if triple in new.triples]
        if back:
            for triple in back:
                del gone[triple]
            view = View(level.index, gone) if gone else level.index
            new = Layer(new.models, (triple for triple in new if triple not in level.index.triples))
            if self.shared:
                new.models = [Model(view, new)] * self.shared
        return State(view, new, gone)

    def _changes(self, level: Level) -> Changes:
        """The cases of NOT and AGGREGATE that the changes below this level decide over."""
        changes = Changes()
        groups: dict[tuple[Asking, Row], None] = {}
        for stratum, watches in level.watches:
            below = self.states[stratum - 1]
            old, now = level.models[stratum], below.model
            for triples, model, to in ((below.new, now, changes.lost), (TripleIndex(below.gone), old, changes.risen)):
                if len(triples):
                    for watch, triple in watches.touched_by(triples):
                        asking = watch.asking
                        for case in watch.cases(triple, model):
                            if isinstance(asking.item, Not):
                                to.append((asking, case))
                            else:
                                groups[asking, case] = None
        for asking, case in groups:
            before = asking.results(level.models[asking.stratum], case)
            after = asking.results(self.states[asking.stratum - 1].model, case)
            if before != after:
                changes.lost += [(asking, (*case, *row)) for row in before]
                changes.risen += [(asking, (*case, *row)) for row in after]
        return changes

    def _hidden(self, level: Level, changes: Changes) -> dict[Triple, None]:
        """The static conclusions that may have lost their reason: those gone below, those of lost cases, and what was derived from them."""
        below = self.states[-1]
        gone = dict(below.gone)
        static = Layer(level.models)
        found: list[Triple] = []
        ignored: list[Alarm] = []
        for asking, case in changes.lost:
            asking.derive(level.index, static, found.append, ignored, *case)
        late = self.late
        waiting = list(gone)
        while waiting or found:
            for triple in found:
                if triple in late and triple not in gone and triple not in self.given and not self._stands(triple, below):
                    gone[triple] = None
                    waiting.append(triple)
            found.clear()
            if waiting:
                level.follow(waiting.pop(), level.index, static, found.append, ignored)
        return gone

    def _stands(self, triple: Triple, below: State) -> bool:
        """Whether the model below this level holds a triple; one index for all levels does not tell."""
        return not self.shared and (triple in below.new.triples or triple in below.view.triples)

    def _raised(self, level: Level, view: TripleIndex, new: Layer, changes: Changes, gone: dict[Triple, None]) -> list[Triple]:
        """Conclusions of risen cases, and those hidden triples that still follow."""
        raised: list[Triple] = []
        alarms: list[Alarm] = []
        for asking, case in changes.risen:
            asking.derive(view, new, raised.append, alarms, *case)
        raised += [triple for triple in gone if triple not in new.triples and level.is_supported(triple, view, new)]
        self.found.update(contradictions(alarms))
        return raised

    def _close(
        self, level: Level, view: TripleIndex, new: Layer, seeds: Sequence[Triple], again: Sequence[Triple], gone: dict[Triple, None]
    ) -> None:
        if not gone:
            self.found.update(level.closer.close(seeds, new, again).contradictions)
            return
        alarms: list[Alarm] = []
        pending = list(seeds)
        for triple in again:
            level.follow(triple, view, new, pending.append, alarms)
        for triple in pending:
            if triple not in view.triples and new.add(triple):
                if len(new) > level.closer.limit:
                    raise LimitExceeded(level.closer.limit)
                level.follow(triple, view, new, pending.append, alarms)
        self.found.update(contradictions(alarms))


def build(
    closed: TripleIndex,
    rule_set: Sequence[DatalogRule],
    program: Sequence[DatalogRule],
    strata: Sequence[int],
    found: set[Contradiction],
    limit: int,
) -> tuple[TripleIndex, Stratified]:
    """The whole background, from that closed under the rule set and the rules of stratum 0; and what closes instants over it."""
    numbered: list[tuple[DatalogRule, int]] = list(zip(program, strata, strict=True))
    regime: list[Numbered] = [(rule, 0) for rule in rule_set]
    depth = max(strata) + 1
    shared = not rule_set
    indexes = [closed]
    late: dict[Triple, None] = {}
    apart = False

    def own(stratum: int) -> list[tuple[DatalogRule, int]]:
        return [each for each in numbered if each[1] == stratum]

    def up_to(stratum: int) -> list[Numbered]:
        return [*regime, *(each for each in numbered if each[1] <= stratum)]

    watches = [(stratum, Watches(own(stratum))) for stratum in range(1, depth)]

    def models(stratum: int) -> list[Model]:
        return [Model(NOTHING, NOTHING), *(Model(indexes[below], NOTHING) for below in range(stratum))]

    for stratum in range(1, depth):
        active: Sequence[Numbered] = own(stratum) if shared else up_to(stratum)
        new = Layer(models(stratum))
        heads: list[Triple] = []
        alarms: list[Alarm] = []
        for rule, _ in own(stratum):
            derivation(rule, stratum, ())(closed, new, heads.append, alarms)
        closer = Closer(Rules((rule for rule, _ in active), (number for _, number in active)), closed, limit)
        closure = closer.close(heads, new)
        found.update(contradictions(alarms), closure.contradictions)
        late.update(dict.fromkeys(new))
        apart = apart or (not shared and any(True for number, each in watches[:stratum] for _ in each.touched_by(new)))
        if not shared and len(new):
            closed = TripleIndex(closed)
        for triple in new:
            closed.add(triple)
        indexes.append(closed)
    if shared:
        levels = [
            Level(
                closed,
                own(number),
                up_to(number),
                [each for each in watches if each[0] == number],
                [*models(depth - 1), Model(closed, NOTHING)],
            )
            for number in range(depth)
        ]
        everything = None
    else:
        levels = [Level(indexes[number], up_to(number), up_to(number), watches[:number], models(number)) for number in range(depth)]
        every = up_to(depth)
        everything = Closer(Rules((rule for rule, _ in every), (number for _, number in every)), closed)
    return closed, Stratified(levels, everything, frozenset(late), frozenset(found), apart=apart)
