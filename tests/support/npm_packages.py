"""Clients that others wrote, from npm: installed once a machine into a cache folder, without root, and run by Node.

    python -m tests.support.npm_packages          # installs them (8 s, 65 MB); the first test that is marked `npm` does it, too

A test asks for the fixture `npm` (tests/conftest.py), and starts a module of JavaScript that imports the packages by `node`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

import pytest

PACKAGES: Final = ("eventsource@4.1.1", "jsonld@9.0.0", "ldes-client@0.3.0", "ws@8.23.0")
"""The packages with their versions. eventsource 5 needs a newer Node than Debian has."""
FOLDER: Final = Path.home() / ".cache" / "dotr" / f"npm-{blake2b(' '.join(PACKAGES).encode(), digest_size=6).hexdigest()}"
"""The folder of the packages, independent of XDG_CACHE_HOME, which tests change."""
INSTALL: Final = "python -m tests.support.npm_packages"
NO_NODE: Final = "node or npm is missing: apt-get install nodejs npm"
NO_CURL: Final = "curl is missing: apt-get install curl"
_PROGRAMS: Final = {"npm": (("node", "npm"), NO_NODE), "curl": (("curl",), NO_CURL)}


class MissingPackages(Exception):
    """Reason why the packages are not there, with the command that installs them."""


def skip_without_clients(items: Iterable[pytest.Item]) -> None:
    """Skip the tests marked `npm` or `curl` if their program is missing; if CI is set, they run and fail."""
    if os.environ.get("CI"):
        return
    missing = {mark: reason for mark, (programs, reason) in _PROGRAMS.items() if not all(map(shutil.which, programs))}
    for item in items:
        for mark, reason in missing.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


def install() -> Path:
    """The folder of the packages, which appears only once it is complete; raises `MissingPackages`."""
    if FOLDER.is_dir():
        return FOLDER
    if not shutil.which("node") or not shutil.which("npm"):
        raise MissingPackages(NO_NODE)
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if FOLDER.is_dir():  # another process was first
            return FOLDER
        with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix="npm-") as folder:
            made = Path(folder) / "made"
            made.mkdir()
            options = ("--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts", "--no-package-lock", "--loglevel=error")
            ended = subprocess.run(
                ["npm", "install", *options, "--prefix", str(made), *PACKAGES], cwd=made, capture_output=True, text=True, check=False
            )
            if ended.returncode:
                raise MissingPackages(f"packages of npm are missing; they come by: {INSTALL}\n{ended.stderr[-2000:]}")
            made.rename(FOLDER)
    return FOLDER


def installed() -> Path:
    """The folder of the packages; without them the test is skipped, and fails if CI is set."""
    try:
        return install()
    except MissingPackages as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def node(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A running module of JavaScript, whose imports are those of `PACKAGES`; `process.argv` has the arguments from place 1 on.

    Its standard output is a pipe. The caller ends it.
    """
    command = ["node", "--input-type=module", "--eval", script, "--", *arguments]
    return subprocess.Popen(command, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{install()}\n")
    except MissingPackages as error:
        sys.exit(str(error))
