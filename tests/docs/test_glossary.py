"""The glossary of dotr/ARCHITECTURE.md: one entry a word, and each type that it names exists."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.support.paths import ROOT
from tools.measures import GLOSSARY

pytestmark = pytest.mark.core

ENTRY: Final = re.compile(r"^\| ([^|`]+) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)
TYPE: Final = re.compile(r"^(?:class )?([A-Z]\w*)(?:[(:[]|: TypeAlias)", re.MULTILINE)


def entries() -> list[tuple[str, str, str]]:
    text = (ROOT / "dotr/ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition("## Glossary\n")[2].partition("\n## ")[0]
    return [(word, meaning, place) for word, meaning, place in ENTRY.findall(section) if word not in ("word", "---")]


def test_each_word_has_one_entry() -> None:
    words = [word for word, _, _ in entries()]
    assert words == sorted(set(words))
    assert set(GLOSSARY) <= set(words)


def test_each_type_and_each_file_that_it_names_is_there() -> None:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "dotr").rglob("*.py"))
    types = {name for text in texts for name in TYPE.findall(text)}
    named = {name for _, meaning, place in entries() for name in re.findall(r"`([\w/.]+)`", place)}
    assert [name for name in sorted(named) if name not in types and not (ROOT / "dotr" / name).exists()] == []
