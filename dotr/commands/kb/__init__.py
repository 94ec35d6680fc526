"""Command `dotr kb`: compile background knowledge, or show what is in it."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands, add_config, print_notices
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    kb = commands.add_parser("kb", help="compile background knowledge, or show what is in it")
    actions = kb.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="read and close the background of a configuration, and write it as a file that runs map")
    info = actions.add_parser("info", help="show its triples, what each rule derived, its size and what it took")
    for action in (build, info):
        add_config(action)
    build.add_argument("--fresh", action="store_true", help="make it again, even if it is there")


def execute(options: argparse.Namespace) -> int:
    """Compile or describe a background; returns the exit code."""
    from dotr.commands.kb.summary import compiled_background, summary_lines

    build = options.action == "build"
    background = compiled_background(options.config, options.options, fresh=build and options.fresh)
    print_notices(background.notices)
    if background.store is None:
        print_stderr(
            "No compiled background could be written." if background.notices else "There is no folder to keep compiled backgrounds in."
        )
        return 1
    if background.is_new and not build:
        print_stderr("It was not compiled yet; now it is.")
    if build:
        built = "The background was read, closed and written."
        print_stderr(built if background.is_new else "The background is compiled already: no source has changed.")
    print_stdout("\n".join(summary_lines(background, background.store)))
    return 0
