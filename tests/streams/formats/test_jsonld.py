"""JSON-LD: times, declared and undeclared contexts, files, and agreement of a scan with a full reading."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.model.stream import Reason
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.records import Format, GraphSettings, InputFile, Record
from tests.streams.formats.test_io_formats import records_of_file

pytestmark = pytest.mark.core

AT = "http://www.w3.org/ns/prov#generatedAtTime"
NONE = GraphSettings()
LOCAL = {"@vocab": "http://e/", "at": {"@id": AT}, "id": "@id"}


def declared(context: object, **others: object) -> GraphSettings:
    contexts = {"http://c/": context, **others}
    return GraphSettings(contexts=tuple((iri, json.dumps({"@context": each})) for iri, each in contexts.items()))


def without_reason(record: Record) -> Record:
    """The record without the parser's message, which is any of several if a context has several errors."""
    return record._replace(why="unreadable" if record.why else "")


def decoded(document: object, settings: GraphSettings = NONE, nesting: int = 64) -> list[Record]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    decode = message_decoder(InputFile("in", "", Format.JSONLD, nesting=nesting, graphs=settings))
    records = decode(Message(body, 7), True)
    again = decode(Message(body, 7), False)
    assert list(map(without_reason, again)) == [without_reason(record)._replace(element=None) for record in records]
    return records


def triples(document: object, settings: GraphSettings = NONE) -> set[tuple[str, ...]]:
    """The triples of a document's element, abbreviated, without that of the time."""
    [record] = decoded(document, settings)
    assert record.element is not None, record.why
    return {tuple(term.strip("<>").removeprefix("http://e/") for term in each) for each in record.element.triples if AT not in each[1]}


def why(document: object, settings: GraphSettings = NONE) -> str:
    [record] = decoded(document, settings)
    assert record.time is None
    return record.why


def test_document_is_an_element() -> None:
    assert triples({"@context": LOCAL, "id": "http://e/a", "at": 5, "p": [{"q": "x"}]}) == {("a", "p", "_:0"), ("_:0", "q", '"x"')}
    [record] = decoded({"@context": LOCAL, "id": "http://e/a", "at": "soon"})
    assert record.why == "its prov:generatedAtTime cannot be read: 'soon' is neither an integer nor an ISO 8601 date-time"
    assert decoded({})[0].reason is decoded([])[0].reason is Reason.EMPTY


@pytest.mark.parametrize("key", ["@direction", "@\\u0064irection", "d"])
def test_base_direction_is_left_out(key: str) -> None:
    """It is written to RDF only where `rdfDirection` is set (JSON-LD 1.1 API, 8.2.2), for one text and for all of a context."""
    alias = ', "d": "@direction"' if key == "d" else ""
    context = f'{{"@vocab": "http://e/", "@language": "ar", "@direction": "rtl", "at": {{"@id": "{AT}"}}{alias}}}'
    document = (
        f'{{"@context": {context}, "@id": "http://e/a", "at": 5, "p": "x", "q": {{"@value": "y", "@language": "en", "{key}": "ltr"}}}}'
    )
    assert triples(document.encode()) == {("a", "p", '"x"@ar'), ("a", "q", '"y"@en')}


def test_named_graphs_with_times_are_elements() -> None:
    graphs = [{"id": f"http://e/g{n}", "at": n, "@graph": [{"id": "http://e/a", "p": n}, {"id": "http://e/b", "p": n}]} for n in (4, 5)]
    records = decoded({"@context": LOCAL, "@graph": graphs})
    assert [(record.time, len(record.element.triples)) for record in records if record.element] == [(4_000_000, 2), (5_000_000, 2)]
    [merged] = decoded({"@context": LOCAL, "@graph": [{"id": "http://e/g", "@graph": [{"id": "http://e/a", "at": 4, "p": 1}]}]})
    assert merged.element is not None
    assert (merged.time, len(merged.element.triples)) == (4_000_000, 2)


def test_declared_context_replaces_a_remote_one() -> None:
    document = {"@context": "http://c/", "id": "http://e/a", "at": 5, "p": 1}
    assert triples(document, declared(LOCAL)) == {("a", "p", '"1"^^<http://www.w3.org/2001/XMLSchema#integer')}
    in_list = {**document, "@context": ["http://c/", {"p": "http://e/other"}, None, "http://c/"]}
    assert {each[1] for each in triples(in_list, declared(LOCAL))} == {"p"}
    nested = {**document, "@context": LOCAL, "p": {"@context": [None, "http://c/"], "r": 1}}
    assert {each[1] for each in triples(nested, declared({"@vocab": "http://f/"}))} == {"p", "http://f/r"}


def test_contexts_within_contexts_are_resolved() -> None:
    others = {"http://c/more": {"@vocab": "http://e/", "id": "@id"}, "http://c/time": {"at": AT}}
    document = {"@context": "http://c/", "id": "http://e/a", "at": {"@value": 5}, "p": 1}
    assert {each[1] for each in triples(document, declared(["more", "http://c/time"], **others))} == {"p"}
    imported = {**document, "@context": {"@version": 1.1, "@import": "http://c/more", "at": AT}}
    assert {each[1] for each in triples(imported, declared({}, **others))} == {"p"}
    scoped = {"@vocab": "http://e/", "at": AT, "id": "@id", "p": {"@id": "http://e/p", "@context": "http://c/inner"}}
    inner = {"http://c/inner": {"@vocab": "http://f/"}}
    assert {each[1] for each in triples({**document, "p": {"q": 1}}, declared(scoped, **inner))} == {"p", "http://f/q"}
    assert "refers to itself" in why(document, declared("http://c/"))
    assert "http://c/none is not declared" in why(document, declared("none"))
    assert "no single context" in why(imported, declared({}, **{"http://c/more": [{}, {}]}))


def test_only_used_terms_of_a_context_are_inlined() -> None:
    large = {"@vocab": "http://f/", "ns": "http://e/", "at": AT, "q": {"@id": "ns:q", "@type": "T"}, "T": "ns:T", "id": "@id"}
    large |= {f"term{n}": f"http://f/{n}" for n in range(100)}
    document = {"@context": "http://c/", "id": "ns:a", "at": 5, "q": "x", "ns:r": {"@type": "T"}}
    assert triples(document, declared(large)) == {
        ("a", "q", '"x"^^<http://e/T'),
        ("a", "r", "_:0"),
        ("_:0", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "T"),
    }


def test_message_without_a_context_gets_the_default_one() -> None:
    settings = GraphSettings(context=json.dumps({"@context": LOCAL}))
    document = {"id": "http://e/a", "at": 5, "p": "x"}
    assert triples(document, settings) == triples([document], settings) == {("a", "p", '"x"')}
    own = {"@context": {"@vocab": "http://f/", "t": AT}, "@id": "http://e/a", "t": 5, "p": "x"}
    assert triples(own, settings) == {("a", "http://f/p", '"x"')}


@pytest.mark.parametrize("escaped", [False, True])
def test_nothing_is_fetched(tmp_path: Path, escaped: bool) -> None:
    """No connection is opened and no file is read for any context, anywhere in a document."""
    hits: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)

        def accept() -> None:
            with contextlib.suppress(TimeoutError):
                hits.append(server.accept())

        listener = threading.Thread(target=accept)
        listener.start()
        file = tmp_path / "context.jsonld"
        file.write_text(json.dumps({"@context": LOCAL}))
        remotes = [f"http://127.0.0.1:{server.getsockname()[1]}/c.jsonld", file.as_uri(), str(file), "//127.0.0.1/c", "data:,{}"]
        for remote in remotes:
            for context in (
                remote,
                [remote],
                [{}, remote],
                {"@import": remote},
                {"p": {"@id": "http://e/p", "@context": remote}},
                {"@propagate": False, "T": {"@id": "http://e/T", "@context": [remote]}},
            ):
                for document in (
                    {"@context": context, "@id": "http://e/a", AT: 5, "p": {"q": 1}, "@type": "T"},
                    {"@id": "http://e/a", AT: 5, "http://e/p": {"@context": context, "@type": "T", "p": {"q": 1}}},
                    {"@id": "http://e/a", AT: 5, "@included": {"@context": context, "@type": "T", "p": {"q": 1}}},
                ):
                    text = json.dumps(document)
                    if escaped:
                        text = text.replace('"@context"', r'"\u0040context"')
                    for settings in (GraphSettings(), declared(LOCAL), GraphSettings(context=json.dumps({"@context": {}}))):
                        assert "is not declared (contexts), and nothing is fetched" in why(text.encode(), settings)
        listener.join()
    assert hits == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "no JSON|EOF|nexpected"),
        (b'{"@id": NaN}', ""),
        (b"\xff", "UTF-8"),
        (b'{"@context": 5}', "ontext"),
        (b'{"@context": ["http://c/", 5], "http://e/p": "x"}', "ontext"),
        (b'{"@context": "http://c/", "http://e/p": "\\ud800"}', ""),
        (b'{"@context": "http://c/", "http://e/p": 1e999}', ""),
        (b'"text"', ""),
    ],
)
def test_broken_documents_are_unreadable(body: bytes, reason: str) -> None:
    [record] = decoded(body, declared(LOCAL))
    assert record.time is None
    assert record.raw == body
    assert any(part in record.why for part in reason.split("|"))


def test_nesting_is_limited_before_parsing() -> None:
    for body in (b'{"@graph":' * 20_000 + b"1" + b"}" * 20_000, b"[" * 100_000, b'{"@context":[' * 9_000):
        for settings in (GraphSettings(), declared(LOCAL)):
            [record] = decoded(body, settings)
            assert record.reason is Reason.LIMIT
    deepest = b'{"@context": {"@vocab": "http://e/"}, "p": ' + b'{"p": ' * 60 + b"1" + b"}" * 60 + b"}"
    assert decoded(deepest)[0].why.startswith("it has no prov")
    assert decoded(deepest, nesting=50)[0].reason is Reason.LIMIT


def file_records(tmp_path: Path, text: str | bytes, record: int = 1 << 23) -> list[Record]:
    return records_of_file(tmp_path, text, lambda path: InputFile("in", str(path), Format.JSONLD, record=record), without_reason)


def line(n: int) -> str:
    return json.dumps({"@context": LOCAL, "id": "http://e/a", "at": n})


def test_documents_in_lines(tmp_path: Path) -> None:
    text = "\n".join([line(1), "", "{broken", f"[{line(2)}, {line(2)}]", '{"@context": {}}', line(3)])
    assert [record.time for record in file_records(tmp_path, text)] == [1_000_000, None, 2_000_000, None, 3_000_000]
    assert [record.time for record in file_records(tmp_path, "{broken\n" + line(1))] == [None, 1_000_000]
    graphs = json.dumps({"@context": LOCAL, "@graph": [{"id": f"http://e/g{n}", "at": n, "@graph": {"p": n}} for n in (1, 2, 3)]})
    assert [record.time for record in file_records(tmp_path, f"{line(9)}\n{graphs}\n{graphs}\n")] == [
        n * 1_000_000 for n in (9, 1, 2, 3, 1, 2, 3)
    ]
    long = json.dumps({"@context": LOCAL, "id": "http://e/a", "at": 5, "p": "x" * 5000})
    found = file_records(tmp_path, f"{line(1)}\n{long}\n{line(2)}", record=1000)
    assert [(record.time, record.reason) for record in found][1] == (None, Reason.LIMIT)
    assert len(found) == 3


def test_file_that_is_one_document(tmp_path: Path) -> None:
    for indent in (1, 4):
        text = json.dumps([json.loads(line(5)), {"@context": LOCAL, "id": "http://e/b", "p": [1, 2]}], indent=indent)
        [record] = file_records(tmp_path, "\n" + text)
        assert record.element is not None
        assert (record.time, len(record.element.triples)) == (5_000_000, 3)
    [long] = file_records(tmp_path, text, record=50)
    assert (long.reason, len(long.raw)) == (Reason.LIMIT, 50)


KEYS = ["@id", "@type", "@graph", "@value", "@context", "@list", "@reverse", AT, "p", "http://e/q", "@vocab"]
VALUES = st.recursive(
    st.sampled_from(["x", "http://e/a", 1, 2.5, True, None, "@id", "a:b", "http://c/"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["@id", "@type", "@graph", "@value", "@context", "@list", "@reverse", AT, "p", "http://e/q", "@vocab"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(document=VALUES, at=st.booleans())
def test_scan_and_full_reading_agree(document: object, at: bool) -> None:
    if isinstance(document, dict) and at:
        document = {**document, AT: 5}
    decoded(document)
    decoded(document, declared(LOCAL))
    decoded(document, GraphSettings(context=json.dumps({"@context": LOCAL})))


@given(documents=st.lists(VALUES, max_size=5), broken=st.lists(st.sampled_from(["{", "}", "\n", " ", "{}"]), max_size=3))
def test_files_are_read_from_any_position(tmp_path_factory: pytest.TempPathFactory, documents: list[object], broken: list[str]) -> None:
    file_records(tmp_path_factory.mktemp("ld"), "\n".join([*(json.dumps(each) for each in documents), *broken]))


@pytest.mark.parametrize(
    ("document", "relative", "resolved"),
    [
        ({"@id": "pump/7", "http://e/p": "x"}, "pump/7", ("b/pump/7", "p", '"x"')),
        ({"@id": "http://e/a", "http://e/p": {"@id": "basic_sc"}}, "basic_sc", ("a", "p", "b/basic_sc")),
        ({"@id": "", "http://e/p": "x"}, "", ("b/", "p", '"x"')),
        ({"@id": "//h/x", "http://e/p": "x"}, "//h/x", ("http://h/x", "p", '"x"')),
        ({"@id": "#x", "http://e/p": "x"}, "#x", ("b/#x", "p", '"x"')),
        ({"@id": "http://e/a", "@type": "Pump"}, "Pump", ("a", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "b/Pump")),
        ({"@context": {"@vocab": "#"}, "@id": "http://e/a", "p": "x"}, "#p", ("a", "b/#p", '"x"')),
        ({"@context": {"@base": None}, "@id": "x", "http://e/p": "x"}, "x", None),
        ({"@context": [{"@base": "http://e/b/"}, {"@base": "c/"}], "@id": "x", "http://e/p": "x"}, None, ("b/c/x", "p", '"x"')),
        ({"@context": [{"@base": "http://e/"}, None], "@id": "x", "http://e/p": "x"}, "x", ("b/x", "p", '"x"')),
        ({"@context": {"@base": "http://e/"}, "@id": "x", "http://e/p": "x"}, None, ("x", "p", '"x"')),
        ({"@id": "http://e/a", "http://e/p": "<dotr-no-base:/x>"}, None, ("a", "p", '"<dotr-no-base:/x>"')),
    ],
)
def test_relative_iri_needs_a_base(document: dict[str, object], relative: str | None, resolved: tuple[str, ...] | None) -> None:
    timed = {**document, AT: 5}
    if relative is None:
        assert triples(timed) == {resolved}
    else:
        assert why(timed) == f"it has the relative IRI <{relative}> and no base: write @base in its context, or declare it (base)"
        assert decoded({"@graph": [{"@id": "http://e/g", "@graph": [timed]}]})[0].why == why(timed) or "@context" in document
    if resolved is None:
        assert "relative IRI" in decoded(timed, GraphSettings(base="http://e/b/"))[0].why
    else:
        assert triples(timed, GraphSettings(base="http://e/b/")) == {resolved}


def test_relative_iris_make_no_document_empty() -> None:
    [record] = decoded({"@id": "pump/7", "http://e/p": "x"})
    assert record.reason is Reason.UNREADABLE
    [record] = decoded({"@id": "g", "@graph": [{"@id": "http://e/a", "http://e/p": "x"}]})
    assert record.reason is Reason.UNREADABLE


def test_relative_context_is_resolved_against_the_base() -> None:
    settings = replace(declared(LOCAL), base="http://c/x/")
    assert triples({"@context": "..", "id": "a", "at": 5, "p": "x"}, settings) == {("http://c/x/a", "p", '"x"')}
    assert "its context ../d is not declared" in why({"@context": "../d", "id": "a", "at": 5})
