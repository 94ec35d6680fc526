"""A mapped index equals the index in memory, on every access path."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.triples import dictionary
from dotr.evaluation.triples import mapped_index as index
from dotr.evaluation.triples.dictionary import Dictionary, dictionary_sections
from dotr.evaluation.triples.file import MappedFile, write_file
from dotr.evaluation.triples.index import NO_EDGES, NO_TERMS, TripleIndex
from dotr.instant.datalog.background.compiled_store import CompiledStore, write_store
from dotr.instant.datalog.background.knowledge import ClosedTriples, close_background
from dotr.model.terms import Term, Triple

KEY = bytes(range(16))
NODES = [f"<http://e/{n}>" for n in "abcdef"] + ["_:g0x1"]
LITERALS = ['"x"', '"é\\n"@fr', '""', '"' + "long " * 400 + '"', '"\ud800"']
PREDICATES = ["<http://e/p>", "<http://e/q>", "<http://e/a>", "<urn:dotr:hidden:h>", "<urn:dotr:hidden:i>"]
TERMS = [*NODES, *LITERALS, *PREDICATES, "<http://e/unknown>", '"unknown"']
triples = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from(NODES + LITERALS)), max_size=60)


def mapped(given: Iterable[Triple], folder: str | Path, closed: ClosedTriples | None = None) -> index.MappedIndex:
    path = Path(folder) / "x.dotrkb"
    write_store(path, KEY, closed or close_background(list(given), []), 0.0)
    return CompiledStore(path, KEY).index


def sorted_pairs(pairs: Iterable[tuple[Term, Term]]) -> list[tuple[Term, Term]]:
    return sorted(pairs)


def assert_equal_indexes(old: TripleIndex, new: TripleIndex) -> None:
    """Asserts equal answers on all access paths."""
    assert len(old) == len(new) == len(new.triples)
    assert sorted(old) == sorted(new) == sorted(new.triples)
    assert sorted(old.visible()) == sorted(new.visible())
    assert sorted(old.predicates()) == sorted(new.predicates())
    for a, b in ((old.by_subject, new.by_subject), (old.by_object, new.by_object)):
        assert sorted(a) == sorted(b)
        assert len(a) == len(b)
        assert bool(a) == bool(b)
        for predicate in TERMS:
            assert (predicate in a) == (predicate in b)
            first, second = a.get(predicate), b.get(predicate)
            assert (first is None) == (second is None)
            if first is None or second is None:
                continue
            assert len(first) == len(second)
            assert sorted(first) == sorted(second)
            assert sorted((end, sorted(others)) for end, others in first.items()) == sorted((e, sorted(o)) for e, o in second.items())
            for term in TERMS * 2:
                assert (term in first) == (term in second)
                assert sorted(first.get(term, NO_TERMS)) == sorted(second.get(term, NO_TERMS))
                assert sorted([*first.get(term, NO_TERMS), "<more>"]) == sorted(second.get(term, NO_TERMS) + ["<more>"])  # noqa: RUF005
                assert sorted(["<more>", *first.get(term, NO_TERMS)]) == sorted(["<more>"] + second.get(term, NO_TERMS))  # noqa: RUF005
    for s in TERMS:
        assert sorted_pairs(old.edges_from.get(s, NO_EDGES)) == sorted_pairs(new.edges_from.get(s, NO_EDGES))
        assert sorted_pairs(old.edges_to.get(s, NO_EDGES)) == sorted_pairs(new.edges_to.get(s, NO_EDGES))
        assert sorted_pairs(old.all_from(s)) == sorted_pairs(new.all_from(s))
        assert sorted_pairs(old.all_to(s)) == sorted_pairs(new.all_to(s))
        assert sorted(old.match(s, None, None)) == sorted(new.match(s, None, None))
        assert sorted(old.match(None, s, None)) == sorted(new.match(None, s, None))
        assert sorted(old.match(None, None, s)) == sorted(new.match(None, None, s))
        for o in TERMS:
            assert sorted(old.links(s, o)) == sorted(new.links(s, o))
            assert sorted(old.all_links(s, o)) == sorted(new.all_links(s, o))
            assert sorted(old.match(s, None, o)) == sorted(new.match(s, None, o))
            for p in PREDICATES:
                assert ((s, p, o) in old) == ((s, p, o) in new) == ((s, p, o) in new.triples)
                assert sorted(old.match(s, p, o)) == sorted(new.match(s, p, o))


@settings(max_examples=60, deadline=None)
@given(triples, st.booleans(), st.integers(1, 5), st.integers(1, 6))
def test_mapped_index_equals_index_in_memory(found: list[Triple], promoted: bool, long: int, remembered: int) -> None:
    few = 1000 if promoted else 0
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.multiple(index, _MAX_PROMOTED=few, _LAZY_FROM=long, _MAX_CACHED=remembered, _MAX_CACHED_EDGES=2),
        patch.multiple(dictionary, _MAX_RECENT=remembered, _MAX_KNOWN_ABSENT=2),
    ):
        assert_equal_indexes(TripleIndex(found), mapped(found, folder))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=12).map(lambda text: f'"{text}"'), unique=True, max_size=80), st.lists(st.text(max_size=6)), st.booleans())
def test_dictionary_has_numbers_of_its_terms_alone(terms: list[str], others: list[str], wide: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d"
        write_file(path, KEY, dictionary_sections(terms, high_from=0 if wide else 1 << 32))
        found = Dictionary(MappedFile(path, KEY))
        assert len(found) == len(terms)
        assert [found.term(number) for number in range(len(terms))] == terms == found.decoder()(range(len(terms)))
        for _ in range(2):
            assert [found.number(term) for term in terms] == list(range(len(terms)))
            assert all(found.number(other) == -1 for other in others if other not in terms)


def test_dictionary_takes_twelve_bytes_a_term_beside_the_text(tmp_path: Path) -> None:
    sections = dictionary_sections([f"<http://e/{n}>" for n in range(100_000)])
    write_file(tmp_path / "d", KEY, sections)
    file = MappedFile(tmp_path / "d", KEY)
    assert sum(section.length for name, section in file.sections.items() if name != "text") <= 12 * 100_000


@pytest.mark.parametrize("ends", [1, 10, 30_000])
def test_triple_takes_sixteen_bytes(tmp_path: Path, ends: int) -> None:
    store = mapped([(f"<s{n}>", "<p>", f"<o{n % ends}>") for n in range(30_000)], tmp_path)
    assert store.file.section("triples").length <= 16 * 30_000
    assert Counter(map(len, (store.by_object["<p>"].values()))) == {30_000 // ends: ends}


def test_terms_of_a_stream_are_not_cached(tmp_path: Path) -> None:
    with patch.multiple(index, _MAX_PROMOTED=0):
        store = mapped([(f"<s{n}>", "<p>", "<o>") for n in range(100)], tmp_path)
        ends = store.by_subject["<p>"]
        for n in range(50_000):
            assert ends.get(f"<new{n}>", NO_TERMS) == []
            assert (f"<new{n}>", "<p>", "<o>") not in store.triples
        assert len(store.known_absent) <= dictionary._MAX_KNOWN_ABSENT
        assert len(getattr(ends, "recent")) == 0  # noqa: B009


def test_mapped_index_refuses_writes(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        mapped([("<s>", "<p>", "<o>")], tmp_path).add(("<s>", "<p>", "<o2>"))


def test_empty_background_is_mapped(tmp_path: Path) -> None:
    assert_equal_indexes(TripleIndex(), mapped([], tmp_path))
