"""Routes of events to buckets: by a key, by values and time, to every bucket."""

from __future__ import annotations

import pytest

from dotr.engine import router
from dotr.engine.program import CompiledProgram
from dotr.engine.router import bucket_of, own_test
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.terms import XSD, literal

pytestmark = pytest.mark.core

HEADER = """PREFIX : <http://e/>
query A = [ SELECT ?k ?v WHERE { ?x a :A ; :k ?k ; :v ?v } ]
query B = [ SELECT ?k ?v WHERE { ?x a :B ; :k ?k ; :v ?v } ]
"""


def program(*bodies: str) -> CompiledProgram:
    rules = [f"rule R{number} define E{number} = [ [] a :E ] {body}\n" for number, body in enumerate(bodies)]
    return compile_program(ProgramSpec((Document("r.dotr", HEADER + "".join(rules)),), cut=True))


def number(value: int) -> str:
    return literal(str(value), XSD + "integer")


def replicated(made: CompiledProgram) -> int:
    (layer,) = made.layout.layers
    (port,) = (port for port, each in enumerate(layer.ports) if each.is_replicated)
    return port


def passing(made: CompiledProgram) -> list[int]:
    """The values of B from 0 to 9 that are delivered, the same to each of three buckets."""
    (layer,) = made.layout.layers
    port = replicated(made)
    stream = layer.ports[port].stream
    assert isinstance(stream, int)
    (deliveries,) = made.router(3).facts({stream: [(number(0), number(value)) for value in range(10)]}, 5)
    if not deliveries:
        return []
    first = deliveries[0][port]
    assert {bucket: ports[port] for bucket, ports in deliveries.items()} == dict.fromkeys(range(3), first)
    return [ordinal for ordinal, _ in first]


def test_replicated_events_satisfy_the_constraints_of_some_role() -> None:
    """The ordinal of an event is its position among all facts, those included that are dropped."""
    above = "from A and last B [ FILTER(?v > {}) ] within 5 s from A"
    assert passing(program("from A and last B [ FILTER(?v < A.?v) ] within 5 s from A")) == list(range(10))
    assert passing(program(above.format(6))) == [7, 8, 9]
    assert passing(program(above.format(6), "from A and not B [ FILTER(?v = 2 && ?k = 0 && ?v < A.?v) ] within 9 s from A")) == [2, 7, 8, 9]
    assert passing(program(above.format(6), "from A and first B within 9 s from A")) == list(range(10))
    assert passing(program("from A and last B [ FILTER(?v > 10) ] within 5 s from A")) == []


@pytest.mark.parametrize("rules", [16, 17])
def test_many_roles_are_tested_by_a_condition_that_each_implies(rules: int) -> None:
    bodies = [f"from A and last B [ FILTER(?v > {3 + least % 5} && ?v != {least}) ] within 5 s from A" for least in range(rules)]
    assert passing(program(*bodies)) == list(range(4, 10))
    different = [f"from A and last B [ FILTER(?v {'<>'[least % 2]} {least}) ] within {least + 1} s from A" for least in range(rules)]
    made = program(*different)
    assert (own_test(made.layout.layers[0], replicated(made)) is None) == (rules > router._MOST_CONDITIONS)


def test_anchors_are_spread_by_values_and_time_and_ticks_by_values() -> None:
    (layer,) = program("from A and last B within 5 s from A", "from A").layout.layers
    (by_both,) = (port for port in layer.ports if port.by_time)
    (by_values,) = (port for port in layer.ports if port.spread and not port.by_time)
    values = (number(1), number(2))
    assert {bucket_of(by_both, values, 8, time) for time in range(50)} == set(range(8))
    assert {bucket_of(by_values, values, 8, time) for time in range(50)} == {bucket_of(by_both, values, 8, None)}
