"""The archive of the classes that Spark's JVM loads, which all runs of the tests share.

A JVM that loads its classes from the jars takes 17 s of CPU until a short run has ended, and 10 s with the archive. Each run of the tests
has new cache folders, in which the third run on Spark at the earliest would have one. So it is made once a checkout (50 s of CPU), is kept
there, and each cache folder gets a link to it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from dotr.evaluation.files.trust import distrust, make_folder
from dotr.runtimes.spark.start.installation import ClassArchive, java_version_text, spark_home, unpacked_home
from dotr.runtimes.spark.start.session import _JVM
from tests.support.paths import ROOT

KEPT: Final = ROOT / ".spark_classes"
"""The cache folder in which the archive is made and kept."""
RUN: Final = "import sys; from dotr.commands import main; sys.exit(main())\n"
RULES: Final = """\
PREFIX : <http://e/>
query A = [ SELECT ?x { ?s :v ?x } ]
rule R define Out = [ [] :x ?x ; :y ?y ] from A and last A as B within 9 s from A with Out.?x = A.?x, Out.?y = B.?x
rule S define Above = [ [] :x ?x ] from Out and last Out as Old [ FILTER(?y = Out.?y) ] within 9 s from Out with Above.?x = Out.?x
"""
CONFIG: Final = """\
name: classes
prefixes: { "": "http://e/" }
rules: [r.dotr]
input: [{ name: a, format: ndjson, path: a.ndjson }]
output: [{ path: out }]
dead_letter: dead
spark: { master: "local[2]", checkpoint: ck, batch: 9 }
"""


def share_classes(cache: Path) -> None:
    """Put a link to the archive into a cache folder, the value of XDG_CACHE_HOME.

    Nothing is done where other users can write to the checkout, since no run would use the archive.
    """
    make_folder(KEPT)
    if distrust(KEPT) is not None:
        return
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = _archive_in(KEPT)
        options = kept.java_options()
        if not options:  # the mark of a first run
            options = kept.java_options()
        if not kept.file.exists():
            _write(options)
            assert str(kept.file) in kept.java_options()
    own = _archive_in(cache).file
    if not own.exists():
        own.parent.mkdir(parents=True, exist_ok=True)
        own.symlink_to(kept.file)
        own.with_suffix(".length").symlink_to(kept.file.with_suffix(".length"))


def archive_option() -> str:
    """The option of a JVM that uses the archive, silently without one."""
    file = _archive_in(KEPT).file
    return f"-XX:SharedArchiveFile={file} -Xlog:cds=off -Xlog:cds+dynamic=off" if file.exists() else ""


def _home_in(cache: Path) -> Path:
    home = spark_home()
    assert home is not None
    return unpacked_home(home, cache / "dotr" / "spark") or home


def _archive_in(cache: Path) -> ClassArchive:
    return ClassArchive(cache / "dotr" / "classes", java_version_text(), _home_in(cache), _JVM)


def _write(options: str) -> None:
    """Run a program with state on Spark, in a JVM that writes the archive when it ends."""
    home = _home_in(KEPT)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("run.py", RUN), ("r.dotr", RULES), ("c.yaml", CONFIG)):
            Path(folder, name).write_text(text)
        Path(folder, "a.ndjson").write_text("".join(f'{{"time": {at}, "graph": "[] :v {at % 3} ."}}\n' for at in range(20)))
        command = [str(home / "bin" / "spark-submit"), "--driver-java-options", f"{_JVM} {options}", "run.py", "run", "c.yaml"]
        given = {"SPARK_HOME": str(home), "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [*command, "--engine", "spark"], cwd=folder, env={**os.environ, **given}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
