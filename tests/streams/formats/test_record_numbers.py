"""Numbers of records in maps: `{$number}`, wherever reading begins."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dotr.model.places import Document
from dotr.streams.formats import maps
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.formats.reading import Reader
from dotr.streams.merge.bounded import merged
from dotr.streams.records import START, ElementMap, Format, InputFile, Position
from tests.conftest import Project

pytestmark = pytest.mark.core

MAP = Document("map", "<http://e/r{$number}> <http://e/no> {$number} ; <http://e/text> 'no. {$number}' ; <http://e/v> {v} .")
CSV = 't,v\n1,a\n\n2,"b\nc"\nsoon,d\n4,"e""f"\n5,g\n2,late\n'
JSON = '{"t": 1, "v": "a"}\n{"t": 2, "v": "b"}\nbroken\n{"t": 4, "v": "d"}\n{"v": "e"}\n{"t": 6, "v": "f"}\n'
ARRAY = '[{"t": 1, "v": "a"},\n {"t": 2,\n  "v": "b"}, {"t": 3, "v": "c"}]\n'
EACH = '{"list": [{"t": 1, "v": "a"}, {"t": 2, "v": "b"}]}\n{"list": []}\n{"list": [{"t": 3, "v": "c"}, 7, {"t": 4, "v": "d"}]}\n'
CASES = [
    pytest.param(Format.CSV, CSV, "", {"a": 1, "b\nc": 2, 'e"f': 4, "g": 5, "late": 6}, id="csv"),
    pytest.param(Format.JSON, JSON, "", {"a": 1, "b": 2, "d": 4, "f": 6}, id="json"),
    pytest.param(Format.JSON, ARRAY, "", {"a": 1, "b": 2, "c": 3}, id="array"),
    pytest.param(Format.JSON, EACH, "list[]", {"a": 1, "b": 2, "c": 3, "d": 5}, id="each"),
]


def numbers(file: InputFile, position: Position = START) -> dict[str, int]:
    found = {}
    with Reader(file, position) as reader:
        for record in reader.records():
            if record.element is not None:
                triples = {p: (s, o) for s, p, o in record.element.triples}
                number = int(triples["<http://e/no>"][1].split('"')[1])
                assert triples["<http://e/no>"][0] == f"<http://e/r{number}>"
                assert triples["<http://e/text>"][1] == f'"no. {number}"'
                found[triples["<http://e/v>"][1][1:-1].replace("\\n", "\n").replace('\\"', '"')] = number
    return found


@pytest.mark.parametrize(("form", "text", "each", "expected"), CASES)
@pytest.mark.parametrize("stride", [1, 2, 16_384])
@pytest.mark.parametrize("compressed", [False, True])
def test_numbers_are_those_of_the_file_wherever_reading_begins(
    tmp_path: Path,
    form: Format,
    text: str,
    each: str,
    expected: dict[str, int],
    stride: int,
    compressed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maps, "_STRIDE", stride)
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    file = InputFile("in", str(path), form, map=ElementMap("t", MAP, each=each))
    assert numbers(file) == expected
    with Reader(file, elements=False) as reader:
        starts = [Position(record.offset, record.line) for record in reader.records()]
    for start in [*starts, *reversed(starts)]:
        found = numbers(file, start)
        assert found.items() <= expected.items()
    assert numbers(file, starts[-1]).items() <= expected.items()


def test_a_file_that_is_written_again_is_counted_again(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    file = InputFile("in", str(path), Format.CSV, map=ElementMap("t", MAP))
    for rows in (3, 5):
        text = "t,v\n" + "".join(f"{at},{'x' * rows}{at}\n" for at in range(rows))
        path.write_text(text)
        last = text.rindex(f"{rows - 1},")
        assert numbers(file, Position(last, 1)) == {f"{'x' * rows}{rows - 1}": rows}


def test_a_column_of_that_name_is_the_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,$number,v\n1,7,a\n")
    assert numbers(InputFile("in", str(tmp_path / "a.csv"), Format.CSV, map=ElementMap("t", MAP))) == {"a": 7}


@pytest.mark.parametrize(
    ("form", "columns", "body"),
    [(Format.CSV, ("t", "v"), b"1,a"), (Format.CSV, (), b"t,v\n1,a\n2,b\n"), (Format.JSON, (), b'{"t": 1, "v": "a"}')],
)
def test_number_of_a_message_is_its_offset(form: Format, columns: tuple[str, ...], body: bytes) -> None:
    decode = message_decoder(InputFile("in", "", form, map=ElementMap("t", MAP, columns=columns)))
    for record in decode(Message(body, 41), True):
        assert record.element is not None
        assert record.element.triples[0] == ("<http://e/r41>", "<http://e/no>", '"41"^^<http://www.w3.org/2001/XMLSchema#integer>')


def test_maps_without_numbers_count_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps.RecordNumbers, "counted", None)
    (tmp_path / "a.csv").write_text("t,v\n1,a\n")
    file = InputFile("in", str(tmp_path / "a.csv"), Format.CSV, map=ElementMap("t", Document("map", "<x:s> <x:v> {v} .")))
    assert len(list(merged([file], lambda letter: None))) == 1


@pytest.mark.parametrize(
    ("transport", "told"),
    [
        ("path: '-'", "and standard input is in none"),
        ("http: { listen: '127.0.0.1:8089' }", "and a message is in none"),
        ("mqtt: { url: 'mqtt://localhost', topics: [a] }", "and a message is in none"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_is_in_no_file_has_no_number(project: Project, transport: str, told: str, form: str) -> None:
    columns = ", columns: [t, v]" if form == "csv" else ""
    given = f'{{ name: a, format: {form}{columns}, {transport}, time: t, map: "[] :no {{$number}} ." }}'
    project.change("c.yaml", "{ name: a, format: ndjson, path: a.ndjson }", given)
    message = project.refused("check", "c.yaml")
    assert "T109 {$number} is the number of a record in its file" in message
    assert told in message
    assert "c.yaml:5:" in message


def test_a_misspelt_number_is_a_column_that_is_not_there(project: Project) -> None:
    project.write("a.csv", "t,v\n1,a\n")
    project.change("c.yaml", "format: ndjson, path: a.ndjson", 'format: csv, path: a.csv, time: t, map: "[] :no {$nubmer} ."')
    assert "has no column $nubmer" in project.refused("check", "c.yaml")
