"""Cells of the origin of a record in maps: `{$number}`, wherever reading begins, `{$topic[1]}`, `{$file}`."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.model.places import Document
from dotr.streams.formats.mapping import maps
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.formats.reading import Reader
from dotr.streams.merge.bounded import merged
from dotr.streams.records import START, ElementMap, Format, InputFile, Position, Record
from tests.conftest import Project
from tests.support.scans import assert_scan_of

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


def test_a_column_of_that_name_is_written_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,$number,v\n1,7,a\n")
    file = InputFile("in", str(tmp_path / "a.csv"), Format.CSV, map=ElementMap("t", MAP))
    assert numbers(file) == {"a": 1}
    quoted = Document("map", MAP.text.replace("$number", '"$number"'))
    assert numbers(replace(file, map=ElementMap("t", quoted))) == {"a": 7}


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


LEVELS = (
    "[] :all {$topic} ; :first {$topic[0]} ; :last {$topic[-1]} ; :fourth {$topic[3]} ; :before {$topic[-4]} ;"
    " :key {$key} ; :u {$header.u} ."
)
MESSAGE = Message(b"", 7, 5_000_000, key=b"12", headers=(("U", b"C"),), topic="home/attic/7", partition=2)


def objects(record: Record) -> dict[str, str]:
    """The objects of an element's triples, by the name of their predicate."""
    assert record.element is not None, record.why
    return {predicate.removeprefix("<http://e/").removesuffix(">"): value for _, predicate, value in record.element.triples}


def decoded(form: Format, template: str, message: Message, **settings: object) -> list[Record]:
    time = "$value" if form is Format.TEXT else "t"
    spec = InputFile("in", "", form, prefixes=(("", "http://e/"),), map=ElementMap(time, Document("map", template), **settings))  # type: ignore[arg-type]
    decode = message_decoder(spec)
    records = decode(message, True)
    assert_scan_of(decode(message, False), records)
    return records


@pytest.mark.parametrize(
    ("form", "columns", "body"),
    [
        (Format.CSV, ("t", "v"), b"1,a"),
        (Format.CSV, ("t", "v"), b'1,"a"\n2,b\n'),
        (Format.CSV, (), b"t,v\n1,a\n"),
        (Format.JSON, (), b'{"t": 1}'),
        (Format.TEXT, (), b"1"),
    ],
)
def test_cells_of_a_message_are_the_same_in_every_format(form: Format, columns: tuple[str, ...], body: bytes) -> None:
    for record in decoded(form, LEVELS, MESSAGE._replace(body=body), columns=columns):
        assert objects(record) == {"all": '"home/attic/7"', "first": '"home"', "last": '"7"', "key": '"12"', "u": '"C"'}
    integer = '"^^<http://www.w3.org/2001/XMLSchema#integer>'
    template = "<x:{$topic[1]}> :p {$partition} ; :o {$offset} ; :at {$timestamp} ; :t '{$topic[1]}-{$offset}' ."
    for record in decoded(form, template, MESSAGE._replace(body=body), columns=columns):
        assert objects(record) == {"p": f'"2{integer}', "o": f'"7{integer}', "at": f'"5000{integer}', "t": '"attic-7"'}
        assert record.element is not None
        assert record.element.triples[0][0] == "<x:attic>"
    for record in decoded(form, "[] :key {$key} .", MESSAGE._replace(body=body, key=b"\xff"), columns=columns):
        assert (record.time is None, record.why) == (True, "its $key is not UTF-8")
        assert record.stamp in (1_000_000, 2_000_000)
    for record in decoded(
        form, "[] :key {$key} ; :u {$header.u} ; :l {$topic[1]} .", Message(body, 1, topic="a//b", key=b""), columns=columns
    ):
        assert objects(record) == {"key": '""', "l": '""'}  # an empty level is there, a missing header is not


@pytest.mark.parametrize(
    ("form", "columns", "text", "given"),
    [
        (Format.CSV, (), "t,v\n1,a\n2,b\n", "t"),
        (Format.CSV, ("t", "v"), '1,"a"\n2,b\n', "t"),
        (Format.JSON, (), '{"t": 1}\n{"t": 2}\n', "t"),
        (Format.TEXT, (), "1\n2\n", "$value"),
    ],
)
def test_cells_of_a_file_are_its_name_relative_to_the_configuration(
    tmp_path: Path, form: Format, columns: tuple[str, ...], text: str, given: str
) -> None:
    path = tmp_path / "plant" / "hall-7" / "pump-1.2.csv.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(text.encode()))
    template = "[] :file {$file} ; :in '{$file[-2]}' ; :root {$file[0]} ; :none {$file[5]} ; :stem {$stem} ; :no {$number} ."
    mapped = ElementMap(given, Document("map", template), columns=columns, folder=str(tmp_path / "configs"))
    file = InputFile("in", str(path), form, prefixes=(("", "http://e/"),), map=mapped)
    assert InputFile.from_json(file.to_json()) == file
    with Reader(file) as reader:
        found = [objects(record) for record in reader.records()]
    expected = {"file": '"../plant/hall-7/pump-1.2.csv.gz"', "in": '"hall-7"', "root": '".."', "stem": '"pump-1.2"'}
    assert [{**each, "no": each["no"][:3]} for each in found] == [{**expected, "no": f'"{number}"'} for number in (1, 2)]


def test_cells_of_a_parquet_file(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "hall" / "pump.parquet"
    path.parent.mkdir()
    parquet.write_table(pyarrow.table({"t": [1, 2], "$number": ["a", "b"]}), path)
    template = "[] :file {$file} ; :in {$file[0]} ; :no '{$number}' ; :column {\"$number\"} ."
    mapped = ElementMap("t", Document("map", template), folder=str(tmp_path))
    with Reader(InputFile("in", str(path), Format.PARQUET, prefixes=(("", "http://e/"),), map=mapped)) as reader:
        found = [objects(record) for record in reader.records()]
    expected = {"file": '"hall/pump.parquet"', "in": '"hall"'}
    assert found == [{**expected, "no": f'"{number}"', "column": f'"{name}"'} for number, name in ((1, "a"), (2, "b"))]


@pytest.mark.parametrize(
    ("form", "text", "time", "time_format", "expected"),
    [
        (Format.CSV, "h,v\n07:00Z,a\n,b\n", "{$stem}T{h}", None, [1_709_276_400, None]),
        (Format.CSV, "h,v\n2024-03-02,a\n,b\n", ("h", "$stem"), "%Y-%m-%d", [1_709_337_600, 1_709_251_200]),
        (Format.JSON, '{"h": "07:00Z"}\n{"h": null}\n', "{$stem}T{h}", None, [1_709_276_400, None]),
        (Format.JSON, '{"h": 5}\n{}\n', "$stem", "%Y-%m-%d", [1_709_251_200] * 2),
        (Format.TEXT, "07:00Z\nON\n", "{$stem}T{$value}", None, [1_709_276_400, None]),
        (Format.TEXT, "7\nON\n", ("$topic[1]", "$stem"), "%Y-%m-%d", [1_709_251_200] * 2),
    ],
)
def test_times_have_cells_of_the_origin(
    tmp_path: Path, form: Format, text: str, time: str | tuple[str, ...], time_format: str | None, expected: list[int | None]
) -> None:
    path = tmp_path / "2024-03-01.txt"
    path.write_text(text)
    mapped = ElementMap(time, Document("map", "[] :v 1 ."), time_format=time_format)
    file = InputFile("in", str(path), form, map=mapped, prefixes=(("", "http://e/"),))
    with Reader(file) as reader, Reader(file, elements=False) as scan:
        records = list(reader.records())
        assert_scan_of(list(scan.records()), records)
    assert [None if record.time is None else record.time // 1_000_000 for record in records] == expected


def test_items_of_a_list_have_numbers() -> None:
    body = b'{"l": [{"t": 1}, 5, {"t": 2}]}'
    first, _, last = decoded(Format.JSON, "[] :no {$item} ; :of {$topic} .", MESSAGE._replace(body=body), each="l[]")
    assert [objects(each)["no"][:3] for each in (first, last)] == ['"1"', '"3"']
    assert objects(last)["of"] == '"home/attic/7"'
    body = b'{"l": [{"m": [{"t": 1}]}, {"m": [{"t": 2}, {"t": 3}]}]}'
    records = decoded(Format.JSON, "[] :no {$item} .", MESSAGE._replace(body=body), each="l[].m[]")
    assert [objects(each)["no"] for each in records] == ['"1.1"', '"2.1"', '"2.2"']


KAFKA = "kafka: { bootstrap.servers: b, subscribe: a }"
MQTT = "mqtt: { url: 'mqtt://localhost', topics: [a] }"
HTTP = "http: { listen: '127.0.0.1:8089' }"


@pytest.mark.parametrize(
    ("transport", "cell", "told"),
    [
        ("path: a.txt", "$topic[1]", "$topic[1] is a property of messages of a broker, not of files\n"),
        ("path: '-'", "$file", "$file is a property of files, not of standard input\n"),
        ("path: '-'", "$key", "$key is a property of messages of a broker, not of standard input\n"),
        (KAFKA, "$stem", "$stem is a property of files, not of messages by kafka\n"),
        (MQTT, "$key", "$key is a property of messages of a broker, not of messages by mqtt\n"),
        (HTTP, "$topic", "$topic is a property of messages of a broker, not of messages by http\n"),
        (HTTP, "$item", "$item is the number of an item of `each`, which the input does not have\n"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "json", "text"])
def test_what_a_transport_does_not_have_is_refused(project: Project, transport: str, cell: str, told: str, form: str) -> None:
    project.write("a.txt", "t,v\n1,a\n")
    columns, time = ", columns: [t, v]" if form == "csv" else "", "$value" if form == "text" else "t"
    given = f'{{ name: a, format: {form}{columns}, {transport}, time: {time}, map: "[] :no {{{cell}}} ." }}'
    project.change("c.yaml", "{ name: a, format: ndjson, path: a.ndjson }", given)
    message = project.refused("check", "c.yaml")
    assert f"T107 {told}" in message
    assert "c.yaml:5:" in message


@pytest.mark.parametrize("cell", ["$key[1]", "$topic[x]", "$topic[1", "$header", "$file.x", "$", "$partition[-1]"])
def test_a_cell_that_no_record_has_is_refused(project: Project, cell: str) -> None:
    project.change("c.yaml", "format: ndjson, path: a.ndjson", f'format: json, path: a.ndjson, time: t, map: "[] :no {{{cell}}} ."')
    assert f"T107 a record has no {cell}: write $topic" in project.refused("check", "c.yaml")


def test_a_member_that_begins_like_such_a_cell_is_shown_in_quotes(project: Project) -> None:
    project.write("a.json", '{"t": {"$date": 3}, "$oid": 5}\n')
    project.change("c.yaml", "format: ndjson, path: a.ndjson", "format: json, path: a.json, time: t.$date, map: '[] :no {$oid} .'")
    told = project.refused("check", "c.yaml")
    assert 'T107 time: $date begins with $: write such a name in quotes, "$date"\n' in told
    assert 'A member of that name is written {"$oid"}.' in told
    project.change("c.yaml", "t.$date, map: '[] :no {$oid} .'", """'t."$date"', map: '[] :no {"$oid"} .'""")
    assert project.dotr("check", "c.yaml").code == 0


def test_a_column_that_begins_like_such_a_cell_is_shown_in_quotes(project: Project) -> None:
    project.write("a.csv", '$t,"""x",v\n1,a,b\n')
    given = 'format: csv, path: a.csv, time: $t, map: "[] :no {v} ."'
    project.change("c.yaml", "format: ndjson, path: a.ndjson", given)
    assert "C204 a message has no $t" in project.refused("check", "c.yaml")
    project.change("c.yaml", "time: $t", """time: '"$t"'""")
    project.change("c.yaml", "{v}", "{x}")
    assert "has no column x, which map names" in (told := project.refused("check", "c.yaml"))
    assert r'Its columns are "$t", "\"x", v.' in told
    project.change("c.yaml", '"[] :no {x} ."', """'[] :no {"x} .'""")
    assert project.dotr("check", "c.yaml").code == 0


def test_a_misspelt_number_is_a_column_that_is_not_there(project: Project) -> None:
    project.write("a.csv", "t,v\n1,a\n")
    project.change("c.yaml", "format: ndjson, path: a.ndjson", 'format: csv, path: a.csv, time: t, map: "[] :no {$nubmer} ."')
    assert "has no column $nubmer" in project.refused("check", "c.yaml")
