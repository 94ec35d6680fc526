"""docs/configuration.md: made from the schema that is shipped, with a description for every key."""

from __future__ import annotations

import json

import pytest

from dotr.evaluation.expressions.values.times import format_time
from dotr.model.time import Clock, Unit
from dotr.runtimes.pipeline.sections import schema
from tests.support.paths import ROOT
from tools.configuration_page import page

pytestmark = pytest.mark.core

SHIPPED = ROOT / "dotr" / "runtimes" / "pipeline" / "config.schema.json"


def test_page_is_current() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == page(), "python -m tools.configuration_page > docs/configuration.md"


def test_page_is_made_of_the_schema_that_is_shipped() -> None:
    assert SHIPPED.read_text(encoding="utf-8") == schema()


def test_every_key_is_described_and_on_the_page() -> None:
    whole = json.loads(SHIPPED.read_text(encoding="utf-8"))
    text = page()
    for section in (whole, *whole["$defs"].values()):
        assert section["description"]
        for key, described in section["properties"].items():
            assert described.get("description"), key
            assert f"| `{key}` | " in text


def test_page_tells_units_and_cells() -> None:
    text = page()
    assert "A time without a zone is UTC" in text
    assert "**CSV cells**" in text
    assert f"has an ISO 8601 date-time, `{format_time(12_500_000, Clock(Unit.SECOND))}`: that event alone." in text
    for key in ("settle", "idle", "lateness", "trigger"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{key}` |")]
        assert "an integer is in " in line
