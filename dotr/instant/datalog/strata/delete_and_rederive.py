"""Closure of an instant under NOT and AGGREGATE: by strata, with retraction of static conclusions
(delete and rederive: Gupta, Mumick, Subrahmanian 1993).

Idea: the background is closed once, by strata. For an instant, each stratum is closed over the
model of the stratum below. Where a triple of the delta matches an atom under NOT or AGGREGATE
(`dotr.instant.datalog.strata.stratum_rules`), static conclusions may become false and
others true. Delete: conclusions that may have lost a derivation are masked, with everything derived
from them in the stratum. Rederive: those that still follow from the rest are restored. The others
are `removed`, for this instant alone; the next instant starts from the unchanged background.

A small case: `[?s, <ok>, 1] :- [?s, a, <Sensor>], NOT [?s, <broken>, ?w]`, with `<a> a <Sensor>` in
the background, which then has `<a> <ok> 1`. The instant `<a> <broken> "x"` matches the trigger
atom, so `<a> <ok> 1` is masked; no other rule derives it, so it is removed for this instant.

Single pass: for nearly every instant no trigger atom is matched. An instant is therefore first
closed under the rules of all strata at once, with NOT and AGGREGATE evaluated over the background
alone. The result is exact unless a triple matches a trigger atom.

Indexes: without an entailment regime no rule of a stratum reads conclusions of a higher stratum, so
all strata share one index. The rules of a regime belong to every stratum, and must not read triples
of a higher one; each stratum then has its own index.

Invariant: after a stratum, the view and the delta are disjoint, and together are the stratum's
model over background and instant.

Cost: without a trigger, the closure and a look-up of its predicates. With a trigger, additionally a
look-up for each stratum, the triggered cases and their consequences, and, if triples are masked,
the evaluation of rules over a variable background. A changed group is aggregated again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from dotr.evaluation.joins.compile import Row
from dotr.evaluation.limits import BOUNDS, LIMITS, LimitExceeded
from dotr.evaluation.triples.index import TripleIndex
from dotr.evaluation.triples.masked_index import MaskedIndex
from dotr.instant.datalog.closure.closed_instant import Closure, Contradiction, InstantCloser, LowestStratum, contradictions
from dotr.instant.datalog.closure.derivations import ConstraintViolation, StratumDelta
from dotr.instant.datalog.closure.instant import Closer
from dotr.instant.datalog.closure.lower_strata import LowerModel
from dotr.instant.datalog.strata.stratum_rules import (
    EMPTY_INDEX,
    NonmonotonicItem,
    StratifiedProgram,
    StratumRules,
    dispatch_of,
    lower_models,
    predicates_read,
)
from dotr.model import dataclass
from dotr.model.datalog import DatalogRule, Not
from dotr.model.terms import Triple


class StratumState(NamedTuple):
    """Model of a stratum at an instant: masked background, delta, retracted triples."""

    view: TripleIndex
    delta: StratumDelta
    retracted: dict[Triple, None]

    @property
    def model(self) -> LowerModel:
        """The model that NOT and AGGREGATE of higher strata read."""
        return LowerModel(self.view, self.delta)


@dataclass(eq=False)
class TriggerChanges:
    """Cases of NOT and AGGREGATE that became false (`falsified`) or may have become true
    (`satisfied`).
    """

    falsified: list[tuple[NonmonotonicItem, Row]] = field(default_factory=list)
    satisfied: list[tuple[NonmonotonicItem, Row]] = field(default_factory=list)


class StratumIndexes(NamedTuple):
    """The background by strata.

    `indexes`: the models of the strata, the lowest first, the whole background last.
    `upper_static`: the static conclusions above the lowest stratum.
    `needs_strata`: the rule set derives static triples, above the lowest stratum, that match a
      trigger atom of the same or a lower stratum, so that a single pass is not exact.
    """

    indexes: Sequence[TripleIndex]
    upper_static: Container[Triple]
    needs_strata: bool


class StratifiedCloser(InstantCloser):
    """Closer of instants under a stratified program, over a background that is closed under it.

    `static`: the contradictions of the background alone.
    """

    def __init__(self, rules: Sequence[DatalogRule], stratum_indexes: StratumIndexes, static: Iterable[Contradiction]) -> None:
        program = StratifiedProgram(rules)
        self._shared_strata = program.depth if program.shares_index else 0
        self._upper_static = stratum_indexes.upper_static
        self._static = frozenset(static)
        self._limit = LIMITS.triples
        self._lowest_rules = program.up_to(0)
        self.background = whole = stratum_indexes.indexes[-1]
        if program.shares_index:
            lower = lower_models([whole] * program.depth)
            self._strata = [
                StratumRules(
                    whole, program.rules_at(number), program.up_to(number), [each for each in program.triggers if each[0] == number], lower
                )
                for number in range(program.depth)
            ]
        else:
            self._strata = [
                StratumRules(index, rules, rules, program.triggers[:number], lower_models(stratum_indexes.indexes[:number]))
                for number, (index, rules) in enumerate(zip(stratum_indexes.indexes, map(program.up_to, range(program.depth)), strict=True))
            ]
        self._models = lower_models(stratum_indexes.indexes[:-1])
        self._read = predicates_read(each.table for _, each in program.triggers)
        self._predicates = None if self._read is None else frozenset(self._read)
        single_pass = self._read is not None and not stratum_indexes.needs_strata
        self._single_pass = Closer(dispatch_of(program.up_to(program.depth)), whole) if single_pass else None

    def limit_to(self, limit: int) -> None:
        """Sets the maximum number of triples beyond the background; call before `close`."""
        self._limit = limit
        if self._single_pass is not None:
            self._single_pass.limit_to(limit)
        for stratum in self._strata:
            stratum.limit = limit

    def close(self, triples: Iterable[Triple]) -> Closure:
        """K(t) of an instant with these triples. Raises `LimitExceeded`."""
        instant = triples if isinstance(triples, list | tuple) else tuple(triples)
        if self._single_pass is not None:
            delta, left = StratumDelta(self._models), BOUNDS.left
            try:
                closure = self._single_pass.close(instant, delta)
            except LimitExceeded:
                if not self._may_trigger(delta):
                    raise
            else:
                if not self._may_trigger(delta):
                    return closure
            BOUNDS.left = left
        lowest = self._strata[0]
        delta = StratumDelta(lowest.models)
        closure = lowest.closer.close(instant, delta)
        return self._close_strata(instant, StratumState(closure.background, delta, {}), closure.contradictions)

    @property
    def lowest(self) -> LowestStratum:
        """The lowest stratum."""
        return LowestStratum([rule for rule, _ in self._lowest_rules], self._strata[0].index, self._close_above)

    def _close_above(self, instant: Sequence[Triple], lowest: Iterable[Triple], found: Sequence[Contradiction]) -> Closure:
        """`Knowledge.close_above`."""
        stratum = self._strata[0]
        return self._close_strata(instant, StratumState(stratum.index, StratumDelta(stratum.models, lowest), {}), found)

    def models(self, triples: Iterable[Triple]) -> Sequence[LowerModel]:
        """The model that NOT and AGGREGATE of each stratum read at an instant, for its explanation.

        Raises `LimitExceeded`.
        """
        instant = tuple(triples)
        lowest = self._strata[0]
        delta = StratumDelta(lowest.models)
        closure = lowest.closer.close(instant, delta)
        states = self._states(instant, StratumState(closure.background, delta, {}), set())
        if self._shared_strata:
            return [states[-1].model] * self._shared_strata
        return [LowerModel(EMPTY_INDEX, EMPTY_INDEX), *(state.model for state in states)]

    def _may_trigger(self, delta: TripleIndex) -> bool:
        """True where a triple of the delta may match an atom under NOT or AGGREGATE."""
        predicates, read, by_object = self._predicates, self._read, delta.by_object
        if predicates is None or read is None:
            return bool(by_object)
        if predicates.isdisjoint(by_object):
            return False
        for predicate in predicates.intersection(by_object):
            objects = read[predicate]
            if objects is None or not objects.isdisjoint(by_object[predicate]):
                return True
        return False

    def _close_strata(self, instant: Sequence[Triple], lowest: StratumState, contradictions: Sequence[Contradiction]) -> Closure:
        found = set(contradictions)
        view, delta, retracted = self._states(instant, lowest, found)[-1]
        if len(delta) > self._limit:
            raise LimitExceeded(self._limit)
        return Closure(view, delta, tuple(sorted(found - self._static)), TripleIndex(retracted) if retracted else None)

    def _states(self, instant: Sequence[Triple], lowest: StratumState, found: set[Contradiction]) -> list[StratumState]:
        """The closed strata, the lowest first; contradictions are added to `found`."""
        states = [lowest]
        closure = _InstantClosure(self._upper_static, frozenset(instant), self._shared_strata, states, found)
        for stratum in self._strata[1:]:
            states.append(closure.close_stratum(stratum))  # noqa: PERF401 (each reads the states before it)
        return states


@dataclass(frozen=True, slots=True, eq=False)
class _InstantClosure:
    """Closure of one instant, stratum by stratum.

    `shared_strata`: the number of strata where they share one index, else 0.
    `states`: the closed strata so far, the lowest first.
    """

    upper_static: Container[Triple]
    instant: frozenset[Triple]
    shared_strata: int
    states: list[StratumState]
    contradictions: set[Contradiction]

    def close_stratum(self, stratum: StratumRules) -> StratumState:
        """The state of a stratum over the states of those below."""
        below = self.states[-1]
        changes = self._trigger_changes(stratum)
        if self.shared_strata and not (below.retracted or changes.falsified or changes.satisfied or stratum.reads_any(below.delta)):
            return below
        retracted = self._overdeleted(stratum, changes)
        view = MaskedIndex(stratum.index, retracted) if retracted else stratum.index
        seeds: list[Triple] = []
        revisited: list[Triple] = []
        if self.shared_strata:
            new, revisited = below.delta, list(below.delta)
            new.models = [LowerModel(view, new)] * self.shared_strata
        else:
            new, seeds = StratumDelta([LowerModel(EMPTY_INDEX, EMPTY_INDEX), *(state.model for state in self.states)]), list(below.delta)
        self._close(stratum, view, new, seeds, revisited, retracted)
        rederived = self._rederived(stratum, view, new, changes, retracted)
        if rederived:
            schema = stratum.closer.schema  # schema triples of the instant apply to rederived triples, too
            revisited = [t for t in new if (t[1], None) in schema or (t[1], t[2]) in schema] if schema else []
            self._close(stratum, view, new, rederived, revisited, retracted)
        restored = [triple for triple in retracted if triple in new.triples]
        if restored:
            for triple in restored:
                del retracted[triple]
            view = MaskedIndex(stratum.index, retracted) if retracted else stratum.index
            new = StratumDelta(new.models, (triple for triple in new if triple not in stratum.index.triples))
            if self.shared_strata:
                new.models = [LowerModel(view, new)] * self.shared_strata
        return StratumState(view, new, retracted)

    def _trigger_changes(self, stratum_rules: StratumRules) -> TriggerChanges:
        """Cases of NOT and AGGREGATE that the changes of the lower strata affect."""
        changes = TriggerChanges()
        groups: dict[tuple[NonmonotonicItem, Row], None] = {}
        for stratum, trigger_atoms in stratum_rules.triggers:
            below = self.states[stratum - 1]
            old, now = stratum_rules.models[stratum], below.model
            for triples, model, to in ((below.delta, now, changes.falsified), (TripleIndex(below.retracted), old, changes.satisfied)):
                if len(triples):
                    for trigger, triple in trigger_atoms.triggered_by(triples):
                        source = trigger.source
                        for case in trigger.cases(triple, model):
                            if isinstance(source.item, Not):
                                to.append((source, case))
                            else:
                                groups[source, case] = None
        for source, case in groups:
            before = source.results(stratum_rules.models[source.stratum], case)
            after = source.results(self.states[source.stratum - 1].model, case)
            if before != after:
                changes.falsified += [(source, (*case, *row)) for row in before]
                changes.satisfied += [(source, (*case, *row)) for row in after]
        return changes

    def _overdeleted(self, stratum: StratumRules, changes: TriggerChanges) -> dict[Triple, None]:
        """Delete: static conclusions that may have lost a derivation.

        These are the retracted triples of the stratum below, the conclusions of falsified cases,
        and everything derived from either.
        """
        below = self.states[-1]
        retracted = dict(below.retracted)
        static = StratumDelta(stratum.models)
        conclusions: list[Triple] = []
        ignored: list[ConstraintViolation] = []
        for source, case in changes.falsified:
            source.derive(stratum.index, static, conclusions.append, ignored, *case)
        upper_static = self.upper_static
        queue = list(retracted)
        while queue or conclusions:
            for triple in conclusions:
                if (
                    triple in upper_static
                    and triple not in retracted
                    and triple not in self.instant
                    and not self._holds_below(triple, below)
                ):
                    retracted[triple] = None
                    queue.append(triple)
            conclusions.clear()
            if queue:
                stratum.derive_from(queue.pop(), stratum.index, static, conclusions.append, ignored)
        return retracted

    def _holds_below(self, triple: Triple, below: StratumState) -> bool:
        """True for a triple of the model below; always False for strata that share one index."""
        return not self.shared_strata and (triple in below.delta.triples or triple in below.view.triples)

    def _rederived(
        self, stratum: StratumRules, view: TripleIndex, delta: StratumDelta, changes: TriggerChanges, retracted: dict[Triple, None]
    ) -> list[Triple]:
        """Rederive: conclusions of satisfied cases, and masked triples that are still supported."""
        rederived: list[Triple] = []
        alarms: list[ConstraintViolation] = []
        for source, case in changes.satisfied:
            source.derive(view, delta, rederived.append, alarms, *case)
        rederived += [triple for triple in retracted if triple not in delta.triples and stratum.is_supported(triple, view, delta)]
        self.contradictions.update(contradictions(alarms))
        return rederived

    def _close(
        self,
        stratum: StratumRules,
        view: TripleIndex,
        delta: StratumDelta,
        seeds: Sequence[Triple],
        revisited: Sequence[Triple],
        retracted: dict[Triple, None],
    ) -> None:
        if not retracted:
            self.contradictions.update(stratum.closer.close(seeds, delta, revisited).contradictions)
            return
        alarms: list[ConstraintViolation] = []
        pending = list(seeds)
        for triple in revisited:
            stratum.derive_from(triple, view, delta, pending.append, alarms)
        for triple in pending:
            if triple not in view.triples and delta.add(triple):
                if len(delta) > stratum.closer.limit:
                    raise LimitExceeded(stratum.closer.limit)
                stratum.derive_from(triple, view, delta, pending.append, alarms)
        self.contradictions.update(contradictions(alarms))
