"""The short soak test: three kills in the live round, the most demanding one (`python -m
tests.soak` is the long form)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak import Round, torn
from tests.support.victims import Found

pytestmark = pytest.mark.spark


@pytest.mark.fallbacks("restart")
def test_output_after_kills_equals_an_undisturbed_run(tmp_path: Path) -> None:
    found = Found()
    Round(tmp_path, "live", 200, "local[2]", random.Random(4), found).go(iter(["stateful", "planner", "all"]))
    assert found.problems == []
    assert found.kills == {"stateful": 1, "planner": 1, "all": 1}
    assert found.recoveries > 0
    assert found.starts == 3


def test_torn_output_is_detected() -> None:
    assert not torn("a.ndjson", b'{"a": 1}\n')
    assert torn("a.ndjson", b'{"a": 1}\n{"a"')
    assert torn("a.ndjson", b'{"a": 1}\n{"a"\n')
    assert torn("a.trig", b"<e:a> { <e:b> <e:c> \n")
    assert torn("a.nq", b"<e:a> <e:b>\n")
