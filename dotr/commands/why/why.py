"""Command `dotr why`: why a rule made an event, or why a triple holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dotr.commands.common import Commands, add_recording
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stderr, print_stdout

if TYPE_CHECKING:
    from dotr.engine.replay import Replay
    from dotr.explanations.text.tree import WhyTree
    from dotr.explanations.why import EventAnswer, WhyExplainer


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser("why", help="say why an event came, or why a triple holds")
    parser.add_argument("path", metavar="CONFIG|TEST", help="a configuration or a rule test (.yaml)")
    parser.add_argument("name", metavar="NAME", nargs="?", help="a name of the event in the output, of a node or its graph: urn:dotr:…")
    parser.add_argument("--rule", metavar="R", help="an event of this rule or query")
    parser.add_argument("--at", metavar="T", help="the time of the event or of the instant, as an element may have it")
    parser.add_argument("--where", metavar="NAME=TERM", action="append", default=[], help="the event with this attribute: room=:lab")
    parser.add_argument("--triple", metavar="TRIPLE", help="a triple of the instant at T, in Turtle: ':r :in :lab'")
    parser.add_argument("--case", metavar="N", help="one case of a rule test, by its number from 1 on or its name")
    parser.add_argument("--depth", metavar="N", type=int, help="that many levels, with the members of groups (default: all, without)")
    parser.add_argument("--background", action="store_true", help="go on to what graphs state, by closing the background once more")
    parser.add_argument("--set", dest="options", metavar="KEY=VALUE", action="append", default=[], help="change a value of it")
    add_recording(parser)
    parser.add_argument("--format", choices=("text", "json", "mermaid"), default="text", help="text (default), JSON or Mermaid")


def execute(options: argparse.Namespace) -> int:
    """Print the reasons; returns the exit code: 0, or 1 where there is no such event or triple."""
    from dotr.commands.why.questions import json_text, open_replays
    from dotr.explanations.why import WhyExplainer

    _check(options)
    replays = open_replays(options.path, options.case, options.options)
    found: list[tuple[str, WhyTree]] = []
    for replay in replays:
        explainer = WhyExplainer(replay, background=options.background)
        tree = _tree(options, explainer, replay, named=len(replays) > 1)
        if tree is not None:
            found.append((replay.case, tree))
        if explainer.background_seconds is not None:
            print_stderr(f"Closing the background once more took {explainer.background_seconds:.1f} s of CPU.")
    match options.format:
        case "json":
            prefixes = replays[0].prefixes
            trees = [json_text({**({"case": case} if case else {}), **tree.to_json()}, prefixes, 2) for case, tree in found]
            if trees:
                print_stdout(trees[0] if len(replays) == 1 else f"[{', '.join(trees)}]")
        case "mermaid":
            for _, tree in found:
                print_stdout(tree.to_mermaid(options.depth))
        case _:
            for case, tree in found:
                print_stdout("\n".join([*([f"{case}:"] if len(replays) > 1 else []), *tree.lines(options.depth)]))
    return 0 if found else 1


def _check(options: argparse.Namespace) -> None:
    """Refuse options that name no question, or two."""
    hint = "Name an event (urn:dotr:…), or give --rule, or --triple with --at, or --at alone for an inconsistent instant."
    if options.triple is not None:
        if options.at is None:
            raise refuse("C219", "--triple needs the time of an instant", None, "Add --at T.")
        if options.name or options.rule or options.where:
            raise refuse("C219", "--triple asks about a triple, the other options about an event", None, hint)
    elif options.name is None and options.rule is None and (options.at is None or options.where):
        raise refuse("C219", "no event and no triple is given", None, hint)
    if options.depth is not None and options.depth < 0:
        raise refuse("C219", f"--depth {options.depth} is negative", None, "0 shows the first line alone.")


def _tree(options: argparse.Namespace, explainer: WhyExplainer, replay: Replay, *, named: bool) -> WhyTree | None:
    """The tree that answers the question in one replay; None after a message on stderr."""
    from dotr.commands.why.questions import conditions_of, rule_named, time_of, triple_of
    from dotr.explanations.why import EventQuestion
    from dotr.model.rules import Rule

    at = None if options.at is None else time_of(replay, options.at, "--at")
    where = f"{replay.case}: " if named else ""
    if options.triple is not None and at is not None:
        pattern = triple_of(replay, options.triple)
        tree = explainer.triple(pattern, at)
        if tree is None:
            instant = "" if explainer.has_instant(at) else f"; there is no instant at {options.at}"
            print_stderr(f"{where}{options.triple} does not hold at {options.at}{instant}.")
        return tree
    if options.name is None and options.rule is None and at is not None:
        trees = explainer.contradictions(at)
        if not trees:
            found = explainer.has_instant(at)
            print_stderr(f"{where}The instant {options.at} is consistent." if found else f"{where}There is no instant at {options.at}.")
            return None
        if len(trees) > 1:
            print_stderr(f"{where}{len(trees) - 1} more: {', '.join(dict.fromkeys(tree.place for tree in trees[1:]))}")
        return trees[0]
    rule = None if options.rule is None else rule_named(replay, options.rule)
    event = rule.event if isinstance(rule, Rule) else options.rule
    attributes = explainer.all_attributes() if event is None else explainer.program.attributes[event]
    terms = conditions_of(replay, options.where, attributes, event or "the output")
    name = None if options.name is None else options.name.strip("<>")
    answer = explainer.answer(EventQuestion(name, options.rule, at, terms))
    _print_further_events(options, answer, replay, where)
    return answer.tree


def _print_further_events(options: argparse.Namespace, answer: EventAnswer, replay: Replay, where: str) -> None:
    """Print on stderr the further events, or, without an answer, the nearest events."""
    if answer.tree is not None:
        if answer.others:
            apart = "their names tell apart" if any("urn:dotr:" in line for line in answer.others) else "--where tells apart"
            print_stderr("\n".join([f"{where}Further events, which {apart}:", *(f"  {line}" for line in answer.others)]))
        return
    question = options.name or " ".join(
        filter(None, [options.rule, f"at {options.at}" if options.at else "", *(f"with {text}" for text in options.where)])
    )
    lines = [f"{where}There is no event {question}."]
    if answer.near:
        lines += ["Near it are:" if options.at else "There are:", *(f"  {line}" for line in answer.near)]
    elif options.rule:
        lines.append(f"{options.rule} never fired: {replay.why_not_command(options.rule)}")
    print_stderr("\n".join(lines))
