"""Named graphs of an output as RDF text: TriG, N-Quads, JSON-LD, and Turtle without the name's
block.

Invariant: all formats have the same quads (JSON-LD has no triple terms): the graph under its name,
and beside it in the default graph its time, its rule and its number, where it has them. Names come
from the caller: those of files are hashes (`dotr.streams.formats.writing`), those of a published
stream its IDs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from pyoxigraph import NamedNode

from dotr.evaluation.expressions.values.times import shown_time_term
from dotr.model.terms import PROV, RDF_TYPE, XSD, Prefixes, Term, Triple, literal_parts
from dotr.model.time import Clock, Micros

FRESH: Final = "<urn:dotr:"
_TIME: Final = f"<{PROV}generatedAtTime>"
_RULE: Final = f"<{PROV}wasGeneratedBy>"
_NUMBER: Final = f"{FRESH}number>"


class NamedGraph(NamedTuple):
    """A graph of an output with its name, and what the default graph says of it.

    - `name`: an IRI as a term.
    - `time`: in µs since 1970, its prov:generatedAtTime.
    - `rule`: the name of the rule of its prov:wasGeneratedBy; empty for an element of an input,
      which has none.
    - `number`: its number in a published stream, from 0 on; None: it has none.
    """

    name: Term
    time: Micros
    rule: str
    triples: tuple[Triple, ...]
    number: int | None = None

    def beside(self, clock: Clock) -> list[Triple]:
        """The triples of the default graph.

        >>> for triple in NamedGraph("<http://e/12000000-0>", 12_000_000, "R", (), 7).beside(Clock()):
        ...     print(*triple[1:])
        <http://www.w3.org/ns/prov#generatedAtTime> "12"^^<http://www.w3.org/2001/XMLSchema#integer>
        <http://www.w3.org/ns/prov#wasGeneratedBy> <urn:dotr:rule:R>
        <urn:dotr:number> "7"^^<http://www.w3.org/2001/XMLSchema#integer>
        """
        beside = [(self.name, _TIME, shown_time_term(self.time, clock))]
        if self.rule:
            beside.append((self.name, _RULE, rule_iri(self.rule)))
        if self.number is not None:
            beside.append((self.name, _NUMBER, f'"{self.number}"^^<{XSD}integer>'))
        return beside


def nquads_texts(graphs: Iterable[NamedGraph], clock: Clock) -> list[str]:
    """The graphs in N-Quads, a text each.

    >>> [text] = nquads_texts([NamedGraph("<http://e/g>", 5_000_000, "", (("_:b", "<http://e/p>", '"1"'),))], Clock())
    >>> print(text, end="")
    <http://e/g> <http://www.w3.org/ns/prov#generatedAtTime> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .
    _:b <http://e/p> "1" <http://e/g> .
    """
    texts: list[str] = []
    last: Micros | None = None
    stamp = ""
    for name, time, rule, triples, number in graphs:
        if time != last:
            last, stamp = time, f" {_TIME} {shown_time_term(time, clock)} .\n"
        generated = f"{name} {_RULE} {rule_iri(rule)} .\n" if rule else ""
        numbered = "" if number is None else f'{name} {_NUMBER} "{number}"^^<{XSD}integer> .\n'
        lines = "".join([f"{subject} {predicate} {value} {name} .\n" for subject, predicate, value in triples])
        texts.append(f"{name}{stamp}{generated}{numbered}{lines}")
    return texts


def jsonld_texts(graphs: Iterable[NamedGraph], clock: Clock) -> list[str]:
    """The graphs as JSON-LD in expanded form, without line ends: each is an object, whose `@graph`
    is the graph and whose other members are the statements beside it.

    A literal is its lexical form as a JSON string, so that numbers keep their digits. A document
    that has a text with a base direction tells our reader to keep it
    (`dotr.syntax.turtle.jsonld`). A triple with a triple term is left out: JSON-LD 1.1 has none.

    >>> [text] = jsonld_texts([NamedGraph("<http://e/g>", 5_000_000, "", (("_:b", "<http://e/p>", '"1.0"@en'),))], Clock())
    >>> print(text.replace("},", "},\\n").replace(":[", ":[\\n  "))
    {"@id":"http://e/g","http://www.w3.org/ns/prov#generatedAtTime":[
      {"@type":"http://www.w3.org/2001/XMLSchema#integer","@value":"5"}],"@graph":[
      {"@id":"_:b","http://e/p":[
      {"@language":"en","@value":"1.0"}]}]}
    """
    from dotr.syntax.turtle.jsonld import KEEPS_DIRECTIONS

    texts: list[str] = []
    for graph in graphs:
        [beside] = _nodes(graph.beside(clock))
        text = f'{beside},"@graph":[{",".join([node + "}" for node in _nodes(graph.triples)])}]}}'
        texts.append(f'{{"@context":{KEEPS_DIRECTIONS},{text[1:]}' if '"@direction":"' in text else text)
    return texts


def _nodes(triples: Iterable[Triple]) -> list[str]:
    """The node object of each run of triples about one subject, without its closing brace.

    >>> _nodes([("<a>", "<p>", "<b>"), ("<a>", "<p>", "_:c"), ("_:c", RDF_TYPE, "<T>")])
    ['{"@id":"a","p":[{"@id":"b"},{"@id":"_:c"}]', '{"@id":"_:c","@type":["T"]']
    """
    nodes: list[tuple[Term, dict[str, list[str]]]] = []
    for subject, predicate, value in triples:
        if value.startswith("<<"):
            continue
        if not nodes or nodes[-1][0] != subject:
            nodes.append((subject, {}))
        is_type = predicate == RDF_TYPE and value[0] != '"'
        key, text = ('"@type"', _json_name(value)) if is_type else (_json_name(predicate), _json_value(value))
        nodes[-1][1].setdefault(key, []).append(text)
    return [
        f'{{"@id":{_json_name(subject)}' + "".join([f",{key}:[{','.join(values)}]" for key, values in members.items()])
        for subject, members in nodes
    ]


@lru_cache(1 << 12)
def _json_name(term: Term) -> str:
    """An IRI or the label of a blank node as a JSON string."""
    return encode_basestring(term[1:-1] if term[0] == "<" else term)


@lru_cache(1 << 12)
def _json_value(term: Term) -> str:
    """The value or node object of a term.

    >>> print(_json_value('"x"@ar--rtl'), _json_value('"x"'))
    {"@language":"ar","@direction":"rtl","@value":"x"} {"@value":"x"}
    """
    if term[0] != '"':
        return f'{{"@id":{_json_name(term)}}}'
    lexical, datatype, language = literal_parts(term)
    kind = "" if datatype == XSD + "string" else f'"@type":{encode_basestring(datatype)},'
    if language:
        tag, _, direction = language.partition("--")
        kind = f'"@language":"{tag}",' + (f'"@direction":"{direction}",' if direction else "")
    return f'{{{kind}"@value":{encode_basestring(lexical)}}}'


class TrigWriter:
    """Writer of a block for each named graph, behind the prefixes; without `blocks` the triples
    stand in the default graph, which is Turtle.

    >>> write = TrigWriter(Clock(), {"": "http://e/"})
    >>> header, text = write([NamedGraph("<urn:dotr:1f>", 12_000_000, "R", (("<http://e/a>", "<http://e/p>", '"1"'),))])
    >>> print(header, end="")
    @prefix : <http://e/> .
    @prefix prov: <http://www.w3.org/ns/prov#> .
    @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
    >>> print(text, end="")
    <urn:dotr:1f> prov:generatedAtTime "12"^^xsd:integer ; prov:wasGeneratedBy <urn:dotr:rule:R> .
    <urn:dotr:1f> {
      :a :p "1" .
    }
    """

    def __init__(self, clock: Clock, prefixes: Prefixes, *, blocks: bool = True) -> None:
        self._clock = clock
        declared = usable_prefixes(prefixes)
        self._header = "".join([f"@prefix {name}: <{iri}> .\n" for name, iri in declared.items()])
        self._text = term_writer(declared)
        self._predicate = predicate_writer(self._text)
        self._indent = "  " if blocks else ""

    def take_header(self) -> str:
        """Returns the prefixes, which are then omitted from the next text."""
        header, self._header = self._header, ""
        return header

    def __call__(self, graphs: Sequence[NamedGraph]) -> list[str]:
        if not graphs:
            return []
        text, predicate, clock, indent = self._text, self._predicate, self._clock, self._indent
        texts = [self.take_header()]
        last: Micros | None = None
        stamp = ""
        for name, time, rule, graph, number in graphs:
            generated = f" ; {text(_RULE)} {rule_iri(rule)}" if rule else ""
            lines = "".join(
                [
                    # fresh names would fill the cache and never have a prefix
                    f"{indent}{each if each.startswith(FRESH) else text(each)} {predicate(link)} {text(value)} .\n"
                    for each, link, value in graph
                ]
            )
            if time != last:
                last, stamp = time, f"{text(_TIME)} {text(shown_time_term(time, clock))}"
            numbered = "" if number is None else f" ; {_NUMBER} {number}"
            texts.append(f"{name} {stamp}{generated}{numbered} .\n" + (f"{name} {{\n{lines}}}\n" if indent else lines))
        return texts


# Terms of a TriG output: N-Triples text, with prefixes where they fit.
#
# Invariant: the text parses to the same term. Only local names of a subset of Turtle's characters are
# abbreviated, so that no escapes are needed; other IRIs are written in full.
# Cost: about 0.1 µs for a cached term; the cache is bounded.

TermText: TypeAlias = Callable[[Term], str]
"""A function from a term to its text."""

_NAME: Final = re.compile(r"(?:[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)?")
_NAMESPACE: Final = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*""")
_LOCAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_REMEMBERED: Final = 1 << 16


def usable_prefixes(prefixes: Prefixes) -> dict[str, str]:
    """The prefixes that a TriG output declares, sorted by name; `prov` and `xsd` are added where
    they are free.

    >>> usable_prefixes({"x": "http://e/", "": "no iri", "xsd": "http://e/x#"})
    {'prov': 'http://www.w3.org/ns/prov#', 'x': 'http://e/', 'xsd': 'http://e/x#'}
    """
    usable = {name: iri for name, iri in prefixes.items() if _NAME.fullmatch(name) and _is_namespace(iri)}
    return dict(sorted({"prov": PROV, "xsd": XSD, **usable}.items()))


def _is_namespace(iri: str) -> bool:
    try:
        NamedNode(iri)
    except ValueError:
        return False
    return _NAMESPACE.fullmatch(iri) is not None


def term_writer(prefixes: Prefixes) -> TermText:
    """A function from terms to their texts with some prefixes.

    >>> write = term_writer({"": "http://e/", "xsd": "http://www.w3.org/2001/XMLSchema#"})
    >>> write("<http://e/a>"), write("<http://e/a/b>"), write("<http://e/>"), write("_:b")
    (':a', '<http://e/a/b>', '<http://e/>', '_:b')
    >>> write('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), write('"<http://e/a>"')
    ('"5"^^xsd:integer', '"<http://e/a>"')
    """
    names: dict[str, str] = {}
    for name, namespace in prefixes.items():
        names.setdefault(f"<{namespace}", name)
    longest_first = sorted(names, key=len, reverse=True)

    def iri_text(iri: str) -> str:
        for namespace in longest_first:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace), len(iri) - 1):
                return f"{names[namespace]}:{iri[len(namespace) : -1]}"
        return iri

    @lru_cache(_REMEMBERED)
    def text(term: Term) -> str:
        if term.startswith('"'):
            if term.endswith(">"):
                end = term.rindex('"')
                return f"{term[: end + 3]}{iri_text(term[end + 3 :])}"
            return term
        return term if term.startswith("<<") or not term.startswith("<") else iri_text(term)

    return text


def predicate_writer(text: TermText) -> TermText:
    """A function for predicates: `rdf:type` is `a`."""
    return lru_cache(_REMEMBERED)(lambda term: "a" if term == RDF_TYPE else text(term))


@lru_cache(_REMEMBERED)
def rule_iri(rule: str) -> Term:
    """The IRI that names a rule, as the one that generated an event.

    >>> rule_iri("R 1/2")
    '<urn:dotr:rule:R%201%2F2>'
    """
    return f"{FRESH}rule:{quote(rule, safe='')}>"
