"""Validation of plain data against sections: classes whose annotations are the schema.

Invariant: unknown keys and wrong types are errors, nothing is converted. All problems of a document
are found, each with its span.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from dotr.config.tree import Location, Tree
from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean

_REQUIRED: Final = object()
"""Default of a key that a document must give."""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Requirements of a key's value.

    `key` is the key in the document, where it is not the name of the attribute. `gt`, `ge` and `le`
    bound a number; `min_length` is the least length of a text or list, `max_length` the greatest
    one of a text. `check` raises ValueError with a reason.
    """

    key: str = ""
    default: Any = _REQUIRED
    description: str = ""
    gt: int | None = None
    ge: int | None = None
    le: int | None = None
    min_length: int = 0
    max_length: int | None = None
    check: Callable[[Any], object] | None = None

    @property
    def is_required(self) -> bool:
        """True if the key has no default."""
        return self.default is _REQUIRED


def Field(
    *,
    key: str = "",
    default: Any = _REQUIRED,
    description: str = "",
    gt: int | None = None,
    ge: int | None = None,
    le: int | None = None,
    min_length: int = 0,
    max_length: int | None = None,
    check: Callable[[Any], object] | None = None,
) -> Any:
    """Declaration of a key of a section with the requirements of a `FieldRule`."""
    return FieldRule(key, default, description, gt, ge, le, min_length, max_length, check)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
class Section:
    """Base of all sections. An instance has the values of a document, or the defaults; it is not
    changed afterwards.

    >>> class Window(Section):
    ...     length: int = Field(gt=0)
    ...     unit: str = "s"
    >>> window = Window(length=5)
    >>> window.length, window.unit, window.is_given("unit")
    (5, 's', False)
    """

    def __init_subclass__(cls) -> None:
        declared = {name: cls.__dict__.get(name, _REQUIRED) for name in cls.__annotations__}
        fields = {name: each if isinstance(each, FieldRule) else FieldRule(default=each) for name, each in declared.items()}
        cls._fields = fields  # type: ignore[attr-defined]

    def __init__(self, **values: object) -> None:
        self.__dict__.update({name: field.default for name, field in fields_of(type(self)).items() if name not in values})
        self.__dict__.update(values)
        self.__dict__["_given"] = frozenset(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def is_given(self, name: str) -> bool:
        """True if the document gives the key, even with its default as value."""
        return name in self.__dict__["_given"]


def fields_of(model: type[Section]) -> Mapping[str, FieldRule]:
    """The keys of a section with their requirements, in the order of declaration.

    >>> class Named(Section):
    ...     name: str
    >>> list(fields_of(Named)), fields_of(Named)["name"].is_required
    (['name'], True)
    """
    fields: Mapping[str, FieldRule] = model.__dict__["_fields"]
    return fields


_TYPES: Final[dict[type, Mapping[str, object]]] = {}
"""Types of the keys of each section that a document has had so far."""


def types_of(model: type[Section]) -> Mapping[str, object]:
    """The types of the keys of a section."""
    if model not in _TYPES:
        _TYPES[model] = get_type_hints(model)
    return _TYPES[model]


AnySection = TypeVar("AnySection", bound=Section)


def validated(model: type[AnySection], data: object, tree: Tree) -> AnySection:
    """The section that the data of a document are.

    `data` has the shape of `tree.data`, where spans come from. Raises `Refused` with all problems:
    unknown keys (C201), missing ones (C202) and values of a wrong type or out of range (C203).

    >>> from dotr.config.tree import read_tree
    >>> from dotr.model.places import Document
    >>> class Window(Section):
    ...     length: int = Field(gt=0)
    >>> tree = read_tree(Document("w.yaml", "length: 5"))
    >>> validated(Window, tree.data, tree).length
    5
    >>> tree = read_tree(Document("w.yaml", "length: five"))
    >>> validated(Window, tree.data, tree)
    Traceback (most recent call last):
    dotr.errors.diagnostics.Refused: w.yaml:1:9: C203 length should be a whole number
      1 | length: five
        |         ^^^^
    """
    reading = _Validation(tree)
    section = reading.section(model, data, ())
    if reading.problems or section is None:
        raise Refused(sorted(reading.problems, key=lambda problem: problem.span.start if problem.span else 0))
    return section


_MAPPING: Final = ("should be a mapping", "Write key: value, a line each.")
_MESSAGES: Final[Mapping[object, tuple[str, str]]] = {
    dict: _MAPPING,
    list: ("should be a list", "Write [ … ] around it."),
    str: ("should be text", 'Put it in quotes: "…".'),
    int: ("should be a whole number", ""),
    bool: ("should be true or false", ""),
}
"""Message and hint for a value that is not of a type."""

_Type: TypeAlias = object
"""A type as an annotation has it."""


class _Validation:
    """Validation of one document. A value with a problem is None, and not used."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[Diagnostic] = []

    def section(self, model: type[AnySection], data: object, location: Location) -> AnySection | None:
        """The section at a location."""
        if not isinstance(data, dict):
            self.wrong(_MAPPING, data, location)
            return None
        names = {field.key or name: name for name, field in fields_of(model).items()}
        values: dict[str, object] = {}
        for key in data:
            if key not in names:
                hint = did_you_mean(key, list(names)) or f"Known here: {', '.join(names)}."
                self.problems.append(Diagnostic("C201", f"unknown key {key}", self.tree.key_span((*location, key)), hint))
        for key, name in names.items():
            field = fields_of(model)[name]
            if key in data:
                values[name] = self.value(types_of(model)[name], field, data[key], (*location, key))
            elif field.is_required:
                path = ".".join(map(str, (*location, key)))
                self.problems.append(Diagnostic("C202", f"{path} is missing", self.tree.span(location), "Add it."))
        return model(**values)

    def value(self, expected: _Type, field: FieldRule, data: object, location: Location) -> object:
        """The value at a location, of a type that an annotation names."""
        origin = get_origin(expected)
        if origin in (Union, UnionType):
            members = get_args(expected)
            if data is None and NoneType in members:
                return None
            fitting = [member for member in members if _fits(member, data)]
            return self.value(fitting[0] if fitting else members[0], field, data, location)
        if origin is Literal:
            return self.choice(get_args(expected), data, location)
        if isinstance(expected, type) and issubclass(expected, Section):
            return self.section(expected, data, location)
        if not _fits(expected, data):
            self.wrong(_MESSAGES[origin or expected], data, location)
            return None
        if isinstance(data, list):
            (item,) = get_args(expected)
            before = len(self.problems)
            values = [self.value(item, _ANY_VALUE, each, (*location, number)) for number, each in enumerate(data)]
            return values if len(self.problems) > before else self.required(field, values, location)
        if isinstance(data, dict):
            _, item = get_args(expected)
            return {key: self.value(item, _ANY_VALUE, each, (*location, key)) for key, each in data.items()}
        return self.required(field, data, location)

    def choice(self, known: tuple[str, ...], data: object, location: Location) -> object:
        """One of some words."""
        if data in known:
            return data
        *first, last = known
        self.report(f"should be {', '.join(first)} or {last}" if first else f"should be {last}", did_you_mean(str(data), known), location)
        return None

    def required(self, field: FieldRule, value: object, location: Location) -> object:
        """A value of the right type, if it meets the requirements of its key."""
        if isinstance(value, str | list) and len(value) < field.min_length:
            self.report(*("is empty", "Write what it is to be.") if isinstance(value, str) else ("needs at least one entry", ""), location)
        elif isinstance(value, str) and field.max_length is not None and len(value) > field.max_length:
            self.report("should be a single character", "", location)
        elif isinstance(value, int) and (bound := _passed_bound(field, value)):
            self.report(f"cannot be used: input should be {bound}", "", location)
        elif field.check is not None:
            try:
                field.check(value)
            except ValueError as error:
                self.report(f"cannot be used: {error}", "", location)
        return value

    def wrong(self, message: tuple[str, str], data: object, location: Location) -> None:
        """Report a value of a wrong type."""
        self.report(*("is empty", f"It {message[0]}.") if data is None else message, location)

    def report(self, message: str, hint: str, location: Location) -> None:
        """Report a value that cannot be used."""
        key_path = ".".join(map(str, location))
        self.problems.append(Diagnostic("C203", f"{key_path} {message}".lstrip(), self.tree.span(location), hint))


_ANY_VALUE: Final = FieldRule()


def _fits(expected: _Type, data: object) -> bool:
    """True if a value is of a type, as far as its outside shows.

    >>> _fits(int, 1), _fits(int, True), _fits(list[str], [1]), _fits(dict[str, str], {})
    (True, False, True, True)
    """
    kind = get_origin(expected) or expected
    if isinstance(kind, type) and issubclass(kind, Section):
        return isinstance(data, dict)
    return isinstance(kind, type) and isinstance(data, kind) and not (kind is int and isinstance(data, bool))


def _passed_bound(field: FieldRule, number: int) -> str:
    """The bound that a number goes beyond, in words; empty if it is in range."""
    if field.gt is not None and number <= field.gt:
        return f"greater than {field.gt}"
    if field.ge is not None and number < field.ge:
        return f"greater than or equal to {field.ge}"
    if field.le is not None and number > field.le:
        return f"less than or equal to {field.le}"
    return ""
