"""Recordings of runs in process: what is written, and that reading them gives the same events, whatever reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dotr import Event, Program
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.time import Unit
from dotr.runtimes.pipeline.inputs import recording_file
from dotr.streams.merge.recordings import RecordingReader
from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
rule Left
define Left = [ dotr_id a :Left ; :of ?s ; :by [ :is ?s ] ]
from R = [ SELECT ?s WHERE { ?s :temp ?v } ] delayed by 5 s
and not N = [ SELECT ?s WHERE { ?s :temp ?v FILTER(?s = R.?s) } ] within [0, 5 s) from R
with Left.?s = R.?s
rule Tick
define Tick = [ [] :n ?n ]
from every 4 s as T
and ?n = count(R.?s) of R = [ SELECT ?s WHERE { ?s :temp ?v } ] within 8 s from T
with Tick.?n = ?n
"""
QUERY = """\
PREFIX : <http://e/>
REGISTER RSTREAM <Count> AS
SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <fed> [RANGE 6s STEP 3s]
WHERE { WINDOW <w> { ?s :temp ?v } }
"""
LARS = """\
PREFIX : <http://e/>
Seen(?s) :- :temp(?s, ?v) IN [4 s] .
REPORT Seen(?s) .
REPORT ENDED Seen(?s) AS Silent .
"""
CHAIN = """\
PREFIX : <http://e/>
REGISTER QUERY Twice AS SELECT ?s WHERE { ?s :temp ?a } SEQ { ?s :high ?b } WITHIN 7 s
"""
CONFIG = """\
name: small
prefixes: { "": "http://e/" }
rules: [r.dotr, q.rspql, l.lars]
input: [{ name: a, stream: fed, format: ndjson, path: a.ndjson }]
output: [{ path: out.ndjson }]
dead_letter: dead.ndjson
engine: local
"""


@pytest.fixture
def recorded(project: Project) -> Project:
    for name, text in (("r.dotr", RULES), ("q.rspql", QUERY), ("l.lars", LARS), ("c.yaml", CONFIG)):
        project.write(name, text)
    project.write("a.ndjson", "".join(f'{{"time": {at}, "graph": ":s{at % 2} :temp {at} . [] :x [] ."}}\n' for at in (1, 2, 2, 9, 20)))
    return project


def lines(project: Project, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in project.read(name).splitlines()]


def test_a_run_is_recorded_and_repeated(recorded: Project) -> None:
    recorded.write("c.yaml", CONFIG + "record: out/run.ndjson\n")
    assert recorded.dotr("run", "c.yaml", "--quiet").code == 0
    written = lines(recorded, "out/run.ndjson")
    graph = '<http://e/s1> <http://e/temp> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n_:0 <http://e/x> _:1 .'
    assert written[0] == {"time": 1, "input": "a", "stream": "fed", "graph": graph}
    assert [each["time"] for each in written] == [1, 2, 2, 9, 20, 20]
    assert written[-1] == {"time": 20, "end": True}
    (recorded.folder / "a.ndjson").unlink()  # a recording stands for all inputs
    again = ["--recording", "out/run.ndjson", "--quiet", "--set", "output.0.path=again.ndjson", "--set", "dead_letter=dead2.ndjson"]
    assert recorded.dotr("run", "c.yaml", *again).code == 0
    assert recorded.read("again.ndjson") == recorded.read("out.ndjson")
    assert lines(recorded, "out.ndjson")


def test_an_input_of_the_format_recording(recorded: Project) -> None:
    recorded.write("c.yaml", CONFIG + "record: out/run.ndjson\n")
    assert recorded.dotr("run", "c.yaml", "--quiet").code == 0
    recorded.write(
        "d.yaml",
        CONFIG.replace("stream: fed, format: ndjson, path: a.ndjson", "format: recording, path: out/run.ndjson").replace("out.nd", "o2.nd"),
    )
    answer = recorded.dotr("run", "d.yaml", "--quiet", "--fresh")
    assert answer.code == 0, answer
    assert recorded.read("o2.ndjson") == recorded.read("out.ndjson")


HEARTBEATS = """\
{"time": 2}
{"time": 3, "input": "a", "stream": "fed", "graph": "<http://e/s> <http://e/temp> 1 ."}
{"time": 8}
{"time": 13}
"""


def test_heartbeats_fire_what_is_due_and_a_stopped_run_leaves_the_rest(recorded: Project) -> None:
    recorded.write("run.ndjson", HEARTBEATS)
    assert recorded.dotr("run", "c.yaml", "--recording", "run.ndjson", "--quiet").code == 0
    fired = [(each["time"], each["rule"]) for each in lines(recorded, "out.ndjson")]
    assert fired == [(3, "Count"), (3, "Seen"), (4, "Tick"), (6, "Count"), (8, "Left"), (8, "Silent"), (8, "Tick"), (12, "Tick")]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('{"time": 1, "graph": ""}\n', 1, "it names no input"),
        ('{"time": 1}\n{"time": 0}\n', 2, "its time is before that of the line above"),
        ('{"time": 1}\n{"tim\n{"time": 2}\n', 2, "control character"),
        ('{"time": 1}\nsoon\n', 2, "Expecting value"),
    ],
)
def test_what_is_no_recording_is_told_with_its_line(project: Project, text: str, line: int, why: str) -> None:
    path = project.write("run.ndjson", text)
    with pytest.raises(Refused) as caught:
        list(RecordingReader(recording_file(str(path), Unit.SECOND), print).instants())
    assert f"I139 {path}:{line}: this is no line of a recording: " in str(caught.value)
    assert why.lower() in str(caught.value).lower()


def test_a_recording_cut_anywhere_is_read_up_to_the_line_before(recorded: Project) -> None:
    whole = HEARTBEATS.encode()
    for cut in range(1, len(whole)):
        path = recorded.write("run.ndjson", whole[:cut])
        warnings: list[Diagnostic] = []
        found = [time for time, _ in RecordingReader(recording_file(str(path), Unit.SECOND), warnings.append).instants()]
        complete = whole[:cut].count(b"\n")
        rest = whole[:cut].rpartition(b"\n")[2]
        readable = rest.endswith(b"}") and whole[cut : cut + 1] == b"\n"
        assert found == [2_000_000, 3_000_000, 8_000_000, 13_000_000][: complete + readable]
        assert [each.code for each in warnings] == (["I138"] if rest and not readable else [])


@pytest.mark.parametrize("time", ["3", '"2026-03-01T08:00:03Z"'])
def test_an_instant_of_which_a_line_is_cut_is_left_out(project: Project, time: str) -> None:
    """A run records all elements of an instant before it makes an event: of one that is not whole, no event was written."""
    lines = [f'{{"time": {time}, "input": "a", "stream": "a", "graph": "<http://e/s{n}> <http://e/temp> {n} ."}}\n' for n in range(3)]
    before = f'{{"time": {time.replace("3", "2")}}}\n'
    for complete in (1, 2):
        for length in range(1, len(lines[complete]) - 2):
            rest = lines[complete][:length]
            path = project.write("run.ndjson", "".join([before, *lines[:complete], rest]))
            told: list[Diagnostic] = []
            sizes = [len(found) for _, found in RecordingReader(recording_file(str(path), Unit.SECOND), told.append).instants()]
            assert sizes == ([0] if "," in rest else [0, complete])
            assert [each.code for each in told] == ["I138"]
            assert (f"({complete}) are left out" if "," in rest else "is not whole") in str(told[0].hint)


def test_a_change_of_the_program_is_told_once(project: Project) -> None:
    path = project.write("run.ndjson", '{"time": 1}\n{"time": 1, "reload": "c.yaml"}\n{"time": 2}\n')
    told: list[str] = []
    reader = RecordingReader(recording_file(str(path), Unit.SECOND), lambda each: told.append(each.message))
    assert [time for time, _ in reader.instants()] == [1_000_000, 2_000_000] == [time for time, _ in reader.instants()]
    assert told == [f"{path}:2: here the run read its program again (c.yaml)"]


def test_commands_read_a_recording(recorded: Project) -> None:
    recorded.write("run.ndjson", HEARTBEATS)
    (recorded.folder / "a.ndjson").unlink()
    option = ("--recording", "run.ndjson")
    assert "1 anchor" in recorded.dotr("why-not", "c.yaml", "--rule", "Left", *option).out
    assert "run.ndjson:2" in recorded.dotr("why", "c.yaml", "--rule", "Left", "--at", "8", *option).out
    facts = recorded.dotr("facts", "c.yaml", *option)
    assert facts.code == 0
    assert facts.out.startswith("3")
    compared = recorded.dotr("replay", "c.yaml", *option, "--set", "rules.1=r.dotr")
    assert "Left: the same 1" in compared.out, compared
    assert recorded.dotr("report", "c.yaml", *option).code == 0


def test_an_anchor_waits_up_to_the_last_line(recorded: Project) -> None:
    recorded.write("run.ndjson", "".join(HEARTBEATS.splitlines(keepends=True)[:2]) + '{"time": 4}\n')
    told = recorded.dotr("why-not", "c.yaml", "--rule", "Left", "--recording", "run.ndjson").out
    assert told.startswith("Left: 1 anchor waits until 8. All is closed up to 4.\n")


def test_the_own_recording_is_the_default_where_an_input_cannot_be_read_twice(recorded: Project) -> None:
    recorded.write("c.yaml", CONFIG.replace("a.ndjson", '"-"') + "record: run.ndjson\n")
    recorded.write("run.ndjson", HEARTBEATS)
    assert "1 anchor" in recorded.dotr("why-not", "c.yaml", "--rule", "Left").out
    assert "Left: the same 1" in recorded.dotr("replay", "c.yaml", "--set", "rules.1=r.dotr").out


def test_a_recording_in_a_rule_test(recorded: Project) -> None:
    recorded.write("run.ndjson", HEARTBEATS)
    recorded.write(
        "t.yaml",
        """\
rules: [r.dotr, l.lars, q.rspql]
prefixes: { "": "http://e/" }
events: [Left, Silent, Count]
cases:
  - name: recorded
    stream: { file: run.ndjson, format: recording }
    expect:
      - { at: 3, event: Count }
      - { at: 6, event: Count }
      - { at: 8, event: Left }
      - { at: 8, event: Silent }
  - name: listed
    stream:
      - { at: 2 }
      - { at: 8 }
      - { at: 3, stream: fed, graph: ":s :temp 1 ." }
      - { at: 3 }
      - { at: 13 }
    expect:
      - { at: 3, event: Count }
      - { at: 6, event: Count }
      - { at: 8, event: Left }
      - { at: 8, event: Silent }
""",
    )
    answer = recorded.dotr("test", "t.yaml")
    assert answer.code == 0, answer.out


def test_settings_that_a_recording_excludes(recorded: Project) -> None:
    recorded.write("run.ndjson", HEARTBEATS)
    told = recorded.refused("check", _config(recorded, "format: recording, path: run.ndjson, lateness: 1 s"))
    assert "C204 lateness was decided when the recording was written" in told
    told = recorded.refused("check", _config(recorded, "format: recording, path: run.ndjson }, { name: b, format: ndjson, path: a.ndjson"))
    assert "C204 a recording is one file, in place of all inputs" in told
    told = recorded.refused("check", _config(recorded, "format: recording, path: run.ndjson", "record: x.ndjson\n"))
    assert "C204 record is of a run, and a recording is read again" in told


def _config(project: Project, of_input: str, further: str = "") -> str:
    project.write("e.yaml", CONFIG.replace("stream: fed, format: ndjson, path: a.ndjson", of_input) + further)
    return "e.yaml"


def moves(seed: int) -> Iterator[tuple[int, list[str]]]:
    """Times with the graphs of an instant, or without one: a heartbeat."""
    draw = random.Random(seed)
    at = 0
    for _ in range(40):
        at += draw.choice((1, 1, 2, 3, 7))
        size = draw.choice((0, 0, 1, 1, 2))
        yield at, [f":s{draw.randrange(3)} {draw.choice((':temp', ':temp', ':high'))} {draw.randrange(3)} ." for _ in range(size)]


@pytest.mark.parametrize(("seed", "dated"), [(1, False), (2, True), (3, False), (4, True)])
def test_a_run_with_heartbeats_is_that_of_a_session(recorded: Project, seed: int, dated: bool) -> None:
    recorded.write("e.epsparql", CHAIN)
    recorded.write("c.yaml", CONFIG.replace("l.lars", "l.lars, e.epsparql"))
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    session = Program.from_config("c.yaml").session()
    events: list[Event] = []
    text: list[str] = []
    for at, graphs in moves(seed):
        time = begin + timedelta(seconds=at) if dated else at
        shown = time.isoformat() if isinstance(time, datetime) else time
        text += [json.dumps({"time": shown, "input": "a", "stream": "fed", "graph": f"@prefix : <http://e/> . {each}"}) for each in graphs]
        text += [] if graphs else [json.dumps({"time": shown})]
        events += session.advance(time, *graphs)
    if seed % 3:
        text.append(json.dumps({"time": shown, "end": True}))
        events += session.finish()
    recorded.write("run.ndjson", "\n".join([*text, ""]))
    assert recorded.dotr("run", "c.yaml", "--recording", "run.ndjson", "--quiet").code == 0
    found = [(each["rule"], each["attributes"], each["graph"]) for each in lines(recorded, "out.ndjson")]
    assert found == [(each.rule, dict(each.attributes), each.graph) for each in events]
    assert {"Left", "Tick", "Count", "Seen", "Silent", "Twice"} <= {each.rule for each in events}


def test_a_replay_at_a_pace_has_the_clock_of_its_first_time(recorded: Project) -> None:
    recorded.write("c.yaml", CONFIG.replace("path: a.ndjson", "path: a.ndjson, pace: 100") + "clock: 2 s\nrecord: run.ndjson\n")
    assert recorded.dotr("run", "c.yaml", "--quiet").code == 0
    written = lines(recorded, "run.ndjson")
    beats = [each["time"] for each in written if len(each) == 1]
    assert beats  # between 9 and 20 an event is due, and no element comes
    assert any("T00:00:1" in str(each) or "T00:00:07" in str(each) for each in beats)
    assert {(each["time"], each["rule"]) for each in lines(recorded, "out.ndjson")} >= {(6, "Left"), (14, "Left")}
    again = ["--recording", "run.ndjson", "--quiet", "--set", "output.0.path=again.ndjson", "--set", "dead_letter=dead2.ndjson"]
    assert recorded.dotr("run", "c.yaml", *again).code == 0
    assert recorded.read("again.ndjson") == recorded.read("out.ndjson")


def test_check_warns_of_what_waits_for_a_silent_input(recorded: Project) -> None:
    recorded.write("c.yaml", CONFIG.replace("a.ndjson", '"-"'))
    told = recorded.dotr("check", "c.yaml").err
    assert "r.dotr:4:6: I117 warning: Left and 3 more fire as time goes on" in told
    recorded.write("c.yaml", CONFIG.replace("a.ndjson", '"-"') + "clock: 10 s\n")
    assert "I117" not in recorded.dotr("check", "c.yaml").err
    recorded.write("c.yaml", CONFIG)
    assert "I117" not in recorded.dotr("check", "c.yaml").err
    recorded.write("l.lars", LARS.replace("IN [4 s]", "IN [0 s]"))
    recorded.write("c.yaml", CONFIG.replace("a.ndjson", '"-"').replace("r.dotr, q.rspql, ", ""))
    assert "I117" not in recorded.dotr("check", "c.yaml").err
