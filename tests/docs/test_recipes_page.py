"""Every recipe of docs/recipes.md is a test, and its program has no error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from dotr.commands.check.problems import check
from tests.support.pages import PageExample, assert_engine_passes, for_each_example, page_examples
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE: Final = "recipes.md"
ONE_CORE: Final = ("D502", "W407")


@for_each_example(PAGE)
def test_the_program_passes_its_test(example: PageExample, tmp_path: Path) -> None:
    assert_engine_passes(example, tmp_path)


@for_each_example(PAGE)
def test_the_program_has_no_warning_but_that_it_runs_on_one_core(example: PageExample, tmp_path: Path) -> None:
    diagnostics = check([str(example.write(tmp_path))]).diagnostics
    assert [str(each) for each in diagnostics if each.code not in ONE_CORE] == []


def test_twenty_recipes_each_with_a_picture_and_in_the_table_of_the_page() -> None:
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    table, *recipes = page.split("\n## ")
    assert len(recipes) == len(page_examples(PAGE)) == 20
    for recipe in recipes:
        assert recipe.count("```text\n") == 1
        title = recipe.partition("\n")[0]
        anchor = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        assert f"(#{anchor})" in table
