"""Parser of RDF files into triples: every syntax of pyoxigraph, plain or gzip, without network
access.

Named graphs are merged into the default graph. Blank nodes are local to their file: the n-th of the
i-th file is `_:g<i>x<n>`, so loading the same files gives the same terms. Relative IRIs are
resolved against the file's own IRI.

Cost: about 2 µs a triple; the memory of each term once, and 72 bytes a triple. Nesting beyond
`limits.nesting` is refused before the recursive parser reads the file.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, RdfFormat, parse
from pyoxigraph import Triple as TripleTerm

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.limits import LIMITS
from dotr.model.places import Document, Span
from dotr.model.terms import Term, Triple
from dotr.syntax.turtle.graphs import without_directions
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_json_nesting, check_nesting

_FORMATS: Final = {
    ".ttl": RdfFormat.TURTLE,
    ".nt": RdfFormat.N_TRIPLES,
    ".n3": RdfFormat.N3,
    ".nq": RdfFormat.N_QUADS,
    ".trig": RdfFormat.TRIG,
    ".rdf": RdfFormat.RDF_XML,
    ".xml": RdfFormat.RDF_XML,
    ".owl": RdfFormat.RDF_XML,
    ".jsonld": RdfFormat.JSON_LD,
}
_POSITION: Final = re.compile(r"^Parser error at line [^:]*: ")
_BOM: Final = b"\xef\xbb\xbf"
"""UTF-8 byte order mark of Windows editors."""
_REPAIR_HINT: Final = "Mend the file; nothing of it was loaded."
_NAMES: Final = ", ".join(_FORMATS)


def load_graphs(paths: Sequence[str | Path]) -> list[Triple]:
    """The triples of all files, in their order; raises `Refused` with every unreadable file."""
    triples: list[Triple] = []
    problems: list[Diagnostic] = []
    terms: dict[Term, Term] = {}
    for number, path in enumerate(paths):
        try:
            triples += read_graph(path, number, terms)
        except Refused as refused:
            problems += refused.diagnostics
    if problems:
        raise Refused(problems)
    return triples


def read_graph(path: str | Path, number: int = 0, terms: dict[Term, Term] | None = None) -> list[Triple]:
    """The triples of one file; raises `Refused`.

    `number`: the index of the file, part of its blank nodes' names.
    `terms`: interned terms, extended by this call; sharing them saves most of the memory.
    """
    path = Path(path)
    syntax = _syntax(path)
    content = _content(path)
    triples: list[Triple] = []
    blanks: dict[BlankNode, Term] = {}
    interned = ({} if terms is None else terms).setdefault
    try:
        if syntax == RdfFormat.JSON_LD:
            check_json_nesting(content, LIMITS.nesting)
        elif syntax != RdfFormat.RDF_XML:
            check_nesting(content, LIMITS.nesting)
        quads = parse(content, syntax, base_iri=path.absolute().as_uri())
        for quad in without_directions(quads) if syntax == RdfFormat.JSON_LD else quads:
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
    return triples


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


def _syntax(path: Path) -> RdfFormat:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    syntax = _FORMATS.get(suffixes[-1]) if suffixes else None
    if syntax is None:
        raise refuse("K102", f"{path}: no RDF syntax is known by this extension", hint=f"Known are {_NAMES}, each also with .gz.")
    return syntax


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix.lower() == ".gz" else content).removeprefix(_BOM)
    except FileNotFoundError:
        folder = path.parent
        near = sorted(each.name for each in folder.iterdir() if each.is_file())[:8] if folder.is_dir() else []
        hint = f"{folder} holds {', '.join(near)}." if near else f"The folder {folder} is empty, or not there."
        raise refuse("K101", f"{path}: no such file", hint=hint) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise refuse("K103", f"{path}: damaged gzip file: {error}", hint="Compress it again, or give the plain file.") from None
    except OSError as error:
        raise refuse("K103", f"{path}: cannot be read: {error.strerror or error}", hint="Give a file that this user may read.") from None


def _unreadable(path: Path, content: bytes, error: SyntaxError) -> Refused:
    """The parser's message with a span of one character at its position."""
    reason = str(error.args[0]) if error.args else str(error)
    if "LoadDocumentCallback" in reason:
        return refuse(
            "K107", f"{path}: a JSON-LD context elsewhere, which is not fetched", hint="Write the context into the file, or convert it."
        )
    if error.lineno is None:
        return refuse("K104", f"{path}: {reason}", hint=_REPAIR_HINT)
    reason = _POSITION.sub("", reason)
    text = content.decode("utf-8", errors="replace")
    lines = text.split("\n")
    line = min(max(error.lineno, 1), len(lines))
    start = min(sum(len(each) + 1 for each in lines[: line - 1]) + max((error.offset or 1) - 1, 0), len(text))
    span = Span(Document(str(path), text), start, min(start + 1, len(text)))
    return refuse("K104", reason, span, _REPAIR_HINT)
