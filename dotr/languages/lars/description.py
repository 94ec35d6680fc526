"""Descriptions of LARS files: points, reports, retention of each predicate, partition, layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from dotr.explanations.descriptions import DrawnUnit, Paragraph, UnitDescription
from dotr.languages.lars.keys import EventReads, LarsKey, Place, lars_key
from dotr.languages.lars.model import (
    Always,
    At,
    Counted,
    EventName,
    LarsAtom,
    LarsFile,
    LarsLiteral,
    LarsPredicate,
    LarsReport,
    OwnRelation,
    Since,
    Sometime,
    TimeWindow,
    TupleWindow,
    predicate_of,
)
from dotr.languages.lars.text.checks import named
from dotr.model import dataclass
from dotr.model.rules import EventSource
from dotr.model.terms import Prefixes
from dotr.model.time import Micros
from dotr.model.units import GraphStream, MadeGraphs
from dotr.syntax.rendering import duration_text, term_text
from dotr.temporal.layout.layers import Layer

# Retention of LARS files: the atoms of the stream that a file keeps, by predicate (lars.md, 4).


@dataclass
class LarsRetention:
    """The retention of the atoms of a predicate.

    - `last`: the duration in µs for which the last point of each atom is kept.
    - `each`: the duration in µs for which all points of each atom are kept.
    - `counts`: the texts of the tuple windows over its atoms, each once.
    """

    predicate: LarsPredicate
    last: Micros = 0
    each: Micros = 0
    counts: list[str] = field(default_factory=list)


def retentions(file: LarsFile) -> list[LarsRetention]:
    """The retention of each predicate of the stream, in the order of the file.

    >>> from dotr.languages.lars.reading import compile_lars
    >>> from dotr.model.places import Document
    >>> text = "Q(?x) :- :p(?x, 1) IN [5 s], :q(?x, ?y) AT ?t IN [3 s], :q(?x, ?y) IN [LAST 2 PER ?x] ."
    >>> (file,) = compile_lars([Document("a.lars", text)], {"": "http://e/"}).checked().files
    >>> [(kept.last // 1_000_000, kept.each // 1_000_000, kept.counts) for kept in retentions(file)]
    [(5, 0, []), (0, 3, ['[LAST 2 PER ?x]'])]
    """
    found: dict[LarsPredicate, LarsRetention] = {}
    for literal in file.literals:
        for atom, least, greatest, each_point in reaches(literal, file.resolution):
            if file.may_be_streamed(atom):
                kept = found.setdefault(predicate_of(atom), LarsRetention(predicate_of(atom)))
                length = greatest * file.resolution
                if each_point or least > 0:
                    kept.each = max(kept.each, length)
                else:
                    kept.last = max(kept.last, length)
        window = window_of(literal)
        if isinstance(window, TupleWindow) and file.may_be_streamed(literal.atom):
            kept = found.setdefault(predicate_of(literal.atom), LarsRetention(predicate_of(literal.atom)))
            written = window_text(window)
            kept.counts += [written] if written not in kept.counts else []
    return list(found.values())


def reaches(literal: LarsLiteral, resolution: Micros) -> Iterator[tuple[LarsAtom, int, int, bool]]:
    """Each atom with the least and the greatest distance, in points, at which it is looked up; and
    whether all of its points are needed."""
    match literal.reach:
        case None:
            yield literal.atom, 0, 0, False
        case Sometime(TimeWindow() as window):
            yield literal.atom, *window.reach(resolution), False
        case Always(TimeWindow() as window) | At(_, TimeWindow() as window):
            yield literal.atom, *window.reach(resolution), True
        case Since(other, _, window):
            least, greatest = window.reach(resolution)
            yield literal.atom, 0, greatest, True
            yield other, least, greatest, True
        case Sometime() | Always() | At():
            pass


def window_of(literal: LarsLiteral) -> TimeWindow | TupleWindow | None:
    """The window of a literal; None without one."""
    match literal.reach:
        case None:
            return None
        case Sometime(window) | Always(window) | At(_, window) | Since(_, _, window):
            return window


def window_text(window: TupleWindow) -> str:
    """The text of a tuple window in a file."""
    match window.counted:
        case Counted.ALL:
            return f"[LAST {window.count}]"
        case Counted.MATCHING:
            return f"[LAST {window.count} MATCHING]"
        case Counted.PER:
            return f"[LAST {window.count} PER {', '.join(f'?{name}' for name in window.per)}]"


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
