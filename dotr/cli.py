"""The command line (interface.md, Commands). Exit codes: 0; 1 a run or a test failed; 2 the configuration or a rule is wrong."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from dotr import __version__
from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.errors.fallbacks import drain_fallbacks
from dotr.errors.terminal import escape_controls
from dotr.errors.terminal import print_stderr as _say
from dotr.errors.terminal import print_stdout as _tell

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from dotr.config import Config
    from dotr.monitoring.latest_figures import LatestFigures
    from dotr.monitoring.totals import ReportTotals, Totals
    from dotr.runtimes.pipeline import Pipeline

Say: TypeAlias = Callable[[str], None]


class _EscapingParser(argparse.ArgumentParser):
    """Repeats arguments that it does not know as a terminal may show them."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(escape_controls(message), file)


def _parser() -> argparse.ArgumentParser:
    parser = _EscapingParser(prog="dotr", description="Reasoning over streams of RDF.")
    parser.add_argument("--version", action="version", version=f"dotr {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a pipeline to the end of its input, or until stopped")
    run.add_argument("config", metavar="CONFIG", help="the pipeline's configuration (YAML)")
    run.add_argument("--engine", choices=("spark", "local"), help="Spark, or in this process, without Java")
    run.add_argument(
        "--set", action="append", default=[], dest="options", metavar="KEY.PATH=VALUE", help="change a value of the configuration"
    )
    run.add_argument("--fresh", action="store_true", help="remove this pipeline's output and checkpoint first")
    run.add_argument("--quiet", action="store_true", help="no progress on stderr")
    run.add_argument("--progress", choices=("text", "json"), default="text", help="text (default), or a JSON object a line, on stderr")

    status = commands.add_parser("status", help="show how far the run of a checkpoint on Spark came, also while it goes on")
    status.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder that the configuration names as spark.checkpoint")
    status.add_argument("--format", choices=("text", "json"), default="text", help="text (default), or one JSON object")
    status.add_argument("--quick", action="store_true", help="from the checkpoint's own files alone: do not start Spark to read its state")

    check = commands.add_parser("check", help="parse and check rules, Datalog, configurations and rule tests")
    check.add_argument("paths", nargs="+", metavar="PATH", help=".dotr, .dlog, .yaml, or a folder of them")
    check.add_argument("--strict", action="store_true", help="warnings end with 2 as errors do")

    plan = commands.add_parser("plan", help="show what a restart on Spark would keep of each rule's state, lose, or refuse")
    plan.add_argument("config", metavar="CONFIG", help="the pipeline's configuration (YAML)")
    plan.add_argument(
        "--set", action="append", default=[], dest="options", metavar="KEY.PATH=VALUE", help="change a value of the configuration"
    )

    test = commands.add_parser("test", help="run rule tests")
    test.add_argument("paths", nargs="+", metavar="PATH", help="a rule test (.yaml), or a folder of them")

    explain = commands.add_parser("explain", help="show how each rule will run")
    explain.add_argument("path", metavar="PATH", help="a rule file (.dotr) or a configuration (.yaml)")
    explain.add_argument("--format", choices=("text", "mermaid", "svg"), default="text", help="text (default), or a drawing")

    new = commands.add_parser("new", help="write a small working project: configuration, rule, knowledge, data, a test")
    new.add_argument("folder", metavar="DIR", help="a folder that is empty or not there yet")

    kb = commands.add_parser("kb", help="compile background knowledge, or show what is in it")
    actions = kb.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="read and close the background of a configuration, and write it as a file that runs map")
    info = actions.add_parser("info", help="show its triples, what each rule derived, its size and what it took")
    for action in (build, info):
        action.add_argument("config", metavar="CONFIG", help="the pipeline's configuration (YAML)")
        action.add_argument(
            "--set", action="append", default=[], dest="options", metavar="KEY.PATH=VALUE", help="change a value of the configuration"
        )
    build.add_argument("--fresh", action="store_true", help="make it again, even if it is there")

    bundle = commands.add_parser("bundle", help="write dotr.zip and run_dotr.py, which spark-submit runs")
    bundle.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where to (default: here)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; never raises for a mistake of the user's."""
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as done:  # usage, or --help
        return done.code if isinstance(done.code, int) else 2
    try:
        if os.environ.get("DOTR_CODE"):
            from dotr.codegen import check_folder

            check_folder()
        return _command(options)
    except Refused as refused:
        if getattr(options, "progress", "") == "json":
            for diagnostic in refused.diagnostics:
                _json_says(str(diagnostic), "error")
        else:
            _say("\n\n".join(map(str, refused.diagnostics)))
        return 2
    except KeyboardInterrupt:
        _say("Stopped.")
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        _say("dotr failed: there is not enough memory.")
        return 1
    except OSError as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        _say(f"dotr failed: {error.filename or 'standard output'}: {(error.strerror or str(error)).lower()}")
        return 1
    except Exception as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        _say(f"dotr failed: {type(error).__name__}: {error}\nThis is a fault of dotr's own; with DOTR_TRACE=1 it shows where.")
        return 1


def _command(options: argparse.Namespace) -> int:
    match options.command:
        case "run":
            return _run(options)
        case "check":
            return _check(options.paths, strict=options.strict)
        case "plan":
            return _plan(options)
        case "test":
            return _test(options.paths)
        case "explain":
            return _explain(options.path, options.format)
        case "new":
            return _new(options.folder)
        case "status":
            return _status(options.checkpoint, options.format, quick=options.quick)
        case "kb":
            return _kb(options)
        case _:
            return _bundle(options.folder)


def _run(options: argparse.Namespace) -> int:
    from dotr.config import read_config
    from dotr.monitoring.latest_figures import LatestFigures
    from dotr.monitoring.totals import RunFailed
    from dotr.runtimes.output_locks import OutputLocks
    from dotr.runtimes.pipeline import build

    say = _json_says if options.progress == "json" else _say
    stopped, meter, dead_letters = "Stopped before anything was read.", LatestFigures("", ""), None
    with _terminable(), ExitStack() as stack:
        try:
            config = read_config(options.config, options.options)
            engine = _engine(options.engine, config, say)
            meter = LatestFigures(config.settings.name, engine)
            if config.settings.metrics.prometheus is not None:
                from dotr.monitoring.prometheus import served

                place = config.place("metrics", "prometheus")
                stack.enter_context(served(config.settings.metrics.prometheus, meter.read, place))
            pipeline = build(config, fresh=options.fresh, on_spark=engine == "spark", held=stack.enter_context(OutputLocks()))
            meter.clock, dead_letters = pipeline.clock, pipeline.dead_letter_path
            _notices([*pipeline.program.notices, *pipeline.notices], say)
            warnings = sum(warning.code not in config.settings.report.accept for warning in pipeline.program.warnings)
            if warnings and not options.quiet:
                say(f"{_count(warnings, 'warning')} of the rules: dotr check {options.config} shows them.")
            stopped = "Stopped: the output holds all batches so far; the same command goes on from the checkpoint (without --fresh)."
            totals = _go(pipeline, engine, meter, quiet=options.quiet, as_json=options.progress == "json")
        except RunFailed as failure:
            if say is _say:
                say(f"The run failed: {failure}")
            else:
                _json_says(f"The run failed: {failure}", "error")
            return 1
        except KeyboardInterrupt:
            if not options.quiet:
                say(stopped)
            return _code(meter.read().totals, dead_letters, say)
    if not options.quiet and options.progress == "text":
        _say(summary(totals, pipeline))
    return _code(totals, pipeline.dead_letter_path, say)


def _code(totals: Totals, dead_letters: str | None, say: Say) -> int:
    """The exit code of a run that has come to its end, or was stopped."""
    from dotr.monitoring.display import dead_letters_line

    if not totals.all_rejected:
        return 0
    kept = f"{dead_letters} holds them" if dead_letters else "name a file as dead_letter to keep them"
    text = f"The run failed: it rejected every element that it read ({dead_letters_line(totals)}); {kept}."
    if say is _say:
        say(text)
    else:
        _json_says(text, "error")
    return 1


def _json_says(text: str, level: str = "info") -> None:
    from dotr.monitoring.display import json_message

    _say(json_message(level, text))


@contextmanager
def _terminable() -> Iterator[None]:
    """While it holds, SIGTERM does what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _engine(asked: str | None, config: Config, say: Say) -> str:
    """The engine to run with: where Spark is not asked for on the command line and cannot run, this process."""
    engine = asked or config.settings.engine
    if engine == "local":
        return engine
    from dotr.runtimes.spark.java import java_problem, pyspark_problem

    problem, hint = java_problem(), "Install Java 17 or later, or run with --engine local."
    if problem is None:
        problem, hint = pyspark_problem(), "Install Spark for Python with pip install 'dotr[spark]', or run with --engine local."
    if problem is None:
        return engine
    if asked:
        raise Refused([Diagnostic("S101", f"Spark cannot run here: {problem}", None, hint)])
    say(f"Spark cannot run here: {problem}. So the run goes on in this process, as with --engine local.")
    return "local"


def _go(pipeline: Pipeline, engine: str, meter: LatestFigures, *, quiet: bool, as_json: bool) -> Totals:
    from dotr.monitoring.display import json_progress, progress
    from dotr.monitoring.totals import ignore_activity

    with ExitStack() as stack:
        told: list[ReportTotals] = [meter.update_totals]
        does: Say = ignore_activity
        if as_json and not quiet:
            stack.enter_context(json_progress(meter))
        else:
            line = stack.enter_context(progress(pipeline.name, quiet=quiet))
            told.append(line)
            does = line.report_activity

        def report(totals: Totals) -> None:
            for tell in told:
                tell(totals)

        if engine == "spark":
            from dotr.runtimes.spark.run import run_spark

            return run_spark(pipeline, report, meter.update_progress, does)
        from dotr.runtimes.local import run_local

        return run_local(pipeline, report, meter.update_progress)


def summary(totals: Totals, pipeline: Pipeline) -> str:
    """What a run has done, in a few lines."""
    from dotr.monitoring.display import counted, dead_letters_line

    lines = [
        f"{counted(totals.elements, 'element')}, {counted(totals.instants, 'instant')}, {counted(totals.facts, 'fact')}, "
        f"{counted(totals.events, 'event')} -> {', '.join(pipeline.output_paths)}"
    ]
    if any(totals.dead_letters.values()):
        lines.append(
            f"Dead letters: {dead_letters_line(totals)} -> {pipeline.dead_letter_path or 'not kept (no dead_letter in the configuration)'}"
        )
    if totals.inconsistent:
        lines.append(f"{counted(totals.inconsistent, 'instant')} contradicted the background or themselves.")
    if totals.dropped:
        triples = f"{counted(totals.dropped, 'output triple')} {'was' if totals.dropped == 1 else 'were'}"
        lines.append(f"{triples} dropped: a variable was unbound, or a literal stood as subject or predicate.")
    return "\n".join(lines)


def _check(paths: Sequence[str], *, strict: bool) -> int:
    from dotr.workbench.check import check

    found = check(paths)
    for diagnostic in found.diagnostics:
        _say(f"{diagnostic}\n")
    errors = sum(d.severity is Severity.ERROR for d in found.diagnostics)
    warnings = len(found.diagnostics) - errors
    for state in () if errors else found.states:
        _tell(str(state))
    left_out = f" ({_count(found.left_out, 'YAML file')} neither configuration nor rule test, left out)" if found.left_out else ""
    accepted = f" ({found.accepted} accepted)" if found.accepted else ""
    _say(f"{_count(found.checked, 'file')} checked{left_out}: {_count(errors, 'error')}, {_count(warnings, 'warning')}{accepted}.")
    return 2 if errors or (strict and warnings) else 0


def _plan(options: argparse.Namespace) -> int:
    from dotr.config import read_config
    from dotr.runtimes.pipeline import build
    from dotr.workbench.plan import plan

    _tell("\n".join(plan(build(read_config(options.config, options.options), fresh=False, on_spark=True, waiting=False))))
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else f"no {noun}s"


def _test(paths: Sequence[str]) -> int:
    from dotr.workbench.rule_tests import run_tests

    passed = failed = unread = 0
    for outcome in run_tests(paths):
        if outcome.problems:
            unread += 1
            _say("\n\n".join(map(str, outcome.problems)) + "\n")
        elif outcome.difference:
            failed += 1
            _tell(f"FAILED {outcome.file}: {outcome.case}\n{outcome.difference}\n")
        else:
            passed += 1
            _tell(f"ok     {outcome.file}: {outcome.case}")
    for found in drain_fallbacks():
        _say(f"warning: {found}\n")
    _tell(f"{passed} passed, {failed} failed" + (f", {unread} could not be run" if unread else ""))
    return 2 if unread else 1 if failed else 0


def _explain(path: str, form: str) -> int:
    from dotr.workbench.explain import explain

    _tell(explain(path, form))
    return 0


def _status(checkpoint: str, form: str, *, quick: bool) -> int:
    from dotr.workbench.status import status

    _tell(status(checkpoint, form, quick=quick))
    return 0


def _new(folder: str) -> int:
    from dotr.workbench.new import new_project

    for path in new_project(folder):
        _tell(path)
    _say(f"A project that works. Next: cd {folder}; dotr run config.yaml; dotr test tests; dotr check .")
    return 0


def _kb(options: argparse.Namespace) -> int:
    from dotr.workbench.kb import compiled, told

    build = options.action == "build"
    found = compiled(options.config, options.options, fresh=build and options.fresh)
    _notices(found.notices)
    if found.store is None:
        _say("No compiled background could be written." if found.notices else "There is no folder to keep compiled backgrounds in.")
        return 1
    if found.made and not build:
        _say("It was not compiled yet; now it is.")
    if build:
        _say("The background was read, closed and written." if found.made else "The background is compiled already: no source has changed.")
    _tell("\n".join(told(found, found.store)))
    return 0


def _notices(notices: Sequence[Diagnostic], say: Say | None = None) -> None:
    for notice in notices:
        (say or _say)(f"{notice}\n" if say is None or say is _say else str(notice))


def _bundle(folder: str) -> int:
    from dotr.workbench.bundle import bundle

    archive, script = bundle(folder)
    _tell(f"{archive}\n{script}")
    return 0
