"""Section of inputs of WebSockets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from pydantic import Field

from dotr.errors.diagnostics import Diagnostic, Severity, refuse
from dotr.streams.connectors.web_access import WebSection, WebSource, web_access
from dotr.streams.records import Format, InputFile
from dotr.syntax.sections import SectionPlace


class WebSocketInputSection(WebSection):
    """WebSocket, whose text frames are messages."""

    schemes: ClassVar[tuple[str, str]] = ("ws", "wss")

    url: str = Field(min_length=1, description="wss://HOST/PATH; a password in it is written as ${NAME}")
    resume: bool = Field(
        default=False,
        description="after a lost connection the server is asked by `?after=` to go on behind the last message, as a stream that dotr "
        "publishes can; without it what the server sends meanwhile is lost",
    )


def websocket_source(section: WebSocketInputSection, place: SectionPlace, like: InputFile) -> WebSource:
    """The source of an input of a WebSocket, read like the file `like`. Raises `Refused` (C204, C301)
    where it cannot be used."""
    from dotr.streams.connectors.websocket.source import WebSocketReceiver

    if section.resume and like.format not in (Format.TRIG, Format.NQUADS, Format.JSONLD):
        message = f"resume goes on behind the graph that a message names, and a message in {like.format.value} names none"
        raise refuse("C204", message, place.key_span("resume"), "Read the stream in trig, nquads or jsonld, or leave resume out.")
    access = web_access(section, place)
    return WebSource(access, partial(WebSocketReceiver, like.input, access, like.record, like.format, section.resume))


def websocket_warnings(section: WebSocketInputSection, place: SectionPlace, name: str) -> Iterator[Diagnostic]:
    """The warning (I114) of the input `name` that what comes while its connection is lost is lost."""
    if not section.resume:
        yield Diagnostic(
            "I114",
            f"input {name} has no guarantee: messages that are sent while the connection is lost are lost",
            place.span("url"),
            "Write resume: true for a stream that dotr publishes, or accept it: report: { accept: [I114] }",
            Severity.WARNING,
        )
