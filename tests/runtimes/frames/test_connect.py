"""Events over Spark Connect: a real server of the installed PySpark, on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.standalone import SPARK_HOME, with_archive

pytestmark = pytest.mark.spark

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module")
def remote(_spark_classes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose workers find the package where it is installed."""
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": folder / "tables",
    }
    command = [f"{SPARK_HOME}/bin/spark-submit", "--class", _SERVER, "--master", "local[2]", "--driver-memory", "700m"]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    environment = with_archive(os.environ | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)})
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([*command, "spark-internal"], cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while not _answers(port):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail((folder / "server.log").read_text()[-2_000:])
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_batch_and_stream_over_connect(remote: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK", "PYSPARK"))} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.support.connect_client", remote, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    batch, stream = map(json.loads, done.stdout.splitlines())
    assert batch == stream == [[12, "http://e/a", "70.0"]]
