"""Descriptions of LARS files: points, reports, retention of each predicate, partition, layer."""

from __future__ import annotations

from collections.abc import Iterator

from dotr.explanations.descriptions import DrawnUnit, Paragraph, UnitDescription
from dotr.languages.lars.keys import LarsKey, Place, lars_key
from dotr.languages.lars.lars_retention import LarsRetention, retentions
from dotr.languages.lars.lars_spread import EventReads
from dotr.languages.lars.model import EventName, LarsFile, LarsPredicate, LarsReport, OwnRelation
from dotr.languages.lars.text.checks import named
from dotr.model.rules import EventSource
from dotr.model.terms import Prefixes
from dotr.model.units import GraphStream, MadeGraphs
from dotr.syntax.rendering import duration_text, term_text
from dotr.temporal.layout.layers import Layer


def file_description(file: LarsFile, events: EventReads, layer: Layer, prefixes: Prefixes) -> UnitDescription:
    """The description of a file, and of the events that it reads, in its layer."""
    title = f"LARS file {file.name}"
    stream = "what the elements of an instant say (STREAM ASSERTED)" if file.asserted else "all that holds at an instant (STREAM CLOSED)"
    points = f"of {duration_text(file.resolution)}; the stream is {stream}"
    kept = [_retention(each, prefixes) for each in retentions(file)] or ["nothing of the stream"]
    partition = list(_partition(lars_key(file), prefixes))
    below = sorted(label for label, _ in events)
    reads = f"it reads {', '.join(below)}, complete before each point" if below else "it reads inputs alone"
    placement = f"{layer.number}: {reads}"
    parts = [
        ("points", [points]),
        ("reports", [_report(report) for report in file.reports] or ["nothing leaves the file"]),
        ("state", kept),
        ("partition", partition),
        ("layer", [placement]),
    ]
    drawn: list[tuple[str, GraphStream | None]] = [(title, None), (f"points {points}", None)]
    drawn += [(f"EVENT {label}", MadeGraphs(label)) for label, source in events if isinstance(source, EventSource)]
    drawn += [(line, None) for line in (*(f"keeps {each}" for each in kept), *partition, f"layer {placement}")]
    made = [report.label for report in file.reports]
    return UnitDescription([Paragraph(title, parts)], DrawnUnit(file.name, layer.number, drawn, made))


def file_retention(file: LarsFile, prefixes: Prefixes) -> Iterator[str]:
    """A line for each predicate of the stream, with the atoms that a file keeps of it."""
    return (f"{file.name}: {_retention(each, prefixes)}" for each in retentions(file))


def _report(report: LarsReport) -> str:
    attributes = ", ".join(f"?{name}" for name in report.attributes) or "no attributes"
    graph = "a triple as graph" if report.makes_graphs else "without a graph"
    return f"{report.label}: {report.kind.value}, {attributes}, {graph}"


def _retention(kept: LarsRetention, prefixes: Prefixes) -> str:
    """Retention of the atoms of a predicate, with its name."""
    parts = []
    if kept.each:
        parts.append(f"each point of {duration_text(kept.each)}")
    if kept.last > kept.each:
        parts.append(f"of each atom the last point of {duration_text(kept.last)}")
    parts += [f"{each} of it" for each in kept.counts]
    return f"{term_text(named(kept.predicate), prefixes)}: {' and '.join(parts) or 'the point itself'}"


def _partition(key: LarsKey, prefixes: Prefixes) -> Iterator[str]:
    if key.reason:
        yield f"one partition, on one core: {key.reason}"
        return
    if not key.places:
        yield "any: no rule reads the stream"
        return
    places = ", ".join(f"{term_text(named(predicate), prefixes)} by {_place(predicate, place)}" for predicate, place in key.places.items())
    yield f"keyed: {places}"


def _place(predicate: LarsPredicate, place: Place) -> str:
    match predicate:
        case EventName():
            return f"?{place}"
        case OwnRelation():
            return f"argument {int(place) + 1}"
        case _:
            return "subject" if place == 0 else "object"
