"""Index of the background without some of its triples: the view of an instant that retracts static
conclusions.

Idea: the background is not changed. Tables and lists without a masked triple are shared; the others
are dictionaries and lists that read from the background's and leave out the masked triples. Such a
list is filled at its first use, so masking one member of a class with a million members costs
nothing unless the class is enumerated. Masked lists over a mapped index stay lazy.

Invariant: a masked index equals a `TripleIndex` of the remaining triples, in the same order.

Cost: proportional to the masked triples; a look-up in an affected table costs one more call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, KeysView, Sequence
from typing import Any, TypeVar, cast

from dotr.evaluation.triples.index import NO_ENDS, Edges, Ends, FilteredSequence, LazySequence, TripleIndex, is_hidden
from dotr.model.terms import Term, Triple

Key = TypeVar("Key")
Item = TypeVar("Item")


class _FilteredList(list[Item]):
    """A list without some of its items, filled at its first use."""

    __slots__ = ("_source",)

    def __init__(self, source: Iterable[Item], excluded: Collection[Item]) -> None:
        super().__init__()
        self._source: Callable[[], list[Item]] | None = lambda: [item for item in source if item not in excluded]

    def _filled(self) -> _FilteredList[Item]:
        source, self._source = self._source, None
        if source is not None:
            self.extend(source())
        return self

    def __iter__(self) -> Iterator[Item]:
        return list.__iter__(self._filled())

    def __len__(self) -> int:
        return list.__len__(self._filled())

    def __contains__(self, item: object) -> bool:
        return list.__contains__(self._filled(), item)

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: list[Item]) -> list[Item]:
        return [*other, *self]


def _filtered(source: Sequence[Item], excluded: Collection[Item]) -> list[Item]:
    return cast("list[Item]", FilteredSequence(source, excluded)) if isinstance(source, LazySequence) else _FilteredList(source, excluded)


class _MaskedTable(dict[Key, list[Item]]):
    """Lists by key, of which some have masked items.

    Own entries shadow those of `base`: a `_FilteredList` where items remain, a plain empty list
    where none remain. Example: base {a: [1, 2], b: [3]}, masked {a: [1], b: [3]} has own entries
    {a: filtered [2], b: []}, and b is not a key.
    """

    __slots__ = ("_base",)

    def __init__(self, base: dict[Key, list[Item]], masked: dict[Key, list[Item]], covers_all: Callable[[Key, list[Item]], bool]) -> None:
        super().__init__()
        self._base = base
        for key, items in masked.items():
            unmasked = base.get(key)
            if unmasked is not None:
                super().__setitem__(key, [] if covers_all(key, items) else _filtered(unmasked, set(items)))

    def get(self, key: Key, default: Any = None) -> Any:
        own = super().get(key)
        return self._base.get(key, default) if own is None else default if type(own) is list else own

    def __getitem__(self, key: Key) -> list[Item]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return key in self._base and (not super().__contains__(key) or type(super().__getitem__(key)) is not list)

    def __iter__(self) -> Iterator[Key]:
        return (key for key in self._base if key in self)

    def __bool__(self) -> bool:
        """True if a key is left.

        The keys are not counted, which takes time in a base that holds them by a horizon.
        """
        return any(True for _ in self)

    def __len__(self) -> int:
        return len(self._base) - sum(type(items) is list for items in super().values())

    def keys(self) -> Any:
        return KeysView(self)

    def items(self) -> Any:
        return ItemsView(self)


class _MaskedPredicates(dict[Term, Ends]):
    """The tables of all predicates; those with masked triples are `own`."""

    __slots__ = ("_base",)

    def __init__(self, base: dict[Term, Ends], own: dict[Term, Ends]) -> None:
        super().__init__(own)
        self._base = base

    def get(self, key: Term, default: Any = None) -> Any:
        own = super().get(key)
        return self._base.get(key, default) if own is None else own if own else default

    def __getitem__(self, key: Term) -> Ends:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return key in self._base and (not super().__contains__(key) or bool(super().__getitem__(key)))

    def __iter__(self) -> Iterator[Term]:
        return (key for key in self._base if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> Any:
        return ItemsView(self)


class _VisibleTriples(set[Triple]):
    """The triples of the background that are not masked, for membership."""

    __slots__ = ("_base", "_masked")

    def __init__(self, base: Collection[Triple], masked: Collection[Triple]) -> None:
        super().__init__()
        self._base, self._masked = base, masked

    def __contains__(self, triple: object) -> bool:
        return triple in self._base and triple not in self._masked

    def __len__(self) -> int:
        return len(self._base) - len(self._masked)

    def __iter__(self) -> Iterator[Triple]:
        return (triple for triple in self._base if triple not in self._masked)


class MaskedIndex(TripleIndex):
    """The triples of `base` without those of `masked`, a subset of them.

    >>> index = TripleIndex([("<s>", "<p>", "<o>"), ("<t>", "<p>", "<o>"), ("<s>", "<q>", "<o>")])
    >>> view = MaskedIndex(index, {("<s>", "<p>", "<o>")})
    >>> list(view), view.by_object["<p>"]["<o>"] + ["<u>"], "<s>" in view.by_subject["<p>"]
    ([('<t>', '<p>', '<o>'), ('<s>', '<q>', '<o>')], ['<t>', '<u>'], False)
    >>> list(view.match("<s>", None, None)), len(view), ("<s>", "<p>", "<o>") in view
    ([('<s>', '<q>', '<o>')], 2, False)
    """

    __slots__ = ("_base", "_masked")

    def __init__(self, base: TripleIndex, masked: Collection[Triple]) -> None:
        self._base, self._masked = base, masked
        self.has_edges = False
        self.triples = _VisibleTriples(base.triples, masked)
        subjects: dict[Term, dict[Term, list[Term]]] = {}
        objects: dict[Term, dict[Term, list[Term]]] = {}
        for s, p, o in masked:
            subjects.setdefault(p, {}).setdefault(s, []).append(o)
            objects.setdefault(p, {}).setdefault(o, []).append(s)
        self.by_subject = _masked_predicates(base.by_subject, subjects)
        self.by_object = _masked_predicates(base.by_object, objects)

    def add(self, triple: Triple) -> bool:
        raise TypeError("a masked index is read-only")

    def _build_edges(self) -> None:
        self._from, self._to = self._masked_edges(self._base.edges_from, self._base.edges_to, hidden=False)
        self.has_edges = True

    def _masked_edges(self, forward: Edges, backward: Edges, *, hidden: bool) -> tuple[Edges, Edges]:
        outgoing: Edges = {}
        incoming: Edges = {}
        for s, p, o in self._masked:
            if is_hidden(p) is hidden:
                outgoing.setdefault(s, []).append((p, o))
                incoming.setdefault(o, []).append((s, p))
        return _MaskedTable(forward, outgoing, _covers_all(forward)), _MaskedTable(backward, incoming, _covers_all(backward))

    def links(self, subject: Term, object: Term) -> list[Term]:
        return [p for p in self._base.links(subject, object) if (subject, p, object) not in self._masked]

    def all_from(self, subject: Term) -> list[tuple[Term, Term]]:
        return [(p, o) for p, o in self._base.all_from(subject) if (subject, p, o) not in self._masked]

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        return [(s, p) for s, p in self._base.all_to(object) if (s, p, object) not in self._masked]

    def all_links(self, subject: Term, object: Term) -> list[Term]:
        return [p for p in self._base.all_links(subject, object) if (subject, p, object) not in self._masked]


def _masked_predicates(tables: dict[Term, Ends], masked: dict[Term, dict[Term, list[Term]]]) -> dict[Term, Ends]:
    own: dict[Term, Ends] = {
        p: _MaskedTable(tables.get(p, NO_ENDS), ends, _covers_all(tables.get(p, NO_ENDS))) for p, ends in masked.items()
    }
    return _MaskedPredicates(tables, own)


def _covers_all(table: dict[Key, list[Item]]) -> Callable[[Key, list[Item]], bool]:
    """Predicate: the masked items are all that a table has under a key."""
    return lambda key, items: len(table[key]) == len(items)
