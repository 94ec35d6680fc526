"""Command `dotr bundle`: write what spark-submit needs of a job.

That is the package as a zip file, a script that starts it and, where a configuration is named, the
files that it names and the packages.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from dotr.commands.common import Commands
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stderr, print_stdout

SCRIPT: Final = '''\
"""Runs dotr under spark-submit: spark-submit --py-files dotr.zip run_dotr.py run CONFIG"""

import sys

from dotr.commands import main

sys.exit(main())
'''

_KINDS: Final = (".py", ".dlog", ".json", ".typed", ".js", ".css")
_FILES: Final = ("py.typed", "LICENSE")


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    bundle = commands.add_parser("bundle", help="write what spark-submit needs: the package, and the files of a configuration")
    bundle.add_argument("places", nargs="*", metavar="[CONFIG] DIR", help="the configuration of a job (YAML), and where to (default: here)")
    bundle.add_argument("--environment", action="store_true", help="pack the Python environment as env.tar.gz, too, without pyspark")
    bundle.add_argument("--kubernetes", metavar="IMAGE", help="write a Dockerfile of this image, and the manifest of the job, too")
    bundle.set_defaults(usage=bundle.format_usage)


def execute(options: argparse.Namespace) -> int:
    """Write the files and print their paths; returns the exit code."""
    places: list[str] = options.places
    config = places.pop(0) if len(places) == 2 or (places[:1] and places[0].endswith((".yaml", ".yml"))) else ""
    if len(places) > 1 or (options.kubernetes and not config):
        print_stderr(f"{options.usage()}dotr bundle: error: it takes one configuration and one folder")
        return 2
    target = Path(places[0] if places else ".")
    try:
        written = [*bundle(target)]
        print_stdout("\n".join(map(str, written)))
        if config:
            from dotr.commands.bundle.job import write_job

            write_job(config, target, options.kubernetes)
        if options.environment:
            from dotr.commands.bundle.job import write_environment

            print_stdout(str(write_environment(target)))
    except OSError as error:
        raise refuse("C304", f"cannot write {error.filename}: {error.strerror}", None, "Choose a folder that can be written.") from None
    return 0


def bundle(target: Path) -> tuple[Path, Path]:
    """Write dotr.zip and run_dotr.py into a folder and return their paths.

    Equal packages make equal bytes. Raises OSError where the folder cannot be written.
    """
    from dotr.commands.bundle.job import write_zip

    package = Path(__file__).resolve().parents[2]
    archive, script = target / "dotr.zip", target / "run_dotr.py"
    target.mkdir(parents=True, exist_ok=True)
    paths = sorted(path for path in package.rglob("*") if path.suffix in _KINDS or path.name in _FILES)
    write_zip(archive, ((str(Path("dotr") / path.relative_to(package)), path) for path in paths))
    script.write_text(SCRIPT, encoding="utf-8")
    return archive, script
