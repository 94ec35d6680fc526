"""Paths to values in a JSON message (`temperature.value`, `parts[].n`, `"a.b"[2]`), and the items
of the lists that paths of `each` name.

Idea: the items of lists are found by one pass over the text of a message, which keeps where each
begins and ends, and of the members around them only those that further paths read. An item is
decoded when it is needed.
Invariant: a message with found items is valid JSON, and not nested more deeply than its limit.
Cost: a third of that of decoding an item, and 16 bytes an item.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from dotr.model import dataclass
from dotr.streams.formats.mapping.maps import origin_cell
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_json_nesting

_NAME: Final = re.compile(r'[^.\[\]{}"^$\s][^.\[\]{}"]*')
_PLAIN: Final = re.compile(r'[^.\[\]{}"^$\s:](?:[^.\[\]{}":]*[^.\[\]{}":\s])?')
"""A member's name that is a step without quotes, also where a type may stand behind it."""

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDEX: Final = re.compile(r"\[([0-9]{0,9})\]")


class Outer(NamedTuple):
    """First step of a path that begins outside of an item of `each`: at the whole message (level
    0), or at the item's own item of the first of nested lists (level 1), and so on."""

    level: int


Step: TypeAlias = str | int | Outer | None
"""A member's name, the index of an item, or None: each item of a list."""

_WHOLE: Final = Outer(0)


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path from an item of `each`, or, with an `Outer` as first step, from what is around it.

    `sent`: the cell of the record's origin, such as `$key` or `$topic[1]`, if it is one; it then
    has no steps. `text`: the path as it is written.
    """

    steps: tuple[Step, ...]
    sent: str = ""
    text: str = field(default="", compare=False)

    @property
    def from_message(self) -> bool:
        """True if the path begins outside of the item."""
        return bool(self.steps) and isinstance(self.steps[0], Outer)

    @property
    def lists(self) -> tuple[tuple[Step, ...], ...]:
        """The paths of the lists whose items the path goes through, the outermost first.

        >>> parse_path("parts[].sub[].m").lists
        (('parts', None), ('parts', None, 'sub', None))
        """
        return tuple(self.steps[: number + 1] for number, step in enumerate(self.steps) if step is None)

    def within(self, each: Sequence[JsonPath]) -> JsonPath:
        """The path as seen from an item of lists: where it goes through one of these from the
        message, the item's own item of that list is meant.

        >>> parse_path("^.a[].b[].c").within(parse_lists("a[].b[]")).steps, parse_path("^.a[].n").within(parse_lists("a[].b[]")).steps
        (('c',), (Outer(level=1), 'n'))
        >>> parse_path("^.v[].x").within(parse_lists("t[], v[]")).steps
        (1, 'x')
        """
        if not self.from_message:
            return self
        steps = self.steps[1:]
        for number, path in enumerate(each):
            if steps[: len(path.steps)] == path.steps:
                return replace(self, steps=((number,) if len(each) > 1 else ()) + steps[len(path.steps) :])
        for level in range(len(each[0].lists) - 1 if each else 0, 0, -1):
            outer = each[0].lists[level - 1]
            if steps[: len(outer)] == outer:
                return replace(self, steps=(Outer(level), *steps[len(outer) :]))
        return self


def parse_path(text: str) -> JsonPath:
    """The path that a text describes; raises ValueError with the reason.

    >>> parse_path('meta."at.utc"[2]').steps, parse_path("tags[]").steps, parse_path("^.id").from_message
    (('meta', 'at.utc', 2), ('tags', None), True)
    >>> parse_path("[0].x").steps, parse_path("$header.unit").sent
    ((0, 'x'), '$header.unit')
    >>> parse_path("a..b")
    Traceback (most recent call last):
    ValueError: a member's name is missing after a.
    """
    path, at = _path_at(text, 0)
    if at < len(text):
        raise ValueError(f"{text[at:]!r} is no part of a path: write a.b, a[0] or a[]")
    return path


def step_text(name: str) -> str:
    """The step of a path that leads to a member.

    >>> step_text("room"), step_text("a.b")
    ('room', '"a.b"')
    """
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def path_text(steps: Iterable[Step]) -> str:
    """The text of a path from an item on.

    >>> path_text(("a", 0, "b.c", None))
    'a[0]."b.c"[]'
    """
    return "".join(
        f".{step_text(step)}" if isinstance(step, str) else "[]" if step is None else f"[{step}]" for step in steps
    ).removeprefix(".")


def parse_lists(text: str) -> tuple[JsonPath, ...]:
    """The paths of `each`: of one list, or of lists side by side; raises ValueError with the
    reason.

    >>> [path.steps for path in parse_lists("h.time[], h.temp[]")]
    [('h', 'time', None), ('h', 'temp', None)]
    >>> parse_lists("a[], b[].c[]")
    Traceback (most recent call last):
    ValueError: a[] and b[].c[] are not side by side: all but the last list of each is the same
    """
    paths: list[JsonPath] = []
    at = 0
    while not paths or text[at : at + 1] == ",":
        path, at = _path_at(text, at and _blank_end(text, at + 1))
        if path in paths:
            raise ValueError(f"{path.text} is there twice")
        paths.append(path)
        if path.sent:
            raise ValueError(f"{path.text} is no path in the message")
        if path.steps[-1] is not None or path.from_message:
            raise ValueError(f"{path.text} names no list: a path of `each` ends with [], as in data[]")
        if path.lists[:-1] != paths[0].lists[:-1]:
            raise ValueError(f"{paths[0].text} and {path.text} are not side by side: all but the last list of each is the same")
    if at < len(text):
        raise ValueError(f"{text[at:]!r} is no part of a path: write a.b, a[0] or a[]")
    return tuple(paths)


def _path_at(text: str, at: int) -> tuple[JsonPath, int]:
    """The path at a place in a text, and its end."""
    if text.startswith("$"):
        origin_cell(text)
        return JsonPath((), text, text), len(text)
    start = first = at
    steps: list[Step] = []
    if text.startswith("^.", at):
        steps, at = [_WHOLE], at + 2
        first = at
    while True:
        if quoted := _STRING.match(text, at):
            try:
                steps.append(str(json.loads(quoted[0])))
            except ValueError:
                raise ValueError(f"{quoted[0]} is no JSON string") from None
            at = quoted.end()
        elif name := _NAME.match(text, at):
            steps.append(name[0].rstrip())
            at = name.end()
        elif text.startswith("$", at):
            raise ValueError(f"{text[at:]} begins with $: write such a name in quotes, {json.dumps(text[at:].partition('.')[0])}")
        elif at > first or not _INDEX.match(text, at):  # the first step may be an index
            raise ValueError(f"a member's name is missing {f'after {text[:at]}' if at else 'at the start'}")
        while index := _INDEX.match(text, at):
            steps.append(int(index[1]) if index[1] else None)
            at = index.end()
        if text[at : at + 1] != ".":
            return JsonPath(tuple(steps), text=text[start:at]), at
        at += 1


# Items of the lists that `each` names.

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_AFTER_ITEM: Final = re.compile(r"[ \t\n\r]*+(?:,[ \t\n\r]*+|(\]))")
_SKIP: Final = json.JSONDecoder(parse_int=float, parse_float=float).scan_once  # type: ignore[attr-defined]
"""Function `(text, at) -> (value, end)`, whose values are not used: it has no limit of digits."""

ScanOnce: TypeAlias = Callable[[str, int], tuple[Any, int]]


@dataclass(slots=True)
class _Node:
    """A place in messages, inside of `depth` brackets: the lists beneath it that `each` names, and
    the values that paths read.

    - `children`: by name of a member, or index of an item.
    - `items`: each item of a list of `each`; `side`: the number of this list among those side by
      side, where it is the last one of its path.
    - `kept`: the whole value is read by a path.
    """

    depth: int
    children: dict[str | int, _Node] = field(default_factory=dict)
    items: _Node | None = None
    side: int | None = None
    kept: bool = False


class ItemGroup(NamedTuple):
    """Items of one list, or of lists side by side, with what is around them.

    - `numbers`: those of the outer items, from 1 on.
    - `outer`: the message, then the outer items, with the members that paths read.
    - `starts`, `ends`: of each list the places of its items in the text.
    """

    numbers: tuple[int, ...]
    outer: tuple[Any, ...]
    starts: Sequence[Sequence[int]]
    ends: Sequence[Sequence[int]]


_Spans: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""The offsets at which the items of a list begin and end."""


@dataclass(slots=True)
class _Found:
    """The lists beneath a place: the last lists by their number side by side, or of nested lists the
    groups of items; both empty where the lists are not there."""

    lists: dict[int, _Spans] = field(default_factory=dict)
    groups: list[ItemGroup] | None = None

    def add(self, other: _Found) -> None:
        """Add what is beneath a member."""
        self.lists |= other.lists
        self.groups = self.groups if other.groups is None else other.groups


class ItemFinder:
    """Finder of the items of lists in the text of a message.

    `each`: the paths of the lists. `further`: the paths that are read beside the items; what those
    from the message name is decoded and kept. `nesting`: the greatest depth of brackets.

    >>> finder = ItemFinder("a[].b[]", [parse_path("^.a[].n")], 64, json.JSONDecoder().scan_once)
    >>> [group] = finder.find('{"a": [{"b": [1, 2], "n": 3}, {}]}', 0)[0]
    >>> group.numbers, list(group.starts[0]), group.outer
    ((1,), [14, 17], ({'a': []}, {'b': [], 'n': 3}))
    """

    def __init__(self, each: str, further: Iterable[JsonPath], nesting: int, decode: ScanOnce) -> None:
        self.each, self.paths = each, parse_lists(each)
        self._nesting, self._decode = nesting, decode
        self._root = _Node(0)
        for side, path in enumerate(self.paths):
            node = self._root
            for number, step in enumerate(path.steps, 1):
                if isinstance(step, str | int):
                    node = node.children.setdefault(step, _Node(number))
                elif number == len(path.steps):
                    node.items, node.side = _Node(number), side
                else:
                    node.items = node.items or _Node(number)
                    node = node.items
        for path in further:
            if path.from_message:
                self._keep(path.steps[1:])

    def _keep(self, steps: Sequence[Step]) -> None:
        """Keep a value that a path reads, or the list of which it reads some items."""
        node = self._root
        for step in steps:
            if step is None and node.items is not None:
                if node.side is not None:  # it is decoded with the item
                    return
                node = node.items
            elif isinstance(step, str):
                node = node.children.setdefault(step, _Node(node.depth + 1))
            else:
                break
        node.kept = True

    def find(self, text: str, at: int) -> tuple[list[ItemGroup], int]:
        """The items of the message at a place of a text, and the end of the message.

        Raises:
            ValueError: the text is no JSON, a list is missing, or lists side by side differ.
        """
        self._has_lists = self._lacks_lists = False
        try:
            if len(self.paths[0].steps) > self._nesting:
                check_json_nesting(text, self._nesting)
            value, found, end = self._value(text, at, self._root)
        except (RecursionError, TextLimitExceeded):
            check_json_nesting(text, self._nesting)
            raise
        except StopIteration as error:
            raise json.JSONDecodeError("Expecting value", text, error.value) from None
        groups = self._grouped((), value, found)
        if self._lacks_lists and not self._has_lists:
            raise ValueError(f"it has no {self.each.removesuffix('[]')}")
        return groups, end

    def _value(self, text: str, at: int, node: _Node) -> tuple[Any, _Found, int]:
        """The kept parts of the value at a place, what was found beneath it, and its end."""
        start, found = at, _Found()
        match text[at : at + 1]:
            case "[" if node.side is not None:
                value: Any = []
                found.lists[node.side], at = self._spans(text, at, node)
            case "[" if node.items is not None or node.children:
                value = []
                at = self._list(text, at, node, found)
            case "{" if node.children:
                value = {}
                at = self._object(text, at, node, value, found)
            case _:
                value, at = self._scan(text, at, node.depth, self._decode if node.kept else _SKIP)
                if node.items is not None and value is not None:
                    raise ValueError(f"{'an object' if isinstance(value, dict) else 'a value'} is found where `each` needs a list")
                return value if node.kept else None, found, at
        return self._decode(text, start)[0] if node.kept else value, found, at

    def _scan(self, text: str, at: int, depth: int, scan: ScanOnce) -> tuple[Any, int]:
        """The value at a place inside of `depth` brackets, and its end."""
        value, end = scan(text, at)
        if text.count("{", at, end) + text.count("[", at, end) > self._nesting - depth:
            check_json_nesting(text[at:end], self._nesting - depth)
        return value, end

    def _object(self, text: str, at: int, node: _Node, value: dict[str, Any], found: _Found) -> int:
        """The end of an object, whose kept members become those of `value`."""
        below: dict[str, _Found] = {}
        at = _blank_end(text, at + 1)
        while text[at : at + 1] != "}":
            if text[at : at + 1] != '"':
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            name, at = _SKIP(text, at)
            at = _blank_end(text, at)
            if text[at : at + 1] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
            at = _blank_end(text, at + 1)
            if (child := node.children.get(name)) is None:
                at = self._scan(text, at, node.depth + 1, _SKIP)[1]
            else:  # of a member that occurs twice the last one counts
                value[name], below[name], at = self._value(text, at, child)
            at = _blank_end(text, at)
            if text[at : at + 1] == ",":
                at = _blank_end(text, at + 1)
                if text[at : at + 1] == "}":
                    raise json.JSONDecodeError("Illegal trailing comma before end of object", text, at)
            elif text[at : at + 1] != "}":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        for each in below.values():
            found.add(each)
        return at + 1

    def _list(self, text: str, at: int, node: _Node, found: _Found) -> int:
        """The end of a list whose items, or some of them, hold lists of `each`."""
        number, at = 0, _blank_end(text, at + 1)
        if node.items is not None:
            found.groups = []
        is_last = text[at : at + 1] == "]"
        at += is_last
        while not is_last:
            child = node.items or node.children.get(number)
            number += 1
            if child is None:
                at = self._scan(text, at, node.depth + 1, _SKIP)[1]
            else:
                value, below, at = self._value(text, at, child)
                if found.groups is None:
                    found.add(below)
                else:
                    found.groups += self._grouped((number,), value, below)
            if (after := _AFTER_ITEM.match(text, at)) is None:
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at, is_last = after.end(), bool(after[1])
        return at

    def _spans(self, text: str, at: int, node: _Node) -> tuple[_Spans, int]:
        """The places of the items of a list, and its end."""
        starts, ends = array("q"), array("q")
        add_start, add_end, count, scan, after_item = starts.append, ends.append, text.count, _SKIP, _AFTER_ITEM.match
        most = self._nesting - node.depth - 1
        at = _blank_end(text, at + 1)
        if text[at : at + 1] == "]":
            return (starts, ends), at + 1
        while True:
            add_start(at)
            start, at = at, scan(text, at)[1]
            if at - start > most and count("{", start, at) + count("[", start, at) > most:
                check_json_nesting(text[start:at], most)
            add_end(at)
            after = after_item(text, at)
            if after is None:
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = after.end()
            if after[1]:
                return (starts, ends), at

    def _grouped(self, numbers: tuple[int, ...], value: Any, found: _Found) -> list[ItemGroup]:
        """The groups of what was found beneath a message or an outer item."""
        if found.groups is not None:
            return [ItemGroup(numbers + each.numbers, (value, *each.outer), each.starts, each.ends) for each in found.groups]
        if not found.lists:
            self._lacks_lists = True
            return []
        self._has_lists = True
        for side, path in enumerate(self.paths):
            if side not in found.lists:
                raise ValueError(f"it has no {path.text.removesuffix('[]')}")
        starts, ends = zip(*(found.lists[side] for side in range(len(self.paths))), strict=True)
        if len({len(each) for each in starts}) > 1:
            sizes = [f"{len(each):,} in {path.text}" for path, each in zip(self.paths, starts, strict=True)]
            raise ValueError(f"lists side by side differ in the number of their items: {', '.join(sizes)}")
        return [ItemGroup(numbers, (value,), starts, ends)] if starts[0] else []


def _blank_end(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()
