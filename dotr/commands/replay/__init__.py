"""Command `dotr replay`: compare the outputs of a program with and without a change."""

from __future__ import annotations

import argparse
import json

from dotr.commands.common import Commands, add_recording
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser("replay", help="compare the events of two programs over the inputs, before a change goes live")
    parser.add_argument("config", metavar="CONFIG", help="the pipeline's configuration (YAML)")
    parser.add_argument("--against", metavar="OTHER", help="the configuration with the change (default: CONFIG, as --set changes it)")
    parser.add_argument("--set", dest="options", metavar="KEY=VALUE", action="append", default=[], help="change a value of OTHER")
    add_recording(parser)
    parser.add_argument("--head", metavar="N", type=int, help="read the first N elements alone")
    parser.add_argument("--show", metavar="N", type=int, default=0, help="list so many new and gone events of each rule, and why")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or JSON")


def execute(options: argparse.Namespace) -> int:
    """Print the differences; returns the exit code: 0 if there are none, 1 if there are some."""
    from dotr.commands.replay.comparison import compare, open_pair
    from dotr.commands.replay.text import DifferenceExplainer, comparison_json, summary

    for name, number in (("--head", options.head), ("--show", options.show)):
        if number is not None and number < 0:
            raise refuse("C224", f"{name} {number} is negative", None, f"Write a number from 0 on: {name} 100")
    pair = open_pair(options.config, options.against, options.options, options.head)
    found = compare(pair, show=options.show)
    explainer = DifferenceExplainer(pair) if options.show else None
    if options.format == "json":
        print_stdout(json.dumps(comparison_json(found, explainer), ensure_ascii=False, indent=2))
    else:
        print_stdout(summary(found, hint=not options.show) or "There is no rule in either.")
        for line in () if explainer is None else explainer.lines(found):
            print_stdout(line)
    return 1 if any(each.differs for each in found) else 0
