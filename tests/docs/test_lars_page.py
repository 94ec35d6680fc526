"""Every example of docs/lars.md is a test: by the engine and by the brute force."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dotr.commands.test.reports import run_tests
from dotr.languages.lars.reading import compile_lars
from dotr.languages.lars.unit import made_by
from dotr.languages.rules import compile_rules
from dotr.model.stream import Element
from tests.oracle.cases import read_turtle, world
from tests.oracle.units import run_units
from tests.support.pages import PageExample, assert_engine_passes, assert_files_have_no_error, assert_given, for_each_example
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE = "lars.md"


@for_each_example(PAGE)
def test_the_engine_says_so(example: PageExample, tmp_path: Path) -> None:
    assert_engine_passes(example, tmp_path)


@for_each_example(PAGE)
def test_the_brute_force_says_so(example: PageExample) -> None:
    data = yaml.safe_load(example.test)
    prefixes: dict[str, str] = data["prefixes"]
    files = compile_lars(example.documents(".lars"), prefixes).checked().files
    made = [events for file in files for events in made_by(file)]
    rules = compile_rules(example.documents(".dotr"), prefixes, units=made).checked()
    known = world(rules, [example.files[name] for name in data.get("knowledge", {}).get("graphs", [])], [], "none", prefixes)
    for case in data["cases"]:
        assert all("attributes" in each for each in case["expect"])
        elements = [("in", Element(each["at"] * 1_000_000, read_turtle(each["graph"], prefixes))) for each in case["stream"]]
        assert_given(run_units(known, (), elements, files=files).outputs, case["expect"], prefixes)


def test_the_files_of_the_page_have_no_error(tmp_path: Path) -> None:
    assert_files_have_no_error(PAGE, tmp_path)


def test_the_city_is_watched_so() -> None:
    outcomes = list(run_tests([str(ROOT / "tests/rules/city-lars.yaml")]))
    assert len(outcomes) == 3
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []
