"""Checks at the start of a query over DataFrames: the settings of its session, and the checkpoint
that it continues.

What a session says is known where the plan is made. What Spark keeps in a checkpoint is known to
its tasks alone: the number of partitions, and the state, which has a digest of the rules that made
it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from dotr.errors.diagnostics import ArgumentRefused, Diagnostic, Refused, refuse
from dotr.model.time import Micros, Unit
from dotr.runtimes.frames.reading import RowSource
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics, encode_diagnostics
from dotr.runtimes.spark.start.installation import export_package_path
from dotr.streams.times import parse_delay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dotr.engine.program import CompiledProgram
    from dotr.runtimes.spark.exchange.job import Job
    from dotr.temporal.layout.layers import Layout

PARTITIONS: Final = "spark.sql.shuffle.partitions"
_OF_CHECKPOINT: Final = "spark.sql.streaming.internal.stateStore.partitions"
"""The setting by which Spark tells its tasks the number of partitions that a checkpoint has."""
_STORE: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKS: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DELAY: Final = "spark.watermarkDelayMs"
"""The key in the metadata of a column that has a watermark."""
_POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"


def check_session(session: SparkSession, streams: int) -> None:
    """Check the settings of the session of streaming DataFrames, of which there are `streams`; raises
    ArgumentRefused."""
    problems: list[Diagnostic] = []
    store = session.conf.get(_STORE, "")
    if (store or "").rpartition(".")[2] != _ROCKS.rpartition(".")[2]:
        hint = f'Set it before the query starts: spark.conf.set("{_STORE}", "{_ROCKS}").'
        problems.append(Diagnostic("C295", f"streams need the state store RocksDB, and {_STORE} is {store}", None, hint))
    policy = _policy_problem(session.conf.get(_POLICY, "min"), streams)
    if policy is not None:
        problems.append(policy)
    if problems:
        raise ArgumentRefused(problems)


def _policy_problem(policy: str | None, streams: int) -> Diagnostic | None:
    """The problem of the policy of the watermarks of some streams; None: there is none."""
    if streams == 1 or (policy or "min").lower() == "min":
        return None
    hint = (
        f'Set it before the query starts: spark.conf.set("{_POLICY}", "min"). A checkpoint keeps it: begin with a new checkpointLocation.'
    )
    why = f"{_POLICY} is {policy}: an instant would close before the slower of {streams} streams has passed it"
    return Diagnostic("C295", why, None, hint)


def share_package(session: SparkSession) -> None:
    """Give the Python workers of the driver's machine the place of the package, before the functions
    of a query are made. Those of Spark Connect are its server's, which has the package."""
    with suppress(AttributeError):  # PySpark's own is one
        export_package_path(session.sparkContext.environment)


def own_watermark(df: DataFrame, source: RowSource, clock: str | None) -> bool:
    """True if a streaming DataFrame has a watermark already, of the column of the times, which then
    stands for `lateness`: Spark permits one. Raises ArgumentRefused where it does not fit."""
    for field in df.schema.fields:
        delay = field.metadata.get(_DELAY)
        if delay is None:
            continue
        shown = f"{source.name} has a watermark of its column {field.name}, {delay / 1_000:g} s behind it"
        hint = "Leave withWatermark out: Stream(…, lateness=…) makes the watermark."
        if source.time != (field.name,):
            raise ArgumentRefused([Diagnostic("C295", f"{shown}, and its times are in {'.'.join(source.time)}", None, hint)])
        if source.lateness not in (0, delay * Unit.MILLISECOND.value):
            raise ArgumentRefused([Diagnostic("C295", f"{shown}, and lateness is {source.lateness / Unit.SECOND.value:g} s", None, hint)])
        if clock is not None:
            raise ArgumentRefused([Diagnostic("C295", f"{shown}, which a clock cannot move", None, hint)])
        return True
    return False


def clock_delay(clock: str, sources: Sequence[RowSource], *, is_batch: bool) -> Micros:
    """The time (µs) by which heartbeats follow the machine's; raises ArgumentRefused.

    >>> clock_delay("10 s", [RowSource("readings", None, 0, "turtle")], is_batch=False)
    10000000
    >>> clock_delay("10 s", [RowSource("readings", None, 60_000_000, "turtle")], is_batch=False)
    Traceback (most recent call last):
    dotr.errors.diagnostics.ArgumentRefused: C204 clock is 10 s, and readings has a lateness of 60 s
    A clock is at least the greatest lateness, of whose elements none would be taken otherwise.
    """
    try:
        delay = parse_delay(clock)
    except (TypeError, ValueError) as error:
        raise ArgumentRefused([Diagnostic("C203", f"clock: {error}", None, 'Write a duration: clock="10 s".')]) from None
    if is_batch:
        hint = "Leave clock out: everything closes at the end of batch DataFrames."
        raise ArgumentRefused([Diagnostic("C204", "clock is for streaming DataFrames", None, hint)])
    longest = max(sources, key=lambda source: source.lateness)
    if longest.lateness > delay:
        hint = "A clock is at least the greatest lateness, of whose elements none would be taken otherwise."
        why = f"clock is {clock}, and {longest.name} has a lateness of {longest.lateness / Unit.SECOND.value:g} s"
        raise ArgumentRefused([Diagnostic("C204", why, None, hint)])
    return delay


def check_query(job: Job, streams: int = 1) -> None:
    """Check, in a task of an operator, what a query has of its checkpoint, or set since the plan: as
    many partitions as the plan has keys for, and the policy of its watermarks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:  # the driver reads the schema of the state
        return
    number = context.getLocalProperty(_OF_CHECKPOINT) or context.getLocalProperty(PARTITIONS)
    if number is not None and int(number) != job.partitions:
        hint = f'Write spark.conf.set("{PARTITIONS}", {number}) before events(…), or begin with a new checkpointLocation.'
        raise carried(refuse("C296", f"the plan is made for {job.partitions} partitions, and the query has {number}", hint=hint))
    problem = _policy_problem(context.getLocalProperty(_POLICY), streams)
    if problem is not None:
        raise carried(Refused([problem]))


def state_digest(program: CompiledProgram, layout: Layout) -> str:
    """A digest of the rules that a program's state depends on in a layout."""
    from dotr.engine.state.schema import state_schema

    written = json.dumps(state_schema(program, layout, knowledge="-").to_json(), sort_keys=True, default=str)
    return blake2b(written.encode(), digest_size=16).hexdigest()


def changed_rules() -> CarriedDiagnostics:
    """The error of a checkpoint whose state other rules have made."""
    hint = "Go on with the program as it was, or begin with a new checkpointLocation."
    return carried(refuse("C296", "the checkpoint has the state of other rules", hint=hint))


def carried(refused: Refused) -> CarriedDiagnostics:
    """A refusal in a task of Spark: its text for readers, and encoded for `dotr run`."""
    return CarriedDiagnostics(f"{refused}\n{encode_diagnostics(refused)}")
