"""Addresses of HTTP: of servers for inputs, and URLs that batches are posted to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import field
from typing import Final

from dotr.model import dataclass
from dotr.model.places import Span

_LISTEN: Final = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.%\w]+\]|[\w.-]+):)?(?P<port>[0-9]{1,5})(?P<path>/[^\s?#]*)?", re.ASCII)
_HOST: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.%\w]+\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = "127.0.0.1"
_LAST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address that a server listens on; `path` begins with a slash."""

    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """HOST:PORT, as a header Host has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"http://{self.authority}{self.path}"

    @property
    def is_loopback(self) -> bool:
        """True if only processes of this machine can connect.

        >>> [listen_address(text).is_loopback for text in ("localhost:80", "[::1]:80", "127.0.0.2:80", "0.0.0.0:80", "sensors.example:80")]
        [True, True, True, False, False]
        """
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def is_host(self, host: str, scheme: str = "http") -> bool:
        """True if a header Host names this address: as it is written; another name of loopback where it
        is on loopback; any IP address or this machine's name where it is no single IP address. A
        page that has a name of its own resolved to this address (DNS rebinding) sends that name.

        >>> local, every = listen_address(8081), listen_address("0.0.0.0:80")
        >>> [local.is_host(text) for text in ("127.0.0.1:8081", "LocalHost:8081", "[::1]:8081", "localhost", "e.example:8081", "")]
        [True, True, True, False, False, False]
        >>> [every.is_host(text) for text in ("10.0.0.7", "10.0.0.7:80", "[fe80::1]", "e.example", "10.0.0.7:81", "10.0.0.7:")]
        [True, True, True, False, False, False]
        """
        found = _HOST.fullmatch(host)
        if found is None or int(found["port"] or _PORTS[scheme]) != self.port:
            return False
        name = found["host"].strip("[]").lower()
        if name == self.host.lower():
            return True
        if self.is_loopback:
            return ListenAddress(name, self.port, self.path).is_loopback
        if _is_address(self.host) and not ipaddress.ip_address(self.host).is_unspecified:
            return False
        return name in ("localhost", socket.gethostname().lower()) or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def listen_address(text: str | int) -> ListenAddress:
    """The address HOST:PORT/PATH; a port alone is on loopback. Raises ValueError.

    >>> str(listen_address(8081)), str(listen_address("0.0.0.0:8081/in")), str(listen_address("[::1]:8081"))
    ('http://127.0.0.1:8081/', 'http://0.0.0.0:8081/in', 'http://[::1]:8081/')
    """
    found = _LISTEN.fullmatch(str(text))
    if found is None or not 0 < int(found["port"]) <= _LAST_PORT:
        raise ValueError(f"{text} is no address to listen at: write it like 127.0.0.1:8081/in")
    return ListenAddress((found["host"] or _LOOPBACK).strip("[]"), int(found["port"]), found["path"] or "/")


@dataclass(frozen=True, slots=True)
class HttpDestination:
    """URL that batches are posted to.

    - `shown`: the URL without user, password and query.
    - `number`: the number of the output, from 0 on.
    - `url`, `token`: functions that return the URL with its password, and the token (None: there is
      none), so that no secret is stored.
    - `ca`: a file with the certificates of the trusted authorities; empty: the system's.
    """

    shown: str
    number: int
    url: Callable[[], str] = field(compare=False)
    token: Callable[[], str] | None = field(default=None, compare=False)
    ca: str = ""
    span: Span | None = None

    def __str__(self) -> str:
        return self.shown
