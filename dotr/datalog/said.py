"""V(X | Y): what triples say, given others (continuous.md, section 5), by closing anew.

Idea: the model C of the program over Y and X is closed as an instant is. Then V begins with X and
with what C has and the model of Y alone has not, and grows by every rule with a premise in V and
the others in C, its conclusion in V even where the background has it already.
Cost: that of closing X and Y, and of the matches with a premise in V.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dotr.datalog.background import Knowledge
from dotr.datalog.closure import Closure, Contradiction
from dotr.datalog.delta_positions import DeltaPosition, delta_positions
from dotr.datalog.delta_rules import DeltaRule, general_delta_rule
from dotr.datalog.derivations import ConstraintViolation
from dotr.datalog.strata import is_nonmonotonic, strata
from dotr.joins.limits import LIMITS, LimitExceeded
from dotr.model.algebra import Const
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple
from dotr.store.triples import TripleIndex, is_hidden


class Said(NamedTuple):
    """V, the triples said, and the contradictions that they make."""

    triples: TripleIndex
    contradictions: tuple[Contradiction, ...]


class SaidCloser:
    """Closer of contents of windows over one background.

    `rules` are those of the background, `limit` is the greatest number of triples of V.

    >>> from dotr.model.algebra import Var, TriplePattern
    >>> at, inside = (TriplePattern(Var("a"), Const(name), Var("b")) for name in ("<at>", "<in>"))
    >>> rule = DatalogRule("r", (inside,), (at,))
    >>> background = [("<s>", "<at>", "<c>"), ("<t>", "<at>", "<c>")]
    >>> closer = SaidCloser(Knowledge.load(background, [rule]), [rule])
    >>> sorted(closer.close([("<s>", "<at>", "<c>")]).triples)
    [('<s>', '<at>', '<c>'), ('<s>', '<in>', '<c>')]
    """

    def __init__(self, knowledge: Knowledge, rules: Sequence[DatalogRule], limit: int = LIMITS.triples) -> None:
        self.knowledge = knowledge
        self.rules = rules
        self.limit = limit
        self._by_predicate: dict[Term, list[DeltaPosition]] = {}
        self._for_all: list[DeltaPosition] = []
        for rule in rules:
            for position in delta_positions(rule) if rule.head else ():
                predicate = position.pattern.predicate
                if isinstance(predicate, Const):
                    self._by_predicate.setdefault(predicate.term, []).append(position)
                else:
                    self._for_all.append(position)
        self._compiled: dict[DeltaPosition, DeltaRule] = {}
        self._not_lowest = frozenset(map(id, rules)) - frozenset(map(id, _lowest_alone(rules)))

    @property
    def has_rules(self) -> bool:
        """True if some rule concludes something; otherwise V(X | Y) is X."""
        return bool(self._by_predicate or self._for_all)

    def close(self, triples: Iterable[Triple], known: Sequence[Triple] = ()) -> Said:
        """V(triples | background and known). Raises `LimitExceeded`."""
        said = list(dict.fromkeys(triples))
        if not self.has_rules and not known:
            closure = self.knowledge.close(said)
            return Said(TripleIndex(said), closure.contradictions)
        closure = self.knowledge.close([*known, *said])
        new: Iterable[Triple] = closure.delta
        contradictions = closure.contradictions
        if known:
            before = self.knowledge.close(known)
            new = [triple for triple in closure.delta if triple not in before.delta]
            new += [triple for triple in before.removed or () if triple in closure.background]
            contradictions = tuple(each for each in contradictions if each not in before.contradictions)
        return Said(self._grown(dict.fromkeys([*said, *new]), closure), contradictions)

    def close_on(self, lowest: Iterable[Triple], closure: Closure) -> Said:
        """V of a content, `lowest` being what it says under the rules of the lowest stratum, and
        `closure` the model of all strata. Raises `LimitExceeded`.
        """
        said = dict.fromkeys(lowest)
        number = len(said)
        said |= dict.fromkeys(closure.delta)
        return Said(self._grown(said, closure, number), closure.contradictions)

    def _grown(self, said: dict[Triple, None], closure: Closure, lowest: int = 0) -> TripleIndex:
        """The least superset of some triples that has every conclusion with a premise in it.

        The first `lowest` of them have those of the lowest stratum's rules already.
        """
        background, delta = closure.background, closure.delta
        compiled = self._compiled if background is self.knowledge.background else {}
        queue = list(said)
        alarms: list[ConstraintViolation] = []
        active: list[DeltaRule] = []
        for number, triple in enumerate(queue):
            subject, predicate, object_ = triple
            concluded: list[Triple] = []
            for position in (*self._by_predicate.get(predicate, ()), *self._for_all):
                if number < lowest and id(position.rule) not in self._not_lowest:
                    continue
                rule = compiled.get(position)
                if rule is None:
                    rule = compiled[position] = general_delta_rule(position, background)
                rule(subject, predicate, object_, delta, concluded.append, active, alarms)
            for each in concluded:
                if each not in said and (each in delta or each in background):
                    said[each] = None
                    queue.append(each)
            if len(said) > self.limit:
                raise LimitExceeded(self.limit)
        return TripleIndex(triple for triple in said if not is_hidden(triple[1]))


def _lowest_alone(rules: Sequence[DatalogRule]) -> list[DatalogRule]:
    """The rules of the lowest stratum, where they read nothing that higher strata conclude: there is
    no rule set, which is closed in every stratum.
    """
    if any(rule.of_rule_set for rule in rules) or not any(map(is_nonmonotonic, rules)):
        return []
    return [rule for rule, stratum in zip(rules, strata(rules), strict=True) if stratum == 0]
