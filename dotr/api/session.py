"""Public class `Session`: a run of a program in this process (interface.md, From Python)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from math import isinf, isnan
from numbers import Integral
from types import TracebackType
from typing import Final, Never, SupportsIndex, TypeAlias

from dotr.api.events import EPOCH, MICROSECOND, Event, Events, preformatted, utc
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace, InputProgress, RejectedElement, Replay, ReplayedInstant
from dotr.engine.state.migration import StateFate
from dotr.engine.state.saved_session import NEVER_ADVANCED, SavedSession, session_schema
from dotr.engine.state.schema import StateSchema
from dotr.errors.diagnostics import DotrError, Refused, did_you_mean
from dotr.errors.fallbacks import FallbackKind, drain_fallbacks
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import LIMITS
from dotr.instant.datalog.closure.inconsistencies import NO_INCONSISTENCIES, Inconsistency
from dotr.model import dataclass
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Firing, Reason, fed_stream, misspelt_stream, stream_name
from dotr.model.terms import XSD, Prefixes, Term, Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.streams.formats.writing import ntriples
from dotr.streams.records import ElementMap, Format, InputFile
from dotr.streams.time_formats import check_time_format, check_time_zone
from dotr.syntax.rendering import near_streams, stream_text
from dotr.syntax.turtle.graphs import Misread, read_graph

_LOG: Final = logging.getLogger("dotr")


GivenGraph: TypeAlias = str | Iterable[Iterable[object]]
"""A graph as Turtle text, or as triples of terms."""


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The answer of `Session.why` or `Session.why_not`. `str`, `repr` and notebooks show its text.

    Attributes:
        text: the output of `dotr why` or `dotr why-not`, lines without the last line end.
        data: the same as plain data (dictionaries, lists, texts, numbers): that of `--format json`.

    >>> Answer("Leak: 1 anchor, 0 after Hot", {"fired": False})
    Leak: 1 anchor, 0 after Hot
    """

    text: str
    data: Mapping[str, object]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return preformatted(self.text)


class SessionError(DotrError, ValueError):
    """An invalid call of a session. The session is unchanged by the call."""


class Session:
    """A run of a program in this process: the program and its state, advanced by the caller.

    `Program.session` starts one. The first call of `advance` decides the form of times: integers
    that count the program's unit, or date-times. As a context manager, a session is finished at the
    end of the block; pending events are dropped unless `finish` is called before. A session is not
    thread-safe. Sessions of one program are independent of each other.

    Attributes:
        inconsistencies: the contradictions found in the last instant, each with the name of the
            violated rule (`rule`) and the triples that violate it (`premises`). A program that
            rejects inconsistent instants makes no events of such an instant.

    >>> from dotr.languages.programs import compile_program
    >>> from dotr.engine.spec import ProgramSpec
    >>> from dotr.model.places import Document
    >>> rule = "define B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x"
    >>> program = compile_program(ProgramSpec((Document("b.dotr", rule),), prefixes={"": "http://e/"}))
    >>> with Session(program) as session:
    ...     [event] = session.advance(12, ":x a :A .")
    >>> event.time, event.rule, event.type, event.attributes, event.values
    (12, 'B', 'B', {'x': '<http://e/x>'}, {'x': IRI('http://e/x')})
    >>> with Session(program) as session:
    ...     [event] = session.advance(datetime(2024, 2, 29, 12, 30), ":x a :A .")
    >>> print(event.time)
    2024-02-29 12:30:00+00:00
    """

    def __init__(self, program: CompiledProgram, *, record: bool = False) -> None:
        self._program = program
        self._unit = program.spec.unit
        self._nesting = program.spec.limits.nesting
        self._dated: bool | None = None
        self._engine: Engine | None = None
        self._last: Micros | None = None
        self._schema: StateSchema | None = None
        self._record = SessionRecord() if record else None
        self._is_restored = False
        self._finished = False
        self._warned: set[tuple[FallbackKind, str]] = set()
        self.inconsistencies: Sequence[Inconsistency] = NO_INCONSISTENCIES

    def __reduce__(self) -> Never:
        raise TypeError("a session cannot be pickled: pickle its program, and program.restore(session.save()) goes on in the other process")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finished = True

    def advance(self, time: SupportsIndex | datetime, *graphs: GivenGraph | Mapping[str, GivenGraph], internal: bool = False) -> Events:
        """Process the instant at a time, and return its events.

        Args:
            time: the time of the instant, later than that of every call before. An integer (`int`,
                that of numpy, any `numbers.Integral`) counts the program's unit (seconds by
                default); a `datetime` without a zone is UTC. All calls have the same type, which
                the first call decides.
            graphs: the graphs whose merge is the instant. A graph is Turtle text, in which the
                program's prefixes may be used, or an iterable of triples. The terms of a triple are
                N-Triples texts, or terms of pyoxigraph, rdflib or `dotr.IRI`. Blank nodes are local
                to their graph. A mapping has graphs of named streams for continuous queries:
                `{":temp": graph}`, each name an IRI, with or without <>, or a prefixed name. A
                graph without a name belongs to the only stream that is read. A call without graphs
                only advances the time: timers and delayed anchors fire, and there is no instant. An
                empty graph (`""`) is an instant.
            internal: return internal events too (`define internal`).

        Returns:
            The events in order of time, then rule name, then attributes: those of timers and
            delayed anchors that became due since the last call, and those of the instant. It is a
            `list`; a notebook shows it as a table.

        Raises:
            SessionError: the time is not later than the last one, of another type or out of range;
                a graph cannot be read; a stream's name is nearly that of one which a query reads,
                or no input of the configuration feeds it; or the session is finished. The session
                is unchanged. The error is a `DotrError` and a `ValueError`.

        >>> from dotr import Program
        >>> session = Program.from_config("configs/fire.yaml").session()
        >>> session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
        []
        >>> [fire] = session.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 .", ":s2 :is_at_location :locB .")
        >>> fire.time, fire.type
        (12, 'Fire')
        """
        now, dated = self._micros(time), isinstance(time, datetime)
        self._check_next(now, time)
        try:
            elements = self._elements(graphs)
        except ValueError as error:
            raise SessionError(str(error)) from None
        return self._advanced(now, elements, dated, internal)

    def advance_frame(
        self,
        frame: object,
        *,
        time: str | Sequence[str],
        map: str,
        time_format: str | None = None,
        time_zone: str | None = None,
        stream: str | None = None,
        internal: bool = False,
    ) -> Events:
        """Process the rows of a frame, each a graph, in the order of their times.

        Rows of one time are one instant. The order of the rows has no meaning; all of them are
        later than the last call.

        Args:
            frame: a pandas DataFrame, whose named index is a column, too; or a table or record
                batch of Arrow. None, NaN, NaT and NA are empty cells.
            time: the column of times, integers of the program's unit or date-times; or a template
                of columns such as `"{day} {clock}"`; or several of these, of which the first that a
                row has counts.
            map: the template that makes the graph of a row, as in a configuration, such as
                `":{pump} :bar {bar:decimal} ."`.
            time_format: the form of times that are texts, as in a configuration.
            time_zone: the zone of date-times without one, such as `"Europe/Berlin"`; UTC if none.
            stream: the stream of continuous queries that the graphs belong to.
            internal: return internal events too (`define internal`).

        Returns:
            The events, as those of `advance` for each time.

        Raises:
            SessionError: the map or a row cannot be read, or a time is not later than the last one.
                The session is unchanged.

        >>> import pandas
        >>> from dotr import Program
        >>> rooms = pandas.DataFrame({"t": [12, 10], "what": ["Smoke", "Temp"], "at": ["locB", "locA"], "v": [None, 70]})
        >>> session = Program.from_config("configs/fire.yaml").session()
        >>> made = "[] a :{what} ; :has_val {v} ; :is_from_sensor _:s . _:s :is_at_location :{at} ."
        >>> [(event.time, event.type) for event in session.advance_frame(rooms, time="t", map=made)]
        [(12, 'Fire')]
        """
        from dotr.api.frames import frame_elements

        times = time if isinstance(time, str) else tuple(time)
        mapped = ElementMap(times, Document("map", map), time_format=time_format, time_zone=time_zone)
        prefixes = tuple(self._program.spec.prefixes.items())
        spec = InputFile("frame", "the frame", Format.PARQUET, self._unit, prefixes=prefixes, map=mapped, nesting=self._nesting)
        try:
            if time_format is not None:
                check_time_format(time_format)
            if time_zone is not None:
                check_time_zone(time_zone)
            dated, elements = frame_elements(frame, spec)
            instants = {
                now: self._elements([each.triples if stream is None else {stream: each.triples} for each in rows])
                for now, rows in groupby(elements, lambda element: element.time)
            }
        except (ValueError, Refused) as error:
            raise SessionError(str(error)) from None
        events = Events()
        if instants:
            first = next(iter(instants))
            if self._dated not in (None, dated):
                raise self._of_another_form(f"{time} of the frame")
            self._check_next(first)
        for now, graphs in instants.items():
            events += self._advanced(now, graphs, dated, internal)
        return events

    def _check_next(self, now: Micros, time: object = None) -> None:
        """Raise `SessionError` where the session is finished, or not before a time (µs since 1970),
        which the caller wrote as `time`.
        """
        if self._finished:
            raise SessionError("the session is finished")
        if self._last is not None and now <= self._last:
            written = self._caller_time(now) if time is None else time
            raise SessionError(f"time {written} is not after {self._caller_time(self._last)}, the last one")

    def _advanced(self, now: Micros, elements: Sequence[tuple[Triple, ...]], dated: bool, internal: bool) -> Events:
        """The events up to a time (µs since 1970), later than the last one, at which elements hold."""
        engine = self._start(dated)
        self._last = now
        if self._record is not None:
            self._record.calls.append((now, elements))
        if not elements:
            return self._events(engine, engine.advance(now), internal)
        firings, closed = engine.step(now, elements)
        facts = closed.facts
        self.inconsistencies = facts.inconsistencies
        if facts.exceeded:
            label = self._program.query_label(facts.over)
            where = f"the query {label}" if label else "the closure"
            _LOG.warning("the instant %s is left out, it goes over a limit: %s in %s", self._caller_time(now), facts.exceeded, where)
        for each in closed.rejected:
            if each.reason is Reason.FAILED:
                _LOG.warning("graph %d of the instant %s is left out, it fails: %s", each.element + 1, self._caller_time(now), each.why)
        for streams, reason in facts.failed:
            _LOG.warning("the query of rule %s fails: %s", ", ".join(self._program.readers(streams)), reason)
        return self._events(engine, engine.advance(now) if facts.rejected else [firings], internal)

    def finish(self, *, internal: bool = False) -> Events:
        """End the stream at the time of the last call, and return the events of delayed anchors.

        Args:
            internal: return internal events too (`define internal`).

        Returns:
            The events of the delayed anchors that were not due yet, in order of time. Timers do not
            fire after the last time. A second call returns an empty list.

        >>> from dotr import Program
        >>> session = Program.from_config("configs/fire.yaml").session()
        >>> session.finish()
        []
        """
        if self._finished:
            return Events()
        self._finished = True
        if self._record is not None:
            self._record.finished = True
        return self._events(self._engine, self._engine.finish(), internal) if self._engine is not None else Events()

    def why(self, event: Event, *, depth: int | None = None) -> Answer:
        """Explain an event of this session: a proof tree from its rule down to the graphs of
        `advance` and the background.

        Each call replays the graphs of the session up to the event.

        Args:
            event: an event that `advance` or `finish` returned.
            depth: the number of levels shown below the event, with the members of aggregates; None:
                all levels, with only the number of members.

        Returns:
            The answer; its `text` is the output of `dotr why`.

        Raises:
            SessionError: the session has no record (`Program.session`), or made no such event.

        >>> from dotr import Program
        >>> program = Program.from_config("configs/fire.yaml")
        >>> session = program.session(record=True)
        >>> events = session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
        >>> [fire] = session.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB .")
        >>> "graph 1 of advance(10)" in session.why(fire).text
        True
        """
        from dotr.explanations.why import WhyExplainer

        explainer, time = WhyExplainer(self.replay()), self._moment(event.time)
        if event.rule in self._program.unit_names:
            recorder = explainer.recorder([event.rule])
            for firings in recorder.run(time):
                for firing in firings:
                    found = (firing.unit_name, firing.time, firing.attributes) == (event.rule, time, event.attributes)
                    if found and all(name in event.graph for name in firing.names):
                        tree = explainer.tree(recorder, firing)
                        return Answer("\n".join(tree.lines(depth)), tree.to_json())
        raise SessionError(f"this session made no such event of rule {event.rule} at {event.time}")

    def why_not(
        self, rule: str, *, at: SupportsIndex | datetime | None = None, where: Mapping[str, object] | None = None, every: bool = False
    ) -> Answer:
        """Explain why a rule did not fire: the number of anchors left after each clause, and the
        clause or condition that stopped the anchor that satisfied most of them.

        Each call replays all graphs of the session.

        Args:
            rule: the name of the rule, or the label of another unit's events.
            at: the time of the anchors to explain: an `int` or `datetime` as in `advance`, or any
                `datetime`; None: all times.
            where: attributes of the anchors to explain: a mapping of their names to values that
                must be equal by SPARQL's `=`. A `str` is a term in Turtle (`":lab"`, `'"warm"'`),
                in which the program's prefixes may be used; an `IRI`, number, `bool` or `datetime`
                is converted.
            every: explain every anchor that did not fire, not only the furthest.

        Returns:
            The answer; its `text` is the output of `dotr why-not`.

        Raises:
            SessionError: the session has no record (`Program.session`), or there is no such rule,
                attribute or time.

        >>> from dotr import Program
        >>> program = Program.from_config("configs/fire.yaml")
        >>> session = program.session(record=True)
        >>> events = session.advance(10, ":r1 a :Temp ; :has_val 55 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
        >>> events = session.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB .")
        >>> print(session.why_not("R").text.splitlines()[0])
        R: 1 anchor, 0 after HighTemp
        """
        from dotr.explanations.unit import question_attributes, why_no_event
        from dotr.explanations.why_not.survey import Question

        replay = self.replay()
        names = self._program.unit_names
        if rule not in names:
            raise SessionError(f"there is no rule {rule}. {did_you_mean(rule, names) or 'The program has ' + ', '.join(names) + '.'}")
        moment = None if at is None else self._moment(at)
        label = next((each.anchor.label for each in self._program.rules.rules if each.name == rule), rule)
        terms = self._terms(where or {}, question_attributes(replay, rule), label)
        answer = why_no_event(replay, rule, Question(moment, moment, terms, every))
        return Answer("\n".join(answer.lines()), answer.to_json())

    def replay(self) -> Replay:
        """The recorded graphs of the session as a replay, for functions of `dotr.explanations`.

        Raises:
            SessionError: the session has no record (`Program.session`).
        """
        if self._record is None:
            if self._is_restored:
                raise SessionError("a restored session cannot explain: what it was given before it was saved is not kept")
            raise SessionError("the session keeps no record of what it is given: make it with session(record=True)")
        return self._record.replay(self._program, Clock(self._unit, bool(self._dated), self._program.spec.time_zone))

    def save(self) -> bytes:
        """Save the session as bytes, from which `Program.restore` continues it in any process.

        The bytes hold the state: the retained events, the consumed events, the delayed anchors, and
        the last time. They hold terms and numbers, and no code: unlike a pickle, bytes from an
        untrusted source can be restored safely. `inconsistencies` are not saved. Saving does not
        change the session.

        Returns:
            The saved session, of a size proportional to its state.

        Raises:
            SessionError: the session is finished.

        >>> from dotr import Program
        >>> program = Program.from_config("configs/fire.yaml")
        >>> session = program.session()
        >>> session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
        []
        >>> restored = program.restore(session.save())
        >>> [event.type for event in restored.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB .")]
        ['Fire']
        """
        if self._finished:
            raise SessionError("the session is finished: save it before `finish`, or before its `with` block ends")
        if self._engine is None:
            return NEVER_ADVANCED
        assert self._dated is not None
        assert self._last is not None
        if self._schema is None:
            self._schema = session_schema(self._program)
        states = tuple(self._engine.encode(self._last))
        return SavedSession(self._unit, self._dated, self._last, self._schema, states).encode()

    @classmethod
    def restored(cls, program: CompiledProgram, saved: bytes) -> Session:
        """The session saved as bytes, continued by a program (`Program.restore`)."""
        found = SavedSession.decode(saved)
        if found is None:
            return cls(program)
        continued = found.continued_by(program)
        session = cls(continued.program)
        session._dated, session._last, session._is_restored = found.dated, found.last, True
        session._engine = Engine(continued.program, Clock(program.spec.unit, found.dated, program.spec.time_zone))
        session._engine.restore(continued.states, found.last)
        for verdict in continued.change.verdicts:
            if verdict.fate is not StateFate.KEPT or verdict.why:
                _LOG.log(logging.INFO if verdict.is_new else logging.WARNING, "%s", verdict)
        if continued.knowledge_warning is not None:
            _LOG.warning("%s", continued.knowledge_warning)
        return session

    def _elements(self, graphs: Iterable[GivenGraph | Mapping[str, GivenGraph]]) -> list[tuple[Triple, ...]]:
        """The elements of a call; graphs of named streams are `FedGraph`s. Raises `SessionError` or
        `ValueError`.
        """
        elements: list[tuple[Triple, ...]] = []
        inputs, prefixes = self._program.spec.inputs, self._program.rules.prefixes
        read = sorted(stream.name for stream in self._program.layout.fed_streams)
        for graph in graphs:
            if not isinstance(graph, Mapping):
                if len(read) > 1:
                    raise SessionError(f"a graph without a stream, and queries read several: {{{read[0]!r}: graph}} names one")
                elements.append(self._read(graph))
                continue
            for text, own in graph.items():
                name = fed_stream(text, prefixes, inputs)
                if name is None:
                    known = sorted({name for each in inputs for name in (each.fed, each.name)})
                    raise SessionError(f"there is no stream {text}. {near_streams(stream_name(text, prefixes), known, prefixes)}")
                if name not in read and not inputs and (meant := misspelt_stream(name, read)) is not None:
                    hint = "A stream that no query reads has a name unlike theirs, or an input of a configuration feeds it."
                    raise SessionError(f"there is no stream {text}. Did you mean {stream_text(meant, prefixes)}? {hint}")
                elements.append(FedGraph.on(name, self._read(own)))
        return elements

    def _read(self, graph: GivenGraph) -> tuple[Triple, ...]:
        given: object = graph
        if not isinstance(given, Iterable):
            hint = "A graph is Turtle text, or an iterable of triples; advance(time) alone only lets time pass."
            raise SessionError(f"graphs: {graph!r} is no graph. {hint}")
        return (
            read_graph(graph, self._program.spec.prefixes, self._nesting) if isinstance(graph, str) else read_triples(graph, self._nesting)
        )

    def _micros(self, time: object) -> Micros:
        """The time in µs since 1970; raises `SessionError` if it is invalid in this session."""
        if isinstance(time, datetime):
            if self._dated is False:
                raise self._of_another_form(repr(time))
            return _datetime_micros(time)
        if type(time) is not int and (isinstance(time, bool) or not isinstance(time, Integral)):
            raise SessionError(f"{time!r} is no time: it is an integer that counts the program's unit, or a datetime")
        if self._dated:
            raise self._of_another_form(repr(time))
        now: Micros = int(time) * self._unit.value
        if not -LAST_MICRO < now < LAST_MICRO:
            raise SessionError(f"{time} is no time: it is out of range; is the program's unit right?")
        return now

    def _of_another_form(self, told: str) -> SessionError:
        """The error of a time of another form than the session's, for the caller to raise."""
        kinds = ("a datetime", "an integer") if self._dated else ("an integer", "a datetime")
        return SessionError(f"{told} is no time of this session: its first one was {kinds[0]}, and this one is {kinds[1]}")

    def _moment(self, time: SupportsIndex | datetime) -> Micros:
        """The time of a question in µs since 1970; a date-time is valid in any session."""
        return _datetime_micros(time) if isinstance(time, datetime) else self._micros(time)

    def _terms(self, where: Mapping[str, object], attributes: Sequence[str], label: str) -> tuple[tuple[str, str], ...]:
        """The attributes of a question with their terms."""
        found = []
        for name, value in where.items():
            if name not in attributes:
                known = f"It has {', '.join(attributes)}." if attributes else "It has none."
                raise SessionError(f"{label} has no attribute {name}. {did_you_mean(name, attributes) or known}")
            try:
                found.append((name, term_of(value, self._program.rules.prefixes)))
            except ValueError as error:
                raise SessionError(str(error)) from None
        return tuple(found)

    def _start(self, dated: bool) -> Engine:
        """The engine, created by the first call; `dated`: the times of the session are
        date-times."""
        if self._engine is None:
            self._dated = dated
            self._engine = Engine(self._program, Clock(self._unit, dated, self._program.spec.time_zone))
        return self._engine

    def _caller_time(self, micros: Micros) -> int | datetime:
        """A time in the session's form; a date-time if it is no whole number of units."""
        if not self._dated and not micros % self._unit.value:
            return micros // self._unit.value
        try:
            return utc(micros)
        except OverflowError:
            raise SessionError("an event is outside the years 1 to 9999, which no datetime can hold") from None

    def _events(self, engine: Engine, moments: Iterable[Sequence[Firing]], internal: bool) -> Events:
        prefixes = self._program.rules.prefixes
        hidden = frozenset() if internal else self._program.internal
        events = Events(
            Event(self._caller_time(each.time), each.rule, each.event, dict(each.attributes), ntriples(each.graph), prefixes)
            for firings in moments
            for each in firings
            if each.event not in hidden
        )
        for dead_letter in engine.failed:
            _LOG.warning("%s:%d: %s", dead_letter.file, dead_letter.line, dead_letter.why)
        engine.failed.clear()
        for fallback in drain_fallbacks():
            if (fallback.kind, fallback.place) not in self._warned:
                self._warned.add((fallback.kind, fallback.place))
                _LOG.warning("%s", fallback)
        return events


def term_of(value: object, prefixes: Prefixes) -> Term:
    """The RDF term of a Python value; raises `ValueError` if there is none.

    A `str` is parsed as a term in Turtle with the prefixes, unless it is an `IRI`. A `bool`, number
    or `datetime` is a literal. Terms of pyoxigraph and rdflib are converted.

    >>> from dotr import IRI
    >>> term_of(IRI("http://e/lab"), {}), term_of(":lab", {"": "http://e/"})
    ('<http://e/lab>', '<http://e/lab>')
    >>> [term_of(value, {}).partition("^^")[0] for value in (True, 7, Decimal("1.50"), 2.5, float("-inf"), '"warm"@en')]
    ['"true"', '"7"', '"1.50"', '"2.5"', '"-INF"', '"warm"@en']
    >>> term_of("lab", {})
    Traceback (most recent call last):
    ValueError: 'lab' is no term in Turtle: write :name, or '"lab"' for a text
    """
    match value:
        case bool():
            return f'"{str(value).lower()}"^^<{XSD}boolean>'
        case int():
            return f'"{value}"^^<{XSD}integer>'
        case Decimal():
            return f'"{value:f}"^^<{XSD}decimal>'
        case float():
            text = "NaN" if isnan(value) else f"{'-' if value < 0 else ''}INF" if isinf(value) else repr(value)
            return f'"{text}"^^<{XSD}double>'
        case datetime():
            return f'"{value.isoformat()}"^^<{XSD}dateTime>'
        case _:
            return _parsed(value, prefixes)


def _parsed(value: object, prefixes: Prefixes) -> Term:
    text = _written(value)
    try:
        triples = read_graph(f"<urn:x> <urn:x> {text}\n.", prefixes, LIMITS.nesting)
    except (Misread, ValueError):
        triples = ()
    if len(triples) != 1 or triples[0][:2] != ("<urn:x>", "<urn:x>"):
        raise ValueError(f"{text!r} is no term in Turtle: write :name, or '\"{text}\"' for a text")
    return triples[0][2]


def _datetime_micros(time: datetime) -> Micros:
    """The time in µs since 1970; raises `SessionError` outside the years 1 to 9999."""
    try:
        return int(((time.replace(tzinfo=UTC) if time.utcoffset() is None else time.astimezone(UTC)) - EPOCH) // MICROSECOND)
    except (OverflowError, ValueError):
        raise SessionError(f"{time} is no time: in UTC it is outside the years 1 to 9999") from None


def read_triples(triples: Iterable[Iterable[object]], nesting: int = LIMITS.nesting) -> tuple[Triple, ...]:
    """A graph given as triples of terms, with terms and blank nodes in canonical form.

    `nesting`: the greatest depth of nested triple terms. Raises `ValueError` with the reason.

    >>> read_triples([("_:x", "<http://e/p>", '"1"^^<http://www.w3.org/2001/XMLSchema#string>')])
    (('_:0', '<http://e/p>', '"1"'),)
    >>> read_triples([("http://e/x", "<http://e/p>", "_:y")])
    Traceback (most recent call last):
    ValueError: http://e/x <http://e/p> _:y . is no triple in N-Triples: the prefix http: has not been declared
    """
    given = list(triples)
    for triple in given:
        if not isinstance(triple, Iterable):
            raise ValueError(f"{triple!r} is no triple: it has a subject, a predicate and an object")
    lines = [" ".join(map(_written, triple)) + " ." for triple in given]
    try:
        return read_graph("\n".join(lines), {}, nesting)
    except ValueError:
        for line in lines:
            try:
                read_graph(line, {}, nesting)
            except ValueError as error:
                why = error.why if isinstance(error, Misread) else error
                raise ValueError(f"{line} is no triple in N-Triples: {why}") from None
        raise


def _written(term: object) -> str:
    """The N-Triples text of a term. Terms of rdflib have it as `n3()`."""
    n3 = getattr(term, "n3", None)
    return str(n3() if callable(n3) else term)


# Record of the calls of a session in Python, for a replay.
#
# Memory: the graphs of all calls, from the first one on.


@dataclass(slots=True)
class SessionRecord:
    """The calls of a session so far.

    - `calls`: the time (µs since 1970) and the graphs of each `advance`; no graphs if only time
      advanced.
    - `finished`: True after `finish`.
    """

    calls: list[tuple[Micros, Sequence[tuple[Triple, ...]]]] = field(default_factory=list)
    finished: bool = False

    def replay(self, program: CompiledProgram, clock: Clock) -> Replay:
        """The replay of the calls so far; later calls do not change it.

        The place of a graph is its number in its call.

        >>> from dotr.languages.programs import compile_program
        >>> from dotr.engine.spec import ProgramSpec
        >>> record = SessionRecord([(12_000_000, [()]), (20_000_000, [])])
        >>> replay = record.replay(compile_program(ProgramSpec()), Clock())
        >>> [(instant.time, [str(place) for place in instant.places]) for instant in replay.instants()]
        [(12000000, ['graph 1 of advance(12)']), (20000000, [])]
        >>> replay.ended
        False
        """
        calls, finished = list(self.calls), self.finished

        def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
            for time, graphs in calls:
                call = f"advance({format_time(time, clock)})"
                yield ReplayedInstant(time, graphs, [ElementPlace(f"graph {number} of {call}", 0) for number in range(1, len(graphs) + 1)])

        def progress() -> Sequence[InputProgress]:
            return () if finished else (InputProgress("", calls[-1][0] - 1 if calls else None, ended=False),)

        return Replay("", program, clock, program.rules.prefixes, read, progress)
