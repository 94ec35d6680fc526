"""The formats of the output stream conform to interface.md."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from dotr.model.stream import Firing, output_order
from dotr.model.time import Clock, Unit
from dotr.streams.formats.writing import StreamFormat, compile_writer

pytestmark = pytest.mark.core

FIRE = Firing(
    1_406_879_400_000_000,
    "R",
    "Fire",
    (("room", "<http://e/roomA>"), ("said", '"\\"é\\"\\n"@en')),
    (("<urn:dotr:1>", "<http://e/at>", "<http://e/roomA>"), ("<urn:dotr:1>", "<http://e/said>", '"\\"é\\"\\n"@en')),
    0,
)
EMPTY = Firing(1_406_879_400_500_000, "S", "Nothing", (), (), 2)


def test_an_ndjson_line() -> None:
    (line,) = compile_writer(StreamFormat.NDJSON, Clock())([FIRE])
    assert line.endswith("}\n")
    assert list(json.loads(line).items()) == [
        ("time", 1_406_879_400),
        ("rule", "R"),
        ("event", "Fire"),
        ("attributes", {"room": "<http://e/roomA>", "said": '"\\"é\\"\\n"@en'}),
        ("graph", '<urn:dotr:1> <http://e/at> <http://e/roomA> .\n<urn:dotr:1> <http://e/said> "\\"é\\"\\n"@en .'),
    ]


def test_times_follow_the_clock() -> None:
    def times(clock: Clock) -> list[object]:
        return [json.loads(line)["time"] for line in compile_writer(StreamFormat.NDJSON, clock)([FIRE, EMPTY])]

    assert times(Clock(dated=True)) == ["2014-08-01T07:50:00Z", "2014-08-01T07:50:00.5Z"]
    assert times(Clock(Unit.MILLISECOND)) == [1_406_879_400_000, 1_406_879_400_500]
    assert times(Clock()) == [1_406_879_400, "2014-08-01T07:50:00.5Z"]


def test_trig_and_nquads_hold_the_same_quads() -> None:
    texts = {
        form: "".join(compile_writer(form, Clock(dated=True))([FIRE, EMPTY, EMPTY])) for form in (StreamFormat.TRIG, StreamFormat.NQUADS)
    }
    quads = set(parse(texts[StreamFormat.TRIG], RdfFormat.TRIG))
    assert quads == set(parse(texts[StreamFormat.NQUADS], RdfFormat.N_QUADS))
    named = [str(quad.graph_name) for quad in quads if str(quad.graph_name) != "DEFAULT"]
    times = {str(quad.subject): str(quad.object) for quad in quads if str(quad.predicate) == "<http://www.w3.org/ns/prov#generatedAtTime>"}
    rules = {str(quad.subject): str(quad.object) for quad in quads if str(quad.predicate) == "<http://www.w3.org/ns/prov#wasGeneratedBy>"}
    assert len(quads) == 8
    assert rules.keys() == times.keys()
    assert sorted(rules.values()) == ["<urn:dotr:rule:R>", "<urn:dotr:rule:S>", "<urn:dotr:rule:S>"]
    assert len(times) == 3, "equal firings are different graphs"
    assert len(set(named) & set(times)) == 1


def test_output_order_is_time_then_rule_then_attributes() -> None:
    early, other = FIRE._replace(time=1, rule="Z"), FIRE._replace(attributes=())
    assert sorted([EMPTY, FIRE, other, early], key=output_order) == [early, other, FIRE, EMPTY]


def trig(firings: list[Firing], prefixes: dict[str, str]) -> str:
    return "".join(compile_writer(StreamFormat.TRIG, Clock(), (), prefixes)(firings))


def test_trig_begins_with_the_prefixes_that_turtle_allows() -> None:
    prefixes = {
        "b": "http://e/b#",
        "": "http://e/",
        "x.": "http://e/x",
        "bad": "http://e/ ",
        "worse": "http://e/%x",
        "prov": "http://e/prov#",
    }
    text = trig([FIRE], prefixes)
    assert [line for line in text.splitlines() if line.startswith("@")] == [
        "@prefix : <http://e/> .",
        "@prefix b: <http://e/b#> .",
        "@prefix prov: <http://e/prov#> .",
        "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .",
    ]
    assert " <http://www.w3.org/ns/prov#generatedAtTime> " in text
    assert set(parse(text, RdfFormat.TRIG)) == set(parse(trig([FIRE], {}), RdfFormat.TRIG))
    write = compile_writer(StreamFormat.TRIG, Clock(), (), prefixes)
    assert write([]) == []
    assert "".join([*write([FIRE]), *write([EMPTY])]) == trig([FIRE, EMPTY], prefixes)


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "a", "b-c", "prov"]), st.sampled_from(["http://e/", "http://e/a#", "http://e/a", "urn:x:"])),
        max_size=4,
    ),
    st.lists(st.from_regex("[ae/._1:é-]{0,5}(#[ae._1-]{0,4})?", fullmatch=True), min_size=1, max_size=4),
    st.text(max_size=4),
)
def test_trig_with_prefixes_reads_back_as_the_same_quads(pairs: list[tuple[str, str]], names: list[str], text: str) -> None:
    iris = [str(NamedNode(f"http://e/{name}")) for name in names] + [f"<urn:x:{number}>" for number in range(2)]
    literals = [str(Literal(text)), str(Literal(text, language="en")), str(Literal("5", datatype=NamedNode("http://e/a#5")))]
    graph = tuple((subject, iris[0], value) for subject in iris for value in (*iris, *literals, "_:b1"))
    firing = Firing(1, f"R {text}", "E", (), graph, 0)
    prefixed = trig([firing], dict(pairs))
    nquads = "".join(compile_writer(StreamFormat.NQUADS, Clock())([firing]))
    assert {str(quad) for quad in parse(prefixed, RdfFormat.TRIG)} == {str(quad) for quad in parse(nquads, RdfFormat.N_QUADS)}
