"""Every command escapes control characters of names and content on a terminal."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import subprocess
import sys

import pytest

from tests.conftest import Answer, Project
from tests.support.paths import ROOT

DOTR = ROOT / "dotr"
EVIL = "\x1b[31m\x9b1m\u202e\u2066"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


ESCAPED = ("\\u001b[31m\\u009b1m\\u202e", "\\x1b[31m\\x9b1m\\u202e", "�[31m�1m��")
"""Escaped forms of the content: of `dotr.errors.terminal`, of `repr`, and below a marked line."""


def clean(answer: Answer) -> str:
    """Printed text, which has the content only in escaped form."""
    reported = answer.out + answer.err
    assert not RAW.search(reported), ascii(reported)
    assert any(each in reported.lower() for each in ESCAPED), reported
    return reported


@pytest.fixture
def evil(project: Project) -> Project:
    """Small pipeline with control characters in its name and file names."""
    config = project.read("c.yaml").replace("name: small", f"name: {json.dumps('p' + EVIL)}")
    config = (
        config.replace("a.ndjson", "a\\e[31m\\x9b1m\\u202e\\u2066.ndjson")
        .replace("path: a", 'path: "a')
        .replace(".ndjson }\noutput", '.ndjson" }\noutput')
    )
    project.write(f"c{EVIL}.yaml", config)
    project.write(f"a{EVIL}.ndjson", project.read("a.ndjson"))
    project.write(f"r{EVIL}.dotr", project.read("r.dotr"))
    return project


def test_run_escapes_dead_letters(evil: Project) -> None:
    bad = [json.dumps({"time": 1, "graph": ":a a \x1b[31m\x9b1m\u202e\u2066 ."}), f'{{"time": "{EVIL[1:]}\u009b", "graph": ""}}', EVIL]
    evil.write(f"a{EVIL}.ndjson", evil.read("a.ndjson") + "\n".join(bad) + "\n")
    reported = clean(evil.dotr("run", f"c{EVIL}.yaml"))
    assert reported.count("dead letter (unreadable)") == 3
    assert len(reported.splitlines()) == 5
    assert evil.read("dead.ndjson").count("\\u001b") >= 2, "what a sink holds is JSON"
    assert "\u202e" in evil.read("dead.ndjson")


def test_run_escapes_json_lines(evil: Project) -> None:
    evil.write(f"a{EVIL}.ndjson", evil.read("a.ndjson") + EVIL)
    answer = evil.dotr("run", f"c{EVIL}.yaml", "--progress", "json")
    clean(answer)
    lines = [json.loads(line) for line in answer.err.splitlines()]
    assert lines[-1]["pipeline"] == "p" + EVIL, "an escape in JSON reads back"


def test_run_escapes_live_progress(evil: Project) -> None:
    """rich draws the line of progress with escape sequences."""
    evil.write(f"a{EVIL}.ndjson", evil.read("a.ndjson") + EVIL + ":fire:")
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "dotr", "run", f"c{EVIL}.yaml"], stderr=theirs, cwd=evil.folder)
    os.close(theirs)
    reported = b""
    while True:
        try:
            some = os.read(ours, 4096)
        except OSError:
            break
        if not some:
            break
        reported += some
    process.wait()
    text = reported.decode()
    assert "\x1b[31m" not in text
    assert not re.search("[\x80-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "\\u001b[31m\\u009b1m\\u202e" in text


def test_csv_header_is_escaped(project: Project) -> None:
    project.change("c.yaml", "format: ndjson, path: a.ndjson", 'format: csv, path: a.csv, time: at, map: ":a :x {b} ."')
    project.write("a.csv", f"at,{EVIL}\n1,2\n")
    clean(project.dotr("run", "c.yaml"))
    clean(project.dotr("check", "c.yaml"))


def test_rule_test_and_its_difference_are_escaped(project: Project) -> None:
    text = project.read("t.yaml").replace("name: one", f"name: {json.dumps(EVIL)}")
    project.write("t.yaml", text.replace('":a" } }', json.dumps(json.dumps(EVIL)) + " } }"))
    reported = clean(project.dotr("test", "t.yaml"))
    assert "FAILED" in reported


def test_check_escapes_file_name_and_text(evil: Project) -> None:
    clean(evil.dotr("check", f"r{EVIL}.dotr", f"c{EVIL}.yaml", f"none{EVIL}.dotr"))
    evil.write("b.dotr", f"rule {EVIL} from A")
    clean(evil.dotr("check", "b.dotr"))
    evil.write("b.dlog", f"PREFIX : <http://e/{EVIL}>\n:a(?x, {EVIL}) :- :b(?x) .")
    clean(evil.dotr("check", "b.dlog"))
    evil.write("b.yaml", json.dumps({"name": EVIL, EVIL: 1}))
    clean(evil.dotr("check", "b.yaml"))


@pytest.mark.parametrize("form", ["text", "mermaid", "svg"])
def test_explain_escapes_names(evil: Project, form: str) -> None:
    evil.change(f"r{EVIL}.dotr", "rule R", f'rule R "{EVIL}"')
    again = f'[ SELECT ?x WHERE {{ ?x a :A FILTER (?x != "{EVIL}" && ?x = A.?x) }} ]'
    evil.change(f"r{EVIL}.dotr", "with Out", f"and last B = {again} within 5 s from A\nwith Out")
    clean(evil.dotr("explain", f"r{EVIL}.dotr", "--format", form))


@pytest.mark.parametrize(
    "arguments", [("kb", "info"), ("kb", "build"), ("plan",), ("replay",), ("explain",), ("status",), ("test",), ("new",), ("bundle",)]
)
def test_other_commands_escape_paths(evil: Project, arguments: tuple[str, ...]) -> None:
    evil.write("file", "")
    clean(evil.dotr(*arguments, f"none{EVIL}" if arguments not in {("new",), ("bundle",)} else f"file/{EVIL}"))


def test_kb_info_and_new_escape_paths(evil: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(evil.folder / EVIL))
    evil.write("g.ttl", "@prefix : <http://e/> . :a a :A .")
    evil.change(f"c{EVIL}.yaml", "rules:", "knowledge: { graphs: [g.ttl] }\nrules:")
    clean(evil.dotr("kb", "info", f"c{EVIL}.yaml"))
    clean(evil.dotr("new", f"new{EVIL}"))


def test_plan_and_status_escape_the_checkpoint(evil: Project) -> None:
    folder = f"ck{EVIL}"
    evil.write(f"{folder}/dotr.json", json.dumps({"format": 9, EVIL: EVIL}))
    clean(evil.dotr("status", folder))
    clean(evil.dotr("plan", f"c{EVIL}.yaml", "--set", f"spark.checkpoint={folder}"))


def test_arguments_are_escaped(project: Project) -> None:
    clean(project.dotr("run", "c.yaml", f"--{EVIL}"))
    clean(project.dotr(EVIL))
    clean(project.dotr("run", "c.yaml", "--set", f"{EVIL}=1"))


def test_undecodable_path_is_shown(project: Project) -> None:
    """Bytes of a path outside UTF-8 are escaped, also on a strict output."""
    name = os.fsdecode(b"r\xff.dotr")
    project.write(name, "broken")
    done = subprocess.run([sys.executable, "-m", "dotr", "check", name], capture_output=True, check=False)
    assert (done.returncode, b"r\\udcff.dotr:1:1: " in done.stderr) == (2, True)
    project.write(name, project.read("r.dotr"))
    done = subprocess.run(
        [sys.executable, "-m", "dotr", "explain", name], capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stderr, b"r\\udcff.dotr" in done.stdout) == (0, b"", True)


def test_only_the_terminal_module_prints() -> None:
    """Only `dotr.errors.terminal` writes to standard output and error; progress uses rich's
    console."""
    allowed = {
        "errors/terminal.py": {"print", "stdout", "stderr"},
        "commands/__init__.py": {"stdout"},  # closed if its reader has exited
        "runtimes/monitoring/display.py": {"console"},
        "runtimes/spark/start/session.py": {"stderr"},  # flushed
    }
    for path in DOTR.rglob("*.py"):
        used = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="print")):
                    used.add("print")
                case ast.Call(func=ast.Attribute(attr="print")):
                    used.add("console")
                case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr" as stream):
                    used.add(stream)
                case _:
                    pass
        assert used <= allowed.get(str(path.relative_to(DOTR)), set()), path
