"""Checkpoints in forms that are no longer read: they are refused with a reason and a way out, and left unchanged."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.errors.diagnostics import Refused
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.run import run_spark
from tests.support.stored_checkpoints import FOLDER

pytestmark = pytest.mark.core


def test_checkpoint_with_queries_stored_as_one_value_is_refused(tmp_path: Path) -> None:
    """The folder has a finished run of a continuous query, whose state is one value of the whole program."""
    with tarfile.open(FOLDER / "older" / "queries-as-one-value.tar.xz") as packed:
        packed.extraction_filter = tarfile.data_filter if hasattr(tarfile, "data_filter") else None  # since 3.11.4
        packed.extractall(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "ck").rglob("*") if path.is_file()}
    pipeline = build(read_config(str(tmp_path / "c.yaml")), fresh=False, on_spark=True)
    with pytest.raises(Refused) as refused:
        run_spark(pipeline, lambda totals: None)
    (problem,) = refused.value.diagnostics
    assert problem.code == "S134"
    assert problem.message.endswith("ck keeps the state of a program with queries as one value, which is not read any more")
    assert "--fresh" in (problem.hint or "")
    assert {path: path.read_bytes() for path in (tmp_path / "ck").rglob("*") if path.is_file()} == before
