"""Every example of docs/ep-sparql.md is a test: by the engine and by the brute force."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dotr.commands.check.problems import check
from dotr.commands.test.reports import run_tests
from dotr.errors.diagnostics import Severity
from dotr.languages.epsparql.reading import compile_temporal
from dotr.languages.rules import compile_rules
from dotr.model.stream import Element
from dotr.model.units import UnitEvents
from tests.oracle.cases import read_turtle, world
from tests.oracle.units import run_units
from tests.support.pages import PageExample, assert_engine_passes, assert_files_have_no_error, assert_given, for_each_example
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE = "ep-sparql.md"


@for_each_example(PAGE)
def test_the_engine_says_so(example: PageExample, tmp_path: Path) -> None:
    assert_engine_passes(example, tmp_path)


@for_each_example(PAGE)
def test_the_brute_force_says_so(example: PageExample) -> None:
    data = yaml.safe_load(example.test)
    prefixes: dict[str, str] = data["prefixes"]
    units = compile_temporal(example.documents(".epsparql"), prefixes).checked().units
    events = [UnitEvents(unit.label, unit.attributes, unit.label_span, unit.makes_graphs) for unit in units]
    rules = compile_rules(example.documents(".dotr"), prefixes, units=events).checked()
    known = world(rules, [], [], "none", prefixes)
    for case in data["cases"]:
        elements = [("s", Element(each["at"] * 1_000_000, read_turtle(each["graph"], prefixes))) for each in case["stream"]]
        assert_given(run_units(known, (), elements, temporal=units).outputs, case["expect"], prefixes)


def test_the_files_of_the_page_have_no_error(tmp_path: Path) -> None:
    assert_files_have_no_error(PAGE, tmp_path)


@pytest.mark.parametrize("name", ["city-sequences", "mixed"])
def test_the_city_is_asked_so(name: str) -> None:
    (outcome,) = run_tests([str(ROOT / f"tests/rules/{name}.yaml")])
    assert not outcome.difference
    assert [each for each in outcome.problems if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", ["city-sequences", "mixed"])
def test_the_city_has_no_warning(name: str) -> None:
    assert [str(each) for each in check([str(ROOT / f"configs/{name}.yaml")]).diagnostics if each.code.startswith("E")] == []
