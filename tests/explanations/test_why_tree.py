"""Trees of reasons: depth, details, and proofs that are high."""

from __future__ import annotations

import json

import pytest

from dotr.explanations.text.tree import MOST_LEVELS, ReasonKind, WhyTree

pytestmark = pytest.mark.core


def chain(height: int) -> WhyTree:
    tree = WhyTree(ReasonKind.TRIPLE, "0", "a.ttl")
    for number in range(1, height):
        tree = WhyTree(ReasonKind.TRIPLE, str(number), "a.dlog:1", (tree,))
    return tree


def test_details_are_shown_with_a_depth() -> None:
    member = WhyTree(ReasonKind.MEMBER, "member")
    tree = WhyTree(ReasonKind.EVENT, "event", "", (WhyTree(ReasonKind.GROUP, "group", "", (), (member,)),))
    assert tree.lines() == ["event", "└ group"]
    assert tree.lines(1) == ["event", "└ group"]
    assert tree.lines(2) == ["event", "└ group", "  └ member"]
    assert tree.to_json()["because"] == [{"kind": "group", "text": "group", "because": [{"kind": "member", "text": "member"}]}]
    assert tree.to_mermaid().count("-->") == 1
    assert tree.to_mermaid(2).count("-->") == 2


def test_a_high_proof_is_written_in_every_format() -> None:
    tree = chain(3_000)
    assert len(tree.lines()) == 3_000
    assert json.dumps(tree.to_json()).count('"text"') == MOST_LEVELS
    assert tree.to_mermaid().count("-->") == 2_999


def test_places_are_aligned_except_for_long_lines() -> None:
    short, long = (WhyTree(ReasonKind.TRIPLE, "x" * length, "a.ttl") for length in (10, 120))
    lines = WhyTree(ReasonKind.EVENT, "e" * 80, "a.dotr:1", (short, long)).lines()
    assert [line.index("a.") for line in lines] == [82, 53, 124]
    middle = WhyTree(ReasonKind.TRIPLE, "x" * 70, "a.ttl")
    assert [line.index("a.") for line in WhyTree(ReasonKind.EVENT, "e", "a.dotr:1", (short, middle)).lines()] == [53, 74, 74]
