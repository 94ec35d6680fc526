"""Errors of calls to the JVM on the driver, and their texts, also after the loss of the JVM."""

from __future__ import annotations

import logging
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from dotr.runtimes.spark.exchange.errors import JVM_LOST

JVM_ERRORS: Final = (PySparkException, Py4JError, ConnectionError)
"""Errors of Spark, and of a lost JVM."""


def error_text(error: Exception) -> str:
    """The message of an error and of its cause, which Spark leaves out of the message."""
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return JVM_LOST
    try:
        text, cause = str(error), getattr(error, "_cause", None)
    except JVM_ERRORS:
        return JVM_LOST
    return text if cause is None else f"{text}\n{error_text(cause)}"


def silence_py4j(context: SparkContext) -> None:
    """Suppress the traces that py4j and Spark's accumulators print from their threads when the JVM
    is lost; the run reports the loss itself."""
    root = logging.getLogger()
    if _is_not_py4j_trace not in root.filters:
        root.addFilter(_is_not_py4j_trace)
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _is_not_py4j_trace(record: logging.LogRecord) -> bool:
    return record.msg != "Exception while sending command."
