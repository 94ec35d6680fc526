"""Access to servers on the Web: their URLs, credentials and trusted authorities."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from pydantic import Field, field_validator

from dotr.errors.diagnostics import refuse
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.streams.records import Receiver
from dotr.syntax.secrets import Secret, reveal_url
from dotr.syntax.sections import Section, SectionPlace

if TYPE_CHECKING:
    from ssl import SSLContext


class TlsTrustSection(Section):
    """Authorities to trust in a connection with TLS."""

    ca: str | None = Field(
        default=None, min_length=1, description="a file with the certificates of the authorities to trust; the system's if none"
    )


class WebSection(Section):
    """Server on the Web, and the credentials that it requires."""

    schemes: ClassVar[tuple[str, str]] = ("http", "https")

    url: str = Field(min_length=1, description="https://HOST/PATH; a password in it is written as ${NAME}")
    token: Secret | None = Field(default=None, description="the token that is sent as Bearer token, as ${NAME}")
    tls: TlsTrustSection = Field(default=TlsTrustSection.model_construct(), description="the authorities to trust")

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        check_url(value, cls.schemes)
        return value


def check_url(url: str, schemes: tuple[str, str] = ("http", "https")) -> None:
    """Check a URL with one of two schemes; raises ValueError, whose text has no password.

    >>> check_url("https://user:${PASSWORD}@h:8443/in?a=b")
    >>> check_url("ftp://h")
    Traceback (most recent call last):
    ValueError: it begins with neither http:// nor https://
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("it is no URL") from None
    if parts.scheme not in schemes:
        raise ValueError(f"it begins with neither {schemes[0]}:// nor {schemes[1]}://")
    if not parts.hostname or port == 0 or re.search(r"[\x00-\x20\x7f-\U0010ffff]", url):
        raise ValueError("it is no URL")
    if parts.fragment:
        raise ValueError("a fragment (#) is sent to no server")


def shown_url(url: str) -> str:
    """A URL for messages, without user, password and query, which may have secrets.

    >>> shown_url("https://user:${PASSWORD}@h:8443/in?token=b")
    'https://h:8443/in'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_NO_URL: Final = re.compile(r"[^\x21-\x7e]")
_PORTS: Final = {"http": 80, "https": 443}

Origin: TypeAlias = tuple[str, str, int]
"""Scheme, host and port of a URL; the scheme of a WebSocket is that of its request."""


def origin(url: str) -> Origin:
    """The origin of a URL; raises ValueError where it has none.

    >>> origin("https://H/a") == origin("wss://h:443/b?c")
    True
    """
    parts = urlsplit(url)
    scheme = parts.scheme.replace("ws", "http")
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme, 0)


def redirect_of(url: str, location: str) -> str:
    """The URL of a redirect, without user and fragment; raises ValueError where it is none.

    >>> redirect_of("http://h/a?b", "//me@g/c#d")
    'http://g/c'
    """
    if _NO_URL.search(location):
        raise ValueError(location)
    found = urlsplit(urljoin(url, location))
    return found._replace(netloc=found.netloc.rpartition("@")[2], fragment="").geturl()


@dataclass(frozen=True, slots=True)
class WebAccess:
    """Access to a server.

    - `shown`: the URL without user, password and query.
    - `url`, `token`: functions that return the URL with its password, and the token (None: there is
      none), so that no secret is stored.
    - `ca`: a file with the certificates of the trusted authorities; empty: the system's.
    - `span`: the place of the URL in the configuration.
    """

    shown: str
    url: Callable[[], str] = field(compare=False)
    token: Callable[[], str] | None = field(default=None, compare=False)
    ca: str = ""
    span: Span | None = field(default=None, compare=False)

    def request(self) -> tuple[str, dict[str, str]]:
        """The URL without user and password, and the header with the credentials; raises `Refused`
        (S124) where the environment lacks one.

        >>> WebAccess("http://h/a", lambda: "http://me:x%2F7@h/a?b=c").request()
        ('http://h/a?b=c', {'Authorization': 'Basic bWU6eC83'})
        """
        parts = urlsplit(self.url())
        headers = {}
        if self.token is not None:
            headers = {"Authorization": f"Bearer {self.token()}"}
        elif parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), headers

    def tls(self) -> SSLContext:
        """The settings of a connection with TLS, which verify certificate and host name."""
        import ssl

        return ssl.create_default_context(cafile=self.ca or None)


@dataclass(frozen=True, slots=True)
class WebSource:
    """Server that sends messages; `new_receiver` makes a receiver, not yet started, or raises `Refused`
    (C226) where aiohttp is missing."""

    access: WebAccess
    new_receiver: Callable[[], Receiver]

    @property
    def address(self) -> str:
        """The URL without user, password and query, the `file` of dead letters."""
        return self.access.shown

    def receiver(self) -> Receiver:
        """A new receiver."""
        return self.new_receiver()


def web_access(section: WebSection, place: SectionPlace) -> WebAccess:
    """The access to the server of a section; raises `Refused` (C204, C301) where it cannot be
    used."""
    url, token, tls, secure = section.url, section.token, section.tls, section.schemes[1]
    import ssl  # a configuration without such a server needs none

    parts = urlsplit(url)
    if token is not None and parts.username is not None:
        raise refuse("C204", "the URL has a user, and there is a token", place.key_span("token"), "Leave one of the two out.")
    ca = ""
    if tls.ca is not None:
        if parts.scheme != secure:
            raise refuse("C204", f"tls is of {secure}", place.key_span("tls"), f"Write {secure}:// in the URL, or leave it out.")
        ca = place.path(tls.ca, "tls", "ca")
        try:
            ssl.create_default_context(cafile=ca)
        except OSError as error:  # ssl.SSLError, too: no certificate
            reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else (error.strerror or str(error)).lower()
            hint = "Name a file with certificates in PEM."
            raise refuse("C301", f"cannot read {ca}: {reason}", place.span("tls", "ca"), hint) from None
    return WebAccess(shown_url(url), partial(reveal_url, url), None if token is None else token.reveal_token, ca, place.span("url"))
