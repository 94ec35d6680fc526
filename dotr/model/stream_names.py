"""Names of streams: an IRI without brackets, or a plain name (continuous.md, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dotr.model.terms import Prefixes


@dataclass(frozen=True, slots=True)
class InputStream:
    """An input and the name of the stream that it feeds (None: the input's own name).

    >>> InputStream("sensors").fed, InputStream("sensors", "http://e/temp").fed
    ('sensors', 'http://e/temp')
    """

    name: str
    stream: str | None = None

    @property
    def fed(self) -> str:
        """The name of the stream that the input feeds."""
        return self.name if self.stream is None else self.stream


def stream_name(text: str, prefixes: Prefixes) -> str:
    """The name of the stream that a configuration, a rule test or a session refers to.

    Args:
        text: an IRI, with or without <>, a prefixed name, or a plain name.
        prefixes: prefix to namespace IRI.

    >>> stream_name(":temp", {"": "http://e/"}), stream_name("<http://e/temp>", {}), stream_name("http://e/temp", {})
    ('http://e/temp', 'http://e/temp', 'http://e/temp')
    >>> stream_name("sensors", {}), stream_name("<sensors>", {})
    ('sensors', 'sensors')
    """
    if text.startswith("<") and text.endswith(">"):
        return text[1:-1]
    prefix, colon, local = text.partition(":")
    return prefixes[prefix] + local if colon and prefix in prefixes else text


def fed_stream(text: str, prefixes: Prefixes, inputs: Sequence[InputStream]) -> str | None:
    """The name of the stream that a rule test or a session feeds; None if no input feeds it.

    Args:
        text: a name as `stream_name` takes it, or the name of an input.
        prefixes: prefix to namespace IRI.
        inputs: the declared ones; if there are none, every name is a stream of its own.

    >>> sensors = [InputStream("sensors", "http://e/temp")]
    >>> fed_stream(":temp", {"": "http://e/"}, sensors), fed_stream("sensors", {}, sensors), fed_stream(":hum", {}, sensors)
    ('http://e/temp', 'http://e/temp', None)
    >>> fed_stream("anything", {}, [])
    'anything'
    """
    name = stream_name(text, prefixes)
    known = {**{each.name: each.fed for each in inputs}, **{each.fed: each.fed for each in inputs}}
    return known.get(name) if inputs else name
