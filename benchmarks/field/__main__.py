"""The command `benchmarks/run`.

benchmarks/run NAME…     set up peers in out/benchmarks, measure, write benchmarks/results
benchmarks/run all       each work that was not measured at this commit yet; can be interrupted
benchmarks/run quick     small sizes, five minutes; writes out/benchmarks/quick
benchmarks/run stale     results that are older than the last change of what they measure
benchmarks/run flame     a flame graph of the run in process, into benchmarks/results/profile
benchmarks/run tables    the tables of README.md and docs/performance.md, from the results
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.field import flame, machine, pages, results, tables
from benchmarks.field.measuring import measure
from benchmarks.field.peers import OUT, ROOT
from benchmarks.field.plots import plot, starts
from benchmarks.field.works import Scale, Work, works


def say(text: str) -> None:
    """Prints a line to the terminal."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run(work: Work, scale: Scale, folder: Path, command: str, only: str = "", against: str = "") -> results.Result | None:
    """Measures a work, and writes its result as JSON, Markdown and SVG into a folder; None, without a file, if it has no case.

    `only`: the cases whose name has this text. `against`: a commit of dotr that is measured in turns with the present one.
    """
    say(f"{work.name}: {work.title} (about {work.minutes:g} min on a quiet machine at full size)")
    before, began, date = machine.load(), time.perf_counter(), datetime.now(UTC)
    commit = machine.commit()
    inputs = OUT / "input" / work.name
    inputs.mkdir(parents=True, exist_ok=True)
    cases = []
    for case in work.cases(scale, inputs):
        if only not in case.name:
            continue
        say(f" {case.name}: {case.units:,} times one {case.unit}, {case.expected:,} results by definition")
        cases.append(results.case_result(case, measure(case.beside(against) if against else case, say)))
    if not cases:
        say(f" nothing to measure{f': {work.nothing}' if work.nothing else ''}")
        return None
    result = results.Result(
        work=work.name,
        title=work.title,
        command=command,
        scale=scale.value,
        packages=work.packages,
        axis=work.axis,
        commit=commit,
        date=f"{date:%Y-%m-%d %H:%M} UTC",
        seconds=round(time.perf_counter() - began, 1),
        load_before=tuple(before),
        load_after=tuple(machine.load()),
        machine=machine.this_machine(),
        cases=results.with_multiples(cases),
    )
    results.write_whole(folder / f"{work.name}.md", tables.page(result))
    results.write_whole(folder / f"{work.name}.svg", plot(result.present()))
    if any(case.systems[0].cold_parts for case in cases):
        results.write_whole(folder / f"{work.name}-start.svg", starts(result))
    results.write(result, folder / f"{work.name}.json")
    say(f" {result.seconds:.0f} s; {folder / work.name}.json, .md, .svg")
    return result


def stale() -> int:
    """Prints the results that are older than the last change of what they measure."""
    measured = [(result.work, result.commit, result.packages) for result in results.all_results()]
    if (profile := flame.read_profile()) is not None:
        measured.append(("flame", profile.commit, flame.PACKAGES))
    found = [each for each in measured if machine.is_stale(*each[1:])]
    for name, commit, packages in found:
        say(f"{name}: measured at {commit[:9]}{'+changes' if '+' in commit else ''}, before the last change of {', '.join(packages)}")
    if not found:
        say("no result is stale")
    return 1 if found else 0


def run_all(names: dict[str, Work], again: bool) -> None:
    """Measures each work that was not measured with this program yet, at full size; an interrupted work is measured again."""
    for work in names.values():
        path = results.RESULTS / f"{work.name}.json"
        found = results.read(path) if path.is_file() and not again else None
        if found is not None and found.scale == Scale.FULL.value and machine.is_as_now(found.commit):
            say(f"{work.name}: was measured at {found.commit[:9]}, {found.date}, and nothing that makes its figures has changed since")
            continue
        run(work, Scale.FULL, results.RESULTS, f"benchmarks/run {work.name}")
        rewrite_pages()
    profile = flame.read_profile()
    if again or profile is None or not machine.is_as_now(profile.commit):
        flame.profile()
    rewrite_pages()


def rewrite_pages() -> None:
    """Makes the tables of the pages from the results."""
    for page in pages.rewrite():
        say(f"{page.relative_to(ROOT)}: tables made anew")


def main() -> int:
    """Run the command."""
    known = works()
    listed = "\n".join(f"  {work.name:<12} {work.minutes:4g} min  {work.title}" for work in known.values())
    parser = argparse.ArgumentParser(
        prog="benchmarks/run", description=f"{__doc__}\nworks:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=[*known, "all", "quick", "flame", "stale", "tables"], metavar="NAME")
    parser.add_argument("--again", action="store_true", help="with all: measure anew what was measured at this commit")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose name has this text; writes out/benchmarks/quick")
    parser.add_argument("--against", default="", metavar="COMMIT", help="dotr at this commit, in turns with the present one")
    parser.add_argument("--keep", action="store_true", help="with --small: write benchmarks/results all the same")
    parser.add_argument("--small", action="store_true", help="the sizes of quick; writes out/benchmarks/quick")
    options = parser.parse_args()
    if options.against and not (commit := machine.git("rev-parse", "--verify", "--quiet", f"{options.against}^{{commit}}")):
        parser.error(f"--against {options.against}: there is no such commit here")
    options.against = options.against and commit
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return perform(options, known)
    except KeyboardInterrupt:
        say("stopped: the work under way leaves no result, those before it are written; benchmarks/run all goes on with the others")
        return 130


def perform(options: argparse.Namespace, known: dict[str, Work]) -> int:
    """Runs the given commands, one after the other."""
    for name in options.names:
        match name:
            case "all":
                run_all(known, options.again)
            case "quick":
                for work in known.values():
                    run(work, Scale.QUICK, OUT / "quick", "benchmarks/run quick")
            case "flame":
                say("  ".join(f"{step} {share} %" for step, share in flame.profile().items()))
            case "stale":
                return stale()
            case "tables":
                rewrite_pages()
            case _:
                folder = OUT / "quick" if (options.small and not options.keep) or options.only else results.RESULTS
                command = f"benchmarks/run {name}{' --small' if options.small else ''}{f' --only {options.only!r}' if options.only else ''}"
                command += f" --against {options.against[:9]}" if options.against else ""
                run(known[name], Scale.QUICK if options.small else Scale.FULL, folder, command, options.only, options.against)
    return 0


if __name__ == "__main__":
    sys.exit(main())
