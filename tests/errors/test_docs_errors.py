"""The page of errors is what the table of codes says, the table has the codes that the program uses, and every example shows its code."""

from __future__ import annotations

import re

import pytest

from dotr.errors.catalogue import CHAPTERS
from dotr.errors.catalogue.entries import ErrorCode
from dotr.workbench.errors_page import page, said
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

GOLDENS = ROOT / "tests" / "errors"
EXPLAINED = [explained for codes in CHAPTERS.values() for explained in codes]


def used() -> set[str]:
    """The codes that stand in the program's text, the table of codes itself apart."""
    files = [path for path in (ROOT / "dotr").rglob("*.py") if "explanations" not in path.parts]
    return {code for path in files for code in re.findall(r'"([A-Z]\d{3})"', path.read_text(encoding="utf-8"))}


def test_every_code_is_explained_once_and_none_that_is_not_used() -> None:
    codes = [explained.code for explained in EXPLAINED]
    assert len(codes) == len(set(codes))
    assert set(codes) == used()


def test_codes_stand_in_the_chapter_of_their_letter_and_in_order() -> None:
    for chapter, codes in CHAPTERS.items():
        assert [explained.code for explained in codes] == sorted(explained.code for explained in codes)
        assert {explained.code[0] for explained in codes} == {chapter[0]}


@pytest.mark.parametrize("explained", EXPLAINED, ids=lambda explained: explained.code)
def test_an_example_shows_its_code(explained: ErrorCode) -> None:
    assert re.search(rf"(^|: ){explained.code} ", said(explained.example, GOLDENS), re.MULTILINE)


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == page(GOLDENS), (
        "python -m dotr.workbench.errors_page > docs/errors.md"
    )
