"""Command `dotr report`: write a page about a replay of a configuration."""

from __future__ import annotations

import argparse

from dotr.cli.common import Commands, add_config, count_noun
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    report = commands.add_parser("report", help="replay the inputs, and write one HTML page about it")
    add_config(report)
    report.add_argument("-o", "--output", default="report.html", metavar="FILE", help="the page (default: report.html)")
    report.add_argument("--events", type=_count, default=50_000, metavar="N", help="events that the page shows one by one (default: 50000)")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it is at least 1")
    return number


def execute(options: argparse.Namespace) -> int:
    """Write the page and print its path; returns the exit code."""
    from dotr.workbench.report.writing import write_report

    data = write_report(options.config, options.output, options.options, events=options.events)
    rejected = sum(data.totals.dead_letters.values())
    parts = [
        count_noun(data.totals.elements, "element"),
        count_noun(data.totals.instants, "instant"),
        count_noun(data.totals.facts, "fact"),
        count_noun(data.totals.events, "event"),
        *([count_noun(rejected, "dead letter")] if rejected else []),
    ]
    print_stderr(f"{', '.join(parts)}.")
    print_stdout(options.output)
    return 0
