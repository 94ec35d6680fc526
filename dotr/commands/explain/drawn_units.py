"""Units other than rules as drawings show them, whatever their language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dotr.commands.explain.explanation import Explanation
from dotr.engine.program import CompiledProgram
from dotr.languages.continuous.description import DrawnUnit
from dotr.languages.continuous.unit import MergedGraphs
from dotr.model.rules import EventSource
from dotr.model.units import FedGraphs, GraphStream, IntervalEvents, MadeGraphs, UnitStream
from dotr.temporal.layout.layers import Layer
from dotr.temporal.layout.units import StreamUnit, labels_made


def drawn_units(explained: Explanation, program: CompiledProgram) -> Sequence[DrawnUnit]:
    """The units of a program other than rules, by layer.

    Units with an explanation are drawn as it describes them, others with the labels they read.
    """
    known = {unit.name: unit for unit in explained.drawn}
    layers = program.layout.layers
    return [
        known.get(placed.unit.name) or _drawn(layer, placed.unit)
        for layer in layers
        for placed in layer.units
        if not isinstance(placed.unit, MergedGraphs)  # a query is drawn as one
    ]


def _drawn(layer: Layer, unit: StreamUnit) -> DrawnUnit:
    reason = unit.key.reason
    lines: list[tuple[str, GraphStream | None]] = [(unit.name, None), *_reads(unit)]
    lines.append((f"layer {layer.number}; {f'one partition: {reason}' if reason else f'by ?{unit.key.variable}'}", None))
    return DrawnUnit(unit.name, layer.number, tuple(lines), labels_made(unit))


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
