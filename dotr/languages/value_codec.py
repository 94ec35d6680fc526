"""Codec of frozen values as JSON, by a closed list of types with written names.

Idea: a text is a list of nodes in topological order: a node refers to earlier nodes only, and equal
nodes are written once. A node is a list of its written name and its parts; a part is None, a truth
value, a number or a text, or a list with the number of an earlier node. So neither direction
recurses, however deep a value is.
Example: `Call("!", (Var("x"),))` is `[["var","x"],["()",[0]],["call","!",[1]]]`.
Invariant: written names never change; the names of classes, fields and members may.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from dotr.errors.diagnostics import DotrError

_TUPLE: Final = "()"
_SET: Final = "{}"
_MAPPING: Final = "{:}"
_PLAIN: Final = (str, int, float, bool, type(None))


class UnknownForm(DotrError):
    """Raised for a type without a written name, and for a text with an unknown name or a wrong
    number of parts."""


class ValueCodec:
    """Codec of values of some types: frozen dataclasses, named tuples and enumerations.

    Tuples, frozen sets of texts and mappings need no name.

    - `names`: the written name of each type.

    >>> from dotr.model.algebra import Call, Const, Var
    >>> codec = ValueCodec({Call: "call", Var: "var"})
    >>> text = codec.encode(Call("!", (Var("x"),)))
    >>> text, codec.decode(text)
    ('[["var","x"],["()",[0]],["call","!",[1]]]', Call(function='!', arguments=(Var(name='x'),)))
    >>> codec.encode(Const("<a>"))
    Traceback (most recent call last):
    dotr.languages.value_codec.UnknownForm: Const has no written name
    """

    def __init__(self, names: Mapping[type, str]) -> None:
        if len(set(names.values())) < len(names):
            raise ValueError("two types have one written name")
        self._names = dict(names)
        self._types = {name: kind for kind, name in names.items()}
        self._parts_of = {kind: tuple(each.name for each in fields(kind) if each.init) for kind in names if is_dataclass(kind)}

    @property
    def types(self) -> frozenset[type]:
        """The types that have a written name."""
        return frozenset(self._names)

    def encode(self, value: object, known: Sequence[object] = ()) -> str:
        """The text of a value.

        Args:
            value: of a type with a name; not plain by itself.
            known: values that are not written but referred to by a negative number (-1 is the
                first); `decode` needs the same values.

        Raises:
            UnknownForm: a part is of a type without a written name.
        """
        numbers = {id(each): -1 - number for number, each in enumerate(known)}
        nodes: dict[str, int] = {}
        stack = [value]
        while stack:
            each = stack[-1]
            name, parts = self._parts(each)
            missing = [part for part in parts if not isinstance(part, _PLAIN) and id(part) not in numbers]
            if missing:  # parts are written first, so that a node refers to earlier nodes only
                stack += reversed(missing)
                continue
            stack.pop()
            written = [part if isinstance(part, _PLAIN) else [numbers[id(part)]] for part in parts]
            numbers[id(each)] = nodes.setdefault(json.dumps([name, *written], separators=(",", ":")), len(nodes))
        return f"[{','.join(nodes)}]"

    def _parts(self, value: Any) -> tuple[str, Sequence[object]]:
        """The name of a value, and its parts. The value keeps the parts alive, so that their `id`
        is unique while it is encoded."""
        kind = type(value)
        name = self._names.get(kind)
        if name is not None:
            if kind in self._parts_of:
                return name, [getattr(value, field) for field in self._parts_of[kind]]
            return name, value if isinstance(value, tuple) else [value.value]
        if kind is tuple:
            return _TUPLE, value
        if kind is frozenset:
            return _SET, sorted(value)
        if isinstance(value, Mapping):
            return _MAPPING, [part for pair in value.items() for part in pair]
        raise UnknownForm(f"{kind.__name__} has no written name")

    def decode(self, text: str, known: Sequence[object] = ()) -> Any:
        """The value of a text: the inverse of `encode`, with the same values as `known`.

        Raises:
            UnknownForm: the text is of another codec.
        """
        values: list[Any] = []
        makers: dict[str, Callable[..., Any]] = {_TUPLE: _tuple, _SET: _frozenset, _MAPPING: _mapping, **self._types}
        try:
            for name, *parts in json.loads(text):
                arguments = [part if type(part) is not list else values[part[0]] if part[0] >= 0 else known[-1 - part[0]] for part in parts]
                values.append(makers[name](*arguments))
            return values[-1]
        except KeyError as error:
            raise UnknownForm(f"{error} is the written name of no type") from None
        except (TypeError, ValueError, IndexError) as error:
            raise UnknownForm(f"the parts of a value are not those of its type: {error}") from None


def _tuple(*parts: object) -> tuple[object, ...]:
    return parts


def _frozenset(*parts: object) -> frozenset[object]:
    return frozenset(parts)


def _mapping(*parts: object) -> dict[object, object]:
    return dict(zip(parts[::2], parts[1::2], strict=True))
