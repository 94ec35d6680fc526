"""Frames of Jelly, RDF in Protocol Buffers, decoded to N-Quads and made of named graphs.

Idea: a frame has rows: statements, and entries of three tables (names, prefixes, datatypes) by
which statements refer to parts of IRIs. The tables span the frames of a stream, so a frame needs
those before it. What is written never refers to an entry by its distance from the last one, as
Jelly would allow: so a stream that follows another one needs nothing of it, and frames of one graph
each, made for messages and pushed once for all readers, are a stream together, from whichever on it
is read.
Invariant: a `BrokenFrame` leaves tables unknown, so that no later frame is readable; any other
wrong statement is text that the N-Quads parser refuses, and costs its frame alone.
Bounds: entries of the tables and the N-Quads of a frame are limited in bytes, since a few bytes of
a frame may refer to a long entry many times.
Source: https://w3id.org/jelly/1.1.1/specification/serialization.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from google.protobuf.message import DecodeError
from pyjelly import jelly

from dotr.errors.diagnostics import DotrError
from dotr.model.terms import XSD, Term, escaped, literal_parts, triple_parts
from dotr.model.time import Clock
from dotr.streams.formats.rdf.named_graphs import NamedGraph
from dotr.streams.records import limit_reason

_MOST_ENTRIES: Final = 4096
"""Entries of a table that a stream may declare."""

_VERSION: Final = 2
"""The last version of the protocol that is known: 1.1."""

_ENTRY_BYTES: Final = 64
"""Bytes that an entry counts beside those of its text."""

_NO_IRI: Final = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")
_LANGUAGE: Final = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*(?:--(?:ltr|rtl))?")
_KINDS: Final = ("name", "prefix", "datatype")
_NAME, _PREFIX, _DATATYPE = range(3)
"""Kinds of tables by number."""

_SLOTS: Final = ("subject", "predicate", "object", "graph")


class BrokenFrame(DotrError, ValueError):
    """A frame behind which no frame of its stream can be read."""


class FrameTooLong(BrokenFrame):
    """A frame whose entries or statements are beyond the limit of a record."""


class _Table:
    """A table of a stream: entries by number, from 1 on.

    - `last`: the number of the entry that was defined last; `used`: of the one that was referred
      to."""

    __slots__ = ("entries", "last", "most", "used")

    def __init__(self, most: int) -> None:
        if most > _MOST_ENTRIES:
            raise BrokenFrame(f"it declares a table of {most:,} entries, and {_MOST_ENTRIES:,} are the most")
        self.entries: dict[int, str] = {}
        self.most, self.last, self.used = most, 0, 0

    def define(self, number: int, text: str) -> None:
        self.last = number = number or self.last + 1
        if number > self.most:
            raise BrokenFrame(f"it defines entry {number:,} of a table of {self.most:,}")
        self.entries[number] = _NO_IRI.sub(_escape, text) if _NO_IRI.search(text) else text

    def at(self, number: int) -> str:
        self.used = number
        try:
            return self.entries[number]
        except KeyError:
            raise BrokenFrame(f"it refers to entry {number:,} of a table, which is not defined") from None

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum([len(text) + _ENTRY_BYTES for text in self.entries.values()])


def _escape(found: re.Match[str]) -> str:
    """The escape of a character that no IRI may have: the parser refuses the IRI, and not the
    line."""
    return f"\\u{ord(found[0]):04X}"


class FrameDecoder:
    """Decoder of consecutive frames of a stream; `limit`: bytes of entries, and of a frame's
    N-Quads.

    >>> [frame] = frames([NamedGraph("<http://e/g>", 5_000_000, "", (("_:x", "<http://e/p>", '"1"'),))], Clock())
    >>> print(FrameDecoder(1000).nquads(frame), end="")
    <http://e/g> <http://www.w3.org/ns/prov#generatedAtTime> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .
    _:x <http://e/p> "1" <http://e/g> .
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._options: Any = None
        self._tables: tuple[_Table, ...] = ()
        self._defined = 0
        self._last: list[Term | None] = [None] * len(_SLOTS)
        self._graph: Term | None = None
        self._terms: dict[str, Callable[[Any], Term]] = {
            **{f"{slot}_iri": self._iri for slot in "spog"},
            **{f"{slot}_bnode": self._blank for slot in "spog"},
            **{f"{slot}_literal": self._literal for slot in "spog"},
            **{f"{slot}_triple_term": self._triple for slot in "spo"},
            "g_default_graph": lambda _: "",
        }

    @property
    def has_graphs(self) -> bool:
        """True if the statements of the stream may be in named graphs."""
        return self._options is not None and self._options.physical_type != jelly.PHYSICAL_STREAM_TYPE_TRIPLES

    def nquads(self, frame: bytes) -> str:
        """The statements of the next frame; raises `BrokenFrame`. A label of a blank node that is
        more than ASCII letters and digits is its bytes in hexadecimal."""
        try:
            rows = jelly.RdfStreamFrame.FromString(frame).rows
        except DecodeError:
            raise BrokenFrame("it is no frame of Jelly") from None
        lines: list[str] = []
        size = 0
        for row in rows:
            kind = row.WhichOneof("row")
            if self._options is None and kind != "options":
                raise BrokenFrame("no options of a stream are before its first row")
            match kind:
                case "triple":
                    if self.has_graphs and self._graph is None:
                        raise BrokenFrame("it has a triple outside of a graph, in a stream of quads or graphs")
                    terms = self._statement(row.triple, 3)
                    if self._graph:
                        terms.append(self._graph)
                case "quad":
                    self._require(kind, jelly.PHYSICAL_STREAM_TYPE_QUADS)
                    terms = self._statement(row.quad, 4)
                    if not terms[3]:
                        del terms[3]
                case _:
                    self._other_row(kind, row)
                    continue
            lines.append(" ".join(terms) + " .\n")
            size += len(lines[-1])
            if size > self._limit:
                raise FrameTooLong(limit_reason(self._limit, "unpacked, it"))
        return "".join(lines)

    def _other_row(self, kind: str | None, row: Any) -> None:
        """Read a row that is no statement."""
        match kind:
            case "name" | "prefix" | "datatype":
                entry = getattr(row, kind)
                self._tables[_KINDS.index(kind)].define(entry.id, entry.value)
                self._defined += len(entry.value) + _ENTRY_BYTES
                if self._defined > self._limit:  # some may have been replaced
                    self._defined = sum([table.size for table in self._tables])
                    if self._defined > self._limit:
                        raise FrameTooLong(limit_reason(self._limit, "its tables of names: it"))
            case "options":
                self._begin(row.options)
            case "graph_start" | "graph_end":
                self._require(kind, jelly.PHYSICAL_STREAM_TYPE_GRAPHS)
                self._graph = self._term(row.graph_start, "graph") if kind == "graph_start" else None
                if kind == "graph_start" and self._graph is None:
                    raise BrokenFrame("it begins a graph without a name")
            case "namespace":
                self._iri(row.namespace.value)  # the next IRI may refer to it
            case _:
                raise BrokenFrame("it has a row of an unknown kind")

    def _begin(self, options: Any) -> None:
        """Take the options of the stream; raises `BrokenFrame` where they are unknown, or others
        than before."""
        if self._options is not None:
            if options != self._options:
                raise BrokenFrame("it has other options than the stream began with")
            return
        if not 0 < options.version <= _VERSION:
            raise BrokenFrame(f"it is in version {options.version:,} of Jelly, and 1 and 2 are known")
        if options.physical_type not in (1, 2, 3):
            raise BrokenFrame("its options name none of the types TRIPLES, QUADS and GRAPHS")
        sizes = options.max_name_table_size, options.max_prefix_table_size, options.max_datatype_table_size
        self._tables = tuple(map(_Table, sizes))
        self._options = options

    def _require(self, kind: str, physical: int) -> None:
        if self._options.physical_type != physical:
            raise BrokenFrame(f"it has a row {kind}, which its stream may not have")

    def _statement(self, statement: Any, slots: int) -> list[Term]:
        """The terms of a statement; one that it leaves out is that of the statement before."""
        last = self._last
        for number, slot in enumerate(_SLOTS[:slots]):
            term = self._term(statement, slot)
            if term is not None:
                last[number] = term
        terms = [term for term in last[:slots] if term is not None]
        if len(terms) < slots:
            raise BrokenFrame("it repeats a term that no statement before it has")
        return terms

    def _term(self, statement: Any, slot: str) -> Term | None:
        """The term of a slot; None where the statement leaves it out."""
        field = statement.WhichOneof(slot)
        return None if field is None else self._terms[field](getattr(statement, field))

    def _iri(self, iri: Any) -> Term:
        names, prefixes, _ = self._tables
        prefix = iri.prefix_id or prefixes.used
        name = names.at(iri.name_id or names.used + 1)
        return f"<{prefixes.at(prefix) if prefix else ''}{name}>"

    @staticmethod
    def _blank(label: str) -> Term:
        return f"_:{label}" if _LABEL.fullmatch(label) else f"_:_{label.encode().hex()}"

    def _literal(self, literal: Any) -> Term:
        text = f'"{escaped(literal.lex)}"'
        match literal.WhichOneof("literalKind"):
            case "langtag":
                return f"{text}@{literal.langtag if _LANGUAGE.fullmatch(literal.langtag) else '?'}"
            case "datatype":
                return f"{text}^^<{self._tables[2].at(literal.datatype)}>"
        return text

    def _triple(self, triple: Any) -> Term:
        terms = [term for slot in _SLOTS[:3] if (term := self._term(triple, slot)) is not None]
        if len(terms) < 3:
            raise BrokenFrame("it repeats a term within a triple term")
        return f"<<( {' '.join(terms)} )>>"


def frames(graphs: Iterable[NamedGraph], clock: Clock) -> list[bytes]:
    """A frame for each graph, with what stands beside it in the default graph; each is a stream by
    itself.

    >>> graphs = [NamedGraph("<http://e/g>", 5_000_000, "R", (), number) for number in range(2)]
    >>> one, two = frames(graphs, Clock())
    >>> FrameDecoder(1000).nquads(two).count("urn:dotr:number")
    1
    """
    return [FrameEncoder(clock).frame(graph) for graph in graphs]


def delimited(frame: bytes) -> bytes:
    r"""A frame behind its length, as in files and in streams of bytes.

    >>> delimited(b"abc"), delimited(bytes(300))[:2]
    (b'\x03abc', b'\xac\x02')
    """
    length, head = len(frame), bytearray()
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*head, length]) + frame


_SIZES: Final = (4000, 1000, 250)
"""Entries of the tables of names, prefixes and datatypes of a frame that is written."""

_ROOM: Final = 200
"""Entries that one statement may need at most: three for each of 64 nested triple terms."""


class FrameEncoder:
    """Encoder of the frames of a stream, with tables that span them. A frame has its new entries,
    then its statements; where a table is full, entries under the same numbers again.

    Messages of Protocol Buffers that stand behind each other are one message with all their rows.

    >>> write = FrameEncoder(Clock())
    >>> one, two = [len(write.frame(NamedGraph("<http://e/g>", time, "R", ()))) for time in (5, 6)]
    >>> one > 3 * two
    True
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts = [_options_row()]
        self._entries, self._statements = jelly.RdfStreamFrame(), jelly.RdfStreamFrame()
        self._tables: tuple[dict[str, int], ...] = ({}, {}, {})

    def frame(self, graph: NamedGraph) -> bytes:
        """The frame of a graph; the first one begins with the options."""
        names, prefixes, datatypes = self._tables
        last: list[Term] = ["", "", "", "?"]
        for name, triples in (("", graph.beside(self._clock)), (graph.name, graph.triples)):
            for triple in triples:
                if len(names) > _SIZES[0] - _ROOM or len(prefixes) > _SIZES[1] - _ROOM or len(datatypes) > _SIZES[2] - _ROOM:
                    self._end_part()
                    for table in self._tables:
                        table.clear()
                quad = self._statements.rows.add().quad
                for number, term in enumerate((*triple, name)):
                    if term != last[number]:
                        self._set(quad, "spog"[number], term)
                        last[number] = term
        self._end_part()
        frame = b"".join(self._parts)
        self._parts.clear()
        return frame

    def _end_part(self) -> None:
        for rows in (self._entries, self._statements):
            self._parts.append(rows.SerializeToString())
            rows.Clear()

    def _number(self, kind: int, text: str) -> int:
        """The number of an entry, which is defined if it is new."""
        table = self._tables[kind]
        number = table.get(text)
        if number is None:
            number = table[text] = len(table) + 1
            entry = getattr(self._entries.rows.add(), _KINDS[kind])
            entry.id, entry.value = number, text
        return number

    def _set(self, statement: Any, slot: str, term: Term) -> None:
        """Set a term of a statement."""
        if not term:
            statement.g_default_graph.SetInParent()
        elif term[0] == "_":
            setattr(statement, f"{slot}_bnode", term[2:])
        elif term[0] == '"':
            literal = getattr(statement, f"{slot}_literal")
            literal.lex, datatype, language = literal_parts(term)
            if language:
                literal.langtag = language
            elif datatype != f"{XSD}string":
                literal.datatype = self._number(_DATATYPE, datatype)
            literal.SetInParent()  # also where all its fields are empty
        elif term.startswith("<<"):
            inner = getattr(statement, f"{slot}_triple_term")
            for each, part in zip("spo", triple_parts(term), strict=True):
                self._set(inner, each, part)
        else:
            iri = getattr(statement, f"{slot}_iri")
            cut = max(term.rfind("#"), term.rfind("/")) + 1 or 1
            iri.prefix_id = self._number(_PREFIX, term[1:cut])
            iri.name_id = self._number(_NAME, term[cut:-1])


@cache
def _options_row() -> bytes:
    """A frame of the options alone."""
    frame = jelly.RdfStreamFrame()
    options = frame.rows.add().options
    options.physical_type = jelly.PHYSICAL_STREAM_TYPE_QUADS
    options.logical_type = jelly.LOGICAL_STREAM_TYPE_TIMESTAMPED_NAMED_GRAPHS
    options.rdf_star = True
    options.version = 1
    options.max_name_table_size, options.max_prefix_table_size, options.max_datatype_table_size = _SIZES
    return bytes(frame.SerializeToString())
