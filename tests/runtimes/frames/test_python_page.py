"""The example over DataFrames in docs/python.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_example_of_the_page_runs(spark: None) -> None:
    section = PAGE.read_text().partition("## Over DataFrames of Spark")[2]
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0], names)
    assert [(row.time.timestamp(), row.rule, row.room) for row in names["fires"].collect()] == [
        (12, "R", "http://example.org/building#roomA")
    ]
