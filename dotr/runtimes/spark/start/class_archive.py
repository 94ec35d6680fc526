"""Archive of the classes that Spark's JVM loads, shared by runs (Java's AppCDS).

Idea: a JVM that maps an archive of parsed classes starts with less CPU. Java 17 makes none by
itself, and making one costs more than a run gains, so three runs share the work:

1. The first run leaves a *mark*: a machine that runs one job never pays for an archive.
2. The next run lets its JVM write an archive when it ends, under a name of its own.
3. A later run tries a written archive with `spark-submit --version`. If that ends well, its length
   is noted and it gets its name; if not, it is removed.

    <hash>.mark                  a run was there
    <hash>.4711.written          by the JVM of process 4711; may be incomplete
    <hash>.jsa, <hash>.length    in use

Invariant: an archive is used only if its length is the one noted, since a truncated one would kill
the JVM (SIGBUS), and together with Java's own verification, which ignores one with other bytes. The
name is a hash of the Java version, the jars of Spark and the options, so that another Java or Spark
has an archive of its own. No file is used that another user could have written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from dotr.evaluation.files.private_files import replace_file
from dotr.evaluation.files.trust import distrust, make_trusted_folder

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


def spark_home() -> Path | None:
    """The folder of the Spark that this process would start; None where it cannot be found."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(os.environ.get("SPARK_HOME") or _find_spark_home())
    return home if (home / "jars").is_dir() and shutil.which(str(home / "bin" / "spark-submit")) else None
