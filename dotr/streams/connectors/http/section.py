"""Sections of HTTP inputs and outputs: addresses at which messages are accepted, and addresses that
batches are posted to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from dotr.errors.diagnostics import Diagnostic, Severity, refuse
from dotr.streams.connectors.http.addresses import HttpDestination, check_post_url, listen_address, shown_url
from dotr.streams.records import InputFile
from dotr.syntax.secrets import Secret, reveal_url
from dotr.syntax.sections import Section, SectionPlace

if TYPE_CHECKING:
    from dotr.streams.connectors.http.source import HttpListen

_HEADER_CELL: Final = re.compile(r"\$header\.(?:\"([^\"]+)\"|([\w-]+))")


class HttpInputSection(Section):
    """Address at which messages are accepted, each by a POST."""

    listen: str | int = Field(description="HOST:PORT/PATH; a port alone is on loopback")
    tokens: Secret | None = Field(
        default=None, description="the tokens of senders, separated by commas or spaces, as ${NAME}; one of them is sent as Bearer token"
    )
    open: bool = Field(default=False, description="accept messages without a token from other machines, too")

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str | int) -> str | int:
        listen_address(value)
        return value


class TlsTrustSection(Section):
    """Authorities to trust in a connection with TLS."""

    ca: str | None = Field(
        default=None, min_length=1, description="a file with the certificates of the authorities to trust; the system's if none"
    )


class HttpOutputSection(Section):
    """Address to which batches are posted."""

    url: str = Field(min_length=1, description="https://HOST/PATH; a password in it is written as ${NAME}")
    token: Secret | None = Field(default=None, description="the token that is sent as Bearer token, as ${NAME}")
    tls: TlsTrustSection = Field(default=TlsTrustSection(), description="the authorities to trust")

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        check_post_url(value)
        return value


def http_source(section: HttpInputSection, place: SectionPlace, like: InputFile) -> HttpListen:
    """The source of an HTTP input; its messages are read like the file `like`. Raises `Refused`
    (C204) where anybody could send to it."""
    from dotr.streams.connectors.http.source import HttpListen

    address = listen_address(section.listen)
    if section.tokens is not None and section.open:
        hint = "Leave one of the two out."
        raise refuse("C204", "open accepts messages without a token, and there are tokens", place.key_span("open"), hint)
    if not address.is_loopback and section.tokens is None and not section.open:
        hint = "Write tokens: ${NAME}; or open: true, where a proxy or a firewall decides who may; or listen at 127.0.0.1."
        raise refuse("C204", f"{address.host} is not loopback: everybody who reaches it could send", place.span("listen"), hint)
    template = "" if like.map is None else f"{like.map.template.text} {like.map.time}"
    headers = {(quoted or plain).lower() for quoted, plain in _HEADER_CELL.findall(template)}
    tokens = None if section.tokens is None else section.tokens.reveal
    return HttpListen(like.input, address, like.format, like.record, tokens, frozenset(headers), place.span("listen"))


def http_destination(section: HttpOutputSection, place: SectionPlace, number: int) -> HttpDestination:
    """The destination of the HTTP output `number`, from 0 on; raises `Refused` (C204, C301) where it
    cannot be used."""
    import ssl  # a configuration without such an output needs none

    parts = urlsplit(section.url)
    if section.token is not None and parts.username is not None:
        raise refuse("C204", "the URL has a user, and there is a token", place.key_span("token"), "Leave one of the two out.")
    ca = ""
    if section.tls.ca is not None:
        if parts.scheme != "https":
            raise refuse("C204", "tls is of https", place.key_span("tls"), "Write https:// in the URL, or leave it out.")
        ca = place.path(section.tls.ca, "tls", "ca")
        try:
            ssl.create_default_context(cafile=ca)
        except OSError as error:  # ssl.SSLError, too: no certificate
            reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else (error.strerror or str(error)).lower()
            hint = "Name a file with certificates in PEM."
            raise refuse("C301", f"cannot read {ca}: {reason}", place.span("tls", "ca"), hint) from None
    token = None if section.token is None else section.token.reveal_token
    return HttpDestination(shown_url(section.url), number, partial(reveal_url, section.url), token, ca, place.span("url"))


def http_warnings(section: HttpInputSection, place: SectionPlace, name: str) -> Iterator[Diagnostic]:
    """The warning (I116) of the input `name` where it has no tokens."""
    if section.tokens is None:
        address = listen_address(section.listen)
        who = "every process of this machine" if address.is_loopback else f"everybody who reaches {address.authority}"
        yield Diagnostic(
            "I116",
            f"input {name} accepts messages without a token: {who} can send",
            place.span("listen"),
            "Write tokens: ${NAME} beside it, or accept it: report: { accept: [I116] }",
            Severity.WARNING,
        )
