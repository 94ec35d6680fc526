"""Every example of docs/continuous.md is a test: by the engine and by the brute force."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dotr.commands.test.reports import run_tests
from dotr.languages.continuous.reading import compile_continuous, events_of
from dotr.languages.rules import compile_rules
from dotr.model.stream import Element
from tests.oracle.cases import read_turtle, world
from tests.oracle.units import run_units
from tests.support.pages import PageExample, assert_engine_passes, assert_files_have_no_error, assert_given, for_each_example
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE = "continuous.md"


@for_each_example(PAGE)
def test_the_engine_says_so(example: PageExample, tmp_path: Path) -> None:
    assert_engine_passes(example, tmp_path)


@for_each_example(PAGE)
def test_the_brute_force_says_so(example: PageExample) -> None:
    data = yaml.safe_load(example.test)
    prefixes: dict[str, str] = data["prefixes"]
    queries = compile_continuous(example.documents(".rspql"), prefixes).checked().queries
    rules = compile_rules(example.documents(".dotr"), prefixes, units=events_of(queries)).checked()
    knowledge = data.get("knowledge", {})
    datalog = [(name, "PREFIX : <http://example.org/>\n" + example.files[name]) for name in knowledge.get("datalog", [])]
    known = world(rules, [example.files[name] for name in knowledge.get("graphs", [])], datalog, "none", prefixes)
    made = {name for query in queries if query.makes_graphs for name in (query.name, query.label)}
    (stream,) = {window.stream for query in queries for window in query.windows} - made
    for case in data["cases"]:
        elements = [(stream, Element(each["at"] * 1_000_000, read_turtle(each["graph"], prefixes))) for each in case["stream"]]
        assert_given(run_units(known, queries, elements).outputs, case["expect"], prefixes)


def test_the_files_of_the_page_have_no_error(tmp_path: Path) -> None:
    assert_files_have_no_error(PAGE, tmp_path)


def test_the_city_is_asked_so() -> None:
    outcomes = list(run_tests([str(ROOT / "tests/rules/city-queries.yaml")]))
    assert len(outcomes) == 2
    assert [outcome.difference for outcome in outcomes if outcome.difference] == []
