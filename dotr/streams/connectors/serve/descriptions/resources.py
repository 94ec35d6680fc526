"""Resources of a published stream that describe it: `/`, `/sGraph`, `/tbox`, `/shape`, `/ldes`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from dotr.errors.markup import Markup, element, join, source_hash
from dotr.evaluation.expressions.values.times import format_time
from dotr.streams.connectors.http.server import ErrorResponse
from dotr.streams.connectors.serve.descriptions.documents import RDF_TYPES, DescribedNode, node_text, with_context
from dotr.streams.connectors.serve.descriptions.streams import LISTED, Published, describe, index
from dotr.streams.connectors.serve.elements import ElementFormat, accepted
from dotr.streams.connectors.serve.kept import PAGE, Gone, KeptElement, KeptElements
from dotr.streams.connectors.serve.requests import (
    ServedRoute,
    accepted_type,
    answer,
    check_token,
    gone,
    has_token,
    name_of,
    negotiated,
    uri,
)
from dotr.streams.connectors.serve.section import DocumentReference
from dotr.streams.connectors.serve.stream import PublishedStream, StreamState

if TYPE_CHECKING:
    from aiohttp import web

# Pages of a published stream as a Linked Data Event Stream: the root, and page N.
#
# Idea: the elements of page N have the numbers 250 N to 250 N + 249, so a full page never changes,
# and leaves whole. The root alone has relations, to each kept page: from its first time on, and to
# its last time where it is full; by number where times are integers, which are no xsd:dateTime.
# Source: Linked Data Event Streams (SEMIC), TREE hypermedia (W3C Community Group).


_TIME: Final = {"@id": "prov:generatedAtTime"}
_NUMBER: Final = {"@id": "urn:dotr:number"}


def root_node(stream: Published, kept: KeptElements) -> DescribedNode:
    """The root of the pages: the order of the stream, what is kept, and relations to its pages.

    >>> from dotr.model.time import Clock
    >>> from dotr.streams.connectors.serve.kept import Keep, NewElement
    >>> kept = KeptElements(Keep())
    >>> _ = kept.append([NewElement(12_000_000, 0, "Fire", b"{}")])
    >>> root_node(Published("http://e/fire/", Clock(dated=True)), kept)["tree:view"]["tree:relation"][0]["tree:value"]
    {'@value': '1970-01-01T00:00:12Z', '@type': 'xsd:dateTime'}
    """
    dated = stream.clock.dated
    relations: list[DescribedNode] = []
    view = {**stream.node("ldes"), "@type": "tree:Node"}
    for page in kept.pages:
        elements = kept.slice(page * PAGE, page * PAGE + 1)
        if not elements:  # the page has left in the meantime
            continue
        if dated and not relations:
            start = stream.time(elements[0].time)
            view["ldes:retentionPolicy"] = {**stream.node("ldes#retention"), "@type": "ldes:RetentionPolicy", "ldes:startingFrom": start}
        bounds = [("from", "GreaterThanOrEqualTo", elements[0])]
        if kept.is_full(page):
            bounds += [("to", "LessThanOrEqualTo", last) for last in kept.slice((page + 1) * PAGE - 1, (page + 1) * PAGE)]
        relations += [
            {
                **stream.node(f"ldes#{side}-{page}"),
                "@type": f"tree:{kind}Relation",
                "tree:node": stream.node(f"ldes/{page}"),
                "tree:path": _TIME if dated else _NUMBER,
                "tree:value": stream.time(bound.time) if dated else bound.number,
            }
            for side, kind, bound in bounds
        ]
    if relations:
        view["tree:relation"] = relations
    order = {"ldes:timestampPath": _TIME, "ldes:sequencePath": _NUMBER} if dated else {"ldes:sequencePath": _NUMBER}
    return {**stream.node(), "@type": "ldes:EventStream", **order, **stream.shaped, "tree:view": view}


def page_nodes(stream: Published, number: int, elements: Sequence[KeptElement], *, immutable: bool) -> list[DescribedNode]:
    """The nodes of a page about its elements, which follow them as they are.

    `immutable`: no element comes to the page any more, over restarts either.

    >>> from dotr.model.time import Clock
    >>> for node in page_nodes(Published("http://e/", Clock()), 0, [KeptElement(0, 12, 0, "Fire", b"")], immutable=True):
    ...     print(node)
    {'@id': 'http://e/ldes/0', '@type': 'tree:Node', 'ldes:immutable': True}
    {'@id': 'http://e/', '@type': 'ldes:EventStream', 'tree:member': [{'@id': 'http://e/12-0'}]}
    """
    fixed = {"ldes:immutable": True} if immutable else {}
    return [
        {**stream.node(f"ldes/{number}"), "@type": "tree:Node", **fixed},
        {**stream.node(), "@type": "ldes:EventStream", "tree:member": [stream.node(each.id) for each in elements]},
    ]


# Page of a published stream for people: what it is, its latest elements, and how it is read.
#
# Invariant: the page asks nothing of another host, and its policy lets a browser run its own script
# and style alone, and connect to its own host alone. What comes from the stream is text.


SHOWN: Final = 10
"""Number of elements on the page, as in its script."""

_STATES: Final = {
    StreamState.OPEN: "open: further elements come",
    StreamState.ENDED: "ended: its inputs have ended",
    StreamState.STOPPED: "stopped",
}


def snippets(base: str, *, has_tokens: bool) -> list[tuple[str, str, str]]:
    """The ways to read the stream with the IRI `base`: a name, a title, and the code.

    >>> print(snippets("http://e/fire/", has_tokens=False)[0][2])
    curl 'http://e/fire/elements?last=5'
    curl -N http://e/fire/events
    """
    latest, events = f"{base}elements?last=5", f"{base}events"
    curl, source, imports, bearer = "curl", _quoted(events), "", ""
    if has_tokens:
        curl += ' -H "Authorization: Bearer $TOKEN"'
        source = f"{_quoted(events + '?authorization=')} + encodeURIComponent(token)"
        imports, bearer = "import os\n", ', "Authorization": f"Bearer {os.environ[\'TOKEN\']}"'

    def opened(url: str, media_type: str, name: str) -> str:
        return f'headers = {{"Accept": "{media_type}"{bearer}}}\nwith urlopen(Request({_quoted(url)}, headers=headers)) as {name}:\n'

    imports += "from urllib.request import Request, urlopen\n"
    found = [
        ("curl", "curl: the latest elements, and new ones as they come", f"{curl} {shlex.quote(latest)}\n{curl} -N {shlex.quote(events)}"),
        (
            "javascript",
            "JavaScript, in a browser",
            f"const source = new EventSource({source});\n"
            "source.onmessage = (event) =>\n  console.log(event.lastEventId, JSON.parse(event.data));\n"
            'source.addEventListener("end", () => source.close());',
        ),
        (
            "rdflib",
            "Python with rdflib: the latest elements",
            f"{imports}from rdflib import Dataset\n\nelements = Dataset()\n{opened(latest, 'application/trig', 'answer')}"
            '    elements.parse(answer, format="trig")\nfor graph in elements.graphs():\n    print(graph.identifier, len(graph))',
        ),
        (
            "python",
            "Python: new elements as they come",
            f"import json\n{imports}\n{opened(events, 'text/event-stream', 'lines')}"
            '    for line in lines:\n        if line.startswith(b"data: "):\n            print(json.loads(line[6:]))',
        ),
    ]
    if not has_tokens:
        follow = f"npx ldes-client {shlex.quote(base + 'ldes')} --follow"
        found.append(("ldes", "A client of Linked Data Event Streams", follow))
    return found


def _quoted(text: str) -> str:
    """A text as a literal of JavaScript and of Python."""
    return json.dumps(text, ensure_ascii=False)


def stream_page(stream: PublishedStream, about: Published, below: str, *, may_read: bool = True) -> str:
    """The page as HTML.

    - `below`: the relative URL of what is below the stream, such as fire/.
    - `may_read`: False for a reader without a token, who sees how to read with one, and nothing of
      the stream.
    """
    last = stream.kept.next if may_read else 0
    latest = stream.kept.slice(max(0, last - SHOWN), last)[::-1]
    title = about.title if may_read else "An RDF stream that needs a token"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(_asset("style.css"))),
    )
    header = element(
        "header",
        element("h1", title),
        element("p", "An RDF stream: ", element("code", about.base)),
        _facts(stream, about) if may_read else "",
        element("nav", *(element("a", text, href=f"#{id}") for id, text in _PARTS), aria_label="Parts of the page"),
    )
    how = element("div", _snippets(about.base, has_tokens=bool(stream.tokens)), _addresses(about, below))
    content = element("main", _latest(stream, latest, below, may_read=may_read), how, id="content")
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    body = element("body", skip, header, content, element("script", Markup(_asset("live.js"))))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


_PARTS: Final = (("latest", "Latest elements"), ("read", "Read this stream"), ("addresses", "Addresses"))
"""The parts of the page."""


def policy() -> str:
    """The Content-Security-Policy of the page."""
    script, style = source_hash(_asset("live.js")), source_hash(_asset("style.css"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@cache
def _asset(name: str) -> str:
    return files("dotr.streams.connectors.serve.descriptions").joinpath(name).read_text(encoding="utf-8")


def _facts(stream: PublishedStream, about: Published) -> Markup:
    first, last = stream.kept.first, stream.kept.next
    facts: list[tuple[str, Markup | str]] = [("Elements kept", f"{last - first:,} of {last:,}")]
    for title, number in (("First kept", first), ("Latest", last - 1)):
        facts += [(title, str(format_time(each.time, about.clock))) for each in stream.kept.slice(number, number + 1)]
    facts.append(("State", _STATES[stream.state]))
    if about.license:
        facts.append(("License", _link(about.license)))
    facts += [(title, _link(iri)) for title, iri in (("Vocabulary", about.tbox), ("Shape", about.shape)) if iri]
    return element("dl", *(element("div", element("dt", title), element("dd", value)) for title, value in facts), class_="facts")


def _link(iri: str) -> Markup:
    """A link to an IRI of the Web; another IRI, which could be a script, is text."""
    return element("a", iri, href=iri) if iri.startswith(("http://", "https://")) else element("span", iri)


def _latest(stream: PublishedStream, latest: Sequence[KeptElement], below: str, *, may_read: bool) -> Markup:
    texts = [(each.id, stream.write.text(each, ElementFormat.TRIG).decode("utf-8", "replace")) for each in latest]
    prefixes = [line for line in texts[0][1].splitlines() if line.startswith("@prefix ")] if texts else []
    token = element("input", type="password", autocomplete="off", required=True)
    connect = element("button", "Connect", type="submit")
    title = (
        element("h2", "Latest elements", id="latest"),
        element("span", "", id="status", role="status", class_="quiet"),
        element("button", "Pause", type="button", id="pause", aria_pressed="false", hidden=True),
    )
    data = {"data_base": below, "data_last": latest[0].id if latest else "", "data_state": stream.state.value}
    return element(
        "section",
        element("div", *title, class_="live"),
        element("form", element("label", "Token for new elements: ", token), connect, id="token", hidden=True) if stream.tokens else "",
        element("noscript", element("p", "Without JavaScript these are the elements of when the page was loaded.", class_="quiet")),
        "" if latest or not may_read else element("p", "There are none yet.", id="none", class_="quiet"),
        element("ol", *(_item(id, text, below) for id, text in texts), id="elements", **data),
        element("details", element("summary", "Prefixes"), element("pre", "\n".join(prefixes))) if prefixes else "",
        aria_labelledby="latest",
    )


def _item(id: str, text: str, below: str) -> Markup:
    """An element, of whose TriG the lines of its graph are shown, as the script of the page does it."""
    time = re.search(r'generatedAtTime>? "([^"]*)"', text)
    graph = text[text.index("{\n") + 2 : text.rindex("}")]
    return element(
        "li",
        element("p", element("strong", time[1] if time else ""), element("a", id, href=f"{below}{id}")),
        element("pre", re.sub("^ {2}", "", graph, flags=re.MULTILINE).rstrip()),
    )


_NOTE: Final = (
    "Readers need a token: in a header Authorization, or, for /events and /ws, as the parameter authorization, since a browser's "
    "EventSource and WebSocket send no header."
)


def _snippets(base: str, *, has_tokens: bool) -> Markup:
    found = [
        join(element("h3", title, id=f"{name}-title"), element("pre", element("code", code), id=name))
        for name, title, code in snippets(base, has_tokens=has_tokens)
    ]
    note = element("p", _NOTE) if has_tokens else ""
    return element("section", element("h2", "Read this stream", id="read"), note, *found, aria_labelledby="read")


_ADDRESSES: Final = (
    ("", "this page, and its description in RDF: Turtle, JSON-LD, N-Triples"),
    ("elements", "the elements that are kept: TriG, N-Quads, JSON-LD, NDJSON; with since, until, after, last, limit, label, format"),
    ("events", "new elements as Server-Sent Events: JSON-LD, TriG, N-Quads; with since, until, after, last, label, format"),
    ("ws", "new elements over a WebSocket, likewise"),
    ("stream", "new elements as one document without end, likewise; also NDJSON and Jelly"),
    ("ldes", "a Linked Data Event Stream: TriG, N-Quads, JSON-LD"),
    ("sGraph", "TripleWave's index of the latest elements: JSON-LD, Turtle, N-Triples"),
    ("tbox", "the vocabulary: Turtle, JSON-LD, N-Triples"),
    ("shape", "the shape of the elements, likewise"),
)


def _addresses(about: Published, below: str) -> Markup:
    entries = [
        # a link would not open a WebSocket
        join(
            element(
                "dt", element("code", about.address(path)) if path == "ws" else element("a", f"/{path}", href=f"{below}{path}" or "./")
            ),
            element("dd", what),
        )
        for path, what in _ADDRESSES
        if path != "shape" or about.shape
    ]
    title = element("h2", "Addresses", id="addresses")
    return element("section", title, element("dl", *entries, class_="addresses"), aria_labelledby="addresses")


HTML: Final = "text/html"
DESCRIPTION_TYPES: Final = (*RDF_TYPES, HTML)
INDEX_TYPES: Final = ("application/ld+json", "text/turtle", "application/n-triples")
OF_PAGES: Final = (ElementFormat.TRIG, ElementFormat.NQUADS, ElementFormat.JSONLD)
_PAGE_HEADERS: Final = {"Content-Security-Policy": policy(), "Referrer-Policy": "no-referrer"}
"""The media types and formats of the resources, the first one where a reader accepts any."""


def published(stream: PublishedStream) -> Published:
    """The published stream, as descriptions have it."""
    about = stream.destination.about

    def iri(reference: DocumentReference | None, path: str) -> str:
        return "" if reference is None else reference.iri or f"{stream.base}{path}"

    return Published(stream.base, stream.clock, about.title, about.license or "", iri(about.tbox, "tbox"), iri(about.shape, "shape"))


async def description(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with the description of the stream, or its page for people, who are told without
    a token, too, how they read with one."""
    from aiohttp import web

    may_read = has_token(stream, request)
    if accepted(request.headers.get("Accept", ""), DESCRIPTION_TYPES) != HTML:
        check_token(stream, request)
    media_type = accepted_type(request, DESCRIPTION_TYPES)
    if media_type != HTML:
        text = node_text(describe(published(stream)), media_type)
        return answer(stream, request, media_type, [text], lambda: text)
    path = request.raw_path.partition("?")[0]
    below = "" if path.endswith("/") else f"{path.rpartition('/')[2]}/"
    html = stream_page(stream, published(stream), below, may_read=may_read).encode("utf-8", "backslashreplace")
    if may_read:
        return answer(stream, request, HTML, [html], lambda: html, _PAGE_HEADERS)
    headers = {"Content-Type": f"{HTML}; charset=utf-8", "WWW-Authenticate": "Bearer", **_PAGE_HEADERS}
    return web.Response(status=401, body=html, headers=headers)


async def sgraph(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with the sGraph."""
    media_type = accepted_type(request, INDEX_TYPES)
    last = stream.kept.next
    latest = stream.kept.slice(last - LISTED, last)[::-1]
    about = published(stream)
    content = [str(about).encode(), *(each.id.encode() for each in latest)]
    return answer(stream, request, media_type, content, lambda: node_text([index(about, latest)], media_type))


async def document(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with the vocabulary or the shape; 303 to one elsewhere."""
    from aiohttp import web

    name = name_of(stream, request)
    about = stream.destination.about
    reference = about.tbox if name == "tbox" else about.shape
    if reference is not None and reference.iri:
        return web.Response(status=303, headers={"Location": uri(reference.iri)})
    if reference is None and name == "shape":
        raise ErrorResponse(404, "no shape of the elements is declared")
    media_type = accepted_type(request, list(RDF_TYPES))
    text = stream.documents[name].text(media_type)
    return answer(stream, request, media_type, [text], lambda: text)


async def ldes_root(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with the root of the event stream."""
    form = negotiated(request, OF_PAGES)
    text = _with_elements(stream, [root_node(published(stream), stream.kept)], [], form)
    return answer(stream, request, form.media_type, [text], lambda: text)


async def ldes_page(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with a page of the event stream."""
    name = name_of(stream, request).removeprefix("ldes/")
    number = int(name) if name.isascii() and name.isdecimal() and len(name) <= _DIGITS and (name == "0" or name[0] != "0") else -1
    is_full = stream.kept.is_full(number)  # before the elements are read, which may be more then
    elements = stream.kept.page(number) if number >= 0 else None
    if isinstance(elements, Gone):
        raise gone(elements)
    if elements is None:
        raise ErrorResponse(404, "there is no such page yet" if number >= 0 else "pages have whole numbers, from 0 on")
    form = negotiated(request, OF_PAGES)
    nodes = page_nodes(published(stream), number, elements, immutable=is_full and stream.is_durable)
    content = [str(is_full).encode(), *(part for each in elements for part in (each.id.encode(), each.line))]
    return answer(
        stream,
        request,
        form.media_type,
        content,
        lambda: _with_elements(stream, nodes, elements, form),
        is_immutable=is_full,
    )


_DIGITS: Final = 18


def _with_elements(stream: PublishedStream, nodes: Sequence[DescribedNode], elements: Sequence[KeptElement], form: ElementFormat) -> bytes:
    """Nodes in the default graph, and elements behind them, as one document."""
    texts = stream.write.texts(elements, form) if elements else b"[]\n" if form is ElementFormat.JSONLD else b""
    if form is ElementFormat.JSONLD:
        first = ",\n".join([json.dumps(with_context(node), ensure_ascii=False) for node in nodes])
        return b"[" + first.encode() + (b",\n" if elements else b"") + texts[1:]
    return node_text(nodes, "text/turtle" if form is ElementFormat.TRIG else "application/n-triples") + texts


ROUTES: Final[Mapping[str, ServedRoute]] = {
    "": ServedRoute(description, is_told=True),
    "sGraph": ServedRoute(sgraph),
    "sgraph": ServedRoute(sgraph),
    "tbox": ServedRoute(document),
    "shape": ServedRoute(document),
    "ldes": ServedRoute(ldes_root),
    "ldes/N": ServedRoute(ldes_page),
}
