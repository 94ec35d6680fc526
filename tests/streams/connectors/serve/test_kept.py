"""Kept elements in memory: whole pages, IDs, and what has left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.streams.connectors.serve.kept import PAGE, Gone, Keep, KeptElement, KeptElements, NewElement
from tests.support.properties import examples

pytestmark = pytest.mark.core


def stream(count: int, size: int = 2, each_time: int = 3) -> list[NewElement]:
    """Elements, of which three have each time."""
    return [NewElement(n // each_time, n % each_time, "Fire", b"x" * size) for n in range(count)]


def kept(count: int, keep: Keep, **form: int) -> KeptElements:
    elements = KeptElements(keep)
    elements.append(stream(count, **form))
    return elements


def numbers(page: Sequence[KeptElement] | Gone | None) -> list[int]:
    assert page is not None
    assert not isinstance(page, Gone)
    return [each.number for each in page]


def test_pages_leave_whole() -> None:
    elements = kept(PAGE + 10, Keep(elements=10))
    assert (elements.first, elements.next, elements.pages) == (PAGE, PAGE + 10, range(1, 2))
    elements = kept(PAGE + 9, Keep(elements=10))
    assert (elements.first, elements.pages) == (0, range(2))


def test_nothing_leaves_without_a_limit() -> None:
    assert kept(5 * PAGE, Keep(elements=None)).first == 0


def test_the_least_of_the_limits_counts() -> None:
    assert kept(4 * PAGE, Keep(elements=2 * PAGE, bytes=2 * PAGE)).first == 3 * PAGE
    assert kept(4 * PAGE, Keep(elements=PAGE, bytes=8 * PAGE)).first == 3 * PAGE


def test_time_counts_behind_the_newest_element() -> None:
    elements = kept(4 * PAGE, Keep(elements=None, time=PAGE - 1), each_time=1)
    assert elements.first == 3 * PAGE  # times 750 to 999 are within 249 of the newest
    assert kept(4 * PAGE, Keep(elements=None, time=PAGE), each_time=1).first == 2 * PAGE


def test_the_newest_element_stays_where_it_alone_is_too_long() -> None:
    elements = kept(PAGE + 1, Keep(bytes=10), size=100)
    assert (elements.first, elements.next) == (PAGE, PAGE + 1)


def test_more_at_once_than_is_kept() -> None:
    elements = KeptElements(Keep(elements=1))
    fresh = elements.append_batch(7, (stream(3 * PAGE + 2)[at : at + 100] for at in range(0, 3 * PAGE + 2, 100)))
    assert [each.number for each in fresh] == [3 * PAGE, 3 * PAGE + 1]
    assert elements.first == 3 * PAGE


def test_ids_that_are_kept_that_have_left_and_that_never_were() -> None:
    elements = kept(PAGE + 10, Keep(elements=10))
    first = f"{PAGE // 3}-{PAGE % 3}"
    assert isinstance(found := elements.find(first), KeptElement)
    assert (found.number, found.id) == (PAGE, first)
    assert elements.place_behind(first) == PAGE + 1
    assert elements.find("0-0") == elements.place_behind("0-0") == Gone(first)
    assert elements.find("0-7") == Gone(first)  # what has left is known by its order alone
    for id in (f"{PAGE // 3 + 1}-3", "9999-0", "12", "12-", "-0-0", "01-0", "1-00", "a-b", "1-1 ", "١-٠", "1" * 99 + "-0"):
        assert elements.find(id) is None, id
        assert elements.place_behind(id) is None, id


def test_an_id_before_a_stream_that_has_lost_nothing_never_was() -> None:
    elements = KeptElements(Keep())
    assert elements.find("0-0") is None
    elements.append([NewElement(5, 1, "Fire", b"{}")])
    assert elements.find("5-0") is None
    assert elements.find("-5-0") is None


def test_times_before_1970_have_ids() -> None:
    elements = KeptElements(Keep())
    elements.append([NewElement(-5, 0, "Fire", b"{}"), NewElement(0, 0, "Fire", b"{}")])
    assert elements.place_behind("-5-0") == 1
    assert elements.since(-4) == 1


def test_pages_and_slices() -> None:
    elements = kept(2 * PAGE + 5, Keep(elements=PAGE + 5))
    first = elements.slice(0, PAGE + 1)[0].id
    assert elements.page(0) == Gone(first)
    assert numbers(elements.page(1)) == [*range(PAGE, 2 * PAGE)]
    assert numbers(elements.page(2)) == [*range(2 * PAGE, 2 * PAGE + 5)]
    assert elements.page(3) is None
    assert elements.page(-1) is None
    assert (elements.is_full(1), elements.is_full(2)) == (True, False)
    assert [each.number for each in elements.slice(PAGE - 2, PAGE + 2)] == [PAGE, PAGE + 1]
    assert [each.number for each in elements.slice(2 * PAGE + 4, 9 * PAGE)] == [2 * PAGE + 4]


def test_times_are_found() -> None:
    elements = kept(9, Keep())
    assert [elements.since(time) for time in (-1, 0, 1, 2, 3)] == [0, 0, 3, 6, 9]


def test_ids_ascend() -> None:
    elements = kept(3, Keep())
    with pytest.raises(ValueError, match="the element 0-2 is not behind 0-2"):
        elements.append([NewElement(0, 2, "Fire", b"{}")])
    assert (elements.next, len(elements.slice(0, 9))) == (3, 3)


def cut(elements: Sequence[NewElement], places: Sequence[int]) -> list[Sequence[NewElement]]:
    """The elements in pieces that end at some places."""
    ends = sorted({0, len(elements), *(place % (len(elements) + 1) for place in places)})
    return [elements[a:b] for a, b in pairwise(ends)]


keeps = st.builds(
    Keep,
    elements=st.none() | st.integers(1, 4 * PAGE),
    time=st.none() | st.integers(0, 400),
    bytes=st.none() | st.integers(1, 5_000),
)


@pytest.mark.random
@examples(60)
@given(count=st.integers(1, 6 * PAGE), keep=keeps, places=st.lists(st.integers(0, 6 * PAGE), max_size=8), sizes=st.integers(1, 9))
def test_what_is_kept_does_not_depend_on_batches(count: int, keep: Keep, places: list[int], sizes: int) -> None:
    elements = [NewElement(n // 3, n % 3, "Fire", b"x" * (n % sizes)) for n in range(count)]
    needed = 0  # the least number from which on all limits hold
    while needed < count - 1 and (
        (keep.elements is not None and count - needed > keep.elements)
        or (keep.time is not None and elements[-1].time - elements[needed].time > keep.time)
        or (keep.bytes is not None and sum(len(each.line) for each in elements[needed:]) > keep.bytes)
    ):
        needed += 1
    found = KeptElements(keep)
    for piece in cut(elements, places):
        found.append(piece)
    at_once = KeptElements(keep)
    at_once.append_batch(0, cut(elements, places))
    for each in (found, at_once):
        assert (each.first, each.next) == (needed - needed % PAGE, count)
        kept_now = each.slice(0, count)
        assert [(one.number, one.line) for one in kept_now] == [(n, elements[n].line) for n in range(each.first, count)]
