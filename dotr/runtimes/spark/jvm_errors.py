"""What a call to the JVM may raise on the driver, and what it says: also where there is no JVM any more that could be asked."""

from __future__ import annotations

import logging
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from dotr.runtimes.spark.spark_errors import JVM_LOST

JVM_ERRORS: Final = (PySparkException, Py4JError, ConnectionError)
"""An error of Spark's, or there is no JVM."""


def error_text(error: Exception) -> str:
    """What an error says, with what caused it: of that a query's error says nothing itself."""
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return JVM_LOST
    try:
        text, cause = str(error), getattr(error, "_cause", None)
    except JVM_ERRORS:
        return JVM_LOST
    return text if cause is None else f"{text}\n{error_text(cause)}"


def silence_py4j(context: SparkContext) -> None:
    """Where the JVM goes, py4j and Spark's accumulators print traces of it, from threads of theirs: a run says it in its own words."""
    root = logging.getLogger()
    if _is_not_py4j_trace not in root.filters:
        root.addFilter(_is_not_py4j_trace)
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _is_not_py4j_trace(record: logging.LogRecord) -> bool:
    return record.msg != "Exception while sending command."
