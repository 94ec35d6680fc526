"""A disk of a given size (tmpfs), to be filled: only root of Linux can mount one, so tests with it are skipped elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted folder, and a file that leaves a given number of bytes free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def leave(self, free: int) -> None:
        """Fill the disk up to `free` bytes."""
        disk = os.statvfs(self.folder)
        self._filler.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - free)))

    def empty(self) -> None:
        """Remove the filler."""
        self._filler.unlink()


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """A disk of `size` bytes at a new folder, while the context is open."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk needs the right to mount")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
