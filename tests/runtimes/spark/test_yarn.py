"""A job on YARN in cluster mode, from its bundle alone: its driver is a container, which is killed once; the second attempt goes on.

`python -m tests.yarn_kills` kills more, in both modes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hadoop import Hadoop
from tests.support.submitted import application_of, batches, bundled_fire, containers, expected, kill, submitted, told, until, written

pytestmark = [pytest.mark.spark, pytest.mark.hadoop, pytest.mark.soak]


def test_second_attempt_goes_on_where_the_driver_is_lost(hdfs: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs and the checkpoint are on HDFS."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.yarn()))
    bundle, out = bundled_fire(tmp_path, 240, hdfs.folder("fire"))
    job = submitted(hdfs, bundle, "cluster", "run dotr-job/configs/fire.yaml")
    try:
        application = application_of(bundle)
        until(lambda: job.poll() is not None or batches(out))
        kill(containers(hdfs, application).get("01_000001", []))
        assert job.wait() == 0, told(hdfs, application)
    finally:
        job.kill()
        job.wait()
    assert "_02_000001 stdout" in told(hdfs, application)
    assert batches(out) >= 6
    found = written(out, tmp_path)
    assert found == expected(tmp_path, bundle)
    assert found["fire.ndjson"].count("Fire") > 100
