"""Named graphs and their times, put together to elements: what TriG and N-Quads have in common (interface.md, A stream element).

Idea: a stretch of statements about one graph, its own and those of the default graph whose subject is its name, is a record. It is
readable if the default graph's statements give it one `prov:generatedAtTime`; what else they say of it is no part of the element. A time
alone is an empty graph. A broken statement makes a graph unreadable if it stands between the graph's statements, names the graph, or
stands beside a time alone; otherwise it is a record of its own.
What could still belong to a graph is kept up to the limit of a record; a graph with more bytes is passed in memory of that size.
Invariant: records follow each other without overlap, and reading from the start of any of them gives it and what follows again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pyoxigraph import Quad

from dotr.languages.turtle.graphs import canonical_triples
from dotr.model.stream import Element, Reason
from dotr.model.terms import PROV, XSD, Triple, literal_parts
from dotr.model.time import Micros, Unit
from dotr.sources.records import SHOWN, InputFile, Record, beginning, beyond
from dotr.sources.times import parse_date_time, parse_time

_TIME: Final = f"<{PROV}generatedAtTime>"
_INTEGERS: Final = frozenset(XSD + name for name in ("integer", "long", "int", "nonNegativeInteger", "unsignedLong", "unsignedInt"))
_DATE_TIMES: Final = frozenset((XSD + "dateTime", XSD + "dateTimeStamp"))


class Statement(NamedTuple):
    """A statement of the file. `graph` is the graph that it belongs to or speaks of, None where it is broken, and then `why` says how, and
    `reason` whether it is so only beyond a limit. `times` are the times that it gives the graph, as terms. `last` are the last bytes of one
    of which `raw` is the beginning alone."""

    offset: int
    end: int
    line: int
    raw: bytes
    graph: str | None
    triples: Sequence[Triple] = ()
    times: Sequence[str] = ()
    why: str = ""
    reason: Reason = Reason.UNREADABLE
    last: bytes = b""

    @property
    def size(self) -> int:
        return self.end - self.offset

    def names(self, graph: str) -> bool:
        """Whether a broken statement has the name of a graph in it."""
        name = graph.encode()
        return name in self.raw or name in self.last


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


class _Run:
    """A stretch of statements about one graph. Of one with more bytes than the limit the beginning is kept alone, and two of its times."""

    __slots__ = ("_limit", "end", "full", "graph", "head", "size", "statements", "times")

    def __init__(self, graph: str, statements: Iterable[Statement], limit: int) -> None:
        self.graph = graph
        self.statements: list[Statement] = []
        self.times: dict[str, None] = {}
        self.full = False  # some statement has triples
        self.head: bytes | None = None
        self.size = 0
        self._limit = limit
        for each in statements:
            self.add(each)

    def add(self, each: Statement) -> None:
        offset, self.end, _, _, _, triples, times, _, _, _ = each
        self.size += self.end - offset
        if triples:
            self.full = True
        if self.head is not None:
            return
        if times:
            self.times.update(dict.fromkeys(times))
        self.statements.append(each)
        if self.size > self._limit:
            self.head = beginning(_text(self.statements, SHOWN), self._limit)
            self.statements = [self.statements[0]._replace(raw=b"", triples=())]
            self.times = dict.fromkeys(list(self.times)[:2])


class _Broken:
    """Broken statements that may still turn out to belong to a graph: the last ones, up to the limit of a record."""

    __slots__ = ("size", "statements")

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        self.statements = deque(statements)
        self.size = sum([len(each.raw) for each in self.statements])

    def add(self, each: Statement) -> None:
        self.statements.append(each)
        self.size += len(each.raw)

    def beyond(self, limit: int) -> Iterator[Statement]:
        """Take out the first ones, until no more bytes are left than a record may have."""
        while self.size > limit:
            first = self.statements.popleft()
            self.size -= len(first.raw)
            yield first


def assemble(statements: Iterable[Statement], spec: InputFile, elements: bool) -> Iterator[Record]:
    """The records that statements make."""
    limit = spec.record
    before = _Broken()  # not known yet to belong to the graph that follows
    after = _Broken()  # behind the run
    run: _Run | None = None
    for each in statements:
        graph = each.graph
        if run is not None and (graph == run.graph or (graph is None and each.names(run.graph))):
            if after.statements:
                for broken in after.statements:
                    run.add(broken)
                after = _Broken()
            run.add(each)
        elif graph is None:
            (before if run is None else after).add(each)
            if run is not None and after.size > limit:
                before, after, run = _Broken((yield from _closed(before, run, after, spec, elements))), _Broken(), None
            yield from map(_alone, before.beyond(limit))
        else:
            if run is not None:
                left = yield from _closed(before, run, after, spec, elements)
                if before.statements or after.statements:
                    before, after = _Broken(left), _Broken()
            if not before.statements:
                run = _Run(graph, (each,), limit)
                continue
            waiting = list(before.statements)
            named = next((number for number, broken in enumerate(waiting) if broken.names(graph)), len(waiting))
            before, run = _Broken(waiting[:named]), _Run(graph, [*waiting[named:], each], limit)
    left = before.statements if run is None else (yield from _closed(before, run, after, spec, elements))
    yield from map(_alone, left)


def _closed(before: _Broken, run: _Run, after: _Broken, spec: InputFile, elements: bool) -> Generator[Record, None, Collection[Statement]]:
    """The records of a finished run and of what is broken before it; returns what is broken behind it and does not belong to it."""
    if not run.full and run.head is None and (before.statements or after.statements):
        run = _Run(run.graph, [*before.statements, *run.statements, *after.statements], spec.record)
        before = after = _Broken()
    for broken in before.statements:
        yield _alone(broken)
    yield _record(run, spec, elements)
    return after.statements


def _alone(broken: Statement) -> Record:
    return Record(broken.offset, broken.end, broken.line, None, None, broken.raw, broken.why, reason=broken.reason)


def _text(run: Iterable[Statement], most: int | None = None) -> bytes:
    """The text of statements, or what it begins with."""
    parts: list[bytes] = []
    size = 0
    for each in run:
        parts.append(each.raw if each.raw.endswith(b"\n") else each.raw + b"\n")
        size += len(parts[-1])
        if most is not None and size > most:
            break
    return b"".join(parts)


def _record(run: _Run, spec: InputFile, elements: bool) -> Record:
    offset, line = run.statements[0].offset, run.statements[0].line
    raw = _text(run.statements) if run.head is None else run.head
    reason = Reason.UNREADABLE if run.head is None else Reason.LIMIT
    stamp: Micros | None = None
    try:
        stamps = {_time(value, spec.unit) for value in run.times}
        if len(stamps) == 1:
            (stamp,) = stamps
        if run.head is not None:
            raise ValueError(beyond(spec.record))
        for each in run.statements:
            if each.graph is None:
                reason = each.reason
                raise ValueError(f"line {each.line} of it cannot be read: {each.why}")
        if len(stamps) > 1:
            raise ValueError("it has more than one prov:generatedAtTime")
        if stamp is None:
            raise ValueError("no prov:generatedAtTime stands beside it in the default graph")
        triples = canonical_triples([triple for each in run.statements for triple in each.triples])
    except ValueError as error:
        return Record(offset, run.end, line, None, None, raw, str(error), stamp, reason)
    return Record(offset, run.end, line, stamp, Element(stamp, triples) if elements else None, raw)


def _time(term: str, unit: Unit) -> Micros:
    if term[0] == '"':
        text, datatype, _ = literal_parts(term)
        try:
            if datatype in _DATE_TIMES:
                return parse_date_time(text)
            if datatype in _INTEGERS:
                return parse_time(text, unit)
        except ValueError as error:
            raise ValueError(f"its prov:generatedAtTime cannot be read: {error}") from None
    raise ValueError(f"its prov:generatedAtTime is neither an xsd:dateTime nor an xsd:integer: {term}")
