"""The short soak test: three kills in the middle of batches, and one of the planner, in the live round, the most demanding one (`python -m
tests.soak` is the long form)."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.soak import Round, torn
from tests.support.victims import AMID, Found, Phase, batch_phase

pytestmark = pytest.mark.spark


@pytest.mark.fallbacks("restart")
def test_output_after_kills_equals_an_undisturbed_run(tmp_path: Path) -> None:
    """The program has all four languages, and its state is in three buckets. All processes at once are killed in test_mixed_city.py."""
    who = ["worker", "planner", "driver", "jvm"]
    found = Found()
    Round(tmp_path, "live", 200, "local[2]", random.Random(4), found, AMID).go(iter(who))
    assert found.problems == []
    assert [kill.who for kill in found.kills] == who
    assert all(kill.phase in AMID for kill in found.kills)
    assert found.recoveries > 0
    assert found.starts == 3, "the first, one after the driver, and one after the JVM, which reads to the end"


@pytest.mark.parametrize(
    ("files", "phase"),
    [
        ([], (-1, Phase.BETWEEN)),
        (["c/query/offsets/0"], (0, Phase.TASKS)),
        (["c/query/offsets/0", "c/query/state/0/2/.1.changelog.x.tmp"], (0, Phase.STATE)),
        (["c/query/offsets/0", "c/query/state/0/2/11.changelog"], (0, Phase.TASKS)),
        (["c/query/offsets/0", "c/query/state/0/2/1.changelog", "o/.000000000000.ndjson.tmp"], (0, Phase.OUTPUT)),
        (["c/query/offsets/0", "c/query/offsets/.1.x.tmp", "c/query/commits/0", "o/000000000000.ndjson"], (0, Phase.BETWEEN)),
        (["c/query/offsets/9", "c/query/offsets/10", "c/query/commits/9", "c/query/state/0/0/10.changelog"], (10, Phase.TASKS)),
        (["c/query/offsets/10", "c/query/commits/9", "c/query-2/state/1/0/11.changelog"], (10, Phase.STATE)),
    ],
)
def test_phase_of_a_batch(tmp_path: Path, files: list[str], phase: tuple[int, Phase]) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert batch_phase(tmp_path / "c", [tmp_path / "o"]) == phase


def test_files_of_an_earlier_try_show_no_phase(tmp_path: Path) -> None:
    for name in ("c/query/offsets/0", "c/query/state/0/0/1.changelog", "o/000000000000.ndjson"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert batch_phase(tmp_path / "c", [tmp_path / "o"], time.time() + 60) == (0, Phase.TASKS)


def test_torn_output_is_detected() -> None:
    assert not torn("a.ndjson", b'{"a": 1}\n')
    assert torn("a.ndjson", b'{"a": 1}\n{"a"')
    assert torn("a.ndjson", b'{"a": 1}\n{"a"\n')
    assert torn("a.trig", b"<e:a> { <e:b> <e:c> \n")
    assert torn("a.nq", b"<e:a> <e:b>\n")
