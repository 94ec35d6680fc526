"""Readings of a published stream that has ended: the quads of each element by every protocol and in every format.

Texts are parsed by pyoxigraph, frames by pyjelly; the labels of blank nodes are kept. Documents of JSON-LD, TriG and N-Quads are returned
beside, for other libraries.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import aiohttp
from pyjelly.integrations.generic.generic_sink import IRI, BlankNode, Literal
from pyjelly.integrations.generic.parse import parse_jelly_grouped
from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, parse

from dotr.model.terms import XSD, escaped
from tests.support.ldes_rules import check_pages

Quads: TypeAlias = dict[str, frozenset[str]]
"""The quads of elements in N-Quads, by ID, in the order in which they are read."""

FORMATS: Final = {"trig": RdfFormat.TRIG, "nquads": RdfFormat.N_QUADS, "jsonld": RdfFormat.JSON_LD}
MEDIA_TYPES: Final = {
    "trig": "application/trig",
    "nquads": "application/n-quads",
    "jsonld": "application/ld+json",
    "turtle": "text/turtle",
    "ndjson": "application/x-ndjson",
    "jelly": "application/x-jelly-rdf",
}
ALL: Final = 999_999_999
_ID: Final = re.compile(r"-?\d+-\d+")
_NEXT: Final = re.compile(r'<([^>]*)>; rel="next"')


@dataclass
class Readings:
    """Elements that clients have read.

    - `found`: by resource and format, as in "events jsonld"; a turtle document as its triples.
    - `documents`: lists of elements by format, whole documents.
    """

    base: str
    found: dict[str, Quads] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)

    def quads(self, quads: Iterable[Quad]) -> Quads:
        """The quads of elements, among those of a document."""
        by_id: dict[str, set[str]] = {}
        for quad in quads:
            name = quad.subject if quad.graph_name == DefaultGraph() else quad.graph_name
            if isinstance(name, NamedNode) and _ID.fullmatch(id := name.value.removeprefix(self.base)):
                by_id.setdefault(id, set()).add(str(quad))
        return {id: frozenset(each) for id, each in by_id.items()}

    def add(self, name: str, texts: Iterable[str | bytes], form: str) -> None:
        """Add documents, none of which has an element of another one."""
        found = self.found.setdefault(name, {})
        for text in texts:
            for id, quads in self.quads(parse(text, FORMATS[form])).items():
                assert id not in found, (name, id)
                found[id] = quads

    def add_lines(self, name: str, lines: Sequence[Mapping[str, object]], first: int) -> None:
        """Add lines of NDJSON, the first of which has the number `first` in the stream."""
        found = {str(line["id"]): (line, number) for number, line in enumerate(lines, first)}
        self.found[name] = {id: quads_of_line(line, f"{self.base}{id}", number) for id, (line, number) in found.items()}


def quads_of_line(line: Mapping[str, object], name: str, number: int) -> frozenset[str]:
    """The quads of a line of NDJSON under a name."""
    time = line["time"]
    kind = "integer" if isinstance(time, int) else "dateTime"
    made = [f'<{name}> <http://www.w3.org/ns/prov#generatedAtTime> "{time}"^^<{XSD}{kind}> .']
    if "rule" in line:
        made.append(f"<{name}> <http://www.w3.org/ns/prov#wasGeneratedBy> <urn:dotr:rule:{line['rule']}> .")
    made.append(f'<{name}> <urn:dotr:number> "{number}"^^<{XSD}integer> .')
    made += [f"{triple[:-1]} <{name}> ." for triple in str(line["graph"]).split("\n") if triple]
    return frozenset(map(str, parse("\n".join(made), RdfFormat.N_QUADS)))


async def read_all(base: str, *, every: int = 1, last: int = ALL, pages: Iterable[str] = FORMATS) -> Readings:
    """Elements of a stream that has ended, as all protocols give them.

    `every`: of so many elements one is asked for by its ID. `last`: so many are read, but for those of the pages, in their formats `pages`.
    """
    readings = Readings(base)
    async with aiohttp.ClientSession() as session:
        reader = _Reader(session, readings, f"last={last}")
        await reader.lists()
        for form in FORMATS:
            await reader.events(form)
            await reader.socket(form)
        for form in pages:
            await reader.pages(form)
        await reader.bodies()
        await reader.elements(every)
    return readings


class _Reader:
    """A client of all resources."""

    def __init__(self, session: aiohttp.ClientSession, readings: Readings, which: str) -> None:
        self._session = session
        self._which = which
        self._readings = readings
        self._base = readings.base

    async def _get(self, path: str, form: str, accept: str = "") -> tuple[bytes, Mapping[str, str]]:
        media_type = accept or MEDIA_TYPES[form]
        async with self._session.get(path if path.startswith("http") else f"{self._base}{path}", headers={"Accept": media_type}) as answer:
            assert (answer.status, answer.content_type) == (200, media_type), path
            return await answer.read(), answer.headers

    async def lists(self) -> None:
        """/elements in each format, page by page; NDJSON is the reference of the numbers of elements."""
        for form in (*FORMATS, "ndjson"):
            pages: list[bytes] = []
            path = f"elements?limit=97&{self._which}"
            while path:
                body, headers = await self._get(path, form)
                pages.append(body)
                found = _NEXT.match(headers.get("Link", ""))
                path = found[1] if found else ""
            if form == "ndjson":
                lines = [json.loads(line) for page in pages for line in page.splitlines()]
                first = int(re.findall(rb'urn:dotr:number> "(\d+)"', (await self._get(f"elements?limit=1&{self._which}", "nquads"))[0])[0])
                self._readings.add_lines("elements ndjson", lines, first)
            else:
                self._readings.add(f"elements {form}", pages, form)
                self._readings.documents[form] = pages[0].decode()

    async def events(self, form: str) -> None:
        body, _ = await self._get(f"events?{self._which}&format={form}", form, "text/event-stream")
        events = body.decode().split("\n\n")
        assert events[-2:] == ["event: end\ndata: ", ""]
        ids, texts = [], []
        for event in events[:-2]:
            first, *lines = event.split("\n")
            ids.append(first.removeprefix("id: "))
            texts.append("\n".join([line.removeprefix("data: ") for line in lines]))
        self._readings.add(f"events {form}", texts, form)
        assert [*self._readings.found[f"events {form}"]] == ids

    async def socket(self, form: str) -> None:
        async with self._session.ws_connect(f"{self._base}ws?{self._which}&format={form}") as socket:
            texts = [message.data async for message in socket]
        assert socket.close_code == 1000
        self._readings.add(f"ws {form}", texts, form)

    async def bodies(self) -> None:
        """/stream in each format."""
        for form in ("jsonld", "trig", "nquads", "ndjson", "jelly"):
            body, _ = await self._get(f"stream?{self._which}", form)
            name = f"stream {form}"
            match form:
                case "jsonld":
                    self._readings.add(name, [json.dumps(each) for each in json.loads(body)], form)
                case "ndjson":
                    first = min(_numbers(self._readings.found["stream nquads"]), default=0)
                    self._readings.add_lines(name, [json.loads(line) for line in body.splitlines()], first)
                case "jelly":
                    sinks = parse_jelly_grouped(io.BytesIO(body))
                    self._readings.add(name, ["".join([_nquad(each) for each in sink]) for sink in sinks], "nquads")
                case _:
                    version, *texts = body.decode().split("\n", 1)
                    assert version == 'VERSION "1.2-messages"'
                    messages = texts[0].split("\nMESSAGE\n")
                    assert messages.pop() == ""
                    self._readings.add(name, messages, form)

    async def pages(self, form: str) -> None:
        """All pages of /ldes, after the rules of TREE and LDES are checked."""
        texts: dict[str, str] = {}
        waiting = [f"{self._base}ldes"]
        while waiting:
            url = waiting.pop(0)
            body, _ = await self._get(url, form)
            quads = [*parse(body, FORMATS[form])]
            texts[url] = "".join([f"{quad} .\n" for quad in quads])
            nodes = [each.object.value for each in quads if str(each.predicate) == "<https://w3id.org/tree#node>"]
            waiting += sorted(nodes, key=lambda each: int(each.rpartition("/")[2]))
        members = check_pages(f"{self._base}ldes", texts)
        self._readings.add(f"ldes {form}", texts.values(), "nquads")
        assert [f"{self._base}{id}" for id in self._readings.found[f"ldes {form}"]] == members

    async def elements(self, every: int) -> None:
        """/ID in each format."""
        for form in (*FORMATS, "turtle"):
            ids = [*self._readings.found["elements nquads"]][::every]
            texts = [(await self._get(id, form))[0] for id in ids]
            if form != "turtle":
                self._readings.add(f"ID {form}", texts, form)
                continue
            triples = [frozenset(str(each.triple) for each in parse(text, RdfFormat.TURTLE)) for text in texts]
            self._readings.found["ID turtle"] = dict(zip(ids, triples, strict=True))


def triples_of(quads: Iterable[str]) -> frozenset[str]:
    """The triples of quads, whatever their graph."""
    return frozenset(str(quad.triple) for quad in parse("".join([f"{each} .\n" for each in quads]), RdfFormat.N_QUADS))


def _numbers(quads: Quads) -> Iterable[int]:
    return [int(found[1]) for each in quads.values() for quad in each if (found := re.search(r'<urn:dotr:number> "(\d+)"', quad))]


def _nquad(statement: Iterable[object]) -> str:
    """A statement of pyjelly in N-Quads; its own text escapes nothing."""
    return " ".join([_term(each) for each in statement]) + " .\n"


def _term(term: object) -> str:
    if isinstance(term, Literal):
        kind = f"@{term._langtag}" if term._langtag else f"^^<{term._datatype}>" if term._datatype else ""
        return f'"{escaped(term._lex)}"{kind}'
    return str(term) if isinstance(term, IRI | BlankNode) else ""


def assert_same(readings: Readings, expected: Quads, *, every: int = 1, last: int = ALL) -> None:
    """Assert that all protocols and formats give the quads of the kept elements, in their order."""
    newest = dict([*expected.items()][-last:])
    some = dict([*newest.items()][::every])
    for name, found in readings.found.items():
        wanted = some if name.startswith("ID ") else expected if name.startswith("ldes ") else newest
        if name == "ID turtle":
            wanted = {id: triples_of(quads) for id, quads in some.items()}
        assert [*found] == [*wanted], name
        assert found == wanted, (name, [(id, found[id] ^ wanted[id]) for id in found if found[id] != wanted[id]][:1])


def read_now(base: str, *, every: int = 1, last: int = ALL, pages: Iterable[str] = FORMATS) -> Readings:
    """The same from a function without an event loop of its own."""
    return asyncio.run(read_all(base, every=every, last=last, pages=pages))
