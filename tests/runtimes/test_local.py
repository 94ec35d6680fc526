"""`dotr run` in process: messages, stops, outputs."""

from __future__ import annotations

import gzip
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dotr.runtimes.monitoring.display import count_text
from dotr.streams.sinks.files import FileSink
from tests.conftest import Project
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

SUMMARY = "1 element, 1 instant, 1 fact, 1 event -> out.ndjson\n"


def many(elements: int) -> str:
    return "".join(f'{{"time": {number}, "graph": ":a{number} a :A ."}}\n' for number in range(elements))


# --- reports ---


def test_run_prints_its_summary_on_stderr(project: Project) -> None:
    assert project.dotr("run", "c.yaml") == (0, "", SUMMARY)
    assert json.loads(project.read("out.ndjson"))["attributes"] == {"x": "<http://e/a>"}
    assert project.read("dead.ndjson") == ""


def test_quiet_run_prints_nothing(project: Project) -> None:
    project.write("a.ndjson", project.read("a.ndjson") + "broken\n")
    assert project.dotr("run", "c.yaml", "--quiet") == (0, "", "")
    assert len(project.read("dead.ndjson").splitlines()) == 1


def test_unstored_dead_letters_are_counted(project: Project) -> None:
    project.change("c.yaml", "dead_letter: dead.ndjson\n", "")
    project.write("a.ndjson", project.read("a.ndjson") + "broken\n")
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    assert answer.err.endswith(SUMMARY + "Dead letters: 1 unreadable -> not kept (no dead_letter in the configuration)\n")
    assert "dead.ndjson" not in project.files()


def test_run_without_accepted_elements_fails(project: Project) -> None:
    project.write("a.ndjson", "broken\n" * 2)
    answer = project.dotr("run", "c.yaml")
    last = "The run failed: it rejected every element that it read (2 unreadable); dead.ndjson holds them."
    assert (answer.code, answer.err.splitlines()[-1]) == (1, last)
    assert project.dotr("run", "c.yaml", "--fresh", "--quiet") == (1, "", last + "\n")
    answer = project.dotr("run", "c.yaml", "--fresh", "--progress", "json")
    assert (answer.code, json.loads(answer.err.splitlines()[-1])) == (1, {"level": "error", "message": last})
    project.change("c.yaml", "dead_letter: dead.ndjson\n", "")
    assert project.dotr("run", "c.yaml", "--fresh").err.endswith("(2 unreadable); name a file as dead_letter to keep them.\n")
    project.write("a.ndjson", "")
    assert project.dotr("run", "c.yaml", "--fresh").code == 0, "nothing was read"


def test_report_dead_letters_limits_the_warnings(project: Project) -> None:
    project.write("a.ndjson", project.read("a.ndjson") + "broken\n" * 5)
    assert project.dotr("run", "c.yaml").err.count("dead letter (unreadable)") == 3
    project.change("c.yaml", "engine: local", "engine: local\nreport: { dead_letters: 1 }")
    lines = project.dotr("run", "c.yaml", "--fresh").err.splitlines()
    assert ["dead letter (unreadable)" in lines[0], lines[1]] == [
        True,
        "a: more dead letters (unreadable) follow and are only counted here",
    ]
    project.change("c.yaml", "dead_letters: 1", "dead_letters: 0")
    assert project.dotr("run", "c.yaml", "--fresh").err == SUMMARY + "Dead letters: 5 unreadable -> dead.ndjson\n"


def test_first_example_runs_without_warnings(project: Project) -> None:
    city = str(ROOT / "configs" / "city.yaml")
    assert project.dotr("check", city, "--strict").err == "1 file checked: no errors, no warnings.\n"
    outputs = [f"--set=output.{n}.path=out/{n}" for n in range(2)]
    answer = project.dotr("run", city, "--engine", "local", *outputs, "--set", "dead_letter=out/dead", "--set", "spark.checkpoint=out/ck")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        "7,416 elements, 432 instants, 22,959 facts, 168 events -> out/0, out/1",
        "Dead letters: 3 late, 1 unreadable -> out/dead",
    ]


def test_dropped_triples_are_reported(project: Project) -> None:
    project.change("r.dotr", "SELECT ?x WHERE { ?x a :A }", "SELECT ?x ?y WHERE { ?x a :A OPTIONAL { ?x :y ?y } }")
    project.change("r.dotr", ":x ?x", ":x ?x, ?y")
    project.change("r.dotr", "Out.?x = A.?x", "Out.?x = A.?x, Out.?y = A.?y")
    reported = project.dotr("run", "c.yaml").err
    assert reported == SUMMARY + "1 output triple was dropped: a variable was unbound, or a literal stood as subject or predicate.\n"


def test_inconsistent_instants_are_reported(project: Project) -> None:
    project.write("g.ttl", "@prefix : <http://e/> . @prefix owl: <http://www.w3.org/2002/07/owl#> . :A owl:disjointWith :B .")
    project.change("c.yaml", "rules:", "knowledge: { graphs: [g.ttl], entailment: owl2rl }\nrules:")
    project.write("a.ndjson", "".join(f'{{"time": {n}, "graph": ":a a :A{", :B" if n else ""} ."}}\n' for n in range(6)))
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    lines = answer.err.splitlines()
    a, b = (
        "<http://e/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/A>",
        "<http://e/A> <http://www.w3.org/2002/07/owl#disjointWith>",
    )
    assert lines[0].startswith(f"K402 warning: the instant 1 is inconsistent (cax-dw: {b} <http://e/B> (background), {a} (instant), ")
    assert lines[1].startswith("Its facts are those of what was derived")
    assert lines[2].startswith("K402 warning: the instant 2")
    assert lines[4] == "more inconsistent instants follow and are only counted here"
    assert lines[5:] == ["6 elements, 6 instants, 6 facts, 6 events -> out.ndjson", "5 instants contradicted the background or themselves."]
    assert project.dotr("run", "c.yaml", "--fresh", "--quiet").err == ""


def test_instant_over_its_limit_becomes_dead_letters(project: Project) -> None:
    """A rule without a fixpoint stops at the limit; later instants are unaffected."""
    project.write("n.dlog", "PREFIX : <http://e/>\n:n(?x, ?k) :- :n(?x, ?m), BIND(?m + 1 AS ?k) .")
    project.change("c.yaml", "rules:", "limits: { triples: 20_000 }\nknowledge: { datalog: [n.dlog] }\nrules:")
    lines = ['{"time": 1, "graph": ":a a :A . :a :n 1 ."}\n', '{"time": 2, "graph": ":b a :A ."}\n']
    project.write("a.ndjson", "".join(lines))
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    assert json.loads(project.read("dead.ndjson")) == {
        "reason": "limit",
        "input": "a",
        "file": "a.ndjson",
        "line": 1,
        "time": 1,
        "text": lines[0].rstrip(),
        "error": "its instant goes over a limit: more than 20,000 triples in the closure",
    }
    assert [json.loads(line)["time"] for line in project.read("out.ndjson").splitlines()] == [2]
    assert "a.ndjson:1: dead letter (limit): its instant goes over a limit: more than 20,000 triples" in answer.err


DISJOINT = """@prefix : <http://e/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:A owl:disjointWith :B . :C rdfs:subClassOf :B ."""


def test_inconsistent_instants_become_dead_letters_with_reject(project: Project) -> None:
    project.write("g.ttl", DISJOINT)
    project.change("c.yaml", "rules:", "knowledge: { graphs: [g.ttl], entailment: owl2rl, inconsistent: reject }\nrules:")
    lines = [(1, ":a a :A ."), (2, ":b a :A ."), (2, ":b a :C ."), (2, ":c a :A ."), (3, ":b a :C ."), (4, ":a a :A, :B .")]
    text = [f'{{"time": {time}, "graph": "{graph}"}}\n' for time, graph in lines]
    project.write("a.ndjson", "".join(text))
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    dead = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    places = [(2, 2), (3, 2), (4, 2), (6, 4)]
    assert all(letter.pop("error").startswith("its instant is inconsistent (cax-dw: <http://e/A>") for letter in dead)
    assert dead == [
        {"reason": "inconsistent", "input": "a", "file": "a.ndjson", "line": line, "time": time, "text": text[line - 1].rstrip()}
        for line, time in places
    ]
    assert [json.loads(line)["time"] for line in project.read("out.ndjson").splitlines()] == [1]
    reported = answer.err.splitlines()
    kind, disjoint = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<http://www.w3.org/2002/07/owl#disjointWith>"
    assert reported[0] == (
        "a.ndjson:2: dead letter (inconsistent): its instant is inconsistent (cax-dw: "
        f"<http://e/A> {disjoint} <http://e/B> (background), <http://e/b> {kind} <http://e/A> (instant), "
        f"<http://e/b> {kind} <http://e/B> (derived))"
    )
    assert reported[-3:] == [
        "2 elements, 2 instants, 1 fact, 1 event -> out.ndjson",
        "Dead letters: 4 inconsistent -> dead.ndjson",
        "2 instants contradicted the background or themselves.",
    ]


def test_rejected_instant_fires_no_ticks(project: Project) -> None:
    """A rejected instant does not extend the range of ticks."""
    project.write("g.ttl", DISJOINT + " :a a :A .")
    project.change("c.yaml", "rules:", "knowledge: { graphs: [g.ttl], entailment: owl2rl, inconsistent: reject }\nrules:")
    project.change("r.dotr", "from A = [ SELECT ?x WHERE { ?x a :A } ]", "from every 1 s for [ SELECT ?x WHERE { ?x a :A } ] as A")
    project.write("a.ndjson", "".join(f'{{"time": {time}, "graph": "{graph}"}}\n' for time, graph in ((1, ""), (3, ""), (9, ":a a :B ."))))
    assert project.dotr("run", "c.yaml").code == 0
    assert [json.loads(line)["time"] for line in project.read("out.ndjson").splitlines()] == [1, 2, 3]


def test_output_to_standard_output_has_results_alone(project: Project) -> None:
    arguments = command("run", "c.yaml", "--set", "output.0.path=/dev/stdout")
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, SUMMARY.replace("out.ndjson", "/dev/stdout"))
    assert json.loads(done.stdout)["event"] == "Out"


def test_python_m_dotr_runs(project: Project) -> None:
    done = subprocess.run(command("run", "c.yaml"), capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", SUMMARY)


# --- outputs ---


def test_compressed_output_is_deterministic(project: Project) -> None:
    project.change(
        "c.yaml",
        "{ path: out.ndjson }",
        "{ path: deep/out.ndjson.gz }\n  - { path: deep/out.trig.gz, format: trig }\n  - { path: out.nq, format: nquads }",
    )
    project.write("a.ndjson", many(50))
    assert project.dotr("run", "c.yaml").code == 0
    first = [(project.folder / "deep" / name).read_bytes() for name in ("out.ndjson.gz", "out.trig.gz")]
    lines = gzip.decompress(first[0]).decode().splitlines()
    assert [json.loads(line)["time"] for line in lines] == list(range(50))
    assert gzip.decompress(first[1]).count(b"generatedAtTime") == project.read("out.nq").count("generatedAtTime") == 50
    assert project.dotr("run", "c.yaml", "--fresh").code == 0
    assert [(project.folder / "deep" / name).read_bytes() for name in ("out.ndjson.gz", "out.trig.gz")] == first


@pytest.mark.parametrize("form", ["ndjson", "trig", "nquads"])
def test_output_can_be_read_as_input(project: Project, form: str) -> None:
    project.write("a.ndjson", many(5))
    assert project.dotr("run", "c.yaml", "--set", f"output.0.format={form}").code == 0
    project.write("second.dotr", project.read("r.dotr").replace("?x a :A", "?o a :Out ; :x ?x"))
    options = [
        "name=second",
        "rules.0=second.dotr",
        f"input.0.format={form}",
        "input.0.path=out.ndjson",
        "output.0.path=two.ndjson",
        "dead_letter=dead2",
    ]
    answer = project.dotr("run", "c.yaml", *(word for option in options for word in ("--set", option)))
    assert answer.err == "5 elements, 5 instants, 5 facts, 5 events -> two.ndjson\n"


def test_csv_output_has_a_column_for_each_attribute(project: Project) -> None:
    project.write("a.ndjson", '{"time": 1, "graph": "\\"a, b\\" a :A . :b a :A ."}\n'.replace('\\"a, b\\"', ":a"))
    project.change("r.dotr", "with Out.?x = A.?x", 'with Out.?x = A.?x, Out.?text = CONCAT("say \\"", STR(A.?x), "\\",")')
    project.change("r.dotr", ":x ?x ]", ":x ?x ; :text ?text ]")
    assert project.dotr("run", "c.yaml", "--set", "output.0.format=csv", "--set", "output.0.path=out.csv").code == 0
    assert project.read("out.csv") == (
        'time,rule,event,text,x\n1,R,Out,"say ""http://e/a"",",http://e/a\n1,R,Out,"say ""http://e/b"",",http://e/b\n'
    )
    again = project.dotr("run", "c.yaml", "--fresh", "--set", "output.0.format=csv", "--set", "output.0.path=out.csv")
    assert again.code == 0, again.err


def test_option_paths_are_relative_to_the_working_directory(project: Project) -> None:
    project.write("deep/c.yaml", project.read("c.yaml").replace("r.dotr", "../r.dotr").replace("a.ndjson", "../a.ndjson"))
    assert project.dotr("run", "deep/c.yaml", "--set", "output.0.path=here.ndjson").code == 0
    assert {"here.ndjson", "deep/dead.ndjson"} <= project.files()


# --- stops ---


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dotr", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def long(project: Project) -> Iterator[Project]:
    """Pipeline that runs for many seconds."""
    project.write("a.ndjson", many(2_000) + "broken\n" + many(150_000).partition('"time": 2000,')[2].partition("\n")[2])
    project.change("c.yaml", "{ path: out.ndjson }", "{ path: out.ndjson }\n  - { path: out.trig.gz, format: trig }")
    yield project
    (project.folder / "a.ndjson").unlink()


def started(project: Project) -> None:
    """Wait until there is output."""
    path = project.folder / "out.ndjson"
    deadline = time.monotonic() + PATIENCE
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def whole(project: Project) -> int:
    """Number of instants in the outputs, which are complete and the first ones."""
    times = [json.loads(line)["time"] for line in project.read("out.ndjson").splitlines(keepends=True) if line.endswith("\n")]
    assert project.read("out.ndjson").endswith("\n")
    assert times == [n for n in range(len(times) + 1) if n != 2000][: len(times)]
    graphs = gzip.decompress((project.folder / "out.trig.gz").read_bytes()).decode()
    assert graphs.count("generatedAtTime") == len(times)
    assert graphs.endswith("}\n")
    return len(times)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_signal_ends_a_run_between_two_instants(long: Project, number: signal.Signals, quiet: list[str]) -> None:
    running = subprocess.Popen(command("run", "c.yaml", *quiet), stderr=subprocess.PIPE, text=True, env=environment())
    started(long)
    running.send_signal(number)
    _, reported = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0
    instants = whole(long)
    assert 0 < instants < 100_000
    if quiet:
        assert reported == ""
    else:
        assert "Stopped: the output holds all instants so far.\n" in reported
        assert f"{count_text(instants, 'element')}, {count_text(instants, 'instant')}, " in reported, "it may be one"


def test_signal_before_the_first_element_ends_the_run(project: Project) -> None:
    project.write(
        "slow.py",
        "import signal, sys, os\nimport dotr.runtimes.pipeline.config\nread = dotr.runtimes.pipeline.config.read_config\n"
        "def slow(*a):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return read(*a)\n"
        "dotr.runtimes.pipeline.config.read_config = slow\nfrom dotr.commands import main\nsys.exit(main(['run', 'c.yaml']))\n",
    )
    done = subprocess.run([sys.executable, "slow.py"], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "Stopped before anything was read.\n")
    assert "out.ndjson" not in project.files()


def test_closed_output_pipe_ends_the_run(long: Project) -> None:
    arguments = command("run", "c.yaml", "--quiet", "--set", "output.0.path=/dev/stdout")
    running = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline().startswith('{"time": 0, ')
    running.stdout.close()
    reported = running.stderr.read()
    running.stderr.close()
    assert running.wait(timeout=PATIENCE) == 1
    assert reported == "The run failed: cannot write /dev/stdout: broken pipe (the output before that is kept)\n"


def test_progress_is_one_rewritten_line_on_a_terminal(long: Project) -> None:
    """One rewritten line below the log messages, removed at the end."""
    terminal, end = pty.openpty()
    surroundings = {**environment(), "TERM": "xterm", "COLUMNS": "120", "LINES": "24"}
    running = subprocess.Popen(command("run", "c.yaml"), stdin=end, stdout=end, stderr=end, env=surroundings)
    os.close(end)
    started(long)
    shown, stopped, deadline = b"", False, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        try:
            shown += os.read(terminal, 1 << 16) if ready else b""
        except OSError:
            break  # the other end is closed
        if not stopped and shown.count(b"/s), ") > 1:
            running.send_signal(signal.SIGINT)
            stopped = True
    os.close(terminal)
    assert running.wait(timeout=PATIENCE) == 0
    text = shown.decode()
    lines = text.split("\r\n")
    assert "small: starting" in text
    assert any("/s), " in line and " instants, " in line and " events, 1 unreadable, " in line for line in text.split("\r"))
    assert any(line.endswith("a.ndjson:2001: dead letter (unreadable): it is no JSON: expecting value at column 1") for line in lines)
    assert any(line.endswith("Stopped: the output holds all instants so far.") for line in lines)
    assert lines[-3].rpartition("\x1b[2K")[2].startswith(f"{whole(long):,} elements, ")
    assert lines[-2:] == ["Dead letters: 1 unreadable -> dead.ndjson", ""]


# --- long instants ---

TRIPLES = """PREFIX : <http://e/>
query A = [ SELECT ?x WHERE { ?x a :A } ]
rule R define Out = [ [] :x ?x ; :y ?y ; :z ?z ]
from A and each A as B within [0, 10 s] from A and each A as C within [0, 10 s] from A
with Out.?x = A.?x, Out.?y = B.?x, Out.?z = C.?x
"""


@pytest.fixture
def crowd(project: Project) -> Project:
    """An instant with few matches, then one with size³ matches, which are sorted on disk."""
    project.write("r.dotr", TRIPLES)
    project.change("c.yaml", "{ path: out.ndjson }", "{ path: out.ndjson }\n  - { path: out.trig.gz, format: trig }")
    return project


def crowded(project: Project, size: int) -> None:
    instants = [(1, 3), (100, size), (200, 4)]
    lines = [json.dumps({"time": time, "graph": " ".join(f":a{n} a :A ." for n in range(many))}) for time, many in instants]
    project.write("a.ndjson", "\n".join(lines) + "\n")


def test_many_matches_are_written_in_output_order(crowd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    crowded(crowd, 30)
    assert crowd.dotr("run", "c.yaml").code == 0
    expected = crowd.read("out.ndjson"), gzip.decompress((crowd.folder / "out.trig.gz").read_bytes())
    assert expected[0].count("\n") == 6 + 30 * 29 * 28 + 24
    assert expected[1].count(b"generatedAtTime") == 6 + 30 * 29 * 28 + 24
    for size in (10, 999):
        monkeypatch.setattr("dotr.temporal.matching.operator.FLUSH_SIZE", size)
        monkeypatch.setattr("dotr.temporal.matching.events.FLUSH_SIZE", size)
        monkeypatch.setattr("dotr.runtimes.local.run.RUN_SIZE", size * 3)
        monkeypatch.setattr(tempfile, "tempdir", str(crowd.folder / "tmp"))
        (crowd.folder / "tmp").mkdir(exist_ok=True)
        assert crowd.dotr("run", "c.yaml", "--fresh").code == 0
        assert (crowd.read("out.ndjson"), gzip.decompress((crowd.folder / "out.trig.gz").read_bytes())) == expected
        assert list((crowd.folder / "tmp").iterdir()) == []


def stopped(project: Project) -> None:
    """Assert that the output is the complete first instant, and no other file is left."""
    assert [json.loads(line)["time"] for line in project.read("out.ndjson").splitlines()] == [1] * 6
    graphs = gzip.decompress((project.folder / "out.trig.gz").read_bytes()).decode()
    assert graphs.count("generatedAtTime") == 6
    assert graphs.endswith("}\n")
    assert list((project.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("first", [True, False])
def test_signal_interrupts_matching(crowd: Project, first: bool) -> None:
    """Also at the first instant."""
    crowded(crowd, 310)
    if first:
        crowd.write("a.ndjson", crowd.read("a.ndjson").splitlines()[1] + "\n")
    (crowd.folder / "tmp").mkdir()
    surroundings = {**environment(), "TMPDIR": str(crowd.folder / "tmp")}
    running = subprocess.Popen(command("run", "c.yaml"), stderr=subprocess.PIPE, text=True, env=surroundings)
    deadline = time.monotonic() + PATIENCE
    while not list((crowd.folder / "tmp").glob("*/*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    sent = time.monotonic()
    running.send_signal(signal.SIGTERM)
    _, reported = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0
    assert time.monotonic() - sent < 10, "a second, where nothing else runs"
    assert "Stopped: the output holds all instants so far.\n" in reported
    if first:
        assert crowd.read("out.ndjson") == ""
        return
    assert "1 element, 1 instant" in reported
    stopped(crowd)


def test_signal_during_a_write_undoes_the_instant(crowd: Project) -> None:
    crowded(crowd, 45)
    (crowd.folder / "tmp").mkdir()
    crowd.write(
        "slow.py",
        "import os, signal, sys\nfrom dotr.runtimes.local import run as local\nblocks = local.blocks\n"
        "def slow(firings):\n    for number, block in enumerate(blocks(firings, 100)):\n"
        "        if number == 2:\n            os.kill(os.getpid(), signal.SIGTERM)\n        yield block\n"
        "local.blocks = slow\nfrom dotr.commands import main\nsys.exit(main(['run', 'c.yaml']))\n",
    )
    surroundings = {**environment(), "TMPDIR": str(crowd.folder / "tmp")}
    done = subprocess.run([sys.executable, "slow.py"], capture_output=True, text=True, env=surroundings, check=False)
    assert done.returncode == 0, done.stderr
    assert "Stopped: the output holds all instants so far.\n" in done.stderr
    assert "1 element, 1 instant, 3 facts, 6 events" in done.stderr
    stopped(crowd)


@pytest.mark.parametrize("name", ["out.ndjson", "out.ndjson.gz"])
def test_file_is_truncated_to_a_mark(tmp_path: Path, name: str) -> None:
    def read() -> str:
        raw = (tmp_path / name).read_bytes()
        return (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()

    for before in ("", "kept é\n"):
        with FileSink(str(tmp_path / name)) as sink:
            sink.write([before])
            mark = sink.mark()
            assert mark is not None
            sink.write(["gone\n"] * 100_000)
            sink.flush()
            sink.truncate(mark)
            sink.write(["after\n"])
        assert read() == f"{before}after\n"
        (tmp_path / name).unlink()
    with FileSink("/dev/null") as null:
        assert null.mark() is None
