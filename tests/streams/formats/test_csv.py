"""CSV files as loggers and exports write them: lines before the header, comments, numbered columns, carriage returns, `each: columns`."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Reason
from dotr.runtimes.spark.planning.granules import has_ranges
from dotr.streams.formats.messages import message_decoder
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.lateness import TimeFilter
from dotr.streams.merge.bounded import merged
from dotr.streams.records import ElementMap, Format, InputFile, Message, Position, Record
from tests.streams.formats.test_io_formats import read, records_of_file, seconds, values

pytestmark = pytest.mark.core

EX = "http://e/"
VALUE = ElementMap("t", Document("map", ":s :v {v} ."))
COLUMN = ElementMap("t", Document("map", "[] :of :{$column} ; :v {$cell} ; :at '{site}' ."), each="columns")


def spec(mapped: ElementMap, path: Path | str = "") -> InputFile:
    return InputFile("in", str(path), Format.CSV, prefixes=(("", EX),), map=mapped)


def rows(tmp_path: Path, text: str | bytes, mapped: ElementMap) -> list[Record]:
    return records_of_file(tmp_path, text, partial(spec, mapped))


def refusal(tmp_path: Path, text: str | bytes, mapped: ElementMap) -> list[tuple[str, str, str]]:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(Refused) as caught:
        check_input(spec(mapped, path))
    return [(each.code, each.message.replace(str(path), "a.csv"), each.hint) for each in caught.value.diagnostics]


# --- lines before the header, comments ---


@pytest.mark.parametrize(
    ("text", "further", "expected"),
    [
        pytest.param("Station 7\nmade by x\nt,v\n1,a\n2,b\n", {"skip": 2}, ["a", "b"], id="skip"),
        pytest.param('Station 7,"\nmade by\n1,a\n2,b\n', {"skip": 2, "columns": ("t", "v")}, ["a", "b"], id="skip with columns"),
        pytest.param("\n \r\n\nt,v\n1,a\n", {}, ["a"], id="blank lines"),
        pytest.param("\ufeff\nt,v\n1,a\n", {}, ["a"], id="a mark alone"),
        pytest.param("\ufeff# x\n\n#\nt,v\n1,a\n# 2,b\n#3,c\n4,d\n#", {"comment": "#"}, ["a", "d"], id="comments"),
        pytest.param("x\n# y\nt,v\n1,a\n", {"comment": "#", "skip": 1}, ["a"], id="skip, then comments"),
        pytest.param("# y\n1,a\n// 2\n//2,b\n3,c\n", {"comment": "//", "skip": 1, "columns": ("t", "v")}, ["a", "c"], id="long mark"),
        pytest.param('t,v\n1,"a\n# b\n"\n#\n2,#c\n', {"comment": "#"}, ["a\n# b\n", "#c"], id="in quotes, and behind the start"),
        pytest.param("t,v\n1,a\n", {"skip": 0, "comment": "#"}, ["a"], id="nothing to skip"),
    ],
)
def test_lines_that_are_no_records(tmp_path: Path, text: str, further: dict[str, object], expected: list[str]) -> None:
    found = rows(tmp_path, text, replace(VALUE, **further))  # type: ignore[arg-type]
    assert [values(each) for each in found] == [[f'"{value}"'.replace("\n", "\\n")] for value in expected]


def test_comment_among_lines_that_are_read_again(tmp_path: Path) -> None:
    found = rows(tmp_path, 't,v\n1,"a\n#2\n3,c\n', replace(VALUE, comment="#"))
    assert [(each.line, each.why) for each in found] == [(2, "a quote is never closed"), (4, "")]


def test_comment_and_skipped_line_longer_than_a_record(tmp_path: Path) -> None:
    mapped, long = replace(VALUE, skip=1, comment="#"), "x" * 50
    found = records_of_file(tmp_path, f"{long}\n#{long}\nt,v\n#{long}\n1,a\n#{long}", lambda path: replace(spec(mapped, path), record=20))
    assert [(each.line, *values(each)) for each in found] == [(5, '"a"')]


def test_file_that_ends_before_its_header(tmp_path: Path) -> None:
    for text in ("a\nb", "a\nb\n\n#c\n"):
        assert [each[:2] for each in refusal(tmp_path, text, replace(VALUE, skip=2, comment="#"))] == [("I102", "a.csv has no header")]


# --- names of columns ---


@pytest.mark.parametrize(
    ("header", "time", "template", "expected"),
    [
        ("t,v,v", "t", "{$2}", '"3"'),
        ("t,,", "$0", "{$1}", '"2"'),
        ("t,,x", "t", '{""}', '"2"'),
        ('$0,"""q""",a{b}', '"$0"', '{"\\"q\\""}', '"2"'),
        ('$0,"""q""",a{b}', '"$0"', '{"a{b}"}', '"3"'),
        ('t,5" pipe,7" pipe', "t", '{5" pipe}', '"2"'),
        ("t,a.b,c[0]", "t", "{c[0]}", '"3"'),
    ],
)
def test_columns_by_number_and_in_quotes(tmp_path: Path, header: str, time: str, template: str, expected: str) -> None:
    [record] = rows(tmp_path, f"{header}\n1,2,3\n", ElementMap(time, Document("map", f":s :v {template} ; :iri :x{template} .")))
    assert seconds([record]) == [1]
    assert values(record)[0].startswith(expected)
    assert values(record)[1] == f"<{EX}x{expected[1:-1]}>"


@pytest.mark.parametrize(
    ("header", "cell", "code", "hint"),
    [
        ("t,v", "$2", "I103", "Columns are numbered from $0 to $1."),
        ("t,$v", "$v", "I103", 'A name that begins with $ is written in quotes: "$v".'),
        ("t,a{b", "v", "I103", 'Its columns are t, "a{b".'),
        ("t,v", "$cell", "I103", "It is there with each: columns."),
        ("t,v,v", "v", "I104", "Which of them is meant? Rename one, or write its number, such as {$1}."),
        ("#t,v", "t", "I103", 'Its first line begins with #: write comment: "#", and columns if no other line names them.'),
        ("sep=;,x", "t", "I103", "Its first line, sep=;, is a note for Excel: write skip: 1."),
    ],
)
def test_column_that_is_not_there(tmp_path: Path, header: str, cell: str, code: str, hint: str) -> None:
    [(found, _, way), *_] = refusal(tmp_path, f"{header}\n1,2,3\n", ElementMap("$0", Document("map", f":s :v {{{cell}}} .")))
    assert (found, way) == (code, hint)


def test_header_shorter_than_its_rows_is_told(tmp_path: Path) -> None:
    assert refusal(tmp_path, 't,v\n"1",1,10\n"2",2,20\n', VALUE) == [
        (
            "I103",
            "a.csv: the first row has 3 columns where the header has 2",
            "Name all columns: skip: 1 and columns: [row, t, v]; or correct the header.",
        )
    ]
    for text in ("t,v\n1,2,3\n1,2\n", "t,v\n1\n1,2,3\n", "t,v\n", "t,v\n1,2\n"):  # dead letters at most
        (tmp_path / "b.csv").write_text(text)
        check_input(spec(VALUE, tmp_path / "b.csv"))


# --- carriage returns ---


def test_carriage_returns_alone_end_lines(tmp_path: Path) -> None:
    text = 't,v\n1,a\n\n2,"b""c\nd"\nsoon,d\n3,e'
    found = rows(tmp_path, text, VALUE)
    for name in ("in.txt", "in.gz"):
        content = text.replace("\n", "\r").encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name == "in.gz" else content)
        file = spec(VALUE, tmp_path / name)
        check_input(file)
        assert not has_ranges(file)
        assert read(file) == found
        assert all(read(file, Position(each.offset, each.line)) == found[number:] for number, each in enumerate(found))
    assert seconds(found) == [1, 2, None, 3]
    assert [each.why for each in found if each.why] == ["its time, t: 'soon' is neither an integer nor an ISO 8601 date-time"]
    assert [values(each)[0] for each in found if each.element] == ['"a"', '"b\\"c\\nd"', '"e"']


# --- each: columns ---


def test_every_column_is_a_record(tmp_path: Path) -> None:
    found = rows(tmp_path, "site,t,a,b,c\nx,1,5,,007\nx,2,,,\ny,3,q,2.5,\n", COLUMN)
    assert seconds(found) == [1, 1, 3, 3]
    assert [each.text for each in found] == ["a,5", "c,007", "a,q", "b,2.5"]
    assert [each.line for each in found] == [2, 2, 4, 4]
    assert values(found[0]) == [f"<{EX}a>", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"x"']


def test_broken_rows_and_cells_of_columns(tmp_path: Path) -> None:
    mapped = ElementMap("t", Document("map", "<{$cell}> :of '{$column} {$number}' ."), each="columns")
    found = rows(tmp_path, "t,a,b\n1,x:y,no\n1,x\nsoon,x:y,x:y\n2,x:y,x:z\n", mapped)
    assert [(each.text, each.why, each.judged_time) for each in found[:4]] == [
        ("a,x:y", "", 1_000_000),
        ("b,no", "column b: 'no' is no absolute IRI", 1_000_000),
        ("1,x", "it has 2 columns where the header has 3", None),
        ("soon,x:y,x:y", "its time, t: 'soon' is neither an integer nor an ISO 8601 date-time", None),
    ]
    assert [values(each) for each in found[4:]] == [['"a 5"'], ['"b 6"']]


def test_late_columns_have_the_text_of_a_cell(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("site,t,a,b\nx,9,1,2\nx,1,3,4\n")
    letters: list[DeadLetter] = []
    instants = list(merged([spec(COLUMN, tmp_path / "a.csv")], letters.append))
    assert [(time, len(elements)) for time, elements in instants] == [(9_000_000, 2)]
    assert [(each.reason, each.line, each.text) for each in letters] == [(Reason.LATE, 3, "a,3"), (Reason.LATE, 3, "b,4")]


def test_row_of_more_records_than_its_first_line_has_bytes(tmp_path: Path) -> None:
    """The last ones share an offset, and none is lost wherever reading begins."""
    path = tmp_path / "a.csv"
    path.write_text('a,t,b,c,d,e,site\n"\nx",1,2,3,4,5,6\n7,2,8,,,,\n')
    found = read(spec(COLUMN, path))
    assert [each.text for each in found] == ["a,\nx", "b,2", "c,3", "d,4", "e,5", "a,7", "b,8"]
    for number, record in enumerate(found):
        again = read(spec(COLUMN, path), Position(record.offset, record.line))
        assert again[-len(found) + number :] == found[number:]
        assert [each for each in again if each.offset < record.offset] == []


@pytest.mark.parametrize("seed", range(40))
def test_columns_of_random_rows(tmp_path: Path, seed: int) -> None:
    """As a brute reading of the rows gives them, wherever reading begins, and in a scan."""
    choose = random.Random(seed)
    names = [f"c{number}" for number in range(choose.randrange(1, 6))]
    cells = ["", "x", "12", '"a,b"', '"two\nlines and more"', '"q""q"', "#"]
    lines = [",".join(["site", "t", *names])]
    expected = []
    for time in range(choose.randrange(6)):
        written = [choose.choice(cells) for _ in names]
        lines.append(",".join(["s", str(time), *written]))
        texts = [each[1:-1].replace('""', '"') if each.startswith('"') else each for each in written]
        expected += [(time, f"{name},{text}") for name, text in zip(names, texts, strict=True) if text]
    found = rows(tmp_path, "\n".join(lines), COLUMN)
    assert [(int(each.time or 0) // 1_000_000, each.text) for each in found] == expected


def test_filter_of_times_makes_no_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("site,t,a\nx,1,1\nx,2,2\nx,3,3\n")
    with Reader(spec(COLUMN, path), time_filter=TimeFilter(after=1_000_000, until=2_000_000)) as reader:
        assert [each.element is not None for each in reader.records()] == [False, True, False]


@pytest.mark.parametrize("columns", [(), ("site", "t", "a", "b")])
def test_columns_of_a_message(columns: tuple[str, ...]) -> None:
    decode = message_decoder(spec(replace(COLUMN, columns=columns)))
    head = b"" if columns else b"site,t,a,b\n"
    for elements in (True, False):
        found = decode(Message(head + b"x,1,2,3", 7), elements)
        assert [(each.offset, each.end, each.line, each.time, each.raw) for each in found] == [
            (7, 8, 7, 1_000_000, b"a,2"),
            (7, 8, 7, 1_000_000, b"b,3"),
        ]
