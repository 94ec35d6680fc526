"""Messages of firings: key, ID, partition and headers, for any division into blocks."""

from __future__ import annotations

import pyoxigraph
import pytest

from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.time import Clock
from dotr.streams.connectors.kafka.writing import murmur2, partitioner
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.messages import MessageFormat, OutgoingMessage, dead_letter_encoder, event_encoder

pytestmark = pytest.mark.core

FIRINGS = [
    Firing(12_000_000, "R", "Fire", (("room", "<http://e/a>"),), (("<http://e/f>", "<http://e/at>", '"é\\n"'),), 0),
    Firing(12_000_000, "R", "Fire", (), (("<http://e/g>", "<http://e/at>", "<http://e/a>"),), 0),
    Firing(12_500_000, "R", "Fire", (("room", '"B"@en'),), (), 0),
]


def messages(form: StreamFormat, key: str | None = "room") -> list[OutgoingMessage]:
    terms = OutputTerms(Clock(), ["room"], {"": "http://e/"}, "fire/1")
    encode = event_encoder(MessageFormat(form, terms, key))
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
        (StreamFormat.CSV, b"text/csv", None),
    ],
)
def test_headers_have_the_format(form: StreamFormat, content: bytes, rdf: bytes | None) -> None:
    for message in messages(form):
        headers = dict(message.headers)
        assert headers["content-type"] == content
        assert headers.get("RDF-Message-Content-Type") == rdf


@pytest.mark.parametrize("form", [StreamFormat.TRIG, StreamFormat.NQUADS])
def test_each_rdf_message_is_self_contained(form: StreamFormat) -> None:
    format_ = {StreamFormat.TRIG: pyoxigraph.RdfFormat.TRIG, StreamFormat.NQUADS: pyoxigraph.RdfFormat.N_QUADS}[form]
    counts = [len(list(pyoxigraph.parse(message.body, format=format_))) for message in messages(form)]
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
