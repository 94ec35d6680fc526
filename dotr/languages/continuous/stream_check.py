"""Check of the windows of continuous queries against the data of their streams: `dotr check
--data`.

Each predicate and class of a WINDOW block or an EVENT must occur in the inputs of the window's
stream, or be derivable from them by Datalog or entailment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from dotr.engine.program import CompiledProgram
from dotr.engine.stream_terms import TermDependencies
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.continuous.unit import queries_among
from dotr.model.algebra import Pattern, Select, WindowBlock
from dotr.model.places import Span
from dotr.model.terms import Prefixes, Term
from dotr.model.traverse import walk
from dotr.model.units import FedGraphs
from dotr.syntax.rendering import term_text
from dotr.temporal.intervals.patterns import plain_groups
from dotr.temporal.layout.units import StreamQuery

Nearest: TypeAlias = Callable[[Term, Iterable[Term], Prefixes], str]
"""`nearest(term, known, prefixes)`: the known term with the most similar spelling; empty if
none."""


def missing_in_windows(
    program: CompiledProgram, streamed: Mapping[str, frozenset[Term]], nearest: Nearest, *, complete: bool
) -> Iterator[Diagnostic]:
    """A warning (I111) for each predicate and class of a window's pattern that its stream lacks.

    Args:
        program: the program.
        streamed: the predicates and classes of each input that was read, by the input's name.
        nearest: finds a known term with a similar spelling.
        complete: all records were read.
    """
    by_stream: dict[str, set[Term]] = {}
    for each in program.spec.inputs:
        if each.name not in streamed:
            by_stream.pop(each.fed, None)
        else:
            by_stream.setdefault(each.fed, set()).update(streamed[each.name])
    dependencies, prefixes = TermDependencies(program), program.rules.prefixes
    reported: set[tuple[str, Term]] = set()
    for query in queries_among(program.units):
        for stream, pattern, span in _window_patterns(query):
            if stream not in by_stream:
                continue
            in_stream = frozenset(by_stream[stream])
            for term in dependencies.missing(Select((), pattern), in_stream):
                if (stream, term) in reported:
                    continue
                reported.add((stream, term))
                elsewhere = [name for name, terms in streamed.items() if term in terms]
                closest = nearest(term, in_stream, prefixes)
                hint = f"Input {elsewhere[0]} brings it, which feeds another stream." if elsewhere else ""
                listed = ", ".join(sorted(term_text(each, prefixes) for each in in_stream)[:10])
                hint = hint or (f"Did you mean {closest}?" if closest else f"They bring {listed}.")
                records = "record" if complete else "record that was read"
                text = (
                    f"query {query.name} asks a window for {term_text(term, prefixes)}, and no {records} of its stream {stream} brings it"
                )
                yield Diagnostic("I111", text, span, hint, Severity.WARNING)


def _window_patterns(unit: StreamQuery) -> Iterator[tuple[str, Pattern, Span]]:
    """The patterns that a query evaluates over windows of inputs' streams, each with the stream and
    the window's place.
    """
    windows = zip(unit.query.windows, unit.streams, strict=True)
    named = {window.name: (stream.name, window.span) for window, stream in windows if isinstance(stream, FedGraphs)}
    blocks = [(part.window, part.pattern) for part in walk(unit.query.query) if isinstance(part, WindowBlock)]
    blocks += [(group.window, group.pattern) for match in unit.query.matches for group in plain_groups(match.events)]
    for window, pattern in blocks:
        if window in named:
            stream, span = named[window]
            yield stream, pattern, span
