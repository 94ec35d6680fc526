"""Command `dotr kb`: compile background knowledge, show what is in it, or compare its closure."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dotr.commands.common import Commands, add_config, count_noun, print_notices
from dotr.errors.diagnostics import Diagnostic
from dotr.errors.terminal import print_stderr, print_stdout
from dotr.model import dataclass

if TYPE_CHECKING:
    from dotr.engine.program import CompiledProgram
    from dotr.instant.datalog.background.compiled_store import CompiledStore

_TEXT = "text"
_OF_TERMS = ("ends", "high", "buckets", "marks", "numbers")


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    kb = commands.add_parser("kb", help="compile background knowledge, show what is in it, or compare its closure")
    actions = kb.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="read and close the background of a configuration, and write it as a file that runs map")
    info = actions.add_parser("info", help="show its triples, what each rule derived, its size and what it took")
    judge = actions.add_parser("compare", help="close it with owlrl as well, and show what only one of the two derives")
    for action in (build, info, judge):
        add_config(action)
    build.add_argument("--fresh", action="store_true", help="make it again, even if it is there")
    judge.add_argument("--at", metavar="T", help="the closure at the instant of a time, as an element has it")
    judge.add_argument("--all", dest="every", action="store_true", help="all triples, not ten of each reason")


def execute(options: argparse.Namespace) -> int:
    """Compile, describe or compare a background; returns the exit code: 1 for a difference without a
    reason.
    """
    if options.action == "compare":
        from dotr.commands.kb.comparison import compare_configuration, report_lines

        differences, terms = compare_configuration(options.config, options.options, options.at)
        print_stdout("\n".join(report_lines(differences, terms, None if options.every else 10)))
        return 0 if all(difference.row for difference in differences) else 1
    build = options.action == "build"
    background = compiled_background(options.config, options.options, fresh=build and options.fresh)
    print_notices(background.notices)
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


@dataclass(frozen=True, slots=True)
class CompiledBackground:
    """Program of a configuration over a compiled background.

    `store`: None where it cannot be written, for the reason in `notices`; `is_new`: compiled by
    this call; `open_seconds`: time to open the store.
    """

    program: CompiledProgram
    store: CompiledStore | None
    is_new: bool
    open_seconds: float
    notices: tuple[Diagnostic, ...]


def compiled_background(config: str, options: Sequence[str] = (), *, fresh: bool = False) -> CompiledBackground:
    """Compile a configuration's background unless the compiled one is current; `fresh` compiles it
    in any event.

    Raises `Refused` with the program's problems.
    """
    from dotr.instant.datalog.background.compiled_store import CompiledStore
    from dotr.languages.programs import compile_program
    from dotr.runtimes.pipeline.config import read_config

    settings = read_config(config, options)
    program = compile_program(settings.program(), settings.cache_policy(0, fresh=fresh))
    if program.store is None:
        return CompiledBackground(program, None, False, 0.0, program.notices)
    start = time.perf_counter()
    file = program.store.file
    store = CompiledStore(file.path, file.key, shared=file.shared)
    return CompiledBackground(program, store, program.store_made, time.perf_counter() - start, program.notices)


def summary_lines(background: CompiledBackground, store: CompiledStore) -> Iterator[str]:
    """Lines of a summary: triples, terms, derivations by rule, static answers, sizes and times."""
    from dotr.evaluation.files.stores import Location
    from dotr.instant.datalog.background.loading import table_rows
    from dotr.instant.datalog.closure.bulk import HIDDEN_TRIPLES
    from dotr.streams.formats.mapping.typed_cells import drain_left_out

    about, file = store.summary, store.file
    knowledge = background.program.knowledge
    sizes = {name: section.length for name, section in file.sections.items()}
    terms = sum(sizes[name] for name in _OF_TERMS)
    visible = store.index.visible_count()
    yield f"triples    {visible:,}: {about.loaded:,} loaded, {visible - about.loaded:,} derived"
    spec = background.program.spec
    drain_left_out()  # of the tables that were compiled just now
    for number, _ in spec.reading.tables:
        counts = [len(row) for _, row in table_rows(spec.graphs[number], number, spec.reading)]
        rows = f"{count_noun(sum(counts), 'triple')} of {count_noun(len(counts), 'row')}"
        path = spec.graphs[number]
        yield f"table      {rows} of {path if Location(path).is_url else os.path.relpath(path)}"
        for (_, column), count in sorted(drain_left_out().items()):
            yield f"           {count_noun(count, 'cell')} of {column} of another type, left out"
    yield f"terms      {about.terms:,}"
    by_rule = {rule: count for rule, count in about.by_rule.items() if count and rule != HIDDEN_TRIPLES}
    yield f"derived    {'by rule' if by_rule else 'nothing'}"
    width = max(map(len, by_rule), default=0)
    for rule, count in sorted(by_rule.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {rule:<{width}}  {count:>12,}"
    if knowledge.contradictions:
        yield f"contradictions  {len(knowledge.contradictions):,}"
    answers = [len(plan.static) for plan in background.program.stage_one.plans if plan.static]
    yield f"answers    {sum(answers):,} of {len(answers)} quer{'y' if len(answers) == 1 else 'ies'}, by the background alone"
    yield (
        f"size       {_bytes(file.size)}: {sizes['triples'] / max(1, len(store.index)):.1f} bytes a triple, "
        f"{terms / max(1, about.terms):.1f} a term, {_bytes(sizes[_TEXT])} of text"
    )
    yield f"time       {about.seconds:.2f} s to read and close, {background.open_seconds * 1e3:.1f} ms to open"
    yield f"file       {file.path}"


def _bytes(count: int) -> str:
    """
    >>> _bytes(999), _bytes(16_000_000)
    ('999 bytes', '16.0 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
