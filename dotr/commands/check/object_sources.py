"""Sources of the objects of predicates: the maps of a configuration's inputs, the graphs of a test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from dotr.engine.stream_terms import ObjectSource, StreamObjects
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.model.algebra import Const, Var
from dotr.model.places import Document, Span
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, Fresh, TemplateSlot, TemplateTerm
from dotr.model.terms import XSD, Triple
from dotr.runtimes.pipeline.config import Config
from dotr.syntax.turtle.parser import parse_template


def objects_of_inputs(config: Config) -> StreamObjects:
    """Sources of objects in a configuration's inputs: the maps of CSV inputs. With other inputs the
    result is not complete."""
    sources: list[ObjectSource] = []
    is_complete = True
    for section in config.settings.input:
        if section.format != "csv" or section.map is None:
            is_complete = False
            continue
        document = Document(f"map of input {section.name}", section.map)
        try:
            template = parse_template(Span(document, 0, len(section.map)), config.settings.prefixes, cells=True)
        except Refused:  # reported by the check of the input
            is_complete = False
            continue
        for _, predicate, value in template.triples:
            if isinstance(predicate, Const):
                sources.append(ObjectSource(predicate.term, _kind_of_slot(value), f"by the map of input {section.name}", _remedy(value)))
            else:
                is_complete = False
    return StreamObjects(tuple(dict.fromkeys(sources)), is_complete)


def objects_of_graphs(graphs: Iterable[Sequence[Triple]]) -> StreamObjects:
    """Sources of objects in the graphs of a test."""
    objects = dict.fromkeys((predicate, term_kind(value)) for graph in graphs for _, predicate, value in graph)
    return StreamObjects(
        tuple([ObjectSource(predicate, kind, "in the streams of the cases") for predicate, kind in objects]), is_complete=True
    )


def _kind_of_slot(slot: TemplateSlot) -> TermKind | None:
    match slot:
        case Const(term):
            return term_kind(term)
        case CellIri():
            return TermKind.IRI
        case Blank():
            return TermKind.BLANK
        case CellLiteral(_, datatype, language):
            return TermKind.STRING if datatype == XSD + "string" and not language else None
        case TemplateTerm():
            return TermKind.TRIPLE
        case Cell() | Var() | Fresh():
            return None
        case _:
            assert_never(slot)


def _remedy(slot: TemplateSlot) -> str:
    match slot:
        case CellLiteral((Cell(column),), _, _):
            return f'write {{{column}}} or "{{{column}}}"^^xsd:decimal there'
        case _:
            return ""
