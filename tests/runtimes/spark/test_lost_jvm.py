"""Loss of Spark's JVM while its session starts: a failure of Spark, after which the same process can start another."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j import clientserver  # type: ignore[import-untyped]
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext

from dotr.runtimes.spark import run
from dotr.runtimes.spark.start.session import drop_lost_session, start
from tests.conftest import Project

pytestmark = pytest.mark.spark
SETTINGS = ("--engine", "spark", "--set", "spark.checkpoint=ck", "--set", "spark.master=local[1]", "--quiet")
LOST = "The run failed: Spark stopped: its JVM was lost: was it killed, or out of memory? (the log is ck/spark.log)"


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("Answer from Java side is empty"), Py4JError("o12.sc")],
    ids=["refused", "network", "call"],
)
def test_loss_at_the_start_is_a_failure_of_spark(error: Exception, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(run, "start", lose)
    answer = project.dotr("run", "c.yaml", *SETTINGS)
    assert (answer.code, answer.err.strip()) == (1, LOST)


def kill_jvm() -> None:
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.kill()
    process.wait()


@pytest.mark.usefixtures("no_spark")
def test_session_of_a_lost_jvm_is_replaced(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM is killed at a call while its session starts; then an idle one."""
    if SparkContext._gateway is not None:  # a JVM of an earlier test, without a session
        kill_jvm()
    send, calls = clientserver.ClientServerConnection.send_command, iter(range(100_000))

    def send_or_kill(connection: Any, command: str) -> Any:
        if next(calls) == 60:
            kill_jvm()
        return send(connection, command)

    monkeypatch.setattr(clientserver.ClientServerConnection, "send_command", send_or_kill)
    answer = project.dotr("run", "c.yaml", *SETTINGS)
    assert (answer.code, answer.err.strip()) == (1, LOST)
    session = start("next", "local[1]", {}, project.folder / "spark.log")
    assert session.range(3).count() == 3
    kill_jvm()
    drop_lost_session()
    assert (SparkContext._gateway, SparkContext._active_spark_context, session._instantiatedSession) == (None, None, None)
