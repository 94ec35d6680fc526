"""The cost of look-ups in an index with masked triples."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dotr.evaluation.triples.index import TripleIndex
from dotr.evaluation.triples.masked_index import MaskedIndex
from dotr.model.terms import Term

pytestmark = pytest.mark.core


class Keys(dict[Term, list[Term]]):
    """A table whose keys take time to count, like those that a sliding window holds; it notes how many are read."""

    read = 0

    def __iter__(self) -> Iterator[Term]:
        for key in super().__iter__():
            self.read += 1
            yield key

    def __len__(self) -> int:
        self.read += super().__len__()
        return super().__len__()


@pytest.mark.parametrize("masked", [1, 5])
def test_look_up_of_a_predicate_reads_no_more_keys_than_are_masked(masked: int) -> None:
    triples = [(f"<s{number}>", "<p>", "<o>") for number in range(1_000)]
    index = TripleIndex(triples)
    keys = Keys(index.by_subject["<p>"])
    index.by_subject["<p>"] = keys
    view = MaskedIndex(index, triples[:masked])
    keys.read = 0
    assert view.by_subject["<p>"].get("<s0>") is None
    assert view.by_subject["<p>"]["<s7>"] == ["<o>"]
    assert "<p>" in view.by_subject
    assert keys.read <= 3 * (masked + 1)


def test_predicate_whose_triples_are_all_masked_is_none() -> None:
    triples = [("<s>", "<p>", "<o>"), ("<t>", "<p>", "<o>"), ("<s>", "<q>", "<o>")]
    view = MaskedIndex(TripleIndex(triples), triples[:2])
    assert view.by_subject.get("<p>") is None
    assert "<p>" not in view.by_object
    assert list(view.by_subject) == ["<q>"]
