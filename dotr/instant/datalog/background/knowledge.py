"""Background knowledge, closed once under the rules, and the closure of instants over it.

Idea: the schema (the triples that specialise the rules for a predicate or a class) is closed first.
The other triples are closed over it, so that the rules are already specialised. Both closures are
in bulk (`dotr.instant.datalog.closure.bulk`).

Cost: 0.5 µs a triple, 0.3 µs a match; the index in memory takes 1 µs a triple more.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.joins.compile import Row, compile_join
from dotr.evaluation.limits import BOUNDS, LONGEST_TEXT, MOST_TEXT_OF_BACKGROUND, LimitExceeded
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.bulk import HIDDEN_TRIPLES, BulkCloser
from dotr.instant.datalog.closure.closed_instant import Closure, Contradiction, InstantCloser, LowestStratum, contradictions
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch, computes_terms
from dotr.instant.datalog.closure.lower_strata import LowerModel
from dotr.instant.datalog.closure.safety import check_safety
from dotr.instant.datalog.strata.stratification import is_nonmonotonic, strata
from dotr.model import dataclass
from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.datalog import DatalogRule
from dotr.model.templates import GraphShape
from dotr.model.terms import Term, Triple, Variable, can_be_subject, is_iri
from dotr.model.traverse import free_variables

if TYPE_CHECKING:  # these modules are loaded where rules need them: NOT, AGGREGATE, equal names
    from dotr.instant.datalog.closure.shape_conclusions import ShapeConclusions
    from dotr.instant.datalog.same_as.closure import SameAsRules
    from dotr.instant.datalog.strata.bulk_strata import StratumSizes
    from dotr.instant.datalog.strata.delete_and_rederive import StratumIndexes

__all__ = ["Knowledge", "LimitExceeded", "check_safety", "problems_of"]

MAX_TRIPLES: Final = 2_000_000
MAX_GROWTH: Final = 100
"""Limit of a background: `MAX_TRIPLES`, plus `MAX_GROWTH` triples for each loaded one."""


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """Closed background knowledge.

    `contradictions`: those of the background alone.
    `loaded`, `derived`: the numbers of loaded triples, and of those that the closure added.
    `computes_terms`: rules compute terms, so that an instant may exceed its limit.
    `has_rules`: there are rules, of Datalog files or of an entailment.
    >>> from dotr.model.algebra import Var
    >>> inside = TriplePattern(Var("c"), Const("<in>"), Var("b"))
    >>> at = TriplePattern(Var("a"), Const("<at>"), Var("c"))
    >>> rule = DatalogRule("where", (TriplePattern(Var("a"), Const("<in>"), Var("b")),), (at, inside))
    >>> knowledge = Knowledge.load([("<c>", "<in>", "<b>"), ("<s>", "<at>", "<c>")], [rule])
    >>> knowledge.derived, ("<s>", "<in>", "<b>") in knowledge.background
    (1, True)
    >>> list(knowledge.close([("<t>", "<at>", "<c>"), ("<s>", "<at>", "<c>")]).delta)
    [('<t>', '<at>', '<c>'), ('<t>', '<in>', '<b>')]
    """

    background: TripleIndex
    contradictions: tuple[Contradiction, ...]
    loaded: int
    derived: int
    computes_terms: bool
    _closer: InstantCloser
    has_rules: bool = False

    @classmethod
    def load(cls, triples: Iterable[Triple], rules: Sequence[DatalogRule], limit: int | None = None) -> Knowledge:
        """Closes triples under rules, in memory.

        `limit`: maximum number of triples; None: `MAX_TRIPLES` and `MAX_GROWTH` for each loaded
          one.
        Raises `Refused` with all problems of the rules, or where the limit is exceeded.
        """
        with without_collection():
            return cls.from_closed(close_background(triples, rules, limit), rules)

    @classmethod
    def from_closed(cls, closed: ClosedTriples, rules: Sequence[DatalogRule]) -> Knowledge:
        """Knowledge in memory."""
        background = closed.index()
        indexes = None
        if closed.stratum_sizes is not None:
            from dotr.instant.datalog.strata.bulk_strata import stratum_indexes
            from dotr.instant.datalog.strata.stratum_rules import StratifiedProgram

            indexes = stratum_indexes(background, closed.by_predicate, closed.stratum_sizes, StratifiedProgram(rules))
        return cls.from_index(
            background, rules, closed.contradictions, closed.loaded, by_representatives=closed.by_representatives, stratum_indexes=indexes
        )

    @classmethod
    def from_index(
        cls,
        background: TripleIndex,
        rules: Sequence[DatalogRule],
        contradictions: tuple[Contradiction, ...],
        loaded: int,
        *,
        by_representatives: bool = True,
        stratum_indexes: StratumIndexes | None = None,
    ) -> Knowledge:
        """Knowledge over a background that is closed under the rules already.

        `by_representatives`: as `close_background` returned it.
        `stratum_indexes`: the background by strata, for rules with NOT or AGGREGATE.
        """
        equality = _same_as_rules(rules)
        closer: InstantCloser
        if stratum_indexes is not None:
            from dotr.instant.datalog.strata.delete_and_rederive import StratifiedCloser

            closer = StratifiedCloser(rules, stratum_indexes, contradictions)
        elif equality is not None:
            from dotr.instant.datalog.same_as.closure import SameAsCloser

            closer = SameAsCloser(equality, rules, background, by_representatives=by_representatives)
        else:
            closer = Closer(RuleDispatch(filter(_has_atoms, rules)), background)
        return cls(background, contradictions, loaded, len(background) - loaded, any(map(computes_terms, rules)), closer, bool(rules))

    @property
    def ignores_names(self) -> bool:
        """True if the closure of an instant does not depend on the labels of its blank nodes, up to
        these labels. Aggregates and the choice of a representative depend on the order of terms.
        """
        return self._closer.ignores_names

    def limit_to(self, limit: int) -> None:
        """Sets the maximum number of triples of an instant beyond the background; call before
        `close`.
        """
        self._closer.limit_to(limit)

    def close(self, triples: Iterable[Triple]) -> Closure:
        """K(t) of an instant with these triples; keeps no state. Raises `LimitExceeded`."""
        return self._closer.close(triples)

    def adds_nothing_to(self, triples: Sequence[Triple]) -> bool:
        """True if the closure of an instant is certainly the instant's own triples, within the
        limit.

        >>> Knowledge.load([], []).adds_nothing_to([("<s>", "<at>", "<c>")])
        True
        """
        return self._closer.adds_nothing_to(triples)

    def conclusions_of(self, shapes: Collection[GraphShape]) -> ShapeConclusions | None:
        """All conclusions of rules from instants of graphs of some shapes; None where they cannot
        be derived from the shapes.
        """
        from dotr.instant.datalog.closure.shape_conclusions import shape_conclusions

        return shape_conclusions(shapes, self._closer)

    @property
    def lowest_stratum(self) -> LowestStratum | None:
        """The lowest stratum of rules with NOT or AGGREGATE; None without these."""
        return self._closer.lowest

    def close_above(self, instant: Sequence[Triple], lowest: Iterable[Triple], found: Sequence[Contradiction]) -> Closure:
        """K(t) of an instant whose lowest stratum is closed already, for rules with NOT or
        AGGREGATE.

        `instant`: its triples. `lowest`: the triples of the lowest stratum's model without its
        background. `found`: the contradictions of the lowest stratum. Raises `LimitExceeded`.
        """
        stratum = self.lowest_stratum
        assert stratum is not None, "rules with NOT or AGGREGATE"
        return stratum.close_above(instant, lowest, found)

    def told(self, found: Iterable[Contradiction], delta: TripleIndex) -> tuple[Contradiction, ...]:
        """The reported form of contradictions that the rules of the tables found, as in `close`:
        each once, sorted, and one for all equal names where the closure is over representatives.

        `delta`: the triples of the closure without the background.
        """
        return self._closer.told(found, delta)

    def lower_models(self, triples: Iterable[Triple]) -> Sequence[LowerModel]:
        """The model that NOT and AGGREGATE of each stratum read at an instant, for its explanation.

        Empty for rules without NOT and AGGREGATE. Raises `LimitExceeded`.
        """
        return self._closer.models(triples)


@contextmanager
def without_collection() -> Iterator[None]:
    """Disables garbage collection, which would double the time and free nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True, slots=True, eq=False)
class ClosedTriples:
    """A closed background.

    `by_predicate`, `triples`: its triples by predicate, and as a set.
    `by_rule`: the number of triples that each rule was the first to derive.
    `by_representatives`: the closure was computed over representatives of equal names.
    `expanded`: the index in which equal names share lists; None without equal names.
    `stratum_sizes`: the sizes of the lower strata, for rules with several strata.
    """

    by_predicate: Mapping[Term, Sequence[Triple]]
    triples: AbstractSet[Triple]
    contradictions: tuple[Contradiction, ...]
    loaded: int
    by_rule: Mapping[str, int]
    by_representatives: bool = True
    expanded: TripleIndex | None = None
    stratum_sizes: StratumSizes | None = None

    def index(self) -> TripleIndex:
        """The index of the triples in memory."""
        return self.expanded or TripleIndex.from_groups(self.by_predicate, cast("set[Triple]", self.triples))


def problems_of(rules: Sequence[DatalogRule]) -> list[Diagnostic]:
    """Diagnostics of all unsafe rules, and of recursion through NOT or AGGREGATE."""
    problems = [problem for rule in rules if not rule.of_rule_set for problem in check_safety(rule)]
    try:
        strata([rule for rule in rules if not rule.of_rule_set])
    except Refused as refused:
        problems += refused.diagnostics
    return problems


def close_background(triples: Iterable[Triple], rules: Sequence[DatalogRule], limit: int | None = None) -> ClosedTriples:
    """Closes triples under rules.

    `limit`: as in `Knowledge.load`.
    Raises `Refused` with all problems of the rules, or where the limit is exceeded.
    """
    problems = problems_of(rules)
    if problems:
        raise Refused(problems)
    BOUNDS.start(LONGEST_TEXT, MOST_TEXT_OF_BACKGROUND)
    loaded = triples if isinstance(triples, list) else list(triples)
    maximum = MAX_TRIPLES + MAX_GROWTH * len(loaded) if limit is None else limit
    try:
        return _close_by_strata(loaded, rules, maximum) if any(map(is_nonmonotonic, rules)) else _close_with_same_as(loaded, rules, maximum)
    except LimitExceeded as error:
        hint = "A rule that computes new terms (BIND) from its own conclusions may never end: bound it by a FILTER."
        raise refuse("K308", f"the background: {error}", hint=hint) from None


def _close_by_strata(loaded: list[Triple], rules: Sequence[DatalogRule], limit: int) -> ClosedTriples:
    """Closes under rules with NOT or AGGREGATE, the lowest stratum first."""
    from dotr.instant.datalog.strata.bulk_strata import ClosedStrata, close_strata
    from dotr.instant.datalog.strata.stratum_rules import StratifiedProgram

    program = StratifiedProgram(rules)
    lowest = _close(loaded, [rule for rule, _ in program.up_to(0)], limit)
    by_predicate, triples = cast("dict[Term, list[Triple]]", lowest.by_predicate), cast("set[Triple]", lowest.triples)
    closed = ClosedStrata(by_predicate, triples, set(lowest.contradictions), Counter(lowest.by_rule))
    sizes = close_strata(closed, program, limit)
    contradictions = tuple(sorted(closed.contradictions))
    return ClosedTriples(closed.by_predicate, closed.triples, contradictions, lowest.loaded, closed.by_rule, stratum_sizes=sizes)


def _close_with_same_as(loaded: list[Triple], rules: Sequence[DatalogRule], limit: int) -> ClosedTriples:
    """Closes over representatives of equal names where the rules allow, else by the tables."""
    equality = _same_as_rules(rules)
    if equality is None:
        return _close(loaded, rules, limit)
    from dotr.instant.datalog.same_as.closure import close_by_representatives
    from dotr.instant.datalog.same_as.expand import TriplesByPredicate

    rewritten = equality.rules
    merged = close_by_representatives(equality, loaded, lambda normal: _close(normal, rewritten, limit))
    if merged is None:
        return replace(_close(loaded, rules, limit), by_representatives=False)
    if merged.expanded is None:
        return replace(merged.closed, contradictions=tuple(sorted(merged.contradictions)))
    count, by_closure = len(set(loaded)), Counter(merged.closed.by_rule)
    visible = merged.expanded.visible_count()
    by_closure[HIDDEN_TRIPLES] = 0
    by_rule = {**by_closure, "eq-rep": visible - count - sum(by_closure.values()), HIDDEN_TRIPLES: len(merged.expanded) - visible}
    contradictions = tuple(sorted(merged.contradictions))
    return ClosedTriples(
        TriplesByPredicate(merged.expanded), merged.expanded.triples, contradictions, count, by_rule, expanded=merged.expanded
    )


def _same_as_rules(rules: Sequence[DatalogRule]) -> SameAsRules | None:
    """Rules over representatives of equal names; None where the rules lack the tables' rules of
    equality, or depend on names as such.
    """
    if not any(rule.of_rule_set for rule in rules):
        return None
    from dotr.instant.datalog.same_as.closure import SameAsRules

    return SameAsRules.from_rules(rules)


def _close(triples: list[Triple], rules: Sequence[DatalogRule], limit: int) -> ClosedTriples:
    found: set[Contradiction] = set()
    by_rule: Counter[str] = Counter()
    facts: list[tuple[str, list[Triple]]] = []
    for rule in rules:
        if not _has_atoms(rule):
            rows = _rows(rule)
            facts.append((rule.name, _facts(rule, rows)))
            if rows and not rule.head:
                found.add(Contradiction(rule.name, ()))
    dispatch = RuleDispatch(filter(_has_atoms, rules))
    closer = BulkCloser(dispatch, TripleIndex(), limit)
    if of_schema := closer.schema:
        closer.add(triple for triple in triples if (triple[1], None) in of_schema or (triple[1], triple[2]) in of_schema)
        for name, each in facts:
            closer.add((t for t in each if (t[1], None) in of_schema or (t[1], t[2]) in of_schema), name)
        closer.close()
        found.update(contradictions(closer.alarms))
        by_rule += closer.derived
    schema = closer.index
    closer = BulkCloser(dispatch, TripleIndex.from_groups(schema.by_predicate, schema.triples), limit)
    loaded = closer.add(triples)
    for name, each in facts:
        closer.add(each, name)
    closer.close()
    found.update(contradictions(closer.alarms))
    by_rule += closer.derived
    index = closer.index
    for predicate, more in schema.by_predicate.items():
        index.by_predicate.setdefault(predicate, []).extend(more)
    return ClosedTriples(index.by_predicate, index.triples, tuple(sorted(found)), loaded, by_rule)


def _has_atoms(rule: DatalogRule) -> bool:
    return any(isinstance(item, TriplePattern) for item in rule.body)


def _rows(rule: DatalogRule) -> list[Row]:
    """Matches of a rule without atoms: one row, or none where a condition fails."""
    return compile_join(rule.body, [], [], _names(rule))(TripleIndex(), TripleIndex())


def _names(rule: DatalogRule) -> list[Variable]:
    return list(dict.fromkeys(name for head in rule.head for name in free_variables(head)))


def _facts(rule: DatalogRule, rows: Iterable[Row]) -> list[Triple]:
    facts: list[Triple] = []
    for row in rows:
        terms = dict(zip(_names(rule), row, strict=True))
        for head in rule.head:
            subject, predicate, object = (_term(slot, terms) for slot in (head.subject, head.predicate, head.object))
            if subject and predicate and object and is_iri(predicate) and can_be_subject(subject):
                facts.append((subject, predicate, object))
    return facts


def _term(slot: Slot, terms: Mapping[Variable, Term | None]) -> Term | None:
    return slot.term if isinstance(slot, Const) else terms[slot.name]
