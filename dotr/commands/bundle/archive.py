"""Bundle for `spark-submit`: the package as a zip file, and a script that starts it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import refuse

SCRIPT: Final = '''\
"""Runs dotr under spark-submit: spark-submit --py-files dotr.zip run_dotr.py run CONFIG"""

import sys

from dotr.commands import main

sys.exit(main())
'''

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_KINDS: Final = (".py", ".dlog", ".json", ".typed", ".js", ".css")
_FILES: Final = ("py.typed", "LICENSE")


def bundle(folder: str) -> tuple[Path, Path]:
    """Write dotr.zip and run_dotr.py into a folder and return their paths.

    Equal packages make equal bytes. Raises `Refused` (C304) where the folder cannot be written.
    """
    target = Path(folder)
    package = Path(__file__).resolve().parents[2]
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
