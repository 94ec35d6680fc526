"""Lines of NDJSON: the records are the same with the package orjson and without it, in files and in messages."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from io import BytesIO
from random import Random
from typing import Final

import pytest

from dotr.streams.formats.messages import message_decoder
from dotr.streams.formats.reading import records_of
from dotr.streams.records import START, Format, GraphSettings, InputFile, Message, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

COUNT: Final = int(os.environ.get("DOTR_EXAMPLES", "100"))
FILE: Final = InputFile("in", "", Format.NDJSON, prefixes=(("", "http://e/"),))
GRAPH: Final = '"graph": ":a :p 1 ."'
VALUES: Final = (
    *("1", "1.0", "-0", "-1", "1e2", "01", "1.", "+1", "NaN", "-Infinity", "1e999", "0x1", "null", "true", "tru", "{}", "[]", '""'),
    *("18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "9" * 30, "9" * 400, "9" * 5000),
    *('"2026-01-01T00:00:00Z"', '":a :p \\"x\\" ."', '":a :p \\u005b :q 1 \\u005d ."', '":a :p 1.0 ."', '"\\ud800"', '"\\ud83d\\ude00"'),
    *('"\\u0000"', '"\\x"', '"\x01"', '"\t"', '"\x7f"', '"é"', "\":a :p '\ud83d' .\"", "'a'", '"'),
    *("[" * 70 + "]" * 70, "[" * 2000 + "]" * 2000),
)
"""Values of JSON, and what only some parsers take for one."""

PIECES: Final = (*'{}[]",:\\ \t\r\n\x0b\x00\ufeff\xa0é\ud800', '"time": 7,', '"graph": "",', '"time": 2.5,', "null", "1")


def line(choose: Random) -> bytes:
    """A line of members in any order, some of them twice, with a few characters changed."""
    members = [f'"time": {choose.choice(VALUES)}', GRAPH] if choose.random() < 0.5 else ['"time": 1', f'"graph": {choose.choice(VALUES)}']
    for _ in range(choose.randrange(3)):
        name = choose.choice(('"x"', '"time"', '"graph"', '"ti\\u006de"', '""'))
        members.insert(choose.randrange(3), f"{name}: {choose.choice(VALUES)}")
    text = choose.choice(("{%s}", "{ %s }", " {%s}\r", "[{%s}]", "{%s,}", "\ufeff{%s}")) % ", ".join(members)
    for _ in range(choose.choice((0, 0, 0, 1, 2))):
        at = choose.randrange(len(text) + 1)
        text = text[:at] + choose.choice(PIECES) + text[at + choose.randrange(2) :]
    return text.encode("utf-8", "surrogatepass")


def read(text: bytes, file: InputFile) -> list[Record]:
    found = list(records_of(BytesIO(text), file, START, True))
    assert_scan_of(list(records_of(BytesIO(text), file, START, False)), found)
    sent = replace(file, graphs=GraphSettings(time="$timestamp"))
    messages = [Message(body, number, timestamp=5) for number, body in enumerate(text.split(b"\n")) if body]
    for spec in (file, sent):
        decode = message_decoder(spec)
        found += [record for message in messages for record in decode(message, True)]
    return found


@pytest.mark.parametrize("nesting", [64, 1, 5_000])
def test_records_are_those_without_orjson(nesting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("orjson")
    choose, file = Random(f"{COUNT} {nesting}"), replace(FILE, nesting=nesting)
    for _ in range(COUNT):
        text = b"\n".join(line(choose) for _ in range(5))
        quick = read(text, file)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "orjson", None)
            assert quick == read(text, file)


def test_orjson_reads_lines_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    orjson = pytest.importorskip("orjson")
    monkeypatch.setattr(orjson, "loads", lambda raw: {"time": len(raw), "graph": ""})
    (record,) = records_of(BytesIO(b'{"x": 1}\n'), FILE, START, True)
    assert record.time == 9_000_000
