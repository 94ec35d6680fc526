"""Files that a YAML document names, by path or glob; errors are at the span that names the file."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from pyoxigraph import NamedNode

from dotr.engine.spec import Inconsistent, ProgramSpec
from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean, refuse
from dotr.evaluation.files.caches import default_folder
from dotr.evaluation.files.stores import Location, absolute, configure_storage
from dotr.evaluation.limits import LIMITS, Limits
from dotr.instant.datalog.background.compiled_cache import MIN_BYTES, CachePolicy
from dotr.instant.datalog.background.sources import Reading
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.registry import RuleLanguage, extension_problem, has_units
from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.model.stream import InputStream, stream_name
from dotr.model.time import UNITS, Micros, Unit
from dotr.runtimes.pipeline.sections import (
    GraphSection,
    InputSection,
    KnowledgeSection,
    Settings,
    TableSection,
    TimeSection,
    WindowsSection,
    path_of_graph,
    validated,
)
from dotr.streams.connectors.registry import TRANSPORTS, Transport
from dotr.streams.records import Format
from dotr.streams.storage import storage_problems, store_settings
from dotr.streams.times import parse_time
from dotr.syntax.lexemes import quotes_hint
from dotr.syntax.sections import SectionPlace
from dotr.syntax.turtle.graphs import parser_message
from dotr.syntax.turtle.nesting import check_json_nesting
from dotr.syntax.yaml import KeyPath, Tree, read_tree, set_values

_RELATIVE_HINT: Final = "Relative paths are relative to the configuration file; those of --set to the working directory."


Mapped = TypeVar("Mapped", InputSection, TableSection)

_LONGEST_PATH: Final = 4096
"""Limit of the bytes of a path on Linux; translating a longer glob takes quadratic time."""


def glob_files(pattern: str, span: Span | None = None) -> list[str]:
    """The regular files that match a glob, sorted; none if the glob is longer than a path may be.
    Raises `Refused` (C302, at `span`) where a store cannot be listed.

    >>> glob_files("[" * 100_000)
    []
    """
    if len(os.fsencode(pattern)) > _LONGEST_PATH:
        return []
    if Location(pattern).is_url:
        with _store_errors(pattern, span):
            return [found.location.text for found in Location(pattern).matching()]
    return sorted(name for name in glob.glob(pattern, recursive=True) if os.path.isfile(name))


def matching_files(path: str, span: Span | None, hint: str = _RELATIVE_HINT) -> list[str]:
    """The files that match a path or glob, sorted; raises `Refused` (C301, at `span`) if none does.

    >>> matching_files("no/such/*.ttl", None)
    Traceback (most recent call last):
    dotr.errors.diagnostics.Refused: C301 no file matches no/such/*.ttl
    Relative paths are relative to the configuration file; those of --set to the working directory.
    """
    if Location(path).is_url:
        return _matching_objects(path, span, hint)
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        raise Refused([Diagnostic("C301", f"{path} is a folder", span, f"For the files in it write {os.path.join(path, '*')}")])
    if os.path.exists(path):
        raise Refused([Diagnostic("C301", f"{path} is no regular file", span, "A pipeline reads files, which it may read twice.")])
    if glob.has_magic(path):
        files = glob_files(path)
        if files:
            return files
        raise Refused([Diagnostic("C301", f"no file matches {path}", span, hint)])
    raise Refused([Diagnostic("C301", f"there is no file {path}", span, quotes_hint(path) or similar_file(path) or hint)])


def _matching_objects(path: str, span: Span | None, hint: str) -> list[str]:
    """The objects that match a URL or a glob of URLs; raises `Refused` as `matching_files` does, and
    C302 where the store does not answer well."""
    with _store_errors(path, span):
        if Location(path).look() is not None:
            return [path]
        if glob.has_magic(path):
            if files := glob_files(path):
                return files
            raise refuse("C301", f"no file matches {path}", span, hint)
        if next(Location(path).list(recursive=True), None) is not None:
            raise refuse("C301", f"{path} is a folder", span, f"For the files in it write {path}/*")
    raise refuse("C301", f"there is no file {path}", span, similar_file(path) or hint)


@contextmanager
def _store_errors(path: str, span: Span | None) -> Iterator[None]:
    """Context in which an error of a store is refused (C302)."""
    try:
        yield
    except OSError as error:
        raise refuse("C302", f"cannot read {path}: {error.strerror or error}", span, _STORE_HINT) from None


_STORE_HINT: Final = "Is the URL right, and may you read it? `storage` in the configuration says where a store is, and as whom it is read."


def similar_file(path: str) -> str:
    """The hint that names the file of the same folder with the nearest name, by the names without
    their endings where these are the same; empty if there is none.

    >>> similar_file("configs/fir.yaml"), similar_file("configs/nothing.yaml"), similar_file("nowhere/fire.yaml")
    ('Did you mean configs/fire.yaml?', '', '')
    """
    folder, name = os.path.split(path)
    with suppress(OSError, ValueError):
        if Location(path).is_url:
            names = [each.location.name for each in Location(folder).list()]
        else:
            names = sorted(each.name for each in os.scandir(folder or ".") if each.is_file())
        stem, ending = os.path.splitext(name)
        hint = did_you_mean(stem, [os.path.splitext(each)[0] for each in names if os.path.splitext(each)[1] == ending])
        other_case = next((f"Did you mean {each}?" for each in names if each.lower() == name.lower()), "")
        hint = other_case or hint.replace("?", f"{ending}?") or did_you_mean(name, names, 0.85)
        return hint.replace("mean ", f"mean {os.path.join(folder, '')}", 1)
    return ""


def read_document(path: str, span: Span | None = None) -> Document:
    """Read a text file in UTF-8. Raises `Refused` (C302, at `span`) if it cannot be read."""
    try:
        return Document(path, _text_of(path))
    except UnicodeDecodeError as error:
        reason, hint = f"it is not UTF-8 (byte {error.start})", "Save it as UTF-8."
    except FileNotFoundError:
        reason = "there is no such file"
        asked = _RELATIVE_HINT if span else "Is the path right? Relative paths are relative to the working directory."
        hint = similar_file(path) or asked
    except OSError as error:
        reason, hint = (error.strerror or str(error)).lower(), "Name a file that may be read."
        if Location(path).is_url:
            reason, hint = error.strerror or str(error), _STORE_HINT
    except ValueError as error:
        reason, hint = str(error), "Is the path right?"
    raise Refused([Diagnostic("C302", f"cannot read {path}: {reason}", span, hint)])


def _text_of(path: str) -> str:
    """The text of a file in UTF-8; raises OSError and UnicodeDecodeError."""
    location = Location.of(path)
    if not location.is_url:
        return location.path.read_text(encoding="utf-8-sig")
    return io.TextIOWrapper(io.BytesIO(location.read()), encoding="utf-8-sig").read()


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """The files of a YAML document.

    - `folder`: the base of its relative paths.
    - `overridden`: the locations set by `--set`.
    """

    tree: Tree
    folder: Location
    overridden: frozenset[KeyPath] = frozenset()

    def path(self, text: str, location: KeyPath) -> str:
        """A path of the document, relative to the working directory, or a URL.

        A path set by `--set`, or that begins with an environment variable, is relative to the
        working directory already.
        """
        outside = any(location[: len(prefix)] == prefix for prefix in self.overridden) or self.tree.begins_with_variable(location)
        path = Location.of(str(Path(text).expanduser()) if text.startswith("~") else text, None if outside else self.folder)
        return path.text if path.is_url else os.path.normpath(path.text)

    def place(self, *location: str | int) -> SectionPlace:
        """The place of the section at a location."""
        return SectionPlace(self.tree, location, self.path)

    def matching_files(
        self, patterns: Sequence[str | GraphSection], location: KeyPath, problems: list[Diagnostic]
    ) -> list[tuple[str, Span, str]]:
        """The files of a list of paths and globs, each once, with the span that names it, and its
        declared format (empty: none).

        An error for each pattern without a file is appended to `problems`.
        """
        files: dict[str, tuple[str, Span, str]] = {}
        for number, pattern in enumerate(patterns):
            item: KeyPath = (*location, number)
            form = ""
            if isinstance(pattern, GraphSection):
                item, form = (*item, "path"), pattern.format or ""
            try:
                for path in matching_files(self.path(path_of_graph(pattern), item), self.tree.span(item)):
                    files.setdefault(path, (path, self.tree.span(item), form))
            except Refused as refused:
                problems += refused.diagnostics
        return list(files.values())

    def contexts(
        self, files: Mapping[str, str], location: KeyPath, problems: list[Diagnostic], nesting: int = LIMITS.nesting
    ) -> tuple[tuple[str, str], ...]:
        """The texts of JSON-LD files with a context, by their keys in the mapping at a location.

        An error for each file that cannot be read or used is appended to `problems`.
        """
        texts: list[tuple[str, str]] = []
        for key, name in files.items():
            place = self.tree.span((*location, key))
            path = self.path(name, (*location, key))
            try:
                text = _text_of(path)
                check_json_nesting(text, nesting)
                from dotr.syntax.turtle.jsonld import context_of

                context_of(text)
                texts.append((key, text))
            except OSError as error:
                problems.append(
                    Diagnostic("C301", f"cannot read {path}: {(error.strerror or str(error)).lower()}", place, "Is its path right?")
                )
            except (ValueError, RecursionError) as error:
                hint = 'A file that stands for a context is {"@context": …}.'
                problems.append(Diagnostic("C203", f"{path} is no JSON-LD context: {error}", place, hint))
        return tuple(texts)

    def spec(
        self,
        rules: Sequence[str],
        knowledge: KnowledgeSection,
        prefixes: Mapping[str, str],
        time: TimeSection,
        windows: WindowsSection,
        zone: str | None,
    ) -> tuple[ProgramSpec, list[Diagnostic]]:
        """The program of a configuration or rule test without its unreadable files, and their
        errors.

        `rules` are the paths and globs at the location `rules` of the document.
        """
        problems: list[Diagnostic] = []

        def documents(patterns: Sequence[str], location: KeyPath) -> tuple[Document, ...]:
            loaded = []
            for path, span, _ in self.matching_files(patterns, location, problems):
                if location == ("rules",) and (wrong := extension_problem(path, span)):
                    problems.append(wrong)
                    continue
                try:
                    loaded.append(read_document(path, span))
                except Refused as refused:
                    problems.extend(refused.diagnostics)
            return tuple(loaded)

        rule_files, datalog = documents(rules, ("rules",)), documents(knowledge.datalog, ("knowledge", "datalog"))
        found = self.matching_files(knowledge.graphs, ("knowledge", "graphs"), problems)
        graphs = [(absolute(path), form) for path, _, form in found]
        reading, tables = self.reading(knowledge, prefixes, len(graphs), problems, zone)
        at = ("knowledge", "cache")
        if knowledge.cache is not None and Location(self.path(knowledge.cache, at)).is_url:
            hint = "Name a folder of this machine, or leave cache out: Spark sends what is compiled to its executors."
            problems.append(Diagnostic("C204", "a cache is mapped into memory, from a disk of this machine", self.tree.span(at), hint))
        spec = ProgramSpec(
            rule_files,
            datalog,
            (*(path for path, _ in graphs), *tables),
            Entailment(knowledge.entailment),
            knowledge.axiomatic,
            prefixes,
            UNITS[time.unit],
            Inconsistent(knowledge.inconsistent),
            origin=self._origin(windows, UNITS[time.unit], problems),
            unit_given="unit" in time.model_fields_set,
            time_zone=zone or "",
            reading=replace(
                reading,
                formats=tuple((path, form) for path, form in graphs if form),
                contexts=self.contexts(knowledge.contexts, ("knowledge", "contexts"), problems),
            ),
        )
        return spec, problems

    def reading(
        self, knowledge: KnowledgeSection, prefixes: Mapping[str, str], graphs: int, problems: list[Diagnostic], zone: str | None = None
    ) -> tuple[Reading, list[str]]:
        """The declarations of tables and imports beside a number of graphs, and the paths of the
        tables' files. Problems are added to `problems`.
        """
        tables = self._tables(knowledge.tables, prefixes, problems, zone)
        numbered = tuple((number, settings) for number, (_, settings) in enumerate(tables, graphs))
        read = Reading((), (), numbered, self._imports(knowledge.imports, problems))
        if tables:
            from dotr.runtimes.pipeline.tables import rows_of_table

            read = replace(read, rows=rows_of_table)
        return read, [path for path, _ in tables]

    def _tables(
        self, sections: Sequence[TableSection], prefixes: Mapping[str, str], problems: list[Diagnostic], zone: str | None
    ) -> list[tuple[str, str]]:
        """The absolute path of each file of tables, with its settings. Problems are added to `problems`."""
        found: list[tuple[str, str]] = []
        if not sections:
            return found
        from dotr.runtimes.pipeline.tables import row_conflicts, table_settings, with_place  # with the readers of inputs

        for number, section in enumerate(sections):
            at = ("knowledge", "tables", number)
            place, own = self.place(*at), list[Diagnostic]()
            own += [Diagnostic("C204", message, place.key_span(key), hint) for key, message, hint in row_conflicts(section)]
            try:
                section = _with_compiled_mapping(section, place, [])  # that of a configuration is compiled already
                paths = matching_files(place.path(section.path, "path"), place.span("path"))
                settings = "" if own else table_settings(section, paths, prefixes, self.folder, place.span(), zone)
                found += [(absolute(path), settings) for path in paths]
            except Refused as refused:
                around, of_prefixes = place.span("map"), self.tree.span(("prefixes",))
                own += [with_place(problem, section.map, around, of_prefixes) for problem in refused.diagnostics]
            problems += own
        return found

    def _imports(self, files: Mapping[str, str], problems: list[Diagnostic]) -> tuple[tuple[str, str], ...]:
        """The absolute path of the file of each imported ontology, by IRI. Problems are added to `problems`."""
        found: list[tuple[str, str]] = []
        for key, name in files.items():
            at = ("knowledge", "imports", key)
            try:
                iri = str(NamedNode(key.removeprefix("<").removesuffix(">")))[1:-1]
                found += [(iri, absolute(path)) for path in matching_files(self.path(name, at), self.tree.span(at))[:1]]
            except ValueError as error:
                hint = "Write the whole IRI, as `owl:imports` has it."
                problems.append(Diagnostic("C203", f"{key} is no IRI: {parser_message(error)}", self.tree.key_span(at), hint))
            except Refused as refused:
                problems += refused.diagnostics
        return tuple(found)

    def _origin(self, windows: WindowsSection, unit: Unit, problems: list[Diagnostic]) -> Micros:
        """The origin of windows in µs since 1970; 0, and a problem, where it is invalid."""
        try:
            return parse_time(windows.origin, unit)
        except ValueError as error:
            hint = "Write an integer in the unit of `time`, or a date-time such as 2024-03-01T00:00:00Z."
            problems.append(Diagnostic("C205", f"windows.origin: {error}", self.tree.span(("windows", "origin")), hint))
            return 0


# Reader of configurations: a file with the `--set` options, validated.


@dataclass(frozen=True, slots=True)
class Config:
    """Validated configuration with the files that it names.

    - `recording`: a recording that is read in place of all inputs; empty: none.
    - `start`: that of all replays, in place of the written ones; empty: none.
    - `warnings`: of the mappings that it names as `map`.
    """

    settings: Settings
    files: ConfigFiles
    recording: str = ""
    start: str = ""
    warnings: tuple[Diagnostic, ...] = ()

    def span(self, *location: str | int) -> Span:
        """The span of the value at a location, or of the innermost value around a missing one."""
        return self.files.tree.span(location)

    @property
    def path(self) -> str:
        """The path of the configuration file."""
        return self.files.tree.document.name

    def transport(self, key: Literal["input", "output"], number: int) -> Transport:
        """The transport of an input or output, by its number from 0 on."""
        section = self.settings.input[number] if key == "input" else self.settings.output[number]
        return next(transport for transport in TRANSPORTS if section.is_given(transport))

    def program(self) -> ProgramSpec:
        """The program of the configuration. Raises `Refused` with every unreadable file."""
        spec, problems = self.spec()
        if problems:
            raise Refused(problems)
        return spec

    def cache_policy(self, least: int = MIN_BYTES, *, fresh: bool = False) -> CachePolicy:
        """The policy of the caches of compiled backgrounds and parsed programs.

        `least` is the smallest size of the sources (bytes) at which a background is cached. `fresh`
        ignores the cached one.
        """
        path = self.settings.knowledge.cache
        folder = default_folder() if path is None else Path(self.files.path(path, ("knowledge", "cache"))).absolute()
        return CachePolicy(folder, least, fresh, self.settings.knowledge.shared, programs=True)

    def streams(self) -> tuple[InputStream, ...]:
        """The inputs with the streams that they feed, also those of a recording."""
        prefixes = self.settings.prefixes
        fed = [(each.name, None if each.stream is None else stream_name(each.stream, prefixes)) for each in self.settings.input]
        for number, section in enumerate(self.settings.input):
            if section.format == Format.RECORDING.value:
                from dotr.streams.merge.recordings import recorded_streams  # few configurations have one

                fed += recorded_streams(self.files.path(section.path, ("input", number, "path"))).items()
        return tuple([InputStream(*each) for each in fed])

    def spec(self) -> tuple[ProgramSpec, list[Diagnostic]]:
        """The program without its unreadable files, and their problems."""
        settings = self.settings
        spec, problems = self.files.spec(
            settings.rules, settings.knowledge, settings.prefixes, settings.time, settings.windows, settings.time_zone
        )
        limits = settings.limits
        own = self.streams() if has_units(spec.rules) else ()
        return replace(spec, limits=Limits(**limits.model_dump()), inputs=own, fires_at_end=settings.at_end == "fire"), problems


RECORDED: Final = "--recording="
"""The beginning of an option that names a recording, which is read in place of all inputs."""

STARTED: Final = "--start="
"""The beginning of an option that has the start of all inputs with `replay`."""

OF_INPUTS: Final = (RECORDED, STARTED)
"""The beginnings of options that say what is read, and are no `--set` options."""


def read_config(path: str, options: Sequence[str] = ()) -> Config:
    """Read and validate a configuration. `options` are `--set` options, `key.path=value`, or ones
    that begin with `RECORDED` or `STARTED`.

    Raises `Refused` with all problems of the YAML text, or of the options, or of the schema.
    """
    document = read_document(path)
    if Path(path).suffix == ".dlog" or RuleLanguage.of(path) is not None:
        raise refuse("C102", f"{path} is no configuration", None, "Name the configuration (.yaml) that names it.")
    tree = read_tree(document)
    if tree.data is None:
        hint = "It needs name, rules, input and output at least; `dotr new DIR` writes a small project."
        raise refuse("C102", f"{path} is empty", None, hint)
    if not isinstance(tree.data, dict):
        raise refuse("C102", "a configuration is a mapping of keys to values", tree.span(()), "It begins with a line such as name: fire")
    if "cases" in tree.data:
        raise refuse("C102", f"{path} is a rule test, and no configuration", tree.key_span(("cases",)), "`dotr test` runs it.")
    recording, start = (next((each.removeprefix(own) for each in options if each.startswith(own)), "") for own in (RECORDED, STARTED))
    tree, overridden = set_values(tree, [each for each in options if not each.startswith(OF_INPUTS)])
    files = ConfigFiles(tree, Location.of(path).parent, overridden)
    settings = validated(Settings, tree.data, tree)
    if problems := list(storage_problems(tree)):
        raise Refused(problems)
    configure_storage(store_settings(settings.storage))
    settings, warnings = _with_compiled_mappings(settings, files)
    return Config(settings, files, recording, start, warnings)


def _with_compiled_mapping(section: Mapped, place: SectionPlace, warnings: list[Diagnostic]) -> Mapped:
    """The section with the text of a map, and its list, in place of a mapping of RML. Its warnings are
    added to `warnings`; raises `Refused`."""
    if section.map is None or not section.map.endswith(".ttl"):
        return section
    from dotr.streams.formats.mapping.maps import is_mapping

    if not is_mapping(section.map):
        return section
    from dotr.streams.formats.mapping.rml import compile_mapping  # loads rdflib's parser, which few configurations need

    form = "parquet" if isinstance(section, InputSection) and section.spark is not None else section.format  # columns, as of rows
    mapping = compile_mapping(read_document(place.path(section.map, "map"), place.span("map")), form)
    warnings.extend(mapping.warnings)
    if section.each is not None and mapping.each not in ("", section.each):
        hint = "Leave each out: the iterator says the same."
        message = f"the iterator of {section.map} names the list {mapping.each}, and each another one"
        raise refuse("C204", message, place.key_span("each"), hint)
    return section.model_copy(update={"map": mapping.text, **({"each": mapping.each} if mapping.each else {})})


def _with_compiled_mappings(settings: Settings, files: ConfigFiles) -> tuple[Settings, tuple[Diagnostic, ...]]:
    """The settings with the text of a map, and its list, in place of each mapping of RML that an input
    or a table names, and the warnings of these. Raises `Refused` with the problems of all."""
    problems: list[Diagnostic] = []
    warnings: list[Diagnostic] = []

    def compiled(section: Mapped, place: SectionPlace) -> Mapped:
        try:
            return _with_compiled_mapping(section, place, warnings)
        except Refused as refused:
            problems.extend(refused.diagnostics)
            return section

    inputs = [compiled(each, files.place("input", number)) for number, each in enumerate(settings.input)]
    tables = [compiled(each, files.place("knowledge", "tables", number)) for number, each in enumerate(settings.knowledge.tables)]
    if problems:
        raise Refused(problems)
    if not warnings and inputs == settings.input and tables == settings.knowledge.tables:
        return settings, ()
    knowledge = settings.knowledge.model_copy(update={"tables": tables})
    return settings.model_copy(update={"input": inputs, "knowledge": knowledge}), tuple(warnings)
