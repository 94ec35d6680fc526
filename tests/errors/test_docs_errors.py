"""The catalogue of error codes: docs/errors.md is current, codes are complete, examples show theirs."""

from __future__ import annotations

import re

import pytest

from dotr.errors.catalogue.entries import ErrorCode
from dotr.languages.registry import chapters
from tests.support.paths import ROOT
from tools.errors_page import message_of, page

pytestmark = pytest.mark.core

GOLDENS = ROOT / "tests" / "errors"
ENTRIES = [entry for codes in chapters().values() for entry in codes]


def used_codes() -> set[str]:
    """The codes in the source text of dotr, without the catalogue."""
    files = [path for path in (ROOT / "dotr").rglob("*.py") if "catalogue" not in path.with_suffix("").parts]
    return {code for path in files for code in re.findall(r'"([A-Z]\d{3})"', path.read_text(encoding="utf-8"))}


def test_catalogue_has_every_used_code_once() -> None:
    codes = [entry.code for entry in ENTRIES]
    assert len(codes) == len(set(codes))
    assert set(codes) == used_codes()


def test_chapter_has_codes_of_its_letter_in_order() -> None:
    for chapter, codes in chapters().items():
        assert [entry.code for entry in codes] == sorted(entry.code for entry in codes)
        assert {entry.code[0] for entry in codes} == {chapter[0]}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_example_shows_its_code(entry: ErrorCode) -> None:
    assert re.search(rf"(^|: ){entry.code} ", message_of(entry.example, GOLDENS), re.MULTILINE)


def test_page_is_current() -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == page(GOLDENS), "python -m tools.errors_page > docs/errors.md"
