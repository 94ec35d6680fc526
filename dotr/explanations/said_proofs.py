"""Proofs of what the content of a window says (continuous.md, section 5: V(X | Y)).

Idea: as in `dotr.explanations.rounds`, but from the triples said alone. First what is known, Y and
the background, is closed in rounds. Then V begins with X and with what the closure has beyond that
of Y, and a round concludes what a match with a premise of V concludes, also where the background
has it already. A premise that is said only later, or never, has its proof from what is known, so
that proofs are well-founded.

Example: X is `:s1 :at :hall`, the background has `:hall :in :east` and `:s1 :in :east`. The window
says `:s1 :in :east` too, by the rule `:in(?a, ?c) :- :at(?a, ?b), :in(?b, ?c)`, with a premise of X
and one of the background.
Invariant: the triples are those of `dotr.datalog.content_entailment` (a property test).
Cost: that of closing X and Y in rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from dotr.datalog.background import Knowledge
from dotr.datalog.derivations import StratumDelta
from dotr.explanations.proofs import BackgroundTriple, DerivedTriple, RuleCondition, StatedTriple, TripleProof, conditions_of
from dotr.explanations.replay import StatedPlace
from dotr.explanations.rounds import RoundsClosure, close_in_rounds
from dotr.explanations.rule_matches import ProvingRules, RuleMatch
from dotr.model.terms import Triple
from dotr.store.triples import TripleIndex, is_hidden


class SaidProofs:
    """The triples that a content says, given others, with a proof of each.

    Args:
        knowledge: the background, closed.
        rules: the rules of the background (`dotr.explanations.proofs.program_rules`).
        content: the triples of the content, X, each with the place of its first element.
        known: the triples beside it, Y, likewise.

    Raises `LimitExceeded` at the first use where the closure goes over a limit.
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
        """The triples said, without hidden ones."""
        return TripleIndex(triple for triple in self._said if not is_hidden(triple[1]))

    def height(self, triple: Triple) -> int:
        """The height of the proof of a triple that is said."""
        return self._said.get(triple, 0)

    def proof(self, triple: Triple) -> TripleProof | None:
        """The proof of a triple; None where the content does not say it."""
        return self._proof(triple) if triple in self._said else None

    @cached_property
    def _closed(self) -> RoundsClosure:
        """The background and the known triples, closed in rounds, with NOT and AGGREGATE as they are
        with the content.
        """
        together = list(dict.fromkeys([*self._known, *self._content]))
        closure = self._knowledge.close(together)
        models = self._knowledge.lower_models(together)
        return close_in_rounds(self._rules, closure.background, self._known, models, closure.delta)

    @cached_property
    def _said(self) -> dict[Triple, int]:
        """The height of each triple said, hidden ones included."""
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
        """The triples that follow from what is known, but only with the content: by NOT or
        AGGREGATE.
        """
        if not any(rule.is_nonmonotonic for rule in self._rules.rules):
            return []
        before = self._knowledge.close(list(self._known))
        gone = before.removed or ()
        return [triple for triple in derived if triple not in before.delta and (triple not in before.background or triple in gone)]

    # --- proofs ---

    def _proof(self, triple: Triple) -> TripleProof:
        """The proof of a triple that is said, without recursion: proofs may be high."""
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

    def _match(self, triple: Triple, *, said: bool) -> RuleMatch | None:
        return self._matches.get(triple) if said else self._closed.derivations.get(triple)

    def _place(self, triple: Triple, *, said: bool) -> StatedPlace | None:
        return (self._content if said else self._known).get(triple)

    def _premises(self, triple: Triple, said: bool) -> Sequence[tuple[Triple, bool]]:
        if self._place(triple, said=said) is not None or (match := self._match(triple, said=said)) is None:
            return ()
        return self._visible(triple, match, said=said)

    def _with_built_premises(self, triple: Triple, said: bool) -> TripleProof:
        place = self._place(triple, said=said)
        if place is not None:
            return StatedTriple(triple, place)
        match = self._match(triple, said=said)
        if match is None:
            return BackgroundTriple(triple)
        premises = tuple(self._built[premise] for premise in self._visible(triple, match, said=said))
        conditions: tuple[RuleCondition, ...] = () if match.rule.rule.of_rule_set else tuple(conditions_of(match, self._closed))
        return DerivedTriple(triple, match.rule.rule, premises, conditions)

    def _visible(self, triple: Triple, match: RuleMatch, *, said: bool) -> Sequence[tuple[Triple, bool]]:
        """The premises of a match, each with true if it is used as said; hidden ones are replaced by
        the premises that derive them.
        """
        premises: dict[tuple[Triple, bool], None] = {}
        limit = self._heights[triple] if said else 0
        pending = [(each, said and self._heights.get(each, limit) < limit) for each in reversed(match.premises)]
        while pending:
            each, as_said = pending.pop()
            hidden = self._match(each, said=as_said)
            if not is_hidden(each[1]) or hidden is None:
                if not is_hidden(each[1]):
                    premises[each, as_said] = None
                continue
            below = self._heights[each] if as_said else 0
            pending += [(deeper, as_said and self._heights.get(deeper, below) < below) for deeper in reversed(hidden.premises)]
        return tuple(premises)


def _add(delta: StratumDelta, background: TripleIndex, triples: Iterable[Triple]) -> None:
    for triple in triples:
        if triple not in background.triples:
            delta.add(triple)
