"""Sections of HTTP inputs and outputs: addresses at which messages are accepted, and addresses that
batches are posted to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import Field, field_validator

from dotr.errors.diagnostics import Diagnostic, Severity, refuse
from dotr.streams.connectors.http.addresses import HttpDestination, listen_address
from dotr.streams.connectors.web_access import TlsTrustSection, WebSection, WebSource, check_url, web_access
from dotr.streams.records import InputFile
from dotr.streams.times import parse_delay
from dotr.syntax.secrets import Secret
from dotr.syntax.sections import Section, SectionPlace

if TYPE_CHECKING:
    from dotr.streams.connectors.http.source import HttpListen

_HEADER_CELL: Final = re.compile(r"\$header\.(?:\"([^\"]+)\"|([\w-]+))")


class HttpInputSection(Section):
    """Address at which messages are accepted, each by a POST; or URL that is polled."""

    listen: str | int | None = Field(default=None, description="HOST:PORT/PATH at which messages are accepted; a port alone is on loopback")
    tokens: Secret | None = Field(
        default=None, description="the tokens of senders, separated by commas or spaces, as ${NAME}; one of them is sent as Bearer token"
    )
    open: bool = Field(default=False, description="accept messages without a token from other machines, too")
    url: str | None = Field(
        default=None,
        min_length=1,
        description="https://HOST/PATH that is polled, in place of `listen`; a password in it is written as ${NAME}",
    )
    poll: str | int | None = Field(
        default=None, description="the time from an answer of `url` to the next request; an integer is in seconds"
    )
    token: Secret | None = Field(default=None, description="the token that is sent to `url` as Bearer token, as ${NAME}")
    tls: TlsTrustSection = Field(default=TlsTrustSection.model_construct(), description="the authorities to trust in a connection to `url`")

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str | int | None) -> str | int | None:
        if value is not None:
            listen_address(value)
        return value

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is not None:
            check_url(value)
        return value

    @field_validator("poll")
    @classmethod
    def _check_poll(cls, value: str | int | None) -> str | int | None:
        if value is not None and parse_delay(value) < _LEAST_POLL:
            raise ValueError("it is at least 0.1 s")
        return value


class HttpOutputSection(WebSection):
    """Address to which batches are posted."""


_LEAST_POLL: Final = 100_000
_OF_LISTEN: Final = ("tokens", "open")
_OF_URL: Final = ("poll", "token", "tls")


def http_source(section: HttpInputSection, place: SectionPlace, like: InputFile) -> HttpListen | WebSource:
    """The source of an HTTP input; its messages are read like the file `like`. Raises `Refused`
    (C202, C204, C301) where it cannot be used, or anybody could send to it."""
    if section.url is not None and section.listen is not None:
        hint = "An input accepts messages at listen, or polls url."
        raise refuse("C204", "listen and url exclude each other", place.key_span("url"), hint)
    if section.url is None and section.listen is None:
        name = ".".join(map(str, place.location))
        raise refuse("C202", f"{name}.listen is missing", place.span(), "Write listen, or url and poll.")
    other = next((key for key in (_OF_LISTEN if section.url is not None else _OF_URL) if section.is_given(key)), None)
    if other is not None:
        its, own = ("listen", "url") if section.url is not None else ("url", "listen")
        raise refuse("C204", f"{other} is of {its}, and the input has {own}", place.key_span(other), "Leave it out.")
    template = "" if like.map is None else f"{like.map.template.text} {like.map.time}"
    headers = frozenset((quoted or plain).lower() for quoted, plain in _HEADER_CELL.findall(template))
    if section.listen is None:
        return _polled_source(section, place, like, headers)
    from dotr.streams.connectors.http.source import HttpListen

    address = listen_address(section.listen)
    if section.tokens is not None and section.open:
        hint = "Leave one of the two out."
        raise refuse("C204", "open accepts messages without a token, and there are tokens", place.key_span("open"), hint)
    if not address.is_loopback and section.tokens is None and not section.open:
        hint = "Write tokens: ${NAME}; or open: true, where a proxy or a firewall decides who may; or listen at 127.0.0.1."
        raise refuse("C204", f"{address.host} is not loopback: everybody who reaches it could send", place.span("listen"), hint)
    tokens = None if section.tokens is None else section.tokens.reveal
    return HttpListen(like.input, address, like.format, like.record, tokens, headers, place.span("listen"))


def _polled_source(section: HttpInputSection, place: SectionPlace, like: InputFile, headers: frozenset[str]) -> WebSource:
    from dotr.streams.connectors.http.source import PollingReceiver

    if section.poll is None:
        raise refuse("C202", f"{'.'.join(map(str, place.location))}.poll is missing", place.span(), "Write it like poll: 30 s.")
    assert section.url is not None
    access = web_access(WebSection(url=section.url, token=section.token, tls=section.tls), place)
    return WebSource(access, partial(PollingReceiver, like.input, access, like.record, parse_delay(section.poll) / 1_000_000, headers))


def http_destination(section: HttpOutputSection, place: SectionPlace, number: int) -> HttpDestination:
    """The destination of the HTTP output `number`, from 0 on; raises `Refused` (C204, C301) where it
    cannot be used."""
    access = web_access(section, place)
    return HttpDestination(access.shown, number, access.url, access.token, access.ca, access.span)


def http_warnings(section: HttpInputSection, place: SectionPlace, name: str) -> Iterator[Diagnostic]:
    """The warning (I116) of the input `name` where it has no tokens."""
    if section.tokens is None and section.listen is not None:
        address = listen_address(section.listen)
        who = "every process of this machine" if address.is_loopback else f"everybody who reaches {address.authority}"
        yield Diagnostic(
            "I116",
            f"input {name} accepts messages without a token: {who} can send",
            place.span("listen"),
            "Write tokens: ${NAME} beside it, or accept it: report: { accept: [I116] }",
            Severity.WARNING,
        )
