"""V(X | Y), the triples that X entails given Y (continuous.md, section 5), by closing X and Y as an
instant.

Idea: let C be the model of the program over Y and X. V is the least set that contains X, the
triples of C that are not in the model of Y alone, and each conclusion of a rule with a premise in V
and the others in C, even if the background has the conclusion already.

A small case: Y has `<s> <at> <c>` and `<s> <in> <c>`, concluded by `[?a, <in>, ?b] :- [?a, <at>,
?b]`. V of X = `<s> <at> <c>` is both triples, although C adds nothing to the model of Y.

Cost: that of closing X and Y, and the matches with a premise in V.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from dotr.evaluation.limits import LIMITS, LimitExceeded
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.closed_instant import Closure, Contradiction
from dotr.instant.datalog.closure.delta_rules import DeltaPosition, DeltaRule, delta_positions, general_delta_rule
from dotr.instant.datalog.closure.derivations import ConstraintViolation
from dotr.instant.datalog.closure.instant import missing_predicates
from dotr.instant.datalog.strata.stratification import is_nonmonotonic, strata
from dotr.model.algebra import Const
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple


class ContentEntailment(NamedTuple):
    """V: the entailed triples, and the contradictions of X and Y that Y alone does not have."""

    triples: TripleIndex
    contradictions: tuple[Contradiction, ...]


class ContentCloser:
    """Closer of contents of windows over one background.

    `rules`: those of the background. `limit`: the greatest number of triples of V.

    >>> from dotr.model.algebra import Var, TriplePattern
    >>> at, inside = (TriplePattern(Var("a"), Const(name), Var("b")) for name in ("<at>", "<in>"))
    >>> rule = DatalogRule("r", (inside,), (at,))
    >>> background = [("<s>", "<at>", "<c>"), ("<t>", "<at>", "<c>")]
    >>> closer = ContentCloser(Knowledge.load(background, [rule]), [rule])
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
        self._missing: dict[DeltaPosition, AbstractSet[Term]] = {}
        self._not_lowest = frozenset(map(id, rules)) - frozenset(map(id, _lowest_alone(rules)))

    @property
    def has_rules(self) -> bool:
        """True if a rule has conclusions; otherwise V(X | Y) is X."""
        return bool(self._by_predicate or self._for_all)

    def close(self, triples: Iterable[Triple], known: Sequence[Triple] = ()) -> ContentEntailment:
        """V(triples | background and known). Raises `LimitExceeded`."""
        stated = list(dict.fromkeys(triples))
        if not self.has_rules and not known:
            closure = self.knowledge.close(stated)
            return ContentEntailment(TripleIndex(stated), closure.contradictions)
        closure = self.knowledge.close([*known, *stated])
        new: Iterable[Triple] = closure.delta
        contradictions = closure.contradictions
        if known:
            before = self.knowledge.close(known)
            new = [triple for triple in closure.delta if triple not in before.delta]
            new += [triple for triple in before.removed or () if triple in closure.background]
            contradictions = tuple(each for each in contradictions if each not in before.contradictions)
        return ContentEntailment(self._entailed(dict.fromkeys([*stated, *new]), closure), contradictions)

    def close_on(self, lowest: Iterable[Triple], closure: Closure) -> ContentEntailment:
        """V of a content, given the parts that are closed already. Raises `LimitExceeded`.

        `lowest`: the triples that the content entails under the rules of the lowest stratum.
        `closure`: the model of all strata.
        """
        entailed = dict.fromkeys(lowest)
        lowest_count = len(entailed)
        entailed |= dict.fromkeys(closure.delta)
        return ContentEntailment(self._entailed(entailed, closure, lowest_count), closure.contradictions)

    def _lacks(self, position: DeltaPosition, background: TripleIndex, known: dict[DeltaPosition, AbstractSet[Term]]) -> AbstractSet[Term]:
        """The predicates of the other atoms that a background lacks: without triples of each,
        nothing is joined."""
        found = known.get(position)
        if found is None:
            found = known[position] = frozenset(missing_predicates(position.others(), background))
        return found

    def _entailed(self, entailed: dict[Triple, None], closure: Closure, lowest_count: int = 0) -> TripleIndex:
        """The least superset of `entailed` that has every conclusion with a premise in it.

        The first `lowest_count` triples are closed under the rules of the lowest stratum already.
        """
        background, delta = closure.background, closure.delta
        if background is self.knowledge.background:
            compiled, missing = self._compiled, self._missing
        else:
            compiled, missing = {}, {}
        present = delta.by_subject.keys()
        by_predicate, for_all = self._by_predicate, [each for each in self._for_all if self._lacks(each, background, missing) <= present]
        queue = list(entailed)
        alarms: list[ConstraintViolation] = []
        active: list[DeltaRule] = []
        for number, triple in enumerate(queue):
            subject, predicate, object_ = triple
            concluded: list[Triple] = []
            for position in (*by_predicate.get(predicate, ()), *for_all):
                if number < lowest_count and id(position.rule) not in self._not_lowest:
                    continue
                rule = compiled.get(position)
                if rule is None:
                    if not self._lacks(position, background, missing) <= present:
                        continue
                    rule = compiled[position] = general_delta_rule(position, background)
                rule(subject, predicate, object_, delta, concluded.append, active, alarms)
            for each in concluded:
                if each not in entailed and (each in delta or each in background):
                    entailed[each] = None
                    queue.append(each)
            if len(entailed) > self.limit:
                raise LimitExceeded(self.limit)
        return TripleIndex(triple for triple in entailed if not is_hidden(triple[1]))


def _lowest_alone(rules: Sequence[DatalogRule]) -> list[DatalogRule]:
    """The rules of the lowest stratum, if they read no conclusions of higher strata; else none.

    They may read some if there is a rule set, which is closed in every stratum.
    """
    if any(rule.of_rule_set for rule in rules) or not any(map(is_nonmonotonic, rules)):
        return []
    return [rule for rule, stratum in zip(rules, strata(rules), strict=True) if stratum == 0]
