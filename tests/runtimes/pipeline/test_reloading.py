"""Runs that read their rules again: what they keep, what they refuse, and how they are asked."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr import Event, Program, Session
from dotr.model.stream import Element
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.output_files import OutputLocks, Target
from dotr.runtimes.pipeline.reloading import Reloads, request_reload
from tests.engine.state.test_clause_changes import LEFT, PAIR, edits, text
from tests.engine.state.test_state_migration import HEADER, streams
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.properties import examples
from tests.support.reloaded import CONFIG, change, events, feed, reload, run_with, set_up, wait_for

RELOADED = "c.yaml is read again, and counts from the next instant on.\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_run_goes_on_with_changed_rules(capsys: pytest.CaptureFixture[str]) -> None:
    set_up()
    said: list[str] = []

    def answer(code: int, name: str = "c.yaml") -> None:
        assert reload(name) == code
        captured = capsys.readouterr()
        said.append(captured.out if code == 0 else captured.err)

    def world() -> None:
        feed(1, 4)
        change("?n < 9", "?n < 8")
        answer(0)
        change("?v > 5)", "?v > 6)")
        answer(0, "ck")
        feed(4, 7)
        change("rule Seen", "rule Seen broken")
        answer(2)
        change("rule Seen broken", "rule Seen")
        change("path: out", "path: other", "c.yaml")
        answer(2)
        change("path: other", "path: out", "c.yaml")
        change("name: live", "name: live\nlimits: { nesting: 30 }", "c.yaml")
        answer(2)
        feed(7, 8)

    assert run_with(world, "local") == 0
    assert said[0] == RELOADED + "rule Left keeps its state: it has changed outside of its clauses\nrule Seen keeps its state\n"
    assert said[1] == RELOADED + "rule Left keeps Start; Heavy starts empty: its FILTER has changed\nrule Seen keeps its state\n"
    assert "r.dotr:2:11: D101" in said[2]
    assert "c.yaml:5:9: C204 output has changed, and a reload reads rules, knowledge, prefixes, limits and report alone" in said[3]
    assert "C204 inputs that are open are read with limits.nesting, which has changed" in said[4]
    assert all(each.endswith("Nothing has changed: the run goes on as it was.\n") for each in said[2:])
    heavy = {at: json.loads(attributes)["n"][1] for at, rule, attributes in events() if rule == "Left"}
    assert heavy == {1: "0", 2: "1", 3: "1", 4: "0", 5: "0", 6: "1", 7: "1"}
    assert [at for at, rule, _ in events() if rule == "Seen"] == list(range(8))
    assert reload() == 1
    assert "No run of c.yaml is going on" in capsys.readouterr().err


def test_background_prefixes_limits_and_report_are_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(CONFIG.replace("rules:", "knowledge: { graphs: [k.ttl] }\nrules:"))
    Path("k.ttl").write_text("<http://e/a> <http://e/zone> <http://e/A> .")
    Path("r.dotr").write_text(
        "rule Seen define Seen = [ [] :zone ?zone ] from R = [ SELECT ?zone ?v WHERE { ?r :room/:zone ?zone ; :value ?v } ]\n"
        "with Seen.?zone = R.?zone"
    )

    def world() -> None:
        feed(1, 2)
        Path("k.ttl").write_text("<http://e/a> <http://e/zone> <http://other/B> .")
        change('"": "http://e/"', '"": "http://e/", o: "http://other/"', "c.yaml")
        change("knowledge:", "report: { dead_letters: 1 }\nlimits: { matches: 7 }\nknowledge:", "c.yaml")
        change("?r :room", "FILTER(?zone = o:B) . ?r :room")
        assert reload() == 0
        assert "The background knowledge, or a setting of it, has changed" in capsys.readouterr().out
        feed(2, 3)

    assert run_with(world, "local") == 0
    assert [json.loads(attributes)["zone"] for _, _, attributes in events()] == ["<http://e/A>", "<http://e/A>", "<http://other/B>"]


def test_columns_of_an_open_table_cannot_change(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(CONFIG.replace("output: [", "output: [{ format: csv, path: out.csv }, "))

    def world() -> None:
        feed(1, 2)
        change("Left.?n = ?n", "Left.?n = ?n, Left.?more = 1")
        assert reload() == 2
        assert "C204 the columns of an output that is open have changed: n, room, v are more, n, room, v now" in capsys.readouterr().err

    assert run_with(world, "local") == 0


class ReloadsAt(Reloads):
    """A request when a number of instants are closed: `rules` are written first."""

    def __init__(self, *arguments: object, after: int, rules: str) -> None:
        self._looks, self._after, self._rules = 0, after, rules
        config, options, locks = arguments
        super().__init__(config, options, locks, on_spark=False)  # type: ignore[arg-type]

    @property
    def requested(self) -> bool:
        self._looks += 1
        return self._looks > self._after

    @requested.setter
    def requested(self, value: bool) -> None:
        """Signals do not count."""

    def take(self, pipeline: Pipeline) -> Pipeline | None:
        self._after = 10**9
        Path("r.dotr").write_text(self._rules)
        return super().take(pipeline)


@examples(12)
@given(edits(LEFT), edits(PAIR), streams(), st.data())
def test_events_after_a_reload_are_those_after_a_restart(
    left: tuple[dict[str, str], dict[str, str]], pair: tuple[dict[str, str], dict[str, str]], elements: list[Element], data: st.DataObject
) -> None:
    before, after = [HEADER + text(*parts) for parts in zip(left, pair, strict=True)]
    cut = data.draw(st.integers(1, len(elements) - 1), label="cut")
    second = 1_000_000

    def session(rules: str) -> Program:
        Path("r.dotr").write_text(rules)
        return Program.load("r.dotr", prefixes={"": "http://e/"})

    def advanced(made: Session, some: Sequence[Element]) -> list[Event]:
        return [event for each in some for event in made.advance(each.time // second, each.triples)]

    first = session(before).session()
    expected = advanced(first, elements[:cut])
    restored = session(after).restore(first.save())
    expected += [*advanced(restored, elements[cut:]), *restored.finish()]
    graphs = [" ".join(f"{' '.join(triple)} ." for triple in each.triples) for each in elements]
    lines = [json.dumps({"time": each.time // second, "graph": graph}) for each, graph in zip(elements, graphs, strict=True)]
    Path("in.ndjson").write_text("\n".join(lines) + "\n")
    Path("c.yaml").write_text(CONFIG.replace('path: "in/*.ndjson", watch: true, settle: 0 s, idle: 50 ms', "path: in.ndjson"))
    Path("r.dotr").write_text(before)
    config = read_config("c.yaml")
    made = build(config, fresh=True, on_spark=False)
    totals = run_local(made, lambda totals: None, reloads=ReloadsAt(config, (), OutputLocks(), after=cut, rules=after))
    assert events() == [(each.time, each.rule, json.dumps(dict(each.attributes), sort_keys=True)) for each in expected]
    assert sum(counts.events for counts in totals.rules.values()) == len(expected)


def started(stdin: int, stderr: int | BinaryIO) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-m", "dotr", "run", "c.yaml", "--engine", "local"]
    return subprocess.Popen(arguments, stdin=stdin, stdout=subprocess.DEVNULL, stderr=stderr, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_hangup_reloads_and_on_a_terminal_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    set_up()
    with Path("log").open("wb") as log:
        process = started(subprocess.DEVNULL, log)
    try:
        wait_for(lambda: bool(events()) or process.poll() is not None)
        change("Seen.?v = Reading.?v", "Seen.?v = Reading.?v + 100")
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: RELOADED in Path("log").read_text())
        feed(1, 3)
    finally:
        process.terminate()
    assert process.wait(PATIENCE) == 0
    assert [json.loads(attributes)["v"].split('"')[1] for _, rule, attributes in events() if rule == "Seen"] == ["3", "107", "104"]
    Path("out").unlink()
    main, terminal = pty.openpty()
    process = started(terminal, terminal)
    try:
        wait_for(lambda: bool(events()) or process.poll() is not None)
        assert reload() == 0
        assert "rule Seen keeps its state" in capsys.readouterr().out
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        os.close(main)
        os.close(terminal)


def test_a_second_request_and_other_holders_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    target = Target("output", "out")
    Path("c.yaml").write_text(CONFIG)
    Path("r.dotr").write_text("")
    with OutputLocks() as locks:
        assert locks.acquire([target], "live") == []
        handled: list[int] = []
        before = signal.signal(signal.SIGHUP, lambda number, frame: handled.append(number))
        try:
            thread = threading.Thread(target=request_reload, args=([target],))
            thread.start()
            wait_for(lambda: bool(handled))
            assert reload() == 2
            assert f"C216 the run that writes to out (pipeline live, process {os.getpid()} on " in (told := capsys.readouterr().err)
            assert "is being reloaded" in told
            locks.release()  # the run ends
            thread.join(PATIENCE)
            assert not thread.is_alive()
        finally:
            signal.signal(signal.SIGHUP, before)
    assert not list(Path().glob(".out*"))
    with OutputLocks() as locks:
        locks.acquire([target], "live")
        lock = Path(".out.lock")
        for member, value, why in (("host", "elsewhere", "from here"), ("reloads", False, "of an earlier release")):
            written = json.loads(lock.read_text())
            lock.write_text(json.dumps({**written, member: value}))
            assert reload() == 2
            assert why in capsys.readouterr().err
            lock.write_text(json.dumps(written))


STREAMS = """PREFIX : <http://e/>
REGISTER RSTREAM Both AS SELECT ?x ?y FROM NAMED WINDOW <w> ON :a [RANGE 4s STEP 2s] FROM NAMED WINDOW <v> ON :b [RANGE 4s STEP 2s]
WHERE { WINDOW <w> { ?x :v ?v } WINDOW <v> { ?y :p ?z } }
"""


@pytest.mark.parametrize("keys", ["", ", rate: 100000"])
def test_query_of_a_reload_reads_the_streams_of_the_inputs(keys: str) -> None:
    """Also where the program before needed no records of the elements, and where inputs are read as time goes on."""
    config = """name: streams
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: a, stream: ":a", format: ndjson, path: a.ndjson%s }
  - { name: b, stream: ":b", format: ndjson, path: b.ndjson%s }
output: [{ format: ndjson, path: out }]
"""
    Path("c.yaml").write_text(config % (keys, keys))
    rule = "rule R define R = [ [] :x ?x ] from A = [ SELECT ?x { ?x :v ?v } ] with R.?x = A.?x"
    Path("r.dotr").write_text(rule)
    Path("q.rspql").write_text(STREAMS)
    for name, graph in (("a", ":x :v 1 ."), ("b", ":y :p 2 .")):
        Path(f"{name}.ndjson").write_text("".join(json.dumps({"time": time, "graph": graph}) + "\n" for time in range(6)))
    made = build(read_config("c.yaml"), fresh=True, on_spark=False)
    change("[r.dotr]", "[r.dotr, q.rspql]", "c.yaml")
    run_local(made, lambda totals: None, reloads=ReloadsAt(read_config("c.yaml"), (), OutputLocks(), after=3, rules=rule))
    assert [at for at, named, _ in events() if named == "Both"] == [4, 6, 8]
    whole = build(read_config("c.yaml"), fresh=True, on_spark=False)
    run_local(whole, lambda totals: None)
    assert [at for at, named, _ in events() if named == "Both"] == [0, 2, 4, 6, 8]
