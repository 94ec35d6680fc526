"""Command `dotr audit`: the events of a replay beside those that a run has written."""

from __future__ import annotations

import argparse
import json
import shlex

from dotr.commands.common import Commands, add_config, add_recording
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser("audit", help="compare what a run has written with what a replay gives")
    add_config(parser)
    add_recording(parser)
    parser.add_argument("--to", metavar="T", help="compare the events up to this time, itself included")
    parser.add_argument("--show", metavar="N", type=int, default=5, help="list so many missing events, and so many more (default: 5)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or JSON")


def execute(options: argparse.Namespace) -> int:
    """Print the comparison; returns the exit code: 0 if nothing differs, else 1."""
    from dotr.commands.replay.comparison import Bound, audited
    from dotr.commands.replay.text import audit_json, audit_lines
    from dotr.commands.why.questions import open_replays, time_of
    from dotr.evaluation.expressions.values.times import format_time
    from dotr.runtimes.pipeline.config import OF_INPUTS, read_config
    from dotr.runtimes.pipeline.written import written_outputs

    if options.show < 0:
        raise refuse("C224", f"--show {options.show} is negative", None, "Write a number from 0 on: --show 100")
    config = read_config(options.config, options.options)
    (replay,) = open_replays(options.config, options=options.options)
    given = None if options.to is None else Bound(time_of(replay, options.to, "--to"), "--to")
    outputs, others = written_outputs(config, replay.program, replay.clock)
    if not outputs:
        reasons = f": {'; '.join(others)}" if others else ""
        hint = "Name an output with a path or a topic that a run has written: --set output.0.path=FILE"
        raise refuse("C224", f"there is nothing to compare the replay with{reasons}", None, hint)
    for other in others:
        print_stderr(f"Not compared: {other}.")
    bound, audits = audited(config, replay, outputs, given, options.show)
    at, differs = None if bound.time is None else format_time(bound.time, replay.clock), any(each.differs for each in audits)
    if options.format == "json":
        shown = [audit_json(each, replay) for each in audits]
        content = {"differs": differs, "to": at, "bound": bound.origin or None, "outputs": shown, "not_compared": others}
        print_stdout(json.dumps(content, ensure_ascii=False, indent=2))
    else:
        changes = [word for each in options.options for word in ([each] if each.startswith(OF_INPUTS) else ["--set", each])]
        command = shlex.join([options.config, *changes])
        until = "to the end" if at is None else f"up to {at} ({bound.origin})"
        for each in audits:
            print_stdout("\n".join([f"{each.output}: {until}", *audit_lines(each, replay, command)]))
    return 1 if differs else 0
