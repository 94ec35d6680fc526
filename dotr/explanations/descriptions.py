"""Descriptions of units other than rules, as `dotr explain` prints and draws them and `dotr check`
prints what they keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

from dotr.evaluation.triples.index import TripleIndex
from dotr.model import dataclass
from dotr.model.datalog import DatalogRule
from dotr.model.rules import EventSource
from dotr.model.terms import Label, Prefixes
from dotr.model.units import FedGraphs, GraphStream, IntervalEvents, MadeGraphs, UnitStream
from dotr.temporal.layout.layers import Layer
from dotr.temporal.layout.units import ProgramUnit, StreamUnit, labels_made, readings


class Paragraph(NamedTuple):
    """The text on a unit, or on a member of one: a title, and its parts, each with a name."""

    title: str
    parts: Sequence[tuple[str, Sequence[str]]]

    def lines(self) -> Iterator[str]:
        """The text line by line; a part without lines is left out.

        >>> parts = [("points", ["of 1 s"]), ("reports", []), ("state", [":p: 5 s", ":q: 1 s"])]
        >>> print("\\n".join(Paragraph("LARS file a", parts).lines()))
        LARS file a
          points     of 1 s
          state      :p: 5 s
                     :q: 1 s
        """
        yield self.title
        for name, lines in self.parts:
            for number, line in enumerate(lines):
                yield f"  {'' if number else name:9}  {line}"


class DrawnUnit(NamedTuple):
    """A unit in a drawing.

    - `name`: its name; `layer`: the number of its layer.
    - `lines`: its text, each line with the stream that it is about.
    - `events`: the labels of its events.
    """

    name: str
    layer: int
    lines: Sequence[tuple[str, GraphStream | None]]
    events: Sequence[Label]


class UnitDescription(NamedTuple):
    """Description of a unit: as text, a paragraph for each member, and as it is drawn."""

    text: Sequence[Paragraph]
    drawn: DrawnUnit


@dataclass(frozen=True)
class DescribedProgram:
    """The parts of a program on which descriptions of its units depend.

    - `units`: the rules and the other units.
    - `closing_rules`: the rules that close windows over the background.
    - `prefixes`: shorten IRIs.
    """

    units: Sequence[ProgramUnit]
    closing_rules: Sequence[DatalogRule]
    background: TripleIndex
    prefixes: Prefixes

    @cached_property
    def readers(self) -> Mapping[Label, Sequence[str]]:
        """The names of the rules and other units that read the events or graphs of each label."""
        found: dict[Label, dict[str, None]] = {}
        for unit in self.units:
            for reading in readings(unit):
                found.setdefault(reading.label, {})[unit.name] = None
        return {label: tuple(names) for label, names in found.items()}


@runtime_checkable
class DescribedUnit(Protocol):
    """A unit as the commands know it. The class of each language has these methods, beside those of
    `dotr.engine.unit_runs.EngineUnit`."""

    def description(self, layer: Layer, within: DescribedProgram) -> UnitDescription | None:
        """The description of the unit in its layer; None: it is described with another unit."""

    def retention(self, prefixes: Prefixes) -> Iterator[str]:
        """A line for each part of the streams that the unit keeps, such as that of a window."""


def described(unit: StreamUnit) -> DescribedUnit:
    """A unit of the layout as the commands know it.

    Raises:
        TypeError: the class of the unit has no description.
    """
    if not isinstance(unit, DescribedUnit):
        raise TypeError(f"there is no description of a {type(unit).__name__}")
    return unit


def drawn_by_reads(layer: Layer, unit: StreamUnit) -> DrawnUnit:
    """A unit drawn with what it reads, and with its layer and its key."""
    reason = unit.key.reason
    lines = [(unit.name, None), *_reads(unit)]
    lines.append((f"layer {layer.number}; {f'one partition: {reason}' if reason else f'by ?{unit.key.variable}'}", None))
    return DrawnUnit(unit.name, layer.number, lines, labels_made(unit))


def _reads(unit: StreamUnit) -> Iterator[tuple[str, GraphStream | None]]:
    """A line for each label or stream that a unit reads, once."""
    for stream in dict.fromkeys(read.stream for read in unit.reads):
        source = _source(stream)
        match source:
            case MadeGraphs(label):
                yield f"reads {label}", source
            case FedGraphs(name):
                yield f"reads the stream {name}", source
            case None:
                pass


def _source(stream: UnitStream) -> GraphStream | None:
    """The label or stream at which an arrow starts; None for the merge of all inputs."""
    match stream:
        case EventSource(label, _) | IntervalEvents(label, _):
            return MadeGraphs(label)
        case MadeGraphs() | FedGraphs():
            return stream
        case _:
            return None
