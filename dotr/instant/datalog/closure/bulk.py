"""Semi-naive closure of many triples at once, in rounds: the closure of the background (Abiteboul,
Hull, Vianu 1995, ch. 13).

Idea: the delta rules of `dotr.instant.datalog.closure.instant`, each compiled as one loop over all
triples of its route. A round adds its delta to the index before any delta rule is applied, so a
match is found at the latest of its triples; the conclusions are the next delta. A table of a
predicate (subject to objects, object to subjects) is built at its first use and maintained from
then on. The conclusions of a delta rule are kept as a *run*: where a delta rule concludes the same
of every subject of its route (all superclasses of a class), the rules that would conclude no more
of the run's subjects are skipped.

Invariant: after a round all matches of all rules within background and index have been found, some
of them twice. The order of rounds and of conclusions is a function of the input.

Cost: about 0.5 µs a triple and 0.3 µs a match, 130 bytes a triple beside its terms; tables of
joined predicates take 200 bytes a triple more. The garbage collector runs on new triples while they
are in the processor's cache: it untracks tuples of strings and never visits them again.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Sequence
from itertools import filterfalse
from typing import Any, Final, NamedTuple, TypeAlias, cast

from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples.index import Ends, TripleIndex, fill, is_hidden
from dotr.instant.datalog.closure.delta_rules import (
    NO_CONCLUSIONS,
    DeltaPosition,
    Dispatch,
    SubjectConclusions,
    bind_schema,
    general_delta_rule,
    keyed_delta_rule,
    routed_delta_rule,
    subject_conclusions,
)
from dotr.instant.datalog.closure.derivations import ConstraintViolation, Push
from dotr.instant.datalog.closure.instant import BackgroundDispatch, RuleDispatch, missing_predicates
from dotr.instant.datalog.closure.lower_strata import LowerModel
from dotr.model.algebra import Const
from dotr.model.terms import Term, Triple

BulkDeltaFunction: TypeAlias = "Callable[[Sequence[Triple], TripleIndex, Push, list[object], list[ConstraintViolation]], None]"

_CHUNK_SIZE: Final = 5_000
"""Number of triples in one call of a delta rule; bounds the duplicate conclusions in memory."""
_COLLECT_AFTER: Final = 5_000
"""Number of new triples after which the garbage collector runs on the youngest generation."""


HIDDEN_TRIPLES: Final = "(unseen)"
"""Key of the counts by rule: triples of hidden predicates, whatever the rule."""


class BulkDeltaRule(NamedTuple):
    """A compiled delta rule with the name of its rule.

    `conclusions`: the (predicate, object) pairs that it concludes of one subject for every triple,
      where these are constant; `concludes_of_subject`: that subject is the triple's own.
    """

    rule: str
    apply: BulkDeltaFunction
    conclusions: SubjectConclusions = NO_CONCLUSIONS
    concludes_of_subject: bool = False


class DeltaRun(NamedTuple):
    """Delta of one predicate; `conclusions` hold of every subject and are in the index already."""

    triples: list[Triple]
    conclusions: SubjectConclusions


class BulkIndex(TripleIndex):
    """The triples of a bulk closure, by predicate in order of first appearance."""

    __slots__ = ("by_predicate", "models")

    by_predicate: dict[Term, list[Triple]]
    """Predicate -> its triples."""
    models: Sequence[LowerModel]
    """Models that NOT and AGGREGATE of each stratum are evaluated in."""

    def __init__(self, models: Sequence[LowerModel] = (), closed: tuple[dict[Term, list[Triple]], set[Triple]] | None = None) -> None:
        """`closed`: triples by predicate, and all as a set; the index takes ownership of both."""
        super().__init__()
        self.models = models
        self.by_predicate, self.triples = ({}, set()) if closed is None else closed
        self.by_subject = _LazyTables(self.by_predicate, 0)
        self.by_object = _LazyTables(self.by_predicate, 2)

    def with_upper(self, upper: BulkIndex) -> BulkIndex:
        """Index of these triples followed, in each predicate, by those that were closed over them.

        Tables of predicates without new triples are shared.
        """
        by_predicate = {
            **self.by_predicate,
            **{predicate: [*self.by_predicate.get(predicate, ()), *triples] for predicate, triples in upper.by_predicate.items()},
        }
        result = BulkIndex(closed=(by_predicate, upper.triples))
        for lower_tables, tables in ((self.by_subject, result.by_subject), (self.by_object, result.by_object)):
            built = cast(_LazyTables, lower_tables).built()
            tables.update((predicate, ends) for predicate, ends in built if predicate not in upper.by_predicate)
        return result

    def extend(self, predicate: Term, triples: Sequence[Triple]) -> None:
        """Adds triples of one predicate, members of `triples` already, to all tables."""
        known = self.by_predicate.get(predicate)
        if known is None:
            self.by_predicate[predicate] = list(triples)
        else:
            known += triples
        for tables in (self.by_subject, self.by_object):
            cast(_LazyTables, tables).extend(predicate, triples)
        if self.has_edges:
            for triple in triples:
                self.extend_edges(triple)

    def _of_predicate(self, predicate: Term) -> Iterator[Triple]:
        return iter(self.by_predicate.get(predicate, ()))


class _LazyTables(dict[Term, Ends]):
    """Predicate -> end -> other ends; the table of a predicate is built at its first use."""

    def __init__(self, by_predicate: dict[Term, list[Triple]], end: int) -> None:
        super().__init__()
        self._by_predicate = by_predicate
        self._end = end

    def __missing__(self, predicate: Term) -> Ends:
        triples = self._by_predicate[predicate]
        ends = self[predicate] = {}
        fill(ends, self._end, triples)
        return ends

    def get(self, predicate: Term, default: Ends | None = None) -> Ends | None:  # type: ignore[override]
        return self[predicate] if predicate in self._by_predicate else default

    def __contains__(self, predicate: object) -> bool:
        return predicate in self._by_predicate

    def __iter__(self) -> Iterator[Term]:
        return iter(self._by_predicate)

    def __len__(self) -> int:
        return len(self._by_predicate)

    def items(self) -> Any:
        return ItemsView(self)

    def built(self) -> Iterable[tuple[Term, Ends]]:
        """The tables that have been built."""
        return super().items()

    def extend(self, predicate: Term, triples: Iterable[Triple]) -> None:
        if dict.__contains__(self, predicate):
            fill(self[predicate], self._end, triples)


class BulkCloser:
    """Closes one set of triples over a background that is closed under the rules.

    `limit`: maximum number of triples beyond the background; exceeding it raises `LimitExceeded`.
    `derived`: the number of triples that each rule was the first to conclude; under
      `HIDDEN_TRIPLES` those of hidden predicates.
    """

    def __init__(self, rules: RuleDispatch, background: TripleIndex, limit: int = sys.maxsize, models: Sequence[LowerModel] = ()) -> None:
        self._limit = limit + len(background)
        self.background = background
        self.index = BulkIndex(models)
        self.index.triples.update(background.triples)
        self.alarms: list[ConstraintViolation] = []
        self.derived: Counter[str] = Counter()
        self._delta: dict[Term, list[DeltaRun]] = {}
        self._uncollected = 0
        self._fixed = rules.fixed
        self._background_dispatch = BackgroundDispatch(rules, background)
        self._compiled: dict[Dispatch, BulkDeltaRule] = {}
        self._general: dict[DeltaPosition, BulkDeltaRule] = {}
        self._waiting: dict[Term, list[DeltaPosition]] = {}  # by a predicate without triples, general ones that need it

    @property
    def schema(self) -> Collection[tuple[Term, Term | None]]:
        """Predicates and objects (None: any) of triples that extend the schema of the background."""
        return self._background_dispatch.dormant.keys()

    def add(self, triples: Iterable[Triple], rule: str = "") -> int:
        """Adds triples to close, loaded or concluded by `rule`; returns the number of different
        ones.

        Triples of the background count too.
        """
        loaded = triples if isinstance(triples, list) else list(triples)
        background = self.background
        in_background = {triple for triple in loaded if triple[1] in background.by_subject and triple in background.triples}
        new_triples = self._register(loaded)
        self._enqueue(new_triples, NO_CONCLUSIONS, rule)
        return len(new_triples) + len(in_background)

    def close(self) -> None:
        """Closes the added triples; `index` then holds all triples beyond the background."""
        while self._delta:
            delta, self._delta = self._delta, {}
            self._round(delta)

    def _round(self, delta: dict[Term, list[DeltaRun]]) -> None:
        """Adds a delta to the index and applies all delta rules; the conclusions are the next
        delta.
        """
        applications: list[tuple[BulkDeltaRule, list[Triple]]] = []
        for predicate, runs in delta.items():
            for run in runs:
                self.index.extend(predicate, run.triples)
        for predicate, runs in delta.items():
            self._activate(self._waiting.pop(predicate, ()))
            for run in runs:
                applications += self._applications(predicate, run)
        for each, triples in applications:
            self._apply(each, triples)
        for position, each in self._general.items():
            fixed = position.pattern.predicate
            for runs in [delta.get(fixed.term, [])] if isinstance(fixed, Const) else delta.values():
                for run in runs:
                    self._apply(each, run.triples)

    def _applications(self, predicate: Term, run: DeltaRun) -> list[tuple[BulkDeltaRule, list[Triple]]]:
        """Delta rules for a run, each with its triples; activates dormant positions."""
        triples, conclusions = run
        applications = [(self._delta_rule(dispatch), triples) for dispatch in self._background_dispatch.unrouted]
        by_object: dict[Term | None, list[Triple]] = {}
        for routes in (self._fixed, self._background_dispatch.routed):
            dispatches = routes.get(predicate)
            if dispatches is None:
                continue
            if not by_object and any(object is not None for object in dispatches):
                by_object = cast("dict[Term | None, list[Triple]]", _grouped(triples, 2))
            few, many = (dispatches, by_object) if len(dispatches) <= len(by_object) else (by_object, dispatches)
            objects = [object for object in few if object in many]
            for object in [None, *objects] if None in dispatches else objects:
                for dispatch in dispatches[object]:
                    if dispatch.position is None:
                        self._activate(dispatch.schema_triggers)
                        continue
                    if dispatch not in self._compiled and self._missing(dispatch.position):
                        continue
                    each = self._delta_rule(dispatch)
                    if not (each.concludes_of_subject and each.conclusions <= conclusions):
                        applications.append((each, triples if object is None else by_object[object]))
        return applications

    def _apply(self, delta_rule: BulkDeltaRule, triples: Sequence[Triple]) -> None:
        for start in range(0, len(triples), _CHUNK_SIZE):
            concluded: list[Triple] = []
            some = triples[start : start + _CHUNK_SIZE] if len(triples) > _CHUNK_SIZE else triples
            delta_rule.apply(some, self.index, concluded.append, [], self.alarms)
            new_triples = self._register(concluded)
            del concluded
            if new_triples:
                self._enqueue(new_triples, delta_rule.conclusions, delta_rule.rule)
                if len(self.index.triples) > self._limit:
                    raise LimitExceeded(self._limit)

    def _register(self, triples: Iterable[Triple]) -> list[Triple]:
        """Adds triples to the set of all triples; returns the new ones, each once."""
        known = self.index.triples
        before = len(known)
        new_triples = list(filterfalse(known.__contains__, triples))
        known.update(new_triples)
        return new_triples if len(known) - before == len(new_triples) else list(dict.fromkeys(new_triples))

    def _enqueue(self, triples: list[Triple], conclusions: SubjectConclusions, rule: str) -> None:
        """Adds triples to the next delta, and counts them for the rule that concluded them, if
        any."""
        for predicate, group in _grouped(triples, 1).items():
            if rule:
                self.derived[HIDDEN_TRIPLES if is_hidden(predicate) else rule] += len(group)
            runs = self._delta.setdefault(predicate, [])
            if runs and runs[-1].conclusions is conclusions:
                runs[-1].triples.extend(group)
            else:
                runs.append(DeltaRun(group, conclusions))
        self._uncollected += len(triples)
        if self._uncollected > _COLLECT_AFTER:
            gc.collect(0)
            self._uncollected = 0

    def _delta_rule(self, dispatch: Dispatch) -> BulkDeltaRule:
        delta_rule = self._compiled.get(dispatch)
        if delta_rule is None:
            position = dispatch.position
            assert position is not None
            if dispatch.key is not None:
                bindings = bind_schema(position, dispatch.key, self.background)
                function = keyed_delta_rule(position, bindings, self.background, bulk=True)
                delta_rule = BulkDeltaRule(position.rule.name, cast(BulkDeltaFunction, function), *subject_conclusions(position, bindings))
            else:
                function = routed_delta_rule(position, self.background, bulk=True)
                delta_rule = BulkDeltaRule(position.rule.name, cast(BulkDeltaFunction, function))
            self._compiled[dispatch] = delta_rule
        return delta_rule

    def _activate(self, positions: Iterable[DeltaPosition]) -> None:
        for position in positions:
            if position in self._general:
                continue
            if missing := self._missing(position):
                self._waiting.setdefault(missing, []).append(position)
            else:
                function = general_delta_rule(position, self.background, bulk=True)
                self._general[position] = BulkDeltaRule(position.rule.name, cast(BulkDeltaFunction, function))

    def _missing(self, position: DeltaPosition) -> Term | None:
        """A predicate of another atom that no triple has so far: nothing is joined yet."""
        missing = missing_predicates(position.others(), self.background, self.index) if position.rule.of_rule_set else ()
        return missing[0] if missing else None


def _grouped(triples: Iterable[Triple], slot: int) -> dict[Term, list[Triple]]:
    """Triples by predicate (slot 1) or object (slot 2)."""
    groups: dict[Term, list[Triple]] = {}
    for triple in triples:
        group = groups.get(triple[slot])
        if group is None:
            groups[triple[slot]] = [triple]
        else:
            group.append(triple)
    return groups
