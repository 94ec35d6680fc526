"""RDF message logs: the cases of the draft's test document, positions, limits, broken logs; Turtle and N-Triples files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.model.stream import Reason
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.formats.rdf.cuts import message_cuts
from dotr.streams.formats.rdf.documents import LINE_FORMATS
from dotr.streams.records import START, Format, GraphSettings, InputFile, Position, Record
from tests.streams.formats.test_io_formats import records_of_file

pytestmark = pytest.mark.core

EX = "http://example.org/"
LABEL = 'VERSION "1.2-messages"\n'
AT = "http://e/at"
TEXT_FORMATS = (Format.TURTLE, Format.TRIG, Format.NTRIPLES, Format.NQUADS)


def s(name: str) -> str:
    return f"<{EX}{name}>"


def triple(subject: str, value: str = "o", time: int | None = None) -> str:
    """A statement that is valid in every text format, with a second one for the time of its message."""
    at = "" if time is None else f'{s(subject)} <{AT}> "{time}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
    return f"{s(subject)} {s('p')} {s(value)} .\n{at}"


def generated(n: int) -> str:
    """The statement of graph n's time, in the default graph."""
    return f'{s(f"g{n}")} <http://www.w3.org/ns/prov#generatedAtTime> "{n}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'


def records(tmp_path: Path, form: Format, text: str | bytes, record: int = 1 << 23) -> list[Record]:
    return records_of_file(tmp_path, text, lambda path: InputFile("in", str(path), form, record=record, graphs=GraphSettings(f"<{AT}>")))


# --- the cases of the draft's test document, each message with a time ---


def read(tmp_path: Path, text: str, form: Format = Format.TURTLE) -> list[list[str] | str]:
    """Each message as its triples, abbreviated, without the time; or the reason of its dead letter."""
    shown: list[list[str] | str] = []
    for record in records(tmp_path, form, text):
        if record.element is None:
            shown.append(record.reason.value)
        else:
            triples = [each for each in record.element.triples if each[1] != f"<{AT}>"]
            shown.append([" ".join(each).replace(EX, "").replace("<", "").replace(">", "") for each in triples])
    return shown


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_one_message_without_a_delimiter(tmp_path: Path, form: Format) -> None:
    assert read(tmp_path, LABEL + triple("s1", time=1), form) == [["s1 p o"]]


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_a_delimiter_between_two_messages(tmp_path: Path, form: Format) -> None:
    assert read(tmp_path, LABEL + triple("s1", time=1) + "MESSAGE\n" + triple("s2", time=2), form) == [["s1 p o"], ["s2 p o"]]


@pytest.mark.parametrize("form", [Format.TURTLE, Format.TRIG])
def test_delimiter_as_a_directive_with_a_dot(tmp_path: Path, form: Format) -> None:
    text = f'@version "1.2-messages" .\n@prefix ex: <{EX}> .\nex:s1 ex:p ex:o ; <{AT}> 1 .\n@message .\nex:s2 ex:p ex:o ; <{AT}> 2 .\n'
    assert read(tmp_path, text, form) == [["s1 p o"], ["s2 p o"]]


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_delimiter_at_the_start_makes_an_empty_message(tmp_path: Path, form: Format) -> None:
    assert read(tmp_path, LABEL + "MESSAGE\n" + triple("s1", time=1), form) == ["empty", ["s1 p o"]]


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_two_delimiters_in_a_row_make_an_empty_message(tmp_path: Path, form: Format) -> None:
    text = LABEL + triple("s1", time=1) + "MESSAGE\nMESSAGE\n" + triple("s2", time=2)
    assert read(tmp_path, text, form) == [["s1 p o"], "empty", ["s2 p o"]]


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_delimiter_at_the_end_makes_no_message(tmp_path: Path, form: Format) -> None:
    for end in ("", "\n", " # nothing more", "\n\n#\n"):
        assert read(tmp_path, LABEL + triple("s1", time=1) + "MESSAGE" + end, form) == [["s1 p o"]]


def test_named_graphs_of_quads(tmp_path: Path) -> None:
    quads = [f"{s(f's{n}')} {s('p')} {s('o')} {s(f'g{n}')} .\n{generated(n)}" for n in (1, 2)]
    assert read(tmp_path, LABEL + "MESSAGE\n".join(quads), Format.NQUADS) == [["s1 p o"], ["s2 p o"]]


def test_default_graph_and_named_graph_in_one_message(tmp_path: Path) -> None:
    block = f"ex:g {{\n ex:s2 ex:p ex:o2 .\n ex:s3 ex:p ex:o3 ; <{AT}> 1 .\n}}"
    text = f"{LABEL}PREFIX ex: <{EX}>\nex:s1 ex:p ex:o1 .\n{block}\nMESSAGE\nex:s4 ex:p ex:o4 ; <{AT}> 2 .\n"
    assert read(tmp_path, text, Format.TRIG) == [["s1 p o1", "s2 p o2", "s3 p o3"], ["s4 p o4"]]


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_blank_nodes_are_local_to_a_message(tmp_path: Path, form: Format) -> None:
    time = f'<{AT}> "1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    text = f"{LABEL}_:b0 {s('p')} {s('o1')} .\n_:b0 {time} .\nMESSAGE\n_:b0 {s('p')} {s('o2')} .\n_:b0 {time} .\n"
    assert read(tmp_path, text, form) == [["_:0 p o1"], ["_:0 p o2"]]


def test_prefixes_apply_to_later_messages_until_redeclared(tmp_path: Path) -> None:
    time = f"<{AT}> 1"
    text = (
        f"{LABEL}PREFIX ex: <{EX}one/>\nBASE <{EX}base/>\nex:s ex:p <o> ; {time} .\nMESSAGE\nex:s ex:p <o> ; {time} .\nMESSAGE\n"
        f"PREFIX ex: <{EX}two/>\nex:s ex:p <o> ; {time} .\nMESSAGE BASE <{EX}other/> ex:s ex:p <o> ; {time} ."
    )
    assert read(tmp_path, text) == [
        ["one/s one/p base/o"],
        ["one/s one/p base/o"],
        ["two/s two/p base/o"],
        ["two/s two/p other/o"],
    ]


def test_delimiter_behind_a_graph_block(tmp_path: Path) -> None:
    text = f"{LABEL}{s('g')} {{\n{s('a')} {s('b')} {s('c')} ; <{AT}> 1 .\n}}\nMESSAGE\n{s('d')} {s('e')} {s('f')} ; <{AT}> 2 .\n"
    assert read(tmp_path, text, Format.TRIG) == [["a b c"], ["d e f"]]


def test_delimiter_without_the_label_is_unreadable(tmp_path: Path) -> None:
    text = triple("s1", time=1) + "MESSAGE\n" + triple("s2", time=2)
    for form in (Format.TURTLE, Format.NTRIPLES):
        assert read(tmp_path, text, form) == ["unreadable"]


@pytest.mark.parametrize("form", [Format.TRIG, Format.NQUADS])
def test_delimiter_without_the_label_makes_the_rest_unreadable(tmp_path: Path, form: Format) -> None:
    def graph(n: int) -> str:
        quad = f"{s('s')} {s('p')} {s('o')}"
        return (f"{s(f'g{n}')} {{ {quad} }}\n" if form is Format.TRIG else f"{quad} {s(f'g{n}')} .\n") + generated(n)

    def records(text: str) -> list[Record]:
        return records_of_file(tmp_path, text, lambda path: InputFile("in", str(path), form))

    found = records(graph(1) + graph(2) + "MESSAGE\n" + graph(3) + "MESSAGE\n" + graph(2))
    assert [record.time for record in found] == [1_000_000, 2_000_000, None]
    assert "VERSION" in found[2].why
    assert found[2].text.startswith("MESSAGE\n")
    if form is Format.TRIG:
        inside = graph(1) + f"{s('g2')} {{ {s('a')} {s('p')} 1 .\nMESSAGE\n{s('a')} {s('p')} 1 }}\n" + graph(3)
        assert [record.time for record in records(inside)] == [1_000_000, None]


def test_directive_without_its_dot_makes_its_message_unreadable(tmp_path: Path) -> None:
    text = LABEL + triple("s", time=1) + f"@message <{EX}invalid>\n"
    assert read(tmp_path, text) == ["unreadable"]
    assert read(tmp_path, text + "MESSAGE\n" + triple("t", time=1)) == ["unreadable", ["t p o"]]


def test_delimiter_inside_of_a_graph_block_makes_the_rest_unreadable(tmp_path: Path) -> None:
    text = (
        f"{LABEL}{triple('x', time=1)}MESSAGE\n{s('g')} {{\n{triple('a', time=2)}MESSAGE\n{triple('d')}}}\nMESSAGE\n{triple('z', time=3)}"
    )
    found = records(tmp_path, Format.TRIG, text)
    assert [record.time for record in found] == [1_000_000, None]
    assert found[1].why == "a message ends inside of a graph block in line 8: the log cannot be read further"
    assert found[1].end == len(text)


# --- further ---


@pytest.mark.parametrize(
    "inside",
    [
        "# MESSAGE",
        '"MESSAGE"',
        "'MESSAGE'",
        '"""\nMESSAGE\n"""',
        "'''\nMESSAGE '' \n'''",
        '"a"@message',
        '"""a"""@message',
        f"<{EX}MESSAGE>",
        ":MESSAGE",
        ":a.MESSAGE",
    ],
)
def test_text_that_looks_like_a_delimiter_is_none(tmp_path: Path, inside: str) -> None:
    end = f"\n{s('v')}" if inside.startswith("#") else ""
    text = f"{LABEL}PREFIX : <{EX}>\n{s('a')} {s('p')} {inside}{end} ; <{AT}> 1 .\nMESSAGE\n{triple('b', time=2)}"
    for form in (Format.TURTLE, Format.TRIG):
        assert [record.time for record in records(tmp_path, form, text)] == [1_000_000, 2_000_000]


def test_broken_message_leaves_the_others_readable(tmp_path: Path) -> None:
    parts = [triple("a", time=1), f"{s('a')} {s('p')}\n", triple("b"), f"\xff{triple('c', time=1)}", triple("d", time=2)]
    found = records(tmp_path, Format.TURTLE, LABEL + "MESSAGE\n".join(parts))
    assert [record.time for record in found] == [1_000_000, None, None, None, 2_000_000]
    assert "MESSAGE" not in found[1].why
    assert found[2].why == f"it has no <{AT}>"
    assert "line 9" in found[3].why


def test_message_beyond_the_limit_is_a_dead_letter(tmp_path: Path) -> None:
    long = "".join(triple(f"long{n}") for n in range(50))
    one_line = f'{s("a")} {s("p")} "{"x" * 5000} MESSAGE" .\n'
    parts = [triple("a", time=1), long, triple("b", time=2), one_line, triple("c", time=3)]
    for form in TEXT_FORMATS:
        found = records(tmp_path, form, LABEL + "MESSAGE\n".join(parts), record=1000)
        assert [(record.time, record.reason) for record in found] == [
            (1_000_000, Reason.UNREADABLE),
            (None, Reason.LIMIT),
            (2_000_000, Reason.UNREADABLE),
            (None, Reason.LIMIT),
            (3_000_000, Reason.UNREADABLE),
        ]
        assert len(found[1].raw) == len(found[3].raw) == 1000


def test_graphs_of_one_message_are_elements_with_positions(tmp_path: Path) -> None:
    message = "".join(f"{s(f'g{n}')} {{ {triple(f's{n}')} }} {generated(n)}" for n in (1, 2, 3))
    found = records(tmp_path, Format.TRIG, LABEL + "MESSAGE\n".join([message, message]))
    assert [record.time for record in found] == [n * 1_000_000 for n in (1, 2, 3, 1, 2, 3)]


def test_turtle_file_is_a_message(tmp_path: Path) -> None:
    text = f"@prefix : <{EX}> . :a :p [ :q _:x ] ; <{AT}> 5 . _:x :r 1 ."
    for content in (text, "\ufeff" + text):
        [record] = records(tmp_path, Format.TURTLE, content)
        assert record.element is not None
        assert (record.time, len(record.element.triples)) == (5_000_000, 4)
    assert [record.reason for record in records(tmp_path, Format.TURTLE, "# nothing\n")] == [Reason.EMPTY]
    assert [record.time for record in records(tmp_path, Format.NTRIPLES, 'VERSION "1.2"\n' + triple("a", time=7))] == [7_000_000]
    [long] = records(tmp_path, Format.TURTLE, text + " " * 100_000, record=1000)
    assert (long.reason, long.end, len(long.raw)) == (Reason.LIMIT, len(text) + 100_000, 1000)


def test_message_of_a_broker_is_one_rdf_message() -> None:
    decode = message_decoder(InputFile("in", "", Format.TURTLE, graphs=GraphSettings(f"<{AT}>")))
    for text, times in (
        (LABEL + triple("a", time=1), [1_000_000]),
        (LABEL + triple("a", time=1) + "MESSAGE\n", [1_000_000]),
        (LABEL + triple("a", time=1) + "MESSAGE\n" + triple("a", time=1), [None]),
        (LABEL + "MESSAGE", [None]),
        (LABEL, [None]),
    ):
        found = decode(Message(text.encode(), 3), True)
        assert [record.time for record in found] == times
        assert (found[0].reason is Reason.EMPTY) == (len(text) < 40)


PIECES = st.sampled_from(
    [
        "MESSAGE\n",
        "@message .",
        " message ",
        triple("a"),
        triple("b", time=4),
        f"PREFIX : <{EX}> \n",
        f"PREFIX : <{EX}x> ",
        f":a :p 1 ; <{AT}> 5 .\n",
        f"{s('g')} {{ {s('a')} {s('p')} 1 }}\n",
        "{",
        "}",
        '"""',
        "'''",
        '"',
        "# MESSAGE\n",
        "\n",
        " " * 30,
        "<<( ",
        "\\",
        "VERSION '1.2'",
    ]
)


@given(pieces=st.lists(PIECES, max_size=12), form=st.sampled_from(TEXT_FORMATS), label=st.booleans())
def test_scans_and_full_readings_agree_from_any_position(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], form: Format, label: bool
) -> None:
    records(tmp_path_factory.mktemp("log"), form, (LABEL if label else "") + "".join(pieces))


@given(pieces=st.lists(PIECES, max_size=12), form=st.sampled_from(TEXT_FORMATS), limit=st.integers(20, 400))
def test_cuts_are_consecutive(pieces: list[str], form: Format, limit: int) -> None:
    raw = (LABEL + "".join(pieces)).encode()
    cuts = list(message_cuts(BytesIO(raw), START, limit, one_per_line=form in LINE_FORMATS))
    for number, cut in enumerate(cuts):
        assert raw[cut.offset :].startswith(cut.raw) or cut.why
        assert cut.line == raw.count(b"\n", 0, cut.offset) + 1
        assert cut.offset <= cut.end <= len(raw)
        again = list(message_cuts(BytesIO(raw[cut.offset :]), Position(cut.offset, cut.line), limit, one_per_line=form in LINE_FORMATS))
        assert again == cuts[number:]
