"""The formats of the output stream conform to interface.md."""

from __future__ import annotations

import json

import pytest
from pyoxigraph import RdfFormat, parse

from dotr.model.stream import Firing
from dotr.model.time import Clock, Unit
from dotr.outputs import StreamFormat, compile_writer, output_order

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
    assert len(quads) == 5
    assert len(times) == 3, "equal firings are different graphs"
    assert len(set(named) & set(times)) == 1


def test_output_order_is_time_then_rule_then_attributes() -> None:
    early, other = FIRE._replace(time=1, rule="Z"), FIRE._replace(attributes=())
    assert sorted([EMPTY, FIRE, other, early], key=output_order) == [early, other, FIRE, EMPTY]
