"""Checks for Java and the Python packages of Spark, made before anything else, so that a failure is
one sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

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
