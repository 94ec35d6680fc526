"""Public class `Program`, compiled from files or from a pipeline's configuration
(docs/python.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import lru_cache
from operator import index
from typing import Final, Self, SupportsIndex, TypeAlias, TypeVar

from dotr.api.events import paragraph, table
from dotr.api.session import Session
from dotr.engine.program import CompiledProgram as CompiledProgram
from dotr.engine.spec import Inconsistent, ProgramSpec
from dotr.errors.diagnostics import ArgumentRefused, Diagnostic, Refused, did_you_mean
from dotr.evaluation.files.stores import Location
from dotr.evaluation.limits import LIMITS, Limits
from dotr.instant.datalog.background.sources import Reading
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.languages.registry import RuleLanguage, extension_problem
from dotr.model.places import Document
from dotr.model.time import UNITS, Micros, Unit
from dotr.runtimes.pipeline.config import ConfigFiles, read_config, read_document
from dotr.runtimes.pipeline.sections import KnowledgeSection, validated
from dotr.streams.times import parse_time
from dotr.syntax.sections import Section
from dotr.syntax.yaml import read_tree
from dotr.temporal.layout.retention import roles

OnePath: TypeAlias = str | os.PathLike[str]
SomePaths: TypeAlias = OnePath | Iterable[OnePath]
SomeTexts: TypeAlias = str | Iterable[str] | Mapping[str, str]

_E = TypeVar("_E", bound=Enum)
_ProblemOf: TypeAlias = Callable[[str], Diagnostic | None]

_ENTAILMENTS: Final = {each.value: each for each in Entailment}
_LANGUAGES: Final = {each.value[1:]: each for each in RuleLanguage}
_INCONSISTENT: Final = {each.value: each for each in Inconsistent}
_NAMES_WIDTH: Final = 28
"""Approximate number of characters that `repr` spends on a list of names."""


class Program(CompiledProgram):
    """A compiled program: rules, their queries and background knowledge.

    `Program.load` and `Program.from_config` compile a program; `Program.session` starts a run of
    it. A program is immutable and may have any number of sessions. It can be pickled: the other
    process needs none of its files.

    Attributes:
        warnings: problems of the files that do not prevent a run, as `dotr check` prints them.

    >>> import dotr
    >>> program = dotr.Program.load(
    ...     rules="rules/fire.dotr",
    ...     graphs="kb/building.ttl",
    ...     datalog="kb/building.dlog",
    ...     prefixes={"": "http://example.org/building#"},
    ... )
    >>> program
    <dotr.Program: rules R, which define Fire;
     times in s; background of 1 RDF file and 1 Datalog file, entailment none>
    >>> with program.session() as session:
    ...     heat = session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
    ...     fire = session.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB .")
    >>> heat, [(event.time, event.type, event.values) for event in fire]
    ([], [(12, 'Fire', {'room': IRI('http://example.org/building#roomA')})])
    """

    @classmethod
    def load(
        cls,
        rules: SomePaths | None = None,
        graphs: SomePaths = (),
        datalog: SomePaths = (),
        *,
        text: SomeTexts | None = None,
        language: str = "dotr",
        tables: Iterable[Mapping[str, object]] = (),
        imports: Mapping[str, OnePath] | None = None,
        entailment: str | Entailment = Entailment.NONE,
        axiomatic: bool = False,
        prefixes: Mapping[str, str] | None = None,
        unit: str | Unit | None = None,
        inconsistent: str | Inconsistent = Inconsistent.REPORT,
        limits: Limits = LIMITS,
        origin: SupportsIndex | str = 0,
    ) -> Self:
        """Compile a program from files, or from texts.

        Args:
            rules: paths of rule files (`.dotr`, `.rspql`, `.lars`, `.epsparql`), or one path
                (`str` or `os.PathLike`). Relative paths are relative to the working directory.
            graphs: paths of RDF files of background knowledge, in any RDF format, optionally
                compressed (`.gz`); or one path.
            datalog: paths of Datalog files (`.dlog`), or one path.
            text: the text of rules or queries, in place of files or beside them; or several; or a
                mapping of names of files, whose endings tell their languages, to texts.
            language: the language of texts without a name: `"dotr"`, `"rspql"`, `"lars"` or
                `"epsparql"`.
            tables: tables whose rows are triples of the background, each a mapping with the keys
                of `knowledge.tables` in a configuration: `path`, `format`, `map` and others.
            imports: a mapping of the IRIs of ontologies that graphs import to paths of RDF files.
            entailment: `"none"`, `"rdfs"` or `"owl2rl"`, or the member of `Entailment`.
            axiomatic: also derive the axiomatic and reflexive triples of the entailment.
            prefixes: a mapping of prefixes without colon to namespace IRIs, for graphs given as
                text and for files that declare no prefixes.
            unit: unit of integer times: `"us"`, `"ms"`, `"s"`, `"min"`, `"h"` or `"d"`, or the
                member of `Unit`; None: seconds, and no warning supposes that times are integers.
            inconsistent: `"report"`, or `"reject"`: an instant that contradicts itself or the
                background makes no events.
            limits: bounds on the work of one instant (`dotr.Limits`).
            origin: a time at which windows of continuous queries close, from which their slides are
                counted: an integer that counts `unit`, or a date-time in ISO 8601 (`str`).

        Returns:
            The compiled program.

        Raises:
            Refused: a file cannot be read or has errors; the message has all problems of all files.
            ArgumentRefused: an argument has an unknown value; a `Refused` and a `ValueError`. Both
                are `DotrError`s.

        >>> import dotr
        >>> program = dotr.Program.load("rules/fire.dotr", graphs=["kb/building.ttl"], datalog="kb/building.dlog", unit="min")
        >>> [rule.name for rule in program.rules.rules]
        ['R']
        >>> hot = 'PREFIX : <http://e/> rule R "" define Hot = [ [] a :Hot ] from T = [ SELECT ?v WHERE { ?r :v ?v FILTER(?v > 60) } ]'
        >>> [event.type for event in dotr.Program.load(text=hot, prefixes={"": "http://e/"}).session().advance(1, ":r :v 70 .")]
        ['Hot']
        >>> dotr.Program.load("rules/fire.dotr", unit="parsec")
        Traceback (most recent call last):
        dotr.errors.diagnostics.ArgumentRefused: C203 unit should be us, ms, s, min, h or d, not 'parsec'
        """
        entailment = _member("entailment", entailment, Entailment, _ENTAILMENTS)
        inconsistent = _member("inconsistent", inconsistent, Inconsistent, _INCONSISTENT)
        counted = Unit.SECOND if unit is None else _member("unit", unit, Unit, UNITS)
        _check_limits(limits)
        problems: list[Diagnostic] = []
        if rules is None and text is None:
            hint = "Name rule files: Program.load(rules=…); or give a text: Program.load(text=…)."
            raise ArgumentRefused([Diagnostic("C202", "rules or text is missing", None, hint)])
        documents = (*_documents(rules or (), problems, _rule_file_problem), *_texts(text, language, problems))
        paths = tuple(_paths(graphs))
        reading, read = _background(tables, imports or {}, prefixes or {}, len(paths), problems)
        spec = ProgramSpec(
            documents,
            _documents(datalog, problems),
            (*paths, *read),
            entailment,
            axiomatic,
            dict(prefixes or {}),
            counted,
            inconsistent,
            limits,
            origin=_origin(origin, counted),
            unit_given=unit is not None,
            reading=reading,
        )
        if problems:
            raise Refused(problems)
        return cls._of(compile_program(spec))

    @classmethod
    def from_config(cls, path: OnePath) -> Self:
        """Compile the program of a pipeline's configuration (docs/operation.md), without inputs and
        outputs.

        Args:
            path: the path of the configuration (YAML). Relative paths in it are relative to its
                folder.

        Returns:
            The compiled program.

        Raises:
            Refused: the configuration, or a file that it names, cannot be read or has errors; a
                `DotrError`.

        >>> import dotr
        >>> dotr.Program.from_config("configs/fire.yaml")
        <dotr.Program: rules R, which define Fire;
         times in s; background of 1 RDF file and 1 Datalog file, entailment none>
        """
        config = read_config(os.fspath(path))
        return cls._of(compile_program(config.program(), config.cache_policy()))

    def session(self, *, record: bool = False) -> Session:
        """Start a run of the program in this process, advanced by its caller.

        Args:
            record: keep all graphs of the session in memory, for `Session.why` and
                `Session.why_not`.

        Returns:
            A new session without state.

        >>> import dotr
        >>> session = dotr.Program.from_config("configs/fire.yaml").session()
        >>> session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
        []
        """
        return Session(self, record=record)

    def restore(self, saved: bytes) -> Session:
        """Continue a saved session with this program.

        The program may differ from the one that saved the session. A rule of the same meaning keeps
        its state, regardless of its spelling and of other rules. A rule that is new or changed, or
        that reads the events of such a rule, starts without state after the last time of the saved
        session. These rules are logged to the logger `dotr`, with the text of `dotr plan`.

        Args:
            saved: the result of `Session.save`. It is data: nothing in it is executed.

        Returns:
            A session, whose next time must be later than the last one of the saved session.

        Raises:
            ArgumentRefused: the bytes are damaged, of another version of the format, or no saved
                session; or the session's integer times count another unit than the program's. It is
                a `DotrError` and a `ValueError`.

        >>> import dotr
        >>> program = dotr.Program.from_config("configs/fire.yaml")
        >>> program.restore(b"no session")
        Traceback (most recent call last):
        dotr.errors.diagnostics.ArgumentRefused: C501 the saved session cannot be restored: it is none
        Restore an intact copy, or begin anew with program.session().
        """
        return Session.restored(self, saved)

    def __reduce__(self) -> tuple[object, ...]:
        # The texts, and the closed background: the other process needs no files, and compiles once.
        from dotr.runtimes.frames.shipped import ShippedStore

        store = ShippedStore.of(self)
        return _compiled_again, (self.spec.to_json(), store.key, store.data)

    @classmethod
    def _of(cls, compiled: CompiledProgram) -> Self:
        return cls(**{each.name: getattr(compiled, each.name) for each in fields(compiled)})

    def __repr__(self) -> str:
        rules = _some([rule.name for rule in self.rules.rules])
        events = _some(sorted({rule.event for rule in self.rules.rules}))
        units = f"; {self._units_text()}" if self.units else ""
        return f"<dotr.Program: rules {rules}, which define {events}{units};\n {self._background_text()}>"

    def _repr_html_(self) -> str:
        rules = self.rules.rules
        rows = (
            [rule.name, rule.documentation, rule.event, ", ".join(dict.fromkeys(role.origin for role in roles(rule)))] for rule in rules
        )
        units = paragraph(self._units_text()) if self.units else ""
        return table(["rule", "meaning", "defines", "reads"], rows, len(rules)) + units + paragraph(self._background_text())

    def _units_text(self) -> str:
        """The units of other languages, and the labels of their events."""
        names = [unit.name for unit in self.units]
        made = sorted({each.label for unit in self.units for each in unit.makes})
        return f"units {_some(names)}, which make {_some(made)}"

    def _background_text(self) -> str:
        spec = self.spec
        unit = next(word for word, unit in UNITS.items() if unit is spec.unit)
        tables = spec.reading.tables
        graphs = _counted(spec.graphs[: len(spec.graphs) - len(tables)], "RDF file") + (f", {_counted(tables, 'table')}" if tables else "")
        return f"times in {unit}; background of {graphs} and {_counted(spec.datalog, 'Datalog file')}, entailment {spec.entailment.value}"


@lru_cache(8)
def _compiled_again(spec: str, key: bytes, data: bytes) -> Program:
    """The program of another process, from its specification and its compiled background."""
    from dotr.runtimes.frames.shipped import ShippedStore

    return Program._of(compile_program(ProgramSpec.from_json(spec), ShippedStore(key, data).file()))


def _paths(paths: SomePaths) -> list[str]:
    """Paths of an iterable, or a single path, as a list.

    >>> _paths("a.ttl"), _paths(["a.ttl", "b.ttl"])
    (['a.ttl'], ['a.ttl', 'b.ttl'])
    """
    return [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]


def _rule_file_problem(path: str) -> Diagnostic | None:
    """The error of a path that is no rule file; a text has lines, and a path has none."""
    if "\n" in path:
        return Diagnostic("C319", "rules is a text, and no path", None, "Give it as text: Program.load(text=…).")
    return extension_problem(path)


def _texts(text: SomeTexts | None, language: str, problems: list[Diagnostic]) -> Iterator[Document]:
    """Documents of texts by their names; a text without one has that of its language.

    >>> [each.name for each in (*_texts("rule R", "dotr", []), *_texts(["a", "b"], "lars", []), *_texts({"q.rspql": ""}, "dotr", []))]
    ['text.dotr', 'text1.lars', 'text2.lars', 'q.rspql']
    """
    ending = _member("language", language, RuleLanguage, _LANGUAGES).value
    texts = text or () if isinstance(text, Iterable | None) and not isinstance(text, str) else [text]
    if not isinstance(texts, Mapping):
        several = list(texts)
        texts = {f"text{number if len(several) > 1 else ''}{ending}": each for number, each in enumerate(several, 1)}
    for name, each in texts.items():
        if problem := extension_problem(name):
            problems.append(problem)
        elif isinstance(each, str):
            yield Document(name, each)
        else:
            raise ArgumentRefused([Diagnostic("C203", f"text should be text, not {each!r}")])


class _Arguments(Section):
    """Arguments of `Program.load` in the form of a configuration."""

    knowledge: KnowledgeSection


def _background(
    tables: Iterable[Mapping[str, object]],
    imports: Mapping[str, OnePath],
    prefixes: Mapping[str, str],
    graphs: int,
    problems: list[Diagnostic],
) -> tuple[Reading, list[str]]:
    """The declarations of tables and imports beside a number of graphs, and the paths of the tables.

    Problems are added to `problems`; they show the arguments as a configuration has them.
    """
    each = tables if isinstance(tables, str | Mapping) else [dict(table) if isinstance(table, Mapping) else table for table in tables]
    given = {"tables": each, "imports": dict(imports) if isinstance(imports, Mapping) else imports}
    if not any(given.values()):
        return Reading(), []
    written = json.dumps({"knowledge": given}, indent=1, default=os.fspath, ensure_ascii=False)
    tree = read_tree(Document("Program.load", written))
    try:
        knowledge = validated(_Arguments, tree.data, tree).knowledge
    except Refused as refused:
        raise ArgumentRefused(refused.diagnostics) from None
    return ConfigFiles(tree, Location("")).reading(knowledge, prefixes, graphs, problems)


def _origin(origin: SupportsIndex | str, unit: Unit) -> Micros:
    """The origin of windows in µs since 1970; raises `ArgumentRefused` if it is no time.

    >>> _origin("soon", Unit.SECOND)
    Traceback (most recent call last):
    dotr.errors.diagnostics.ArgumentRefused: C205 origin: 'soon' is neither an integer nor an ISO 8601 date-time
    """
    try:
        return parse_time(origin if isinstance(origin, str) else int(index(origin)), unit)
    except (TypeError, ValueError) as error:
        raise ArgumentRefused([Diagnostic("C205", f"origin: {error}")]) from None


def _documents(paths: SomePaths, problems: list[Diagnostic], problem_of: _ProblemOf = lambda path: None) -> tuple[Document, ...]:
    """Contents of text files; problems of unreadable ones are added to `problems`, and those that
    `problem_of` finds in a path.
    """
    documents = []
    for path in _paths(paths):
        if problem := problem_of(path):
            problems.append(problem)
            continue
        try:
            documents.append(read_document(path))
        except Refused as refused:
            problems += refused.diagnostics
    return tuple(documents)


def _member(argument: str, value: object, members: type[_E], words: Mapping[str, _E]) -> _E:
    """Member of an enumeration, from the member itself or the configuration's word for it.

    >>> _member("entailment", "rdfs", Entailment, _ENTAILMENTS)
    <Entailment.RDFS: 'rdfs'>
    >>> _member("entailment", "owl", Entailment, _ENTAILMENTS)
    Traceback (most recent call last):
    dotr.errors.diagnostics.ArgumentRefused: C203 entailment should be none, rdfs or owl2rl, not 'owl'
    Did you mean owl2rl?
    """
    if isinstance(value, members):
        return value
    known = list(words)
    if isinstance(value, str) and value in words:
        return words[value]
    hint = did_you_mean(value, known) if isinstance(value, str) else ""
    message = f"{argument} should be {', '.join(known[:-1])} or {known[-1]}, not {value!r}"
    raise ArgumentRefused([Diagnostic("C203", message, None, hint)])


def _check_limits(limits: Limits) -> None:
    """Check that every limit is a positive integer; raises `ArgumentRefused` otherwise.

    >>> _check_limits(Limits(rows=0))
    Traceback (most recent call last):
    dotr.errors.diagnostics.ArgumentRefused: C203 limits.rows should be a whole number above 0, not 0
    """
    wrong = [(name, value) for name, value in limits.to_json().items() if type(value) is not int or value < 1]
    if wrong:
        raise ArgumentRefused(
            [Diagnostic("C203", f"limits.{name} should be a whole number above 0, not {value!r}") for name, value in wrong]
        )


def _some(names: Sequence[str]) -> str:
    """First names of a list, and the number of further ones.

    >>> _some(["R", "S"]), _some([f"Rule{n}" for n in range(100)]), _some([])
    ('R, S', 'Rule0, Rule1, Rule2, Rule3 and 96 more', 'none')
    """
    shown, length = 0, 0
    while shown < len(names) and (length := length + len(names[shown]) + 2) <= _NAMES_WIDTH:
        shown += 1
    if shown == len(names):
        return ", ".join(names) or "none"
    first = names[: shown or 1]
    text = ", ".join(first) if shown else names[0][:_NAMES_WIDTH] + "…"
    return f"{text} and {len(names) - len(first)} more" if len(names) > len(first) else text


def _counted(files: Sequence[object], noun: str) -> str:
    return f"{len(files) or 'no'} {noun}{'' if len(files) == 1 else 's'}"
