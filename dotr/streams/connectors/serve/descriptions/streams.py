"""Descriptions of a published stream: the stream itself (VoCaLS, DCAT), and TripleWave's index of
its latest elements, the sGraph.

Source: streams.md, section 6; VoCaLS (Tommasini et al., ISWC 2018); DCAT 3; TripleWave (Mauri et
al., ISWC 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dotr.evaluation.expressions.values.times import shown_time_term
from dotr.model import dataclass
from dotr.model.terms import XSD, literal_parts
from dotr.model.time import Clock, Micros
from dotr.streams.connectors.serve.descriptions.documents import DescribedNode
from dotr.streams.connectors.serve.kept import KeptElement

LISTED: Final = 1_000
"""The number of elements in an sGraph, at most."""

_FIRST: Final = ("ws?format=jsonld", "events?format=jsonld", "stream?format=jsonld", "elements?format=trig")
"""The addresses in the format that they have where nothing is said."""

ENDPOINTS: Final = (
    *(
        (path.partition("?")[0] if path in _FIRST else path, name)
        for format, name in (("jsonld", "JSON-LD"), ("trig", "TriG"), ("nquads", "N-Quads"))
        for path in (f"{resource}?format={format}" for resource in ("ws", "events", "stream", "elements"))
    ),
    *(("ldes", name) for name in ("TriG", "N-Quads", "JSON-LD")),
)
"""The addresses of a stream in the formats that have an IRI of the W3C, and the names of these;
first the WebSocket in JSON-LD, which TripleWave's consumers read."""


@dataclass(frozen=True, slots=True)
class Published:
    """Stream as a description has it, apart from its elements.

    - `base`: the IRI of the stream, with a slash at its end; its addresses begin with it.
    - `clock`: the format of times.
    - `tbox`, `shape`: the IRIs of the vocabulary and of the shape of elements; empty: none.
    """

    base: str
    clock: Clock
    title: str = ""
    license: str = ""
    tbox: str = ""
    shape: str = ""

    def node(self, path: str = "") -> DescribedNode:
        """The node of the stream, or of what is below it.

        >>> Published("http://e/fire/", Clock()).node("ldes/3")
        {'@id': 'http://e/fire/ldes/3'}
        """
        return {"@id": f"{self.base}{path}"}

    def address(self, path: str) -> str:
        """The URL of an endpoint: that of /ws has the scheme ws, or wss.

        >>> Published("https://e/fire/", Clock()).address("ws"), Published("https://e/fire/", Clock()).address("events")
        ('wss://e/fire/ws', 'https://e/fire/events')
        """
        return f"{self.base.replace('http', 'ws', 1) if path.partition('?')[0] == 'ws' else self.base}{path}"

    def time(self, time: Micros) -> DescribedNode:
        """A time in µs as a literal, as elements have it."""
        lexical, datatype, _ = literal_parts(shown_time_term(time, self.clock))
        return {"@value": lexical, "@type": datatype.replace(XSD, "xsd:")}

    @property
    def shaped(self) -> DescribedNode:
        """The member for the shape of the elements, where one is declared."""
        return {"tree:shape": {"@id": self.shape}} if self.shape else {}


def describe(stream: Published) -> list[DescribedNode]:
    """The description of a stream: what it is, where it is read in which format, and its sGraph.

    >>> describe(Published("http://e/fire/", Clock(), title="Fires"))[0]["dct:title"]
    'Fires'
    """
    service = stream.node("#service")
    endpoints = [
        {
            **stream.node(f"#{path.partition('?')[0]}-{format}"),
            "@type": ["vocals:StreamEndpoint", "dcat:Distribution"],
            "dcat:accessURL": {"@id": stream.address(path)},
            "dcat:format": {"@id": f"formats:{format}"},
            "dct:format": {"@id": f"formats:{format}"},
            "vsd:publishedBy": service,
        }
        for path, format in ENDPOINTS
    ]
    described = {
        **stream.node(),
        "@type": ["vocals:RDFStream", "dcat:Dataset", "ldes:EventStream"],
        **({"dct:title": stream.title} if stream.title else {}),
        **({"dct:license": {"@id": stream.license}} if stream.license else {}),
        "vsd:publishedBy": {**service, "@type": "vsd:PublishingService"},
        "tree:view": stream.node("ldes"),
        **stream.shaped,
        "vocals:hasEndpoint": endpoints,
        "dcat:distribution": [{"@id": each["@id"]} for each in endpoints],
    }
    graph = {
        **stream.node("sGraph"),
        "@type": "vocals:StreamDescriptor",
        "sld:streamLocation": {"@id": stream.address("ws")},
        "sld:tBoxLocation": {"@id": stream.tbox or f"{stream.base}tbox"},
        "vsd:publishedBy": service,
        "dcat:dataset": stream.node(),
    }
    return [described, graph]


def index(stream: Published, latest: Sequence[KeptElement]) -> DescribedNode:
    """The sGraph of a stream, TripleWave's index of its elements, with the description of the stream.

    - `latest`: the elements, the latest first.

    >>> found = index(Published("http://e/", Clock()), [KeptElement(1, 12_000_000, 0, "", b""), KeptElement(0, 9_000_000, 0, "", b"")])
    >>> [each["@id"] for each in found["sld:contains"]["@list"]]
    ['http://e/12000000-0', 'http://e/9000000-0']
    """
    described, graph = describe(stream)
    times = [stream.time(each.time) for each in latest]
    listed = [
        {**stream.node(each.id), "prov:generatedAtTime": time, "sld:receivedAt": time} for each, time in zip(latest, times, strict=True)
    ]
    updates = {"sld:lastUpdate": times[0], "sld:lastUpdated": times[0]} if times else {}
    return {**graph, **updates, "sld:contains": {"@list": listed}, "dcat:dataset": described}
