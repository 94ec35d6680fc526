"""Named graphs and their times, put together to elements: what TriG and N-Quads have in common (interface.md, A stream element).

Idea: a stretch of statements about one graph, its own and those of the default graph whose subject is its name, is a record. It is
readable if the default graph's statements give it one `prov:generatedAtTime`; what else they say of it is no part of the element. A time
alone is an empty graph. A broken statement makes a graph unreadable if it stands between the graph's statements, names the graph, or
stands beside a time alone; otherwise it is a record of its own.
Invariant: records follow each other without overlap, and reading from the start of any of them gives it and what follows again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pyoxigraph import Quad

from dotr.io.records import Record
from dotr.io.times import parse_date_time, parse_integer
from dotr.languages.turtle.graphs import finished
from dotr.model.stream import Element
from dotr.model.terms import PROV, XSD, Triple, literal_parts
from dotr.model.time import Micros, Unit

_TIME: Final = f"<{PROV}generatedAtTime>"
_INTEGERS: Final = frozenset(XSD + name for name in ("integer", "long", "int", "nonNegativeInteger", "unsignedLong", "unsignedInt"))
_DATE_TIMES: Final = frozenset((XSD + "dateTime", XSD + "dateTimeStamp"))


class Statement(NamedTuple):
    """A statement of the file. `graph` is the graph that it belongs to or speaks of, None where it is broken, and then `why` says how.
    `times` are the times that it gives the graph, as terms."""

    offset: int
    end: int
    line: int
    raw: bytes
    graph: str | None
    triples: Sequence[Triple] = ()
    times: Sequence[str] = ()
    why: str = ""


def quad_parts(quad: Quad) -> tuple[str, Triple]:
    """The graph's name (empty: the default graph) and the triple."""
    subject, predicate, value = str(quad.triple).split(" ", 2)
    graph = str(quad.graph_name)
    return "" if graph == "DEFAULT" else graph, (subject, predicate, value)


def statement(offset: int, end: int, line: int, raw: bytes, quads: Sequence[tuple[str, Triple]]) -> Statement:
    """What a statement with these (graph, triple) pairs is."""
    graph = quads[0][0]
    if graph:
        return Statement(offset, end, line, raw, graph, [triple for _, triple in quads])
    times = [triple for _, triple in quads if triple[1] == _TIME]
    subjects = dict.fromkeys(subject for subject, _, _ in times)
    if len(subjects) > 1:
        return Statement(offset, end, line, raw, None, why="one statement gives the times of several graphs: write each beside its graph")
    subject = next(iter(subjects), quads[0][1][0])
    return Statement(offset, end, line, raw, subject, times=[value for _, _, value in times])


def assemble(statements: Iterable[Statement], unit: Unit, elements: bool) -> Iterator[Record]:
    """The records that statements make."""
    before: list[Statement] = []  # broken, and not known yet to belong to the graph that follows
    run: list[Statement] = []
    after: list[Statement] = []  # broken, and behind the run
    graph: str | None = None
    for each in statements:
        if each.graph is None:
            if graph is not None and graph.encode() in each.raw:
                run += [*after, each]
                after = []
            elif graph is None:
                before.append(each)
            else:
                after.append(each)
        elif each.graph == graph:
            run += [*after, each]
            after = []
        else:
            if graph is not None:
                before = yield from _closed(before, run, after, unit, elements)
            graph, after = each.graph, []
            named = next((number for number, broken in enumerate(before) if graph.encode() in broken.raw), len(before))
            before, run = before[:named], [*before[named:], each]
    if graph is not None:
        before = yield from _closed(before, run, after, unit, elements)
    for broken in before:
        yield _alone(broken)


def _closed(
    before: list[Statement], run: list[Statement], after: list[Statement], unit: Unit, elements: bool
) -> Generator[Record, None, list[Statement]]:
    """The records of a finished run and of what is broken before it; returns what is broken behind it and does not belong to it."""
    if not any(each.triples for each in run):
        run, before, after = [*before, *run, *after], [], []
    for broken in before:
        yield _alone(broken)
    yield _record(run, unit, elements)
    return after


def _alone(broken: Statement) -> Record:
    return Record(broken.offset, broken.end, broken.line, None, None, broken.raw, broken.why)


def _record(run: Sequence[Statement], unit: Unit, elements: bool) -> Record:
    raw = b"".join([each.raw if each.raw.endswith(b"\n") else each.raw + b"\n" for each in run])
    offset, end, line = run[0].offset, run[-1].end, run[0].line
    stamp: Micros | None = None
    try:
        times = dict.fromkeys(value for each in run for value in each.times)
        stamps = {_time(value, unit) for value in times}
        if len(stamps) == 1:
            (stamp,) = stamps
        for each in run:
            if each.graph is None:
                raise ValueError(f"line {each.line} of it cannot be read: {each.why}")
        if len(stamps) > 1:
            raise ValueError("it has more than one prov:generatedAtTime")
        if stamp is None:
            raise ValueError("no prov:generatedAtTime stands beside it in the default graph")
        triples = finished([triple for each in run for triple in each.triples])
    except ValueError as error:
        return Record(offset, end, line, None, None, raw, str(error), stamp)
    return Record(offset, end, line, stamp, Element(stamp, triples) if elements else None, raw)


def _time(term: str, unit: Unit) -> Micros:
    if term[0] == '"':
        text, datatype, _ = literal_parts(term)
        try:
            if datatype in _DATE_TIMES:
                return parse_date_time(text)
            if datatype in _INTEGERS:
                return parse_integer(int(text), unit)
        except ValueError as error:
            raise ValueError(f"its prov:generatedAtTime cannot be read: {error}") from None
    raise ValueError(f"its prov:generatedAtTime is neither an xsd:dateTime nor an xsd:integer: {term}")
