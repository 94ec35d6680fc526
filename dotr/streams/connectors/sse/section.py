"""Section of inputs of server-sent events."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from dotr.streams.connectors.web_access import WebSection, WebSource, web_access
from dotr.streams.records import InputFile
from dotr.syntax.sections import SectionPlace


class SseInputSection(WebSection):
    """Stream of server-sent events, whose data are messages."""

    events: list[str] | None = Field(
        default=None, min_length=1, description="the names of the events that are read; those without a name if none"
    )


def sse_source(section: SseInputSection, place: SectionPlace, like: InputFile) -> WebSource:
    """The source of an input of server-sent events, read like the file `like`. Raises `Refused`
    (C204, C301) where it cannot be used."""
    from dotr.streams.connectors.sse.source import SseReceiver

    names = frozenset(section.events if section.events is not None else ["message"])
    access = web_access(section, place)
    return WebSource(access, partial(SseReceiver, like.input, access, like.record, names))
