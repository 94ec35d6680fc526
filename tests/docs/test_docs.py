"""Every example of docs/language.md is a test: by the engine and by the oracle.

An example is what stands between two YAML blocks: files, each a block whose first line is `# name`, and the rule test that ends it.
"""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from dotr.commands.check.problems import check
from dotr.commands.test.reports import run_tests
from dotr.errors.diagnostics import Severity
from tests.oracle.cases import difference, read_cases, read_world
from tests.oracle.program import run
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:dotr|dlog|ttl))\n")


@dataclass(frozen=True)
class Example:
    line: int
    files: tuple[tuple[str, str], ...]
    test: str

    def write(self, folder: Path) -> Path:
        for name, text in self.files:
            (folder / name).write_text(text, encoding="utf-8")
        path = folder / "example.yaml"
        path.write_text(self.test, encoding="utf-8")
        return path


def examples(page: str) -> list[Example]:
    found: list[Example] = []
    files: list[tuple[str, str]] = []
    for block in BLOCK.finditer(page):
        syntax, text = block.groups()
        if syntax == "yaml":
            found.append(Example(page.count("\n", 0, block.start()) + 1, tuple(files), text))
            files = []
        elif named := FILE.match(text):
            files.append((named[1], text))
    return found


EXAMPLES = examples((DOCS / "language.md").read_text(encoding="utf-8"))
PARAMETERS = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.files[-1][0]}:{example.line}")


@PARAMETERS
def test_the_oracle_says_so(example: Example, tmp_path: Path) -> None:
    file = read_cases(example.write(tmp_path))
    rules = [(path.name, path.read_text()) for path in file.rules]
    graphs = [path.read_text() for path in file.graphs]
    datalog = [(path.name, path.read_text()) for path in file.datalog]
    for case in file.cases:
        made = read_world(rules, graphs, datalog, file.entailment, file.prefixes, case.clock)
        result = run(made, case.elements)
        assert not result.decided_by_names
        assert case.expect is None or difference(case.expect, case.compared(made.rules, result.outputs)) == "", case.name
        assert case.facts is None or difference(case.facts, result.facts) == "", case.name


@PARAMETERS
def test_the_engine_says_so(example: Example, tmp_path: Path) -> None:
    outcomes = list(run_tests([str(example.write(tmp_path))]))
    problems = [problem for outcome in outcomes for problem in outcome.problems if problem.severity is Severity.ERROR]
    assert not problems, "\n".join(map(str, problems))
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []


def test_every_construct_has_an_example() -> None:
    text = "\n".join(text for example in EXAMPLES for _, text in example.files)
    constructs = (
        "each",
        "last",
        "first",
        "last 2",
        "first 2",
        "not",
        "between",
        "count(*)",
        "distinct",
        "sum(",
        "avg(",
        "min(",
        "max(",
        "median(",
        "quantile(",
        "stddev(",
        "math:",
        "REGEX(",
        "] between",
        "if",
        "with",
        "consuming",
    )
    for construct in (
        *constructs,
        "query",
        "as",
        "every",
        "for [",
        "delayed by",
        "time(",
        "within [0, 0]",
        "^^xsd:duration",
        "dotr_id",
        "NOT",
        "AGGREGATE",
        "BIND",
    ):
        assert construct in text, construct


def test_every_section_on_the_language_has_a_picture_and_an_example() -> None:
    page = (DOCS / "language.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (?=\d+\. )", page, flags=re.MULTILINE)[1:]
    contents = re.findall(r"^(\d+\. )\[(.*)\]", page, re.MULTILINE)
    assert [section.partition("\n")[0] for section in sections] == [number + title for number, title in contents]
    assert [title for _, title in contents[-2:]] == ["Refused constructs", "Grammar"]
    assert len(sections) >= 17
    for section in sections[:-2]:
        pictures = [text for syntax, text in BLOCK.findall(section) if syntax == "text"]
        assert any(re.search("[─│═]", picture) for picture in pictures), section[:40]
        assert examples(section), section[:40]


def test_the_state_that_the_page_shows_is_what_check_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = (example for example in EXAMPLES if example.files[0][0] == "chain.dotr")
    example.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    (state,) = check(["chain.dotr"]).states
    assert f"```text\n{state}\n```" in (DOCS / "language.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.files[-1][0]}:{example.line}")
def test_no_example_is_warned_of_but_for_what_it_shows(example: Example, tmp_path: Path) -> None:
    found = check([str(example.write(tmp_path))]).diagnostics
    assert {d.code for d in found} <= {"D217", "D502", "D510"}, "\n".join(map(str, found))


def test_the_warning_of_more_rules_is_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = (example for example in EXAMPLES if example.files[0][0] == "more.dotr")
    example.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    checked = check(["more.dotr"])
    (one_core,) = checked.diagnostics
    assert (one_core.code, one_core.message.split(":")[0]) == ("D502", "rule Silence cannot be partitioned and runs on one core")
    assert f"```text\n{checked.states[0]}\n```" in (DOCS / "language.md").read_text(encoding="utf-8")


def test_the_python_of_the_first_steps_prints_what_it_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(DOCS.parent)
    (script,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "first-steps.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(script, {})
    (said,) = re.findall(r"  # (.*)$", script, re.MULTILINE)
    assert capsys.readouterr().out == f"{said}\n"


def test_the_examples_of_the_page_on_python_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    failed, tried = doctest.testfile(str(DOCS / "python.md"), module_relative=False, encoding="utf-8", optionflags=doctest.FAIL_FAST)
    assert (failed, tried > 10) == (0, True)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "docs/first-steps.md", "docs/python.md"])
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`((?:dotr|tests|docs|benchmarks)/[\w./]+)`", text) if "999" not in name}
    assert named
    assert [name for name in sorted(named) if not (DOCS.parent / name).exists()] == []
