"""Imports of Spark's Python processes: PySpark from its package, dotr before the fork, no pandas."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark")

from dotr.commands import main
from dotr.runtimes.spark.exchange.rows import SparkRow, record_batch
from dotr.runtimes.spark.start import session
from dotr.runtimes.spark.start.installation import spark_home, spark_home_at, starts_locally, unpacked_home
from tests.support.paths import ROOT
from tests.support.victims import processes


def printed(code: str, **environment: str) -> Any:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment or None, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_pyspark_comes_from_the_installed_package(tmp_path: Path) -> None:
    home = spark_home()
    assert home is not None
    made = unpacked_home(home, tmp_path / "spark")
    assert made is not None
    assert (made / "bin" / "spark-submit").is_file()
    assert (made / "jars").is_dir()
    (path,) = (made / "python" / "lib").glob("py4j-*.zip")
    code = "import json, py4j, pyspark; print(json.dumps({m.__name__: [m.__file__, m.__cached__] for m in (py4j, pyspark)}))"
    found = printed(code, PYTHONPATH=f"{made}/python/lib/pyspark.zip:{path}")
    assert found["pyspark"] == [
        f"{made}/python/lib/pyspark.zip/pyspark/__init__.py",
        f"{made}/python/lib/pyspark.zip/pyspark/__pycache__/__init__.{sys.implementation.cache_tag}.pyc",
    ]
    assert str(path) in str(found["py4j"])
    assert unpacked_home(home, tmp_path / "spark") == made
    assert [each.name for each in (tmp_path / "spark").iterdir()] == [made.name]


def test_broken_links_are_made_again(tmp_path: Path) -> None:
    home = spark_home()
    assert home is not None
    made = unpacked_home(home, tmp_path)
    assert made is not None
    (made / "jars").unlink()
    (made / "jars").symlink_to(tmp_path / "gone")
    assert unpacked_home(home, tmp_path) == made
    assert (made / "jars").is_dir()


OTHER: Final = 54_321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")


def plant(made: Path) -> None:
    """A copy that another user has made, whose spark-submit does something else."""
    for name in ("jars", "bin", "python/lib/pyspark.zip/pyspark"):
        (made / name).mkdir(parents=True)
    (made / "bin" / "spark-submit").write_text("#!/bin/sh\necho planted\n")
    (made / "bin" / "spark-submit").chmod(0o755)


@needs_root
@pytest.mark.parametrize("place", ["", "bin", "bin/spark-submit", "jars"])
def test_copy_of_another_user_is_made_again(tmp_path: Path, place: str) -> None:
    home = spark_home()
    assert home is not None
    made = unpacked_home(home, tmp_path)
    assert made is not None
    shutil.rmtree(made)
    plant(made)
    os.chown(made / place, OTHER, OTHER)
    assert unpacked_home(home, tmp_path) == made
    assert (made / "bin").resolve() == home / "bin"
    assert [each.name for each in tmp_path.iterdir()] == [made.name]


@pytest.mark.parametrize("mode", [0o775, 0o777])
@needs_root
def test_cache_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    planted = session._unpacked_home("local")
    assert planted is not None
    assert planted.parent == tmp_path / "cache" / "dotr" / "spark"
    shutil.rmtree(planted)
    plant(planted)
    (tmp_path / "cache" / "dotr").chmod(mode)
    used = session._unpacked_home("local")
    assert used is not None
    assert used.parent == tmp_path / ".cache" / "dotr" / "spark"
    assert session.archive_options() == ""
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"C262 warning: the cache {tmp_path}/cache/dotr is not used, ")
    assert not (tmp_path / "cache" / "dotr" / "classes").exists()
    assert list((tmp_path / ".cache" / "dotr" / "classes").glob("*.mark"))


def test_another_spark_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "python" / "lib").mkdir(parents=True)
    (tmp_path / "python" / "lib" / "pyspark.zip").touch()
    assert unpacked_home(tmp_path, tmp_path / "spark") is None


def test_only_executors_in_the_driver_s_process_get_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert [starts_locally(master, tmp_path) for master in (None, "local", "local[2]", "local-cluster[1,1,1]", "spark://a:1", "yarn")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert not starts_locally(None, tmp_path)


def test_environment_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "/opt/spark"):
        monkeypatch.delenv("SPARK_HOME", raising=False) if before is None else monkeypatch.setenv("SPARK_HOME", before)
        with spark_home_at(tmp_path):
            assert os.environ["SPARK_HOME"] == str(tmp_path)
        assert os.environ.get("SPARK_HOME") == before


DAEMON = """
import json, os, sys
from dotr.runtimes.spark.daemon import import_engine
import_engine()
print(json.dumps({"threads": len(os.listdir("/proc/self/task")), "modules": sorted(sys.modules)}))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux lists them")
def test_nothing_that_starts_threads_is_imported_before_a_fork() -> None:
    found = printed(DAEMON)
    modules = found["modules"]
    assert found["threads"] == 1
    assert {"pandas", "numpy", "pyarrow", "rdflib", "pyspark.worker"}.isdisjoint(modules)
    assert {"dotr.engine.driver", "dotr.runtimes.spark.tasks.stage_one_task", "dotr.runtimes.spark.buckets.worker"} <= set(modules)


@pytest.mark.parametrize("module", ["dotr.runtimes.spark.source", "dotr.runtimes.spark.buckets.operator"])
def test_process_that_spark_starts_for_each_query_imports_no_engine(module: str) -> None:
    """The planner, and the driver's worker of the state."""
    modules = printed(f"import json, sys, {module}; print(json.dumps([*sys.modules]))")
    heavy = (
        "dotr.engine.",
        "dotr.languages.",
        "dotr.instant.",
        "dotr.temporal.matching.rule_search",
        "dotr.evaluation.expressions.compile",
    )
    assert [name for name in modules if name.startswith(heavy)] == []


ROWS = """
import json, sys
from dotr.runtimes.spark.pandas_probe import OWN_WORKERS, suppress_pandas_probe
from dotr.commands import main
from dotr.runtimes.spark.exchange.rows import SparkRow, record_batch
record_batch([SparkRow(1, 2, 3, b"x")])
after_rows = "pandas" in sys.modules
suppress_pandas_probe()
elsewhere = "pyarrow.pandas_compat" in sys.modules or "pandas" in sys.modules
OWN_WORKERS.append(True)
suppress_pandas_probe()
import pyarrow as pa
pa.RecordBatch.from_pylist([{"a": 1}])
answered = "pandas" in sys.modules
import pandas
print(json.dumps([after_rows, elsewhere, answered, pandas.__name__]))
"""


def test_calls_to_the_jvm_load_no_pandas_and_work_while_another_thread_imports_numpy() -> None:
    """A thread that imports NumPy puts an incomplete module into `sys.modules`; an argument of NumPy is converted as PySpark does."""
    converted = (
        "import json, sys, types; from dotr.runtimes.spark.start import session; session._convert_without_pandas()\n"
        "checks = [each().can_convert for each in (session.types.NumpyScalarConverter, session.types.NumpyArrayConverter)]\n"
        "sys.modules['numpy'] = types.ModuleType('numpy')\n"
        "found = [check(value) for check in checks for value in ('text', 1, None, [1])]\n"
        "found.append('pandas' in sys.modules)\n"
        "del sys.modules['numpy']; import numpy\n"
        "found += [check(value) for check in checks for value in (numpy.int64(1), numpy.array([1]))]\n"
        "print(json.dumps(found))"
    )
    assert printed(converted) == [False] * 9 + [True, False, False, True]


def test_rows_load_no_pandas() -> None:
    assert printed(ROWS) == [False, False, False, "pandas"]


@pytest.mark.parametrize("payloads", [[], [b""], [b"ab", b"", b"\x00\xff"]])
def test_rows_are_those_of_the_batch(payloads: list[bytes]) -> None:
    rows = [SparkRow(-(1 << 63) + number, number, (1 << 62) - number, payload) for number, payload in enumerate(payloads)]
    batch = record_batch(rows)
    assert [SparkRow(**row) for row in batch.to_pylist()] == rows
    batch.validate(full=True)
    assert str(batch.schema).split("\n") == ["key: int64", "kind: int32", "time: int64", "payload: binary"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_reading_tasks_and_stateful_operators_share_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two daemons of a JVM have environments that differ in nothing but what Spark gives to some workers."""
    from pyspark import SparkContext

    monkeypatch.chdir(tmp_path)
    Path("r.dotr").write_text(
        "PREFIX : <http://e/>\nrule R define Out = [ [] :x ?x ] from A = [ SELECT ?x { ?s :v ?x } ]\n"
        "and last B = [ SELECT ?y { ?s :v ?y } ] within 9 s from A with Out.?x = A.?x\n"
    )
    Path("a.ndjson").write_text("".join(f'{{"time": {at}, "graph": "[] <http://e/v> {at} ."}}\n' for at in range(9)))
    Path("c.yaml").write_text(
        "name: small\nrules: [r.dotr]\ninput: [{ name: a, format: ndjson, path: a.ndjson }]\noutput: [{ path: out }]\n"
        "dead_letter: dead\nspark: { master: 'local[2]', checkpoint: ck }\n"
    )
    assert main(["run", "c.yaml", "--engine", "spark", "--quiet"]) == 0
    assert any(path.stat().st_size for path in Path("out").glob("*.ndjson"))
    jvm = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
    own = {
        pid
        for pid, (parent, words) in processes(os.getsid(0)).items()
        if parent == jvm and words[-2:] == [session.DAEMON, "pyspark.worker"]
    }
    assert own
    told = [Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in own]
    varied = (b"PYTHON_WORKER_FACTORY_SECRET=", b"SPARK_SIMPLIFIED_TRACEBACK=")
    environments = [frozenset(each for each in found if not each.startswith(varied)) for found in told]
    assert len(set(environments)) == len(own)
