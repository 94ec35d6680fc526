"""The number of tasks of a job on a cluster, whose executors register one by one."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from dotr.runtimes.spark.start import session

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("age", "registers", "found", "waited"),
    [
        (0.0, [1.0, 2.0], 2, 4.0),
        (0.0, [1.0, 3.5], 1, 3.0),  # the first one came within a second, so that the other one is late
        (1.0, [4.0, 8.5], 2, 13.5),  # the first one took five seconds
        (20.0, [1.0, 8.0, 19.5], 2, 18.0),  # ten at most
        (900.0, [0.0], 1, 2.0),  # a session that has run before
    ],
)
def test_executors_are_waited_for_as_long_as_the_first_one_took(
    age: float, registers: list[float], found: int, waited: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    time = MagicMock(monotonic=lambda: now, time=lambda: now + 1_000, sleep=sleep)
    context: Any = MagicMock(master="spark://host:7077", startTime=1_000 * (1_000 - age))
    context.getConf().contains.return_value = False
    context._jsc.sc().getExecutorMemoryStatus().size = lambda: 1 + sum(each <= now for each in registers)
    monkeypatch.setattr(session, "time", time)
    monkeypatch.setattr(session, "is_local", lambda context: False)
    monkeypatch.setattr(session, "is_dynamic", lambda context: False)
    monkeypatch.setattr(session, "_task_slots", lambda context: sum(each <= now for each in registers))
    assert (session.cores(context), round(now)) == (found, round(waited))
