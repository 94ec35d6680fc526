"""Objects as inputs: blocks of one version, few requests, and what a store's errors become."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from itertools import count

import pytest

from dotr.errors.diagnostics import InputFailed, Refused
from dotr.evaluation.files.stores import Location, configure_storage
from dotr.streams import objects
from dotr.streams.formats.lines import open_lines
from dotr.streams.formats.reading import Reader
from dotr.streams.objects import ObjectBytes, looked_at
from dotr.streams.records import START, Format, InputFile, Position
from dotr.streams.sinks.files import BatchFile, WriteFailed
from tests.support.object_server import S3, broken_connection

LINES = b"".join(b'{"time": %d, "graph": ""}\n' % number for number in range(1_000_000, 1_040_000))


@pytest.fixture
def there(s3: S3) -> Iterator[Location]:
    """The place of an object of 1.2 MB."""
    configure_storage(s3.settings())
    place = Location(f"s3://{s3.bucket()}/in/a.ndjson")
    place.put(LINES)
    yield place
    configure_storage({})


def test_any_offset_is_read_and_nothing_behind_the_size(there: Location) -> None:
    with ObjectBytes(there.text, 1_000_000) as raw, io.BufferedReader(raw) as file:
        for offset in (0, 999_990, 5, 131_070, 700_000, 1_000_000, 2_000_000):
            file.seek(offset)
            assert file.read(2_000) == LINES[:1_000_000][offset : offset + 2_000]
        file.seek(0)
        assert file.read() == LINES[:1_000_000]
        assert file.seek(-10, io.SEEK_END) == 999_990


def test_openings_that_follow_each_other_take_one_request(s3: S3, there: Location) -> None:
    asked: list[tuple[str, str]] = []

    def note(method: str, path: str) -> str:
        asked.append((method, path))
        return ""

    with broken_connection(s3.endpoint, note) as endpoint:
        configure_storage(s3.settings(endpoint))
        file = InputFile("a", there.text, Format.NDJSON)
        for _ in range(3):
            with Reader(file, elements=False) as reader:
                assert next(reader.records()).time == 1_000_000_000_000
        assert len(asked) == 1
        with Reader(file, elements=False) as reader:
            assert sum(1 for _ in reader.records()) == 40_000
    assert len(asked) <= 4, "blocks of 128, 256, 512 and 1,024 KiB"


def test_a_version_that_was_replaced_is_not_read_on(there: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_SECONDS", 0.0)
    file = InputFile("a", there.text, Format.NDJSON)
    with Reader(file, elements=False) as reader:
        records = reader.records()
        first = next(records)
        there.put(LINES.replace(b"1", b"2"))
        *good, last = [first, *records]
    assert all(each.time is not None and each.time < 2_000_000_000_000 for each in good)
    assert "the file cannot be read from here on: " in last.why
    assert "it was replaced while it was read" in last.why


def test_an_object_that_is_not_there_is_refused_as_a_file_is(there: Location) -> None:
    with pytest.raises(Refused, match=r"I101 cannot read s3://lake-\d+/in/b.ndjson: No such file or directory"):
        open_lines((there.parent / "b.ndjson").text, START)
    with pytest.raises(FileNotFoundError) as raised:
        looked_at((there.parent / "b.ndjson").text)
    assert raised.value.errno == errno.ENOENT


@pytest.mark.parametrize(("breaks", "told"), [("503", "the store is busy"), ("403", "the store refuses it")])
def test_a_store_that_fails_ends_the_run(s3: S3, there: Location, breaks: str, told: str) -> None:
    requests = count()
    with broken_connection(s3.endpoint, lambda method, path: breaks if next(requests) else "") as endpoint:
        configure_storage({**s3.settings(endpoint), "retry": {"seconds": "0.2"}})
        with open_lines(there.text, Position(100, 4)) as file, pytest.raises(InputFailed, match=f"I141 cannot read s3.*{told}"):
            file.read()


def test_a_batch_that_a_store_refuses_amid_a_run_may_be_written_later(s3: S3, there: Location) -> None:
    folder = (there.parent / "out").text
    with broken_connection(s3.endpoint, lambda method, path: "403" if method == "PUT" else "") as endpoint:
        configure_storage({**s3.settings(endpoint), "retry": {"seconds": "0.2"}})
        with (
            pytest.raises(WriteFailed, match=r"cannot write s3://lake-\d+/in/out: the store refuses it"),
            BatchFile(folder, 7, ".csv") as file,
        ):
            file.write_bytes(b"a,b\n")
    configure_storage(s3.settings())
    for data in (b"a,b\n", b"a,b\n", b""):
        with BatchFile(folder, 7, ".csv") as file:
            file.write_bytes(data)
        written = [found.location.name for found in Location(folder).list()]
        assert written == (["000000000007.csv"] if data else []), "a batch without text has no object"
