"""Folder of Spark in which PySpark is not zipped, so that Python processes start with less CPU.

Idea: the JVM of a PySpark that pip has installed puts `python/lib/pyspark.zip` first on the path of
every Python process that it starts. A zip keeps no compiled modules: each of the seven processes of
a run compiles PySpark anew, 0.4 s of CPU each. The folder made here holds links to all that is in
Spark's own, but `pyspark.zip` and Py4J's zip are folders that hold a link to the installed package,
which is the same code, compiled once.

    spark/<hash>/jars -> site-packages/pyspark/jars
    spark/<hash>/python/lib/pyspark.zip/pyspark -> site-packages/pyspark

Invariant: the installed packages are never changed. A copy in which another user could have put a
file is not used, but made again, since what it links to is executed. A cluster may send the zips to
its machines as files, so the folder is for executors in the driver's process alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dotr.evaluation.files.trust import distrust_tree, make_trusted_folder

_ZIPPED: Final = ("pyspark", "py4j")
_HOME: Final = "SPARK_HOME"


def unpacked_home(home: Path, folder: Path) -> Path | None:
    """The unpacked copy of Spark's folder, which is made where it is missing; None where Spark's
    folder has no zips of installed packages.

    Args:
        home: the folder of Spark, with `bin`, `jars` and `python`.
        folder: the folder of the copies, which need not exist.

    Raises:
        OSError: the folder cannot be written.
    """
    packages = {name: found for name in _ZIPPED if (found := _package(name)) is not None}
    if home != packages.get("pyspark") or not (home / "python" / "lib" / "pyspark.zip").is_file():
        return None
    digest = blake2b(digest_size=8)
    for entry in [*_entries(home), *_entries(home / "python"), *_entries(home / "python" / "lib"), *packages.values()]:
        digest.update(f"{entry}\0".encode())
    made = folder / digest.hexdigest()
    if _is_usable(made):
        return made
    make_trusted_folder(folder)
    new, old = (Path(tempfile.mkdtemp(dir=folder, suffix=".part")) for _ in range(2))
    try:
        _fill(new, home, packages)
        with suppress(OSError):
            made.rename(old / made.name)  # a copy with broken links, or of another user, who may prevent its removal
        with suppress(FileExistsError):  # another run has made it in the meantime
            new.rename(made)
    finally:
        for each in (new, old):
            shutil.rmtree(each, ignore_errors=True)
    return made if _is_usable(made) else None


def _is_usable(made: Path) -> bool:
    """True if a copy is complete and nobody else could have changed it."""
    is_whole = (made / "python" / "lib" / "pyspark.zip" / "pyspark").is_dir() and (made / "jars").is_dir()
    return is_whole and distrust_tree(made) is None


def _fill(new: Path, home: Path, packages: Mapping[str, Path]) -> None:
    lib = new / "python" / "lib"
    lib.mkdir(parents=True)
    for entry in _entries(home):
        if entry.name != "python":
            (new / entry.name).symlink_to(entry)
    for entry in _entries(home / "python"):
        if entry.name != "lib":
            (new / "python" / entry.name).symlink_to(entry)
    for entry in _entries(home / "python" / "lib"):
        package = packages.get(entry.name.partition("-")[0].removesuffix(".zip"))
        if entry.suffix == ".zip" and package is not None:
            (lib / entry.name).mkdir()
            (lib / entry.name / package.name).symlink_to(package)
        else:
            (lib / entry.name).symlink_to(entry)


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.name != "__pycache__")


def _package(name: str) -> Path | None:
    """The folder of an installed package."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def starts_locally(master: str | None, home: Path) -> bool:
    """True if executors are sure to run in the driver's process: the master is local, or none is
    given and no configuration of Spark can give another one.

    >>> starts_locally("local[2]", Path("/opt/spark")), starts_locally("yarn", Path("/opt/spark"))
    (True, False)
    """
    if master is not None:
        return master.partition("[")[0] == "local"
    return not ({"MASTER", "SPARK_CONF_DIR"} & os.environ.keys()) and not (home / "conf").exists()


@contextmanager
def spark_home_at(home: Path | None) -> Iterator[None]:
    """Set SPARK_HOME to a folder while the context is open; None: leave it as it is."""
    if home is None:
        yield
        return
    before = os.environ.get(_HOME)
    os.environ[_HOME] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_HOME]
        else:
            os.environ[_HOME] = before
