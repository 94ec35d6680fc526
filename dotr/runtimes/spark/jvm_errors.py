"""What a call to the JVM may raise on the driver, and what it says: also where there is no JVM any more that could be asked."""

from __future__ import annotations

import logging
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from dotr.runtimes.spark.spark_errors import NO_JVM

LOST: Final = (PySparkException, Py4JError, ConnectionError)
"""An error of Spark's, or there is no JVM."""


def words(error: Exception) -> str:
    """What an error says, with what caused it: of that a query's error says nothing itself."""
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return NO_JVM
    try:
        told, cause = str(error), getattr(error, "_cause", None)
    except LOST:
        return NO_JVM
    return told if cause is None else f"{told}\n{words(cause)}"


def silence_py4j(context: SparkContext) -> None:
    """Where the JVM goes, py4j and Spark's accumulators print traces of it, from threads of theirs: a run says it in its own words."""
    root = logging.getLogger()
    if _no_trace not in root.filters:
        root.addFilter(_no_trace)
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _no_trace(record: logging.LogRecord) -> bool:
    return record.msg != "Exception while sending command."
