"""Command `dotr why-not`: why a rule did not fire."""

from __future__ import annotations

import argparse
import json

from dotr.cli.common import Commands
from dotr.errors.terminal import print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser("why-not", help="say why a rule did not fire")
    parser.add_argument("path", metavar="CONFIG|TEST", help="a configuration or a rule test (.yaml)")
    parser.add_argument("--rule", metavar="R", required=True, help="the name of the rule")
    parser.add_argument("--at", metavar="T", help="the anchors of one time, as an element has it")
    parser.add_argument("--from", dest="first", metavar="T", help="the anchors from a time on, itself included")
    parser.add_argument("--to", dest="last", metavar="T", help="the anchors up to a time, itself included")
    parser.add_argument("--where", metavar="NAME=TERM", action="append", default=[], help="the anchors with this attribute: room=:lab")
    parser.add_argument("--case", metavar="N", help="one case of a rule test, by its number from 1 on or its name")
    parser.add_argument("--all", dest="every", action="store_true", help="every anchor that did not fire, not only the furthest")
    parser.add_argument("--set", dest="options", metavar="KEY=VALUE", action="append", default=[], help="change a value of it")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or JSON")


def execute(options: argparse.Namespace) -> int:
    """Print the reason; returns the exit code: 0 if the rule fired, 1 if it did not."""
    from dotr.explanations.why_not import why_not
    from dotr.workbench.questions import question_of
    from dotr.workbench.replays import open_replays

    replays = open_replays(options.path, options.case, options.options)
    question = question_of(
        replays[0], options.rule, options.where, at=options.at, first=options.first, last=options.last, every=options.every
    )
    answers = [why_not(replay, options.rule, question) for replay in replays]
    if options.format == "json":
        shown = answers[0].to_json() if len(answers) == 1 else {"cases": [answer.to_json() for answer in answers]}
        print_stdout(json.dumps(shown, ensure_ascii=False, indent=2))
    else:
        for answer in answers:
            named = [f"{answer.case}:"] if len(answers) > 1 else []
            print_stdout("\n".join([*named, *answer.lines()]))
    return 0 if any(answer.fired for answer in answers) else 1
