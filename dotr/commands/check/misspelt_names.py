"""Names that are probably misspelt: a predicate or class that occurs once in all files of a
program, one letter away from one that occurs often (C223).

Idea: names are counted in the text of rules, Datalog and maps, in the background, and in the
streams of a test. A misspelt name matches nothing, and no other check detects that.
Invariant: a name of the background is never reported, unless a table's map gives it; nor is one
that differs from another in a digit.
Cost: one pass over the tokens of the text, and a look-up in the background per rare name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from typing import Final

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.evaluation.triples.index import NO_ENDS, TripleIndex
from dotr.instant.datalog.dependencies import patterns_in
from dotr.languages.declarations import declared_prefixes
from dotr.model import dataclass
from dotr.model.algebra import BgpItem, Const, Link, PathPattern, TriplePattern
from dotr.model.places import Document, Span
from dotr.model.rules import FactSource
from dotr.model.templates import Template
from dotr.model.terms import RDF_TYPE, Prefixes, Term, Triple, unescaped
from dotr.model.traverse import walk
from dotr.runtimes.pipeline.config import Config
from dotr.syntax import scan
from dotr.syntax.turtle.parser import parse_template
from dotr.temporal.layout.retention import roles

_OFTEN: Final = 3
_MIN_LENGTH: Final = 4
"""Least length of a local name: of shorter ones, many differ in one letter."""
_MAX_NAMES: Final = 20_000
"""Predicates, or classes, of the background that are compared at most."""
_CODE: Final = "C223"


@dataclass(frozen=True, slots=True)
class StreamTexts:
    """Texts that describe the streams of a program.

    `maps`: the maps of inputs, each with its span in the configuration; `tables`: those of tables,
    whose names the background has; `graphs`: those of the cases of a test.
    """

    maps: tuple[tuple[Document, Span], ...] = ()
    tables: tuple[tuple[Document, Span], ...] = ()
    graphs: tuple[Sequence[Triple], ...] = ()


def texts_of_inputs(config: Config) -> StreamTexts:
    """The maps of a configuration's inputs and tables."""
    sections = [(number, section) for number, section in enumerate(config.settings.input) if section.map is not None]
    maps = [(Document(f"map of input {section.name}", section.map or ""), config.span("input", n, "map")) for n, section in sections]
    tables = enumerate(config.settings.knowledge.tables)
    return StreamTexts(tuple(maps), tuple((Document("map", each.map), config.span("knowledge", "tables", n, "map")) for n, each in tables))


def misspelt_names(program: CompiledProgram, texts: StreamTexts) -> Iterator[Diagnostic]:
    """Warning for each predicate and class that is probably misspelt."""
    counts: dict[Term, int] = {}
    places: dict[Term, Span] = {}
    for name, span in _names(program, texts):
        counts[name] = counts.get(name, 0) + 1
        places[name] = span
    vocabulary = _Vocabulary()
    vocabulary.add_program(program)
    of_tables = {name for document, _ in texts.tables for name, _ in _names_in(document, program.spec.prefixes)}
    for document, _ in (*texts.maps, *texts.tables):
        vocabulary.add_map(document, program.spec.prefixes)
    for graph in texts.graphs:
        for _, predicate, value in graph:
            vocabulary.add(predicate, value)
            for name in (predicate, value):
                counts[name] = counts.get(name, 0) + 1
    background = program.knowledge.background
    classes_known = background.by_object.get(RDF_TYPE, NO_ENDS)
    predicates_known = {predicate: len(background.by_subject[predicate]) for predicate in background.predicates()}
    for kind, used, known in (
        ("predicate", vocabulary.predicates, predicates_known),
        ("class", vocabulary.classes, {name: len(classes_known[name]) for name in islice(classes_known, _MAX_NAMES)}),
    ):
        often = [name for name in {**dict.fromkeys(sorted(used)), **known} if counts.get(name, 0) + known.get(name, 0) >= _OFTEN]
        for name in sorted(used):
            if counts.get(name) != 1 or name not in places:
                continue
            others = [each for each in often if counts.get(each, 0) >= _OFTEN] if name in of_tables else often
            if (close := _closest(name, others)) is not None and (name in of_tables or not _is_in(background, name)):
                yield _warning(kind, name, close, places[name], counts.get(close, 0) + known.get(close, 0))


def _warning(kind: str, name: Term, close: Term, place: Span, count: int) -> Diagnostic:
    local, meant = _split(name)[1], _split(close)[1]
    written = place.text if place.text.endswith(local) else name  # the place of a mapping is the name of its file
    corrected = close if written.startswith("<") else written.removesuffix(local) + meant
    message = f"the {kind} {written} occurs once, and {corrected} {count:,} times: is it misspelt?"
    hint = f"Did you mean {corrected}? If not: # dotr: allow {_CODE} (the reason) above the statement."
    return Diagnostic(_CODE, message, place, hint, Severity.WARNING)


# --- names in texts ---


def _names(program: CompiledProgram, texts: StreamTexts) -> Iterator[tuple[Term, Span]]:
    """The IRIs in the texts of a program with their places, without those of declared prefixes."""
    for document in (*program.spec.rules, *program.spec.datalog):
        yield from _names_in(document, declared_prefixes(document) or program.spec.prefixes)
    for document, span in (*texts.maps, *texts.tables):
        for name, place in _names_in(document, program.spec.prefixes):
            start = span.document.text.find(place.text, span.start, span.end)
            yield name, Span(span.document, start, start + len(place.text)) if start >= 0 else span


def _names_in(document: Document, prefixes: Prefixes) -> Iterator[tuple[Term, Span]]:
    before = ""
    for token in scan.tokens(Span(document, 0, len(document.text))):
        text = token[0]
        if token.lastgroup == "iri" and not before.endswith(":"):
            yield unescaped(text), Span(document, *token.span())
        elif token.lastgroup == "prefixed" and before.lower().lstrip("@") != "prefix":
            prefix, _, local = text.partition(":")
            if prefix in prefixes:
                yield f"<{prefixes[prefix]}{local}>", Span(document, *token.span())
        before = text


# --- predicates and classes ---


class _Vocabulary:
    """The predicates and classes that a program uses."""

    def __init__(self) -> None:
        self.predicates: set[Term] = set()
        self.classes: set[Term] = set()

    def add(self, predicate: Term, value: Term | None) -> None:
        if predicate != RDF_TYPE:
            self.predicates.add(predicate)
        elif value is not None:
            self.classes.add(value)

    def add_program(self, program: CompiledProgram) -> None:
        """Add the names of queries, templates and Datalog rules."""
        queries = [shared.query for shared in program.rules.queries]
        queries += [role.source.query for rule in program.rules.rules for role in roles(rule) if isinstance(role.source, FactSource)]
        for query in dict.fromkeys(queries):
            for pattern in patterns_in(query):
                self._add_pattern(pattern)
        for rule in program.rules.rules:
            self._add_template(rule.template)
        for datalog in program.own_datalog:
            for node in (*datalog.head, *(node for item in datalog.body for node in walk(item))):
                if isinstance(node, TriplePattern):
                    self._add_pattern(node)

    def add_map(self, document: Document, prefixes: Prefixes) -> None:
        """Add the names of the map of a CSV input; a broken one is reported elsewhere."""
        with suppress(Refused):
            self._add_template(parse_template(Span(document, 0, len(document.text)), prefixes, cells=True))

    def _add_template(self, template: Template) -> None:
        for _, predicate, value in template.triples:
            if isinstance(predicate, Const):
                self.add(predicate.term, value.term if isinstance(value, Const) else None)

    def _add_pattern(self, pattern: BgpItem) -> None:
        match pattern:
            case TriplePattern(_, Const(predicate), value):
                self.add(predicate, value.term if isinstance(value, Const) else None)
            case PathPattern():
                for step in walk(pattern.path):
                    if isinstance(step, Link):
                        self.add(step.predicate, None)
            case _:
                pass


# --- distances ---


def _closest(name: Term, others: Iterable[Term]) -> Term | None:
    """A name of the same namespace that is one letter away; None if there is none."""
    namespace, local = _split(name)
    if len(local) < _MIN_LENGTH:
        return None
    for other in others:
        if abs(len(other) - len(name)) <= 1 and other.startswith(namespace) and _is_misspelt(local, _split(other)[1]):
            return other
    return None


def _split(name: Term) -> tuple[str, str]:
    """Namespace and local name of an IRI.

    >>> _split("<http://example.org/plan#room>")
    ('<http://example.org/plan#', 'room')
    """
    cut = max(map(name.rfind, "/#:")) + 1
    return name[:cut], name[cut:-1]


def _is_misspelt(word: str, other: str) -> bool:
    """True if one letter is added, left out or wrong, or two neighbours are exchanged; a plural is
    another name.

    >>> [_is_misspelt(word, "value") for word in ("valeu", "vlue", "vallue", "valve", "value", "velues", "value2", "values")]
    [True, True, True, True, False, False, False, False]
    """
    if f"{word}s" == other or f"{other}s" == word:
        return False
    start = _equal_letters(word, other)
    end = _equal_letters(word[start:][::-1], other[start:][::-1])
    a, b = word[start : len(word) - end], other[start : len(other) - end]
    if any(character.isdigit() for character in a + b):
        return False
    return max(len(a), len(b)) == 1 or (len(a) == 2 and a == b[::-1])


def _equal_letters(word: str, other: str) -> int:
    """The number of letters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))


def _is_in(background: TripleIndex, name: Term) -> bool:
    """True if the background has the name anywhere in a triple."""
    return any(next(background.match(*triple), None) is not None for triple in ((name, None, None), (None, name, None), (None, None, name)))
