"""Requests to a published stream: what each of them is checked for, what it selects, and the
headers of its response.

Guarantee: nothing that a reader sends is repeated in an answer, since it may be a secret in the
wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from dotr.model.time import Micros
from dotr.streams.connectors.http.server import ErrorResponse
from dotr.streams.connectors.serve.elements import ElementFormat, accepted
from dotr.streams.connectors.serve.kept import Gone
from dotr.streams.connectors.serve.stream import PublishedStream
from dotr.streams.time_formats import time_parser

if TYPE_CHECKING:
    from aiohttp import web

METHODS: Final = ("GET", "HEAD", "OPTIONS")
_TOKEN: Final = "authorization"
_EXPOSED: Final = "ETag, Link, Retry-After"
_SPACE_ZONE: Final = re.compile(r" (\d\d:\d\d)\Z")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


class ServedRoute(NamedTuple):
    """Resource of a stream.

    - `handle`: the function that makes the response; raises `ErrorResponse`.
    - `parameters`: the names of its parameters, each of which may be given once, but for `label`.
    - `is_pushed`: True if it takes its token as a parameter, too: a page's EventSource or WebSocket
      can send no header.
    - `is_told`: True if `handle` itself answers who has no token.
    """

    handle: Callable[[PublishedStream, web.BaseRequest], Awaitable[web.StreamResponse]]
    parameters: frozenset[str] = frozenset()
    is_pushed: bool = False
    is_told: bool = False


def name_of(stream: PublishedStream, request: web.BaseRequest) -> str:
    """The name behind the path of a stream that a request asks for: an ID, or ldes/7."""
    return path_of(request).removeprefix(f"{stream.destination.path}/")


def path_of(request: web.BaseRequest) -> str:
    """The path of a request, without percent-encoding; the target may be a whole URL."""
    return unquote(request.rel_url.raw_path)


def uri(iri: str) -> str:
    """An IRI as headers have it, percent-encoded.

    >>> uri("https://h/é/%C3%A9#a")
    'https://h/%C3%A9/%C3%A9#a'
    """
    return quote(iri, safe="%:/?#[]@!$&'()*+,;=")


def check_host(stream: PublishedStream, request: web.BaseRequest) -> None:
    """Refuse (403) a host that is neither the address nor that of the base: a page of any site may
    have a name of its own resolved to this address, and read what it finds there."""
    hosts = request.headers.getall("Host", [])
    if len(hosts) == 1 and (
        hosts[0].lower() in _authorities(stream) or stream.destination.listen.is_host(hosts[0], stream.destination.scheme)
    ):
        return
    raise ErrorResponse(
        403, f"its Host is neither {stream.destination.listen.authority} nor that of {stream.base}: without tokens it must be"
    )


def _authorities(stream: PublishedStream) -> tuple[str, ...]:
    """The texts of a header Host that name the base."""
    parts = urlsplit(stream.base)
    host, port = parts.netloc.lower(), 443 if parts.scheme == "https" else 80
    return (host, f"{host}:{port}") if parts.port is None else (host, host.removesuffix(f":{port}"))


def is_foreign(stream: PublishedStream, request: web.BaseRequest) -> bool:
    """True for a request of a page of another site, which `origins` does not name."""
    origin = request.headers.get("Origin")
    if origin is None or _is_named(stream, origin):
        return False
    parts = urlsplit(stream.base)
    host = request.headers.get("Host", "")
    own = {f"{parts.scheme}://{each}" for each in _authorities(stream)}
    return origin.lower() not in own and origin.lower() != f"{stream.destination.scheme}://{host.lower()}"


def _is_named(stream: PublishedStream, origin: str) -> bool:
    origins = stream.destination.origins
    return "*" in origins or origin.lower() in origins


def common_headers(stream: PublishedStream, request: web.BaseRequest) -> dict[str, str]:
    """The headers of every response of a stream; `Cache-Control` unless the response has one."""
    headers = {"Server": "dotr", "X-Content-Type-Options": "nosniff", "Cache-Control": cache_control(stream), "Vary": "Accept"}
    if stream.destination.origins:
        headers["Vary"] = "Accept, Origin"
        origin = request.headers.get("Origin")
        if origin is not None and _is_named(stream, origin):
            headers |= {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _EXPOSED}
    return headers


def cache_control(stream: PublishedStream, *, is_immutable: bool = False) -> str:
    """The header Cache-Control: of what never changes where the stream is durable, or of all else."""
    lasting = "max-age=31536000, immutable" if is_immutable and stream.is_durable else "no-cache"
    return f"private, {lasting}" if stream.tokens else lasting if lasting == "no-cache" else f"public, {lasting}"


def options_response(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response to OPTIONS: the methods, and what a page of another origin may send."""
    from aiohttp import web

    headers = {"Allow": ", ".join(METHODS)}
    origin = request.headers.get("Origin")
    if origin is not None and _is_named(stream, origin):
        headers["Access-Control-Allow-Methods"] = ", ".join(METHODS)
        headers["Access-Control-Allow-Headers"] = "Authorization, Last-Event-ID, If-None-Match, Accept"
        headers["Access-Control-Max-Age"] = "600"
    return web.Response(status=204, headers=headers)


def has_token(stream: PublishedStream, request: web.BaseRequest, *, is_pushed: bool = False) -> bool:
    """True if a request has a token, or needs none."""
    tokens = stream.tokens
    if not tokens or tokens.has_bearer(request.headers.get("Authorization", "")):
        return True
    return is_pushed and any(map(tokens.has, request.query.getall(_TOKEN, [])))


def check_token(stream: PublishedStream, request: web.BaseRequest, *, is_pushed: bool = False) -> None:
    """Refuse (401) who has no token, where the stream has some."""
    if not has_token(stream, request, is_pushed=is_pushed):
        raise ErrorResponse(401, "it needs a token: Authorization: Bearer TOKEN", WWW_Authenticate="Bearer")


def check_parameters(route: ServedRoute, request: web.BaseRequest) -> None:
    known = {*route.parameters, _TOKEN} if route.is_pushed else route.parameters
    query = request.query
    for name in query:
        if name not in known:  # which may be a secret in the wrong place: it is not repeated
            shown = ", ".join(sorted(route.parameters)) or "none"
            raise ErrorResponse(400, f"it has an unknown parameter; known here: {shown}")
        if name != "label" and len(query.getall(name)) > 1:
            raise ErrorResponse(400, f"the parameter {name} is given twice")


def bounds_of(stream: PublishedStream, request: web.BaseRequest) -> tuple[int, int]:
    """The range of numbers that `since`, `until` and `after` select; raises `ErrorResponse` (400,
    410)."""
    query, kept = request.query, stream.kept
    stop = kept.next
    start = kept.first
    if "after" in query:
        start = max(start, number_behind(stream, query["after"]))
    if "since" in query:
        start = max(start, kept.since(time_of(stream, request, "since")))
    if "until" in query:
        stop = min(stop, kept.since(time_of(stream, request, "until")))
    return start, stop


def number_behind(stream: PublishedStream, id: str) -> int:
    """The number behind the ID of a kept element; raises `ErrorResponse` (400, 410)."""
    found = stream.kept.place_behind(id)
    if isinstance(found, Gone):
        raise gone(found)
    if found is None:
        raise ErrorResponse(400, "after is no ID of an element that the stream has had")
    return found


def gone(found: Gone) -> ErrorResponse:
    """The response (410) for an ID before those that are kept."""
    return ErrorResponse(410, f"the element has left: the first that is kept is {found.first}", {"first": found.first})


def time_of(stream: PublishedStream, request: web.BaseRequest, name: str) -> Micros:
    """The time (µs) of a parameter: a date-time, which without a zone is in the one that times are
    shown in, or an integer of the stream's unit; raises `ErrorResponse` (400)."""
    text = _SPACE_ZONE.sub(r"+\1", request.query[name])  # a plus sign that is not encoded is a space
    try:
        return time_parser(None, stream.clock.zone or None)(text, stream.clock.unit)
    except ValueError:
        raise ErrorResponse(400, f"{name} is neither a date-time nor an integer") from None


def count_of(request: web.BaseRequest, name: str, most: int | None = None) -> int | None:
    """The whole number above 0 of a parameter; None without it. Raises `ErrorResponse` (400)."""
    text = request.query.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or (most is not None and int(text) > most):
        raise ErrorResponse(400, f"{name} is no whole number from 1 {'on' if most is None else f'to {most:,}'}")
    return int(text)


def labels_of(request: web.BaseRequest) -> frozenset[str]:
    """The labels that a request selects; none for all."""
    return frozenset(request.query.getall("label", []))


def negotiated(request: web.BaseRequest, formats: Sequence[ElementFormat]) -> ElementFormat:
    """The format of a response: that of the parameter `format`, else the one that the reader likes
    best; raises `ErrorResponse` (400, 406)."""
    named = request.query.get("format")
    if named is not None:
        for form in formats:
            if form.value == named:
                return form
        raise ErrorResponse(400, f"format is none of {', '.join(form.value for form in formats)}")
    media_type = accepted_type(request, [form.media_type for form in formats])
    return next(form for form in formats if form.media_type == media_type)


def accepted_type(request: web.BaseRequest, media_types: Sequence[str]) -> str:
    """The media type that a reader likes best; raises `ErrorResponse` (406)."""
    found = accepted(",".join(request.headers.getall("Accept", [])), media_types)
    if found is None:
        raise ErrorResponse(406, f"it accepts nothing that is here: {', '.join(media_types)}")
    return found


def answer(
    stream: PublishedStream,
    request: web.BaseRequest,
    media_type: str,
    content: Sequence[bytes],
    body: Callable[[], bytes],
    headers: Mapping[str, str] | None = None,
    *,
    is_immutable: bool = False,
) -> web.StreamResponse:
    """A response with an ETag, or 304 where the reader has it already.

    - `content`: what the body depends on, beside the media type, the base and the prefixes.
    - `body`: the function that makes the body.
    - `is_immutable`: True if it never changes in a durable stream.
    """
    from aiohttp import web

    digest = blake2b(repr((media_type, stream.base, stream.terms.prefixes)).encode(), digest_size=12)
    for part in content:
        digest.update(b"%d:" % len(part) + part)
    tag = f'"{digest.hexdigest()}"'
    sent = {"ETag": tag, "Cache-Control": cache_control(stream, is_immutable=is_immutable), **(headers or {})}
    if _has(request, tag):
        return web.Response(status=304, headers=sent)
    charset = "; charset=utf-8" if media_type.startswith("text/") else ""
    return web.Response(body=body(), headers={"Content-Type": media_type + charset, **sent})


def _has(request: web.BaseRequest, tag: str) -> bool:
    """True if If-None-Match names a tag, or any; weak tags are compared without their mark."""
    named = ",".join(request.headers.getall("If-None-Match", []))
    return named.strip() == "*" or tag in [each.strip().removeprefix("W/") for each in named.split(",")]
