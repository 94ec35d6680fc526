"""Proofs of the triples that a window's content entails (continuous.md, section 5: V(X | Y)).

V(X | Y) holds the triples with a derivation that uses the content X, given further triples Y and
the background.

Idea: Y and the background are closed in rounds (`dotr.explanations.evidence.rounds`). V then begins
with X and with the triples that NOT or AGGREGATE derive only with X. Each round adds the
conclusions of matches with a premise in V, also if the background has them already. A premise that
enters V in a later round, or never, is proved from Y and the background, so that proofs are
well-founded.

Example: X is `:s1 :at :hall`; the background has `:hall :in :east` and `:s1 :in :east`. V has
`:s1 :in :east` too, by the rule `:in(?a, ?c) :- :at(?a, ?b), :in(?b, ?c)` with one premise of X and
one of the background.
Invariant: the triples are those of `dotr.instant.datalog.content_entailment` (a property test).
Cost: the closure of X and Y in rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.explanations.evidence.proofs import BackgroundTriple, DerivedTriple, RuleCondition, StatedTriple, TripleProof, conditions_of
from dotr.explanations.evidence.rounds import RoundsClosure, close_in_rounds
from dotr.explanations.evidence.rule_matches import ProvingRules, RuleMatch
from dotr.explanations.replay.stream import StatedPlace
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.derivations import StratumDelta
from dotr.model.terms import Triple


class ContentProofs:
    """The triples of V(X | Y), with a proof of each.

    Args:
        knowledge: the background, closed.
        rules: the rules of the background (`dotr.explanations.evidence.proofs.program_rules`).
        content: the triples of the content, X, each with the place of its first element.
        known: the further triples, Y, likewise.

    Raises `LimitExceeded` at the first use if the closure exceeds a limit.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        rules: ProvingRules,
        content: Mapping[Triple, StatedPlace],
        known: Mapping[Triple, StatedPlace],
    ) -> None:
        self._knowledge = knowledge
        self._rules = rules
        self._content = content
        self._known = known
        self._heights: dict[Triple, int] = {}
        self._matches: dict[Triple, RuleMatch] = {}
        self._built: dict[tuple[Triple, bool], TripleProof] = {}

    @cached_property
    def index(self) -> TripleIndex:
        """The triples of V, without hidden ones."""
        return TripleIndex(triple for triple in self._entailed if not is_hidden(triple[1]))

    def height(self, triple: Triple) -> int:
        """The height of the proof of a triple of V."""
        return self._entailed.get(triple, 0)

    def proof(self, triple: Triple) -> TripleProof | None:
        """The proof of a triple; None if it is not in V."""
        return self._proof(triple) if triple in self._entailed else None

    @cached_property
    def _closed(self) -> RoundsClosure:
        """The background and Y, closed in rounds. NOT and AGGREGATE read the models that include
        X."""
        content_and_known = list(dict.fromkeys([*self._known, *self._content]))
        closure = self._knowledge.close(content_and_known)
        models = self._knowledge.lower_models(content_and_known)
        return close_in_rounds(self._rules, closure.background, self._known, models, closure.delta)

    @cached_property
    def _entailed(self) -> dict[Triple, int]:
        """The height of each triple of V, including hidden ones."""
        heights = self._heights
        if not self._rules.rules:
            heights.update(dict.fromkeys(self._content, 0))
            return heights
        background, delta, by_known = self._closed.background, self._closed.delta, self._closed.derivations
        newest = list(self._content)
        heights.update(dict.fromkeys(newest, 0))
        for triple in self._beyond_known(by_known):
            heights.setdefault(triple, 0)
            self._matches.setdefault(triple, by_known[triple])
            newest.append(triple)
        height = 0
        while newest:
            _add(delta, background, newest)
            height += 1
            found: dict[Triple, RuleMatch] = {}
            for match in (match for triple in newest for match in self._rules.matches_with(triple, background, delta)):
                for triple in match.conclusions():
                    if triple not in heights and (triple not in found or match.tie_order < found[triple].tie_order):
                        found[triple] = match
            newest = sorted(found)
            heights.update(dict.fromkeys(newest, height))
            self._matches.update(found)
        return heights

    def _beyond_known(self, derived: Mapping[Triple, RuleMatch]) -> list[Triple]:
        """The triples derived from Y that depend on X only through NOT or AGGREGATE."""
        if not any(rule.is_nonmonotonic for rule in self._rules.rules):
            return []
        before = self._knowledge.close(list(self._known))
        retracted = before.removed or ()
        return [triple for triple in derived if triple not in before.delta and (triple not in before.background or triple in retracted)]

    # --- proofs ---

    def _proof(self, triple: Triple) -> TripleProof:
        """The proof of a triple of V. The traversal is iterative, since proofs may be high."""
        pending = [(triple, True)]
        while pending:
            each = pending[-1]
            missing = [premise for premise in self._premises(*each) if premise not in self._built]
            if missing:
                pending += missing
            else:
                pending.pop()
                if each not in self._built:
                    self._built[each] = self._with_built_premises(*each)
        return self._built[triple, True]

    def _match(self, triple: Triple, *, by_content: bool) -> RuleMatch | None:
        return self._matches.get(triple) if by_content else self._closed.derivations.get(triple)

    def _place(self, triple: Triple, *, by_content: bool) -> StatedPlace | None:
        return (self._content if by_content else self._known).get(triple)

    def _premises(self, triple: Triple, by_content: bool) -> Sequence[tuple[Triple, bool]]:
        if self._place(triple, by_content=by_content) is not None or (match := self._match(triple, by_content=by_content)) is None:
            return ()
        return self._visible(triple, match, by_content=by_content)

    def _with_built_premises(self, triple: Triple, by_content: bool) -> TripleProof:
        place = self._place(triple, by_content=by_content)
        if place is not None:
            return StatedTriple(triple, place)
        match = self._match(triple, by_content=by_content)
        if match is None:
            return BackgroundTriple(triple)
        premises = tuple(self._built[premise] for premise in self._visible(triple, match, by_content=by_content))
        conditions: tuple[RuleCondition, ...] = () if match.rule.rule.of_rule_set else tuple(conditions_of(match, self._closed))
        return DerivedTriple(triple, match.rule.rule, premises, conditions)

    def _visible(self, triple: Triple, match: RuleMatch, *, by_content: bool) -> Sequence[tuple[Triple, bool]]:
        """The premises of a match, each with True if its proof uses the content.

        Such a premise has a lesser height in V than its conclusion. Hidden premises are replaced by
        the premises that derive them.
        """
        premises: dict[tuple[Triple, bool], None] = {}
        limit = self._heights[triple] if by_content else 0
        pending = [(each, by_content and self._heights.get(each, limit) < limit) for each in reversed(match.premises)]
        while pending:
            each, uses_content = pending.pop()
            hidden = self._match(each, by_content=uses_content)
            if not is_hidden(each[1]) or hidden is None:
                if not is_hidden(each[1]):
                    premises[each, uses_content] = None
                continue
            below = self._heights[each] if uses_content else 0
            pending += [(deeper, uses_content and self._heights.get(deeper, below) < below) for deeper in reversed(hidden.premises)]
        return tuple(premises)


def _add(delta: StratumDelta, background: TripleIndex, triples: Iterable[Triple]) -> None:
    for triple in triples:
        if triple not in background.triples:
            delta.add(triple)
