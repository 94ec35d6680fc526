"""Closure of triples in rounds that keeps the derivation of least height of each triple.

Idea: semi-naive rounds. Round n derives the conclusions of matches over the background and the
earlier rounds with at least one premise of round n - 1, so that the round of a triple is its
height. Of several matches in that round, the least in the tie order is kept: by the place of the
rule in the program, then by the premises. NOT and AGGREGATE read the finished models of the lower
strata, so that all strata are closed at once: with these answers fixed, every rule is monotone, and
the least fixpoint is the perfect model (semantics.md, section 2).

If the instant changes the answer of a NOT or AGGREGATE, its rule may have a new conclusion from the
background alone. Such a conclusion is among the triples of the engine's closure (`goals`); its rule
is applied backwards from it.

Invariant: the stated and derived triples are those of the engine's closure (a property test).
Cost: proportional to the matches of the instant, some 10 µs a match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from dotr.evaluation.joins.order import Side
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.rule_matches import ProvingRules, RuleMatch
from dotr.instant.datalog.closure.derivations import StratumDelta
from dotr.instant.datalog.closure.lower_strata import LowerModel
from dotr.model import dataclass
from dotr.model.terms import Triple


@dataclass(frozen=True, slots=True, eq=False)
class RoundsClosure:
    """Triples closed in rounds.

    Attributes:
        background: the closed background, whose triples have height 0.
        delta: the stated triples and the derived ones, by height.
        derivations: the match of least height that concludes each derived triple.
        heights: the height of each triple of the delta.
        contradictions: the matches of rules that conclude `false`, by height.
    """

    background: TripleIndex
    delta: StratumDelta
    derivations: Mapping[Triple, RuleMatch]
    heights: Mapping[Triple, int]
    contradictions: Sequence[RuleMatch]


def close_in_rounds(
    rules: ProvingRules,
    background: TripleIndex,
    stated: Iterable[Triple],
    models: Sequence[LowerModel],
    goals: Iterable[Triple],
    *,
    with_facts: bool = False,
) -> RoundsClosure:
    """Close triples over a closed background.

    Args:
        rules: the rules of the program.
        background: the closed background without retracted triples, as in the engine's closure.
        stated: the triples to close, of height 0.
        models: for each stratum, the model that its NOT and AGGREGATE read
            (`Knowledge.lower_models`).
        goals: the triples of the engine's closure beyond the background.
        with_facts: also derive the conclusions of rules without a body, which a closed background
            already has.

    >>> from dotr.syntax.datalog import parse_datalog
    >>> from dotr.model.places import Document
    >>> rules = parse_datalog(Document("a.dlog", ":in(?x, ?z) :- :at(?x, ?y), :in(?y, ?z) ."), {"": ""})
    >>> background = TripleIndex([("<desk>", "<in>", "<lab>")])
    >>> closed = close_in_rounds(ProvingRules(rules), background, [("<cup>", "<at>", "<desk>")], [], [])
    >>> closed.heights[("<cup>", "<in>", "<lab>")]
    1
    >>> closed.derivations[("<cup>", "<in>", "<lab>")].premises
    (('<cup>', '<at>', '<desk>'), ('<desk>', '<in>', '<lab>'))
    """
    delta = StratumDelta(models)
    derivations: dict[Triple, RuleMatch] = {}
    heights: dict[Triple, int] = {}
    contradictions: dict[tuple[int, tuple[Triple, ...]], RuleMatch] = {}
    newest = []
    for triple in stated:
        if triple not in background.triples and delta.add(triple):
            heights[triple] = 0
            newest.append(triple)
    of_background = _of_background(rules, background, delta, goals, with_facts)
    height = 0
    while True:
        height += 1
        found: dict[Triple, RuleMatch] = {}
        for match in chain(of_background, (match for triple in newest for match in rules.matches_with(triple, background, delta))):
            if match.contradicted is not None:
                contradictions.setdefault(match.tie_order, match)
            for triple in match.conclusions():
                if triple not in background.triples and triple not in delta.triples:
                    known = found.get(triple)
                    if known is None or match.tie_order < known.tie_order:
                        found[triple] = match
        newest = sorted(found)
        if not newest:
            return RoundsClosure(background, delta, derivations, heights, tuple(contradictions.values()))
        for triple in newest:
            delta.add(triple)
            heights[triple] = height
        derivations.update(found)


def _of_background(
    rules: ProvingRules, background: TripleIndex, delta: StratumDelta, goals: Iterable[Triple], with_facts: bool
) -> Iterator[RuleMatch]:
    """Matches of rules with NOT or AGGREGATE over the background alone, whose conclusions it lacks;
    and, `with_facts`, those of rules without a body.
    """
    nonmonotonic = [rule for rule in rules.rules if rule.is_nonmonotonic]
    if with_facts:
        for rule in rules.rules:
            if not rule.atoms and not rule.is_nonmonotonic:
                yield from rule.matches({}, background, delta)
    if not nonmonotonic:
        return
    for goal in goals:
        for rule, bound in rules.concluding(goal):
            if rule.is_nonmonotonic and rule.may_match(background, delta, Side.BACKGROUND):
                yield from rule.matches(bound, background, delta, side=Side.BACKGROUND)
    for rule in nonmonotonic:
        if not rule.rule.head and rule.may_match(background, delta, Side.BACKGROUND):
            yield from rule.matches({}, background, delta, side=Side.BACKGROUND)
