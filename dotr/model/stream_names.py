"""Names of streams: an IRI without brackets, or a plain name (continuous.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

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


def misspelt_stream(name: str, read: Iterable[str]) -> str | None:
    """The stream whose name another one is probably meant to be; None if there is none.

    Both are in one namespace, or one is a plain name. Names that differ in digits alone are of
    different streams.

    Args:
        name: the name of a stream that no query reads.
        read: the names of those that queries read.

    >>> misspelt_stream("http://e/tmep", ["http://e/hum", "http://e/temp"]), misspelt_stream("temp", ["http://e/temp"])
    ('http://e/temp', 'http://e/temp')
    >>> [misspelt_stream(name, ["http://e/temp1"]) for name in ("http://e/temp2", "http://e/smoke", "http://x/temp1")]
    [None, None, None]
    """
    namespace, local = _split(name)
    near: dict[str, str] = {}
    for each in read:
        other, word = _split(each)
        if (other == namespace or not other or not namespace) and (word == local or _without_digits(word) != _without_digits(local)):
            near.setdefault(word.lower(), each)
    close = get_close_matches(local.lower(), near, n=1)
    return near[close[0]] if close else None


def _split(name: str) -> tuple[str, str]:
    cut = max(map(name.rfind, "/#:")) + 1
    return name[:cut], name[cut:]


def _without_digits(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())
