"""Spark's installation on this machine: its Java and Python packages, and two copies in a cache
that make it start with less CPU.

The checks are made before anything else, so that a failure is one sentence. The copies are an
archive of the classes of the JVM, and a folder in which PySpark is not zipped. No file is used that
another user could have written.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import dotr
from dotr.evaluation.files.private_files import replace_file
from dotr.evaluation.files.trust import distrust, distrust_tree, make_trusted_folder

OLDEST_JAVA: Final = 17


def java_problem() -> str | None:
    """The problem with this machine's Java, as a sentence; None where Spark can start."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started one
        return None
    home, java = os.environ.get("JAVA_HOME"), _java()
    if java is None:
        return "there is no java on the PATH, and JAVA_HOME is not set"
    if not os.access(java, os.X_OK):
        return f"JAVA_HOME is {home}, but there is no {java}"
    try:
        answer = _version_text(java)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run: {error}"
    version = java_version(answer)
    if version is None:
        return f"{java} -version gives no version"
    if version < OLDEST_JAVA:
        return f"{java} is version {version}; Spark needs {OLDEST_JAVA} or later"
    return None


def java_version_text() -> str:
    """The output of `java -version` for the Java that Spark would start; empty where there is
    none, or where it does not run."""
    java = _java()
    try:
        return "" if java is None else _version_text(java)
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


@lru_cache(maxsize=8)
def _version_text(java: str) -> str:
    """The output of `java -version`; empty where it fails."""
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    return "" if answer.returncode else answer.stderr + answer.stdout


def java_version(text: str) -> int | None:
    """The feature release in the output of `java -version`.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_292"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def pyspark_problem() -> str | None:
    """The missing Python packages of the Spark runtime, as a sentence; None where none is
    missing."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas", "google.protobuf") if not _is_importable(name)]
    return f"{', '.join(missing)} cannot be imported" if missing else None


def _is_importable(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def remote_problem(master: str | None) -> str | None:
    """The reason why this process would be a client of Spark Connect, and no driver, as a sentence;
    None where it can be one.

    >>> remote_problem("sc://host:15002")
    'spark.master is the address of a server of Spark Connect'
    """
    if os.environ.get("SPARK_REMOTE"):
        return "SPARK_REMOTE names a server of Spark Connect"
    return "spark.master is the address of a server of Spark Connect" if (master or "").startswith("sc://") else None


def spark_home() -> Path | None:
    """The folder of the Spark that this process would start; None where it cannot be found."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(os.environ.get("SPARK_HOME") or _find_spark_home())
    return home if (home / "jars").is_dir() and shutil.which(str(home / "bin" / "spark-submit")) else None


# Folder of Spark in which PySpark is not zipped, so that Python processes start with less CPU.
#
# Idea: the JVM of a PySpark that pip has installed puts `python/lib/pyspark.zip` first on the path of
# every Python process that it starts. A zip keeps no compiled modules: each of the seven processes of
# a run compiles PySpark anew, 0.4 s of CPU each. The folder made here holds links to all that is in
# Spark's own, but `pyspark.zip` and Py4J's zip are folders that hold a link to the installed package,
# which is the same code, compiled once.
#
#     spark/<hash>/jars -> site-packages/pyspark/jars
#     spark/<hash>/python/lib/pyspark.zip/pyspark -> site-packages/pyspark
#
# Invariant: the installed packages are never changed. A copy in which another user could have put a
# file is not used, but made again, since what it links to is executed. A cluster may send the zips to
# its machines as files, so the folder is for executors in the driver's process alone.

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


# Archive of the classes that Spark's JVM loads, shared by runs (Java's AppCDS).
#
# Idea: a JVM that maps an archive of parsed classes starts with less CPU. Java 17 makes none by
# itself, and making one costs more than a run gains, so three runs share the work:
#
# 1. The first run leaves a *mark*: a machine that runs one job never pays for an archive.
# 2. The next run lets its JVM write an archive when it ends, under a name of its own.
# 3. A later run tries a written archive with `spark-submit --version`. If that ends well, its length
#    is noted and it gets its name; if not, it is removed.
#
#     <hash>.mark                  a run was there
#     <hash>.4711.written          by the JVM of process 4711; may be incomplete
#     <hash>.jsa, <hash>.length    in use
#
# Invariant: an archive is used only if its length is the one noted, since a truncated one would kill
# the JVM (SIGBUS), and together with Java's own verification, which ignores one with other bytes. The
# name is a hash of the Java version, the jars of Spark and the options, so that another Java or Spark
# has an archive of its own.

_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_USE: Final = "-XX:SharedArchiveFile={file} -XX:+VerifySharedSpaces " + _QUIET
_WRITE: Final = "-XX:ArchiveClassesAtExit={file} " + _QUIET
_KEPT: Final = 2
"""Archives that are kept, the latest used ones."""

_UNUSED_SECONDS: Final = 30 * 86_400
_TRIAL_SECONDS: Final = 60
_SETTLED_SECONDS: Final = 600
"""Age of a written archive that no process has open, where the open files of processes are unknown."""


class ClassArchive:
    """The archive of one Java, one Spark and one list of options.

    Args:
        folder: the folder of archives, which need not exist.
        version: the output of `java -version`.
        home: the folder of Spark, with `bin` and `jars`.
        options: the options of the JVM without those of the archive.
    """

    def __init__(self, folder: Path, version: str, home: Path, options: str) -> None:
        self._folder = folder
        self._home = home
        self._options = options
        digest = blake2b(digest_size=16)
        digest.update(f"{version}\0{options}\0{home}\0".encode())
        for entry in sorted(os.scandir(home / "jars"), key=lambda entry: entry.name):
            about = entry.stat()
            digest.update(f"{entry.name}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
        self._name = digest.hexdigest()

    @property
    def file(self) -> Path:
        """The archive in use, once there is one."""
        return self._folder / f"{self._name}.jsa"

    def java_options(self) -> str:
        """The options for the JVM of this run: to use the archive, to write one, or none.

        Leaves the mark of the first run, tries what an earlier run has written, and removes
        archives that are no longer used. Raises OSError where the folder cannot be written.
        """
        make_trusted_folder(self._folder)
        if not self._is_whole():
            self._adopt()
        if self._is_whole():
            os.utime(self.file)
            self._remove_unused()
            return _USE.format(file=self.file)
        mark = self._folder / f"{self._name}.mark"
        if not mark.exists():
            mark.touch()
            return ""
        if any(self._written()):  # another run writes one now
            return ""
        return _WRITE.format(file=self._folder / f"{self._name}.{os.getpid()}.written")

    def _is_whole(self) -> bool:
        """True if the archive has the length noted, and both files are this user's."""
        if distrust(self.file) is not None or distrust(self._length) is not None:
            return False
        try:
            return self.file.stat().st_size == int(self._length.read_text())
        except (OSError, ValueError):
            return False

    @property
    def _length(self) -> Path:
        return self.file.with_suffix(".length")

    def _written(self) -> Iterator[Path]:
        return self._folder.glob(f"{self._name}.*.written")

    def _adopt(self) -> None:
        """Try archives that earlier runs have written, and take the first good one into use."""
        for path in sorted(self._written()):
            if is_open(path):
                continue
            if not self._is_whole() and distrust(path) is None and self._is_good(path):
                replace_file(self._length, [str(path.stat().st_size).encode()], 0o644)
                path.replace(self.file)
            else:
                path.unlink(missing_ok=True)

    def _is_good(self, path: Path) -> bool:
        """True if a JVM starts with the archive, and cannot start without it."""
        options = f"{self._options} {_USE.format(file=path)} -Xshare:on"
        command = [str(self._home / "bin" / "spark-submit"), "--driver-java-options", options, "--version"]
        environment = {**os.environ, "SPARK_HOME": str(self._home)}
        with suppress(OSError, subprocess.TimeoutExpired):
            tried = subprocess.run(command, capture_output=True, env=environment, timeout=_TRIAL_SECONDS, check=False)
            return tried.returncode == 0
        return False

    def _remove_unused(self) -> None:
        """Remove archives that were not used for long, and all but the latest ones."""
        archives = sorted(self._folder.glob("*.jsa"), key=_used, reverse=True)
        for number, path in enumerate(archives):
            if path != self.file and (number >= _KEPT or time.time() - _used(path) > _UNUSED_SECONDS):
                for suffix in (".jsa", ".length", ".mark"):
                    path.with_suffix(suffix).unlink(missing_ok=True)


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def is_open(path: Path) -> bool:
    """True if a process may have the file open for writing: by the open files of processes where
    the system lists them (Linux), else by the age of the file.
    """
    target = str(path.resolve())
    processes = Path("/proc")
    if not (processes / "self" / "fd").is_dir():
        return time.time() - _used(path) < _SETTLED_SECONDS
    for process in processes.iterdir():
        if process.name.isdecimal():
            with suppress(OSError):  # a process that has ended, or another user's
                for opened in os.listdir(process / "fd"):
                    with suppress(OSError):
                        if os.readlink(process / "fd" / opened) == target:
                            return True
    return False


def export_package_path(environment: MutableMapping[str, str]) -> None:
    """Add the folder or zip of the package to the PYTHONPATH in the environment of Python workers.

    spark-submit gives `--py-files` to executors, but not to the workers of the driver's machine,
    which plan the source and open stateful operators.
    """
    place = str(Path(dotr.__file__).resolve().parent.parent)
    known = environment.get("PYTHONPATH", "").split(os.pathsep)
    if place not in known:
        environment["PYTHONPATH"] = os.pathsep.join([place, *filter(None, known)])
