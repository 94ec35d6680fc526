"""Records beyond limits and damaged files: each is a dead letter, and the other records are read."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dotr.api.session import Session
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.evaluation.limits import Limits
from dotr.instant.datalog.background.loading import load_graphs
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.model.terms import XSD
from dotr.runtimes.spark.checkpoint.standard_input_spool import _record_text
from dotr.streams.formats.reading import Reader
from dotr.streams.records import SHOWN, START, ElementMap, Format, InputFile, Position, Record
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_json_nesting, check_nesting
from tests.conftest import Project
from tests.support.scans import assert_scan_of

EX: Final = "http://e/"
TIME: Final = "<http://www.w3.org/ns/prov#generatedAtTime>"
HEAD: Final = "PREFIX : <http://e/> PREFIX prov: <http://www.w3.org/ns/prov#>\n"
MAP: Final = ElementMap("t", Document("map", ":s :p {a} ."))
MIB: Final = 1 << 20


def input_file(path: Path, form: Format, record: int, nesting: int = 64) -> InputFile:
    csv = MAP if form is Format.CSV else None
    return InputFile("in", str(path), form, prefixes=(("", EX),), map=csv, nesting=nesting, record=record)


def read(file: InputFile, start: Position = START, *, elements: bool = True) -> list[Record]:
    with Reader(file, start, elements=elements) as reader:
        return list(reader.records())


def records(folder: Path, form: Format, content: bytes, record: int = 8 * MIB, nesting: int = 64) -> list[Record]:
    """The records of a text, equal when plain, compressed, scanned, and read from any record on."""
    plain, packed = folder / "in.txt", folder / "in.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content, 1))
    file = input_file(plain, form, record, nesting)
    same = replace(file, path=str(packed))
    found = read(file)
    assert read(same) == found
    assert_scan_of(read(file, elements=False), found)
    for number, each in enumerate(found):
        assert (each.time is None) == (each.element is None) == bool(each.why)
        assert each.line == content[: each.offset].count(b"\n") + 1
        assert not number or found[number - 1].end <= each.offset
        assert each.reason is Reason.UNREADABLE or not each.time
        for one in (file, same) if number < 20 else ():
            assert read(one, Position(each.offset, each.line)) == found[number:]
    return found


def outcome(found: list[Record]) -> list[float | str]:
    return [each.reason.value if each.time is None else each.time / 1_000_000 for each in found]


def nested(depth: int) -> str:
    return "<<( :a :p " * depth + "1" + " )>>" * depth


def long_terms(text: str) -> str:
    return text.replace(":a ", f"<{EX}a> ").replace(":p ", f"<{EX}p> ").replace(" 1 ", ' "1" ')


def ndjson(time: int, graph: str) -> bytes:
    return json.dumps({"time": time, "graph": graph}).encode() + b"\n"


def quads(time: int, value: str = '"1"') -> bytes:
    graph = f"<{EX}g{time}>"
    return f'<{EX}s> <{EX}p> {value} {graph} .\n{graph} {TIME} "{time}"^^<{XSD}integer> .\n'.encode()


def trig(time: int, value: str = '"1"') -> bytes:
    return f":g{time} {{ :s :p {value} }}\n:g{time} prov:generatedAtTime {time} .\n".encode()


def row(time: int) -> bytes:
    return f"{time},{time}\n".encode()


# --- nesting ---


@pytest.mark.parametrize(
    "hostile",
    [
        ndjson(2, f":a :p {nested(16_500)} ."),
        ndjson(2, f":a :p {nested(65)} .").replace(b"<<(", b"\\u003c\\u003c("),
        ndjson(2, ":a :p " + "[ :p " * 65 + "1" + " ]" * 65 + " ."),
        ndjson(2, ":a :p " + "(" * 65 + ")" * 65 + " ."),
        ndjson(2, ":a :p " + "<< :a :p " * 65 + "1" + " >>" * 65 + " ."),
        ndjson(2, ":a :p 1 " + "{| :p 1 " * 65 + "|}" * 65 + " ."),
        ndjson(2, ":a :p " + "( [ :p " * 40 + "1" + " ] )" * 40 + " ."),
        b'{"time": 2, "graph": "", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"a":' * 70 + b"1" + b"}" * 70 + b"\n",
    ],
)
def test_ndjson_beyond_the_nesting_limit_is_rejected_before_parsing(tmp_path: Path, hostile: bytes) -> None:
    found = records(tmp_path, Format.NDJSON, ndjson(1, ":a :p 1 .") + hostile + ndjson(3, ":a :p 1 ."))
    assert outcome(found) == [1, "limit", 3]
    assert "nested too deeply: more than 64 brackets in each other (limits.nesting)" in found[1].why


@pytest.mark.parametrize(
    "good",
    [
        f":a :p {nested(64)} .",
        ":a :p " + "[ :p " * 64 + "1" + " ]" * 64 + " .",
        ":a :p '" + "[" * 100 + "', \"" + "(" * 100 + '", """' + "{" * 100 + '""" . # ' + "(" * 100,
        ":a :p " + ", ".join(["<< :a :p [] >>", "<<( :a :p 1)>>", "[]", "()"] * 100) + " .",
        ":a :p <http://e/(((" + "(" * 100 + "> .",
        ":a :p " + ", ".join(rf":\(x{number}" for number in range(100)) + " .",
    ],
)
def test_brackets_that_do_not_nest_are_read(tmp_path: Path, good: str) -> None:
    assert outcome(records(tmp_path, Format.NDJSON, ndjson(1, good))) == [1]
    text = f"{HEAD}:g {{ {good}\n}}\n:g prov:generatedAtTime 1 .\n"
    assert outcome(records(tmp_path, Format.TRIG, text.encode(), nesting=65)) == [1]


def test_quads_beyond_the_nesting_limit_are_rejected(tmp_path: Path) -> None:
    for depth in (65, 16_500):
        found = records(tmp_path, Format.NQUADS, quads(1) + quads(2, long_terms(nested(depth) + " ").strip()) + quads(3))
        assert outcome(found) == [1, "limit", 3]
        content = HEAD.encode() + trig(1) + trig(2, nested(depth)) + trig(3)
        assert outcome(records(tmp_path, Format.TRIG, content)) == [1, "limit", 3]
    assert outcome(records(tmp_path, Format.NQUADS, quads(1, long_terms(nested(64) + " ").replace("1 )>>", '"1" )>>')))) == [1]


def test_session_refuses_a_graph_beyond_the_nesting_limit() -> None:
    rule = "define B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x"
    spec = ProgramSpec((Document("b.dotr", rule),), prefixes={"": EX}, limits=Limits(nesting=3))
    with Session(compile_program(spec)) as session:
        with pytest.raises(ValueError, match="more than 3 brackets in each other"):
            session.advance(1, f":a :p {nested(16_500)} .")
        with pytest.raises(ValueError, match="more than 3 brackets in each other"):
            session.advance(1, [(f"<{EX}a>", f"<{EX}p>", nested(4).replace(":a", "<x:a>").replace(":p", "<x:p>"))])
        assert len(session.advance(1, ":x a :A .")) == 1


def test_rule_test_reports_a_graph_beyond_the_nesting_limit(project: Project) -> None:
    project.change("t.yaml", ":a a :A .", f":a :p {nested(16_500)} .")
    assert "C208 this graph cannot be read: it is nested too deeply" in project.refused("test", "t.yaml")


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("deep.ttl", f"@prefix : <x:> .\n:a :p {nested(16_500)} .", "2:647"),
        ("deep.trig", f"@prefix : <x:> .\n{{ :a :p {nested(16_500)} }}", "2:639"),
        ("deep.nq", f"<x:a> <x:p> {nested(70).replace(':a', '<x:a>').replace(':p', '<x:p>')} .", "1:1037"),
        ("deep.jsonld", '{"http://e/p": ' + "[" * 8_000 + "1" + "]" * 8_000 + "}", "1:79"),
        ("deeper.jsonld", '{"http://e/p": ' * 8_000 + "1" + "}" * 8_000, "1:961"),
    ],
)
def test_background_beyond_the_nesting_limit_is_refused(tmp_path: Path, name: str, text: str, place: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Refused) as caught:
        load_graphs([tmp_path / name])
    (problem,) = caught.value.diagnostics
    assert problem.code == "K104"
    assert problem.message == "more than 64 brackets in each other"
    assert f"{name}:{place}: K104" in str(problem)


@pytest.mark.parametrize("text", ["(" * 9, "<<(" * 9, "[(" * 5, '"' + "[" * 9, "'''" + "{" * 9])
def test_unclosed_brackets_and_quotes_count_as_nesting(text: str) -> None:
    for each in (text, text.encode()):
        with pytest.raises(TextLimitExceeded):
            check_nesting(each, 8)


def test_nesting_of_json() -> None:
    check_json_nesting('{"a": "' + "[{" * 99 + '\\"[["}', 1)
    with pytest.raises(TextLimitExceeded) as caught:
        check_json_nesting(b'{"a": [' + b"[" * 9, 8)
    assert caught.value.offset == 13


# --- bytes of a record ---


def test_line_beyond_the_limit_is_skipped(tmp_path: Path) -> None:
    """A line of 17 MB, also beyond the buffer of the parser."""
    huge = "x" * (17 * MIB)
    first, broken, last = records(tmp_path, Format.NDJSON, ndjson(1, "") + ndjson(2, f":a :p '{huge}' .") + ndjson(3, ""))
    assert outcome([first, broken, last]) == [1, "limit", 3]
    assert broken.why == "it has more than 8,388,608 bytes (limits.record)"
    assert len(broken.text) == SHOWN
    assert outcome(records(tmp_path, Format.NQUADS, quads(1) + quads(2, f'"{huge}"') + quads(3))) == [1, "limit", 3]
    assert outcome(records(tmp_path, Format.TRIG, HEAD.encode() + trig(1) + trig(2, f'"{huge}"') + trig(3))) == [1, "limit", 3]
    assert outcome(records(tmp_path, Format.CSV, b"t,a\n1,a\n2," + huge.encode() + b"\n3,a\n")) == [1, "limit", 3]
    assert outcome(records(tmp_path, Format.CSV, b't,a\n1,a\n2,"' + huge.encode() + b'\nx"\n3,a\n')) == [1, "limit", 3]


@pytest.mark.parametrize("form", [Format.NDJSON, Format.NQUADS, Format.TRIG])
def test_text_beyond_the_parser_buffer_is_one_dead_letter(tmp_path: Path, form: Format) -> None:
    huge = "x" * (17 * MIB)
    content = {
        Format.NDJSON: ndjson(1, "") + ndjson(2, f":a :p '{huge}' .") + ndjson(3, ""),
        Format.NQUADS: quads(1) + quads(2, f'"{huge}"') + quads(3),
        Format.TRIG: HEAD.encode() + trig(1) + trig(2, f'"{huge}"') + trig(3),
    }[form]
    found = records(tmp_path, form, content, record=64 * MIB)
    assert outcome(found) == [1, "limit", 3]
    assert "longer than the parser can read at once" in found[1].why


def test_statements_beyond_the_limit_are_one_record(tmp_path: Path) -> None:
    many = b"".join([f'<{EX}s> <{EX}p> "{number}" <{EX}g2> .\n'.encode() for number in range(1000)])
    found = records(tmp_path, Format.NQUADS, quads(1) + many + quads(2) + quads(3), record=4096)
    assert outcome(found) == [1, "limit", 3]
    assert len(found[1].raw) <= 4096
    block = b":g2 { " + b"".join([f':s :p "{number}" .\n'.encode() for number in range(1000)]) + b"}\n"
    found = records(tmp_path, Format.TRIG, HEAD.encode() + trig(1) + block + b":g2 prov:generatedAtTime 2 .\n" + trig(3), record=4096)
    assert outcome(found) == [1, "limit", 3]


def test_a_long_line_of_many_statements_is_read(tmp_path: Path) -> None:
    content = HEAD.replace("\n", " ").encode() + b"".join([trig(time, "'''a \"\"\" b'''").replace(b"\n", b" ") for time in range(1, 400)])
    assert outcome(records(tmp_path, Format.TRIG, content, record=300)) == list(range(1, 400))


def test_many_broken_lines_are_read_in_bounded_memory(tmp_path: Path) -> None:
    found = records(tmp_path, Format.NQUADS, b"broken\n" * 500 + quads(1) + b"broken\n" * 500 + quads(2), record=200)
    assert len(found) == 1002
    assert [each for each in outcome(found) if each != "unreadable"] == [1, 2]


def test_stray_quote_beyond_the_limit_makes_one_line_unreadable(tmp_path: Path) -> None:
    rows = b"".join([f"{number},a\n".encode() for number in range(2, 1000)])
    found = records(tmp_path, Format.CSV, b't,a\n1,"odd\n' + rows, record=100)
    assert outcome(found) == ["unreadable", *range(2, 1000)]
    assert found[0].why == "a quote is never closed"
    found = records(tmp_path, Format.CSV, b't,a\n1,"odd\n' + rows + b'1000,"good"\n', record=100)
    assert outcome(found) == ["unreadable", *range(2, 1001)]
    found = records(tmp_path, Format.TRIG, HEAD.encode() + b":s :p '''odd\n" + b"".join(map(trig, range(1, 100))), record=200)
    assert outcome(found) == ["unreadable", *range(1, 100)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_quoted_field_beyond_the_limit_is_one_record(tmp_path: Path, end: bytes) -> None:
    field = b"7,injected" + end
    found = records(tmp_path, Format.CSV, b"t,a" + end + b"1,a" + end + b'2,"' + field * 100 + b'"' + end + b"3,a" + end, record=100)
    assert outcome(found) == [1, "limit", 3]


_PIECES: Final[dict[Format, list[bytes]]] = {
    Format.NDJSON: [
        ndjson(1, ":a :b :c ."),
        ndjson(2, f":a :p {nested(9)} .").replace(b"<<(", b"\\u003c\\u003c("),
        *(b"[", b"x" * 5000, b"\n", b'"\\', b"\xff", b"9" * 5000 + b"\n", b'{"time": 3, "graph": ""}'),
    ],
    Format.NQUADS: [
        *(quads(1), quads(2), quads(1).partition(b"\n")[0] + b"\n", quads(1).partition(b"\n")[2], quads(1, '"' + "y" * 5000 + '"')),
        *(b"broken\n", f"broken <{EX}g1>".encode(), b"\n", b"# c\n", b"z" * 1500 + b"\n", quads(1, long_terms(nested(9) + " "))),
    ],
    Format.TRIG: [
        *(HEAD.encode(), trig(1), trig(2).replace(b"\n", b" "), b":a { :s :p :o }\n", b"x" * 3000, b" " * 3000),
        *(b"'''", b'"""', b'"', b"'", b"<", b"\\", b"#", b"\n", b"{", b"}", b".", b'""', b":c { :s :p '''" + b"q " * 2500 + b"''' }\n"),
        f":s :p {nested(9)} .".encode(),
    ],
    Format.CSV: [
        *(b"1,a\n", b'2,"b\nc"\n', b'3,"x"y\n', b'4,"z"\n', b"x" * 3000, b"5," + b"v" * 4200 + b"\n"),
        *(b'"', b",", b'""', b"\n", b"\r\n", b"\xff"),
    ],
}


@pytest.mark.parametrize("form", _PIECES)
@pytest.mark.parametrize("seed", range(60))
def test_pieces_of_records_in_any_order(tmp_path: Path, form: Format, seed: int) -> None:
    choose = random.Random(seed)
    content = b"".join([choose.choice(_PIECES[form]) for _ in range(choose.randrange(14))])
    head = {Format.CSV: b"t,a\n", Format.TRIG: HEAD.encode()}.get(form, b"")
    records(tmp_path, form, head + content, record=choose.choice([40, 300, 4096]), nesting=8)


# --- CSV records, good or bad ---


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (b'2,"b\n7,injected"\n', ""),
        (b'2,"b\n7,injected",x\n', "it has 3 columns where the header has 2"),
        (b'soon,"b\n7,injected"\n', "its time, t: 'soon' is neither an integer nor an ISO 8601 date-time"),
        (b'2,"b\n7,injected\xff"\n', "it is not UTF-8 (byte 15)"),
        (b'2,"b\n7,injected",c\rd\n', "it is no row: new-line character seen"),
        (b'2,"' + b"b" * 200_000 + b'\n7,injected"\n', ""),
    ],
)
def test_record_with_closed_quotes_is_consumed_completely(tmp_path: Path, record: bytes, why: str) -> None:
    first, middle, last = records(tmp_path, Format.CSV, b"t,a\n1,a\n" + record + b"3,a\n")
    assert (outcome([first]), outcome([last])) == ([1], [3])
    assert middle.raw == record
    assert why in middle.why
    assert bool(why) == bool(middle.why)


def test_row_of_a_million_columns_is_rejected(tmp_path: Path) -> None:
    found = records(tmp_path, Format.CSV, b"t,a\n1,a\n2" + b"," * 1_000_000 + b"\n3,a\n")
    assert outcome(found) == [1, "unreadable", 3]
    assert found[1].why == "it has 1000001 columns where the header has 2"


@pytest.mark.parametrize(
    ("form", "content"),
    [
        (Format.NDJSON, ndjson(1, "") + b"x" * 99_000 + b"\n" + ndjson(3, "")),
        (Format.NQUADS, quads(1) + quads(2, f'"{"x" * 99_000}"') + quads(3)),
        (Format.NQUADS, quads(1) + quads(2) + quads(2).splitlines(keepends=True)[0] * 2000 + quads(3)),
        (Format.CSV, b"t,a\n1,a\n2," + b"x" * 99_000 + b"\n3,a\n"),
        (Format.CSV, b't,a\n1,a\n2,"' + b"7,x\n" * 30_000 + b'"\n3,a\n'),
        (Format.CSV, b't,a\n1,a\n2,"' + b'""' * 50_000 + b'"\n3,a\n'),
        (Format.CSV, b't,a\n1,a\n2,"y' + b'""' * 50_000 + b'"\n3,a\n'),
    ],
)
def test_a_copy_of_standard_input_is_read_as_the_original(tmp_path: Path, form: Format, content: bytes) -> None:
    found = records(tmp_path, form, content, record=70_000)
    assert outcome(found) == [1, "limit", 3]
    file = input_file(tmp_path / "in.txt", form, 70_000)
    copy = b"".join([piece for each in found for piece in _record_text(each, file)])
    again = records(tmp_path, form, (b"t,a\n" if form is Format.CSV else b"") + copy, record=70_000)
    assert outcome(again) == [1, "limit", 3]
    assert (again[1].text, again[1].why) == (found[1].text, found[1].why)


# --- damaged files ---


def test_damaged_gzip_is_read_up_to_the_damage(tmp_path: Path) -> None:
    lines = [ndjson(time, f":a :p {time} .") for time in range(1, 5000)]
    packed = gzip.compress(b"".join(lines))
    for cut in (len(packed) // 2, len(packed) - 100, len(packed) - 9):
        path = tmp_path / "in.gz"
        path.write_bytes(packed[:cut])
        found = read(input_file(path, Format.NDJSON, MIB))
        assert found[-1].why == "the file cannot be read from here on: compressed file ended before the end-of-stream marker was reached"
        assert outcome(found[:-1]) == list(range(1, len(found)))
        assert len(found) > len(lines) * cut / len(packed) * 0.9
        assert found[-1].raw == lines[len(found) - 1][: len(found[-1].raw)] if len(found) <= len(lines) else found[-1].raw == b""
    for wrong, why in ((packed[:-8] + bytes(8), "incorrect data check"), (packed + b"junk", "incorrect header check")):
        path.write_bytes(wrong)
        found = read(input_file(path, Format.NDJSON, MIB))
        assert outcome(found) == [*range(1, 5000), "unreadable"]
        assert why in found[-1].why


@pytest.mark.parametrize("form", [Format.NQUADS, Format.TRIG, Format.CSV])
def test_line_cut_off_by_damage_is_rejected(tmp_path: Path, form: Format) -> None:
    writers: dict[Format, tuple[bytes, Callable[[int], bytes]]] = {
        Format.NQUADS: (b"", quads),
        Format.TRIG: (HEAD.encode(), trig),
        Format.CSV: (b"t,a\n", row),
    }
    head, one = writers[form]
    content = head + b"".join(map(one, range(1, 100))) + one(100)[:-1]
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(content)[:-8])
    found = read(input_file(path, form, MIB))
    assert outcome(found)[:99] == list(range(1, 100))
    assert 100 not in outcome(found)
    assert "the file cannot be read from here on" in found[-1].why


def test_long_compressed_line_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(ndjson(1, ""))
        for _ in range(64):
            file.write(bytes(MIB))
        file.write(b"\n" + ndjson(2, ""))
    found = read(input_file(path, Format.NDJSON, MIB))
    assert outcome(found) == [1, "limit", 2]


# --- errors of dead letters ---


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"time": ' + b"9" * 5000 + b', "graph": ""}', "it has an integer of more than 4,300 digits"),
        (b'{"time": 1e400, "graph": ""}', "its time is neither an integer nor a date-time"),
        (b'{"time": 1, "graph": ":a :p\\n  x:y ."}', "the prefix x: has not been declared (line 2, column 3)"),
        (b'{"time": 1, "graph": ":a :p \\u0000 ."}', "(line 1, column 7)"),
        (b'{"time": "\\ud800", "graph": ""}', "its time cannot be read: '\\ud800' is no ISO 8601 date-time"),
        (b'{"time": 1, "graph": "' + b"p" * 100_000 + b':a :b :c ."}', "…"),
    ],
)
def test_unreadable_line_has_its_error(tmp_path: Path, line: bytes, why: str) -> None:
    found = records(tmp_path, Format.NDJSON, ndjson(1, "") + line + b"\n" + ndjson(2, ""))
    assert outcome(found) == [1, "unreadable", 2]
    letter = found[1].dead_letter(input_file(tmp_path, Format.NDJSON, MIB))
    assert why in letter.why
    assert len(letter.why) <= 1_001


def test_errors_of_quads_have_line_and_column(tmp_path: Path) -> None:
    (found,) = records(tmp_path, Format.NQUADS, b"\n<x:a> <x:b> c .\n")
    assert found.why.endswith("(line 2, column 13)")
    found = records(tmp_path, Format.TRIG, HEAD.encode() + b":g {\n  :s :p x:y }\n")[0]
    assert found.why == "the prefix x: has not been declared (line 3, column 9)"


def test_cost_of_prefixes_is_linear_in_their_length(tmp_path: Path) -> None:
    many = "".join([f"PREFIX p{number}: <http://e/{number}/>\n" for number in range(3000)])
    text = f"{HEAD}{many}p7:g {{ p8:s p9:p p10:o }}\np7:g prov:generatedAtTime 5 ."
    (record,) = records(tmp_path, Format.TRIG, text.encode())
    assert record.element is not None
    assert record.element.triples == (("<http://e/8/s>", "<http://e/9/p>", "<http://e/10/o>"),)


def test_every_dead_letter_has_a_reason(project: Project) -> None:
    lines = [
        ndjson(5, ":a a :A ."),
        b'{"time": "1970-01-01T00:00:01", "graph": ""}\n',
        b'{"time": "1970-01-01T00:00:01Z", "graph": ""}\n',
        b"?\n",
        ndjson(6, f":a :p {nested(65)} ."),
    ]
    project.write("a.ndjson", b"".join(lines))
    assert project.dotr("run", "c.yaml").code == 0
    letters = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    assert [list(letter)[-1] for letter in letters] == ["error"] * 4
    late = "an element of 1970-01-01T00:00:05Z came before this one of 1970-01-01T00:00:01Z"
    assert [(letter["reason"], letter["error"]) for letter in letters] == [
        ("late", f"{late}; its date-time has no zone, and was read as UTC"),
        ("late", late),
        ("unreadable", "it is no JSON: expecting value at column 1"),
        ("limit", "it is nested too deeply: more than 64 brackets in each other (limits.nesting)"),
    ]


def test_limits_of_the_configuration_reach_the_readers(project: Project) -> None:
    project.change("c.yaml", "engine: local", "engine: local\nlimits: { nesting: 2, record: 100 }")
    project.write("a.ndjson", ndjson(1, ":a a :A .") + ndjson(2, ":a :p [ :p [ :p [] ] ] .") + ndjson(3, f":a :p '{'x' * 100}' ."))
    assert project.dotr("run", "c.yaml").code == 0
    letters = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    assert [(letter["reason"], letter["time"]) for letter in letters] == [("limit", 2), ("limit", None)]


def test_integer_times_that_look_like_another_unit_give_a_warning(project: Project) -> None:
    project.write("a.ndjson", ndjson(1_406_879_400_000, ":a a :A .") + ndjson(1_406_879_401_000, ":a a :A ."))
    stderr_text = project.dotr("run", "c.yaml").err
    told = "I106 warning: integer times of input a look like milliseconds since 1970, and are read as"
    warning = f"{told} seconds: 1406879400000 (a.ndjson:1)"
    assert stderr_text.count(warning) == 1
    assert "If they are, write time: { unit: ms }." in stderr_text
    project.change("c.yaml", "engine: local", "engine: local\ntime: { unit: ms }")
    assert "I106" not in project.dotr("run", "c.yaml", "--fresh").err
    project.change("c.yaml", "unit: ms", "unit: us")
    assert f"{told} microseconds: 1406879400000 (a.ndjson:1)" in project.dotr("run", "c.yaml", "--fresh").err
    project.change("c.yaml", "unit: us", "unit: min")
    assert f"{told} minutes: 1406879400000 (a.ndjson:1)" in project.dotr("run", "c.yaml", "--fresh").err
