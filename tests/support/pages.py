"""Examples of pages of the documentation: files of code blocks, and the rule test that follows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from dotr.commands.check.problems import check
from dotr.commands.test.reports import run_tests
from dotr.errors.diagnostics import Severity
from dotr.model.places import Document
from tests.oracle.cases import read_turtle
from tests.oracle.isomorphism import canonical
from tests.oracle.temporal import Output
from tests.support.paths import ROOT

BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE: Final = re.compile(r"# (\S+\.(?:rspql|lars|epsparql|dotr|dlog|ttl))\n")
"""The first line of a block that is a file."""


@dataclass(frozen=True)
class PageExample:
    """A rule test of a documentation page: its line, and the preceding files by name."""

    line: int
    files: dict[str, str]
    test: str

    def write(self, folder: Path) -> Path:
        """Write the files; returns the path of the rule test."""
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = folder / "example.yaml"
        path.write_text(self.test, encoding="utf-8")
        return path

    def documents(self, suffix: str) -> list[Document]:
        """The files of a language among those that the test names."""
        return [Document(name, self.files[name]) for name in yaml.safe_load(self.test)["rules"] if name.endswith(suffix)]


def page_examples(page: str) -> list[PageExample]:
    """The examples of a page of `docs/`."""
    content = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found: list[PageExample] = []
    files: dict[str, str] = {}
    for block in BLOCK.finditer(content):
        syntax, text = block.groups()
        if syntax == "yaml":
            found.append(PageExample(content.count("\n", 0, block.start()) + 1, files, text))
            files = {}
        elif named := FILE.match(text):
            files[named[1]] = text
    return found


def for_each_example(page: str) -> pytest.MarkDecorator:
    """The mark of a test with a parameter `example`."""
    return pytest.mark.parametrize("example", page_examples(page), ids=lambda example: f"{next(iter(example.files))}:{example.line}")


def assert_engine_passes(example: PageExample, folder: Path) -> None:
    """The engine passes the rule test, and its files have no error."""
    outcomes = list(run_tests([str(example.write(folder))]))
    problems = [problem for outcome in outcomes for problem in outcome.problems if problem.severity is Severity.ERROR]
    assert not problems, "\n".join(map(str, problems))
    assert outcomes
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []


def assert_files_have_no_error(page: str, folder: Path) -> None:
    """`dotr check` has no error on any example."""
    for example in page_examples(page):
        path = example.write(folder)
        assert [str(each) for each in check([str(path)]).diagnostics if each.severity is Severity.ERROR] == []


def assert_given(outputs: Sequence[Output], expect: Sequence[dict[str, object]], prefixes: dict[str, str]) -> None:
    """Asserts that the outputs of the oracle are those that a case expects, up to the order within one time."""
    wanted = [_expected(each, [output for output in outputs if output.event == each["event"]], prefixes) for each in expect]
    assert sorted((each.time, each.event, canonical(each.graph, each.attributes)) for each in outputs) == sorted(wanted)


def _expected(written: dict[str, object], outputs: list[Output], prefixes: dict[str, str]) -> tuple[int, str, str]:
    """The signature of an expectation; attributes that it omits are those of the outputs."""
    graph = frozenset(read_turtle(str(written["graph"]), prefixes)) if "graph" in written else frozenset()
    attributes = outputs[0].attributes if outputs and "attributes" not in written else {}
    for name, value in dict(written.get("attributes", {})).items():  # type: ignore[call-overload]
        ((_, _, term),) = read_turtle(f"<urn:s> <urn:p> {value} .", prefixes)
        attributes = {**attributes, name: term}
    at = written["at"]
    assert isinstance(at, int)
    return at * 1_000_000, str(written["event"]), canonical(graph, attributes)
