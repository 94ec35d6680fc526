"""The Spark session: defaults below the settings of the user and of spark-submit, and a JVM that
writes to a log file.

The standard error of a JVM started here is written to a file in the checkpoint folder. A JVM
started by spark-submit belongs to the user; only its log level is lowered.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession, types

from dotr.errors.diagnostics import refuse
from dotr.evaluation.files.caches import default_folder, usable_cache
from dotr.evaluation.files.private_files import without_links
from dotr.evaluation.files.stores import Location
from dotr.runtimes.spark.checkpoint.bucket_count import is_allocated_dynamically
from dotr.runtimes.spark.exchange.jvm_errors import JVM_ERRORS, silence_py4j
from dotr.runtimes.spark.start.installation import (
    ClassArchive,
    export_package_path,
    java_version_text,
    spark_home,
    spark_home_at,
    starts_locally,
    unpacked_home,
)

_STATE_STORE: Final = "spark.sql.streaming.stateStore"

# The JVM processes a handful of rows per batch: C2 and a concurrent collector cost more than they
# save.
_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
_OPTIONS: Final = "spark.driver.extraJavaOptions"
DAEMON: Final = "dotr.runtimes.spark.daemon"
_SIMPLIFIED: Final = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"

_AUTHENTICATION_SECONDS: Final = 600
"""Longest wait for the other side when a Python process and the JVM have connected: on a busy
machine it may take longer than Spark's 15 s."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "10",
    _OPTIONS: _JVM,
    "spark.executor.extraJavaOptions": _JVM,
    _SIMPLIFIED: "true",
    "spark.python.authenticate.socketTimeout": f"{_AUTHENTICATION_SECONDS}s",
}

REQUIRED: Final[Mapping[str, str]] = {
    # transformWithState supports no other store.
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}

_LOG: Final = logging.getLogger("dotr")
S3_JAR: Final = "org.apache.hadoop:hadoop-aws:3.5.0"
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_STABLE_SECONDS: Final = (2.0, 10.0)
"""Least and longest wait for another executor after the last one."""
_EXECUTOR_TIMEOUT_SECONDS: Final = 60.0


def start(
    name: str, master: str | None, settings: Mapping[str, str], log: Path, *, archive: bool = False, scheme: str = ""
) -> SparkSession:
    """A session with default settings, overridden by spark-submit and by `settings`.

    The JVM writes to `log`; with `archive`, a JVM started here uses the archive of classes, or
    writes it. `scheme` is that of the checkpoint's URL, empty for a folder. A session of this
    process that is lost is replaced. Raises Refused (S113) without a usable Python for the workers.
    """
    drop_lost_session()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    running = SparkContext._active_spark_context is not None
    own = not submitted and not running
    home = _unpacked_home(settings.get("spark.master", master)) if own else None
    with spark_home_at(home), _stderr_to_log(log, not own):
        if archive and own and _OPTIONS not in settings:
            settings = {**settings, _OPTIONS: f"{_JVM} {archive_options()}".rstrip()}
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(_AUTHENTICATION_SECONDS))  # of this process
        _check_worker_python(os.environ["PYSPARK_PYTHON"])
        if submitted:
            SparkContext._ensure_initialized()
        conf = SparkConf()
        for key, value in {"spark.master": "local[*]", "spark.pyspark.python": sys.executable, **DEFAULTS}.items():
            conf.setIfMissing(key, value)
        conf.setAppName(name)
        if master is not None:
            conf.setMaster(master)
        for key, value in {**settings, **REQUIRED}.items():
            conf.set(key, value)
        if own and conf.get("spark.master", "").partition("[")[0] == "local":
            conf.setIfMissing("spark.python.daemon.module", DAEMON)
        _convert_without_pandas()
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    silence_py4j(session.sparkContext)
    _silence_python()
    export_package_path(session.sparkContext.environment)
    if session.conf.get(_SIMPLIFIED) == "true":
        # Workers with equal environments have one daemon. Spark gives this variable to reading tasks
        # and not to stateful operators, so without it there were two daemons, 0.8 s of CPU each.
        session.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
    if _FILE_MANAGER not in settings and not session.sparkContext.getConf().contains(_FILE_MANAGER):
        _choose_file_manager(session, scheme)
    if "spark.log.level" not in settings:
        session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def reading_session(name: str, master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session to read something with: that of this process, or one that ends with the context,
    and its log with it."""
    before = SparkContext._active_spark_context
    with TemporaryDirectory() as scratch:
        session = start(name, master, settings, Path(scratch) / "spark.log")
        try:
            yield session
        finally:
            if before is None:
                with suppress(*JVM_ERRORS):
                    session.stop()


def drop_lost_session() -> None:
    """Forget the session of this process if its JVM has ended, or has stopped it, so that the next
    start makes a new one. PySpark itself keeps a JVM for as long as the process runs.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    process = getattr(gateway, "proc", None)
    lost = gateway if process is not None and process.poll() is not None else None
    if context is not None and (lost is not None or context._jsc is None or context._jsc.sc().isStopped()):
        if lost is not None:
            context._jsc = None  # there is nothing to stop in it
        context.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None
    if lost is not None:
        lost.proc.stdin.close()
        lost.shutdown_callback_server()
        SparkContext._gateway = SparkContext._jvm = None


def _unpacked_home(master: str | None) -> Path | None:
    """The unpacked copy of Spark's folder (`unpacked_home`); None where Spark's own folder is
    used."""
    home = spark_home()
    if home is None or "SPARK_HOME" in os.environ or not starts_locally(master, home):
        return None
    folder = _cache()
    if folder is None:
        return None
    try:
        return unpacked_home(home, folder / "spark")
    except OSError:  # `archive_options` warns of a cache that cannot be written
        return None


def _cache() -> Path | None:
    """The cache folder to use, with a warning where the user's cannot be trusted; None: there is
    none."""
    named = default_folder()
    if named is None:
        return None
    folder, warning = usable_cache(named)
    if warning is not None:
        _LOG.warning("%s", warning)
    return folder


@cache
def _convert_without_pandas() -> None:
    """Patch PySpark's check for NumPy values so that it loads neither NumPy nor pandas.

    For each argument of a call to the JVM, PySpark calls `pyspark.testing.utils`, which loads
    pandas (0.4 s). The classes of the value tell whether it can be NumPy's; `sys.modules["numpy"]`
    does not, because another thread may be importing it, and then it lacks `ndarray`.
    """
    for converter in (types.NumpyScalarConverter, types.NumpyArrayConverter):
        original = converter.can_convert

        def can_convert(self: object, value: object, original: Callable[..., bool] = original) -> bool:
            return any(each.__module__.partition(".")[0] == "numpy" for each in type(value).__mro__) and original(self, value)

        setattr(converter, "can_convert", can_convert)  # noqa: B010 - mypy takes no assignment to a method


def archive_options() -> str:
    """The options of the JVM for the archive of classes; empty where it cannot be used."""
    home, version, cache_folder = spark_home(), java_version_text(), _cache()
    if home is None or not version or cache_folder is None:
        return ""
    folder = cache_folder / "classes"
    try:
        return ClassArchive(folder, version, home, _JVM).java_options()
    except OSError as error:
        _LOG.warning("Spark starts without an archive of its classes: %s cannot be used: %s", folder, error.strerror or error)
        return ""


def cores(context: SparkContext) -> int:
    """The number of tasks that run at a time.

    The executors of a cluster register one by one after the session has started. The call waits
    until none has registered for two seconds, or for as long as the first one took since the start
    of the session, at most ten seconds: on a busy machine they come further apart. It waits a
    minute at most for the first one, and not at all if `spark.default.parallelism` is set or
    allocation is dynamic.
    """
    if not (is_local(context) or context.getConf().contains("spark.default.parallelism") or is_dynamic(context)):
        executors, began = 0, time.monotonic()
        changed, (stable, longest) = began, _STABLE_SECONDS
        while (now := time.monotonic()) < (changed + stable if executors else began + _EXECUTOR_TIMEOUT_SECONDS):
            registered = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # without the driver
            if registered != executors:
                took = 0.0 if executors else time.time() - context.startTime / 1000
                if stable < took < _EXECUTOR_TIMEOUT_SECONDS:  # otherwise the session is an old one
                    stable = min(took, longest)
                executors, changed = registered, now
            time.sleep(0.1)
        return _task_slots(context)
    return context.defaultParallelism


def slots_of(session: SparkSession) -> int:
    """The number of tasks that run at a time in a session."""
    return cores(session.sparkContext)


def _task_slots(context: SparkContext) -> int:
    """The number of tasks that the executors of a cluster run at a time. Spark's default
    parallelism, which is two even on one core, is returned only where the JVM gives no number."""
    with suppress(*JVM_ERRORS):
        spark = context._jsc.sc()
        slots = int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))
        if slots:
            return slots
    return context.defaultParallelism


def is_dynamic(context: SparkContext) -> bool:
    """True if executors come and go while a query runs."""
    return is_allocated_dynamically(dict(context.getConf().getAll()))


def is_local(context: SparkContext) -> bool:
    """True if executors run in the driver's process."""
    return context.master is None or context.master.partition("[")[0] == "local"


def _check_worker_python(python: str) -> None:
    """Check that the workers' Python exists on the driver's machine too, where the planner runs as
    a worker."""
    if os.sep in python and not os.path.exists(python):
        hint = "It is a path on the driver's machine too: unpack the environment here under the same name, and submit from this folder."
        raise refuse("S113", f"the Python of Spark's workers, PYSPARK_PYTHON={python}, is not in {os.getcwd()}", hint=hint)


_BY_FILE_SYSTEM: Final = [
    f"org.apache.spark.sql.execution.{package}.FileSystemBasedCheckpointFileManager" for package in ("streaming.checkpointing", "streaming")
]
_BY_STREAM: Final = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
_FILE_MANAGERS: Final = {"": _BY_FILE_SYSTEM, "s3": [_BY_STREAM], "s3a": [_BY_STREAM]}


def _choose_file_manager(session: SparkSession, scheme: str) -> None:
    """Configure the class by which Spark writes logs and state changes to a checkpoint.

    - In a folder: Hadoop's FileSystem. Spark's default, FileContext, runs `readlink` for each name
      where Hadoop's native library is missing, as in pyspark: ten processes per small file instead
      of two. Either way a file is put in place by renaming.
    - On S3, where renaming is copying: a stream that is finished or aborted, if the jar
      spark-hadoop-cloud is there.
    - Elsewhere: Spark's default, whose renaming replaces a file, as that of FileSystem on HDFS does
      not.

    A class is in different packages of different releases of Spark; where none has it, the default
    is kept.
    """
    assert SparkContext._jvm is not None
    session.conf.unset(_FILE_MANAGER)  # that of an earlier start in the same session
    for name in _FILE_MANAGERS.get(scheme, ()):
        with suppress(Py4JJavaError):
            SparkContext._jvm.java.lang.Class.forName(name)
            session.conf.set(_FILE_MANAGER, name)
            return


def check_file_system(session: SparkSession, home: Location) -> None:
    """Check that Spark reaches a checkpoint at a URL. Raises Refused (S186) where it does not."""
    from dotr.runtimes.spark.checkpoint.folder import hadoop_name

    assert SparkContext._jvm is not None
    try:
        path = SparkContext._jvm.org.apache.hadoop.fs.Path(hadoop_name(home))
        path.getFileSystem(session._jsc.hadoopConfiguration()).exists(path)
    except Py4JJavaError as error:
        message = str(error.java_exception.getMessage() or error.java_exception.toString()).splitlines()[0]
        why, hint = (
            f"Spark does not reach {home}: {message}",
            "Spark has settings of its own: give them as spark.hadoop.fs.… in spark.conf.",
        )
        if "No FileSystem for scheme" in message or "ClassNotFound" in message:
            why = f"Spark has no file system for {home.scheme}://"
            hint = f"Name its jar, for S3 spark.jars.packages: {S3_JAR}, in spark.conf, or give it to spark-submit."
        raise refuse("S186", why, hint=hint) from None


def _silence_python() -> None:
    """Suppress warnings of Spark's Python part, for example about old libraries; errors are raised
    as exceptions, and what py4j logs as errors are traces of these."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(pyspark|py4j)(\.|$)")


@contextmanager
def _stderr_to_log(log: Path, unchanged: bool) -> Iterator[None]:
    """Redirect standard error to the log file, also for processes started within the context,
    unless `unchanged`."""
    if unchanged:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    file = without_links(str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(file)
