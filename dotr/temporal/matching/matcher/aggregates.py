"""Aggregates of clauses in generated matchers.

Idea: an aggregate whose constraints are equalities and filters is a query of the runs of an index
(`key_index`, `sums`); any other one reads its candidates. A run may hold events with another term
of an equal key: then the candidates are read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from dotr.evaluation.expressions import condition, write
from dotr.model.algebra import Call, Var
from dotr.model.rules import Mode
from dotr.model.terms import Term
from dotr.temporal.matching.event_store import Measure
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.matcher.candidates import CandidateEmitter, ClassifiedConstraints
from dotr.temporal.matching.rule_templates import PositionalAggregate, PositionalBetween, PositionalClause, PositionalWindow
from dotr.temporal.matching.sums import aggregate_terms

NAN: Final = frozenset(('"NaN"^^<http://www.w3.org/2001/XMLSchema#double>', '"NaN"^^<http://www.w3.org/2001/XMLSchema#float>'))
EQUAL: Final = condition(Call("=", (Var("a"), Var("b"))), (Var("a"), Var("b")))


class AggregateEmitter(CandidateEmitter):
    """Emitter of the aggregates of a matcher."""

    def aggregate(self, place: int, clause: PositionalClause, aggregate: PositionalAggregate, constraints: ClassifiedConstraints) -> None:
        """`?x = F(E.?v) of E`: assigns `g<place>`."""
        quick = self.run_measure(place, clause.scope, aggregate)
        if constraints.tests or place in self.template.consuming:
            quick = None
        measure, answer = quick or (None, "")
        self.request_index(place, constraints, measure, aggregate.attribute)
        self.look_up_run(place, constraints, required=False)
        self.bounds(place, clause.scope)
        nothing = self.bind_global(aggregate_terms(aggregate.function, aggregate.distinct, [], aggregate.fraction), "k")
        if quick is not None:
            self.line(f"if c{place} is None: g{place} = {nothing}")
            if not constraints.equal:
                self.line(f"else: g{place} = {answer}")
                return
            sides = ", ".join(f"s{place}_{number}" for number in range(len(constraints.equal)))
            keys_equal = self.bind_global(_keys_equal(len(constraints.equal)))
            self.line(f"elif not q{place} or {keys_equal}(c{place}.key_terms, {sides}): g{place} = {answer}")
            self.line("else:")
            self.indent += 1
        self.line(f"all{place} = []")
        level = self.indent
        with self.block(f"if c{place} is not None:"):
            inside = self.indent
            self.line(f"i = s{place} = bisect(c{place}, (low{place},))")
            self.line(f"for i in range(s{place}, bisect(c{place}, (high{place} + 1,))):")
            self.indent += 1
            self.line(f"t{place}, o{place}, v{place} = e{place} = c{place}[i]")
            self.skip_rejected(place, None, constraints, tried=quick is None)
            self.line(f"all{place}.append(e{place})")
            self.indent = inside
            if quick is None:
                self.count_candidates(place, Mode.FIRST)
        self.indent = level
        position = None if aggregate.attribute is None else clause.role.attributes.index(aggregate.attribute)
        self.line(f"g{place} = {self.bind_global(_aggregate_events(aggregate, position))}(all{place})")
        if quick is not None:
            self.indent -= 1

    def run_measure(
        self, place: int, scope: PositionalWindow | PositionalBetween, aggregate: PositionalAggregate
    ) -> tuple[Measure, str] | None:
        """The measure that answers an aggregate without reading each event, and the source of
        its query."""
        window = f"low{place}, high{place}"
        match aggregate.function, aggregate.distinct:
            case ("MIN", _):
                return Measure.LEAST, f"c{place}.extremum({window})"
            case ("MAX", _):
                return Measure.GREATEST, f"c{place}.extremum({window})"
            case ("COUNT", False):
                return Measure.COUNT, f"write(c{place}.count_between({window}))"
            case ("SUM", False):
                return Measure.SUM, f"c{place}.sum({window})"
            case ("AVG", False):
                return Measure.SUM, f"c{place}.avg({window})"
            case ("MEDIAN" | "QUANTILE", distinct):
                fraction = self.bind_global(Fraction(aggregate.fraction or "0.5"))
                return Measure.SORTED, f"write(c{place}.statistic({_window(scope)}, {distinct}, {window}).quantile({fraction}))"
            case ("VARIANCE" | "STDDEV", distinct):
                result = "variance" if aggregate.function == "VARIANCE" else "deviation"
                return Measure.MOMENTS, f"write(c{place}.statistic({_window(scope)}, {distinct}, {window}).{result}())"
            case _ if isinstance(scope, PositionalWindow) and scope.reference == 0 and self.is_up_to_now(place):
                return Measure.DISTINCT, f"c{place}.distinct({aggregate.function!r}, {self.match_time(0)}, {scope.near}, {scope.far})"
            case _:
                return None


def _keys_equal(positions: int) -> Callable[..., bool]:
    """Compiles the test that every term of a run's keys equals the term looked up."""
    equal = EQUAL
    if positions == 1:

        def pure(keys: dict[Term, None], side: Term) -> bool:
            return all((term == side and term not in NAN) or equal(term, side) for term in keys)

        return pure

    def all_pure(keys: dict[tuple[Term, ...], None], *sides: Term) -> bool:
        return all(equal(term, side) for terms in keys for term, side in zip(terms, sides, strict=True))

    return all_pure


def _window(scope: PositionalWindow | PositionalBetween) -> str:
    """The source of a value that is equal for windows that move alike: those from the anchor, 10
    to 0 µs back, are `(0, 0, 10)`."""
    return repr((scope.reference, scope.near, scope.far) if isinstance(scope, PositionalWindow) else (scope.first, scope.second))


def _aggregate_events(aggregate: PositionalAggregate, position: int | None) -> Callable[[Sequence[StoredEvent]], Term | None]:
    """An aggregate over a list of events."""
    if position is None:
        return lambda events: write(len(events))
    function, distinct, fraction = aggregate.function, aggregate.distinct, aggregate.fraction
    return lambda events: aggregate_terms(function, distinct, [event[2][position] for event in events], fraction)
