"""Closed instants, and the interface of their closers.

Three closers implement it: by rules alone (`dotr.instant.datalog.closure.instant`), with equal
names (`dotr.instant.datalog.same_as.closure`), and with NOT and AGGREGATE
(`dotr.instant.datalog.strata.delete_and_rederive`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.delta_rules import Dispatch
from dotr.instant.datalog.closure.derivations import ConstraintViolation
from dotr.instant.datalog.closure.lower_strata import LowerModel
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple


class Contradiction(NamedTuple):
    """A match of a rule without a head: the rule's name and the matched triples, sorted."""

    rule: str
    triples: tuple[Triple, ...]


class Closure(NamedTuple):
    """K(t): the background, and the delta of the instant.

    `contradictions`: those that need the instant.
    `removed`: static conclusions that the instant retracts; None: none. If there are any,
      `background` is a masked index without them.
    """

    background: TripleIndex
    delta: TripleIndex
    contradictions: tuple[Contradiction, ...]
    removed: TripleIndex | None = None


def contradictions(alarms: Iterable[ConstraintViolation]) -> tuple[Contradiction, ...]:
    """The contradictions of some matches, each once, sorted."""
    return tuple(sorted({Contradiction(rule, tuple(sorted(set(triples)))) for rule, triples in alarms}))


class LowestStratum(NamedTuple):
    """The rules of stratum 0, with those of a rule set, and the background closed under them.

    The background may have more triples, which these rules do not read. `close_above` closes an
    instant of which the lowest stratum is closed already, as `Knowledge.close_above` does.
    """

    rules: Sequence[DatalogRule]
    background: TripleIndex
    close_above: Callable[[Sequence[Triple], Iterable[Triple], Sequence[Contradiction]], Closure]


class InstantCloser(ABC):
    """Closer of instants over a background that is closed under the rules and must not change.

    `ignores_names`: the closure of an instant does not depend on the labels of its blank nodes, up
      to these labels.
    """

    ignores_names: ClassVar[bool] = False
    background: TripleIndex

    @abstractmethod
    def limit_to(self, limit: int) -> None:
        """Sets the maximum number of triples of a closure beyond the background; call before
        `close`.
        """

    @abstractmethod
    def close(self, triples: Iterable[Triple]) -> Closure:
        """K(t) of an instant with these triples. Raises `LimitExceeded`."""

    def adds_nothing_to(self, triples: Sequence[Triple]) -> bool:
        """True if the closure of an instant is certainly the instant's own triples, within the
        limit.
        """
        return False

    def dispatches_of(self, predicate: Term, object: Term | None) -> Sequence[Dispatch] | None:
        """The dispatches of an instant's triples with a predicate and an object (None: any); a
        result of None: the closure depends on more than these.
        """
        return None

    def told(self, found: Iterable[Contradiction], delta: TripleIndex) -> tuple[Contradiction, ...]:
        """The reported form of contradictions that the rules of the tables found, as in `close`:
        each once, sorted.

        `delta`: the triples of the closure without the background.
        """
        return tuple(sorted(set(found)))

    @property
    def lowest(self) -> LowestStratum | None:
        """The lowest stratum of rules with NOT or AGGREGATE; None without these."""
        return None

    def models(self, triples: Iterable[Triple]) -> Sequence[LowerModel]:
        """The model that NOT and AGGREGATE of each stratum read at an instant, for its explanation.

        Empty for rules without NOT and AGGREGATE. Raises `LimitExceeded`.
        """
        return ()
