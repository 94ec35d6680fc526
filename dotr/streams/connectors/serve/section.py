"""Section of outputs that are served: a stream published on the Web."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from pydantic import AfterValidator, Field

from dotr.errors.diagnostics import Diagnostic, refuse
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.time import Micros
from dotr.streams.connectors.http.addresses import ListenAddress, listen_address
from dotr.streams.connectors.serve.descriptions.documents import read_document
from dotr.streams.connectors.serve.kept import ELEMENT_ID, Keep
from dotr.streams.times import parse_delay
from dotr.syntax.quantities import parse_size
from dotr.syntax.secrets import Secret
from dotr.syntax.sections import Section, SectionPlace

if TYPE_CHECKING:
    from ssl import SSLContext

RESOURCES: Final = ("sGraph", "sgraph", "elements", "events", "ws", "stream", "ldes", "tbox", "shape")
"""Names behind the path of a stream that are no IDs of elements."""

_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)*/?")
_IRI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]+")
_ORIGIN: Final = re.compile(r"https?://(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


def _checked_by(check: Callable[[str], object]) -> AfterValidator:
    def checked(value: str | int) -> str | int:
        check(value)  # type: ignore[arg-type]  # both accept integers
        return value

    return AfterValidator(checked)


class KeepSection(Section):
    """Limits of the kept elements, of which the least counts, rounded up to whole pages of 250."""

    elements: int | None = Field(default=None, description="the number of the newest elements; 1,000 if keep has no limit")
    time: Annotated[str | int, _checked_by(parse_delay)] | None = Field(
        default=None, description="the length of time before the newest element's time; an integer is in seconds"
    )
    bytes: Annotated[str | int, _checked_by(parse_size)] | None = Field(
        default=None, description="the newest elements of so many bytes as NDJSON, such as 256 MiB"
    )


class ServerTlsSection(Section):
    """Certificate of the server."""

    certificate: str = Field(min_length=1, description="a file in PEM: the server's certificate, then those between it and the root's")
    key: str = Field(min_length=1, description="a file in PEM: the certificate's private key, without a password")


class AboutSection(Section):
    """Description of the stream for its readers."""

    title: str | None = Field(default=None, min_length=1, description="its title; the name of the pipeline if none")
    license: str | None = Field(default=None, min_length=1, description="the IRI of its license")
    tbox: str | None = Field(
        default=None, min_length=1, description="its vocabulary: a file in RDF, which is served at /tbox, or the IRI of one elsewhere"
    )
    shape: str | None = Field(
        default=None, min_length=1, description="its SHACL shape: a file in RDF, which is served at /shape, or the IRI of one elsewhere"
    )


class ServeSection(Section):
    """Stream that is served to readers on the Web."""

    listen: Annotated[str | int, _checked_by(listen_address)] = Field(
        description="HOST:PORT/PATH; a port alone is on loopback, no path is /"
    )
    base: str | None = Field(
        default=None,
        min_length=1,
        description="the IRI of the stream, with / at its end, where it is reached by another name than `listen`",
    )
    keep: KeepSection = Field(default=KeepSection.model_construct(), description="the elements that are kept for readers that come later")
    clients: int = Field(default=200, ge=1, description="the most readers of /events, /ws and /stream together")
    tokens: Secret | None = Field(
        default=None, description="the tokens of readers, separated by commas or spaces, as ${NAME}; one of them is sent as Bearer token"
    )
    open: bool = Field(default=False, description="readers on other machines need no token")
    origins: list[str] = Field(default=[], description="the origins of other web pages that may read it, such as https://map.example")
    tls: ServerTlsSection | None = Field(default=None, description="the certificate of https; http if none")
    linger: Annotated[str | int, _checked_by(parse_delay)] = Field(
        default="0 s", description="the time for which elements are served after the end of all inputs; in seconds"
    )
    about: AboutSection = Field(default=AboutSection.model_construct(), description="what the description of the stream says of it")


class DocumentReference(NamedTuple):
    """A document that describes the stream: the IRI of one elsewhere, or a file; one of the two is
    empty."""

    iri: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """Statements of a configuration for the description of a stream; None where there are none."""

    title: str
    license: str | None = None
    tbox: DocumentReference | None = None
    shape: DocumentReference | None = None


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Files of the certificate of a server, and of its key."""

    certificate: str
    key: str

    def context(self) -> SSLContext:
        """The settings of the server's connections; raises OSError where a file cannot be used."""
        import ssl  # a configuration without it needs none

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key, password=lambda: "")  # a key with a password is none
        return context


@dataclass(frozen=True, slots=True)
class ServeDestination:
    """Address at which an output is served.

    - `listen`: its path has no slash at its end, and is empty for the root.
    - `base`: the IRI of the stream, with a slash at its end.
    - `number`: that of the output, from 0 on.
    - `tokens`: a function that returns the accepted tokens; None: no token is required.
    """

    listen: ListenAddress
    base: str
    number: int
    keep: Keep
    clients: int
    about: About
    tokens: Callable[[], str] | None = field(default=None, compare=False)
    origins: frozenset[str] = frozenset()
    tls: ServerTls | None = None
    linger: Micros = 0
    span: Span | None = None

    def __str__(self) -> str:
        return self.base

    @property
    def path(self) -> str:
        """The path below which the resources are, without percent-encoding."""
        return unquote(self.listen.path)

    @property
    def scheme(self) -> str:
        """The scheme of the server: http or https."""
        return "http" if self.tls is None else "https"


def serve_destination(section: ServeSection, place: SectionPlace, number: int, pipeline: str) -> ServeDestination:
    """The destination of the output `number`, from 0 on, of a pipeline. Raises `Refused` (C204,
    C301) where the section cannot be used."""
    listen = listen_address(section.listen)
    if not _PATH.fullmatch(listen.path):
        hint = "Write it like 127.0.0.1:8080/fire, other characters percent-encoded."
        raise refuse("C204", f"{listen.path} is no path of a URL", place.span("listen"), hint)
    if section.tokens is not None and section.open:
        hint = "Leave one of the two out."
        raise refuse("C204", "open serves readers without a token, and there are tokens", place.key_span("open"), hint)
    if not listen.is_loopback and section.tokens is None and not section.open:
        hint = "Write tokens: ${NAME}; or open: true, where everybody may read, or a proxy decides who may; or listen at 127.0.0.1."
        raise refuse("C204", f"{listen.host} is not loopback: everybody who reaches it could read", place.span("listen"), hint)
    listen = ListenAddress(listen.host, listen.port, listen.path.rstrip("/"))
    for count, origin in enumerate(section.origins):
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            hint = "An origin is a scheme and a host, such as https://map.example or http://localhost:3000."
            raise refuse("C204", f"{origin} is no origin of a web page", place.span("origins", count), hint)
    scheme = "http" if section.tls is None else "https"
    return ServeDestination(
        listen,
        _base(section, place) or f"{scheme}://{listen.authority}{listen.path}/",
        number,
        _keep(section.keep, place),
        section.clients,
        _about(section.about, place, pipeline),
        None if section.tokens is None else section.tokens.reveal,
        frozenset(origin.lower() for origin in section.origins),
        _tls(section.tls, place),
        parse_delay(section.linger),
        place.span("listen"),
    )


def _base(section: ServeSection, place: SectionPlace) -> str | None:
    """The base that is said; raises `Refused` (C204) where names cannot be made of it."""
    base = section.base
    if base is None:
        return None
    hint = "Write the address at which readers find the stream, such as https://data.example/fire/."
    if not _is_http_iri(base):
        raise refuse("C204", f"{base} is no IRI of http or https", place.span("base"), hint)
    if "?" in base or "#" in base:
        raise refuse("C204", "base has a query or a fragment: the names of elements are made by adding to it", place.span("base"), hint)
    if not base.endswith("/"):
        hint = f"Write {base}/."
        raise refuse("C204", "base has no / at its end: the names of elements are made by adding to it", place.span("base"), hint)
    return base


def _is_http_iri(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(
            _IRI.fullmatch(text)
            and text.startswith(("http://", "https://"))
            and _PATH.fullmatch(quote(parts.path, safe="%/!$&'()*+,;=:@"))
            and parts.hostname
            and parts.port != 0
            and "@" not in parts.netloc
        )
    except ValueError:
        return False


def _keep(section: KeepSection, place: SectionPlace) -> Keep:
    if not section.model_fields_set:
        return Keep()
    elements = section.elements
    time = None if section.time is None else parse_delay(section.time)
    size = None if section.bytes is None else parse_size(section.bytes)
    for key, value in (("elements", elements), ("time", time)):
        if value is not None and value < 1:
            hint = "The least is 1 element; all of its page are kept." if key == "elements" else "Write a length such as 1 h."
            raise refuse("C204", f"keep.{key} is below 1", place.span("keep", key), hint)
    return Keep(elements, time, size)


def _about(section: AboutSection, place: SectionPlace, pipeline: str) -> About:
    if section.license is not None and not _IRI.fullmatch(section.license):
        hint = "Write its address, such as https://creativecommons.org/licenses/by/4.0/."
        raise refuse("C204", f"{section.license} is no IRI of a license", place.span("about", "license"), hint)

    def reference(text: str | None, key: str) -> DocumentReference | None:
        if text is None or _IRI.fullmatch(text):
            return None if text is None else DocumentReference(iri=text)
        path = place.path(text, "about", key)
        read_document(path, "https://dotr.invalid/", place.span("about", key))
        return DocumentReference(path=path)

    return About(section.title or pipeline, section.license, reference(section.tbox, "tbox"), reference(section.shape, "shape"))


def _tls(section: ServerTlsSection | None, place: SectionPlace) -> ServerTls | None:
    """The files of the certificate; raises `Refused` (C301) where a server cannot use them."""
    if section is None:
        return None
    import ssl

    tls = ServerTls(place.path(section.certificate, "tls", "certificate"), place.path(section.key, "tls", "key"))
    for path, key in ((tls.certificate, "certificate"), (tls.key, "key")):
        try:
            open(path, "rb").close()
        except OSError as error:
            message = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
            raise refuse("C301", message, place.span("tls", key), "Name a file that is there.") from None
    try:
        tls.context()
    except ssl.SSLError as error:
        hint = "Name files in PEM: the certificate, and its own key without a password."
        reason = (error.reason or "they are not in PEM").lower().replace("_", " ")
        message = f"{tls.certificate} and {tls.key} are no certificate and its key: {reason}"
        raise refuse("C301", message, place.span("tls", "certificate"), hint) from None
    return tls


def serve_problems(destinations: Sequence[ServeDestination]) -> Iterator[Diagnostic]:
    """Problems (C204) of outputs that are served: they have one base; or, at one address, they have
    one path, one path is a resource of another stream, or their certificates differ."""
    for place, later in enumerate(destinations):
        for earlier in destinations[:place]:
            same = later.listen.authority == earlier.listen.authority
            if later.base == earlier.base and not (same and later.path == earlier.path):
                message = f"two outputs have the base {later.base}, so two elements would have one name"
                yield Diagnostic("C204", message, later.span, "Give each a base of its own.")
            if not same:
                continue
            if later.path == earlier.path:
                message = f"two outputs are served at {later.listen.authority}{later.path or '/'}"
                yield Diagnostic("C204", message, later.span, "Give each a path of its own, such as /fire and /smoke.")
            if later.tls != earlier.tls:
                message = f"outputs at {later.listen.authority} have different certificates"
                yield Diagnostic("C204", message, later.span, "Write the same tls in each, or choose another port.")
            for inner, outer in ((later, earlier), (earlier, later)):
                name = inner.path.removeprefix(f"{outer.path}/").partition("/")[0]
                if inner.path.startswith(f"{outer.path}/") and (name in RESOURCES or ELEMENT_ID.fullmatch(name)):
                    message = f"{outer.path}/{name} is a resource of the stream at {outer.path or '/'}"
                    yield Diagnostic("C204", message, inner.span, "Choose another path.")
