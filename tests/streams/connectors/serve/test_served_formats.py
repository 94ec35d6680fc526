"""Elements of a published stream in formats that other libraries read: Jelly on `/stream`, JSON-LD."""

from __future__ import annotations

import http.client
import io
import json
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, parse

from dotr.model.terms import RDF_TYPE
from dotr.model.time import Clock
from dotr.streams.connectors.serve.elements import ElementFormat, ElementWriter
from dotr.streams.connectors.serve.kept import KeptElement
from dotr.streams.formats.rdf.jelly_frames import FrameDecoder, delimited, frames
from dotr.streams.formats.rdf.named_graphs import NamedGraph, jsonld_texts, nquads_texts
from dotr.streams.sinks.events import OutputTerms
from tests.support.npm_packages import node
from tests.support.patience import PATIENCE
from tests.support.published import published

pyjelly = pytest.importorskip("pyjelly.integrations.generic.parse")

XSD = "http://www.w3.org/2001/XMLSchema#"


def test_stream_in_jelly_is_read_from_any_element_on() -> None:
    """By pyjelly, from the first element that is kept and from behind it, to the end of the stream."""
    with published() as stream:
        stream.add([1, 2])
        authority = stream.address.split("/")[2]
        contents: list[bytes] = []
        with ExitStack() as stack:
            answers = []
            for query in ("since=1", "after=1000000-0"):
                connection = stack.enter_context(closing(http.client.HTTPConnection(authority, timeout=PATIENCE)))
                connection.request("GET", f"/fire/stream?{query}", headers={"Accept": "application/x-jelly-rdf"})
                answers.append(connection.getresponse())
            assert {answer.getheader("Content-Type") for answer in answers} == {"application/x-jelly-rdf"}
            stream.add([3])
            stream.stream.end(is_stopped=False)
            contents = [answer.read() for answer in answers]
    counts = [[len(list(sink)) for sink in pyjelly.parse_jelly_grouped(io.BytesIO(content))] for content in contents]
    assert counts == [[4, 4, 4], [4, 4]]


def test_element_in_jelly_has_the_quads_of_n_quads() -> None:
    write = ElementWriter("http://e/fire/", OutputTerms(Clock()))
    line = {"time": 12, "rule": "R", "event": "Fire", "attributes": {}, "graph": "<http://e/a> <http://e/p> _:b0 ."}
    element = KeptElement(7, 12_000_000, 0, "Fire", json.dumps(line).encode())
    decoder = FrameDecoder(1 << 20)
    frame = write.text(element, ElementFormat.JELLY)
    assert decoder.nquads(frame[2:]) == write.text(element, ElementFormat.NQUADS).decode()
    assert frame == delimited(frames([write.graph(element)], Clock())[0])


@pytest.mark.npm
def test_json_ld_survives_the_library_of_javascript(npm: Path) -> None:
    """Numbers with their digits (doubles as the library writes them), dates, texts; a base direction as the datatype that it makes."""
    literals = [
        f'"2.50"^^<{XSD}decimal>',
        f'"007"^^<{XSD}integer>',
        f'"1.0E0"^^<{XSD}double>',
        f'"2024-01-01"^^<{XSD}date>',
        '"x \\" é"@en',
    ]
    literals += ['"salaam"@ar--rtl', '""', f'"true"^^<{XSD}boolean>']
    triples = [("_:b0", "<http://e/p>", each) for each in (*literals, "<http://e/a>", "_:b1")]
    graph = NamedGraph("<http://e/12-0>", 12_000_000, "R", (*triples, ("_:b1", RDF_TYPE, "<http://e/C>")), 7)
    [text] = jsonld_texts([graph], Clock())
    script = """
        import jsonld from 'jsonld';
        const documentLoader = () => { throw new Error('fetched'); };
        const options = {format: 'application/n-quads', rdfDirection: 'i18n-datatype', documentLoader};
        process.stdout.write(await jsonld.toRDF(JSON.parse(process.argv[1]), options));
    """
    with node(script, text) as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    expected = nquads_texts([graph], Clock())[0].replace('"salaam"@ar--rtl', '"salaam"^^<https://www.w3.org/ns/i18n#ar_rtl>')
    assert {str(quad) for quad in parse(out, RdfFormat.N_QUADS)} == {str(quad) for quad in parse(expected, RdfFormat.N_QUADS)}
