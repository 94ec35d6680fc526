"""Every example of docs/ep-sparql.md is a test: by the engine and by the brute force."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dotr.errors.diagnostics import Severity
from dotr.languages.epsparql import compile_temporal
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.units import UnitEvents
from dotr.workbench.check import check
from dotr.workbench.rule_tests import run_tests
from tests.docs.test_continuous_page import BLOCK, PageExample, expected, signature
from tests.oracle.cases import read_turtle, world
from tests.oracle.units import run_units
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE = (ROOT / "docs" / "ep-sparql.md").read_text(encoding="utf-8")
FILE = re.compile(r"# (\S+\.(?:epsparql|dotr))\n")


def page_examples() -> list[PageExample]:
    found: list[PageExample] = []
    files: dict[str, str] = {}
    for block in BLOCK.finditer(PAGE):
        syntax, text = block.groups()
        if syntax == "yaml":
            found.append(PageExample(PAGE.count("\n", 0, block.start()) + 1, files, text))
            files = {}
        elif named := FILE.match(text):
            files[named[1]] = text
    return found


PARAMETERS = pytest.mark.parametrize("example", page_examples(), ids=lambda example: f"{next(iter(example.files))}:{example.line}")


@PARAMETERS
def test_the_engine_says_so(example: PageExample, tmp_path: Path) -> None:
    outcomes = list(run_tests([str(example.write(tmp_path))]))
    problems = [problem for outcome in outcomes for problem in outcome.problems if problem.severity is Severity.ERROR]
    assert not problems, "\n".join(map(str, problems))
    assert outcomes
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []


@PARAMETERS
def test_the_brute_force_says_so(example: PageExample) -> None:
    data = yaml.safe_load(example.test)
    prefixes: dict[str, str] = data["prefixes"]
    documents = [Document(name, example.files[name]) for name in data["rules"]]
    units = compile_temporal([each for each in documents if each.name.endswith(".epsparql")], prefixes).checked().units
    events = [UnitEvents(unit.label, unit.attributes, unit.label_span, unit.makes_graphs) for unit in units]
    rules = compile_rules([each for each in documents if each.name.endswith(".dotr")], prefixes, units=events).checked()
    known = world(rules, [], [], "none", prefixes)
    for case in data["cases"]:
        elements = [("s", Element(each["at"] * 1_000_000, read_turtle(each["graph"], prefixes))) for each in case["stream"]]
        outputs = run_units(known, (), elements, temporal=units).outputs
        assert sorted(signature(each) for each in outputs) == sorted(
            expected(each, [output for output in outputs if output.event == each["event"]], prefixes) for each in case["expect"]
        )


def test_the_files_of_the_page_have_no_error(tmp_path: Path) -> None:
    for example in page_examples():
        path = example.write(tmp_path)
        assert [str(each) for each in check([str(path)]).diagnostics if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", ["city-sequences", "mixed"])
def test_the_city_is_asked_so(name: str) -> None:
    (outcome,) = run_tests([str(ROOT / f"tests/rules/{name}.yaml")])
    assert not outcome.difference
    assert [each for each in outcome.problems if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", ["city-sequences", "mixed"])
def test_the_city_has_no_warning(name: str) -> None:
    assert [str(each) for each in check([str(ROOT / f"configs/{name}.yaml")]).diagnostics if each.code.startswith("E")] == []
