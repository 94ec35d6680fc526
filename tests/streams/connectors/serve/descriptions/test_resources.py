"""Resources that describe a published stream, as a reader meets them: negotiation, caches, statuses, documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, parse

from dotr.commands.check.problems import check
from dotr.errors.diagnostics import Refused
from dotr.model.time import Clock
from dotr.streams.connectors.serve.kept import Keep
from dotr.streams.connectors.serve.section import About, DocumentReference
from tests.support.ldes_rules import check_pages
from tests.support.published import DATED, PublishedTest, published

SYNTAX = {
    "text/turtle": RdfFormat.TURTLE,
    "application/ld+json": RdfFormat.JSON_LD,
    "application/n-triples": RdfFormat.N_TRIPLES,
    "application/trig": RdfFormat.TRIG,
    "application/n-quads": RdfFormat.N_QUADS,
}


@pytest.fixture(scope="module")
def fires() -> Iterator[PublishedTest]:
    """A stream of 600 elements with integer times, which is not durable."""
    with published(clock=Clock()) as served:
        served.add(range(600))
        yield served


def quads(served: PublishedTest, path: str, accept: str) -> set[str]:
    """The quads of a resource, without the names of blank nodes."""
    answer = served.get(path, accept)
    assert answer.status == 200, answer.text
    media_type = answer.headers["Content-Type"].partition(";")[0]
    assert media_type == accept
    return {
        " ".join("_:b" if part.startswith("_:") else part for part in str(quad).split(" "))
        for quad in parse(answer.body, SYNTAX[media_type])
    }


@pytest.mark.parametrize(
    ("path", "types"),
    [
        ("", ("text/turtle", "application/ld+json", "application/n-triples")),
        ("sGraph", ("application/ld+json", "text/turtle", "application/n-triples")),
        ("sgraph", ("application/ld+json", "text/turtle", "application/n-triples")),
        ("tbox", ("text/turtle", "application/ld+json", "application/n-triples")),
        ("ldes", ("application/trig", "application/n-quads", "application/ld+json")),
        ("ldes/1", ("application/trig", "application/n-quads", "application/ld+json")),
    ],
)
def test_each_resource_has_its_types_and_says_the_same_in_all(fires: PublishedTest, path: str, types: tuple[str, ...]) -> None:
    answer = fires.get(path)
    assert answer.headers["Content-Type"].partition(";")[0] == types[0]
    assert answer.headers["Vary"] == "Accept"
    found = [quads(fires, path, media_type) for media_type in types]
    assert found[0] == found[1] == found[2]
    assert fires.get(path, "image/png").status == 406
    again = fires.get(path, If_None_Match=answer.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    assert fires.get(path, types[1], If_None_Match=answer.headers["ETag"]).status == 200


def test_html_is_for_those_who_ask_for_it(fires: PublishedTest) -> None:
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    assert fires.get("", browser).headers["Content-Type"] == "text/html; charset=utf-8"
    assert fires.get("sGraph", browser).headers["Content-Type"] == "application/ld+json"


def test_index_is_cut_at_a_thousand_and_changes_with_the_stream() -> None:
    with published(clock=Clock()) as served:
        empty = served.get("sGraph")
        served.add(range(1003))
        found = json.loads(served.get("sGraph", If_None_Match=empty.headers["ETag"]).body)
        listed = [each["@id"].rpartition("/")[2] for each in found["sld:contains"]["@list"]]
        assert listed == [f"{number}000000-0" for number in range(1002, 2, -1)]


def test_page_has_its_elements_as_elements_has_them(fires: PublishedTest) -> None:
    page = quads(fires, "ldes/1", "application/n-quads")
    listed = quads(fires, "elements?after=249000000-0&limit=250", "application/n-quads")
    assert listed < page
    rest = page - listed
    assert sum("tree#member" in quad for quad in rest) == 250
    assert len(rest) == 252


@pytest.mark.parametrize("clock", [Clock(), DATED])
def test_pages_follow_the_rules_over_http(clock: Clock) -> None:
    with published(clock=clock, keep=Keep(elements=300)) as served:
        served.add(range(1000))
        root = f"{served.address}ldes"
        pages = {root: served.get("ldes", "application/n-quads").text}
        for number in served.stream.kept.pages:
            pages[f"{root}/{number}"] = served.get(f"ldes/{number}", "application/n-quads").text
        assert check_pages(root, pages) == [f"{served.address}{number}000000-0" for number in range(500, 1000)]


def test_pages_that_left_are_gone_and_those_to_come_are_not_found() -> None:
    with published(keep=Keep(elements=250)) as served:
        served.add(range(600))
        gone = served.get("ldes/0")
        assert (gone.status, json.loads(gone.body)["first"]) == (410, "250000000-0")
        found = [served.get(f"ldes/{name}").status for name in ("1", "2", "3", "01", "-1", "x", "1/0", "9" * 30)]
        assert found == [200, 200, *[404] * 6]


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("tokens", [None, lambda: "s3cret"])
def test_full_pages_alone_never_change(is_durable: bool, tokens: None) -> None:
    with published(is_durable=is_durable, tokens=tokens) as served:
        served.add(range(300))
        found = {path: served.get(path, Authorization="Bearer s3cret") for path in ("ldes", "ldes/0", "ldes/1")}
        lasting = {path: "immutable" in answer.headers["Cache-Control"] for path, answer in found.items()}
        assert lasting == {"ldes": False, "ldes/0": is_durable, "ldes/1": False}
        assert {
            path: "ldes:immutable true" in answer.text or 'ldes:immutable "true"' in answer.text for path, answer in found.items()
        } == lasting
        assert {"private" in answer.headers["Cache-Control"] for answer in found.values()} == {tokens is not None}


def test_declared_documents_are_served(tmp_path: Path) -> None:
    (tmp_path / "schema.ttl").write_text("@prefix ex: <http://v/> .\nex:Fire a <http://www.w3.org/2002/07/owl#Class> .\n")
    (tmp_path / "shape.ttl").write_text("<> a <http://www.w3.org/ns/shacl#NodeShape> .\n")
    about = About("Fires", None, DocumentReference(path=str(tmp_path / "schema.ttl")), DocumentReference(path=str(tmp_path / "shape.ttl")))
    with published(about=about, base="https://data.example/fire/") as served:
        (tmp_path / "schema.ttl").unlink()  # what was read at the start is served
        assert "ex:Fire" in served.get("tbox").text
        assert quads(served, "tbox", "application/n-triples") == quads(served, "tbox", "application/ld+json")
        (shape,) = quads(served, "shape", "application/n-triples")
        assert shape.startswith("<https://data.example/fire/shape> ")
        assert "tree:shape <https://data.example/fire/shape>" in served.get("").text
        assert "tree:shape <https://data.example/fire/shape>" in served.get("ldes").text


def test_documents_elsewhere_are_named_and_not_fetched() -> None:
    about = About("Fires", None, DocumentReference(iri="http://v.example/onto"), DocumentReference(iri="http://v.example/shape"))
    with published(about=about) as served:
        assert "sld:tBoxLocation <http://v.example/onto>" in served.get("").text
        answers = [served.get(path) for path in ("tbox", "shape")]
        assert [(answer.status, answer.headers["Location"]) for answer in answers] == [
            (303, "http://v.example/onto"),
            (303, "http://v.example/shape"),
        ]


def test_vocabulary_is_there_and_empty_where_nothing_is_said(fires: PublishedTest) -> None:
    assert fires.get("tbox").body == b""
    assert json.loads(fires.get("tbox", "application/ld+json").body) == []
    assert fires.get("shape").status == 404


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("none.ttl", None, "no such file"),
        ("a.ttl", "<a", "is no Turtle"),
        ("a.docx", "x", "no RDF syntax is known"),
        ("a.ttl.gz", "x", "gzip"),
        ("a.jsonld", "[" * 100_000, "nested"),
    ],
)
def test_unreadable_document_is_refused_at_the_start(tmp_path: Path, name: str, content: str | None, reason: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with (
        pytest.raises(Refused, match=reason) as refused,
        published(about=About("Fires", tbox=DocumentReference(path=str(tmp_path / name)))),
    ):
        pass
    (problem,) = refused.value.diagnostics
    assert problem.code == "C301"
    assert problem.hint


def test_check_tells_the_place_of_an_unreadable_document(tmp_path: Path) -> None:
    (tmp_path / "schema.ttl").write_text("<a> <b>")
    config = tmp_path / "a.yaml"
    config.write_text(
        "name: a\nrules: [a.dotr]\ninput: [{ name: s, format: ndjson, path: s.ndjson }]\n"
        'output: [{ serve: { listen: "127.0.0.1:8080", about: { tbox: schema.ttl } } }]\n'
    )
    (tmp_path / "a.dotr").write_text("")
    (problem,) = [str(each) for each in check([str(config)]).diagnostics if "schema.ttl is no Turtle" in str(each)]
    assert "a.yaml:4:62: C301" in problem
