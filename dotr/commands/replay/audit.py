"""Command `dotr audit`: the events of a replay beside those that a run has written.

Idea: both are sorted by time, rule and content, outside of memory, and merged: equal ones are
counted, the others are missing in the output, or more than the replay has.
Cost: a replay, and a sort of the events of each output.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from dotr.commands.common import Commands, add_config, add_recording
from dotr.errors.diagnostics import refuse
from dotr.errors.terminal import print_stderr, print_stdout

if TYPE_CHECKING:
    from dotr.engine.replay import Replay
    from dotr.model.time import Micros
    from dotr.runtimes.external_sort import SpillFormat
    from dotr.runtimes.pipeline.config import Config
    from dotr.runtimes.pipeline.written import WrittenEvent, WrittenOutput
    from dotr.syntax.rendering import TermWriter


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser("audit", help="compare what a run has written with what a replay gives")
    add_config(parser)
    add_recording(parser)
    parser.add_argument("--to", metavar="T", help="compare the events up to this time, itself included")
    parser.add_argument("--show", metavar="N", type=int, default=5, help="list so many missing events, and so many more (default: 5)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or JSON")


@dataclass
class Audit:
    """The events of one output beside those of the replay.

    Attributes:
        output: its name.
        rules: for each rule the numbers of events that are the same, missing, and more.
        missing, more: the first events of either kind.
        beyond: the numbers of written and of replayed events beyond the bound.
    """

    output: str
    rules: dict[str, Counter[str]] = field(default_factory=dict)
    missing: list[WrittenEvent] = field(default_factory=list)
    more: list[WrittenEvent] = field(default_factory=list)
    beyond: tuple[int, int] = (0, 0)

    @property
    def differs(self) -> bool:
        """True if an event is missing, or more than the replay has."""
        return any(counts["missing"] or counts["more"] for counts in self.rules.values())

    def add(self, kind: str, event: WrittenEvent, most: int) -> None:
        """Count an event: `same`, `missing` or `more`."""
        self.rules.setdefault(event.rule, Counter())[kind] += 1
        shown = {"missing": self.missing, "more": self.more}.get(kind)
        if shown is not None and len(shown) < most:
            shown.append(event)


@dataclass(frozen=True)
class Bound:
    """The time up to which events are compared, in µs since 1970, and whose it is; None: all."""

    time: Micros | None
    origin: str = ""


def execute(options: argparse.Namespace) -> int:
    """Print the comparison; returns the exit code: 0 if nothing differs, else 1."""
    from dotr.commands.why.questions import open_replays, time_of
    from dotr.evaluation.expressions.values.times import format_time
    from dotr.runtimes.pipeline.config import RECORDED, read_config
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
    changes = [word for each in options.options for word in ([each] if each.startswith(RECORDED) else ["--set", each])]
    bound, audits = _compare(config, replay, outputs, given, options.show)
    at = None if bound.time is None else format_time(bound.time, replay.clock)
    if options.format == "json":
        shown = [_json(each, replay) for each in audits]
        differs = any(each.differs for each in audits)
        content = {"differs": differs, "to": at, "bound": bound.origin or None, "outputs": shown, "not_compared": others}
        print_stdout(json.dumps(content, ensure_ascii=False, indent=2))
    else:
        for each in audits:
            until = "to the end" if at is None else f"up to {at} ({bound.origin})"
            print_stdout("\n".join([f"{each.output}: {until}", *_lines(each, replay, shlex.join([options.config, *changes]))]))
    return 1 if any(each.differs for each in audits) else 0


def _compare(config: Config, replay: Replay, outputs: list[WrittenOutput], given: Bound | None, most: int) -> tuple[Bound, list[Audit]]:
    """The bound, and the comparison of each output with the replay."""
    from dotr.commands.replay.comparison import replayed
    from dotr.runtimes.external_sort import SortedRuns, merge_runs

    with TemporaryDirectory(prefix="dotr-audit-") as folder:
        form = _spill_format()
        sides = [(SortedRuns(form, lambda: Path(folder)), SortedRuns(form, lambda: Path(folder))) for _ in outputs]
        last: Micros | None = None
        for output, (written, _) in zip(outputs, sides, strict=True):
            for event in output.events():
                last = event.time if last is None else max(last, event.time)
                written.add([event._replace(attributes=None)], 1)
        passed: Micros | None = None
        for time, firings in replayed(replay):
            passed = time
            for output, (_, expected) in zip(outputs, sides, strict=True):
                found = [each for firing in firings if (each := output.expected(firing)) is not None]
                if found:
                    expected.add(found, len(found))
        bound = given or (Bound(None) if replay.recorded else _bound(config, last, replay.ended))
        if not replay.ended and passed is not None and (bound.time is None or bound.time > passed):
            bound = Bound(passed, "the recording's last line" if replay.recorded else "where the replay ends")
        audits = []
        for output, both in zip(outputs, sides, strict=True):
            theirs, ours = (merge_runs(form, side.buffered, [path for path, _ in side.runs]) for side in both)
            audits.append(_audit(Audit(output.name), theirs, ours, bound, most))
    return bound, audits


def _bound(config: Config, last: Micros | None, ended: bool) -> Bound:
    """The bound that follows from the checkpoint, else from the last event written."""
    from dotr.model.time import LAST_MICRO
    from dotr.runtimes.pipeline.outputs import targets_of

    *paths, checkpoint = targets_of(config)
    on_spark = not any(Path(each.path).is_file() for each in paths if each.purpose == "output")
    if on_spark and Path(checkpoint.path, "dotr.json").exists():
        from dotr.runtimes.spark.start.installation import pyspark_problem

        if pyspark_problem() is None:
            from dotr.runtimes.spark.figures.status import status_of

            closed = status_of(checkpoint.path).closed
            if closed is not None:
                return Bound(None) if closed >= LAST_MICRO else Bound(closed, "closed in the checkpoint")
    if last is None:
        return Bound(None if ended else -LAST_MICRO, "")
    return Bound(last, "the last event written")


def _audit(audit: Audit, written: Iterator[WrittenEvent], expected: Iterator[WrittenEvent], bound: Bound, most: int) -> Audit:
    """Merge the sorted events of an output and of the replay."""
    ours, theirs = next(expected, None), next(written, None)
    beyond = [0, 0]
    while ours is not None or theirs is not None:
        mine, its = (None if each is None else each[:3] for each in (ours, theirs))
        take_ours = mine is not None and (its is None or mine <= its)
        take_theirs = its is not None and (mine is None or its <= mine)
        event = ours if take_ours else theirs
        assert event is not None
        if bound.time is not None and event.time > bound.time:
            beyond[0] += take_theirs
            beyond[1] += take_ours
        else:
            audit.add("same" if take_ours and take_theirs else "missing" if take_ours else "more", event, most)
        ours = next(expected, None) if take_ours else ours
        theirs = next(written, None) if take_theirs else theirs
    audit.beyond = beyond[0], beyond[1]
    return audit


def _spill_format() -> SpillFormat[WrittenEvent]:
    from dotr.runtimes.external_sort import SpillFormat
    from dotr.runtimes.pipeline.written import WrittenEvent

    def write(events: Iterable[WrittenEvent]) -> bytes:
        return json.dumps([tuple(event) for event in events]).encode()

    return SpillFormat(lambda event: event[:3], write, lambda line: [WrittenEvent(*each) for each in json.loads(line)], _EVENTS_A_LINE)


_EVENTS_A_LINE: Final = 200


# --- text ---


def _text(event: WrittenEvent, terms: TermWriter) -> str:
    """The attributes of an event, or its graph where the output has no others."""
    try:
        _, attributes, _ = json.loads(event.content)
    except ValueError:
        return event.content.replace("\n", " ")
    return ", ".join(f"{name} {terms.text(value) if value[:1] in _TERMS else value}" for name, value in attributes.items())


_TERMS: Final = ("<", '"')
"""Beginnings of terms in N-Triples."""


def _lines(audit: Audit, replay: Replay, path: str) -> Iterator[str]:
    """The lines of an output; `path`: the configuration and its options, for the commands."""
    from dotr.evaluation.expressions.values.times import format_time
    from dotr.syntax.rendering import TermWriter

    width, terms = max(map(len, audit.rules), default=0), TermWriter(replay.prefixes)
    for rule, counts in sorted(audit.rules.items()):
        yield f"  {rule:{width}}  {counts['same']:,} the same, {counts['missing']:,} missing, {counts['more']:,} more"
    if not audit.rules:
        yield "  no event, neither written nor in the replay"
    for kind, events in (("missing", audit.missing), ("more", audit.more)):
        for event in events:
            at = format_time(event.time, replay.clock)
            known = event.rule in {each.name for each in replay.program.rules.rules} | replay.program.attributes.keys()
            command = f"dotr {'why' if kind == 'missing' else 'why-not'} {path} --rule {event.rule} --at {at}" if known else ""
            where = " " + event.place if event.place else ""
            text = _text(event, terms)
            yield f"  {kind}: {event.rule} at {at}{where}{text and f': {text}'}" + (f"\n    {command}" if command else "")
    if any(audit.beyond):
        written, replayed = audit.beyond
        yield f"  beyond that time: {written:,} written, {replayed:,} in the replay"


def _json(audit: Audit, replay: Replay) -> dict[str, object]:
    from dotr.evaluation.expressions.values.times import format_time
    from dotr.syntax.rendering import TermWriter

    terms = TermWriter(replay.prefixes)

    def shown(event: WrittenEvent) -> dict[str, object]:
        at, text = format_time(event.time, replay.clock), _text(event, terms)
        return {"time": at, "rule": event.rule, "text": text, "place": event.place or None}

    kinds = ("same", "missing", "more")
    return {
        "output": audit.output,
        "differs": audit.differs,
        "rules": [{"rule": rule, **{kind: counts[kind] for kind in kinds}} for rule, counts in sorted(audit.rules.items())],
        "missing": [*map(shown, audit.missing)],
        "more": [*map(shown, audit.more)],
        "beyond": {"written": audit.beyond[0], "replayed": audit.beyond[1]},
    }
