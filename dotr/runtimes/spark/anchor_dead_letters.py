"""Deduplication of dead letters of rules that are cut into stages: one an anchor (semantics.md, 8).

Idea: the bindings of one anchor are in several buckets, and each bucket may exceed a limit or fail.
Of equal dead letters one is written; of dead letters for one anchor and several clauses, that of
the clause that is first in the rule, which an uncut rule would report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from dotr.model.rules import Rule
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Micros
from dotr.temporal.layout.layers import Layout
from dotr.temporal.stage_two import AT_THE_CLAUSE, described_clause

_OF_RULES: Final = (Reason.LIMIT, Reason.FAILED)


def cut_rules(layout: Layout) -> list[Rule]:
    """The rules of a layout that are cut into stages."""
    return [placed.rule for layer in layout.layers for placed in layer.rules if placed.stage.is_last and not placed.stage.is_whole]


def one_letter_per_anchor(letters: Iterable[DeadLetter], rules: Sequence[Rule]) -> list[DeadLetter]:
    """Dead letters of one batch, with one for each anchor of a rule.

    Args:
        letters: the dead letters of all buckets and layers.
        rules: the rules of the program.

    Returns:
        the letters in their order, without further ones for the same anchor.

    >>> late = DeadLetter(Reason.LATE, "a", "a.csv", 7, 12, "x", "why")
    >>> failed = DeadLetter(Reason.FAILED, "rule R", "r.dotr", 3, 12, "{}", "rule R fails at it: no")
    >>> one_letter_per_anchor([late, failed, late, failed], []) == [late, failed, late]
    True
    """
    position_of_clause = {
        (f"rule {rule.name}", described_clause(clause)): number for rule in reversed(rules) for number, clause in enumerate(rule.clauses)
    }
    kept: list[DeadLetter] = []
    first: dict[tuple[Reason, str, Micros | None, str, str], tuple[int, int]] = {}  # the index in `kept`, and the position of the clause
    for letter in letters:
        if letter.reason not in _OF_RULES or not letter.input.startswith("rule "):
            kept.append(letter)
            continue
        anchor, _, clause = letter.why.rpartition(AT_THE_CLAUSE) if letter.reason is Reason.LIMIT else (letter.why, "", "")
        key = letter.reason, letter.input, letter.time, letter.text, anchor
        position = position_of_clause.get((letter.input, clause), 0)
        known = first.get(key)
        if known is None:
            first[key] = len(kept), position
            kept.append(letter)
        elif position < known[1]:
            first[key] = known[0], position
            kept[known[0]] = letter
    return kept


def one_letter_per_anchor_by_rule(letters: Iterable[DeadLetter], rules: Sequence[Rule]) -> Iterator[DeadLetter]:
    """Dead letters of one batch, sorted by input, with one for each anchor of some rules; others
    are yielded unchanged. The letters of only one rule at a time are in memory."""
    inputs = {f"rule {rule.name}" for rule in rules}
    for source, group in groupby(letters, attrgetter("input")):
        if source in inputs:
            yield from one_letter_per_anchor(group, rules)
        else:
            yield from group
