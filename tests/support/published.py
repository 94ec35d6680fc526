"""Streams that are published from memory, without a run: what readers meet, for tests of single resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dotr.evaluation.expressions.values.times import format_time
from dotr.model.time import Clock
from dotr.streams.connectors.http.addresses import ListenAddress
from dotr.streams.connectors.opening import Output, PublishedOutputs
from dotr.streams.connectors.serve.kept import Keep, KeptElements, NewElement
from dotr.streams.connectors.serve.section import About, ServeDestination, ServerTls
from dotr.streams.connectors.serve.stream import PublishedStream
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.events import OutputTerms
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

DATED = Clock(dated=True)
PREFIXES = {"": "http://e/"}
GRAPH = '<http://e/room> <http://e/temp> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .'


class Answer(NamedTuple):
    """Response of a server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        """Follow none."""


@dataclass
class PublishedTest:
    """Published stream, and a reader of it."""

    stream: PublishedStream
    address: str

    def get(self, path: str = "", accept: str = "*/*", **headers: str) -> Answer:
        """The response to a GET below the stream; names of headers have `_` for `-`."""
        return self.get_url(f"{self.address}{path}", accept, **headers)

    def get_url(self, url: str, accept: str = "*/*", **headers: str) -> Answer:
        """The response to a GET of a URL."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(url, headers={"Accept": accept, **named})
        try:
            with build_opener(_NoRedirect).open(request, timeout=PATIENCE) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def add(self, times: Sequence[float], graph: str = GRAPH, event: str = "Fire") -> None:
        """Publish one event at each of some times in seconds, which ascend."""
        self.stream.publish([event_at(time, self.stream.clock, graph, event) for time in times])


def event_at(time: float, clock: Clock, graph: str, event: str = "Fire") -> NewElement:
    """An event with the ordinal 0 at a time in seconds."""
    micros = round(time * 1_000_000)
    line: dict[str, object] = {"time": format_time(micros, clock), "rule": "R", "event": event, "attributes": {}, "graph": graph}
    return NewElement(micros, 0, event, json.dumps(line, ensure_ascii=False).encode())


@contextmanager
def published(
    *,
    path: str = "/fire",
    base: str = "",
    keep: Keep = Keep(elements=None),  # noqa: B008 (a constant)
    clock: Clock = DATED,
    about: About = About("Fires"),  # noqa: B008 (a constant)
    tokens: Callable[[], str] | None = None,
    origins: frozenset[str] = frozenset(),
    clients: int = 200,
    is_durable: bool = False,
    tls: ServerTls | None = None,
) -> Iterator[PublishedTest]:
    """A stream at a free port of loopback; `base`: empty for its address."""
    listen = ListenAddress("127.0.0.1", free_port(), path)
    address = f"{'http' if tls is None else 'https'}://{listen.authority}{path}/"
    destination = ServeDestination(listen, base or address, 0, keep, clients, about, tokens, origins, tls)
    with PublishedOutputs([Output(StreamFormat.NDJSON, destination)]) as outputs:
        stream = PublishedStream(destination, OutputTerms(clock, prefixes=PREFIXES), KeptElements(keep), is_durable=is_durable)
        outputs.serve([stream])
        yield PublishedTest(stream, address)
