"""Section of inputs of Linked Data Event Streams."""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from dotr.errors.diagnostics import refuse
from dotr.streams.connectors.web_access import WebSection, WebSource, check_url, web_access
from dotr.streams.records import Format, InputFile
from dotr.streams.times import parse_delay, parse_time
from dotr.syntax.sections import SectionPlace

PAGE_FORMATS: Final = (Format.TRIG, Format.NQUADS, Format.TURTLE, Format.NTRIPLES, Format.JSONLD)
"""The formats of pages."""


class LdesInputSection(WebSection):
    """Linked Data Event Stream, whose members are elements in the order of their times."""

    poll: str | int = Field(
        default="1 min",
        description="the time between two runs over the pages; at least the stream's ldes:pollingInterval; an integer is in seconds",
    )
    since: str | int | None = Field(
        default=None, description="the time of the first member that is read; all members if none; an integer is in the unit of `time`"
    )
    allow: list[str] = Field(default=[], description="further origins whose pages are read, such as https://other.example")

    @field_validator("poll")
    @classmethod
    def _check_poll(cls, value: str | int) -> str | int:
        if not parse_delay(value):
            raise ValueError("runs without a pause between them are too many")
        return value

    @field_validator("allow")
    @classmethod
    def _check_allow(cls, value: list[str]) -> list[str]:
        for each in value:
            check_url(each)
            if urlsplit(each).path not in ("", "/") or urlsplit(each).query:
                raise ValueError(f"{each} is no origin: write its scheme, host and port alone")
        return value


def ldes_source(section: LdesInputSection, place: SectionPlace, like: InputFile, spool: int) -> WebSource:
    """The source of an input of an event stream, whose members are read like the file `like`, and
    whose pages are asked for in its format.

    `spool`: bytes of the members that may wait for their order. Raises `Refused` (C204, C205, C301)
    where it cannot be used.
    """
    from dotr.streams.connectors.ldes.source import LdesReceiver

    if like.format not in PAGE_FORMATS:
        message = f"pages of an event stream are RDF, and format is {like.format.value}"
        raise refuse("C204", message, place.key_span(), f"Write one of {', '.join(each.value for each in PAGE_FORMATS)}.")
    since = None
    if section.since is not None:
        try:
            since = parse_time(section.since, like.unit)
        except ValueError as error:
            raise refuse("C205", f"since: {error}", place.span("since"), "Write a date-time, such as 2026-01-01T00:00:00Z.") from None
    access = web_access(section, place)
    return WebSource(access, partial(LdesReceiver, like, access, parse_delay(section.poll) / 1e6, since, section.allow, spool))
