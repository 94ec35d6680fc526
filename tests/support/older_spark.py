"""Older releases of Spark beside the installed one, for tests of Delta and Iceberg, which have nothing for Spark 4.3.

    python -m tests.support.older_spark [all]     # fetches PySpark 4.2, or 4.1 too (half a minute, 490 MB each, once a machine)

Each is a folder in front of `PYTHONPATH`; dotr and all else are those of the tests. Delta 4.4.0 is for Spark 4.2, on which all of dotr
runs; Iceberg 1.11.0 for Spark 4.1, on which dotr's own source does not. Tried with Spark 4.3.0: Delta appends once, and cannot read a table
(NoSuchMethodError: LogicalRDD); Iceberg loads no catalog (SparkView), nor does it on Spark 4.2.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.maven import FOLDER, jar
from tests.support.paths import ROOT

FOR_DELTA: Final = "4.2.0"
FOR_ICEBERG: Final = "4.1.4"
FETCH: Final = "python -m tests.support.older_spark all"
_DELTA: Final = ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
_ICEBERG: Final = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",)


def fetch(version: str) -> Path:
    """The folder of a PySpark, which appears only once it is complete; raises CalledProcessError."""
    place = FOLDER.parent / f"pyspark-{version}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():  # otherwise another process was first
                with tempfile.TemporaryDirectory(dir=place.parent, prefix="pyspark-") as folder:
                    target = Path(folder) / "packages"
                    packages = (f"pyspark=={version}", "py4j==0.10.9.9")
                    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), *packages]
                    subprocess.run(install, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    target.rename(place)
    return place


def delta(folder: Path) -> dict[str, str]:
    """Spark's configuration with Delta as the catalog of the session, whose tables are in a folder."""
    return {
        "spark.jars": ",".join(str(jar(each)) for each in _DELTA),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder),
        "spark.databricks.delta.snapshotPartitions": "1",  # of 50, with which a commit takes seconds
        "spark.sql.shuffle.partitions": "2",
    }


def iceberg(folder: Path) -> dict[str, str]:
    """Spark's configuration with Iceberg as the catalog `lake` in a folder."""
    return {
        "spark.jars": str(jar(*_ICEBERG)),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder),
    }


def environment(version: str) -> dict[str, str]:
    """The environment of a process with that Spark; where it cannot be had the test is skipped, and fails if CI is set."""
    try:
        place = fetch(version)
    except subprocess.CalledProcessError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"PySpark {version} is missing; it comes by: {FETCH}\n{error.output.decode()[-1000:]}")
    return {**{key: value for key, value in os.environ.items() if key != "SPARK_HOME"}, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}


def run(version: str, arguments: Sequence[str], folder: Path, further: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    """A Python process with that Spark in a folder; `further`: variables of its environment."""
    command, to = [sys.executable, *arguments], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, cwd=folder, env={**environment(version), **further}, text=True, check=False, **to)  # type: ignore[call-overload, no-any-return]


if __name__ == "__main__":
    for each in (FOR_DELTA, FOR_ICEBERG) if "all" in sys.argv else (FOR_DELTA,):
        sys.stdout.write(f"{fetch(each)}\n")
