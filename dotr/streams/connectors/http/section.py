"""HTTP inputs of a configuration: addresses at which messages are accepted."""

from __future__ import annotations

import re
from typing import Final

from dotr.errors.diagnostics import refuse
from dotr.runtimes.pipeline.reading import Config
from dotr.streams.connectors.http.addresses import listen_address
from dotr.streams.connectors.http.source import HttpListen
from dotr.streams.records import InputFile

_HEADER_CELL: Final = re.compile(r"\$header\.(?:\"([^\"]+)\"|([\w-]+))")


def http_source(config: Config, number: int, like: InputFile) -> HttpListen:
    """The source of the HTTP input `number`; its messages are read like the file `like`. Raises
    `Refused` (C204) where anybody could send to it."""
    section = config.settings.input[number]
    http = section.http
    assert http is not None
    at = ("input", number, "http")
    address = listen_address(http.listen)
    if http.tokens is not None and http.open:
        place = config.files.tree.key_span((*at, "open"))
        raise refuse("C204", "open accepts messages without a token, and there are tokens", place, "Leave one of the two out.")
    if not address.is_loopback and http.tokens is None and not http.open:
        hint = "Write tokens: ${NAME}; or open: true, where a proxy or a firewall decides who may; or listen at 127.0.0.1."
        raise refuse("C204", f"{address.host} is not loopback: everybody who reaches it could send", config.span(*at, "listen"), hint)
    headers = {(quoted or plain).lower() for quoted, plain in _HEADER_CELL.findall(section.map or "")}
    tokens = None if http.tokens is None else http.tokens.reveal
    return HttpListen(section.name, address, like.format, like.record, tokens, frozenset(headers), config.span(*at, "listen"))
