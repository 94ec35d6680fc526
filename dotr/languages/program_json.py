"""The parsed program as JSON: the syntax trees of its texts, for processes that import no parser.

Idea: a closed list of types, each written by the name of its class, since a program is read by the
release that has written it. Spans refer to documents of the specification, which is sent with it.
Invariant: a program compiled from the parsed one has the digests, the layout and the output of one
compiled from the texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, Final

from dotr.engine.program import CompiledProgram, compile_units
from dotr.engine.spec import ProgramSpec, RuleSet
from dotr.engine.static_answers import StaticAnswers
from dotr.errors.diagnostics import DotrError, refuse
from dotr.evaluation.limits import BOUNDS, LONGEST_TEXT, MOST_TEXT_OF_BACKGROUND
from dotr.instant.datalog.background.compiled_cache import CachePolicy, StoreFile, open_background
from dotr.model import dataclass
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.rules import Rule, SharedQuery
from dotr.model.templates import ParsedMap
from dotr.model.terms import Prefixes
from dotr.temporal.layout.units import StreamUnit

# Codec of frozen values as JSON, by a closed list of types.
#
# Idea: a text is a list of nodes in topological order: a node refers to earlier nodes only, and equal
# nodes are written once. A node is a list of the name of its class and its parts; a part is None, a
# truth value, a number or a text, or a list with the number of an earlier node. So neither direction
# recurses, however deep a value is.
# Example: `Call("!", (Var("x"),))` is `[["Var","x"],["()",[0]],["Call","!",[1]]]`.

_TUPLE: Final = "()"
_SET: Final = "{}"
_MAPPING: Final = "{:}"
_PLAIN: Final = (str, int, float, bool, type(None))


class UnknownForm(DotrError):
    """Raised for a value of another type, and for a text with an unknown name or a wrong number of
    parts."""


class ValueCodec:
    """Codec of values of some types: frozen dataclasses, named tuples and enumerations.

    Tuples, frozen sets and mappings are values, too.

    - `types`: the types, of different names.
    - `further`: more types: a module, for all frozen values that it defines, or `module:Type`. They
      are imported in this order where a name is looked for that is none of those before.

    >>> from dotr.model.algebra import Call, Const, Var
    >>> codec = ValueCodec((Call, Var))
    >>> text = codec.encode(Call("!", (Var("x"),)))
    >>> text, codec.decode(text)
    ('[["Var","x"],["()",[0]],["Call","!",[1]]]', Call(function='!', arguments=(Var(name='x'),)))
    >>> codec.encode(Const("<a>"))
    Traceback (most recent call last):
    dotr.languages.program_json.UnknownForm: Const is no type of the codec
    """

    def __init__(self, types: Collection[type] = (), further: Sequence[str] = ()) -> None:
        self._types: dict[str, type] = {}
        self._further, self._imported = further, set[str]()
        for kind in types:
            self._add(kind)

    def _add(self, kind: type) -> None:
        if self._types.setdefault(kind.__name__, kind) is not kind:
            raise ValueError("two types have one name")

    def type_of(self, name: str) -> type | None:
        """The type of a name; None, after the import of all modules, where there is none."""
        for place in self._further:
            if name in self._types:
                break
            if place not in self._imported:
                module, _, own = place.partition(":")
                found = import_module(module)
                for kind in [getattr(found, own)] if own else values_of(found):
                    self._add(kind)
                self._imported.add(place)  # last: another thread that looks for a name meanwhile imports it, too
        return self._types.get(name)

    def encode(self, value: object, known: Sequence[object] = ()) -> str:
        """The text of a value.

        Args:
            value: of one of the types; not plain by itself.
            known: values that are not written but referred to by a negative number (-1 is the
                first); `decode` needs the same values.

        Raises:
            UnknownForm: a part is of another type.
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
        if kind is tuple:
            return _TUPLE, value
        if kind is frozenset:
            return _SET, sorted(value, key=str)
        if isinstance(value, Mapping):
            return _MAPPING, [part for pair in value.items() for part in pair]
        if self.type_of(kind.__name__) is not kind:
            raise UnknownForm(f"{kind.__name__} is no type of the codec")
        if is_dataclass(kind):
            return kind.__name__, [getattr(value, name) for name in _names_of(kind)]
        return kind.__name__, value if isinstance(value, tuple) else [value.value]

    def decode(self, text: str, known: Sequence[object] = (), made_by: Mapping[type, Callable[..., object]] = MappingProxyType({})) -> Any:
        """The value of a text: the inverse of `encode`, with the same values as `known`.

        `made_by`: of some types a function that is called with the parts in place of the type.

        Raises:
            UnknownForm: the text is of another codec.
        """
        values: list[Any] = []
        makers: dict[str, Callable[..., Any]] = {_TUPLE: _tuple, _SET: _frozenset, _MAPPING: _mapping}
        try:
            for name, *parts in json.loads(text):
                arguments = [part if type(part) is not list else values[part[0]] if part[0] >= 0 else known[-1 - part[0]] for part in parts]
                make = makers.get(name)
                if make is None:
                    kind = self.type_of(name)
                    if kind is None:
                        raise UnknownForm(f"{name!r} is the name of no type")
                    make = makers[name] = made_by.get(kind) or _maker(kind)
                values.append(make(*arguments))
            return values[-1]
        except (TypeError, ValueError, IndexError) as error:
            raise UnknownForm(f"the parts of a value are not those of its type: {error}") from None


@cache
def _names_of(kind: type) -> tuple[str, ...]:
    """The names of the parts of a data class."""
    return tuple(each.name for each in fields(kind) if each.init)


def _maker(kind: type) -> Callable[..., object]:
    """A function that makes a value of its parts. That of a data class sets the fields, so that its
    constructor is not compiled: a program has values of forty such classes."""
    if not is_dataclass(kind) or hasattr(kind, "__post_init__") or not all(each.init for each in fields(kind)):
        return kind
    names, set_field = _names_of(kind), object.__setattr__

    def make(*parts: object) -> object:
        value = object.__new__(kind)
        for name, part in zip(names, parts, strict=True):
            set_field(value, name, part)
        return value

    return make


def _tuple(*parts: object) -> tuple[object, ...]:
    return parts


def _frozenset(*parts: object) -> frozenset[object]:
    return frozenset(parts)


def _mapping(*parts: object) -> dict[object, object]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class ParsedProgram:
    """A program without its texts.

    - `rules`, `queries`, `prefixes`: those of `RuleSet`.
    - `units`: those of other languages than that of rules.
    - `closing_rules`: those of the entailment and of Datalog files.
    """

    rules: tuple[Rule, ...]
    queries: tuple[SharedQuery, ...]
    prefixes: Prefixes
    units: tuple[StreamUnit, ...]
    closing_rules: tuple[DatalogRule, ...]

    @staticmethod
    def of(program: CompiledProgram) -> ParsedProgram:
        """The parsed program of a compiled one."""
        ruleset = program.rules
        return ParsedProgram(ruleset.rules, ruleset.queries, ruleset.prefixes, program.units, program.closing_rules)

    def compiled(self, spec: ProgramSpec, keeping: CachePolicy | StoreFile) -> CompiledProgram:
        """The program, which another process has parsed and checked, without its warnings.

        Args:
            spec: the specification, of which the texts are not read.
            keeping: the cache of compiled backgrounds, or the store to use.

        Raises:
            Refused: the background cannot be read or closed.
        """
        BOUNDS.start(LONGEST_TEXT, MOST_TEXT_OF_BACKGROUND)
        closed = open_background(spec.sources, self.closing_rules, keeping)
        static = StaticAnswers(spec, closed.store)
        rules = RuleSet(self.rules, self.queries, (), self.prefixes)
        program = compile_units(spec, rules, self.units, self.closing_rules, closed, static)
        static.write()
        return program

    def to_json(self, spec: ProgramSpec) -> str:
        """The JSON of the program; to read it, its specification is needed too.

        >>> from dotr.languages.programs import compile_program
        >>> spec = ProgramSpec(prefixes={"": "http://e/"})
        >>> parsed = ParsedProgram.of(compile_program(spec))
        >>> ParsedProgram.from_json(parsed.to_json(spec), spec) == parsed
        True
        """
        return PROGRAM_CODEC.encode(self, (*spec.rules, *spec.datalog))

    @staticmethod
    def from_json(text: str, spec: ProgramSpec) -> ParsedProgram:
        """The inverse of `to_json`, with the same specification.

        Raises:
            Refused: the text is of another release (S155).
        """
        parsed = _decoded(text, ParsedProgram, "program", (*spec.rules, *spec.datalog))
        assert isinstance(parsed, ParsedProgram), "it was decoded as a program"
        return parsed


def maps_to_json(maps: Sequence[ParsedMap | None]) -> str:
    """The JSON of the maps of inputs, None for an input without one; empty if no input has one."""
    return PROGRAM_CODEC.encode(tuple(maps)) if any(maps) else ""


def maps_from_json(text: str) -> tuple[ParsedMap | None, ...]:
    """The inverse of `maps_to_json` for a text that is not empty.

    >>> from dotr.model.templates import Template
    >>> maps_from_json(maps_to_json([None, ParsedMap(Template(()), ())]))
    (None, ParsedMap(template=Template(triples=()), bracketed=()))

    Raises:
        Refused: the text is of another release (S155).
    """
    return tuple(_decoded(text, tuple, "maps"))


def _decoded(text: str, kind: type, what: str, known: Sequence[Document] = ()) -> Any:
    """The value of a text, of a given type; raises `Refused` (S155) for the text of another
    release."""
    try:
        value = PROGRAM_CODEC.decode(text, known)
        if not isinstance(value, kind):
            raise UnknownForm(f"{type(value).__name__} is no {kind.__name__}")
    except UnknownForm as unknown:
        hint = "Install the same release of dotr wherever Spark runs Python."
        raise refuse("S155", f"a worker cannot read the {what} that the driver has parsed: {unknown}", hint=hint) from None
    return value


def values_of(module: ModuleType) -> Iterator[type]:
    """The frozen values that a module defines: dataclasses, named tuples and enumerations."""
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__module__ == module.__name__ and (is_dataclass(kind) or issubclass(kind, tuple | Enum)):
            yield kind


_TYPES: Final = (
    *(f"dotr.model.{name}" for name in ("algebra", "rules", "places", "templates", "datalog", "calendars")),
    *(f"dotr.model.time:{name}" for name in ("Unit", "Interval", "TimeForm")),
    *("dotr.languages.program_json:ParsedProgram", "dotr.languages.kept_programs:CheckedProgram"),
    *(f"dotr.engine.spec:{name}" for name in ("RuleSet", "RulePlaces", "RolePlaces")),
    *(f"dotr.errors.diagnostics:{name}" for name in ("Diagnostic", "Severity", "Allowance", "Silenced")),
    "dotr.evaluation.expressions.kinds:TermKind",
    *(f"dotr.model.units:{name}" for name in ("UnitEvents", "MadeGraphs", "FedGraphs", "InstantTriples", "IntervalEvents")),
    *("dotr.temporal.layout.units:UnitRead", "dotr.temporal.intervals.patterns"),
    *("dotr.languages.continuous.model", "dotr.languages.continuous.unit:QueryUnit"),
    *("dotr.languages.lars.model", "dotr.languages.lars.unit:LarsUnit"),
    *("dotr.languages.epsparql.interval_keys:OperandInput", "dotr.languages.epsparql.unit:IntervalUnit"),
    "dotr.languages.epsparql.component:IntervalComponent",
)
PROGRAM_CODEC: Final = ValueCodec(further=_TYPES)
"""The codec of parsed programs."""
