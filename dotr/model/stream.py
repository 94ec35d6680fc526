"""Values of the stream: elements, instants, facts, firings and dead letters.

Source: semantics.md, sections 1, 3 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from operator import itemgetter
from typing import Final, NamedTuple

from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.terms import Label, Prefixes, Term, Triple, Variable
from dotr.model.time import Micros


class Element(NamedTuple):
    """A time-stamped RDF graph of an input.

    - `time`: in µs since 1970.
    - `triples`: their blank nodes are local, named `_:0`, `_:1`, … in order of appearance.
    """

    time: Micros
    triples: tuple[Triple, ...]


class InputElement(Element):
    """An element that knows its input; `recorded`: the stream that a recording names for it."""

    recorded: str | None = None

    @property
    def input(self) -> str:
        """The name of the input."""
        raise NotImplementedError


class FedGraph(tuple[Triple, ...]):
    """The triples of an element on a stream of continuous queries: a tuple with one more attribute.

    - `stream`: the name of the stream (`StreamName`).
    """

    stream: str

    @classmethod
    def on(cls, stream: str, triples: tuple[Triple, ...]) -> FedGraph:
        """A graph of the triples on a stream.

        >>> graph = FedGraph.on("sensors", (("<a>", "<p>", "<b>"),))
        >>> graph.stream, graph == (("<a>", "<p>", "<b>"),)
        ('sensors', True)
        """
        graph = cls(triples)
        graph.stream = stream
        return graph


class Instant(NamedTuple):
    """The RDF merge of all elements of one time; blank nodes have their final names.

    It may have no triples. `time` is in µs since 1970.
    """

    time: Micros
    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of interest: a solution of a query at one instant, before any temporal constraint."""

    type: Label
    time: Micros
    attributes: Mapping[Variable, Term]


class Firing(NamedTuple):
    """One match of a rule, or one event of another unit, in the form in which sinks write it.

    - `time`: in µs since 1970.
    - `attributes`: (name, term) pairs, sorted by name.
    - `rule`: the name of the rule, or the label of another unit.
    - `graph`: triples of the output graph, without duplicates, in the order of the template; None
      for an event without a graph, which is not the same as an empty graph.
    - `dropped`: number of triples that are not valid RDF and were left out (semantics.md, section
      5).

    An element of an input travels to outputs as a firing without a rule (`of_element`).
    """

    time: Micros
    rule: str
    event: Label
    attributes: tuple[tuple[Variable, Term], ...]
    graph: tuple[Triple, ...] | None
    dropped: int

    @classmethod
    def of_element(cls, time: Micros, name: str, number: int, graph: tuple[Triple, ...]) -> Firing:
        """An element of the input `name`: its one attribute is its number in its instant, from 0 on,
        with zeros in front, so that the elements of an instant are first, in their order
        (`output_order`).

        >>> element = Firing.of_element(12, "sensors", 3, ())
        >>> element.attributes, element.number
        ((('', '000000003'),), 3)
        """
        return cls(time, "", name, (("", f"{number:09}"),), graph, 0)

    @property
    def number(self) -> int:
        """The number of an element of an input in its instant."""
        return int(self.attributes[0][1])


class Reason(Enum):
    """Reason for which an element is a dead letter.

    IDLE: the instant had closed while the input was declared idle. SECOND: another element had the
    same time, in an input where every element is an instant. EMPTY: an RDF message without triples,
    a message without bytes, a blank text, or a statement of the default graph where times are
    inside of named graphs, which is counted and left out, and never written as a dead letter. LOST:
    a broker dropped it unread. GAP: a unit would have acted too often between two instants. AHEAD:
    its time is too long after the timestamp of its message. CHANGED: no element: a file has other
    bytes than when it was opened. CLOCK: the pipeline's clock had passed its time (`clock`).
    """

    LATE = "late"
    UNREADABLE = "unreadable"
    INCONSISTENT = "inconsistent"
    LIMIT = "limit"
    FAILED = "failed"
    IDLE = "idle"
    SECOND = "second"
    EMPTY = "empty"
    LOST = "lost"
    GAP = "gap"
    AHEAD = "ahead"
    CHANGED = "changed"
    CLOCK = "clock"


class DeadLetter(NamedTuple):
    """An element that was rejected.

    - `line`: counted from 1.
    - `time`: in µs since 1970; None where none could be read.
    - `text`: the source text of the element.
    - `why`: a sentence for the user.
    - `encoding`: "base64" where the element is not text: `text` then holds its bytes, encoded.
    """

    reason: Reason
    input: str
    file: str
    line: int
    time: Micros | None
    text: str
    why: str
    encoding: str = ""

    @classmethod
    def of_unit(cls, reason: Reason, name: str, span: Span, time: Micros, why: str, text: str | None = None) -> DeadLetter:
        """The dead letter of a rule or another unit, at a time in µs: its input is the unit, its file
        and line are those of the span. `text`: the event; None: the name of the unit."""
        return cls(reason, f"rule {name}", span.document.name, span.line_column[0], time, name if text is None else text, why)


output_order: Final[Callable[[Firing], tuple[object, ...]]] = itemgetter(0, 1, 3, 2, 4)
"""The sort key of output: time, rule, attributes (interface.md), then event and graph."""


# Names of streams: an IRI without brackets, or a plain name (continuous.md, section 2).


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
    from difflib import get_close_matches  # no command needs it to start

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


@dataclass(frozen=True, slots=True)
class PublishedInputs:
    """The inputs whose elements are part of an output.

    - `names`: their names; empty: there are none.
    - `order`: the names of all inputs, in the order of the configuration.
    """

    names: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()


NO_INPUTS: Final = PublishedInputs()
"""The inputs of a program none of whose outputs has elements."""
