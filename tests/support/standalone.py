"""The environment of commands that are run as a user would: Spark listens on loopback, and no variable leads to the package."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

from tests.support.class_archive import archive_option

SPARK_HOME: Final = Path(pyspark.__file__).parent


def clean_environment(further: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment of this process, bound to loopback and without variables that lead to the package."""
    dropped = ("PYTHONPATH", "XDG_CACHE_HOME", "SPARK_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("PYSPARK_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), **further}


def with_archive(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which every JVM uses the archive of classes. It is for masters, workers, executors and spark-submit: a run of the
    command itself finds the archive in its cache."""
    return {**environment, "JAVA_TOOL_OPTIONS": f"-XX:TieredStopAtLevel=1 {archive_option()}".rstrip()}
