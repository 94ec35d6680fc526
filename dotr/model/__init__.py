"""Data model shared by all packages: frozen values without behaviour beyond small accessors, and
`dataclass`, which declares them.

Idea: the standard library compiles six methods for each data class when a module is imported, a
fifth of the start of a command, which calls one in ten of them. Here a method is compiled, by the
standard library, when it is first looked up, and its code is kept in a file beside the compiled
module, by all that it depends on: Python's version, and the names and kinds of the fields.
Invariant: a method that has been looked up is equal to the one that `dataclasses.dataclass` makes;
code is kept only if the method made of it has the same parts.
Cost: 200 µs for each method that is used, or 25 where it is kept, once in a process.
"""

from __future__ import annotations

import dataclasses
import marshal
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING
from functools import cache
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

_KEPT: Final = (__spec__.cached or "").replace(".pyc", ".methods")
"""The file of kept methods; empty where modules are not compiled to files, as in a zip."""
_VERSION, _NEW = "version", "new"
"""Keys of the kept methods that are no fields: Python's version, and that some are not yet written."""
_MOST: Final = 3_000
"""Kept methods, at most: beyond it, older releases of dotr have left theirs, and all are compiled anew."""
_ORDER: Final = ("__lt__", "__le__", "__gt__", "__ge__")


def _dataclass(
    decorated: type | None = None, /, *, repr: bool = True, eq: bool = True, order: bool = False, frozen: bool = False, slots: bool = False
) -> Any:
    """Decorator as `dataclasses.dataclass`, with methods that are compiled at their first use. Fields
    without initialization (`InitVar`) are not for it; that a frozen class has frozen bases is
    checked by mypy.

    >>> @dataclass(frozen=True, slots=True)
    ... class Room:
    ...     name: str
    ...     doors: int = 1
    >>> type(vars(Room)["__init__"]).__name__, Room("hall"), type(vars(Room)["__init__"]).__name__
    ('_Method', Room(name='hall', doors=1), 'function')
    >>> Room("hall").doors = 2
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'doors'
    """

    def declare(made: type) -> type:
        own = vars(made)
        explicit_hash = own.get("__hash__") is not None or ("__hash__" in own and "__eq__" not in own)
        made.__doc__ = made.__doc__ or made.__name__  # the standard library would write the signature, for which it compiles __init__
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(made)
        names = ["__init__", *(["__repr__"] if repr else []), *(["__eq__"] if eq else []), *(_ORDER if order else [])]
        for name in names:
            if name not in own:
                setattr(made, name, _Method(made, name, frozen))
        if eq and not explicit_hash:
            made.__hash__ = _Method(made, "__hash__", frozen) if frozen else None  # type: ignore[assignment, method-assign]
        if frozen:
            _freeze(made, pickled=slots and "__getstate__" not in own)
        return made

    return declare if decorated is None else declare(decorated)


if not TYPE_CHECKING:
    dataclass = _dataclass


class _Method:
    """Method of a data class before its first use: a descriptor that replaces itself."""

    __slots__ = ("_frozen", "_name", "_owner")

    def __init__(self, owner: type, name: str, frozen: bool) -> None:
        self._owner, self._name, self._frozen = owner, name, frozen

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        """The compiled method, bound to an instance, if any."""
        method = _compiled(self._owner, self._name, self._frozen)
        setattr(self._owner, self._name, method)
        bound: Callable[..., Any] = method.__get__(instance, owner)
        return bound


def _compiled(owner: type, name: str, frozen: bool) -> Any:
    """A method of a class as the standard library compiles it, or as it was kept."""
    fields = {field.name: field for field in dataclasses.fields(owner)}
    shape = [
        (each.name, each.init, each.repr, each.hash, each.compare, each.kw_only, each.default is MISSING, each.default_factory is MISSING)
        for each in fields.values()
    ]
    key = repr((name, frozen, hasattr(owner, "__post_init__"), shape))
    if (kept := _kept().get(key)) is not None:
        return _restored(kept, owner, name, fields)
    method = _made(owner, name, frozen, fields)
    with suppress(LookupError, AttributeError, TypeError, ValueError):
        if _parts(_restored(method.__code__, owner, name, fields)) == _parts(method):
            _kept()[key] = method.__code__
            _kept()[_NEW] = None
    return method


def _made(owner: type, name: str, frozen: bool, fields: dict[str, dataclasses.Field[Any]]) -> Any:
    """A method that the standard library compiles for a class of the same fields."""
    space: dict[str, Any] = {key: getattr(owner, key) for key in ("__module__", "__qualname__", "__doc__")}
    space |= {"__annotations__": {key: field.type for key, field in fields.items()}, **fields}
    if hasattr(owner, "__post_init__"):
        space["__post_init__"] = owner.__post_init__
    made: type = dataclasses.dataclass(
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name in ("__eq__", *_ORDER),
        order=name in _ORDER,
        unsafe_hash=name == "__hash__",
        frozen=frozen and name == "__init__",
        slots=not all(field.init for field in fields.values()),  # without slots such a field is left to the class's attribute
    )(type(owner.__name__, (), space))
    return vars(made)[name]


def _restored(code: CodeType, owner: type, name: str, fields: dict[str, dataclasses.Field[Any]]) -> FunctionType:
    """A method from its code: what else it has follows from the fields. A default value is a default
    of the parameter; a factory is a cell, and the parameter's default then a mark. Raises
    LookupError for a cell that is none of these.
    """
    mark = dataclasses._HAS_DEFAULT_FACTORY  # type: ignore[attr-defined]
    given = {key: each for key, each in fields.items() if each.init} if name == "__init__" else {}
    defaults = {key: mark if each.default is MISSING else each.default for key, each in given.items() if _has_default(each)}
    cells = {"__dataclass_builtins_object__": object, "_HAS_DEFAULT_FACTORY": mark, "__dataclass_HAS_DEFAULT_FACTORY__": mark}
    for key, each in fields.items():
        value = each.default if each.default_factory is MISSING else each.default_factory
        cells |= {f"_dflt_{key}": value, f"__dataclass_dflt_{key}__": value}
    closure = tuple([CellType(cells[free]) for free in code.co_freevars])
    values = tuple([value for key, value in defaults.items() if not given[key].kw_only])
    method = FunctionType(code, vars(sys.modules[owner.__module__]), name, values or None, closure or None)
    method.__kwdefaults__ = {key: value for key, value in defaults.items() if given[key].kw_only} or None
    method.__qualname__ = f"{owner.__qualname__}.{name}"
    if name == "__init__":
        named = sorted(given, key=lambda key: bool(given[key].kw_only))
        method.__annotations__ = {**{key: given[key].type for key in named}, "return": None}
    return method


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _parts(method: Any) -> list[object]:
    """The parts of a method, by identity where it has values of a field."""
    values = [
        *(method.__defaults__ or ()),
        *(method.__kwdefaults__ or {}).values(),
        *(cell.cell_contents for cell in method.__closure__ or ()),
    ]
    named = [*(method.__kwdefaults__ or ()), *method.__annotations__.items()]
    return [method.__code__, method.__name__, method.__qualname__, method.__globals__ is not None, named, [id(value) for value in values]]


@cache
def _kept() -> dict[str, Any]:
    """The code of methods, by the fields that it depends on, from the file beside the compiled module."""
    with suppress(OSError, ValueError, EOFError, TypeError):
        with open(_KEPT, "rb") as file:
            found: Any = marshal.load(file)
        if isinstance(found, dict) and found.get(_VERSION) == sys.version and len(found) < _MOST:
            return found  # trusted as the compiled module beside it is
    return {_VERSION: sys.version}


def keep_methods() -> None:
    """Write the code of the methods that were compiled in this process beside the compiled module, as
    Python writes modules: not where the folder is read-only, or PYTHONDONTWRITEBYTECODE is set."""
    kept = _kept()
    if _NEW not in kept or not _KEPT or sys.dont_write_bytecode:
        return
    del kept[_NEW]
    temporary = f"{_KEPT}.{os.getpid()}"
    with suppress(OSError):
        try:
            with open(temporary, "xb") as file:
                file.write(marshal.dumps(kept))
            os.replace(temporary, _KEPT)
        except OSError:  # the disk is full
            os.unlink(temporary)


def _freeze(owner: Any, pickled: bool) -> None:
    """Refuse to set and to delete fields; with `pickled`, the state that is copied is all fields."""

    def refused(instance: object, name: str) -> bool:
        return type(instance) is owner or any(name == field.name for field in dataclasses.fields(owner))

    def set_attribute(self: object, name: str, value: object) -> None:
        if refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(owner, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(owner, self).__delattr__(name)

    owner.__setattr__, owner.__delattr__ = set_attribute, delete_attribute
    if pickled:
        owner.__getstate__, owner.__setstate__ = _state, _set_state


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
