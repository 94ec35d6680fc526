"""HTTP outputs of a configuration: addresses that batches are posted to."""

from __future__ import annotations

import ssl
from functools import partial
from urllib.parse import urlsplit

from dotr.errors.diagnostics import refuse
from dotr.runtimes.pipeline.reading import Config
from dotr.streams.connectors.http.addresses import shown_url
from dotr.streams.sinks.destinations import HttpDestination
from dotr.syntax.secrets import reveal_url


def http_destination(config: Config, number: int) -> HttpDestination:
    """The destination of an HTTP output; raises `Refused` (C204, C301) where it cannot be used."""
    http = config.settings.output[number].http
    assert http is not None
    at = ("output", number, "http")
    parts = urlsplit(http.url)
    if http.token is not None and parts.username is not None:
        place = config.files.tree.key_span((*at, "token"))
        raise refuse("C204", "the URL has a user, and there is a token", place, "Leave one of the two out.")
    ca = ""
    if http.tls.ca is not None:
        if parts.scheme != "https":
            place = config.files.tree.key_span((*at, "tls"))
            raise refuse("C204", "tls is of https", place, "Write https:// in the URL, or leave it out.")
        ca = config.files.path(http.tls.ca, (*at, "tls", "ca"))
        try:
            ssl.create_default_context(cafile=ca)
        except OSError as error:  # ssl.SSLError, too: no certificate
            reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else (error.strerror or str(error)).lower()
            hint = "Name a file with certificates in PEM."
            raise refuse("C301", f"cannot read {ca}: {reason}", config.span(*at, "tls", "ca"), hint) from None
    token = None if http.token is None else http.token.reveal_token
    return HttpDestination(shown_url(http.url), number, partial(reveal_url, http.url), token, ca, config.span(*at, "url"))
