"""Compiler of RML and R2RML mappings in Turtle to the text of a `map`.

    [] rr:subjectMap [ rr:template "http://e/{id}" ; rr:class :Room ] ;
       rr:predicateObjectMap [ rr:predicate :temp ; rr:objectMap [ rml:reference "t.value" ] ] .

becomes, of a JSON input,

    <http://e/{id}> a <…Room> .
    <http://e/{id}> <…temp> {t.value} .

Idea: all that follows (Spark, origins of records, errors of cells) is that of a written map. A term
map is a term of the template; what a template cannot express is refused at its line.
Invariant: the triples of all triples maps of a file are one element, and no source is named.
Source: R2RML (W3C, 2012); RML-Core (W3C community group, 2025), and the vocabulary before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from rdflib import BNode, Graph, Literal, URIRef
from rdflib.plugins.parsers.notation3 import BadSyntax, RDFSink, SinkParser
from rdflib.term import Node

from dotr.errors.diagnostics import Diagnostic, DotrError, Refused, Severity, refuse
from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.model.terms import literal
from dotr.streams.formats.mapping.json_paths import path_text
from dotr.streams.formats.mapping.maps import written_name

_CORE: Final = ("http://www.w3.org/ns/r2rml#", "http://semweb.mmlab.be/ns/rml#", "http://w3id.org/rml/")
_FUNCTIONS: Final = ("http://semweb.mmlab.be/ns/fnml#", "https://w3id.org/function/ontology#")
_TERM: Final = frozenset({"template", "reference", "column", "constant", "termType"})
_LITERAL: Final = frozenset({"datatype", "datatypeMap", "language", "languageMap"})
_GRAPH: Final = frozenset({"graph", "graphMap"})
_ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "a triples map": frozenset({"logicalSource", "logicalTable", "subject", "subjectMap", "predicateObjectMap", "baseIRI"}),
    "a logical source": frozenset({"source", "referenceFormulation", "iterator", "tableName", "sqlVersion", "root"}),
    "a subject map": _TERM | _GRAPH | {"class"},
    "a predicate-object map": _GRAPH | {"predicate", "predicateMap", "object", "objectMap"},
    "a predicate map": _TERM,
    "an object map": _TERM | _LITERAL | {"parentTriplesMap", "inverseExpression"},
    "a graph map": _TERM,
}
"""The properties that are read of each part of a mapping."""

_WAYS_OUT: Final = {
    "joinCondition": "Without a join condition the parent's subject of the same record is meant; join records of two sources in a rule.",
    "sqlQuery": "The input is the source: leave the query out, or name a table.",
    "query": "The input is the source: leave the query out.",
    "strategy": "Leave it out: each triple has one list at most.",
}
_COMPUTED: Final = "Compute it in a rule, with BIND, or before the stream is written."
_FORMULATIONS: Final = {"CSV": ("csv", "parquet"), "JSONPath": ("json",), "SQL2008Table": ("csv", "parquet"), "Rows": ("csv", "parquet")}
_TEMPLATE: Final = re.compile(r"\{((?:[^{}\\]|\\.)*)\}|((?:[^{}\\]|\\.)+)|(.)", re.DOTALL)
_STEP: Final = re.compile(r"""\.?\[(?:(?P<index>[0-9]{1,9})|(?P<all>\*)|'(?P<one>[^']*)'|"(?P<two>[^"]*)")\]|\.?(?P<name>[^.\[\]*?'"]+)""")
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NO_BASE: Final = "http://base.invalid/"
"""The base of a file that declares none."""


_Statement: TypeAlias = tuple[Node, Node, Node]


class CompiledMapping(NamedTuple):
    """A mapping as a map.

    - `text`: the template; `each`: the list of whose items it is, or an empty text.
    - `warnings`: of parts that mean nothing here.
    """

    text: str
    each: str
    warnings: tuple[Diagnostic, ...] = ()


class _NotExpressible(DotrError):
    """A part of a mapping that cannot be compiled: the statement, the reason and the way out."""

    def __init__(self, statement: _Statement | None, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.statement, self.reason, self.hint = statement, reason, hint


class _MappedTerm(NamedTuple):
    """The text of a term in a map; `lists`: the paths in it that go through a list."""

    text: str
    lists: frozenset[str] = frozenset()


def compile_mapping(document: Document, form: str) -> CompiledMapping:
    """Compile the mapping of a document for an input of a format; raises `Refused` (T111) with
    each part that cannot be compiled.

    >>> text = '''@prefix rr: <http://www.w3.org/ns/r2rml#> . @prefix rml: <http://w3id.org/rml/> .
    ... <#room> rml:logicalSource [ rml:iterator "$.rooms[*]" ] ; rr:subjectMap [ rr:template "http://e/{id}" ] ;
    ...   rr:predicateObjectMap [ rr:predicate <http://e/temp> ; rr:objectMap [ rml:reference "t['a.b']" ] ] .'''
    >>> compile_mapping(Document("rooms.ttl", text), "json")[:2]
    ('<http://e/{id}> <http://e/temp> {t."a.b"} .', 'rooms[]')
    """
    compiler = _MappingCompiler(document, form)
    mapping = compiler.compiled()
    if compiler.problems:
        raise Refused(dict.fromkeys(compiler.problems))
    return mapping


class _PlacedParser(SinkParser):
    """Parser of Turtle that keeps the line of each statement, which is that of its predicate."""

    def __init__(self, sink: RDFSink, base: str, lines: dict[_Statement, int]) -> None:
        super().__init__(sink, baseURI=base, turtle=True)
        self._placed = lines
        self._line = 0

    def objectList(self, text: str, at: int, found: Any) -> int:
        """Keep the line of a predicate, since its objects may have further lines and statements."""
        line = self.lines
        end = super().objectList(text, at, found)
        self._line = line
        return end

    def makeStatement(self, quadruple: Any) -> None:
        """Keep a statement and its line; called behind the list of its object."""
        _, predicate, subject, value = quadruple
        self._placed.setdefault((subject, predicate, value), self._line)
        super().makeStatement(quadruple)


@dataclass(frozen=True, slots=True)
class _LogicalSource:
    """The source of a triples map: its name, iterator and statement of either."""

    name: object
    iterator: str
    statement: _Statement | None


class _MappingCompiler:
    """Compiler of one document. `problems`: what could not be compiled."""

    def __init__(self, document: Document, form: str) -> None:
        self._document = document
        self._form = form
        self._graph = Graph()
        self._lines: dict[_Statement, int] = {}
        self._blanks: dict[str, str] = {}
        self._prefix: tuple[str | int | None, ...] = ()
        self._each: tuple[str | int | None, ...] = ()
        self.problems: list[Diagnostic] = []
        self._warnings: list[Diagnostic] = []
        self._is_graph_told = False
        parser = _PlacedParser(RDFSink(self._graph), _NO_BASE, self._lines)
        try:
            parser.loadBuf(document.text)
        except BadSyntax as error:
            line = error.lines + 1
            raise refuse("T111", f"the mapping is no Turtle: {error.message}", self._line(line), "Correct it there.") from None
        self._base = str(parser._baseURI).removeprefix(_NO_BASE)

    # --- statements ---

    def _line(self, line: int) -> Span:
        """The text of a line, counted from 1."""
        lines = self._document.text.splitlines(keepends=True)
        line = min(max(line, 1), max(len(lines), 1))
        start = sum(map(len, lines[: line - 1]))
        text = lines[line - 1] if lines else ""
        start += len(text) - len(text.lstrip())
        return Span(self._document, start, start + len(text.strip()))

    def _span(self, statement: _Statement | None) -> Span:
        return self._line(1 if statement is None else self._lines.get(statement, 0) + 1)

    def _properties(self, node: Node, part: str = "") -> dict[str, list[_Statement]]:
        """The statements of a node by the local name of their properties of RML. With `part`, another
        property is unusable."""
        found: dict[str, list[_Statement]] = {}
        for statement in sorted(self._graph.triples((node, None, None)), key=lambda each: (self._lines.get(each, 0), str(each[2]))):
            iri = str(statement[1])
            name = _local(iri)
            if iri.startswith(_FUNCTIONS) or name.startswith("function"):
                raise _NotExpressible(statement, "a map calls no functions", _COMPUTED)
            if part and name and name not in _ALLOWED[part]:
                hint = _WAYS_OUT.get(name, f"Of {part} are read {', '.join(sorted(_ALLOWED[part]))}.")
                raise _NotExpressible(statement, f"{name} of {part} is not read", hint)
            if name:
                found.setdefault(name, []).append(statement)
        return found

    # --- triples maps ---

    def compiled(self) -> CompiledMapping:
        """The whole mapping."""
        maps = sorted(set(self._maps()), key=self._first_line)
        if not maps:
            hint = "A triples map has a logicalSource, a subjectMap and predicateObjectMaps."
            raise refuse("T111", f"{self._document.name} has no triples map", self._line(1), hint)
        self._read_sources(maps)
        statements: dict[str, None] = {}
        for each in maps:
            try:
                statements |= dict.fromkeys(self._statements(each))
            except _NotExpressible as error:
                self._report(error)
        return CompiledMapping("\n".join(statements), path_text(self._each), tuple(self._warnings))

    def _report(self, error: _NotExpressible) -> None:
        self.problems.append(Diagnostic("T111", error.reason, self._span(error.statement), error.hint))

    def _maps(self) -> Iterator[Node]:
        for subject, predicate, _ in self._graph:
            if _local(str(predicate)) in ("subject", "subjectMap", "logicalSource", "logicalTable", "predicateObjectMap"):
                yield subject

    def _first_line(self, node: Node) -> tuple[int, str]:
        return min(self._lines.get(each, 0) for each in self._graph.triples((node, None, None))), str(node)

    def _read_sources(self, maps: Sequence[Node]) -> None:
        """Read the iterator that all triples maps have; another source or iterator is a problem."""
        first: _LogicalSource | None = None
        for each in maps:
            try:
                source = self._source(each)
                if source is None:
                    continue
                if first is None:
                    first = source
                    self._read_iterator(source)
                elif source.name != first.name:
                    raise _NotExpressible(source.statement, "another source", "All are of the input: write one mapping an input.")
                elif source.iterator != first.iterator:
                    hint = f"The first triples map has {first.iterator or '$'}: write another mapping for another input over the same data."
                    raise _NotExpressible(source.statement, f"another iterator, {source.iterator or '$'}", hint)
            except _NotExpressible as error:
                self._report(error)

    def _source(self, node: Node) -> _LogicalSource | None:
        own = self._properties(node, "a triples map")
        statement = next(iter(own.get("logicalSource", []) + own.get("logicalTable", [])), None)
        if statement is None:
            return None
        parts = self._properties(statement[2], "a logical source")
        for formulation in parts.get("referenceFormulation", []):
            name = re.split("[/#]", str(formulation[2]))[-1]
            if self._form not in _FORMULATIONS.get(name, ()):
                hint = "Write CSV for csv and parquet, JSONPath for json."
                raise _NotExpressible(formulation, f"the reference formulation is {name}, and the input has the format {self._form}", hint)
        named = parts.get("source", []) + parts.get("tableName", [])
        name = [self._named(each[2]) for each in named] or (statement[2] if isinstance(statement[2], URIRef) and not parts else "")
        iterator = parts.get("iterator", [])
        text = str(iterator[0][2]) if iterator else ""
        return _LogicalSource(name, "" if text == "$" else text, (iterator or named or [statement])[0])

    def _named(self, node: Node) -> object:
        """A value that two equal descriptions of a source share."""
        return frozenset((str(p), str(o)) for _, p, o in self._graph.triples((node, None, None))) if isinstance(node, BNode) else str(node)

    def _read_iterator(self, source: _LogicalSource) -> None:
        if self._form != "json" or not source.iterator:
            return
        try:
            steps = _json_steps(source.iterator)
        except ValueError as error:
            raise _NotExpressible(source.statement, str(error), "An iterator is $, $.a or $.a[*].") from None
        steps = steps[1:] if steps[:1] == (None,) else steps  # the items of an array are records
        last = max((number for number, step in enumerate(steps) if step is None), default=-1)
        self._each, self._prefix = steps[: last + 1], steps[last + 1 :]

    def _statements(self, node: Node) -> Iterator[str]:
        own = self._properties(node, "a triples map")
        subject = self._subject(node, own)
        for statement in own.get("subjectMap", []):
            parts = self._properties(statement[2], "a subject map")
            self._warn_of_graphs(parts)
            for each in parts.get("class", []):
                yield f"{subject.text} a {self._iri(each, 'a class')} ."
        for statement in own.get("predicateObjectMap", []):
            try:
                yield from self._predicate_objects(subject, statement)
            except _NotExpressible as error:
                self._report(error)

    def _predicate_objects(self, subject: _MappedTerm, statement: _Statement) -> Iterator[str]:
        parts = self._properties(statement[2], "a predicate-object map")
        self._warn_of_graphs(parts)
        predicates = [_MappedTerm(self._iri(each, "a predicate map")) for each in parts.get("predicate", [])]
        predicates += [self._term(each, "a predicate map") for each in parts.get("predicateMap", [])]
        values = [_MappedTerm(self._constant(each)) for each in parts.get("object", [])]
        values += [self._object(each) for each in parts.get("objectMap", []) if not self._lacks_parent(each)]
        if not predicates or not (values or parts.get("objectMap")):
            missing = "an objectMap" if predicates else "a predicate"
            raise _NotExpressible(statement, f"a predicate-object map without {missing}", "Add it.")
        for predicate in predicates:
            for value in values:
                lists = [subject.lists, predicate.lists, value.lists]
                if len(frozenset().union(*lists)) > 1 or sum(map(bool, lists)) > 1:
                    hint = "Let the iterator go through the list, as $.a[*], so that each item is an element."
                    raise _NotExpressible(statement, "two parts of one triple go through a list: each item with each", hint)
                yield f"{subject.text} {predicate.text} {value.text} ."

    def _subject(self, node: Node, own: Mapping[str, list[_Statement]]) -> _MappedTerm:
        for statement in own.get("subject", []):
            return _MappedTerm(self._iri(statement, "a subject map"))
        for statement in own.get("subjectMap", [])[1:]:
            raise _NotExpressible(statement, "a triples map with two subject maps", "Write a triples map for each.")
        for statement in own.get("subjectMap", []):
            base = next((str(each[2]) for each in own.get("baseIRI", [])), self._base)
            return self._term(statement, "a subject map", base)
        statement = next(iter(self._graph.triples((node, None, None))))
        raise _NotExpressible(statement, "a triples map without a subject map", "Add a subjectMap.")

    def _object(self, statement: _Statement) -> _MappedTerm:
        parts = self._properties(statement[2])
        if "joinCondition" in parts:
            raise _NotExpressible(parts["joinCondition"][0], "records are not joined", _WAYS_OUT["joinCondition"])
        for parent in parts.get("parentTriplesMap", []):
            return self._subject(parent[2], self._properties(parent[2], "a triples map"))
        return self._term(statement, "an object map")

    def _lacks_parent(self, statement: _Statement) -> bool:
        """True for an object map whose parent is in another file, as in mappings of TripleWave; warns of it."""
        parts = self._properties(statement[2])
        for parent in [] if "joinCondition" in parts else parts.get("parentTriplesMap", []):
            if (parent[2], None, None) not in self._graph:
                self._warn(parent, f"the mapping has no triples map <{parent[2]}>: triples with its subject are left out")
                return True
        return False

    def _warn(self, statement: _Statement, message: str) -> None:
        hint = "Leave it out, or accept it: report: { accept: [I127] }"
        self._warnings.append(Diagnostic("I127", message, self._span(statement), hint, Severity.WARNING))

    def _warn_of_graphs(self, parts: Mapping[str, list[_Statement]]) -> None:
        """Warn of constant graphs; raises `_NotExpressible` for other graph maps."""
        for statement in parts.get("graphMap", []) + parts.get("graph", []):
            own = {} if statement[1].endswith("graph") else self._properties(statement[2], "a graph map")  # type: ignore[attr-defined]
            if own and "constant" not in own:
                hint = "An element is one graph: leave the graph map out, or name a constant graph, which means nothing here."
                raise _NotExpressible(statement, "a graph that depends on the record", hint)
            constant = own["constant"][0][2] if own else statement[2]
            if _local(str(constant)) != "defaultGraph" and not self._is_graph_told:
                self._is_graph_told = True
                self._warn(statement, "an element is one graph: the graph of the mapping is left out")

    # --- terms ---

    def _constant(self, statement: _Statement) -> str:
        """The text of a constant term."""
        node = statement[2]
        if isinstance(node, Literal):
            return self._quoted([(False, str(node))], str(node.datatype or ""), node.language or "")
        if isinstance(node, BNode):
            raise _NotExpressible(statement, "a constant is a blank node", "Write an IRI; or a template with termType BlankNode.")
        return self._iri(statement, "a constant")

    def _iri(self, statement: _Statement, part: str) -> str:
        """The text of a constant IRI."""
        node = statement[2]
        if not isinstance(node, URIRef):
            kind = "Literal" if isinstance(node, Literal) else "BlankNode"
            raise _NotExpressible(statement, f"{part} makes no {kind}", "Write an IRI.")
        if node.startswith(_NO_BASE):
            shown = node.removeprefix(_NO_BASE)
            raise _NotExpressible(statement, f"<{shown}> is relative, and the file has no base", "Write it in full, or declare @base.")
        return f"<{node}>"

    def _term(self, statement: _Statement, part: str, base: str | None = None) -> _MappedTerm:
        """The text of a term map."""
        parts = self._properties(statement[2], part)
        base = self._base if base is None else base
        if "constant" in parts:
            constant = parts["constant"][0]
            return _MappedTerm(self._constant(constant) if part == "an object map" else self._iri(constant, part))
        is_literal = part == "an object map" and ("template" not in parts or bool(_LITERAL & parts.keys()))
        kind = "Literal" if is_literal else "IRI"
        for each in parts.get("termType", []):
            kind = re.split("[/#]", str(each[2]))[-1].replace("URI", "IRI")
            if kind not in ("IRI", "BlankNode", "Literal") or (kind == "Literal" and part != "an object map"):
                raise _NotExpressible(each, f"{part} makes no {kind}", "Write IRI, BlankNode, or in an object map Literal.")
        if not parts.keys() & {"template", "reference", "column"}:
            if kind == "BlankNode":
                return _MappedTerm(self._blank(f"{statement}"))
            raise _NotExpressible(statement, f"{part} without a template, reference or constant", "Add one.")
        pieces, at = self._pieces(parts)
        lists = frozenset(cell for is_cell, cell in pieces if is_cell and "[]" in cell)
        written = "".join(f"{{{text}}}" if is_cell else text for is_cell, text in pieces)
        if kind == "BlankNode":
            if lists:
                raise _NotExpressible(at, "a blank node for each item of a list", "Let the iterator go through the list, as $.a[*].")
            return _MappedTerm(self._blank(written))
        if kind == "IRI":
            if any(not is_cell and set(text) & set("{}") for is_cell, text in pieces):
                raise _NotExpressible(at, "a brace is no character of an IRI", "Leave it out.")
            if "template" in parts and (pieces[0][0] or _ABSOLUTE.match(pieces[0][1]) is None):
                if not base:
                    hint = "Begin it with http:// or another scheme, or declare @base."
                    raise _NotExpressible(at, f"{written} makes no absolute IRI", hint)
                written = base + written
            return _MappedTerm(f"<{written}>", lists)
        return _MappedTerm(self._literal(parts, pieces), lists)

    def _literal(self, parts: Mapping[str, list[_Statement]], pieces: Sequence[tuple[bool, str]]) -> str:
        """The text of a literal: a cell alone, or quotes with a datatype or language."""
        language, datatype = (self._fixed(parts, key) for key in ("language", "datatype"))
        if not language and not datatype and len(pieces) == 1 and pieces[0][0]:
            return f"{{{pieces[0][1]}:string}}" if self._form == "csv" else f"{{{pieces[0][1]}}}"
        return self._quoted(pieces, datatype, language)

    def _quoted(self, pieces: Sequence[tuple[bool, str]], datatype: str, language: str) -> str:
        """A quoted literal of cells (True) and texts, whose braces are escaped."""
        texts = [
            f"{{{text}}}" if is_cell else literal(text)[1:-1].replace("{", r"\u007B").replace("}", r"\u007D") for is_cell, text in pieces
        ]
        return f'"{"".join(texts)}"' + (f"@{language}" if language else f"^^<{datatype}>" if datatype else "")

    def _fixed(self, parts: Mapping[str, list[_Statement]], key: str) -> str:
        """The language or datatype of an object map, which is the same for all records."""
        for statement in parts.get(key, []) + parts.get(f"{key}Map", []):
            own = {} if isinstance(statement[2], Literal) or key in str(statement[1])[-len(key) :] else self._properties(statement[2])
            if own and "constant" not in own:
                raise _NotExpressible(statement, f"a {key} that depends on the record", f"Write a constant {key}.")
            constant = own["constant"][0] if own else statement
            text = str(constant[2]) if key == "language" else self._iri(constant, "a datatype")[1:-1]
            if key == "language" and _LANGUAGE.fullmatch(text) is None:
                raise _NotExpressible(statement, f"{text} is no language tag", "Write one such as en or de-AT.")
            return text
        return ""

    def _blank(self, key: str) -> str:
        """The blank node of a text: the same wherever the element has the text."""
        return self._blanks.setdefault(key, f"_:b{len(self._blanks)}")

    def _pieces(self, parts: Mapping[str, list[_Statement]]) -> tuple[list[tuple[bool, str]], _Statement]:
        """The cells (True) and texts of a template or reference, and its statement."""
        for key in ("reference", "column"):
            for statement in parts.get(key, []):
                return [(True, self._cell(str(statement[2]), statement))], statement
        statement = parts["template"][0]
        pieces: list[tuple[bool, str]] = []
        for found in _TEMPLATE.finditer(str(statement[2])):
            cell, text, stray = found.groups()
            text = re.sub(r"\\(.)", r"\1", text or "")
            if stray is not None:
                raise _NotExpressible(statement, f"{statement[2]} has a brace that is of no reference", "Write {NAME}.")
            pieces.append((False, text) if cell is None else (True, self._cell(re.sub(r"\\(.)", r"\1", cell), statement)))
        return pieces or [(False, "")], statement

    def _cell(self, reference: str, statement: _Statement) -> str:
        """The cell of a reference: a column, or a path in a JSON object."""
        if self._form != "json":
            name = reference[1:-1] if len(reference) > 1 and reference[0] == reference[-1] == '"' else reference
            return written_name(name)
        try:
            steps = _json_steps(reference)
        except ValueError as error:
            raise _NotExpressible(statement, str(error), "A reference is a, a.b, a[0], a[*] or ['a b'].") from None
        if not steps and not self._prefix and not self._each:
            raise _NotExpressible(statement, "$ is the whole record, which is no value", "Name a member of it.")
        if not steps and not self._prefix:
            return "^." + path_text(self._each)
        return path_text((*self._prefix, *steps))


def _local(iri: str) -> str:
    """The local name of a property of RML or R2RML; empty for another."""
    return next((iri.removeprefix(core) for core in _CORE if iri.startswith(core)), "")


def _json_steps(text: str) -> tuple[str | int | None, ...]:
    """The steps of a path of JSONPath; None is each item of a list. Raises ValueError.

    >>> _json_steps("$.a['b c'][0].d[*]"), _json_steps("name")
    (('a', 'b c', 0, 'd', None), ('name',))
    """
    at, rest = 0, re.sub(r"^[$@](?=[.\[]|$)", "", text.strip())
    steps: list[str | int | None] = []
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None or (found["name"] is not None and at and rest[at] != "."):
            raise ValueError(f"{text} is a path that a map does not have")
        quoted = found["one"] if found["one"] is not None else found["two"]
        steps.append(None if found["all"] else int(found["index"]) if found["index"] else quoted if quoted is not None else found["name"])
        at = found.end()
    return tuple(steps)
