"""Messages of firings: key, ID, partition and headers, for any division into blocks; and records of messages that are read."""

from __future__ import annotations

from dataclasses import replace

import pyoxigraph
import pytest

from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.time import Clock
from dotr.streams.connectors.kafka.feed import record_decoder, time_decoder
from dotr.streams.connectors.kafka.producing import murmur2, partitioner
from dotr.streams.formats.rdf.jelly_frames import FrameDecoder
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.records import ElementMap, Format, InputFile, Record
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.messages import MessageFormat, OutgoingMessage, dead_letter_encoder
from tests.support.outputs import numbering_encoder

pytestmark = pytest.mark.core

FIRINGS = [
    Firing(12_000_000, "R", "Fire", (("room", "<http://e/a>"),), (("<http://e/f>", "<http://e/at>", '"é\\n"'),), 0),
    Firing(12_000_000, "R", "Fire", (), (("<http://e/g>", "<http://e/at>", "<http://e/a>"),), 0),
    Firing(12_500_000, "R", "Fire", (("room", '"B"@en'),), (), 0),
]


def messages(form: StreamFormat, key: str | None = "room") -> list[OutgoingMessage]:
    terms = OutputTerms(Clock(), ["room"], {"": "http://e/"}, "fire/1")
    encode = numbering_encoder(MessageFormat(form, terms, key))
    return [message for block in (FIRINGS[:1], FIRINGS[1:]) for message in encode(block)]


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # from the tests of Kafka's own client (UtilsTest.testMurmur2)
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_partition_is_chosen_by_key_or_ordinal() -> None:
    choose = partitioner(7)
    assert choose(OutgoingMessage(b"", [], b"abc", 9, None)) == 479470107 % 7
    assert choose(OutgoingMessage(b"", [], b"21", 9, None)) == (-973932308 & 0x7FFFFFFF) % 7
    assert choose(OutgoingMessage(b"", [], None, 9, None)) == 2


def test_ids_count_the_firings_of_a_time_over_blocks() -> None:
    headers = [dict(message.headers) for message in messages(StreamFormat.NDJSON)]
    assert [each["dotr-id"] for each in headers] == [b"fire%2F1/12000000-0", b"fire%2F1/12000000-1", b"fire%2F1/12500000-0"]
    assert [each["dotr-time"] for each in headers] == [b"12000000", b"12000000", b"12500000"]


def test_key_is_the_attribute_in_ntriples_or_none() -> None:
    assert [message.key for message in messages(StreamFormat.NDJSON)] == [b"<http://e/a>", None, b'"B"@en']
    assert {message.key for message in messages(StreamFormat.NDJSON, None)} == {None}


@pytest.mark.parametrize(
    ("form", "content", "rdf"),
    [
        (StreamFormat.NDJSON, b"application/x-ndjson", None),
        (StreamFormat.TRIG, b"application/trig", b"application/trig"),
        (StreamFormat.NQUADS, b"application/n-quads", b"application/n-quads"),
        (StreamFormat.JSONLD, b"application/ld+json", b"application/ld+json"),
        (StreamFormat.JELLY, b"application/x-jelly-rdf", b"application/x-jelly-rdf"),
        (StreamFormat.CSV, b"text/csv", None),
    ],
)
def test_headers_have_the_format(form: StreamFormat, content: bytes, rdf: bytes | None) -> None:
    for message in messages(form):
        headers = dict(message.headers)
        assert headers["content-type"] == content
        assert headers.get("RDF-Message-Content-Type") == rdf


RDF_TEXTS = {
    StreamFormat.TRIG: pyoxigraph.RdfFormat.TRIG,
    StreamFormat.NQUADS: pyoxigraph.RdfFormat.N_QUADS,
    StreamFormat.JSONLD: pyoxigraph.RdfFormat.JSON_LD,
}


@pytest.mark.parametrize("form", [*RDF_TEXTS, StreamFormat.JELLY])
def test_each_rdf_message_is_self_contained(form: StreamFormat) -> None:
    bodies = [message.body for message in messages(form)]
    if form is StreamFormat.JELLY:
        counts = [FrameDecoder(1 << 20).nquads(body).count("\n") for body in bodies]
    else:
        counts = [len(list(pyoxigraph.parse(body, format=RDF_TEXTS[form]))) for body in bodies]
    assert counts == [3, 3, 2]  # time, rule, and the triples of the graph


def test_a_row_of_csv_has_no_header() -> None:
    assert messages(StreamFormat.CSV)[0].body == b"12,R,Fire,http://e/a"


def test_dead_letters_have_no_key_and_increasing_ordinals() -> None:
    encode = dead_letter_encoder(OutputTerms(Clock()))
    letters = [DeadLetter(Reason.LATE, "in", "a", line, 5_000_000 if line else None, "x", "late") for line in (0, 1)]
    first, second = encode(letters)
    assert (first.key, first.ordinal, second.ordinal) == (None, 0, 1)
    assert first.headers == [("content-type", b"application/json")]
    assert dict(second.headers)["dotr-time"] == b"5000000"
    assert b'"reason": "late"' in second.body


class Received:
    """A message as the client hands it over."""

    def __init__(self, value: bytes | None, key: bytes | None = None) -> None:
        self.value = lambda: value
        self.key = lambda: key
        self.offset = lambda: 9
        self.headers = lambda: None
        self.timestamp = lambda: (1, 5_000)
        self.topic = lambda: "rooms"
        self.partition = lambda: 2


MAP = ElementMap("at", Document("map", "<http://e/{$key}> <http://e/v> {v} ."))
JSON = InputFile("in", "", Format.JSON, map=MAP)
NDJSON = InputFile("in", "", Format.NDJSON)


def received(file: InputFile, value: bytes | None, key: bytes | None = None) -> Record:
    """The one record of a message; a scan has the same time."""
    message = Received(value, key)
    [record] = record_decoder(file)(message, True)  # type: ignore[arg-type]
    for decode in (record_decoder(file), time_decoder(file)):
        [scanned] = decode(message, False)  # type: ignore[arg-type]
        assert (
            (scanned.offset, scanned.end, scanned.judged_time)
            == (record.offset, record.end, record.judged_time)
            == (9, 10, scanned.judged_time)
        )
    return record


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"room-7", "it has no value: it is the tombstone of the key room-7"),
        ("\xe9".encode(), "it has no value: it is the tombstone of the key \xe9"),
        (b"a\xff", "it has no value: it is the tombstone of the key a\\xff"),
        (None, "it has no value"),
    ],
)
@pytest.mark.parametrize("file", [JSON, NDJSON])
def test_a_tombstone_names_its_key(file: InputFile, key: bytes | None, why: str) -> None:
    record = received(file, None, key)
    assert (record.time, record.why, record.reason) == (None, why, Reason.UNREADABLE)
    assert record.dead_letter(file).why == why


@pytest.mark.parametrize("file", [JSON, NDJSON])
def test_a_message_without_bytes_is_empty(file: InputFile) -> None:
    assert received(file, b"", b"k").reason is Reason.EMPTY


def test_the_header_of_a_schema_registry_is_passed_over_where_json_follows() -> None:
    record = received(JSON, b"\0\0\0\0\x11" + b'{"at": 3, "v": 1}', b"k")
    assert record.element is not None
    assert record.element.triples[0][0] == "<http://e/k>"
    assert received(NDJSON, b"\0\0\0\0\x11" + b'{"time": 3, "graph": ""}').time == 3_000_000
    for value in (b"\0\0\0\0\x11" + b"\x02\x06abc", b"\0\0\0\0\x11"):
        why = received(JSON, value).why
        assert why == "it has a schema registry's header (schema 17): Avro or Protobuf, which no format here reads"
        by_broker = replace(JSON, map=replace(MAP, time="$timestamp"))
        assert [received(by_broker, each).judged_time for each in (None, b"", value)] == [5_000_000] * 3
    assert received(JSON, b"\0\0").why.startswith("it is no JSON")
    assert len(received(JSON, b"\0\0\0\0\x11" + b"a" * 100_000).raw) == 1 << 16
