"""Assembly of named graphs and their times into elements, shared by TriG and N-Quads (interface.md,
A stream element).

Idea: a record is a run of statements about one graph: those in the graph, and those of the default
graph whose subject is the graph's name. A record is readable if the default graph gives the graph
one `prov:generatedAtTime`; other statements about the graph are dropped. A time without triples is
an empty graph. Where the input names the path of the time, it is in the graph itself, and a
statement of the default graph is a record of its own, which is empty, unless it is between
statements of one graph, where it is passed over. A broken statement makes a graph unreadable if it
is between the graph's statements, contains the graph's name, or is adjacent to a time without
triples; otherwise it is a separate record. Statements that may still belong to a graph are buffered
up to the limit of a record; a larger graph is skipped in memory of that size.
Invariant: records are consecutive, without overlap, and reading from the start of any record gives
that record and the following ones again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pyoxigraph import Quad

from dotr.model.stream import Element, Reason
from dotr.model.terms import Triple
from dotr.model.time import Micros
from dotr.streams.formats.rdf.times import GENERATED_AT_TIME, ElementTime
from dotr.streams.records import SHOWN, InputFile, Record, beginning, limit_reason
from dotr.syntax.turtle.graphs import canonical_triples

NO_TIME_BESIDE: Final = "no prov:generatedAtTime stands beside it in the default graph"


class Statement(NamedTuple):
    """A statement of the file.

    - `offset`, `end`, `line`: the range of bytes [offset, end), and the number of its first line.
    - `graph`: the graph that contains the statement, or is its subject; None for a broken
      statement.
    - `triples`: those in the graph; `times`: the times of the graph, as terms.
    - `why`, `reason`: the error of a broken statement, and its kind: LIMIT or UNREADABLE; or EMPTY
      for a statement of the default graph that is passed over.
    - `last`: the last bytes of a statement of which `raw` is only the beginning.
    """

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
        """Length in bytes."""
        return self.end - self.offset

    def names(self, graph: str) -> bool:
        """True if a broken statement contains the name of a graph."""
        name = graph.encode()
        return self.reason is not Reason.EMPTY and (name in self.raw or name in self.last)


def quad_parts(quad: Quad) -> tuple[str, Triple]:
    """Name of the graph (empty: the default graph) and the triple of a quad."""
    subject, predicate, value = str(quad.triple).split(" ", 2)
    graph = str(quad.graph_name)
    return "" if graph == "DEFAULT" else graph, (subject, predicate, value)


def statement(offset: int, end: int, line: int, raw: bytes, quads: Sequence[tuple[str, Triple]], *, inside: bool = False) -> Statement:
    """The statement with these (graph, triple) pairs, which are not empty; `inside`: times are in
    the graphs.
    """
    graph = quads[0][0]
    if graph:
        return Statement(offset, end, line, raw, graph, [triple for _, triple in quads])
    if inside:
        return Statement(offset, end, line, raw, None, why="it is in the default graph", reason=Reason.EMPTY)
    times = [triple for _, triple in quads if triple[1] == GENERATED_AT_TIME]
    subjects = dict.fromkeys(subject for subject, _, _ in times)
    if len(subjects) > 1:
        return Statement(offset, end, line, raw, None, why="one statement gives the times of several graphs: write each beside its graph")
    subject = next(iter(subjects), quads[0][1][0])
    return Statement(offset, end, line, raw, subject, times=[value for _, _, value in times])


class _Run:
    """A run of statements about one graph. Beyond the limit only the beginning (`head`) and two
    times are kept.
    """

    __slots__ = ("_limit", "end", "full", "graph", "head", "size", "statements", "times")

    def __init__(self, graph: str, statements: Iterable[Statement], limit: int) -> None:
        self.graph = graph
        self.statements: list[Statement] = []
        self.times: dict[str, None] = {}
        self.full = False  # True once a statement has triples
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
    """Buffer of broken statements that may still belong to a graph, up to the limit of a record."""

    __slots__ = ("size", "statements")

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        self.statements = deque(statements)
        self.size = sum([len(each.raw) for each in self.statements])

    def add(self, each: Statement) -> None:
        self.statements.append(each)
        self.size += len(each.raw)

    def beyond(self, limit: int) -> Iterator[Statement]:
        """Remove and yield the first statements until the others fit the limit."""
        while self.size > limit:
            first = self.statements.popleft()
            self.size -= len(first.raw)
            yield first


def assemble(statements: Iterable[Statement], spec: InputFile, elements: bool) -> Iterator[Record]:
    """Records of consecutive statements, in order; `elements`: with their elements."""
    limit, times = spec.record, ElementTime(spec)
    before = _Broken()  # before the run; may belong to the next graph
    after = _Broken()  # behind the run; may belong to its graph or the next one
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
                before, after, run = _Broken((yield from _closed(before, run, after, spec, times, elements))), _Broken(), None
            yield from map(_broken_record, before.beyond(limit))
        else:
            if run is not None:
                left = yield from _closed(before, run, after, spec, times, elements)
                if before.statements or after.statements:
                    before, after = _Broken(left), _Broken()
            if not before.statements:
                run = _Run(graph, (each,), limit)
                continue
            waiting = list(before.statements)
            named = next((number for number, broken in enumerate(waiting) if broken.names(graph)), len(waiting))
            before, run = _Broken(waiting[:named]), _Run(graph, [*waiting[named:], each], limit)
    left = before.statements if run is None else (yield from _closed(before, run, after, spec, times, elements))
    yield from map(_broken_record, left)


def _closed(
    before: _Broken, run: _Run, after: _Broken, spec: InputFile, times: ElementTime, elements: bool
) -> Generator[Record, None, Collection[Statement]]:
    """Records of a finished run and of the broken statements before it.

    Returns the broken statements behind the run that do not belong to it.
    """
    if not run.full and run.head is None and (before.statements or after.statements):
        run = _Run(run.graph, [*before.statements, *run.statements, *after.statements], spec.record)
        before = after = _Broken()
    for broken in before.statements:
        yield _broken_record(broken)
    yield _record(run, spec.record, times, elements)
    return after.statements


def _broken_record(broken: Statement) -> Record:
    return Record(broken.offset, broken.end, broken.line, None, None, broken.raw, broken.why, reason=broken.reason)


def _text(run: Iterable[Statement], most: int | None = None) -> bytes:
    """Text of statements; with `most`, only a beginning of more than `most` bytes."""
    parts: list[bytes] = []
    size = 0
    for each in run:
        parts.append(each.raw if each.raw.endswith(b"\n") else each.raw + b"\n")
        size += len(parts[-1])
        if most is not None and size > most:
            break
    return b"".join(parts)


def _record(run: _Run, limit: int, times: ElementTime, elements: bool) -> Record:
    offset, line = run.statements[0].offset, run.statements[0].line
    raw = _text(run.statements) if run.head is None else run.head
    triples = [triple for each in run.statements for triple in each.triples] if elements or times.written else ()
    values = times.values(triples) if times.written else list(run.times)
    broken = next((each for each in run.statements if each.graph is None and each.reason is not Reason.EMPTY), None)
    why = limit_reason(limit) if run.head is not None else f"line {broken.line} of it cannot be read: {broken.why}" if broken else ""
    if not why:
        try:
            time = times.of(values, "" if times.written else NO_TIME_BESIDE)
            return Record(offset, run.end, line, time, Element(time, canonical_triples(triples)) if elements else None, raw)
        except ValueError as error:
            why = str(error)
    found, invalid = times.read(values)
    reason = Reason.LIMIT if run.head is not None else broken.reason if broken and invalid is None else Reason.UNREADABLE
    stamp: Micros | None = None
    with suppress(ValueError):
        stamp = times.chosen(found)
    return Record(offset, run.end, line, None, None, raw, str(invalid or why), stamp, reason)
