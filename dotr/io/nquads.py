"""N-Quads: a line is a statement, and a broken line costs no more than the graph it belongs to (`dotr.io.quads`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from pyoxigraph import RdfFormat, parse

from dotr.io.lines import DAMAGED
from dotr.io.quads import Statement, assemble, quad_parts, statement
from dotr.io.records import InputFile, Position, Record
from dotr.languages.turtle.graphs import reason

_BOM: Final = b"\xef\xbb\xbf"


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """The records from a position on; their elements too, if asked for."""
    return assemble(_statements(lines, position), spec.unit, elements)


def _statements(lines: BinaryIO, position: Position) -> Iterator[Statement]:
    end, line = position.offset, position.line - 1
    try:
        for raw in lines:
            offset, end = end, end + len(raw)
            line += 1
            try:
                quads = [quad_parts(quad) for quad in parse(raw if offset else raw.removeprefix(_BOM), RdfFormat.N_QUADS)]
            except SyntaxError as error:
                yield Statement(offset, end, line, raw, None, why=reason(error))
            else:
                if quads:
                    yield statement(offset, end, line, raw, quads)
    except DAMAGED as error:
        yield Statement(end, end, line + 1, b"", None, why=f"the file cannot be read from here on: {error}")
