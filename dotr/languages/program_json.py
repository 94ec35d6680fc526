"""The parsed program as JSON: the syntax trees of its texts, for processes that import no parser.

Idea: `dotr.languages.program_json` over a closed list of types, each with a written name, which
renaming of code does not change. Spans refer to documents of the specification, which is sent with
it.
Invariant: a program compiled from the parsed one has the digests, the layout and the output of one
compiled from the texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from dotr.engine.program import CompiledProgram, compile_units
from dotr.engine.spec import ProgramSpec, RuleSet
from dotr.engine.static_answers import StaticAnswers
from dotr.errors.diagnostics import DotrError, refuse
from dotr.evaluation.limits import BOUNDS, LONGEST_TEXT, MOST_TEXT_OF_BACKGROUND
from dotr.instant.datalog.background.compiled_cache import CachePolicy, StoreFile, open_background
from dotr.languages.continuous import model as continuous
from dotr.languages.continuous import unit as query_units
from dotr.languages.epsparql import component as interval_components
from dotr.languages.epsparql import interval_keys
from dotr.languages.epsparql import unit as interval_units
from dotr.languages.lars import model as lars
from dotr.languages.lars import unit as lars_units
from dotr.model import algebra, datalog, places, rules, templates
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.rules import Rule, SharedQuery
from dotr.model.templates import ParsedMap
from dotr.model.terms import Prefixes
from dotr.model.time import Interval, Unit
from dotr.model.units import FedGraphs, InstantTriples, IntervalEvents, MadeGraphs, UnitEvents
from dotr.temporal.intervals import patterns as intervals
from dotr.temporal.layout import units
from dotr.temporal.layout.units import StreamUnit

# Codec of frozen values as JSON, by a closed list of types with written names.
#
# Idea: a text is a list of nodes in topological order: a node refers to earlier nodes only, and equal
# nodes are written once. A node is a list of its written name and its parts; a part is None, a truth
# value, a number or a text, or a list with the number of an earlier node. So neither direction
# recurses, however deep a value is.
# Example: `Call("!", (Var("x"),))` is `[["var","x"],["()",[0]],["call","!",[1]]]`.
# Invariant: written names never change; the names of classes, fields and members may.

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
    dotr.languages.program_json.UnknownForm: Const has no written name
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


_WRITTEN: Final[Mapping[str, type]] = {
    "program": ParsedProgram,
    "document": places.Document,
    "span": places.Span,
    "unit of time": Unit,
    "interval": Interval,
    # rules
    "rule": rules.Rule,
    "shared query": rules.SharedQuery,
    "role": rules.Role,
    "facts": rules.FactSource,
    "events": rules.EventSource,
    "window": rules.Window,
    "between": rules.Between,
    "mode": rules.Mode,
    "choose": rules.Choose,
    "absent": rules.Absent,
    "aggregate": rules.Aggregate,
    "assignment": rules.Assignment,
    # expressions
    "var": algebra.Var,
    "const": algebra.Const,
    "attribute": algebra.Attribute,
    "time of": algebra.TimeOf,
    "call": algebra.Call,
    "exists": algebra.Exists,
    # triple patterns and paths
    "triple": algebra.TriplePattern,
    "term": algebra.TermPattern,
    "path": algebra.PathPattern,
    "link": algebra.Link,
    "inverse": algebra.Inverse,
    "sequence": algebra.Sequence,
    "alternative": algebra.Alternative,
    "repeat": algebra.Repeat,
    "negated": algebra.Negated,
    # graph patterns
    "bgp": algebra.Bgp,
    "join": algebra.Join,
    "left join": algebra.LeftJoin,
    "union": algebra.Union,
    "minus": algebra.Minus,
    "filter": algebra.Filter,
    "extend": algebra.Extend,
    "values": algebra.Values,
    "group": algebra.Group,
    "aggregate call": algebra.AggregateCall,
    "order key": algebra.OrderKey,
    "direction": algebra.Direction,
    "select": algebra.Select,
    "window block": algebra.WindowBlock,
    "match pattern": algebra.MatchPattern,
    # templates
    "template": templates.Template,
    "parsed map": templates.ParsedMap,
    "template term": templates.TemplateTerm,
    "fresh": templates.Fresh,
    "blank": templates.Blank,
    "cell": templates.Cell,
    "cell iri": templates.CellIri,
    "cell literal": templates.CellLiteral,
    # Datalog
    "datalog rule": datalog.DatalogRule,
    "relation atom": datalog.RelationAtom,
    "not": datalog.Not,
    "test": datalog.FilterItem,
    "bind": datalog.Bind,
    "group aggregate": datalog.GroupAggregate,
    # continuous queries
    "continuous query": continuous.ContinuousQuery,
    "continuous window": continuous.ContinuousWindow,
    "range": continuous.RangeExtent,
    "landmark": continuous.LandmarkExtent,
    "elements": continuous.ElementsExtent,
    "triples": continuous.TriplesExtent,
    "now": continuous.NowExtent,
    "report policies": continuous.ReportPolicies,
    "level": continuous.EntailmentLevel,
    "stream level": continuous.StreamLevel,
    "relation to stream": continuous.RelationToStream,
    "select form": continuous.SelectForm,
    "construct form": continuous.ConstructForm,
    "ask form": continuous.AskForm,
    # MATCH blocks, and EP-SPARQL
    "plain group": intervals.PlainGroup,
    "edge": intervals.Edge,
    "outermost": intervals.Outermost,
    "sequence policy": intervals.SequencePolicy,
    "ordered": intervals.Ordered,
    "match block": intervals.MatchBlock,
    "instant group": intervals.InstantGroup,
    "event read": intervals.EventRead,
    "temporal operator": intervals.TemporalOperator,
    "combination": intervals.Combination,
    "alternatives": intervals.Alternatives,
    "chain": intervals.Chain,
    "use policy": intervals.UsePolicy,
    "selected solutions": intervals.SelectedSolutions,
    "constructed graphs": intervals.ConstructedGraphs,
    "instant answers": intervals.InstantAnswers,
    "temporal query": intervals.TemporalQuery,
    # LARS files
    "event atom": lars.EventAtom,
    "time window": lars.TimeWindow,
    "counted": lars.Counted,
    "tuple window": lars.TupleWindow,
    "sometime": lars.Sometime,
    "always": lars.Always,
    "at": lars.At,
    "since": lars.Since,
    "lars literal": lars.LarsLiteral,
    "lars not": lars.LarsNot,
    "lars head": lars.LarsHead,
    "lars rule": lars.LarsRule,
    "lars fact": lars.LarsFact,
    "report kind": lars.ReportKind,
    "lars report": lars.LarsReport,
    "lars file": lars.LarsFile,
    # units and what they read
    "unit events": UnitEvents,
    "unit read": units.UnitRead,
    "made graphs": MadeGraphs,
    "fed graphs": FedGraphs,
    "instant triples": InstantTriples,
    "interval events": IntervalEvents,
    "query unit": query_units.QueryUnit,
    "lars unit": lars_units.LarsUnit,
    "operand input": interval_keys.OperandInput,
    "interval unit": interval_units.IntervalUnit,
    "interval component": interval_components.IntervalComponent,
}

PROGRAM_CODEC: Final = ValueCodec({kind: name for name, kind in _WRITTEN.items()})
"""The codec of parsed programs."""
