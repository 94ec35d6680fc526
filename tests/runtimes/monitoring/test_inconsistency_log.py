"""Contradictions of equality are logged once a row and property, whatever others there are."""

from __future__ import annotations

import logging

import pytest

from dotr.model.time import Clock
from dotr.runtimes.monitoring.dead_letter_log import WARNINGS_PER_KIND, WarningLimiter

pytestmark = pytest.mark.core


def clash(row: str, prop: str, value: int) -> str:
    return f'{row}: <http://e/x> <http://e/{prop}> "{value}" (instant), <http://e/x> <http://e/{prop}> "0" (instant)'


def test_equality_is_told_once_a_row_and_property(caplog: pytest.LogCaptureFixture) -> None:
    limiter = WarningLimiter()
    texts = [clash("dt-diff", prop, value) for value in range(1, 4) for prop in ("p", "q")]
    texts += [
        f"in a window of W: {clash('dt-diff', 'r', 1)}",
        "eq-diff1: <http://e/x> <http://www.w3.org/2002/07/owl#differentFrom> <http://e/x>",
    ]
    texts += [f"cax-dw: <http://e/{n}> a <http://e/A>" for n in range(WARNINGS_PER_KIND + 2)]
    with caplog.at_level(logging.WARNING, "dotr"):
        for text in texts:
            limiter.report_inconsistency(1, text, Clock())
    told = [record.getMessage() for record in caplog.records]
    assert [sum(f"http://e/{prop}>" in each for each in told) for prop in "pqr"] == [1, 1, 1]
    assert sum("eq-diff1" in each for each in told) == 1
    assert sum("cax-dw" in each for each in told) == WARNINGS_PER_KIND
    assert "only counted" in told[-1]
