"""Pages of a Linked Data Event Stream: members, relations to other pages, and what is said of the
stream (TREE and LDES specifications of the W3C community group and of SEMIC).

Idea: a page is a data set with a base, its own URL. The members of a stream are the IRIs at
tree:member; each has its triples in the default graph, those of its blank nodes, and the graph of
its name. A relation bounds the order keys of the members behind its link.
Invariant: a bound holds for every member behind the link, so a relation that is not understood
bounds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import urldefrag

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, parse

from dotr.model import dataclass
from dotr.model.terms import RDF, XSD, literal_parts
from dotr.model.time import Micros, Unit
from dotr.streams.formats.rdf.documents import RDF_TEXT
from dotr.streams.formats.rdf.times import GENERATED_AT_TIME, time_of_term
from dotr.streams.records import Format, GraphSettings
from dotr.streams.times import has_zone
from dotr.syntax.turtle.jsonld import context_inliner, parse_jsonld
from dotr.syntax.turtle.nesting import check_json_nesting, check_nesting

LDES: Final = "https://w3id.org/ldes#"
TREE: Final = "https://w3id.org/tree#"
_SHACL: Final = "http://www.w3.org/ns/shacl#"

MEDIA_TYPES: Final[Mapping[str, Format]] = {
    each.media_type: each for each in (Format.TRIG, Format.NQUADS, Format.TURTLE, Format.NTRIPLES, Format.JSONLD)
}
"""Formats of pages by their media types, in the order in which they are asked for."""

_DATE_TIMES: Final = frozenset(XSD + name for name in ("dateTime", "dateTimeStamp", "date"))
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_HOURS: Final = 14 * 3_600_000_000
"""The distance (µs) from UTC in which a date-time without a zone may lie (TREE, comparisons)."""

MemberKey: TypeAlias = tuple[object, ...]
"""A place in the order of a stream: `(time,)`, or the kind and value of a sequence; `()` is before
all."""

Predicates: TypeAlias = tuple[object, ...]
"""A SHACL property path: ("iri", IRI), or the name of an operator and the paths that it has."""


class KeyBound(NamedTuple):
    """Bound of order keys. As the least one, `after`: keys are behind it, not at it; as the greatest
    one, `after`: keys may be at it."""

    key: MemberKey
    after: bool


LEAST: Final = KeyBound((), after=False)
"""The bound of a link whose members may have any key."""


class PageLink(NamedTuple):
    """Link to a page, whose members are from `least` on; `most` is None without an upper bound."""

    url: str
    least: KeyBound = LEAST
    most: KeyBound | None = None


@dataclass(frozen=True, slots=True)
class StreamView:
    """Description of a stream by its root page: its IRI, the paths to time and sequence of a member,
    and the least seconds between two runs."""

    stream: str
    timestamp: Predicates | None = None
    sequence: Predicates | None = None
    polling: float = 0.0


class StreamMember(NamedTuple):
    """Member of a stream, with its triples as terms of N-Triples, blank nodes numbered by
    appearance, and the values at both paths."""

    iri: str
    triples: Sequence[tuple[str, str, str]]
    times: Sequence[str]
    sequence: Sequence[str]

    @property
    def generated(self) -> list[str]:
        """Its times where its stream names no path to them."""
        return [value for subject, predicate, value in self.triples if predicate == GENERATED_AT_TIME and subject == f"<{self.iri}>"]


@dataclass(slots=True)
class StreamPage:
    """A page as it was read from a URL, behind all redirects."""

    url: str
    quads: Sequence[Quad] = ()
    _about: dict[object, list[Quad]] = field(default_factory=dict)
    _graphs: dict[object, list[Quad]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for quad in self.quads:
            if isinstance(quad.graph_name, DefaultGraph):
                self._about.setdefault(quad.subject, []).append(quad)
            else:
                self._graphs.setdefault(quad.graph_name, []).append(quad)

    def objects(self, subject: object, predicate: str) -> list[object]:
        """The objects of a subject in the default graph."""
        return [quad.object for quad in self._about.get(subject, ()) if quad.predicate.value == predicate]

    def views(self, url: str) -> tuple[str, str] | None:
        """The stream and its root page: of the page itself, of the IRI `url`, or the only ones.

        Raises ValueError where several streams have this page as their view.
        """
        pairs = [(quad.subject, quad.object) for quad in self.quads if quad.predicate.value == f"{TREE}view"]
        own = {NamedNode(self.url), NamedNode(url)}
        for found in ([each for each in pairs if each[1] in own], [each for each in pairs if each[0] in own], pairs):
            distinct = [
                (one.value, other.value) for one, other in set(found) if isinstance(one, NamedNode) and isinstance(other, NamedNode)
            ]
            if len(distinct) > 1:
                raise ValueError("it is the view of several streams, or has several views: name one of them")
            if distinct:
                return distinct[0]
        return None

    def described(self, stream: str) -> StreamView:
        """The description of a stream by this page."""
        node = NamedNode(stream)
        polling = [each.value for each in self.objects(node, f"{LDES}pollingInterval") if isinstance(each, Literal)]
        seconds = max([float(each) for each in polling if each.isascii() and each.isdecimal() and len(each) < 10], default=0.0)
        paths = [[self._path(each) for each in self.objects(node, f"{LDES}{name}")] for name in ("timestampPath", "sequencePath")]
        timestamp, sequence = (next((path for path in own if path is not None), None) for own in paths)
        return StreamView(stream, timestamp, sequence, seconds)

    @property
    def is_immutable(self) -> bool:
        """True if the page says that no member will be added."""
        return any(str(getattr(each, "value", "")) in ("true", "1") for each in self.objects(NamedNode(self.url), f"{LDES}immutable"))

    def links(self, view: StreamView, unit: Unit, requested: str) -> list[PageLink]:
        """The links to other pages; several relations to one of them hold together.

        `requested`: the URL before all redirects, which a page may also have as its name.
        """
        own = view.timestamp or view.sequence
        found: dict[str, PageLink] = {}
        for page in dict.fromkeys((self.url, requested)):
            for relation in self.objects(NamedNode(page), f"{TREE}relation"):
                least, most = self._bounds(relation, own, unit, timed=view.timestamp is not None)
                for target in self.objects(relation, f"{TREE}node"):
                    if isinstance(target, NamedNode):
                        url = urldefrag(target.value).url
                        before = found.get(url, PageLink(url))
                        upper = min((each for each in (before.most, most) if each is not None), default=None)
                        found[url] = PageLink(url, max(before.least, least), upper)
        return list(found.values())

    def _bounds(self, relation: object, own: Predicates | None, unit: Unit, *, timed: bool) -> tuple[KeyBound, KeyBound | None]:
        """The least and the greatest key of members behind a relation."""
        paths = [self._path(each) for each in self.objects(relation, f"{TREE}path")]
        values = [each for each in self.objects(relation, f"{TREE}value") if isinstance(each, Literal)]
        if own is None or paths != [own] or len(values) != 1:
            return LEAST, None
        least, most = LEAST, None
        for kind in self.objects(relation, f"{RDF}type"):
            try:
                early, late = key_range(str(values[0]), unit, timed=timed)
            except ValueError:
                return LEAST, None
            match str(getattr(kind, "value", "")).removeprefix(TREE):
                case "GreaterThanRelation":
                    least = KeyBound(early, after=early == late)
                case "GreaterThanOrEqualToRelation":
                    least = KeyBound(early, after=False)
                case "LessThanRelation":
                    most = KeyBound(late, after=False)
                case "LessThanOrEqualToRelation":
                    most = KeyBound(late, after=True)
                case "EqualToRelation":
                    least, most = KeyBound(early, after=False), KeyBound(late, after=True)
        return least, most

    def members(self, view: StreamView) -> Iterator[StreamMember]:
        """The members of the page that are IRIs, each once."""
        nodes = dict.fromkeys(self.objects(NamedNode(view.stream), f"{TREE}member"))
        for node in nodes:
            if isinstance(node, NamedNode):
                quads = self._description(node)
                names = dict[object, str]()

                def term(each: object, names: dict[object, str] = names) -> str:
                    return names.setdefault(each, f"_:b{len(names)}") if isinstance(each, BlankNode) else str(each)

                triples = dict.fromkeys((term(each.subject), term(each.predicate), term(each.object)) for each in quads)
                at = [() if path is None else _values(path, [node], quads) for path in (view.timestamp, view.sequence)]
                times, sequence = ([str(each) for each in values if isinstance(each, Literal)] for values in at)
                yield StreamMember(node.value, tuple(triples), times, sequence)

    def _description(self, node: object) -> list[Quad]:
        """The quads of a member: those about it, those of the graph of its name, and of its blank
        nodes likewise."""
        found: list[Quad] = []
        waiting, seen = [node], {node}
        while waiting:
            each = waiting.pop()
            own = [*self._about.get(each, ()), *self._graphs.get(each, ())]
            found += own
            further = dict.fromkeys(quad.object for quad in own if isinstance(quad.object, BlankNode) and quad.object not in seen)
            seen.update(further)
            waiting += reversed(further)
        return found

    def _path(self, node: object, depth: int = 8) -> Predicates | None:
        """The property path at a node; None for what is none."""
        if isinstance(node, NamedNode):
            return ("iri", node.value)
        if not depth:
            return None
        if (items := self._listed(node)) is not None:
            parts = [self._path(each, depth - 1) for each in items]
            return None if None in parts or not parts else ("sequence", *parts)
        for operator in ("inversePath", "alternativePath", "zeroOrMorePath", "oneOrMorePath", "zeroOrOnePath"):
            for operand in self.objects(node, f"{_SHACL}{operator}"):
                inner = self._path(operand, depth - 1)
                return None if inner is None else (operator, inner)
        return None

    def _listed(self, node: object) -> list[object] | None:
        """The items of an RDF list; None for another node."""
        items: list[object] = []
        while isinstance(node, BlankNode) and (first := self.objects(node, f"{RDF}first")) and len(items) < 100:
            items.append(first[0])
            node = next(iter(self.objects(node, f"{RDF}rest")), None)
        return items or None


def _values(path: Predicates, starts: Sequence[object], quads: Sequence[Quad]) -> list[object]:
    """The nodes at the end of a path over the quads of a member, each once."""
    match path:
        case ("iri", name):
            return list(dict.fromkeys(quad.object for quad in quads if quad.predicate.value == name and quad.subject in starts))
        case ("inversePath", ("iri", name)):
            return list(dict.fromkeys(quad.subject for quad in quads if quad.predicate.value == name and quad.object in starts))
        case ("sequence", *parts):
            for part in parts:
                starts = _values(cast(Predicates, part), starts, quads)
            return list(starts)
        case ("alternativePath", ("sequence", *parts)):
            return list(dict.fromkeys(each for part in parts for each in _values(cast(Predicates, part), starts, quads)))
        case ("zeroOrOnePath" | "zeroOrMorePath" | "oneOrMorePath" as operator, inner):
            reached = dict.fromkeys(_values(cast(Predicates, inner), starts, quads))
            while operator != "zeroOrOnePath" and (more := set(_values(cast(Predicates, inner), list(reached), quads)) - reached.keys()):
                reached |= dict.fromkeys(more)
            return list(reached if operator == "oneOrMorePath" else dict.fromkeys([*starts, *reached]))
    return []


def key_range(literal: str, unit: Unit, *, timed: bool) -> tuple[MemberKey, MemberKey]:
    """The keys between which a literal of a relation lies: one, or for a date-time without a zone
    two. Raises ValueError where it has no place in the order.

    >>> at = "^^<http://www.w3.org/2001/XMLSchema#dateTime>"
    >>> key_range(f'"1970-01-02T00:00:00Z"{at}', Unit.SECOND, timed=True)
    ((86400000000,), (86400000000,))
    >>> key_range(f'"1970-01-02T00:00:00"{at}', Unit.SECOND, timed=True)
    ((36000000000,), (136800000000,))
    """
    key = order_key(literal, unit, timed=timed)
    text, datatype, _ = literal_parts(literal)
    if timed and datatype in _DATE_TIMES and not has_zone(text):
        time = cast(Micros, key[0])
        return (time - _HOURS,), (time + _HOURS,)
    return key, key


def order_key(literal: str, unit: Unit, *, timed: bool) -> MemberKey:
    """The place of a literal in the order of a stream; raises ValueError where it has none.

    `timed`: it is a time; else a number, a date-time or a text of a sequence.

    >>> order_key('"7"^^<http://www.w3.org/2001/XMLSchema#integer>', Unit.SECOND, timed=True)
    (7000000,)
    >>> sorted(order_key(each, Unit.SECOND, timed=False) for each in ('"b"', '"10"^^<http://www.w3.org/2001/XMLSchema#integer>'))
    [(0, Decimal('10')), (2, 'b')]
    """
    text, datatype, _ = literal_parts(literal)
    if timed:
        return (time_of_term(literal, unit),)
    if datatype in _DATE_TIMES:
        return 1, time_of_term(literal, unit)
    if datatype != f"{XSD}string" and _NUMBER.fullmatch(text):
        return 0, Decimal(text)
    return 2, text


def read_page(raw: bytes, media_type: str, url: str, nesting: int, graphs: GraphSettings) -> StreamPage:
    """The page in a text; raises ValueError or SyntaxError with the reason where it cannot be read.

    >>> page = read_page(b"<a> <https://w3id.org/tree#view> <> .", "text/turtle", "http://h/1", 64, GraphSettings())
    >>> page.views("http://h/1")
    ('http://h/a', 'http://h/1')
    """
    form = MEDIA_TYPES.get(media_type)
    if form is None:
        raise ValueError(f"its content-type is {media_type[:100] or 'not given'}, which is none of {', '.join(MEDIA_TYPES)}")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None
    if form is not Format.JSONLD:
        check_nesting(raw, nesting)
        return StreamPage(url, list(parse(text, RDF_TEXT[form], base_iri=url)))
    check_json_nesting(text, nesting)
    return StreamPage(url, list(parse_jsonld(context_inliner(graphs.contexts, graphs.context, url)(text), url)))


def message_body(member: StreamMember, times: Sequence[str]) -> bytes:
    """The N-Quads of a member as a message: one graph, beside which its times are, if any.

    >>> member = StreamMember("http://e/m", [("<http://e/m>", "<http://e/p>", '"1"')], (), ())
    >>> message_body(member, ['"7"']).decode().splitlines()  # doctest: +NORMALIZE_WHITESPACE
    ['<http://e/m> <http://www.w3.org/ns/prov#generatedAtTime> "7" .',
     '<http://e/m> <http://e/p> "1" <http://e/m> .']
    """
    name = f"<{member.iri}>"
    lines = [f"{name} {GENERATED_AT_TIME} {time} ." for time in times]
    lines += [f"{' '.join(triple)} {name} ." for triple in member.triples]
    return "\n".join(lines).encode()
