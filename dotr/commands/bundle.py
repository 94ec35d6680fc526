"""Command `dotr bundle`: write the files that spark-submit runs: the package as a zip file, and a
script that starts it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from dotr.commands.common import Commands
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stdout

SCRIPT: Final = '''\
"""Runs dotr under spark-submit: spark-submit --py-files dotr.zip run_dotr.py run CONFIG"""

import sys

from dotr.commands import main

sys.exit(main())
'''

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_KINDS: Final = (".py", ".dlog", ".json", ".typed", ".js", ".css")
_FILES: Final = ("py.typed", "LICENSE")


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    bundle = commands.add_parser("bundle", help="write dotr.zip and run_dotr.py, which spark-submit runs")
    bundle.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where to (default: here)")


def execute(options: argparse.Namespace) -> int:
    """Write the files and print their paths; returns the exit code."""
    archive, script = bundle(options.folder)
    print_stdout(f"{archive}\n{script}")
    return 0


def bundle(folder: str) -> tuple[Path, Path]:
    """Write dotr.zip and run_dotr.py into a folder and return their paths.

    Equal packages make equal bytes. Raises `Refused` (C304) where the folder cannot be written.
    """
    import zipfile

    target = Path(folder)
    package = Path(__file__).resolve().parents[1]
    archive, script = target / "dotr.zip", target / "run_dotr.py"
    try:
        target.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(package.rglob("*")):
                if path.suffix in _KINDS or path.name in _FILES:
                    name = str(Path("dotr") / path.relative_to(package))
                    file.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
        script.write_text(SCRIPT, encoding="utf-8")
    except OSError as error:
        raise refuse("C304", f"cannot write {error.filename}: {error.strerror}", None, "Choose a folder that can be written.") from None
    return archive, script
