"""Explanations of LARS files: points, reports, retention of each predicate, partition, layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.languages.continuous.description import DrawnUnit
from dotr.languages.lars.keys import LarsKey, Place, lars_key
from dotr.languages.lars.lars_retention import LarsRetention, retentions
from dotr.languages.lars.model import EventName, LarsPredicate, LarsReport, OwnRelation
from dotr.languages.lars.text.checks import named
from dotr.languages.lars.unit import LarsUnit
from dotr.model.rules import EventSource
from dotr.model.terms import Label, Prefixes
from dotr.model.units import GraphStream, MadeGraphs
from dotr.syntax.rendering import duration_text
from dotr.temporal.layout.layers import Layer


class LarsExplanation(NamedTuple):
    """Plan of a LARS file, a text for each part.

    - `points`: the length of a point and the stream.
    - `reports`: the events; `kept`: the retention of each predicate.
    - `partition`: the key of each predicate, or the reason why there is none.
    - `layer`: the layer of the file as text with its reason; `number`: the layer's number.
    - `read`, `made`: the labels of events that it reads and makes.
    """

    name: str
    points: str
    reports: tuple[str, ...]
    kept: tuple[str, ...]
    partition: tuple[str, ...]
    layer: str
    number: int = 0
    read: tuple[Label, ...] = ()
    made: tuple[Label, ...] = ()

    @property
    def drawn(self) -> DrawnUnit:
        """The file as a drawing shows it."""
        lines: list[tuple[str, GraphStream | None]] = [(f"LARS file {self.name}", None), (f"points {self.points}", None)]
        lines += [(f"EVENT {label}", MadeGraphs(label)) for label in self.read]
        lines += [(f"keeps {kept}", None) for kept in self.kept]
        lines += [(text, None) for text in (*self.partition, f"layer {self.layer}")]
        return DrawnUnit(self.name, self.number, tuple(lines), self.made)


def explained_files(program: CompiledProgram, prefixes: Prefixes) -> tuple[LarsExplanation, ...]:
    """Explanations of the LARS files of a program, by layer. `prefixes` shorten IRIs."""
    return tuple(
        _explained(layer, placed.unit, prefixes)
        for layer in program.layout.layers
        for placed in layer.units
        if isinstance(placed.unit, LarsUnit)
    )


def lines_of_file(file: LarsExplanation) -> Iterator[str]:
    r"""The explanation of a file as text.

    >>> file = LarsExplanation("a.lars", "of 1 s", ("NEW Q(?x)",), (":p: 5 s",), ("one partition",), "0: it reads inputs alone")
    >>> print("\n".join(lines_of_file(file)))
    LARS file a.lars
      points     of 1 s
      reports    NEW Q(?x)
      state      :p: 5 s
      partition  one partition
      layer      0: it reads inputs alone
    """
    yield f"LARS file {file.name}"
    yield f"  points     {file.points}"
    for title, lines in (("reports", file.reports), ("state", file.kept), ("partition", file.partition)):
        for number, line in enumerate(lines):
            yield f"  {title if not number else '':9}  {line}"
    yield f"  layer      {file.layer}"


def _explained(layer: Layer, unit: LarsUnit, prefixes: Prefixes) -> LarsExplanation:
    file = unit.file
    stream = "what the elements of an instant say (STREAM ASSERTED)" if file.asserted else "all that holds at an instant (STREAM CLOSED)"
    below = sorted(label for label, _ in unit.events)
    reads = f"it reads {', '.join(below)}, complete before each point" if below else "it reads inputs alone"
    return LarsExplanation(
        file.name,
        f"of {duration_text(file.resolution)}; the stream is {stream}",
        tuple(_report(report) for report in file.reports) or ("nothing leaves the file",),
        tuple(retention_text(each, prefixes) for each in retentions(file)) or ("nothing of the stream",),
        tuple(_partition(lars_key(file), prefixes)),
        f"{layer.number}: {reads}",
        layer.number,
        tuple(label for label, source in unit.events if isinstance(source, EventSource)),
        tuple(report.label for report in file.reports),
    )


def _report(report: LarsReport) -> str:
    attributes = ", ".join(f"?{name}" for name in report.attributes) or "no attributes"
    graph = "a triple as graph" if report.makes_graphs else "without a graph"
    return f"{report.label}: {report.kind.value}, {attributes}, {graph}"


def retention_text(kept: LarsRetention, prefixes: Prefixes) -> str:
    """Retention of the atoms of a predicate, with its name."""
    parts = []
    if kept.each:
        parts.append(f"each point of {duration_text(kept.each)}")
    if kept.last > kept.each:
        parts.append(f"of each atom the last point of {duration_text(kept.last)}")
    parts += [f"{each} of it" for each in kept.counts]
    return f"{_named(kept.predicate, prefixes)}: {' and '.join(parts) or 'the point itself'}"


def _partition(key: LarsKey, prefixes: Prefixes) -> Iterator[str]:
    if key.reason:
        yield f"one partition, on one core: {key.reason}"
        return
    if not key.places:
        yield "any: no rule reads the stream"
        return
    places = ", ".join(f"{_named(predicate, prefixes)} by {_place(predicate, place)}" for predicate, place in key.places.items())
    yield f"keyed: {places}"


def _place(predicate: LarsPredicate, place: Place) -> str:
    match predicate:
        case EventName():
            return f"?{place}"
        case OwnRelation():
            return f"argument {int(place) + 1}"
        case _:
            return "subject" if place == 0 else "object"


def _named(predicate: LarsPredicate, prefixes: Prefixes) -> str:
    """A predicate, its IRI shortened by the longest namespace that fits."""
    text = named(predicate)
    fitting = [(len(namespace), name) for name, namespace in prefixes.items() if namespace and text.startswith(f"<{namespace}")]
    if not fitting:
        return text
    length, name = max(fitting)
    return f"{name}:{text[length + 1 : -1]}"
