"""Command `dotr kb`: compile background knowledge, show what is in it, or compare its closure."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands, add_config, print_notices
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    kb = commands.add_parser("kb", help="compile background knowledge, show what is in it, or compare its closure")
    actions = kb.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="read and close the background of a configuration, and write it as a file that runs map")
    info = actions.add_parser("info", help="show its triples, what each rule derived, its size and what it took")
    judge = actions.add_parser("compare", help="close it with owlrl as well, and show what only one of the two derives")
    for action in (build, info, judge):
        add_config(action)
    build.add_argument("--fresh", action="store_true", help="make it again, even if it is there")
    judge.add_argument("--at", metavar="T", help="the closure at the instant of a time, as an element has it")
    judge.add_argument("--all", dest="every", action="store_true", help="all triples, not ten of each reason")


def execute(options: argparse.Namespace) -> int:
    """Compile, describe or compare a background; returns the exit code: 1 for a difference without a
    reason.
    """
    if options.action == "compare":
        from dotr.commands.kb.comparison import compare_configuration, report_lines

        differences, terms = compare_configuration(options.config, options.options, options.at)
        print_stdout("\n".join(report_lines(differences, terms, None if options.every else 10)))
        return 0 if all(difference.row for difference in differences) else 1
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
