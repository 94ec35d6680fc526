"""N-Quads reader: a line is a statement, and a broken line costs at most its graph
(`dotr.streams.formats.rdf.quads`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from pyoxigraph import RdfFormat, parse

from dotr.model.stream import Reason
from dotr.streams.formats.lines import BOM, DAMAGED, LINE_END, bounded_lines, damage, damage_reason, rest_behind_delimiter, skip_line
from dotr.streams.formats.rdf.cuts import DELIMITER_LINE
from dotr.streams.formats.rdf.quads import Statement, assemble, quad_parts, statement
from dotr.streams.formats.rdf.times import ElementTime
from dotr.streams.records import InputFile, Position, Record, beginning, limit_reason
from dotr.syntax.turtle.graphs import error_location, parser_message, too_long_error
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_nesting


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records from a position on; `elements`: with their elements."""
    rest: list[Record] = []
    return chain(assemble(_statements(lines, spec, position, rest), spec, elements), rest)


def _statements(lines: BinaryIO, spec: InputFile, position: Position, rest: list[Record]) -> Iterator[Statement]:
    """Statements of a text; the record from a delimiter of messages on is appended to `rest`."""
    end, line = position.offset, position.line - 1
    limit, nesting, inside = spec.record, spec.nesting, ElementTime(spec).written
    try:
        for raw in bounded_lines(lines, limit):
            offset, end = end, end + len(raw)
            line += 1
            if raw[-1] != LINE_END:
                if len(raw) > limit:
                    passed, last = skip_line(lines)
                    end += passed
                    yield Statement(offset, end, line, beginning(raw, limit), None, why=limit_reason(limit), reason=Reason.LIMIT, last=last)
                    continue
                if broken := damage(lines):
                    yield Statement(offset, end, line, raw, None, why=damage_reason(broken))
                    return
            try:
                if raw.count(b"<<") > nesting:
                    check_nesting(raw, nesting)
                quads = [quad_parts(quad) for quad in parse(raw if offset else raw.removeprefix(BOM), RdfFormat.N_QUADS)]
            except SyntaxError as error:
                if DELIMITER_LINE.match(raw):
                    rest.append(rest_behind_delimiter(lines, offset, line, raw, end))
                    return
                yield Statement(offset, end, line, raw, None, why=parser_message(error) + error_location(error, line=line))
            except MemoryError:
                yield Statement(offset, end, line, raw, None, why=str(too_long_error()), reason=Reason.LIMIT)
            except TextLimitExceeded as error:
                yield Statement(offset, end, line, raw, None, why=str(error), reason=Reason.LIMIT)
            else:
                if quads:
                    yield statement(offset, end, line, raw, quads, inside=inside)
        if broken := damage(lines):
            raise broken
    except DAMAGED as error:
        yield Statement(end, end, line + 1, b"", None, why=damage_reason(error))


def graph_of(raw: bytes) -> str | None:
    """Graph of the first readable statement in the complete lines of a text; None without one."""
    for line in raw.splitlines()[:-1]:
        try:
            quads = [quad_parts(quad) for quad in parse(line, RdfFormat.N_QUADS)]
        except SyntaxError:
            continue
        if quads and (graph := statement(0, 0, 0, line, quads).graph) is not None:
            return graph
    return None
