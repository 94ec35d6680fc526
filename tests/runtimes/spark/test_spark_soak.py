"""The short form of the soak: three kills, in the live round, which needs the most (`python -m tests.soak` is the long form)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak import Round, torn
from tests.support.victims import Found

pytestmark = pytest.mark.spark


@pytest.mark.fallbacks("restart")
def test_whatever_is_killed_the_output_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    found = Found()
    Round(tmp_path, "live", 200, "local[2]", random.Random(4), found).go(iter(["stateful", "planner", "all"]))
    assert found.problems == []
    assert found.kills == {"stateful": 1, "planner": 1, "all": 1}
    assert found.recoveries > 0
    assert found.starts == 3


def test_what_is_torn_is_seen() -> None:
    assert not torn("a.ndjson", b'{"a": 1}\n')
    assert torn("a.ndjson", b'{"a": 1}\n{"a"')
    assert torn("a.ndjson", b'{"a": 1}\n{"a"\n')
    assert torn("a.trig", b"<e:a> { <e:b> <e:c> \n")
    assert torn("a.nq", b"<e:a> <e:b>\n")
