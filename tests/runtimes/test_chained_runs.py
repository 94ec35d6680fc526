"""Pipelines in a row, in process: each reads what the one before it publishes. `tests.serve_chain` kills them on Spark."""

from __future__ import annotations

import random
from pathlib import Path

from tests.serve_chain import Chain, run_chain


def test_the_last_pipeline_has_the_events_of_one_run_over_files(tmp_path: Path) -> None:
    chain = Chain(tmp_path, 600, random.Random(2))
    found = run_chain(chain, (), "--engine", "local")
    assert found.problems == []
    assert found.events > 500
