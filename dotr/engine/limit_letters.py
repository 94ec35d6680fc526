"""One dead letter an anchor where the branches of a match are in several buckets (semantics.md, 8).

A rule that is cut into stages goes over a limit, or fails, in whichever bucket a branch of its
anchor is. Equal dead letters are one; of those that tell of one anchor and several clauses, the
clause that stands first in the rule counts, as it does in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from dotr.engine.stage_two import AT_THE_CLAUSE, described_clause
from dotr.layout.layers import Layout
from dotr.model.rules import Rule
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Micros

_OF_RULES: Final = (Reason.LIMIT, Reason.FAILED)


def cut_rules(layout: Layout) -> list[Rule]:
    """The rules of a layout that are cut into stages."""
    return [placed.rule for layer in layout.layers for placed in layer.rules if placed.stage.is_last and not placed.stage.is_whole]


def one_an_anchor(letters: Iterable[DeadLetter], rules: Sequence[Rule]) -> list[DeadLetter]:
    """Dead letters of one batch, of which those of rules tell of each anchor once.

    Args:
        letters: the dead letters of all buckets and layers.
        rules: the rules of the program.

    Returns:
        the letters in their order, without those that tell again of an anchor.

    >>> late = DeadLetter(Reason.LATE, "a", "a.csv", 7, 12, "x", "why")
    >>> failed = DeadLetter(Reason.FAILED, "rule R", "r.dotr", 3, 12, "{}", "rule R fails at it: no")
    >>> one_an_anchor([late, failed, late, failed], []) == [late, failed, late]
    True
    """
    place_of = {
        (f"rule {rule.name}", described_clause(clause)): place for rule in reversed(rules) for place, clause in enumerate(rule.clauses)
    }
    kept: list[DeadLetter] = []
    position: dict[tuple[Reason, str, Micros | None, str, str], tuple[int, int]] = {}
    for letter in letters:
        if letter.reason not in _OF_RULES or not letter.input.startswith("rule "):
            kept.append(letter)
            continue
        anchor, _, clause = letter.why.rpartition(AT_THE_CLAUSE) if letter.reason is Reason.LIMIT else (letter.why, "", "")
        key = letter.reason, letter.input, letter.time, letter.text, anchor
        place = place_of.get((letter.input, clause), 0)
        known = position.get(key)
        if known is None:
            position[key] = len(kept), place
            kept.append(letter)
        elif place < known[1]:
            position[key] = known[0], place
            kept[known[0]] = letter
    return kept


def one_an_anchor_of_each(letters: Iterable[DeadLetter], rules: Sequence[Rule]) -> Iterator[DeadLetter]:
    """Dead letters of one batch that are sorted by input, of which those of each of some rules tell
    of an anchor once. The letters of one rule at a time are in memory."""
    inputs = {f"rule {rule.name}" for rule in rules}
    for source, together in groupby(letters, attrgetter("input")):
        if source in inputs:
            yield from one_an_anchor(together, rules)
        else:
            yield from together
