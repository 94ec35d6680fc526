"""Settings of an input by which its messages become elements: maps, times, contexts; and the
settings that exclude each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pyoxigraph import NamedNode

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.evaluation.files.stores import Location
from dotr.model.terms import WELL_KNOWN, Prefixes
from dotr.model.time import Micros
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.sections import InputSection
from dotr.runtimes.pipeline.tables import MAPPED, row_conflicts, rows_map
from dotr.streams.formats.lines import STANDARD_INPUT
from dotr.streams.formats.mapping.maps import ITEM, NUMBER, VALUE, is_origin, time_cells
from dotr.streams.records import SENT_TIMES, WIDE, ElementMap, GraphSettings, SentTime, Times
from dotr.syntax.turtle.graphs import parser_message

_CELLS: Final[Mapping[str, tuple[str, str, str]]] = {
    **dict.fromkeys(("csv", "parquet"), ("COLUMN", "column", "a row")),
    "json": ("PATH", "member", "an object"),
    "text": (VALUE, "text", "a text"),
}
"""A cell of each format with a map, what the cell is, and what a record is."""

_SLASH: Final = re.compile(r"/(?![^<]*>)")
"""A slash outside of `<…>`."""

_SENT_TIMES: Final[Mapping[SentTime, tuple[str, ...]]] = {
    SentTime.TIMESTAMP: ("kafka",),
    SentTime.RECEIVED: ("mqtt", "http", "sse", "websocket", "ldes"),
}
"""The transports that give a time."""

_UTF_8: Final = ("sse", "websocket")
"""The transports of text, which is UTF-8."""


def element_map(config: Config, section: InputSection, number: int) -> ElementMap | None:
    """The map of a CSV, JSON or Parquet input; None for other formats. Raises `Refused` where keys are
    missing, or belong to another format.
    """
    place = config.span("input", number)
    if problems := list(_misplaced_keys(config, section, number)):
        raise Refused(problems)
    if section.format not in MAPPED:
        return None
    if section.time is None or section.map is None:
        cell, noun, unit = _CELLS[section.format]
        needed = {
            "time": f"time: {cell} names the {noun} that holds the time.",
            "map": f'map: "[] a :Report ; :speed {{{cell}}} ." makes {unit} a graph.',
        }
        missing = [key for key in needed if getattr(section, key) is None]
        raise Refused(Diagnostic("C202", f"a {section.format} input needs {key}", place, needed[key]) for key in missing)
    times = [section.time] if isinstance(section.time, str) else section.time
    if problems := list(_time_problems(config, times, number)):
        raise Refused(problems)
    mapped = rows_map(
        section,
        f"map of input {section.name}",
        times[0] if len(times) == 1 else tuple(times),
        config.files.folder,
        config.settings.time_zone,
    )
    return replace(mapped, lines=section.path == STANDARD_INPUT)


def _is_cell(form: str, time: str) -> bool:
    """True if a time that begins with `$` is a cell that records of a format may have."""
    if form == "csv" and time[1:].isdecimal():
        return True
    return (form == "text" and time == VALUE) or (form in ("csv", "json", "text") and is_origin(time) and time not in (NUMBER, ITEM))


def _misplaced_keys(config: Config, section: InputSection, number: int) -> Iterator[Diagnostic]:
    """Keys of another format, and times that a transport does not give (C204)."""
    problem = partial(_misfit, config, number)
    times = [section.time or ""] if section.time is None or isinstance(section.time, str) else section.time
    transport = config.transport("input", number)
    sent = None
    for time in times:
        sent = SENT_TIMES.get(time)
        if sent is not None and transport not in _SENT_TIMES[sent]:
            whose = (
                "Kafka gives a message"
                if sent is SentTime.TIMESTAMP
                else f"what is copied when it arrives ({', '.join(_SENT_TIMES[sent])}) has"
            )
            message = f"{time} is the time that {whose}, and this input is by {transport}"
            yield problem("time", message, "Name the time in the element itself.")
        elif sent is None and time.startswith("$") and not _is_cell(section.format, time):
            names = list(SENT_TIMES)
            yield problem(
                "time", f"a message has no {time}", did_you_mean(time, names) or f"Times of a transport are {' and '.join(names)}."
            )
    if not (section.time is None or isinstance(section.time, str) or section.format in MAPPED):
        yield problem("time", f"a list of times belongs to csv, json, text and parquet, not to {section.format}", "Name one.")
    if sent is not None and section.is_given("times"):
        yield problem("times", f"times chooses among times in the message, and {time} is beside it", "Leave times out.")
    refused_encodings = (*WIDE,) if transport not in _UTF_8 else (section.encoding,) if section.encoding != "utf-8" else ()
    for key in ("skip", "comment", "encoding"):
        if section.is_given(key) and transport != "path" and (key != "encoding" or section.encoding in refused_encodings):
            yield problem(
                key, f"{key} is of lines of a file, and this input is by {transport}", "Leave it out: a message is data from its start."
            )
    if section.format == "parquet" and (transport != "path" or section.path == STANDARD_INPUT):
        read = "standard input" if transport == "path" else f"messages by {transport}"
        yield problem("format", f"Parquet is read from its end, and {read} can only be read on", "Write it to a file, and name its path.")
    if section.format == "jelly" and transport == "sse":
        yield problem("format", "an event is text, and a frame of Jelly is bytes", "Read it from a WebSocket, or in another format.")
    yield from (problem(key, *told) for key, *told in row_conflicts(section) if key != "time" or not sent)


def _misfit(config: Config, number: int, key: str, message: str, hint: str) -> Diagnostic:
    """The problem of a key of the input `number` that does not fit the others."""
    return Diagnostic("C204", message, config.files.tree.key_span(("input", number, key)), hint)


def grows(section: InputSection) -> bool:
    """True if records of an input may come after a run has begun."""
    if section.kafka is not None:
        return section.kafka.endingOffsets is None
    return section.watch or section.goes_on or section.path == STANDARD_INPUT or section.received is not None


def setting_conflicts(config: Config, section: InputSection, number: int, delay: Micros) -> Iterator[Diagnostic]:
    """Problems (C204) of settings that exclude each other in one input; `delay`: its lateness, in µs."""
    problem = partial(_misfit, config, number)
    watches = section.is_given("watch") or section.tail  # also true for `watch: false`, set for one run
    receives = section.received is not None
    if section.one_per_instant and delay:
        yield problem(
            "one_per_instant",
            "an input whose elements are set apart has no lateness"
            if section.one_per_instant == "apart"
            else "an input whose every element is an instant has no lateness",
            "Leave one of the two out: to be put in order, elements have to wait for each other.",
        )
    if section.settle is not None and not watches:
        yield problem("settle", "settle says when a file of a watched folder is complete", "Write watch: true, or leave it out.")
    if section.idle is not None and not watches and not grows(section):
        yield problem("idle", "an input that is there in full is never idle", "Leave it out, or write watch: true.")
    if section.watch and not section.path:
        yield problem("watch", "watch is of files", "Leave watch out.")
    if section.ahead is not None and not receives and section.kafka is None:
        hint = "Leave it out: a line of a file has no timestamp beside its own time. Messages of brokers and servers have one."
        yield problem("ahead", "ahead is counted from the timestamp of a message, and this input has none", hint)
    if section.is_given("spool") and not receives:
        yield problem("spool", "spool is the size of the copy of what is received", "Leave it out: what can be read again is not copied.")
    if section.watch and section.path == STANDARD_INPUT:
        yield problem("watch", "standard input is no folder to watch", "Leave watch out.")
    if section.replay is not None:
        yield from (problem("replay", message, hint) for message, hint in _replay_misfits(section))
    if section.tail:
        yield from (problem("tail", message, hint) for message, hint in _tail_conflicts(section))


def _replay_misfits(section: InputSection) -> Iterator[tuple[str, str]]:
    """Messages and hints of what excludes `replay` in an input."""
    if grows(section) or not section.path:
        told = "goes on" if grows(section) else "is none"
        yield f"replay is of files that are there in full, and this input {told}", "Leave replay out; or name a recording of it as path."
    elif section.pace is None:
        yield "replay goes with the clock, and this input has no pace", "Write pace: 1 beside it, or pace: 60 for an hour a minute."


_TAILED_FORMATS: Final = ("csv", "json", "ndjson", "text")


def _tail_conflicts(section: InputSection) -> Iterator[tuple[str, str]]:
    """Messages and hints of what excludes `tail` in an input."""
    if not section.path:
        yield "tail is of files", "Leave tail out: what a broker or server sends goes on by itself."
    elif Location.of(section.path).is_url:
        yield (
            "tail is of files that are appended to, and what is at a URL is written as a whole",
            "Name new files as they come: watch: true, and a glob as path.",
        )
    elif section.path == STANDARD_INPUT:
        yield "tail is of files, and standard input goes on by itself", "Leave tail out."
    elif section.path.endswith(".gz"):
        yield (
            f"tail is of files that are appended to, and {section.path} is compressed",
            "Leave tail out; or name the file before it is compressed.",
        )
    if section.encoding in WIDE:
        yield f"tail reads lines of bytes, and {section.encoding} is recoded from its start", "Leave tail out, or recode the data."
    if f"{{{NUMBER}}}" in (section.map or ""):
        yield (
            f"{{{NUMBER}}} is the number of a record in its whole file, and a file that goes on is read from where it was",
            "Leave one out.",
        )
    if section.format not in _TAILED_FORMATS:
        yield (
            f"tail reads a record a line, and a record of {section.format} has no line end of its own",
            f"Write one of {', '.join(_TAILED_FORMATS)}; or leave tail out.",
        )


def _time_problems(config: Config, times: Sequence[str], number: int) -> Iterator[Diagnostic]:
    """Times of a CSV or JSON input that are no text of cells (C203)."""
    for time in times:
        try:
            time_cells(time)
        except ValueError as error:
            hint = 'A time is a cell (time: Date), a template (time: "{Date} {Time}"), or a list of these.'
            yield Diagnostic("C203", f"time: {error}", config.span("input", number, "time"), hint)


def graph_settings(config: Config, section: InputSection, number: int) -> GraphSettings:
    """The settings of an input whose messages are RDF; raises `Refused` where a predicate or a
    context cannot be used.
    """
    time = section.time if isinstance(section.time, str) else ""
    if section.format in MAPPED or (section.format == "ndjson" and not time.startswith("$")):
        return GraphSettings()
    problems: list[Diagnostic] = []
    nesting = config.settings.limits.nesting
    if time and not time.startswith("$"):
        try:
            time = path_of(time, config.settings.prefixes)
        except ValueError as error:
            hint = "Write names whose prefixes are declared under `prefixes`, or whole IRIs: time: <http://…>, time: ex:a/^ex:b."
            problems.append(Diagnostic("C203", f"time names no predicate: {error}", config.span("input", number, "time"), hint))
    if section.base is not None:
        try:
            NamedNode(section.base)
        except ValueError as error:
            hint = "Write a whole IRI, such as http://example.org/plant/."
            problems.append(Diagnostic("C203", f"base is no IRI: {parser_message(error)}", config.span("input", number, "base"), hint))
    contexts = config.files.contexts(section.contexts or {}, ("input", number, "contexts"), problems, nesting)
    given = {"context": section.context} if section.context else {}
    context = config.files.contexts(given, ("input", number), problems, nesting)
    if problems:
        raise Refused(problems)
    return GraphSettings(time, contexts, context[0][1] if context else "", section.base or "", Times(section.times))


def path_of(text: str, prefixes: Prefixes) -> str:
    """The path that `time` names, its predicates as terms; raises ValueError.

    >>> path_of("as:published", {"as": "https://www.w3.org/ns/activitystreams#"}), path_of("urn:at/0", {})
    ('<https://www.w3.org/ns/activitystreams#published>', '<urn:at/0>')
    >>> path_of("^prov:used / <http://e/at>", {})
    '^<http://www.w3.org/ns/prov#used>/<http://e/at>'
    >>> path_of("prov:used/at", {})
    Traceback (most recent call last):
    ValueError: prov:used/at is no path: write prov:used/prov:at, or for one predicate <http://www.w3.org/ns/prov#used/at>
    >>> path_of("as:published", {})
    Traceback (most recent call last):
    ValueError: the prefix as: has not been declared
    """
    known = {**WELL_KNOWN, **prefixes}
    first, colon, rest = text.partition(":")
    if first[:1].isalpha() and first not in known and (rest.startswith("//") or first == "urn"):
        return str(NamedNode(text))
    parts = [part.strip() for part in _SLASH.split(text)]
    path = []
    for part in parts:
        inverse, written = part[: part.startswith("^")], part.removeprefix("^").lstrip()
        prefix, colon, name = written.partition(":")
        if written.startswith("<") and written.endswith(">"):
            path.append(inverse + str(NamedNode(written[1:-1])))
        elif colon and prefix in known and not name.endswith(("+", "*", "?")):
            path.append(inverse + str(NamedNode(known[prefix] + name)))
        elif colon:
            raise ValueError(
                f"{written} is no part of a path of / and ^" if prefix in known else f"the prefix {prefix}: has not been declared"
            )
        elif first in known and len(parts) > 1:
            whole = "/".join(each if ":" in each else f"{first}:{each}" for each in parts if each)
            raise ValueError(f"{text} is no path: write {whole}, or for one predicate <{known[first]}{rest}>")
        else:
            raise ValueError(f"{text} is no name with a prefix")
    if path[-1].startswith("^"):
        raise ValueError(f"{text} ends at a subject, which is no time")
    return "/".join(path)
