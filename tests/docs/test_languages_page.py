"""Every example of docs/languages.md is a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dotr.commands.check.problems import check
from dotr.commands.test.reports import run_tests
from dotr.errors.diagnostics import Severity
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.\w+)\n")
BLOCKS = [(syntax, text) for syntax, text in BLOCK.findall(PAGE) if syntax != "text"]
FILES = {named[1]: text for syntax, text in BLOCKS if syntax != "yaml" and (named := FILE.match(text))}
TESTS = [text for syntax, text in BLOCKS if syntax == "yaml"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.partition("[")[2].partition("]")[0])
def test_each_language_gives_the_answer_of_the_page(test: str, folder: Path) -> None:
    path = folder / "example.yaml"
    path.write_text(test, encoding="utf-8")
    outcomes = list(run_tests([str(path)]))
    problems = [problem for outcome in outcomes for problem in outcome.problems if problem.severity is Severity.ERROR]
    assert not problems, "\n".join(map(str, problems))
    assert outcomes
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []
    assert not [each for each in check([str(path)]).diagnostics if each.severity is Severity.ERROR]
