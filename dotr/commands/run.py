"""Command `dotr run`: run a pipeline."""

from __future__ import annotations

import argparse
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dotr.commands.common import (
    Commands,
    PrintMessage,
    add_config,
    add_recording,
    collect_as_usual,
    count_noun,
    not_negative,
    positive,
    print_json,
    print_notices,
)
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.errors.terminal import print_stderr

if TYPE_CHECKING:
    from dotr.runtimes.monitoring.progress import LatestFigures, RunProgress
    from dotr.runtimes.monitoring.totals import ReportTotals, Totals
    from dotr.runtimes.pipeline.build import Pipeline
    from dotr.runtimes.pipeline.config import Config
    from dotr.runtimes.pipeline.output_files import OutputLocks
    from dotr.runtimes.pipeline.reloading import Reloads
    from dotr.streams.connectors.opening import Destination


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    run = commands.add_parser("run", help="run a pipeline to the end of its input, or until stopped")
    add_config(run)
    run.add_argument("--engine", choices=("spark", "local"), help="Spark, or in this process, without Java")
    run.add_argument("--fresh", action="store_true", help="remove this pipeline's output and checkpoint first")
    run.add_argument("--quiet", action="store_true", help="no progress on stderr")
    run.add_argument("--progress", choices=("text", "json"), default="text", help="text (default), or a JSON object a line, on stderr")
    run.add_argument("--head", type=positive, metavar="N", help="stop after N elements, at the end of the N-th one's instant (in process)")
    run.add_argument(
        "--last-written",
        type=not_negative,
        metavar="N",
        help="the number of the last batch that is in an output whose broker has forgotten it (S122; on Spark)",
    )
    add_recording(run)
    run.add_argument("--rules", action="store_true", help="end with a line for every rule, not only for those without an event")


def execute(options: argparse.Namespace) -> int:
    """Run a pipeline; returns the exit code."""
    from dotr.languages.programs import warnings_with_form
    from dotr.runtimes.monitoring.progress import LatestFigures
    from dotr.runtimes.monitoring.totals import RunFailed
    from dotr.runtimes.pipeline.build import build
    from dotr.runtimes.pipeline.config import read_config
    from dotr.runtimes.pipeline.output_files import OutputLocks
    from dotr.runtimes.pipeline.reloading import Reloads
    from dotr.runtimes.pipeline.sections import SHOW_ATTRIBUTES
    from dotr.syntax.rendering import step_names

    print_message = print_json if options.progress == "json" else print_stderr
    stopped, figures, dead_letters = "Stopped before anything was read.", LatestFigures("", ""), None
    with _sigterm_interrupts(), ExitStack() as stack:
        try:
            if options.fresh and (attempt := _attempt()) > 1:
                hint = "Submit the job again without --fresh: it goes on. With --fresh set spark.yarn.maxAppAttempts=1."
                raise refuse("S190", f"attempt {attempt} of this application would remove what the first one wrote", None, hint)
            config = read_config(options.config, options.options)
            engine = _engine(options.engine, config, print_message)
            if options.head is not None and engine == "spark":
                hint = "On Spark several tasks read at once, and a batch is written as a whole. Run with --engine local."
                raise refuse("S115", "--head stops a run in process only, and this one runs on Spark", None, hint)
            figures = LatestFigures(config.settings.name, engine)
            if config.settings.metrics.prometheus is not None:
                from dotr.runtimes.monitoring.prometheus import serve_metrics

                place = config.span("metrics", "prometheus")
                stack.enter_context(serve_metrics(config.settings.metrics.prometheus, figures.read, place))
            locks = stack.enter_context(OutputLocks(print_message))
            reloads = stack.enter_context(Reloads(config, options.options, locks, on_spark=engine == "spark"))
            pipeline = build(config, fresh=options.fresh, on_spark=engine == "spark", locks=locks)

            def describe(made: Pipeline) -> None:
                nonlocal pipeline
                pipeline, rules = made, made.program.rules.rules
                figures.rules = made.program.unit_names
                figures.steps = {rule.name: step_names(rule.clauses, has_condition=rule.condition is not None) for rule in rules}

            reloads.on_change = describe
            figures.clock, dead_letters = pipeline.clock, pipeline.dead_letters
            describe(pipeline)
            dated = None if pipeline.clock_pending else pipeline.clock.dated
            of_times = warnings_with_form(pipeline.program.spec, pipeline.program.warnings, dated)
            certain = [each for each in of_times if dated is not None and each.dated is not None]
            certain = [each for each in certain if each.code not in config.settings.report.accept]
            print_notices([*pipeline.program.notices, *pipeline.notices, *certain], print_message)
            if pipeline.replay_start is not None and not options.quiet:
                from dotr.evaluation.expressions.values.times import format_time

                start = format_time(pipeline.replay_start, pipeline.clock)
                print_message(f"The replay starts at {start}. With --start {start} it has the same times again, also in why and report.")
            shows = any(section.format in SHOW_ATTRIBUTES for section in config.settings.output)
            known = {*config.settings.report.accept, *(["D217"] if shows else [])}
            warnings = sum(warning.code not in known for warning in of_times if warning not in certain)
            if warnings and not options.quiet:
                print_message(f"{count_noun(warnings, 'warning')} of the rules: dotr check {options.config} shows them.")
            if engine == "spark":
                stopped = "Stopped: the output holds all batches so far; the same command goes on from the checkpoint (without --fresh)."
            collect_as_usual()
            totals = _run_engine(pipeline, engine, figures, options, reloads, locks)
        except RunFailed as failure:
            if print_message is print_stderr:
                print_message(f"The run failed: {failure}")
            else:
                print_json(f"The run failed: {failure}", "error")
            return 1
        except KeyboardInterrupt:
            if not options.quiet:
                print_message(stopped)
            return _exit_code(figures.read().totals, dead_letters, print_message)
    if not options.quiet and options.progress == "text":
        print_stderr(summary(totals, pipeline))
        if pipeline.tables and pipeline.tables[0].streaming:
            print_stderr(_open_line(pipeline))
        overall = _overall_totals(pipeline) if engine == "spark" else totals
        if overall.elements or options.rules:
            from dotr.runtimes.monitoring.rule_summary import unit_lines

            for each in unit_lines(pipeline.program, overall, options.config, every=options.rules, clock=pipeline.clock):
                print_stderr(each)
    return _exit_code(totals, pipeline.dead_letters, print_message)


def _attempt() -> int:
    """The number of the attempt of an application on YARN, which the name of its container has before its
    own number: container_1410901177871_0001_02_000001 is of the second; 1 elsewhere."""
    found = re.fullmatch(r"container_.*_(\d+)_\d+", os.environ.get("CONTAINER_ID", ""))
    return int(found[1]) if found else 1


def _exit_code(totals: Totals, dead_letters: Destination | None, print_message: PrintMessage) -> int:
    """Exit code of a finished or stopped run: 1 where every element was rejected."""
    from dotr.runtimes.monitoring.display import dead_letters_line

    if not totals.all_rejected:
        return 0
    way_out = f"{dead_letters} holds them" if dead_letters else "name a file as dead_letter to keep them"
    text = f"The run failed: it rejected every element that it read ({dead_letters_line(totals)}); {way_out}."
    if print_message is print_stderr:
        print_message(text)
    else:
        print_json(text, "error")
    return 1


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Context in which SIGTERM raises KeyboardInterrupt, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _engine(requested: str | None, config: Config, print_message: PrintMessage) -> str:
    """Engine of a run: `local` where Spark cannot run and only the configuration names it."""
    engine = requested or config.settings.engine
    if engine == "local":
        return engine
    from dotr.runtimes.spark.start.installation import java_problem, pyspark_problem, remote_problem

    problem, hint = remote_problem(config.settings.spark.master), "Unset it: a run needs a driver of its own, and dotr.spark runs there."
    if problem is None:
        problem, hint = java_problem(), "Install Java 17 or later, or run with --engine local."
    if problem is None:
        problem, hint = pyspark_problem(), "Install Spark for Python with pip install 'dotr[spark]', or run with --engine local."
    if problem is None:
        return engine
    if requested or any(each.spark is not None for each in config.settings.input):
        hint = hint if requested else f"{hint.partition(', or')[0].removesuffix('.')}: Spark reads the inputs."
        raise Refused([Diagnostic("S101", f"Spark cannot run here: {problem}", None, hint)])
    print_message(f"Spark cannot run here: {problem}. So the run goes on in this process, as with --engine local.")
    return "local"


def _run_engine(
    pipeline: Pipeline, engine: str, figures: LatestFigures, options: argparse.Namespace, reloads: Reloads, locks: OutputLocks
) -> Totals:
    from dotr.evaluation.expressions.values.times import format_time
    from dotr.runtimes.monitoring.display import ProgressLine, json_progress, progress_line
    from dotr.runtimes.monitoring.totals import ignore_activity

    quiet, as_json = options.quiet, options.progress == "json"
    with ExitStack() as stack:
        reports: list[ReportTotals] = [figures.update_totals]
        report_activity: PrintMessage = ignore_activity
        line = ProgressLine(pipeline.name, lambda text: None)
        if as_json and not quiet:
            stack.enter_context(json_progress(figures))
        else:
            line = stack.enter_context(progress_line(pipeline.name, quiet=quiet))
            reports.append(line)
            report_activity = line.report_activity

        def report(totals: Totals) -> None:
            for each in reports:
                each(totals)

        def report_progress(progress: RunProgress) -> None:
            figures.update_progress(progress)
            if progress.heartbeat is not None and not as_json:
                line.heartbeat = str(format_time(progress.heartbeat - progress.heartbeat % 1_000_000, figures.clock))

        if pipeline.tables:
            from dotr.runtimes.frames.run import run_tables

            return run_tables(pipeline, report, report_progress, report_activity, options.last_written, reloads, locks.confirm)
        if engine == "spark":
            from dotr.runtimes.spark.run import run_spark

            return run_spark(pipeline, report, report_progress, report_activity, options.last_written, reloads, locks.confirm)
        from dotr.runtimes.local.run import run_local

        return run_local(pipeline, report, report_progress, options.head, reloads)


def _overall_totals(pipeline: Pipeline) -> Totals:
    """Totals of all runs on Spark since the checkpoint was created: a rule may have fired in an
    earlier run.
    """
    from dotr.runtimes.monitoring.totals import Totals
    from dotr.runtimes.spark.checkpoint.figures import read_totals
    from dotr.runtimes.spark.checkpoint.folder import Checkpoint

    stored = read_totals(Checkpoint(pipeline.spark.checkpoint).home)
    return Totals() if stored is None else stored.totals


def _open_line(pipeline: Pipeline) -> str:
    """The line on the instants that wait for later rows."""
    from dotr.evaluation.expressions.values.times import format_time
    from dotr.model.time import Clock, Unit
    from dotr.runtimes.spark.checkpoint.folder import Checkpoint
    from dotr.runtimes.spark.exchange.positions import BEGINNING

    checkpoint = Checkpoint(pipeline.spark.checkpoint)
    offset, layout = checkpoint.offset(), checkpoint.layout
    unit, dated = (layout.clock if layout is not None else None) or (pipeline.clock.unit.written, pipeline.clock.dated)
    if offset is None or offset.time == BEGINNING:
        instants = "All instants are"
    else:
        clock = Clock(Unit.from_written(unit), dated, pipeline.clock.zone)
        instants = f"Instants from {format_time(offset.time + 1, clock)} on are"
    return f"{instants} open until later rows have come: the same command goes on. With streaming: false all close at the end."


def summary(totals: Totals, pipeline: Pipeline) -> str:
    """Summary of a finished run, in a few lines."""
    from dotr.runtimes.monitoring.display import count_text, dead_letters_line, left_out_lines

    internal = sum(totals.rules[rule.name].events for rule in pipeline.program.rules.rules if rule.internal and rule.name in totals.rules)
    events = count_text(totals.events, "event") + (f" ({internal:,} internal)" if internal else "")
    lines = [
        f"{count_text(totals.elements, 'element')}, {count_text(totals.instants, 'instant')}, {count_text(totals.facts, 'fact')}, "
        f"{events} -> {', '.join(str(output.destination) for output in pipeline.outputs)}"
    ]
    if any(totals.dead_letters.values()):
        lines.append(
            f"Dead letters: {dead_letters_line(totals)} -> {pipeline.dead_letters or 'not kept (no dead_letter in the configuration)'}"
        )
    if totals.inconsistent:
        lines.append(f"{count_text(totals.inconsistent, 'instant')} contradicted the background or themselves.")
    if totals.dropped:
        triples = f"{count_text(totals.dropped, 'output triple')} {'was' if totals.dropped == 1 else 'were'}"
        lines.append(f"{triples} dropped: a variable was unbound, or a literal stood as subject or predicate.")
    return "\n".join([*lines, *left_out_lines(totals)])
