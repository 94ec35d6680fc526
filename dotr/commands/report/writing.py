"""Report on a configuration, written as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dotr import __version__
from dotr.commands.explain.drawing import svg
from dotr.commands.explain.explanation import explanation
from dotr.commands.explain.text import text
from dotr.commands.report.answers import numbered, proofs, reasons_not_fired
from dotr.commands.report.collection import collect, reported_events
from dotr.commands.report.data import ProgramPicture, ReportData
from dotr.commands.report.page import is_report, page
from dotr.commands.why.questions import open_replays
from dotr.engine.replay import Replay
from dotr.errors.diagnostics import refuse
from dotr.runtimes.monitoring.totals import ReportActivity, ignore_activity
from dotr.runtimes.pipeline.config import Config, read_config
from dotr.runtimes.pipeline.inputs import present_files, read_inputs
from dotr.streams.formats.lines import STANDARD_INPUT
from dotr.streams.sinks.files import stores_no_data


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """Bounds of a report: the numbers of events that it lists, of proofs, and of rules that never
    fired for which it gives the reason."""

    events: int = 50_000
    proofs: int = 40
    unfired_rules: int = 10


def write_report(
    path: str,
    output: str,
    options: Sequence[str] = (),
    limits: ReportLimits | None = None,
    report_activity: ReportActivity = ignore_activity,
) -> ReportData:
    """Replay the inputs of a configuration and write the report.

    Args:
        path: the configuration.
        output: the file to write. An older report there is replaced.
        options: values that change the configuration, as those of `--set`.
        limits: bounds of the page's content.
        report_activity: called with each activity that begins.

    Raises:
        Refused: the configuration is wrong, or the file is there and no report, or cannot be
            written.
    """
    check_target(output)
    config = read_config(path, options)
    (replay,) = open_replays(path, options=options)
    data = report_data(replay, config, tuple(options), limits or ReportLimits(), report_activity)
    written = page(data)
    try:
        target = Path(output)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(written, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise refuse("C304", f"cannot write {output}: {reason}", None, "Choose a path that can be written.") from None
    return data


def check_target(output: str) -> None:
    """Check that a path is free or an older report; raises `Refused` (C306)."""
    target = Path(output)
    if stores_no_data(output):
        return
    if target.is_dir():
        raise refuse("C306", f"{output} is a folder", None, "Name a file, such as report.html.")
    try:
        with target.open(encoding="utf-8", errors="replace") as file:
            beginning = file.read(1000)
    except FileNotFoundError:
        return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise refuse("C304", f"cannot write {output}: {reason}", None, "Choose a path that can be written.") from None
    if beginning and not is_report(beginning):
        raise refuse("C306", f"{output} is there already, and is no report", None, "Remove it, or name another file.")


def report_data(
    replay: Replay, config: Config, options: tuple[str, ...], limits: ReportLimits, report_activity: ReportActivity = ignore_activity
) -> ReportData:
    """The content of the report on a configuration."""
    report_activity("replaying the inputs")
    collected = collect(replay, _input_names(config), events=limits.events)
    explained = explanation(replay.name, replay.program)
    unfired = [rule.name for rule in collected.rules if not rule.events][: limits.unfired_rules]
    if unfired:
        report_activity("asking why rules never fired")
    answers = reasons_not_fired(replay, unfired)
    if limits.proofs and collected.firings:
        report_activity("proving events")
    steps, proof_of = numbered(proofs(replay, collected.firings, limits.proofs))
    events = reported_events(collected.firings, replay.prefixes, replay.program.internal)
    return ReportData(
        config.settings.name,
        replay.name,
        options,
        __version__,
        replay.clock,
        collected.totals,
        collected.first,
        collected.last,
        collected.bin_width,
        collected.lanes,
        tuple([event._replace(proof=proof_of.get(number)) for number, event in enumerate(events)]),
        steps,
        tuple(
            [replace(rule, reason_not_fired="\n".join([rule.reason_not_fired, *answers.get(rule.name, ())])) for rule in collected.rules]
        ),
        collected.rejected,
        collected.inputs,
        ProgramPicture(svg(explained), "\n".join(text(explained))),
    )


def _input_names(config: Config) -> dict[str, str]:
    """The name of the input of each file, and of each topic that is named."""
    inputs = read_inputs(config, [])
    files = [(file.path, file.input) for file in present_files(inputs)]
    files += [(name, each.name) for each in inputs.topics for name in (*each.names, *(topic for topic, _ in each.assigned))]
    return dict(files + [(STANDARD_INPUT, each.like.input) for each in inputs.growing if each.standard])
