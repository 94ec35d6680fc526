"""Gaps between instants: what a unit skips there, its dead letter, and what it passes over, in process and in buckets as on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dotr.engine.driver import Engine
from dotr.engine.gaps import Gap, least_length
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import Limits
from dotr.languages.programs import compile_program
from dotr.model.calendars import calendar_of
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, FedGraph, Firing
from dotr.model.time import Clock
from dotr.syntax.turtle.graphs import read_graph
from tests.support.layered_batches import LayeredRun

pytestmark = pytest.mark.core

PREFIXES = {"": "http://e/"}
SECOND = 1_000_000
YEAR = 31_557_600 * SECOND
FIRST, LAST = 1 * YEAR, 300 * YEAR
QUERY = """PREFIX : <http://e/>
REGISTER {relation} Q AS SELECT {what} FROM NAMED WINDOW <w> ON <in> [{window}] WHERE {{ WINDOW <w> {{ ?x :v ?v }} }}"""


def spec(*texts: tuple[str, str], gap: int = 1_000_000) -> ProgramSpec:
    return ProgramSpec(tuple(Document(name, text) for name, text in texts), prefixes=PREFIXES, limits=Limits(gap=gap))


def query(window: str, what: str = "*", relation: str = "RSTREAM") -> tuple[str, str]:
    return "q.rspql", QUERY.format(window=window, what=what, relation=relation)


def lars(text: str) -> tuple[str, str]:
    return "f.lars", f"PREFIX : <http://e/> {text}"


def in_process(program: CompiledProgram, times: Sequence[int]) -> tuple[list[Firing], list[DeadLetter]]:
    engine = Engine(program, Clock())
    firings: list[Firing] = []
    for time in times:
        firings += engine.step(time, [graph(time)])[0]
    firings += [firing for moment in engine.finish() for firing in moment]
    return firings, engine.failed


def graph(time: int) -> FedGraph:
    return FedGraph.on("in", read_graph(f":x :v {time // SECOND} .", PREFIXES, 64))


def run(program: ProgramSpec, *times: int, cuts: Sequence[int] = ()) -> tuple[list[str], list[str]]:
    """The events and dead letters of one element at each time, in µs, after a check that buckets in batches give the same."""
    firings, letters = in_process(compile_program(program), times)
    for buckets, every in ((1, len(times)), (2, 1), (3, 2)):
        layered = LayeredRun(program, buckets)
        instants = [(time, [graph(time)]) for time in times]
        found: list[Firing] = []
        for start in range(0, len(times), every):
            end = start + every
            last = (1 << 62) - (not program.fires_at_end)
            found += layered.batch(instants[start:end], instants[end][0] - 1 if end < len(times) else last)
        assert [shown(each) for each in found] == [shown(each) for each in firings]
        assert sorted(layered.letters) == sorted(letters)
    assert not [letter for letter in letters if letter.reason.value != "gap"]
    return [shown(each) for each in firings], sorted(letter.why for letter in letters)


def shown(firing: Firing) -> str:
    when = format_time(firing.time, Clock())
    values = " ".join(value.split("^^")[0].strip('"<>').removeprefix("http://e/") for _, value in firing.attributes)
    return f"{when} {firing.event} {values}".strip()


COUNT = "(COUNT(*) AS ?n)"


def too_many(unit: str, number: int, after: int | str, before: int | str, most: int = 1_000_000) -> str:
    return f"{unit} would act {number:,} times between {after} and {before}, and may {most:,} times (limits.gap): none of it happens"


def test_query_without_rows_over_empty_windows_passes_over_them() -> None:
    first, last = FIRST // SECOND, LAST // SECOND
    for policy in ("REPORT ON WINDOW CLOSE", "", "REPORT PERIODIC 1s", "REPORT ON WINDOW CLOSE AND CONTENT CHANGE"):
        for relation, after in (("RSTREAM", (0, 1)), ("ISTREAM", (0,)), ("DSTREAM", (2,))):
            if relation == "DSTREAM" and policy in ("", "REPORT PERIODIC 1s"):
                continue
            if relation == "RSTREAM" and "CHANGE" in policy:
                after = (0,)
            events, letters = run(spec(query(f"RANGE 2s STEP 1s {policy}", relation=relation)), FIRST, LAST)
            assert events == [f"{time + late} Q {time} x" for time in (first, last) for late in after], (policy, relation)
            assert letters == []


def test_reports_in_a_gap_are_skipped_when_they_are_too_many() -> None:
    first, last = FIRST // SECOND, LAST // SECOND
    events, letters = run(spec(query("RANGE 10s STEP 5s REPORT ON WINDOW CLOSE", COUNT)), FIRST, LAST)
    assert letters == [too_many("Q", (last - first) // 5 - 1, first, last)]
    assert events == [f"{first} Q 1", f"{last} Q 1", f"{last + 5} Q 1", f"{last + 10} Q 0"]


def test_what_ended_in_a_gap_has_ended_at_the_next_report() -> None:
    events, letters = run(spec(query("RANGE 10s STEP 5s REPORT ON WINDOW CLOSE", COUNT, "DSTREAM"), gap=1), 5 * SECOND, 25 * SECOND)
    assert letters == [too_many("Q", 2, 5, 25, 1)]
    assert events == ["35 Q 1"]


def test_gap_has_as_many_reports_as_the_limit() -> None:
    program = query("RANGE 10s STEP 5s REPORT ON WINDOW CLOSE", COUNT)
    events, letters = run(spec(program, gap=3), 5 * SECOND, 25 * SECOND)
    assert events == ["5 Q 1", "10 Q 1", "15 Q 0", "20 Q 0", "25 Q 1", "30 Q 1", "35 Q 0"]
    assert letters == []
    events, letters = run(spec(program, gap=2), 5 * SECOND, 25 * SECOND, 31 * SECOND)
    assert events == ["5 Q 1", "25 Q 1", "30 Q 1", "35 Q 1", "40 Q 1", "45 Q 0"]
    assert letters == [too_many("Q", 3, 5, 25, 2)]


def test_reports_that_repeat_rows_without_end_are_skipped() -> None:
    events, letters = run(spec(query("LANDMARK STEP 1us LIMIT 9")), FIRST, LAST)
    first, last = FIRST // SECOND, LAST // SECOND
    assert letters == [too_many("Q", LAST - FIRST - 1, first, last)]
    assert events == [f"{first} Q {first} x", f"{last} Q {first} x", f"{last} Q {last} x"]


def test_reports_after_the_last_instant_are_skipped_when_they_are_too_many() -> None:
    events, letters = run(spec(query("RANGE 1h STEP 1us REPORT ON WINDOW CLOSE", COUNT)), 0, 20)
    assert letters == [too_many("Q", 3_600_000_000 - 1, "1970-01-01T00:00:00.00002Z", "1970-01-01T01:00:00.00002Z")]
    assert len(events) == 22


def test_ticks_in_a_gap_are_skipped_rule_by_rule() -> None:
    rules = """PREFIX : <http://e/>
rule Fast define Fast = [] from every 2 s as T
rule Slow define Slow = [] from every 5 s as T
rule Also define Also = [] from every 2 s as T
"""
    events, letters = run(spec(("r.dotr", rules), gap=3), 1 * SECOND, 10 * SECOND, 15 * SECOND)
    assert events == ["5 Slow", "10 Also", "10 Fast", "10 Slow", "12 Also", "12 Fast", "14 Also", "14 Fast", "15 Slow"]
    assert letters == [too_many("Also", 4, 1, 10, 3), too_many("Fast", 4, 1, 10, 3)]
    events, letters = run(spec(("r.dotr", rules)), FIRST, LAST)
    assert len(events) == 6
    assert len(letters) == 3


def test_delayed_anchors_in_a_gap_are_not_skipped() -> None:
    rules = """PREFIX : <http://e/>
rule Late # dotr: allow D321 (all of them count)
define Late = [ :l :late 1 ] from A = [ SELECT ?x { ?x :v ?v } ] delayed by 4 s
rule Tick define Tick = [] from every 1 s as T
"""
    counted = "PREFIX : <http://e/> REGISTER RSTREAM N AS SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW <w> ON <Late> "
    counted += "[RANGE 2s STEP 1s REPORT ON WINDOW CLOSE] { WINDOW <w> { ?x :late ?y } }"
    events, letters = run(spec(("r.dotr", rules), ("q.rspql", counted), gap=5), 1 * SECOND, 20 * SECOND)
    assert letters == [too_many("N", 18, 1, 20, 5), too_many("Tick", 18, 1, 20, 5)]
    assert events == [
        "1 N 0",
        "1 Tick",
        "5 Late",
        "20 N 0",
        "20 Tick",
        "21 N 0",
        "22 N 0",
        "23 N 0",
        "24 Late",
        "24 N 1",
        "25 N 1",
        "26 N 0",
    ]


def test_point_in_a_gap_of_a_file_whose_reports_repeat_rows_is_skipped() -> None:
    first, last = FIRST // SECOND, LAST // SECOND
    text = "Quiet :- NOT :p(:x, 2) IN [5 s] . REPORT ALL Quiet . Seen(?v) :- :v(:x, ?v) IN [5 s] . REPORT ENDED Seen(?v) AS Gone ."
    events, letters = run(spec(lars(text)), FIRST, LAST)
    assert letters == [too_many("f.lars", last - first - 1, first, last)]
    assert events == [f"{first} Quiet", f"{last} Gone {first}", f"{last} Quiet"]


def test_point_without_rows_is_passed_over() -> None:
    first, last = FIRST // SECOND, LAST // SECOND
    events, letters = run(spec(lars("Seen(?v) :- :v(:x, ?v) IN [2 s] . REPORT ALL Seen(?v) .")), FIRST, LAST)
    assert letters == []
    assert events == [f"{first + late} Seen {first}" for late in range(3)] + [f"{last} Seen {last}"]


def test_point_of_an_instant_is_no_part_of_a_gap() -> None:
    text = "RESOLUTION 10 s . Seen(?v) :- :v(:x, ?v) IN [20 s] . REPORT ALL Seen(?v) . REPORT ENDED Seen(?v) AS Gone ."
    events, letters = run(spec(lars(text), gap=1), 5 * SECOND, 45 * SECOND)
    assert letters == [too_many("f.lars", 2, 5, 45, 1)]
    assert events == ["10 Seen 5", "50 Gone 5", "50 Seen 45"]


def test_tiny_points_over_an_hour_end() -> None:
    text = "RESOLUTION 1 us . Seen(?v) :- :v(:x, ?v) IN [1 h] . REPORT NEW Seen(?v) . REPORT ENDED Seen(?v) AS Gone ."
    events, letters = run(spec(lars(text)), 0, 7200 * SECOND)
    assert letters == []
    assert events == ["0 Seen 0", "1970-01-01T01:00:00.000001Z Gone 0", "7200 Seen 7200"]
    events, letters = run(spec(lars(text.replace("NEW", "ALL"))), 0, 7200 * SECOND)
    assert len(letters) == 1
    assert events == ["0 Seen 0", "7200 Gone 0", "7200 Seen 7200"]


def test_file_that_evaluates_every_point_skips_them() -> None:
    text = "Was(?v, ?t) :- :v(:x, ?v) AT ?t IN [2 s] . Both(?v) :- Was(?v, ?t), Now(?v) AT ?t IN [3 s] . Now(?v) :- :v(:x, ?v) IN [1 s] ."
    first, last = FIRST // SECOND, LAST // SECOND
    events, letters = run(spec(lars(text + " REPORT NEW Both(?v) . REPORT ENDED Both(?v) AS Gone .")), FIRST, LAST)
    assert letters == [too_many("f.lars", last - first - 1, first, last)]
    assert events == [f"{first} Both {first}", f"{last} Both {last}", f"{last} Gone {first}"]


LATE = """PREFIX : <http://e/>
rule Late # dotr: allow D321 (all of them count)
define Late = [ :l :of ?x ] from A = [ SELECT ?x { ?x :v ?v } ] delayed by 1000 h with Late.?x = A.?x
rule Never # dotr: allow D321 (all of them count)
define Late = [ :l :of ?x ] from A = [ SELECT ?x { ?x :v ?v } ] delayed by 1001 h if A.?x = 1 with Late.?x = A.?x
"""
OF_LATE = """PREFIX : <http://e/>
REGISTER {relation} Q AS SELECT {what}
FROM NAMED WINDOW <w> ON <Late> [RANGE 2s STEP 1s REPORT ON WINDOW CLOSE] {{ WINDOW <w> {{ ?x :of ?y }} }}"""


def test_query_waits_for_a_delayed_anchor_without_reporting() -> None:
    late = 1 + 3_600_000
    program = ("r.dotr", LATE), ("q.rspql", OF_LATE.format(relation="DSTREAM", what="?y"))
    assert run(spec(*program, gap=10), SECOND) == ([f"{late} Late x", f"{late + 2} Q x"], [])


def test_reports_while_a_query_waits_are_bounded() -> None:
    late, end = 1 + 3_600_000, 1 + 3_603_600
    program = ("r.dotr", LATE), ("q.rspql", OF_LATE.format(relation="RSTREAM", what=COUNT))
    events, letters = run(spec(*program, gap=3), SECOND)
    after = [f"{late + time} Q {int(time < 2)}" for time in range(5)]
    assert events == [*(f"{time} Q 0" for time in range(1, 6)), f"{late} Late x", *after, f"{end} Q 0"]
    assert letters == [too_many("Q", end - late - 5, late + 4, end, 3), too_many("Q", late - 6, 5, late, 3)]


TICKS = """PREFIX : <http://e/>
query A = [ SELECT ?v WHERE { ?x :v ?v } ]
# dotr: allow D321 (all of them count)
define Late = [ [] :v ?v ] from A delayed by 5 s and ?n = count(*) of A as Before within 10 s from A with Late.?v = ?n
# dotr: allow D321 (all of them count)
define Beat = [ [] :n ?n ] from every 2 s as T and ?n = count(*) of A within 3 s from T with Beat.?n = ?n"""


def test_program_that_leaves_at_the_end_does_nothing_after_the_last_instant() -> None:
    """Its events are those up to the last instant, at which what is due still comes."""
    units = [
        ("r.dotr", TICKS),
        query("RANGE 4s STEP 2s", COUNT),
        lars("Seen(?v) :- :v(?x, ?v) IN [3 s] . REPORT ALL Seen(?v) . REPORT ENDED Seen(?v) AS Gone ."),
    ]
    times = [second * SECOND for second in (2, 4, 7, 9, 30, 31)]
    for number in range(1, len(times) + 1):
        fires, letters = run(spec(*units), *times[:number])
        left, left_letters = run(replace(spec(*units), fires_at_end=False), *times[:number])
        assert left == [each for each in fires if int(each.split()[0]) * SECOND <= times[number - 1]]
        assert len(left) < len(fires)
        assert left_letters == letters == []


def test_a_gap_counts_the_ticks_of_a_calendar() -> None:
    """From 1970-01-01T00:00Z to 1971 there are 365 days in Berlin, of which one tick is at the beginning of each but the first."""
    days, year = calendar_of("day", None, "Europe/Berlin"), 365 * 86_400_000_000
    assert [Gap(0, year).ticks(days), Gap(0, year).ticks(days), Gap(-1, 0).ticks(days)] == [365, 365, 0]
    assert least_length(days, 1) == 0
