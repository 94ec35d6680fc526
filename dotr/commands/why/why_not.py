"""Command `dotr why-not`: why a rule did not fire."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dotr.commands.common import Commands, add_recording
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stdout

if TYPE_CHECKING:
    from dotr.engine.replay import Replay
    from dotr.explanations.text.narrative import WhyNot
    from dotr.model.terms import Prefixes


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser("why-not", help="say why a rule did not fire")
    parser.add_argument("path", metavar="CONFIG|TEST", help="a configuration or a rule test (.yaml)")
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument("--rule", metavar="R", help="the name of the rule")
    question.add_argument("--triple", metavar="TRIPLE", help="a triple in Turtle that does not hold, instead of a rule: ':r :in ?room'")
    parser.add_argument("--at", metavar="T", help="the anchors of one time, as an element has it")
    parser.add_argument("--from", dest="first", metavar="T", help="the anchors from a time on, itself included")
    parser.add_argument("--to", dest="last", metavar="T", help="the anchors up to a time, itself included")
    parser.add_argument("--where", metavar="NAME=TERM", action="append", default=[], help="the anchors with this attribute: room=:lab")
    parser.add_argument("--case", metavar="N", help="one case of a rule test, by its number from 1 on or its name")
    parser.add_argument("--all", dest="every", action="store_true", help="every anchor that did not fire, not only the furthest")
    parser.add_argument("--set", dest="options", metavar="KEY=VALUE", action="append", default=[], help="change a value of it")
    add_recording(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or JSON")


def execute(options: argparse.Namespace) -> int:
    """Print the reason; returns the exit code: 0 if the rule fired or the triple holds, else 1."""
    from dotr.commands.why.questions import config_of, open_replays, question_of
    from dotr.explanations.unit import why_no_event

    replays = open_replays(options.path, options.case, options.options)
    if options.triple is not None:
        return _explain_triple(options, replays)
    question = question_of(
        replays[0], options.rule, options.where, at=options.at, first=options.first, last=options.last, every=options.every
    )
    config = config_of(options.path, options.options)
    if config is None:
        answers = [why_no_event(replay, options.rule, question) for replay in replays]
    else:
        from dotr.commands.why.written import RunsAnswer

        told = RunsAnswer(config, replays[0], options.rule, question)
        answers = [told.added_to(why_no_event(told.replay, options.rule, question))]
    print_answers(options.format, answers, replays[0].prefixes)
    return 0 if any(answer.fired for answer in answers) else 1


def _explain_triple(options: argparse.Namespace, replays: Sequence[Replay]) -> int:
    """Print why a triple does not hold; returns the exit code."""
    from dotr.commands.why.questions import times_of
    from dotr.explanations.missing.triple import explain_missing_triple, read_triple
    from dotr.syntax.rendering import TermWriter

    if options.where or options.every:
        raise refuse("C219", "--where and --all are of a rule, --triple is none", None, "Leave them out: a variable stands for any term.")
    pattern = read_triple(options.triple, replays[0].prefixes)
    first, last = times_of(replays[0], at=options.at, first=options.first, last=options.last)
    answers = [explain_missing_triple(replay, pattern, TermWriter(replay.prefixes), first=first, last=last) for replay in replays]
    print_answers(options.format, answers, replays[0].prefixes)
    return 0 if any(answer.fired for answer in answers) else 1


def print_answers(form: str, answers: Sequence[WhyNot], prefixes: Prefixes) -> None:
    """Print answers as text or as JSON; of several, each with the name of its case."""
    if form == "json":
        from dotr.commands.why.questions import json_text

        objects = [each.to_json() for each in answers]
        print_stdout(json_text(objects[0] if len(objects) == 1 else {"cases": objects}, prefixes, 2))
        return
    for each in answers:
        print_stdout("\n".join([*([f"{each.case}:"] if len(answers) > 1 else []), *each.lines()]))
