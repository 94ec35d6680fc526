"""What `dotr why` and `dotr why-not` print of units, byte for byte: the blocks of units.txt, on continuous queries, of temporal.txt, on
LARS files and units of EP-SPARQL, and of cycle.txt, on rules and a unit of EP-SPARQL that depend on each other."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from dotr import Program
from dotr.commands import main
from dotr.explanations.replay.firings import FiringRecorder
from dotr.model.time import Clock, Unit
from tests.support.paths import ROOT

BLOCK = re.compile(r"^\$ dotr (.*?)\n(.*?)(?=^\$ dotr |\Z)", re.MULTILINE | re.DOTALL)
TEXTS = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("units.txt", "temporal.txt", "cycle.txt")]
SHOWN = [block for text in TEXTS for block in BLOCK.findall(text)]
HERE = "tests/explanations/"
PREFIXES = {"": "http://example.org/"}


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_answers_about_units(command: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT / HERE)
    main(shlex.split(command))
    captured = capsys.readouterr()
    assert captured.out + captured.err == output.rstrip("\n") + "\n"


def test_json_has_the_parts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT / HERE)
    assert main(["why", "queries.yaml", "--rule", "Hot", "--at", "2", "--format", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["kind"], tree["event"], tree["time"], tree["attributes"]) == ("event", "Hot", 2, {"sensor": ":s1", "value": "25"})
    (window,) = tree["because"]
    assert (window["kind"], window["window"], window["elements"]) == ("window", "<recent>", 1)
    (triple,) = window["because"]
    assert (triple["kind"], triple["from"], triple["at"], triple["place"]) == ("triple", "element", 1, "queries.yaml:7")
    assert main(["why-not", "queries.yaml", "--rule", "FarApart", "--format", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["fired"], answer["reports"], answer["change"]) == (False, 3, "RANGE 3 s STEP 2 s")


def test_sessions_explain_queries() -> None:
    program = Program.load([ROOT / HERE / "queries.rspql"], ROOT / HERE / "queries.ttl", ROOT / HERE / "queries.dlog", prefixes=PREFIXES)
    session = program.session(record=True)
    assert not session.advance(1, {":readings": ":s1 :value 25 ."})
    events = session.advance(2)
    hot = next(event for event in events if event.type == "Hot")
    assert (
        session.why(hot).text.splitlines()[-1].strip() == "└ :s1 :value 25                                    graph 1 of advance(1), at 1"
    )
    alarms = next(event for event in events if event.type == "Alarms")
    assert "solution x :s1, v 25" in session.why(alarms).text
    assert session.why_not("Misspelt").data["fired"] is False
    assert session.why_not("Hot", at=2, where={"sensor": ":s1"}).data["fired"] is True
    assert session.why_not("Hot", at=2, where={"sensor": ":s2"}).text.splitlines()[1] == "  at 2: :s2 :value ?value never holds"


SUMS = """PREFIX : <http://example.org/>
REGISTER STREAM Sum AS CONSTRUCT { ?x :sum ?n } WHERE { ?x :sum ?m } SEQ { ?x :v ?v BIND(?v AS ?n) } WITHIN 3 s
REGISTER STREAM Begin AS CONSTRUCT { ?x :sum 0 } WHERE { ?x :begin ?y }
"""


def test_recursive_units_are_recorded_within_their_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of an event is that of its oldest part, so nothing older than WITHIN explains it."""
    monkeypatch.setattr("dotr.explanations.replay.firings._MOST_EVENTS", 50)
    (tmp_path / "sums.epsparql").write_text(SUMS, encoding="utf-8")
    session = Program.load(tmp_path / "sums.epsparql", prefixes=PREFIXES).session(record=True)
    for time in range(1, 1105):
        events = session.advance(time, f":a :v {time} ." if time % 10 != 1 else ":a :begin 1 .")
    assert session._record is not None  # the program's memory of its graphs
    recorder = FiringRecorder.of(session._record.replay(session._program, Clock(Unit.SECOND, False)), ["Sum"])
    assert recorder.horizon == 3_000_000
    assert [len(firings) for firings in recorder.run()][-1] == len(events) == 4
    assert len(recorder.firings["Sum"]) < 100
    assert "Begin at 1101" in session.why(events[0]).text
