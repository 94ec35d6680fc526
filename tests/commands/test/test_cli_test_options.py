"""`dotr test`: selection of cases, reports, and runs that are repeated when a file changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from xml.etree import ElementTree

import pytest

from dotr.commands.test import file_states, wait_for_change
from dotr.commands.test.cases import load_test
from dotr.commands.test.reports import Finding, FindingKind, Outcome, junit_report
from tests.conftest import TEST, Project
from tests.support.patience import PATIENCE

CASES = """\
rules: [r.dotr]
prefixes: { "": "http://e/" }
cases:
  - { name: first of all, stream: [ { at: 1, graph: ":a a :A ." } ], expect: [ { at: 1, event: Out } ] }
  - name: second
    stream: [ { at: 1, graph: ":a a :A ." } ]
    expect: [ { at: 2, event: Out } ]
  - { name: third, stream: [], expect: [ { at: 5, event: Out } ] }
"""


def test_cases_are_selected_by_their_names(project: Project) -> None:
    project.write("t.yaml", CASES)
    assert project.dotr("test", "t.yaml", "--filter", "^first") == (0, "ok     t.yaml: first of all\n1 passed, 0 failed\n", "")
    assert project.dotr("test", "t.yaml", "--filter", "first|third").out.endswith("1 passed, 1 failed\n")
    assert "C218 fourth is found in no case's name\n" in project.refused("test", "t.yaml", "--filter", "fourth")
    assert "[ is no regular expression" in project.refused("test", "t.yaml", "--filter", "[")


def test_first_failure_ends_the_run(project: Project) -> None:
    project.write("t.yaml", CASES)
    answer = project.dotr("test", "t.yaml", "--fail-fast")
    assert answer.code == 1
    assert "FAILED t.yaml:5: second\n" in answer.out
    assert "third" not in answer.out
    assert answer.out.endswith("1 passed, 1 failed\n")


def test_report_as_json(project: Project) -> None:
    project.write("t.yaml", CASES)
    answer = project.dotr("test", "t.yaml", "none.yaml", "--format", "json")
    assert answer.code == 2
    report = json.loads(answer.out)
    assert [report[key] for key in ("passed", "failed", "updated", "unread")] == [1, 2, 0, 1]
    first, second, third = report["cases"]
    assert (first["file"], first["line"], first["case"], first["passed"], first["findings"]) == ("t.yaml", 4, "first of all", True, [])
    assert [finding["kind"] for finding in second["findings"]] == ["additional", "missing"]
    assert third["findings"][0]["text"] == "- expected at 5 Out"
    assert report["problems"][0]["file"] == "none.yaml"
    assert "C301" in report["problems"][0]["text"]


def test_report_for_junit(project: Project) -> None:
    project.write("t.yaml", CASES.replace("name: second", "name: \"<second> & 'more'\""))
    assert project.dotr("test", "t.yaml", "none.yaml", "--junit", "report.xml").code == 2
    root = ElementTree.parse(project.folder / "report.xml").getroot()
    assert (root.tag, root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("testsuites", "4", "2", "1")
    suite, unread = root
    assert (suite.attrib["name"], suite.attrib["tests"], unread.attrib["errors"]) == ("t.yaml", "3", "1")
    passed, failed, _ = suite
    assert list(passed) == []
    assert (failed.attrib["name"], failed.attrib["file"], failed.attrib["line"]) == ("<second> & 'more'", "t.yaml", "5")
    (failure,) = failed
    assert failure.attrib == {"message": "+ got      at 1 Out by R", "type": "additional"}
    assert (failure.text or "").startswith("t.yaml:5: <second> & 'more'\n+ got      at 1 Out by R\n")
    assert unread[0][0].tag == "error"


def test_report_for_junit_has_characters_of_xml_alone() -> None:
    outcome = Outcome("t.yaml", "a\x00b", 1, (Finding(FindingKind.ERROR, "\ud800 \x1b"),), ("\ufffe",))
    (((failure, notes),),) = ElementTree.fromstring(junit_report([outcome]))
    assert (failure.attrib["message"], notes.text) == ("\\uD800 \\u001B", "note: \\uFFFE")


def test_files_that_a_test_names_are_watched(project: Project) -> None:
    project.write("kb.ttl", "")
    project.write("data.ndjson", "")
    project.write("rules/one.dotr", project.read("r.dotr"))
    head = 'rules: ["rules/*.dotr"]\nknowledge: { graphs: [kb.ttl] }\n'
    project.write("t.yaml", head + "cases: [ { name: one, stream: { file: data.ndjson }, expect: [] } ]\n")
    named = list(load_test("t.yaml").file.named_files())
    assert named == ["rules/*.dotr", "kb.ttl", "data.ndjson"]
    before = file_states(["t.yaml"], named)
    assert list(before) == ["t.yaml", "rules/one.dotr", "kb.ttl", "data.ndjson"]

    def change(what: str) -> list[str]:
        def sleep(seconds: float) -> None:
            project.write(what, "x")

        return wait_for_change(lambda: file_states(["t.yaml"], named), before, sleep)

    assert change("kb.ttl") == ["kb.ttl"]
    project.write("kb.ttl", "")
    before = file_states(["t.yaml"], named)
    assert change("rules/two.dotr") == ["rules/two.dotr"]
    before = file_states(["."], [])
    assert set(before) == {"c.yaml", "t.yaml"}
    assert change("t.yaml") != []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_watched_tests_run_again_until_interrupted(project: Project) -> None:
    project.write("t.yaml", TEST)
    command = [sys.executable, "-m", "dotr", "test", "t.yaml", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert [process.stdout.readline() for _ in range(2)] == ["ok     t.yaml: one\n", "1 passed, 0 failed\n"]
            assert process.stderr.readline() == "Waiting for a change (Ctrl-C ends).\n"
            project.change("r.dotr", ":x ?x", ":y ?x")
            project.change("t.yaml", 'attributes: { x: ":a" }', 'graph: "[] a :Out ; :x :a ."')
            while "1 failed" not in (line := process.stdout.readline()):
                assert line
            project.write("t.yaml", "broken: [")
            while "C102" not in (line := process.stderr.readline()):
                assert line
            project.write("t.yaml", TEST)
            while "1 passed" not in (line := process.stdout.readline()):
                assert line
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
            assert process.stderr.read().endswith("Stopped.\n")
        finally:
            watchdog.cancel()
            process.kill()


def test_passing_test_loads_what_it_needs(project: Project) -> None:
    """Explanations, reports and runtimes are loaded where a test needs them."""
    project.write("t.yaml", TEST)
    script = "import sys; from dotr.commands import main; main(['test', 't.yaml']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].split()
    assert "dotr.commands.test.reports" in modules
    pipeline = (f"dotr.runtimes.pipeline.{name}" for name in ("build", "elements", "inputs", "outputs", "replay"))
    needless = (
        *("dotr.runtimes.local", "dotr.runtimes.spark", "dotr.runtimes.monitoring", *pipeline, "dotr.streams.connectors.opening"),
        "dotr.instant.datalog.same_as",
        "dotr.instant.datalog.strata.delete_and_rederive",
        "dotr.evaluation.triples.mapped_index",
    )
    further = (
        "dotr.instant.queries.operators",
        "dotr.explanations.why",
        "dotr.commands.why.questions",
        "dotr.commands.test.reasons",
    )
    assert [name for name in modules if name.startswith((*needless, *further))] == []
