"""Every example of docs/lars.md is a test: by the engine and by the brute force."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from dotr.errors.diagnostics import Severity
from dotr.languages.lars import compile_lars
from dotr.languages.rules import compile_rules
from dotr.layout.lars_units import made_by
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.workbench.check import check
from dotr.workbench.rule_tests import run_tests
from tests.oracle.cases import read_turtle, world
from tests.oracle.isomorphism import canonical
from tests.oracle.temporal import Output
from tests.oracle.units import run_units
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE = (ROOT / "docs" / "lars.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:lars|dotr|ttl))\n")


@dataclass(frozen=True)
class LarsPageExample:
    line: int
    files: dict[str, str]
    test: str

    def write(self, folder: Path) -> Path:
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = folder / "example.yaml"
        path.write_text(self.test, encoding="utf-8")
        return path


def page_examples() -> list[LarsPageExample]:
    found: list[LarsPageExample] = []
    files: dict[str, str] = {}
    for block in BLOCK.finditer(PAGE):
        syntax, text = block.groups()
        if syntax == "yaml":
            found.append(LarsPageExample(PAGE.count("\n", 0, block.start()) + 1, files, text))
            files = {}
        elif named := FILE.match(text):
            files[named[1]] = text
    return found


PARAMETERS = pytest.mark.parametrize("example", page_examples(), ids=lambda example: f"{next(iter(example.files))}:{example.line}")


@PARAMETERS
def test_the_engine_says_so(example: LarsPageExample, tmp_path: Path) -> None:
    outcomes = list(run_tests([str(example.write(tmp_path))]))
    problems = [problem for outcome in outcomes for problem in outcome.problems if problem.severity is Severity.ERROR]
    assert not problems, "\n".join(map(str, problems))
    assert outcomes
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []


@PARAMETERS
def test_the_brute_force_says_so(example: LarsPageExample) -> None:
    data = yaml.safe_load(example.test)
    prefixes: dict[str, str] = data["prefixes"]
    documents = [Document(name, example.files[name]) for name in data["rules"]]
    files = compile_lars([each for each in documents if each.name.endswith(".lars")], prefixes).checked().files
    made = [events for file in files for events in made_by(file)]
    rules = compile_rules([each for each in documents if each.name.endswith(".dotr")], prefixes, units=made).checked()
    known = world(rules, [example.files[name] for name in data.get("knowledge", {}).get("graphs", [])], [], "none", prefixes)
    for case in data["cases"]:
        elements = [("in", Element(each["at"] * 1_000_000, read_turtle(each["graph"], prefixes))) for each in case["stream"]]
        outputs = run_units(known, (), elements, files=files).outputs
        assert sorted(signature(each) for each in outputs) == sorted(expected(each, prefixes) for each in case["expect"])


def signature(output: Output) -> tuple[int, str, str]:
    return output.time, output.event, canonical(output.graph, output.attributes)


def expected(written: dict[str, object], prefixes: dict[str, str]) -> tuple[int, str, str]:
    graph = frozenset(read_turtle(str(written.get("graph", "")), prefixes))
    attributes = {}
    for name, value in dict(written["attributes"]).items():  # type: ignore[call-overload]
        ((_, _, attributes[name]),) = read_turtle(f"<urn:s> <urn:p> {value} .", prefixes)
    at = written["at"]
    assert isinstance(at, int)
    return at * 1_000_000, str(written["event"]), canonical(graph, attributes)


def test_the_files_of_the_page_have_no_error(tmp_path: Path) -> None:
    for example in page_examples():
        path = example.write(tmp_path)
        assert [str(each) for each in check([str(path)]).diagnostics if each.severity is Severity.ERROR] == []


def test_the_city_is_watched_so() -> None:
    outcomes = list(run_tests([str(ROOT / "tests/rules/city-lars.yaml")]))
    assert len(outcomes) == 3
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []
