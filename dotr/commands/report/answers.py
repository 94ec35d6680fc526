"""Explanations in a report: proofs of some events, and the reasons why some rules never fired.

Cost: one replay for all proofs, and one for each rule that never fired; both are bounded in number.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Final

from dotr.commands.report.collection import event_name
from dotr.commands.report.data import ProofStep
from dotr.engine.replay import Replay
from dotr.explanations.replay.firings import AnyFiring
from dotr.explanations.text.tree import WhyTree
from dotr.explanations.unit import is_answered, why_no_event
from dotr.explanations.why import WhyExplainer
from dotr.model.stream import Firing

_MOST_STEPS: Final = 400
"""Number of steps after which a proof is cut."""
_GAP: Final = re.compile(r"(?<=\S) {3,}")
"""Spaces that align places in a column; they are shortened, since the lines of the page wrap."""
_MOST_LINES: Final = 40
"""Number of lines after which the answer of a rule is cut."""


def reasons_not_fired(replay: Replay, rules: Iterable[str]) -> dict[str, list[str]]:
    """The lines of `dotr why-not` about each of some rules."""
    answers = {}
    for rule in rules:
        if not is_answered(replay.program, rule):
            continue
        lines = [_GAP.sub("   ", line) for line in why_no_event(replay, rule).lines()]
        answers[rule] = lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "…"]
    return answers


def proofs(replay: Replay, firings: Sequence[Firing], most: int) -> dict[int, ProofStep]:
    """Proofs of events by the number of the event: of each rule the first and the last ones.

    Args:
        replay: the replay that made the events.
        firings: the events, in the order of the output.
        most: number of proofs.
    """
    wanted: dict[tuple[object, ...], list[int]] = defaultdict(list)
    chosen = first_and_last([firing.rule for firing in firings], most)
    for number in chosen:
        wanted[_key(firings[number])].append(number)
    found: dict[int, ProofStep] = {}
    if not chosen:
        return found
    explainer = WhyExplainer(replay)
    recorder = explainer.recorder(sorted({firings[number].rule for number in chosen}))
    for together in recorder.run(max(firings[number].time for number in chosen)):
        for named in together:
            numbers = next((wanted.pop(key) for key in _keys(named) if key in wanted), ())
            if numbers:
                found.update(dict.fromkeys(numbers, proof_step(explainer.tree(recorder, named))))
        if not wanted:
            break
    return found


def _key(firing: Firing) -> tuple[object, ...]:
    """The identity of a firing: its fresh name, or time and attributes if its rule makes no
    name."""
    name = event_name(firing)
    return (firing.rule, f"<{name}>") if name else (firing.rule, firing.time, firing.attributes)


def _keys(firing: AnyFiring) -> list[tuple[object, ...]]:
    """The keys by which a firing may be looked up (`_key`)."""
    rule = firing.unit_name
    return [*((rule, name) for name in firing.names), (rule, firing.time, tuple(sorted(firing.attributes.items())))]


def first_and_last(rules: Sequence[str], most: int) -> list[int]:
    """Numbers of some events, given the rule of each: in turns of all rules, from both ends.

    >>> first_and_last(["A", "A", "A", "A", "B", "C"], 5)
    [0, 1, 3, 4, 5]
    """
    by_rule: dict[str, list[int]] = defaultdict(list)
    for number, rule in enumerate(rules):
        by_rule[rule].append(number)
    turns = zip_longest(*map(_from_both_ends, by_rule.values()))
    return sorted([number for number in chain.from_iterable(turns) if number is not None][:most])


def _from_both_ends(numbers: Sequence[int]) -> list[int]:
    """
    >>> _from_both_ends([1, 2, 3, 4, 5])
    [1, 5, 2, 4, 3]
    """
    half = -(-len(numbers) // 2)
    turns = zip_longest(numbers[:half], numbers[: half - 1 : -1])
    return [number for turn in turns for number in turn if number is not None]


def proof_step(tree: WhyTree) -> ProofStep:
    """A tree of reasons as a proof of the page, cut after a number of steps."""
    order = [tree]
    for node in order:  # grows: all nodes, level by level
        order += node.below(1)
        if len(order) > _MOST_STEPS:
            break
    kept = {id(node) for node in order[:_MOST_STEPS]}
    steps: dict[int, ProofStep] = {}
    for node in reversed(order[:_MOST_STEPS]):
        if id(node) not in steps:
            below = node.below(1)
            premises = tuple([steps[id(child)] for child in below if id(child) in kept and id(child) in steps])
            cut = () if len(premises) == len(below) else (ProofStep("…", ""),)
            steps[id(node)] = ProofStep(node.text, node.place, (*premises, *cut))
    return steps[id(tree)]


def numbered(found: Mapping[int, ProofStep]) -> tuple[tuple[ProofStep, ...], dict[int, int]]:
    """The proofs in the order of their events, and the number of the proof of each event."""
    order = sorted(found)
    return tuple([found[number] for number in order]), {number: k for k, number in enumerate(order)}
