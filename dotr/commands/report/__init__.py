"""Command `dotr report`: write a page about a replay of a configuration."""

from __future__ import annotations

import argparse
from typing import Final

from dotr.commands.common import Commands, add_config, add_recording, count_noun
from dotr.errors.terminal import print_stderr, print_stdout, stderr_is_terminal


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    report = commands.add_parser("report", help="replay the inputs, and write one HTML page about it")
    add_config(report)
    add_recording(report)
    report.add_argument("-o", "--output", default="report.html", metavar="FILE", help="the page (default: report.html)")
    for name, number, what in _LIMITS:
        report.add_argument(f"--{name}", type=_count, default=number, metavar="N", help=f"{what} (default: {number})")


_LIMITS: Final = (
    ("events", 50_000, "events that the page shows one by one"),
    ("proofs", 40, "events of which the page holds the proof"),
    ("why-not", 10, "rules that never fired of which the page says why"),
)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("it is at least 0")
    return number


def execute(options: argparse.Namespace) -> int:
    """Write the page and print its path; returns the exit code."""
    from dotr.commands.report.writing import ReportLimits, write_report
    from dotr.streams.sinks.files import stores_no_data

    limits = ReportLimits(options.events, options.proofs, options.why_not)
    data = write_report(options.config, options.output, options.options, limits, _report_activity)
    rejected = sum(data.totals.dead_letters.values())
    parts = [
        count_noun(data.totals.elements, "element"),
        count_noun(data.totals.instants, "instant"),
        count_noun(data.totals.facts, "fact"),
        count_noun(data.totals.events, "event"),
        *([count_noun(rejected, "dead letter")] if rejected else []),
    ]
    print_stderr(f"{', '.join(parts)}.")
    if not stores_no_data(options.output):
        print_stdout(options.output)
    return 0


def _report_activity(activity: str) -> None:
    """Print an activity, if stderr is a terminal."""
    if stderr_is_terminal():
        print_stderr(f"{activity} …")
