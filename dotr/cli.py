"""Command line of dotr (interface.md, Commands).

Exit codes: 0 success; 1 a run or a test failed; 2 the configuration, a rule or the usage is wrong.
"""

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
from dotr.errors.terminal import escape_controls, print_stderr, print_stdout

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from dotr.config import Config
    from dotr.monitoring.latest_figures import LatestFigures
    from dotr.monitoring.totals import ReportTotals, Totals
    from dotr.runtimes.pipeline import Pipeline

PrintMessage: TypeAlias = Callable[[str], None]


class _EscapingParser(argparse.ArgumentParser):
    """Argument parser that escapes control characters in its messages."""

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
    """Run a command and return its exit code.

    `arguments` are those of the command line, without the program's name; None takes them from
    `sys.argv`. Errors are printed on stderr; with DOTR_TRACE=1 unexpected ones are raised.
    """
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
                _print_json(str(diagnostic), "error")
        else:
            print_stderr("\n\n".join(map(str, refused.diagnostics)))
        return 2
    except KeyboardInterrupt:
        print_stderr("Stopped.")
        return 130
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        print_stderr("dotr failed: there is not enough memory.")
        return 1
    except OSError as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        print_stderr(f"dotr failed: {error.filename or 'standard output'}: {(error.strerror or str(error)).lower()}")
        return 1
    except Exception as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        print_stderr(f"dotr failed: {type(error).__name__}: {error}\nThis is a fault of dotr's own; with DOTR_TRACE=1 it shows where.")
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

    print_message = _print_json if options.progress == "json" else print_stderr
    stopped, figures, dead_letters = "Stopped before anything was read.", LatestFigures("", ""), None
    with _sigterm_interrupts(), ExitStack() as stack:
        try:
            config = read_config(options.config, options.options)
            engine = _engine(options.engine, config, print_message)
            figures = LatestFigures(config.settings.name, engine)
            if config.settings.metrics.prometheus is not None:
                from dotr.monitoring.prometheus import serve_metrics

                place = config.span("metrics", "prometheus")
                stack.enter_context(serve_metrics(config.settings.metrics.prometheus, figures.read, place))
            pipeline = build(config, fresh=options.fresh, on_spark=engine == "spark", locks=stack.enter_context(OutputLocks()))
            figures.clock, dead_letters = pipeline.clock, pipeline.dead_letter_path
            _print_notices([*pipeline.program.notices, *pipeline.notices], print_message)
            warnings = sum(warning.code not in config.settings.report.accept for warning in pipeline.program.warnings)
            if warnings and not options.quiet:
                print_message(f"{_count(warnings, 'warning')} of the rules: dotr check {options.config} shows them.")
            stopped = "Stopped: the output holds all batches so far; the same command goes on from the checkpoint (without --fresh)."
            totals = _run_engine(pipeline, engine, figures, quiet=options.quiet, as_json=options.progress == "json")
        except RunFailed as failure:
            if print_message is print_stderr:
                print_message(f"The run failed: {failure}")
            else:
                _print_json(f"The run failed: {failure}", "error")
            return 1
        except KeyboardInterrupt:
            if not options.quiet:
                print_message(stopped)
            return _exit_code(figures.read().totals, dead_letters, print_message)
    if not options.quiet and options.progress == "text":
        print_stderr(summary(totals, pipeline))
    return _exit_code(totals, pipeline.dead_letter_path, print_message)


def _exit_code(totals: Totals, dead_letters: str | None, print_message: PrintMessage) -> int:
    """Exit code of a finished or stopped run: 1 where every element was rejected."""
    from dotr.monitoring.display import dead_letters_line

    if not totals.all_rejected:
        return 0
    way_out = f"{dead_letters} holds them" if dead_letters else "name a file as dead_letter to keep them"
    text = f"The run failed: it rejected every element that it read ({dead_letters_line(totals)}); {way_out}."
    if print_message is print_stderr:
        print_message(text)
    else:
        _print_json(text, "error")
    return 1


def _print_json(text: str, level: str = "info") -> None:
    from dotr.monitoring.display import json_message

    print_stderr(json_message(level, text))


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
    from dotr.runtimes.spark.java import java_problem, pyspark_problem

    problem, hint = java_problem(), "Install Java 17 or later, or run with --engine local."
    if problem is None:
        problem, hint = pyspark_problem(), "Install Spark for Python with pip install 'dotr[spark]', or run with --engine local."
    if problem is None:
        return engine
    if requested:
        raise Refused([Diagnostic("S101", f"Spark cannot run here: {problem}", None, hint)])
    print_message(f"Spark cannot run here: {problem}. So the run goes on in this process, as with --engine local.")
    return "local"


def _run_engine(pipeline: Pipeline, engine: str, figures: LatestFigures, *, quiet: bool, as_json: bool) -> Totals:
    from dotr.monitoring.display import json_progress, progress_line
    from dotr.monitoring.totals import ignore_activity

    with ExitStack() as stack:
        reports: list[ReportTotals] = [figures.update_totals]
        report_activity: PrintMessage = ignore_activity
        if as_json and not quiet:
            stack.enter_context(json_progress(figures))
        else:
            line = stack.enter_context(progress_line(pipeline.name, quiet=quiet))
            reports.append(line)
            report_activity = line.report_activity

        def report(totals: Totals) -> None:
            for each in reports:
                each(totals)

        if engine == "spark":
            from dotr.runtimes.spark.run import run_spark

            return run_spark(pipeline, report, figures.update_progress, report_activity)
        from dotr.runtimes.local import run_local

        return run_local(pipeline, report, figures.update_progress)


def summary(totals: Totals, pipeline: Pipeline) -> str:
    """Summary of a finished run, in a few lines."""
    from dotr.monitoring.display import count_text, dead_letters_line

    lines = [
        f"{count_text(totals.elements, 'element')}, {count_text(totals.instants, 'instant')}, {count_text(totals.facts, 'fact')}, "
        f"{count_text(totals.events, 'event')} -> {', '.join(pipeline.output_paths)}"
    ]
    if any(totals.dead_letters.values()):
        lines.append(
            f"Dead letters: {dead_letters_line(totals)} -> {pipeline.dead_letter_path or 'not kept (no dead_letter in the configuration)'}"
        )
    if totals.inconsistent:
        lines.append(f"{count_text(totals.inconsistent, 'instant')} contradicted the background or themselves.")
    if totals.dropped:
        triples = f"{count_text(totals.dropped, 'output triple')} {'was' if totals.dropped == 1 else 'were'}"
        lines.append(f"{triples} dropped: a variable was unbound, or a literal stood as subject or predicate.")
    return "\n".join(lines)


def _check(paths: Sequence[str], *, strict: bool) -> int:
    from dotr.workbench.check import check

    result = check(paths)
    for diagnostic in result.diagnostics:
        print_stderr(f"{diagnostic}\n")
    errors = sum(d.severity is Severity.ERROR for d in result.diagnostics)
    warnings = len(result.diagnostics) - errors
    for state in () if errors else result.states:
        print_stdout(str(state))
    left_out = (
        f" ({_count(result.skipped_count, 'YAML file')} neither configuration nor rule test, left out)" if result.skipped_count else ""
    )
    accepted = f" ({result.accepted_count} accepted)" if result.accepted_count else ""
    print_stderr(
        f"{_count(result.file_count, 'file')} checked{left_out}: {_count(errors, 'error')}, {_count(warnings, 'warning')}{accepted}."
    )
    return 2 if errors or (strict and warnings) else 0


def _plan(options: argparse.Namespace) -> int:
    from dotr.config import read_config
    from dotr.runtimes.pipeline import build
    from dotr.workbench.plan import plan

    print_stdout("\n".join(plan(build(read_config(options.config, options.options), fresh=False, on_spark=True, wait=False))))
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else f"no {noun}s"


def _test(paths: Sequence[str]) -> int:
    from dotr.workbench.rule_tests import run_tests

    passed = failed = unread = 0
    for outcome in run_tests(paths):
        if outcome.problems:
            unread += 1
            print_stderr("\n\n".join(map(str, outcome.problems)) + "\n")
        elif outcome.difference:
            failed += 1
            print_stdout(f"FAILED {outcome.file}: {outcome.case}\n{outcome.difference}\n")
        else:
            passed += 1
            print_stdout(f"ok     {outcome.file}: {outcome.case}")
    for found in drain_fallbacks():
        print_stderr(f"warning: {found}\n")
    print_stdout(f"{passed} passed, {failed} failed" + (f", {unread} could not be run" if unread else ""))
    return 2 if unread else 1 if failed else 0


def _explain(path: str, form: str) -> int:
    from dotr.workbench.explain import explain

    print_stdout(explain(path, form))
    return 0


def _status(checkpoint: str, form: str, *, quick: bool) -> int:
    from dotr.workbench.status import status

    print_stdout(status(checkpoint, form, quick=quick))
    return 0


def _new(folder: str) -> int:
    from dotr.workbench.new import new_project

    for path in new_project(folder):
        print_stdout(path)
    print_stderr(f"A project that works. Next: cd {folder}; dotr run config.yaml; dotr test tests; dotr check .")
    return 0


def _kb(options: argparse.Namespace) -> int:
    from dotr.workbench.kb import compiled_background, summary_lines

    build = options.action == "build"
    background = compiled_background(options.config, options.options, fresh=build and options.fresh)
    _print_notices(background.notices)
    if background.store is None:
        print_stderr(
            "No compiled background could be written." if background.notices else "There is no folder to keep compiled backgrounds in."
        )
        return 1
    if background.is_new and not build:
        print_stderr("It was not compiled yet; now it is.")
    if build:
        built = "The background was read, closed and written."
        print_stderr(built if background.is_new else "The background is compiled already: no source has changed.")
    print_stdout("\n".join(summary_lines(background, background.store)))
    return 0


def _print_notices(notices: Sequence[Diagnostic], print_message: PrintMessage | None = None) -> None:
    for notice in notices:
        (print_message or print_stderr)(f"{notice}\n" if print_message is None or print_message is print_stderr else str(notice))


def _bundle(folder: str) -> int:
    from dotr.workbench.bundle import bundle

    archive, script = bundle(folder)
    print_stdout(f"{archive}\n{script}")
    return 0
