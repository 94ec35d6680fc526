"""The command line (interface.md, Commands). Exit codes: 0; 1 a run or a test failed; 2 the configuration or a rule is wrong."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dotr.diagnostics import Diagnostic, Refused, Severity

if TYPE_CHECKING:
    from dotr.runtimes.pipeline import Pipeline
    from dotr.runtimes.totals import Totals


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dotr", description="Reasoning over streams of RDF.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a pipeline to the end of its input, or until stopped")
    run.add_argument("config", metavar="CONFIG", help="the pipeline's configuration (YAML)")
    run.add_argument("--engine", choices=("spark", "local"), help="Spark, or in this process, without Java")
    run.add_argument(
        "--set", action="append", default=[], dest="options", metavar="KEY.PATH=VALUE", help="change a value of the configuration"
    )
    run.add_argument("--fresh", action="store_true", help="remove this pipeline's output and checkpoint first")
    run.add_argument("--quiet", action="store_true", help="no progress on stderr")

    check = commands.add_parser("check", help="parse and check rules, Datalog and configurations")
    check.add_argument("paths", nargs="+", metavar="PATH", help=".dotr, .dlog, .yaml, or a folder of them")
    check.add_argument("--strict", action="store_true", help="warnings end with 2 as errors do")

    test = commands.add_parser("test", help="run rule tests")
    test.add_argument("paths", nargs="+", metavar="PATH", help="a rule test (.yaml), or a folder of them")

    bundle = commands.add_parser("bundle", help="write dotr.zip and run_dotr.py, which spark-submit runs")
    bundle.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where to (default: here)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; never raises for a mistake of the user's."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "run":
                return _run(options)
            case "check":
                return _check(options.paths, strict=options.strict)
            case "test":
                return _test(options.paths)
            case _:
                return _bundle(options.folder)
    except Refused as refused:
        _say("\n\n".join(map(str, refused.diagnostics)))
        return 2
    except KeyboardInterrupt:
        _say("Stopped.")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("DOTR_TRACE"):
            raise
        _say(f"dotr failed: {type(error).__name__}: {error}\nThis is a fault of dotr's own; with DOTR_TRACE=1 it shows where.")
        return 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _tell(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _run(options: argparse.Namespace) -> int:
    from dotr.config import read_config
    from dotr.runtimes.pipeline import build
    from dotr.runtimes.totals import RunFailed

    config = read_config(options.config, options.options)
    engine = options.engine or config.settings.engine
    if engine == "spark":
        from dotr.runtimes.spark.java import java_problem

        problem = java_problem()
        if problem is not None:
            if options.engine == "spark":
                raise Refused([Diagnostic("S101", problem, None, "Install Java 17 or later, or run with --engine local.")])
            _say(f"{problem} The run goes on in this process (--engine local).")
            engine = "local"
    pipeline = build(config, fresh=options.fresh, on_spark=engine == "spark")
    if pipeline.program.warnings and not options.quiet:
        _say(f"{_count(len(pipeline.program.warnings), 'warning')} of the rules: dotr check {options.config} shows them.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        totals = _go(pipeline, engine, quiet=options.quiet)
    except RunFailed as failure:
        _say(f"The run failed: {failure}")
        return 1
    if not options.quiet:
        _say(summary(totals, pipeline))
    return 0


def _go(pipeline: Pipeline, engine: str, *, quiet: bool) -> Totals:
    import logging

    from dotr.workbench.progress import progress

    logging.basicConfig(format="%(message)s", level=logging.ERROR if quiet else logging.WARNING, stream=sys.stderr)
    with progress(pipeline.name, quiet=quiet) as report:
        if engine == "spark":
            from dotr.runtimes.spark.run import run_spark

            return run_spark(pipeline, report)
        from dotr.runtimes.local import run_local

        return run_local(pipeline, report)


def summary(totals: Totals, pipeline: Pipeline) -> str:
    """What a run has done, in a few lines."""
    lines = [
        f"{totals.elements:,} elements, {totals.instants:,} instants, {totals.facts:,} facts, {totals.events:,} events"
        f" -> {', '.join(pipeline.output_paths)}"
    ]
    dead = ", ".join(f"{count:,} {reason.value}" for reason, count in totals.dead.items() if count)
    if dead:
        lines.append(f"Dead letters: {dead} -> {pipeline.dead_letter_path or 'not kept (no dead_letter in the configuration)'}")
    if totals.dropped:
        lines.append(f"{totals.dropped:,} output triples were dropped: a variable was unbound, or a literal stood as subject or predicate.")
    return "\n".join(lines)


def _check(paths: Sequence[str], *, strict: bool) -> int:
    from dotr.workbench.check import check

    diagnostics, checked = check(paths)
    for diagnostic in diagnostics:
        _say(f"{diagnostic}\n")
    errors = sum(d.severity is Severity.ERROR for d in diagnostics)
    warnings = len(diagnostics) - errors
    _say(f"{checked} checked: {_count(errors, 'error')}, {_count(warnings, 'warning')}.")
    return 2 if errors or (strict and warnings) else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else f"no {noun}s"


def _test(paths: Sequence[str]) -> int:
    from dotr.workbench.rule_tests import run_tests

    passed = failed = 0
    for outcome in run_tests(paths):
        if outcome.difference:
            failed += 1
            _tell(f"FAILED {outcome.file}: {outcome.case}\n{outcome.difference}\n")
        else:
            passed += 1
            _tell(f"ok     {outcome.file}: {outcome.case}")
    _tell(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _bundle(folder: str) -> int:
    from dotr.workbench.bundle import bundle

    archive, script = bundle(folder)
    _tell(f"{archive}\n{script}")
    return 0
