"""Predicates of WINDOW blocks that occur only in the background.

A block is evaluated over the graph of its window alone, so such a pattern has no answer. The
predicates of streams are known from the maps of inputs, the streams of test cases, and the
templates of units.
Source: continuous.md, section 10.
"""

from __future__ import annotations

from collections.abc import Iterator

from dotr.engine.program import CompiledProgram
from dotr.engine.stream_terms import StreamObjects
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.continuous.model import ConstructForm
from dotr.languages.continuous.unit import queries_among
from dotr.model.algebra import Const, TriplePattern, WindowBlock
from dotr.model.terms import RDF_TYPE, Term, iri_text
from dotr.model.traverse import walk


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
