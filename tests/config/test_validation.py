"""Validation of documents against sections: types, bounds, and all problems at once."""

from __future__ import annotations

from typing import Literal

import pytest

from dotr.config import Field, Section, read_tree, validated
from dotr.errors.diagnostics import Refused
from dotr.model.places import Document

pytestmark = pytest.mark.core


class InnerSection(Section):
    size: int = Field(gt=0, le=9)


class OuterSection(Section):
    name: str = Field(min_length=1)
    kind: Literal["a", "b"] = "a"
    flag: bool = False
    limit: int | str | None = None
    begin: int = Field(key="from", default=0)
    inner: list[InnerSection] | InnerSection = Field(default=[])
    words: dict[str, str | int] = Field(default={})


def read(text: str) -> OuterSection:
    tree = read_tree(Document("o.yaml", text))
    return validated(OuterSection, tree.data, tree)


def problems(text: str) -> list[str]:
    with pytest.raises(Refused) as refused:
        read(text)
    return [f"{problem.code} {problem.message} {problem.hint}".rstrip() for problem in refused.value.diagnostics]


def test_values_and_defaults() -> None:
    outer = read("{ name: x, from: 3, inner: [ { size: 4 } ], words: { k: 1 } }")
    assert (outer.name, outer.kind, outer.flag, outer.limit, outer.begin, outer.words) == ("x", "a", False, None, 3, {"k": 1})
    assert isinstance(outer.inner, list)
    assert outer.inner[0].size == 4
    assert (outer.is_given("begin"), outer.is_given("kind")) == (True, False)
    inner = read("{ name: x, inner: { size: 4 } }").inner
    assert isinstance(inner, InnerSection)
    with pytest.raises(AttributeError):
        outer.name = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", ["C202 name is missing Add it."]),
        ("[]", ["C203 should be a mapping Write key: value, a line each."]),
        ("{ name: '' }", ["C203 name is empty Write what it is to be."]),
        ("{ name: 3 }", ['C203 name should be text Put it in quotes: "…".']),
        ("name:", ["C203 name is empty It should be text."]),
        ("{ name: x, kind: bb }", ["C203 kind should be a or b Did you mean b?"]),
        ("{ name: x, flag: 1 }", ["C203 flag should be true or false"]),
        ("{ name: x, limit: 1.5 }", ["C203 limit should be a whole number"]),
        ("{ name: x, limit: true }", ["C203 limit should be a whole number"]),
        ("{ name: x, begin: 1 }", ["C201 unknown key begin Known here: name, kind, flag, limit, from, inner, words."]),
        ("{ name: x, form: 1 }", ["C201 unknown key form Did you mean from?"]),
        ("{ name: x, inner: { size: 0 } }", ["C203 inner.size cannot be used: input should be greater than 0"]),
        ("{ name: x, inner: [ { size: 10 } ] }", ["C203 inner.0.size cannot be used: input should be less than or equal to 9"]),
        ("{ name: x, inner: 1 }", ["C203 inner should be a list Write [ … ] around it."]),
        ("{ name: x, words: { k: [] } }", ['C203 words.k should be text Put it in quotes: "…".']),
        ("{ inner: [ 1, {} ], kind: c }", 4),
    ],
)
def test_problems(text: str, expected: list[str] | int) -> None:
    found = problems(text)
    assert (len(found) if isinstance(expected, int) else found) == expected
