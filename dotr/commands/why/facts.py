"""Command `dotr facts`: show the facts of each instant, or the answers of a query."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands, add_recording
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser("facts", help="show what holds at an instant")
    parser.add_argument("path", metavar="CONFIG|TEST", help="a configuration or a rule test (.yaml)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--at", metavar="T", help="one time, as an element has it; without it every instant is shown")
    which.add_argument("--head", metavar="N", type=_count, help="the first N instants")
    parser.add_argument("--query", metavar="SELECT", help="the rows of a query instead: 'SELECT ?s WHERE { ?s a :Sensor }'")
    parser.add_argument("--derived", action="store_true", help="all derived and all known triples, not ten of each")
    parser.add_argument("--case", metavar="N", help="one case of a rule test, by its number from 1 on or its name")
    parser.add_argument(
        "--set", dest="options", metavar="KEY=VALUE", action="append", default=[], help="change a value of the configuration"
    )
    add_recording(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default), or a JSON object a line")


def _count(text: str) -> int:
    """A number of instants.

    >>> _count("3")
    3
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of instants")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Print the facts; returns the exit code: 1 if there is no such instant, or the query has no
    row.
    """
    from dotr.commands.why.questions import json_text, open_replays, query_of, time_of
    from dotr.explanations.facts import FactsReader
    from dotr.explanations.missing.fact import explain_missing_rows
    from dotr.syntax.rendering import TermWriter

    replays = open_replays(options.path, options.case, options.options)
    at = None if options.at is None else time_of(replays[0], options.at, "--at")
    query = None if options.query is None else query_of(replays[0], options.query)
    shown = 0
    for replay in replays:
        reader = FactsReader(replay, query, options.derived)
        if len(replays) > 1 and options.format == "text":
            print_stdout(f"{replay.case}:")
        before = shown
        for view in reader.views(at, options.head):
            shown += 1
            if options.format == "json":
                print_stdout(json_text({**({"case": replay.case} if replay.case else {}), **view.to_json()}, replay.prefixes))
            else:
                print_stdout("\n".join(view.lines(reader.width)))
        if reader.rejected:
            number = reader.rejected.total()
            reasons = ", ".join(f"{count:,} {reason.value}" for reason, count in reader.rejected.items())
            print_stderr(f"{number:,} element{' is' if number == 1 else 's are'} rejected ({reasons}); `dotr run` writes dead letters.")
        if not reader.instants:
            print_stderr("There is no instant." if at is None else f"There is no instant at {options.at}.")
        elif shown == before and query is not None:
            terms = TermWriter(replay.prefixes)
            explained = explain_missing_rows(replay, "The query", query, terms, first=at, last=reader.passed)
            if explained is not None:
                print_stderr("\n".join([explained.summary.replace("fact", "row", 1), *explained.lines()]))
    return 0 if shown else 1
