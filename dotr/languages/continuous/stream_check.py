"""Checks of the windows of continuous queries against what is known of their streams.

Each predicate and class of a WINDOW block or an EVENT must occur in the inputs of the window's
stream, or be derivable from them by Datalog or entailment: `dotr check --data`. A block is
evaluated over the graph of its window alone, so a predicate that occurs only in the background has
no answer there. The predicates of streams are known from the maps of inputs, the streams of test
cases, and the templates of units.
Source: continuous.md, section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from dotr.engine.program import CompiledProgram
from dotr.engine.stream_terms import StreamObjects, TermDependencies
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.continuous.model import ConstructForm, StreamQuery
from dotr.languages.continuous.unit import queries_among
from dotr.model.algebra import Const, Pattern, Select, TriplePattern, WindowBlock
from dotr.model.places import Span
from dotr.model.terms import RDF_TYPE, Prefixes, Term, iri_text
from dotr.model.traverse import walk
from dotr.model.units import FedGraphs
from dotr.syntax.rendering import term_text
from dotr.temporal.intervals.patterns import plain_groups

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


def of_the_background(program: CompiledProgram, stream_objects: StreamObjects) -> Iterator[Diagnostic]:
    """A warning for each predicate of a WINDOW block that occurs in the background, but in no known
    stream, and that no Datalog rule derives.
    """
    derived = {head.predicate for rule in program.closing_rules for head in rule.head}
    if not all(isinstance(predicate, Const) for predicate in derived):
        return
    elsewhere = {predicate.term for predicate in derived if isinstance(predicate, Const)} | _stream_predicates(program, stream_objects)
    by_subject = program.knowledge.background.by_subject
    for unit in queries_among(program.units):
        found: dict[Term, None] = {}
        for node in walk(unit.query.query):
            if isinstance(node, WindowBlock):
                patterns = [each.predicate for each in walk(node.pattern) if isinstance(each, TriplePattern)]
                found |= dict.fromkeys(each.term for each in patterns if isinstance(each, Const))
        for predicate in found:
            if predicate != RDF_TYPE and predicate not in elsewhere and predicate in by_subject:
                message = f"the background has {iri_text(predicate)}, and a WINDOW block sees none of it"
                hint = "Write triples of the background outside of the block. Where the stream brings such triples too, all is well."
                yield Diagnostic("W405", message, unit.query.label_span, hint, Severity.WARNING)


def _stream_predicates(program: CompiledProgram, stream_objects: StreamObjects) -> set[Term]:
    """The predicates of the known streams."""
    templates = [rule.template for rule in program.rules.rules]
    templates += [unit.query.form.template for unit in queries_among(program.units) if isinstance(unit.query.form, ConstructForm)]
    made = {predicate.term for each in templates for _, predicate, _ in each.triples if isinstance(predicate, Const)}
    return made | {source.predicate for source in stream_objects.sources}
