"""Elements that wait in the state of the first operator, and packed rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark")

from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.runtimes.frames.events import frame_job
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics
from tests.support import frame_operators
from tests.support.frame_operators import FrameRun, InputGraph, InputRow, rows_of, sources_of_graphs

pytestmark = pytest.mark.core

SECOND = 1_000_000
RULE = 'PREFIX : <http://e/> rule R "" define Seen = [ [] a :Seen ; :v ?v ] from T = [ SELECT ?v WHERE { ?r :v ?v } ] with Seen.?v = T.?v'
LAST = RULE.replace("from T =", "from S = [ SELECT ?v WHERE { ?r :v ?v } ] and last T =").replace(" with", " within 9 s from S with")


def graph(time: int, value: int) -> InputGraph:
    return InputGraph(time * SECOND, "in", f"<urn:r> <http://e/v> {value} .")


@pytest.mark.parametrize("order", ["in order", "spread over the lateness"])
def test_state_calls_grow_with_elements_alone(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lateness of hundreds of batches: each element moves a few times, whatever waits beside it."""
    program, chance, lateness, batches = compile_program(ProgramSpec((Document("r.dotr", RULE),))), random.Random(7), 200, 600
    late = [0 if order == "in order" or number < lateness else chance.randrange(lateness) for number in range(batches)]
    graphs = [graph(number - late[number], number) for number in range(batches)]
    sources = sources_of_graphs(program, graphs, lateness * SECOND)
    calls: Counter[str] = Counter()

    def count(name: str) -> None:
        call = getattr(frame_operators._Map, name)

        def counted(self: Any, *given: Any) -> Any:
            calls[name] += 1
            return call(self, *given)

        monkeypatch.setattr(frame_operators._Map, name, counted)

    for each in ("getValue", "updateValue", "removeKey"):
        count(each)
    run = FrameRun(program, sources, 1, repeated=0.0)
    found = [run.batch(rows) for rows in [*([row] for row in rows_of(sources, graphs)), []]]
    assert sum(len(each.firings) for each in found) == sum(each.time < run.watermark * 1_000 for each in graphs) > 300
    assert calls["updateValue"] <= 5 * batches, calls
    assert calls["getValue"] == calls["removeKey"] <= calls["updateValue"]


def test_rows_without_a_time_or_a_graph_are_dead_letters_with_their_text() -> None:
    program = compile_program(ProgramSpec((Document("r.dotr", RULE),)))
    sources = sources_of_graphs(program, [graph(1, 1)])
    found = FrameRun(program, sources, is_batch=True).batch(
        [
            InputRow(0, None, "<urn:r> a <urn:é> ."),
            InputRow(0, SECOND, None),
            InputRow(0, SECOND, "<urn:r> a"),
            *rows_of(sources, [graph(2, 3)]),
        ]
    )
    assert len(found.firings) == 1
    assert sorted((each.time or 0, each.reason, each.text, each.why.partition(":")[0]) for each in found.letters)[:2] == [
        (0, Reason.UNREADABLE, "<urn:r> a <urn:é> .", "its time is NULL or out of range"),
        (SECOND, Reason.UNREADABLE, "", "its graph is NULL"),
    ]
    assert [each.text for each in found.letters if each.text == "<urn:r> a"] == ["<urn:r> a"]


def test_state_of_other_rules_is_refused() -> None:
    programs = [
        compile_program(ProgramSpec((Document("r.dotr", text),))) for text in (LAST, LAST.replace("9 s", "8 s"), LAST + " # the same")
    ]
    sources = sources_of_graphs(programs[0], [graph(1, 1)])
    digests = [frame_job(program, sources, 2)[1] for program in programs]
    assert digests[0] == digests[2] != digests[1]
    before = FrameRun(programs[0], sources, 1)
    before.batch(rows_of(sources, [graph(1, 1), graph(2, 2)]))
    changed = FrameRun(programs[1], sources, 1)
    changed.continue_from(before)
    with pytest.raises(CarriedDiagnostics, match="C296 the checkpoint has the state of other rules"):
        changed.batch(rows_of(sources, [graph(3, 3)]))
    same = FrameRun(programs[2], sources, 1)
    same.continue_from(before)
    assert same.batch(rows_of(sources, [graph(3, 3)])).letters == []
