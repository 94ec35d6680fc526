"""Resources of a published stream that are pulled: an element by its ID, and lists of elements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from dotr.streams.connectors.http.server import ErrorResponse
from dotr.streams.connectors.serve.elements import OF_ELEMENT, OF_ELEMENTS
from dotr.streams.connectors.serve.kept import Gone, KeptElement, KeptElements
from dotr.streams.connectors.serve.requests import ServedRoute, answer, bounds_of, count_of, gone, labels_of, name_of, negotiated, uri
from dotr.streams.connectors.serve.stream import PublishedStream

if TYPE_CHECKING:
    from aiohttp import web

LIMIT: Final = 250
"""Number of elements of a response where nothing is said."""

MOST: Final = 1_000
_STEP: Final = 1_000


async def element(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with an element, for its ID."""
    id = name_of(stream, request)
    found = stream.kept.find(id)
    if isinstance(found, Gone):
        raise gone(found)
    if found is None:
        raise ErrorResponse(404, "no element has this ID, and no resource this name")
    form = negotiated(request, OF_ELEMENT)
    write = stream.write
    return answer(stream, request, form.media_type, _parts(found), lambda: write.text(found, form), is_immutable=True)


def _parts(element: KeptElement) -> tuple[bytes, ...]:
    """The parts of an element that its texts are functions of."""
    return element.id.encode(), b"%d" % element.number, element.line


async def elements(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with the kept elements that a request selects, ascending."""
    query = request.query
    limit = count_of(request, "limit", MOST) or LIMIT
    form = negotiated(request, OF_ELEMENTS)
    start, stop = bounds_of(stream, request)
    found, has_more = await _selected(stream, start, stop, labels_of(request), count_of(request, "last"), limit)
    headers = {}
    if has_more:  # those behind the last one are further ones, however many come meanwhile
        kept = [(name, value) for name, value in query.items() if name not in ("after", "last")]
        headers["Link"] = f'<{uri(stream.base)}elements?{urlencode([*kept, ("after", found[-1].id)], errors="replace")}>; rel="next"'
    write = stream.write
    content = [part for each in found for part in _parts(each)]
    return answer(stream, request, form.media_type, [*content, headers.get("Link", "").encode()], lambda: write.texts(found, form), headers)


async def _selected(
    stream: PublishedStream, start: int, stop: int, labels: frozenset[str], last: int | None, limit: int
) -> tuple[list[KeptElement], bool]:
    """The first `limit` of the kept elements with a number in [start, stop) and one of some labels
    (of the `last` of them), and whether there are more."""
    kept = stream.kept
    if last is not None:
        start = await start_of_last(kept, start, stop, labels, last)
    found: list[KeptElement] = []
    for number in range(start, stop, _STEP):
        found += [each for each in kept.slice(number, min(stop, number + _STEP)) if not labels or each.label in labels]
        if len(found) > limit:
            break
        await asyncio.sleep(0)
    return found[:limit], len(found) > limit


async def start_of_last(kept: KeptElements, start: int, stop: int, labels: frozenset[str], last: int) -> int:
    """The number of the first of the `last` elements in [start, stop) with one of some labels; `start`
    if there are fewer."""
    for end in range(stop, start, -_STEP):
        for each in reversed(kept.slice(max(start, end - _STEP), end)):
            if not labels or each.label in labels:
                last -= 1
                if last == 0:
                    return each.number
        await asyncio.sleep(0)
    return start


ROUTES: Final[Mapping[str, ServedRoute]] = {
    "ID": ServedRoute(element),
    "elements": ServedRoute(elements, frozenset(("since", "until", "after", "last", "limit", "label", "format"))),
}
