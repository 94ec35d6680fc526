"""Pages of an event stream on a server on loopback: `event_server(site.answer)`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from aiohttp import web

PREFIXES = """
@prefix : <http://e/> . @prefix tree: <https://w3id.org/tree#> . @prefix ldes: <https://w3id.org/ldes#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
ROOT = ":s tree:view <> ; ldes:timestampPath :at .\n"


def member(name: str, second: int) -> str:
    return f':s tree:member :{name} . :{name} a :A ; :at "1970-01-01T00:00:{second:02}Z"^^xsd:dateTime .\n'


def relation(to: str, second: int | None = None) -> str:
    bound = f'; tree:path :at ; tree:value "1970-01-01T00:00:{second:02}Z"^^xsd:dateTime' if second is not None else ""
    kind = "Relation" if second is None else "GreaterThanOrEqualToRelation"
    return f"<> tree:relation [ a tree:{kind} ; tree:node <{to}> {bound} ] .\n"


@dataclass
class Site:
    """Pages by path, each as (media type, text); statuses of the next requests for a path, in place of 200."""

    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    log: list[tuple[str, int]] = field(default_factory=list)

    def put(self, path: str, text: str, media_type: str = "text/turtle") -> None:
        self.pages[path] = media_type, text if media_type.endswith("json") or "n-" in media_type else PREFIXES + text

    async def answer(self, number: int, request: web.Request) -> web.StreamResponse:
        path = request.path_qs
        status = self.statuses[path].pop(0) if self.statuses.get(path) else 200 if path in self.pages else 404
        headers = dict(self.headers.get(path, {}))
        if status == 200:
            media_type, text = self.pages[path]
            headers.setdefault("ETag", f'"{hashlib.md5(text.encode()).hexdigest()}"')
            if request.headers.get("If-None-Match") == headers["ETag"]:
                status = 304
        self.log.append((path, status))
        if status != 200:
            return web.Response(status=status, headers=headers)
        return web.Response(text=text, headers={**headers, "Content-Type": f"{media_type}; charset=utf-8"})
