"""Programs of rules and continuous queries in a run, a rule test, a session, and `dotr check`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dotr
from dotr.api.session import SessionError
from dotr.commands import main

pytestmark = pytest.mark.core

QUERIES = """\
PREFIX : <http://example.org/>
REGISTER RSTREAM Hot AS SELECT ?x (MAX(?v) AS ?most)
FROM NAMED WINDOW <w> ON :temp [RANGE 10s STEP 5s]
WHERE { WINDOW <w> { ?x :v ?v FILTER(?v > 60) } } GROUP BY ?x

REGISTER ISTREAM :Seen AS CONSTRUCT { ?x a :Seen } FROM WINDOW ON <humidity> [RANGE 10s STEP 5s] { ?x :v ?v }
"""
RULES = """\
PREFIX : <http://example.org/>
rule Alarm define Alarm = [ [] :of ?x ; :most ?m ] from Hot with Alarm.?x = Hot.?x, Alarm.?m = Hot.?most
"""
CONFIG = """\
name: units
engine: local
rules: [q.rspql, r.dotr]
prefixes: { "": "http://example.org/" }
input:
  - { name: sensors, stream: ":temp", format: ndjson, path: temp.ndjson }
  - { name: humidity, format: ndjson, path: humidity.ndjson }
output: [{ format: ndjson, path: out.ndjson }]
"""
TEST = """\
config: c.yaml
cases:
  - name: hot
    stream:
      - { at: 1, graph: ":a :v 70 .", stream: ":temp" }
      - { at: 7, graph: ":b :v 20 .", stream: humidity }
    expect:
      - { at: 5, event: Hot, graph: "", attributes: { x: ":a", most: 70 } }
      - { at: 10, event: Hot, attributes: { x: ":a", most: 70 } }
      - { at: 5, event: Alarm }
      - { at: 10, event: Alarm }
      - { at: 10, event: Seen, graph: ":b a :Seen ." }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"q.rspql": QUERIES, "r.dotr": RULES, "c.yaml": CONFIG, "t.yaml": TEST}
    files["temp.ndjson"] = '{"time": 1, "graph": ":a :v 70 ."}\n'
    files["humidity.ndjson"] = '{"time": 7, "graph": ":b :v 20 ."}\n'
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def lines(path: Path) -> list[tuple[int, str, str]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [(each["time"], each["event"], each["graph"][:1]) for each in found]


def test_run_feeds_queries_by_input(project: Path) -> None:
    assert main(["run", str(project / "c.yaml"), "--quiet"]) == 0
    assert lines(project / "out.ndjson") == [(5, "Alarm", "_"), (5, "Hot", ""), (10, "Alarm", "_"), (10, "Hot", ""), (10, "Seen", "<")]


def test_rule_test_names_streams(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(project / "t.yaml")]) == 0, capsys.readouterr()
    (project / "t.yaml").write_text(TEST.replace("stream: humidity", "stream: humidiy"))
    assert main(["test", str(project / "t.yaml")]) == 2
    assert "C237 there is no stream humidiy" in capsys.readouterr().err
    (project / "t.yaml").write_text(TEST.replace(", stream: humidity", ""))
    assert main(["test", str(project / "t.yaml")]) == 2
    assert "C237 an element that names no stream, where units read several" in capsys.readouterr().err


def test_check_reads_files_named_together_as_one_program(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(project / "q.rspql"), str(project / "r.dotr")]) == 0, capsys.readouterr()
    (project / "r.dotr").write_text(RULES.replace("Hot.?most", "Hot.?least"))
    assert main(["check", str(project / "q.rspql"), str(project / "r.dotr")]) == 2
    assert "D207" in capsys.readouterr().err
    (project / "x.lars").write_text("Q(?x) :- EVENT Hot(?nothing AS ?x) . REPORT Q(?x) .")
    (project / "r.dotr").write_text(RULES)
    assert main(["check", *(str(project / name) for name in ("q.rspql", "r.dotr", "x.lars"))]) == 2
    assert "D207 Hot has no attribute ?nothing" in capsys.readouterr().err
    (project / "x.lars").unlink()


def test_check_of_a_folder_and_of_the_configuration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(project)]) == 0, capsys.readouterr()
    (project / "c.yaml").write_text(CONFIG.replace("format: ndjson, path: out.ndjson", "format: trig, path: out.trig"))
    assert main(["check", str(project / "c.yaml")]) == 0
    assert "C238 warning: no output shows the events of Hot" in capsys.readouterr().err


def test_session_takes_graphs_of_named_streams(project: Path) -> None:
    program = dotr.Program.load(rules=[project / "q.rspql", project / "r.dotr"], prefixes={"": "http://example.org/"})
    with program.session() as session:
        events = session.advance(1, {":temp": ":a :v 70 .", "humidity": ":b :v 20 ."})
        events += session.advance(5)
        assert [(event.time, event.type, event.graph[:1]) for event in events] == [(5, "Alarm", "_"), (5, "Hot", ""), (5, "Seen", "<")]
        assert events[1].attributes["x"] == "<http://example.org/a>"
        with pytest.raises(SessionError, match="a graph without a stream"):
            session.advance(6, ":a :v 1 .")
        assert [event.time for event in session.finish()] == [10, 10]


def test_session_refuses_a_misspelt_stream(project: Path) -> None:
    """As D224 does in files: with the near name, and without an effect."""
    program = dotr.Program.load(rules=[project / "q.rspql", project / "r.dotr"], prefixes={"": "http://example.org/"})
    session = program.session()
    for name in (":tmep", "<http://example.org/tempp>", "http://example.org/Temp", "temp", ":temps"):
        with pytest.raises(SessionError, match=re.escape(f"there is no stream {name}. Did you mean :temp?")):
            session.advance(1, {name: ":a :v 70 ."})
    with pytest.raises(SessionError, match=re.escape("no stream humidty. Did you mean humidity?")):
        session.advance(1, {":temp": ":a :v 70 .", "humidty": ":a :v 70 ."})
    assert session.save() == program.session().save()
    session.advance(1, {":temp": ":a :v 70 ."})
    with pytest.raises(SessionError, match="no stream :tmep"):
        program.restore(session.save()).advance(2, {":tmep": ":a :v 70 ."})


def test_session_takes_further_streams_for_rules(project: Path) -> None:
    """Rules see every stream; of those that no query reads only a misspelt name is refused."""
    (project / "r.dotr").write_text("rule R define B = [ [] a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ]")
    program = dotr.Program.load(rules=[project / "q.rspql", project / "r.dotr"], prefixes={"": "http://example.org/"})
    given = {":smoke": ":x a :A .", "http://other.org/temp": ":y a :A .", ":temp": ":z a :A ."}
    assert [event.type for event in program.session().advance(1, given)] == ["B", "B", "B"]


def test_session_of_rules_alone_takes_any_stream(project: Path) -> None:
    (project / "r.dotr").write_text("rule R define B = [ [] a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ]")
    session = dotr.Program.load(rules=[project / "r.dotr"], prefixes={"": "http://example.org/"}).session()
    assert [event.type for event in session.advance(1, {":anything": ":x a :A ."})] == ["B"]


def test_session_of_a_configuration_tells_the_near_stream(project: Path) -> None:
    session = dotr.Program.from_config(project / "c.yaml").session()
    with pytest.raises(SessionError, match=re.escape("there is no stream :tmep. Did you mean :temp?")):
        session.advance(1, {":tmep": ":a :v 70 ."})


def test_graph_without_a_name_is_on_the_only_stream(project: Path) -> None:
    (project / "one.rspql").write_text(QUERIES.partition("\n\n")[0])
    program = dotr.Program.load(rules=[project / "one.rspql"], prefixes={"": "http://example.org/"}, origin=1)
    session = program.session()
    session.advance(1, ":a :v 70 .")
    assert [event.time for event in program.session().advance(1, ":a :v 70 .")] == [1]


def test_explain_shows_streams_windows_and_layers(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(project / "c.yaml")]) == 0
    text = capsys.readouterr().out
    assert "Continuous query Hot: RSTREAM of ?most, ?x, without a graph\n" in text
    assert "window     <w> on the input stream http://example.org/temp: RANGE 10 s STEP 5 s" in text
    assert "layer      1: Hot is made by a continuous query, in a layer before" in text


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["why", "--rule", "Alarm", "--at", "5"], 0),
        (["why-not", "--rule", "Seen"], 0),
        (["explain", "--format", "svg"], 0),
        (["explain", "--format", "mermaid"], 0),
        (["report", "--output", "report.html"], 0),
        (["replay", "--against", "c.yaml"], 0),
        (["facts"], 0),
    ],
)
def test_commands_of_the_workbench_accept_queries(
    project: Path, command: list[str], code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert main([command[0], "c.yaml", *command[1:]]) == code, capsys.readouterr()
    assert "Hot" in (project / "report.html").read_text() if command[0] == "report" else capsys.readouterr().out


def test_check_of_data_compares_windows_with_their_streams(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = "WINDOW <w> { ?x :v ?v FILTER(?v > 60) }"
    (project / "q.rspql").write_text(QUERIES.replace(block, "WINDOW <w> { ?x :v ?v ; :vv ?o ; :damp ?d FILTER(?v > 60) }"))
    (project / "humidity.ndjson").write_text('{"time": 7, "graph": ":b :v 20 ; :damp 3 ."}\n')
    assert main(["check", "--data", str(project / "c.yaml")]) == 0
    shown = capsys.readouterr().err
    start = "I111 warning: query Hot asks a window for"
    assert f"{start} :damp, and no record of its stream http://example.org/temp brings it\n" in shown
    assert "Input humidity brings it, which feeds another stream." in shown
    assert f"{start} :vv, and no record of its stream http://example.org/temp brings it\n" in shown
    assert "They bring :v." in shown


def test_commands_of_the_workbench_accept_lars_and_epsparql(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    Path("often.lars").write_text("PREFIX : <http://example.org/>\nOften(?x) :- EVENT Hot(?x AS ?x) IN [30 s] .\nREPORT NEW Often(?x) .\n")
    Path("seen.dotr").write_text(
        "PREFIX : <http://example.org/>\nrule Noted define Noted = [ ?x :noted true ] from Often with Noted.?x = Often.?x\n"
    )
    Path("c.yaml").write_text(CONFIG.replace("r.dotr]", "r.dotr, often.lars, seen.dotr]"))
    assert main(["why", "c.yaml", "--rule", "Noted", "--at", "5"]) == 0
    assert "└ from Often at 5: x :a\n  └ Often at 5: x :a " in capsys.readouterr().out
    assert main(["why", "c.yaml", "--rule", "Often", "--at", "5"]) == 0
    assert "EVENT Hot at 5: " in capsys.readouterr().out
    assert main(["why-not", "c.yaml", "--rule", "Often"]) == 0
    assert capsys.readouterr().out.startswith("Often: ")
    for command in (
        ["report", "-o", "r.html"],
        ["explain", "--format", "svg"],
        ["explain", "--format", "mermaid"],
        ["replay", "--against", "c.yaml"],
    ):
        assert main([command[0], "c.yaml", *command[1:]]) == 0, capsys.readouterr()
    assert "Often" in Path("r.html").read_text()


def test_coverage_counts_reports(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--coverage", str(project / "t.yaml")]) == 0
    assert "Hot: 2 reports, 2 events; never: a report without an event\n" in capsys.readouterr().out


def test_check_warns_of_blocks_over_the_background_and_of_one_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ttl").write_text("@prefix : <http://example.org/> . :hall :floor 1 .")
    (tmp_path / "q.rspql").write_text(
        "PREFIX : <http://example.org/>\n"
        "# dotr: allow W402 (the count of nothing is wanted)\n"
        "REGISTER RSTREAM A AS SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW <w> ON <in> [RANGE 1s REPORT ON WINDOW CLOSE]"
        " { WINDOW <w> { ?x :floor ?y } }\n"
        "REGISTER RSTREAM B AS SELECT ?x FROM WINDOW ON <in> [RANGE 1s] { ?x :floor ?y }\n"
        "REGISTER RSTREAM C AS SELECT ?x FROM NAMED WINDOW <w> ON <in> [RANGE 1s ENTAILMENT NONE] { WINDOW <w> { ?x :v ?y } }\n"
    )
    (tmp_path / "c.yaml").write_text(
        "name: c\nengine: local\nrules: [q.rspql]\nknowledge: { graphs: [k.ttl] }\n"
        "input: [{ name: in, format: ndjson, path: in.ndjson }]\noutput: [{ format: ndjson, path: o.ndjson }]\n"
    )
    (tmp_path / "in.ndjson").write_text("")
    assert main(["check", str(tmp_path / "c.yaml")]) == 0
    shown = capsys.readouterr().err
    found = [line.partition("q.rspql:")[2].split(" warning")[0] for line in shown.splitlines() if "q.rspql:" in line]
    assert sorted(line.split(": ")[::-1][0] + line.split(":")[0] for line in found) == ["W4053", "W4064", "W4073", "W4074"]
    # The predicate is on a known stream, so the block may match it.
    cases = 'cases: [{ name: a, stream: [{ at: 1, graph: "<x:a> <http://example.org/floor> 1 ." }], expect: [] }]'
    (tmp_path / "t.yaml").write_text("rules: [q.rspql]\nknowledge: { graphs: [k.ttl] }\n" + cases)
    assert main(["check", str(tmp_path / "t.yaml")]) == 0
    shown = capsys.readouterr().err
    assert "W405" not in shown
    assert "W406" in shown


def test_contradictions_of_windows_are_reported_and_counted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "kb.ttl").write_text(
        "@prefix : <http://example.org/> . @prefix owl: <http://www.w3.org/2002/07/owl#> . :A owl:disjointWith :B ."
    )
    (project / "q.rspql").write_text(
        "PREFIX : <http://example.org/> REGISTER RSTREAM Kinds AS SELECT ?x ?c FROM NAMED WINDOW <w> ON <sensors> [RANGE 10s]"
        " { WINDOW <w> { ?x a ?c } }"
    )
    (project / "temp.ndjson").write_text('{"time": 1, "graph": ":x a :A ."}\n{"time": 2, "graph": ":x a :B ."}\n')
    config = CONFIG.replace("[q.rspql, r.dotr]", "[q.rspql]").replace(
        "engine: local", "engine: local\nknowledge: { graphs: [kb.ttl], entailment: owl2rl }"
    )
    (project / "c.yaml").write_text(config)
    assert main(["run", str(project / "c.yaml")]) == 0
    text = capsys.readouterr().err
    assert "1 instant contradicted the background or themselves" in text
    assert [event for _, event, _ in lines(project / "out.ndjson")] == ["Kinds", "Kinds"]


def test_query_over_the_limit_of_its_landmark_window_is_one_dead_letter(project: Path) -> None:
    (project / "q.rspql").write_text(
        "PREFIX : <http://example.org/> REGISTER RSTREAM All AS SELECT ?x FROM NAMED WINDOW <w> ON <sensors> [LANDMARK STEP 2s LIMIT 1]"
        " { WINDOW <w> { ?x ?p ?y } }\nREGISTER RSTREAM Other AS SELECT ?x FROM WINDOW ON <sensors> [NOW] { ?x ?p ?y }"
    )
    (project / "temp.ndjson").write_text("".join(f'{{"time": {time}, "graph": ":x :v {time} ."}}\n' for time in (1, 3, 5)))
    (project / "c.yaml").write_text(CONFIG.replace("[q.rspql, r.dotr]", "[q.rspql]") + "dead_letter: dead.ndjson\n")
    assert main(["run", str(project / "c.yaml"), "--quiet"]) == 0
    assert [(time, event) for time, event, _ in lines(project / "out.ndjson")] == [(1, "Other"), (2, "All"), (3, "Other"), (5, "Other")]
    (letter,) = [json.loads(line) for line in (project / "dead.ndjson").read_text().splitlines()]
    assert (letter["reason"], letter["input"], letter["line"], letter["text"], letter["time"]) == ("limit", "rule All", 1, "All", 3)
