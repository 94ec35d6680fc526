"""Programs of all languages: rule files without a configuration, and warnings of each language on the
streams that a program reads.

Parsers, and the checks of a language, are loaded where they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dotr.engine.multi_query import share_queries
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import RuleSet
from dotr.engine.stream_terms import StreamObjects
from dotr.errors.diagnostics import Diagnostic
from dotr.model.places import Document
from dotr.model.terms import Prefixes, Term
from dotr.temporal.layout.layers import lay_out


def rules_alone(documents: Sequence[Document]) -> RuleSet:
    """The rules of rule files as one program without a configuration. Without errors, diagnostics
    include the warnings on the layout."""
    from dotr.languages.rules import compile_rules
    from dotr.languages.rules.spread_warnings import spread_warnings

    rules = compile_rules(documents, {})
    if rules.errors:
        return rules
    layout = lay_out(share_queries(rules.rules), cut=True)
    return replace(rules, diagnostics=(*rules.diagnostics, *spread_warnings(layout, rules.diagnostics)))


def warnings_on_conditions(program: CompiledProgram, objects: StreamObjects) -> Iterator[Diagnostic]:
    """Warnings on conditions of rules that are never true for the known objects of the streams."""
    from dotr.languages.rules.never_true import never_true

    return never_true(program, objects)


def warnings_on_windows(program: CompiledProgram, objects: StreamObjects) -> Iterator[Diagnostic]:
    """Warnings on predicates that windows ask for, and that only the background has, given the known
    objects of the streams."""
    if program.units:
        from dotr.languages.continuous.background_blocks import of_the_background

        yield from of_the_background(program, objects)


def warnings_on_streams(
    program: CompiledProgram,
    streamed: Mapping[str, frozenset[Term]],
    nearest: Callable[[Term, Iterable[Term], Prefixes], str],
    *,
    complete: bool,
) -> Iterator[Diagnostic]:
    """Warnings on predicates and classes that the windows of a program ask for.

    Args:
        program: the program.
        streamed: the predicates and classes of each input that was read, by the input's name.
        nearest: finds a known term with a similar spelling.
        complete: all records were read.
    """
    if program.units:
        from dotr.languages.continuous.stream_check import missing_in_windows

        yield from missing_in_windows(program, streamed, nearest, complete=complete)
