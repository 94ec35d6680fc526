"""Random messages of every format: a scan and a full reading agree, and no decoder raises. `DOTR_MESSAGES=100000` tries this many a
format."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.formats.reading import Reader
from dotr.streams.records import ElementMap, Format, GraphSettings, InputFile, Position
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

COUNT: Final = int(os.environ.get("DOTR_MESSAGES", "1000"))
INTEGER: Final = "<http://www.w3.org/2001/XMLSchema#integer>"
AT: Final = "<http://www.w3.org/ns/prov#generatedAtTime>"
SEEDS: Final = {
    Format.NDJSON: '{"time": 5, "graph": ":a :p [ :q \\"x\\"@en ] , <<( :a :b 1 )>> ."}\n{"time": "2026-03-01T12:00:00Z", "graph": ""}',
    Format.JSON: '{"at": 5, "id": "urn:a", "data": [{"v": 1.5, "at": 6}, {"v": null, "at": "1970-01-01T00:00:07Z"}], "x": "\\u00e9"}',
    Format.CSV: '5,a,"x, ""y"""\n6,b,1.5\n',
    Format.TEXT: " 5.25\n",
    Format.TURTLE: f'VERSION "1.2-messages"\n@prefix : <http://e/> . :a :p "x", 1.5, [ :q ( 1 ) ] ; {AT} 5 .\nMESSAGE\n',
    Format.NTRIPLES: f'<http://e/a> <http://e/p> "x\\u00e9"@en . # c\n_:b {AT} "5"^^{INTEGER} .\n',
    Format.TRIG: f"@prefix : <http://e/> . :g {{ :a :p 1 . _:b :q << :a :p 1 >> }} :g {AT} 5 . GRAPH :h {{ :a :p 2 }} :h {AT} 6 ; :r :s .",
    Format.NQUADS: f'<http://e/a> <http://e/p> _:b <http://e/g> .\n<http://e/g> {AT} "5"^^{INTEGER} .\n<http://e/a> <http://e/p> "2" .\n',
    Format.JSONLD: '{"@context": ["http://c/", {"p": "http://e/p"}], "id": "http://e/g", "at": 5, '
    '"@graph": [{"id": "http://e/a", "p": [1, {}]}]}',
}
PIECES: Final = (
    *"{}[]()<>\"',;.:@\\\n\t #_",
    "MESSAGE",
    "@message .",
    "null",
    "-1",
    "1e9",
    '"""',
    "\x00",
    "é",
    "\\ud800",
    "@id",
    "@graph",
    "@context",
)
CONTEXT: Final = '{"@context": {"@vocab": "http://e/", "id": "@id", "at": {"@id": "http://www.w3.org/ns/prov#generatedAtTime"}}}'


def mutated(seed: str, choose: random.Random) -> bytes:
    """A text with a few places changed: bytes removed, repeated, moved, or written over."""
    text = seed.encode()
    for _ in range(choose.randrange(1, 5)):
        at, end = sorted((choose.randrange(len(text) + 1), choose.randrange(len(text) + 1)))
        end = min(end, at + choose.choice((1, 3, 20, 200)))
        match choose.randrange(5):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:end] + text[at:end] + text[end:]
            case 2:
                text = text[:at] + choose.choice(PIECES).encode() + text[at:]
            case 3:
                text = text[:at] + bytes([choose.randrange(256)]) + text[at + 1 :]
            case _:
                text = text[at:end] + text
    return text


def specification(form: Format) -> InputFile:
    """The specification of an input of a format."""
    mapped = None
    if form is Format.CSV:
        mapped = ElementMap("t", Document("map", "[] :p {x} ; :q <{id}> ; :of {$topic[1]} ."), columns=("t", "id", "x"))
    elif form is Format.JSON:
        mapped = ElementMap("at", Document("map", "<{^.id}> :v {v} ; :key {$key} ."), each="data[]")
    elif form is Format.TEXT:
        mapped = ElementMap("$header.at", Document("map", "[] :v {$value} ; :of '{$topic[1]}' ; :at {$offset} ."))
    graphs = GraphSettings(contexts=(("http://c/", CONTEXT),))
    return InputFile("in", "", form, prefixes=(("", "http://e/"),), map=mapped, nesting=16, record=1000, graphs=graphs)


TYPED: Final = {
    Format.CSV: ElementMap(
        ("{t}{id}", "x", "t"),
        Document("map", "[] :p {x:decimal?} ; :q {id:string} ; :r {t:dateTime?} , {t:integer} ."),
        columns=("t", "id", "x"),
        time_zone="Europe/Berlin",
    ),
    Format.JSON: ElementMap(
        ("{^.at}.{v}", "$timestamp", "at"),
        Document("map", "{^.id:iri?} :v {v:double} ; :at {at:date?} , {at:boolean?} ."),
        each="data[]",
        time_format="unix",
    ),
}
"""Maps with types, and times of several cells."""


@pytest.mark.parametrize("form", list(TYPED))
def test_scan_and_full_reading_of_typed_cells_agree(form: Format) -> None:
    agree(form, replace(specification(form), map=TYPED[form]))


LISTS: Final = {
    "": '[{"at": 5, "v": 1}, {"at": 6, "v": [1]}, [7], {"v": "\\u00e9"}]',
    "data[].list[]": '{"id": "urn:a", "data": [{"n": 1, "list": [{"at": 5, "v": 1}, {"at": 6}]}, {"list": []}, '
    '{"list": [{"at": 7, "v": "\\u00e9"}]}]}',
    "data.at[], data.v[]": '{"data": {"at": [5, 6, "1970-01-01T00:00:07Z"], "v": ["a", null, {"x": NaN}]}, "id": "urn:a"}',
    "[]": '[[5, 1], [6, {"x": 2}], 7, [null]] ',
}


@pytest.mark.parametrize("each", list(LISTS))
def test_scan_and_full_reading_of_random_lists_agree(tmp_path: Path, each: str) -> None:
    """Also as a file: with the same records wherever reading begins, and as a segment of a spool."""
    choose = random.Random(each)
    time = {"data.at[], data.v[]": "^.data.at[]", "[]": "[0]"}.get(each, "at")
    template = {"": "[] :v {v} .", "[]": "[] :v {[1].x} .", "data.at[], data.v[]": "[] :v {[1]} ; :of {^.id} ."}.get(
        each, "[] :v {v} ; :of {^.data[].n} ."
    )
    mapped = ElementMap(time, Document("map", template), each=each)
    spec = InputFile("in", str(tmp_path / "a.json"), Format.JSON, prefixes=(("", "http://e/"),), map=mapped, nesting=16, record=1000)
    decode = message_decoder(spec)
    readable = 0
    for number in range(COUNT // 4):
        text = mutated(LISTS[each], choose) if number % 4 else LISTS[each].encode()
        records = decode(Message(text, number), True)
        assert_scan_of(decode(Message(text, number), False), records)
        for record in records:
            letter = record.dead_letter(spec, Reason.LATE, "late")
            assert letter.why.startswith("item ") == bool(record.item)
            readable += record.time is not None
        (tmp_path / "a.json").write_bytes(text + choose.choice((b"", b"\n", b"\x1e")) + mutated(LISTS[each], choose))
        with Reader(spec) as reader:
            read = list(reader.records())
        with Reader(spec, elements=False) as reader:
            assert_scan_of(list(reader.records()), read)
        for record in choose.sample(read, min(len(read), 2)):
            with Reader(spec, Position(record.offset, record.line)) as reader:
                assert list(reader.records()) == read[read.index(record) :]
    assert readable > COUNT // 20


@pytest.mark.parametrize("form", [each for each in Format if each not in (Format.PARQUET, Format.RECORDING, Format.JELLY)])  # test_jelly
def test_scan_and_full_reading_of_random_messages_agree(form: Format) -> None:
    agree(form, specification(form))


def agree(form: Format, spec: InputFile) -> None:
    choose = random.Random(form.value)
    decode = message_decoder(spec)
    readable = 0
    for number in range(COUNT):
        headers = (("at", mutated("7", choose) if form is Format.TEXT else b"7"),)
        message = Message(mutated(SEEDS[form], choose), number, key=b"k", headers=headers, topic="a/b")
        records = decode(message, True)
        assert_scan_of(decode(message, False), records)
        assert all((each.element is None) == (each.time is None) == bool(each.why) for each in records), message
        assert records or form is Format.JSON, message
        for each in records:
            each.dead_letter(spec)
        readable += any(each.time is not None for each in records)
    assert 0 < readable < COUNT
