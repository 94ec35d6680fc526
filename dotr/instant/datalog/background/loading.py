"""Parser of RDF files into triples: every syntax of pyoxigraph, plain or gzip, without network
access.

Named graphs are merged into the default graph. Blank nodes are local to their file: the n-th of the
i-th file is `_:g<i>x<n>`, so loading the same files gives the same terms. Relative IRIs are
resolved against the file's own IRI, but in .nt and .nq.

Cost: about 2 µs a triple; the memory of each term once, and 72 bytes a triple. Nesting beyond
`limits.nesting` is refused before the recursive parser reads the file.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, RdfFormat, parse
from pyoxigraph import Triple as TripleTerm

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.stores import Location, absolute
from dotr.evaluation.limits import LIMITS
from dotr.instant.datalog.background.sources import ABSOLUTE, READING, Reading
from dotr.model.places import Document, Span
from dotr.model.terms import OWL, Term, Triple, iri, is_blank
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_json_nesting, check_nesting

_EXTENSIONS: Final = {
    ".ttl": RdfFormat.TURTLE,
    ".nt": RdfFormat.N_TRIPLES,
    ".n3": RdfFormat.N3,
    ".nq": RdfFormat.N_QUADS,
    ".trig": RdfFormat.TRIG,
    ".rdf": RdfFormat.RDF_XML,
    ".xml": RdfFormat.RDF_XML,
    ".owl": RdfFormat.RDF_XML,
    ".jsonld": RdfFormat.JSON_LD,
    ".json": RdfFormat.JSON_LD,
}
IMPORTS: Final = iri(OWL + "imports")
FORMATS: Final = {re.sub(r"\W", "", form.name).lower(): form for form in _EXTENSIONS.values()}
"""The syntaxes by the values of `format` in a configuration: `rdfxml` is RDF/XML."""
_ROBOT: Final = "Convert it, for example with ROBOT: robot convert --input {path} --output {stem}.ttl"
_DOWNLOAD: Final = "Download the RDF instead of the page about it: curl -L -H 'Accept: text/turtle' -o {stem}.ttl …"
_COMMENTS: Final = rb"(?>(?:\s|#[^\n]*+)*)"
_XML: Final = rb"(?>\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*+(?:\[.*?\]\s*+)?>)*+"
_TURTLES: Final = (RdfFormat.TURTLE, RdfFormat.TRIG, RdfFormat.N3)
_OPENINGS: Final = (
    (_XML + rb"<[\w.-]++(?::[\w.-]++)?\s+[\w.:-]++\s*=|\s*<\?xml\s", (RdfFormat.RDF_XML,)),
    (rb'\s*(?:\{\s*["}]|\[\s*\{)', (RdfFormat.JSON_LD,)),
    (_COMMENTS + rb"(?:@(?:prefix|base|version)\s|(?i:prefix\s+[^\s:]*:\s*<|base\s*<))", _TURTLES),
    (_COMMENTS + rb'(?:<[^\s<>"{}|^`\\]*>\s|_:\w|\[\s*(?:\]\s*)?(?:a\s|<))', (*_TURTLES, RdfFormat.N_TRIPLES, RdfFormat.N_QUADS)),
)
"""Openings of texts, each with the syntaxes that have it, first the one by which it is read."""
_NO_RDF: Final = (
    (rb"(?>\s|<\?.*?\?>|<!--.*?-->)*+<(?i:!DOCTYPE\s+)?(?i:html)\b", "an HTML page", _DOWNLOAD),
    (_XML + rb"<(?:[\w.-]+:)?Ontology\s(?![^>]*\b(?:about|ID|nodeID)\s*=)", "OWL/XML", _ROBOT),
    (_COMMENTS + rb"(?:Prefix|Ontology)\s*\(", "OWL functional syntax", _ROBOT),
    (_COMMENTS + rb"(?:Prefix:\s+[\w.-]*:\s*<|Ontology:\s)", "OWL Manchester syntax", _ROBOT),
    (rb"\s*format-version:", "OBO", _ROBOT),
)
"""Openings of what is no RDF, each with its name and the way out."""
_HEAD: Final = 1 << 16
_JSONLD_KEY: Final = re.compile(rb'"(?:@|[^"]*:)[^"]*"\s*:')
"""A keyword or an IRI as a member's name, without which JSON makes no triple."""


def syntaxes_of(path: Location, content: bytes, declared: str = "") -> list[tuple[RdfFormat, str]]:
    """The syntaxes of a file in the order in which they are tried, each with what says it.

    `declared`: the format of the configuration; empty: that of the extension. Raises `Refused`
    where there is none (K102), or the text is no RDF (K108).

    >>> syntaxes_of(Location("a.owl"), b"@prefix : <http://e/> .")
    [(<RdfFormat Turtle>, 'its opening'), (<RdfFormat RDF/XML>, '.owl')]
    >>> syntaxes_of(Location("a.trig"), b"@prefix : <http://e/> .")
    [(<RdfFormat TriG>, '.trig')]
    """
    suffix = Location(path.name.lower().removesuffix(".gz")).suffix
    form = FORMATS[declared] if declared else _EXTENSIONS.get(suffix)
    found = [] if form is None else [(form, "format" if declared else suffix)]
    head = content[:_HEAD]
    for pattern, name, hint in _NO_RDF:
        if re.match(pattern, head, re.DOTALL):
            raise refuse("K108", f"{path}: {name}, which is no RDF", hint=hint.format(path=path, stem=str(path).removesuffix(path.suffix)))
    opened = next((forms for pattern, forms in _OPENINGS if re.match(pattern, head, re.DOTALL)), ())
    if opened and form not in opened:
        found.insert(0, (opened[0], "its opening"))
    if found and found[0][1] == ".json" and content and not _JSONLD_KEY.search(content):
        hint = "Give it an @context, which makes it JSON-LD, or read it as an input (format: json, with a map)."
        raise refuse("K108", f"{path}: JSON without a context, which is no RDF", hint=hint)
    if not found:
        hint = f"Known are {', '.join(_EXTENSIONS)}, each also with .gz; for another one, write {{ path: {path.name}, format: … }}."
        raise refuse("K102", f"{path}: no RDF syntax is known by this extension", hint=hint)
    return found


# --- reading ---

_POSITION: Final = re.compile(r"^Parser error at line [^:]*: ")
_BOM: Final = b"\xef\xbb\xbf"
"""UTF-8 byte order mark of Windows editors."""
_REPAIR_HINT: Final = "Mend the file; nothing of it was loaded."


def load_graphs(paths: Sequence[str | Path], reading: Reading = READING) -> list[Triple]:
    """The triples of all files, in their order, then those of imports that `reading` declares;
    raises `Refused` with every unreadable file.
    """
    problems: list[Diagnostic] = []
    triples = [triple for _, _, found in loaded_graphs(paths, reading, problems) for triple in found]
    if problems:
        raise Refused(problems)
    return triples


def loaded_graphs(
    paths: Sequence[str | Path], reading: Reading, problems: list[Diagnostic]
) -> Iterator[tuple[int, str | Path, list[Triple]]]:
    """The number, path and triples of each file, then those of imports, each file once. Problems of
    unreadable files are added to `problems`.
    """
    terms: dict[Term, Term] = {}
    imports = {f"<{iri}>": path for iri, path in reading.imports}
    waiting = deque(paths)
    known = {absolute(str(path)) for path in paths} if imports else set()
    number = 0
    while waiting:
        path, triples = waiting.popleft(), list[Triple]()
        try:
            triples = read_graph(path, number, terms, reading)
        except Refused as refused:
            problems += refused.diagnostics
        yield number, path, triples
        number += 1
        for file in [imports[value] for _, predicate, value in triples if predicate == IMPORTS and value in imports] if imports else ():
            if absolute(file) not in known:
                known.add(absolute(file))
                waiting.append(file)


def read_graph(path: str | Path, number: int = 0, terms: dict[Term, Term] | None = None, reading: Reading = READING) -> list[Triple]:
    """The triples of one file; raises `Refused`.

    `number`: the index of the file, part of its blank nodes' names, and that of a table.
    `terms`: interned terms, extended by this call; sharing them saves most of the memory.
    `reading`: the declared formats and contexts, tables and imports.
    """
    if number in dict(reading.tables):
        return [triple for _, row in table_rows(path, number, reading) for triple in row]
    declared, location = dict(reading.formats).get(str(path), ""), Location.of(str(path))
    if not location.is_url and not location.path.exists():
        syntaxes_of(location, b"", declared)  # raises for an unknown extension
    content = _content(location)
    interned = ({} if terms is None else terms).setdefault
    failed: list[Diagnostic] = []
    syntaxes = syntaxes_of(location, content, declared)
    for syntax, _ in syntaxes:
        try:
            return _triples(location, content, syntax, number, interned, reading)
        except Refused as refused:
            failed += refused.diagnostics
    first = failed[0]
    if len(failed) > 1:
        reasons = [
            f"as {syntax.name} ({by}): {each.message.removeprefix(f'{path}: ')}"
            for (syntax, by), each in zip(syntaxes, failed, strict=True)
        ]
        first = replace(first, message=f"{'' if first.span else f'{path}: '}{'; '.join(reasons)}")
    raise Refused([first])


def table_rows(path: str | Path, number: int, reading: Reading) -> Iterator[tuple[int, list[Triple]]]:
    """The line and the triples of each row of a table that makes any; raises `Refused`.

    `number`: that of the table among the graphs. The n-th blank node of all rows is
    `_:g<number>x<n>`.
    """
    assert reading.rows is not None, "whoever declares tables gives their reader"
    blanks: dict[Term, Term] = {}
    count = 0
    for line, triples in reading.rows(str(path), dict(reading.tables)[number]):
        blanks.clear()
        row: list[Triple] = []
        for subject, predicate, value in triples:
            for term in (subject, value):
                if is_blank(term) and term not in blanks:
                    blanks[term] = f"_:g{number}x{count}"
                    count += 1
            row.append((blanks.get(subject, subject), predicate, blanks.get(value, value)))
        yield line, row


def _triples(
    path: Location, content: bytes, syntax: RdfFormat, number: int, interned: Callable[[Term, Term], Term], reading: Reading
) -> list[Triple]:
    """The triples of a text in one syntax; raises `Refused`."""
    triples: list[Triple] = []
    blanks: dict[BlankNode, Term] = {}
    base = "" if path.name.lower().endswith(ABSOLUTE) else str(path) if path.is_url else path.path.absolute().as_uri()
    try:
        if syntax == RdfFormat.JSON_LD:
            from dotr.syntax.turtle.jsonld import parse_jsonld

            check_json_nesting(content, LIMITS.nesting)
            quads = parse_jsonld(_inlined(path, content, reading), base)
        else:
            if syntax != RdfFormat.RDF_XML:
                check_nesting(content, LIMITS.nesting)
            quads = parse(content, syntax, base_iri=base or None)
        for quad in quads:
            subject, predicate, value = quad.subject, quad.predicate, quad.object
            if syntax == RdfFormat.N3 and not isinstance(quad.graph_name, DefaultGraph):
                raise refuse("K106", f"{path}: an N3 formula or rule", hint="Write rules as Datalog, in a .dlog file.")
            s = _blank(subject, blanks, number) if isinstance(subject, BlankNode) else str(subject)
            p, o = str(predicate), _term(value, blanks, number) if isinstance(value, BlankNode | TripleTerm) else str(value)
            triples.append((interned(s, s), interned(p, p), interned(o, o)))
    except SyntaxError as error:
        raise _unreadable(path, content, error) from None
    except MemoryError:
        raise refuse("K104", f"{path}: a statement or a term longer than the parser can read at once (16 MiB)", hint=_REPAIR_HINT) from None
    except TextLimitExceeded as error:
        text = content.decode("utf-8", errors="replace")
        start = len(content[: error.offset].decode("utf-8", errors="replace"))
        problem = f"more than {LIMITS.nesting} brackets in each other"
        raise refuse("K104", problem, Span(Document(str(path), text), start, start + 1), _REPAIR_HINT) from None
    except ValueError as error:  # a relative IRI in JSON-LD without a base
        raise refuse("K104", f"{path}: {error}", hint=_REPAIR_HINT) from None
    return triples


def _inlined(path: Location, content: bytes, reading: Reading) -> str:
    """A JSON-LD document with its declared contexts; raises `Refused`."""
    from dotr.syntax.turtle.jsonld import context_inliner

    try:
        text = content.decode()
        return context_inliner(reading.contexts)(text)
    except UnicodeDecodeError as error:
        raise refuse("K104", f"{path}: it is not UTF-8 (byte {error.start})", hint=_REPAIR_HINT) from None
    except json.JSONDecodeError as error:
        raise refuse(
            "K104", f"it is no JSON: {error.msg}", Span(Document(str(path), text), error.pos, error.pos + 1), _REPAIR_HINT
        ) from None
    except ValueError as error:
        hint = "Name the file that stands for it: knowledge: { contexts: { IRI: FILE } }, or write the context into the file."
        raise refuse("K107", f"{path}: {error}", hint=hint) from None


def _blank(node: BlankNode, blanks: dict[BlankNode, Term], number: int) -> Term:
    return blanks.get(node) or blanks.setdefault(node, f"_:g{number}x{len(blanks)}")


def _term(node: NamedNode | BlankNode | Literal | TripleTerm, blanks: dict[BlankNode, Term], number: int) -> Term:
    match node:
        case BlankNode():
            return _blank(node, blanks, number)
        case TripleTerm():
            subject, value = (_term(part, blanks, number) for part in (node.subject, node.object))
            return f"<<( {subject} {node.predicate} {value} )>>"
        case _:
            return str(node)


def _content(path: Location) -> bytes:
    try:
        content = path.read() if path.is_url else path.path.read_bytes()
        return (gzip.decompress(content) if path.suffix.lower() == ".gz" else content).removeprefix(_BOM)
    except FileNotFoundError as error:
        folder, near = path.parent, list[str]()
        with suppress(OSError):
            near = [each.location.name for each in islice(folder.list(), 8)]
        hint = f"{folder} holds {', '.join(near)}." if near else f"The folder {folder} is empty, or not there."
        raise refuse("K101", f"{path}: {error.strerror if path.is_url else 'no such file'}", hint=hint) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise refuse("K103", f"{path}: damaged gzip file: {error}", hint="Compress it again, or give the plain file.") from None
    except OSError as error:
        raise refuse("K103", f"{path}: cannot be read: {error.strerror or error}", hint="Give a file that this user may read.") from None


def _unreadable(path: Location, content: bytes, error: SyntaxError) -> Refused:
    """The parser's message with a span of one character at its position."""
    reason = str(error.args[0]) if error.args else str(error)
    if error.lineno is None:
        return refuse("K104", f"{path}: {reason}", hint=_REPAIR_HINT)
    reason = _POSITION.sub("", reason)
    text = content.decode("utf-8", errors="replace")
    lines = text.split("\n")
    line = min(max(error.lineno, 1), len(lines))
    start = min(sum(len(each) + 1 for each in lines[: line - 1]) + max((error.offset or 1) - 1, 0), len(text))
    span = Span(Document(str(path), text), start, min(start + 1, len(text)))
    return refuse("K104", reason, span, _REPAIR_HINT)
