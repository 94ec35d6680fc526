"""The closure of an instant under a program with NOT and AGGREGATE: stratum after stratum, with what it takes back of the background.

Idea: the background is closed once, by strata. Of an instant, each stratum is closed over the one below, which is settled then. Where a
new triple touches what a rule of the stratum negates or aggregates (`dotr.datalog.nonmonotonic_triggers`), static conclusions can fall and others
rise: what may have lost its reason is hidden, with all that was derived from it in the stratum; what follows from the rest all the same
comes back (delete and rederive: Gupta, Mumick, Subrahmanian 1993). What stays hidden is `removed`, for this instant alone: the next one
begins with the background as it was.
Nearly every instant touches nothing of the kind. So an instant is first closed by the rules of all strata at once, where NOT and AGGREGATE
ask the background alone; that is exact unless a watched triple comes.
Without an entailment regime, a stratum's rules read nothing that a higher one derives, so that all strata share one index of the whole
background. A regime is closed in every stratum, so that its rules must not see what belongs to a higher one: each stratum has an index of
its own then.
Invariant: after a stratum, the view and the new triples share none, and are its model over background and instant.
Cost: of an instant that touches nothing, that of its closure and a look at its predicates. Otherwise that in vain, then a look at its
predicates a stratum, the cases touched, what hung on them, and, where something is hidden, handlers that know no fixed background. A group
that changes is summed anew.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dotr.datalog.closure import Closer, Closure, Contradiction, contradictions
from dotr.datalog.derivations import ConstraintViolation, StratumDelta
from dotr.datalog.lower_strata import LowerModel
from dotr.datalog.nonmonotonic_triggers import NonmonotonicItem, predicates_read
from dotr.datalog.stratum_rules import EMPTY_INDEX, StratifiedProgram, StratumRules, lower_models, dispatch_of
from dotr.joins.compile import Row
from dotr.joins.limits import LIMITS, LimitExceeded
from dotr.model.datalog import DatalogRule, Not
from dotr.model.terms import Triple
from dotr.store.masked_index import MaskedIndex
from dotr.store.triples import TripleIndex


class StratumState(NamedTuple):
    """The model of a stratum at an instant: the background without what is gone, and the new triples."""

    view: TripleIndex
    new: StratumDelta
    retracted: dict[Triple, None]

    @property
    def model(self) -> LowerModel:
        return LowerModel(self.view, self.new)


@dataclass(eq=False)
class TriggerChanges:
    """What a stratum's watched atoms make of the changes below: cases that held and may not any more, and cases to be looked at."""

    lost: list[tuple[NonmonotonicItem, Row]] = field(default_factory=list)
    risen: list[tuple[NonmonotonicItem, Row]] = field(default_factory=list)


class StratumIndexes(NamedTuple):
    """The background by strata: `indexes` are its models, the lowest first, the whole background last; `late` holds the static conclusions
    of the strata above the lowest. `apart`: the rule set derives static triples, above the lowest stratum, that a rule of their own stratum
    or a lower one negates or aggregates."""

    indexes: Sequence[TripleIndex]
    late: Container[Triple]
    apart: bool


class Stratified:
    """Closes instants under a stratified program over a background that is closed under it; `static` are its contradictions."""

    def __init__(self, rules: Sequence[DatalogRule], storeys: StratumIndexes, static: Iterable[Contradiction]) -> None:
        layered = StratifiedProgram(rules)
        self._shared = layered.depth if layered.shares_index else 0
        self._late = storeys.late
        self._static = frozenset(static)
        self._limit = LIMITS.triples
        whole = storeys.indexes[-1]
        if layered.shares_index:
            asked = lower_models([whole] * layered.depth)
            self._levels = [
                StratumRules(
                    whole, layered.rules_at(number), layered.up_to(number), [each for each in layered.triggers if each[0] == number], asked
                )
                for number in range(layered.depth)
            ]
        else:
            self._levels = [
                StratumRules(index, rules, rules, layered.triggers[:number], lower_models(storeys.indexes[:number]))
                for number, (index, rules) in enumerate(zip(storeys.indexes, map(layered.up_to, range(layered.depth)), strict=True))
            ]
        self._models = lower_models(storeys.indexes[:-1])
        self._matters = predicates_read(each.table for _, each in layered.triggers)
        self._predicates = None if self._matters is None else frozenset(self._matters)
        at_once = self._matters is not None and not storeys.apart
        self._everything = Closer(dispatch_of(layered.up_to(layered.depth)), whole) if at_once else None

    def limit_to(self, most: int) -> None:
        """So many triples an instant may have beyond the background; to be said before the first."""
        self._limit = most
        if self._everything is not None:
            self._everything.limit_to(most)
        for level in self._levels:
            level.limit = most

    def close(self, triples: Iterable[Triple]) -> Closure:
        """K(t) for an instant that holds these triples. Raises `LimitExceeded`."""
        given = triples if isinstance(triples, list | tuple) else tuple(triples)
        if self._everything is not None:
            new = StratumDelta(self._models)
            try:
                closure = self._everything.close(given, new)
            except LimitExceeded:
                if not self._touches(new):
                    raise
            else:
                if not self._touches(new):
                    return closure
        lowest = self._levels[0]
        new = StratumDelta(lowest.models)
        closure = lowest.closer.close(given, new)
        return self._by_strata(given, StratumState(closure.background, new, {}), closure.contradictions)

    def _touches(self, new: TripleIndex) -> bool:
        """Whether a NOT or an AGGREGATE may be about some of these triples."""
        predicates, matters, by_object = self._predicates, self._matters, new.by_object
        if predicates is None or matters is None:
            return bool(by_object)
        if predicates.isdisjoint(by_object):
            return False
        for predicate in predicates.intersection(by_object):
            objects = matters[predicate]
            if objects is None or not objects.isdisjoint(by_object[predicate]):
                return True
        return False

    def _by_strata(self, given: Sequence[Triple], lowest: StratumState, contradictions: Sequence[Contradiction]) -> Closure:
        found = set(contradictions)
        states = [lowest]
        work = _InstantClosure(self._late, frozenset(given), self._shared, states, found)
        for level in self._levels[1:]:
            states.append(work.settled(level))  # noqa: PERF401 (each looks at those before it)
        view, new, gone = states[-1]
        if len(new) > self._limit:
            raise LimitExceeded(self._limit)
        return Closure(view, new, tuple(sorted(found - self._static)), TripleIndex(gone) if gone else None)


@dataclass(frozen=True, slots=True, eq=False)
class _InstantClosure:
    """The closure of one instant, level by level. `shared` is the number of levels where they share one index, else 0; `states` are those
    settled so far, the lowest first."""

    late: Container[Triple]
    given: frozenset[Triple]
    shared: int
    states: list[StratumState]
    found: set[Contradiction]

    def settled(self, level: StratumRules) -> StratumState:
        """The state of a level over those below."""
        below = self.states[-1]
        changes = self._changes(level)
        if self.shared and not (below.retracted or changes.lost or changes.risen or level.reads_any(below.new)):
            return below
        gone = self._hidden(level, changes)
        view = MaskedIndex(level.index, gone) if gone else level.index
        seeds: list[Triple] = []
        again: list[Triple] = []
        if self.shared:
            new, again = below.new, list(below.new)
            new.models = [LowerModel(view, new)] * self.shared
        else:
            new, seeds = StratumDelta([LowerModel(EMPTY_INDEX, EMPTY_INDEX), *(state.model for state in self.states)]), list(below.new)
        self._close(level, view, new, seeds, again, gone)
        raised = self._raised(level, view, new, changes, gone)
        if raised:
            schema = level.closer.schema  # what an instant brings of it has effect on what is raised, too
            woken = [t for t in new if (t[1], None) in schema or (t[1], t[2]) in schema] if schema else ()
            self._close(level, view, new, raised, woken, gone)
        back = [triple for triple in gone if triple in new.triples]
        if back:
            for triple in back:
                del gone[triple]
            view = MaskedIndex(level.index, gone) if gone else level.index
            new = StratumDelta(new.models, (triple for triple in new if triple not in level.index.triples))
            if self.shared:
                new.models = [LowerModel(view, new)] * self.shared
        return StratumState(view, new, gone)

    def _changes(self, level: StratumRules) -> TriggerChanges:
        """The cases of NOT and AGGREGATE that the changes below this level decide over."""
        changes = TriggerChanges()
        groups: dict[tuple[NonmonotonicItem, Row], None] = {}
        for stratum, watches in level.triggers:
            below = self.states[stratum - 1]
            old, now = level.models[stratum], below.model
            for triples, model, to in ((below.new, now, changes.lost), (TripleIndex(below.retracted), old, changes.risen)):
                if len(triples):
                    for watch, triple in watches.triggered_by(triples):
                        asking = watch.source
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

    def _hidden(self, level: StratumRules, changes: TriggerChanges) -> dict[Triple, None]:
        """The static conclusions that may have lost their reason: those gone below, those of lost cases, and what was derived from them."""
        below = self.states[-1]
        gone = dict(below.retracted)
        static = StratumDelta(level.models)
        found: list[Triple] = []
        ignored: list[ConstraintViolation] = []
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
                level.derive_from(waiting.pop(), level.index, static, found.append, ignored)
        return gone

    def _stands(self, triple: Triple, below: StratumState) -> bool:
        """Whether the model below this level holds a triple; one index for all levels does not tell."""
        return not self.shared and (triple in below.new.triples or triple in below.view.triples)

    def _raised(
        self, level: StratumRules, view: TripleIndex, new: StratumDelta, changes: TriggerChanges, gone: dict[Triple, None]
    ) -> list[Triple]:
        """Conclusions of risen cases, and those hidden triples that still follow."""
        raised: list[Triple] = []
        alarms: list[ConstraintViolation] = []
        for asking, case in changes.risen:
            asking.derive(view, new, raised.append, alarms, *case)
        raised += [triple for triple in gone if triple not in new.triples and level.is_supported(triple, view, new)]
        self.found.update(contradictions(alarms))
        return raised

    def _close(
        self,
        level: StratumRules,
        view: TripleIndex,
        new: StratumDelta,
        seeds: Sequence[Triple],
        again: Sequence[Triple],
        gone: dict[Triple, None],
    ) -> None:
        if not gone:
            self.found.update(level.closer.close(seeds, new, again).contradictions)
            return
        alarms: list[ConstraintViolation] = []
        pending = list(seeds)
        for triple in again:
            level.derive_from(triple, view, new, pending.append, alarms)
        for triple in pending:
            if triple not in view.triples and new.add(triple):
                if len(new) > level.closer.limit:
                    raise LimitExceeded(level.closer.limit)
                level.derive_from(triple, view, new, pending.append, alarms)
        self.found.update(contradictions(alarms))
