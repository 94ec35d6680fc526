"""The configuration file of a pipeline: YAML, validated, with the line of every error (interface.md, Configuration).

`read_config` turns a file and the `--set` options into a `Config`; every problem it finds is a diagnostic with its place. Relative
paths are relative to the configuration file, those of `--set` to the working directory.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dotr.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.engine.spec import ProgramSpec
from dotr.knowledge.entailment import Entailment
from dotr.model.places import Document, Span
from dotr.model.time import Unit

UNITS: Final[Mapping[str, Unit]] = {
    "us": Unit.MICROSECOND,
    "ms": Unit.MILLISECOND,
    "s": Unit.SECOND,
    "min": Unit.MINUTE,
    "h": Unit.HOUR,
    "d": Unit.DAY,
}


class Section(BaseModel):
    """A part of a YAML file: unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TimeSection(Section):
    """What an integer time stamp counts."""

    unit: Literal["us", "ms", "s", "min", "h", "d"] = "s"


class KnowledgeSection(Section):
    """Background knowledge."""

    graphs: list[str] = Field(default=[], description="RDF files in any format, .gz too; globs")
    datalog: list[str] = Field(default=[], description="Datalog files; globs")
    entailment: Literal["none", "rdfs", "owl2rl"] = "none"
    axiomatic: bool = Field(default=False, description="also the axiomatic and reflexive triples of the entailment")


class InputSection(Section):
    """A stream of elements, from one or several files."""

    name: str = Field(min_length=1)
    format: Literal["ndjson", "trig", "nquads", "csv"]
    path: str = Field(min_length=1, description="a file or a glob; .gz too")
    lateness: str | int = Field(default=0, description="a declared delay, such as 30 s")
    time: str | None = Field(default=None, description="csv: the column that holds the time")
    map: str | None = Field(default=None, description="csv: the template that makes a row's graph")
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="csv: what separates the columns")


class OutputSection(Section):
    """Where the output stream goes."""

    format: Literal["ndjson", "trig", "nquads"] = "ndjson"
    path: str = Field(min_length=1)


class SparkSection(Section):
    """How the pipeline runs on Spark."""

    master: str | None = Field(default=None, description="local[*] where spark-submit names none")
    checkpoint: str | None = Field(default=None, description="a folder; beside the first output where none is named")
    batch: int = Field(default=50_000, gt=0, description="how many elements a batch holds, about")
    conf: dict[str, str | int | bool] = Field(default={}, description="Spark's own configuration")


class Settings(Section):
    """A pipeline."""

    name: str = Field(min_length=1)
    prefixes: dict[str, str] = {}
    time: TimeSection = TimeSection()
    knowledge: KnowledgeSection = KnowledgeSection()
    rules: list[str] = Field(min_length=1, description="rule files; globs")
    input: list[InputSection] = Field(min_length=1)
    output: list[OutputSection] = Field(min_length=1)
    dead_letter: str | None = Field(default=None, description="a file (a folder on Spark) for what cannot be processed")
    engine: Literal["spark", "local"] = "spark"
    spark: SparkSection = SparkSection()


Location: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys and positions."""


def _data(value: object) -> dict[str | int, object] | list[object] | None:
    return value if isinstance(value, dict | list) else None


class _Loader(yaml.SafeLoader):
    """YAML without time stamps, whose spelling is ours to read, and where only true and false are booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag != "tag:yaml.org,2002:timestamp" and not (tag == "tag:yaml.org,2002:bool" and first not in "tTfF")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_ENVIRONMENT: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Tree:
    """A YAML document as plain data, with the place of every value and key."""

    document: Document
    data: object
    places: Mapping[Location, Span]

    def place(self, location: Location) -> Span:
        """The place of a value, or of the nearest thing around it."""
        while location and location not in self.places:
            location = location[:-1]
        return self.places.get(location, Span(self.document, 0, 0))


def read_tree(document: Document) -> Tree:
    """Read YAML, put environment variables in, and keep the places; raises `Refused` with every problem."""
    problems: list[Diagnostic] = []
    places: dict[Location, Span] = {}

    def value(node: yaml.Node, location: Location) -> object:
        places.setdefault(location, Span(document, node.start_mark.index, node.end_mark.index))
        match node:
            case yaml.MappingNode():
                found: dict[str | int, object] = {}
                for key_node, value_node in node.value:
                    key = str(key_node.value)
                    span = Span(document, key_node.start_mark.index, key_node.end_mark.index)
                    if key in found:
                        problems.append(Diagnostic("C103", f"{key} is given twice", span, "Keep one of the two."))
                    places[(*location, key, "<key>")] = span
                    found[key] = value(value_node, (*location, key))
                return found
            case yaml.SequenceNode():
                return [value(item, (*location, number)) for number, item in enumerate(node.value)]
            case _:
                plain = yaml.SafeLoader.construct_object(loader, node)
                return _environment(plain, places[location], problems) if isinstance(plain, str) else plain

    try:
        loader = _Loader(document.text)
        node = loader.get_single_node()
        data = value(node, ()) if node is not None else {}
    except yaml.YAMLError as error:
        span, reason = None, str(error)
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            span = Span(document, error.problem_mark.index, error.problem_mark.index + 1)
            reason = error.problem or reason
        raise Refused([Diagnostic("C102", f"this is not YAML: {reason}", span)]) from None
    if problems:
        raise Refused(problems)
    return Tree(document, data, places)


def _environment(text: str, span: Span, problems: list[Diagnostic]) -> str:
    def expand(found: re.Match[str]) -> str:
        value = os.environ.get(found[1], found[2])
        if value is None:
            hint = f"Set it, or give a default: ${{{found[1]}:-…}}"
            problems.append(Diagnostic("C104", f"the environment has no variable {found[1]}", span, hint))
            return ""
        return value

    return _ENVIRONMENT.sub(expand, text)


def _apply(tree: Tree, options: Sequence[str]) -> tuple[Tree, frozenset[Location]]:
    """Put the `--set` options in; returns the locations they set."""
    data = json.loads(json.dumps(tree.data))
    places = dict(tree.places)
    touched: set[Location] = set()
    for option in options:
        path, equals, text = option.partition("=")
        document = Document("--set", option)
        if not equals or not path:
            raise Refused([Diagnostic("C105", f"--set {option} is not key.path=value", None, "For example --set output.0.path=x")])
        keys: Location = tuple(int(key) if key.isdigit() else key for key in path.split("."))
        target = data
        for key, following in zip(keys, (*keys[1:], None), strict=True):
            inside = _data(target)
            if inside is None or (isinstance(inside, list) and not (isinstance(key, int) and key <= len(inside))):
                raise Refused([Diagnostic("C105", f"--set {option}: there is no place {path}", Span(document, 0, len(path)))])
            value: object = {} if isinstance(following, str) else []
            if following is None:
                value = read_tree(Document("--set", text)).data if text else ""
            if isinstance(inside, list):
                assert isinstance(key, int)
                if key == len(inside):
                    inside.append(value)
                elif following is None:
                    inside[key] = value
                target = inside[key]
            else:
                name = str(key)
                if following is None or inside.get(name) is None:
                    inside[name] = value
                target = inside[name]
        for location in [old for old in places if old[: len(keys)] == keys]:
            del places[location]
        places[keys] = Span(document, len(path) + 1, len(option))
        touched.add(keys)
    return Tree(tree.document, data, places), frozenset(touched)


def schema_problems(error: ValidationError, tree: Tree, model: type[BaseModel]) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for item in error.errors(include_url=False):
        location: Location = tuple(part for part in item["loc"] if not (isinstance(part, str) and part in ("str", "int", "bool")))
        where = ".".join(map(str, location))
        if item["type"] == "extra_forbidden":
            key = str(location[-1])
            span = tree.places.get((*location, "<key>"), tree.place(location))
            known = _keys(model, location[:-1])
            hint = did_you_mean(key, known) or f"Known here: {', '.join(known)}."
            found.append(Diagnostic("C201", f"unknown key {key}", span, hint))
        elif item["type"] == "missing":
            found.append(Diagnostic("C202", f"{where} is missing", tree.place(location[:-1]), "Add it."))
        else:
            diagnostic = Diagnostic("C203", f"{where}: {item['msg'][0].lower()}{item['msg'][1:]}", tree.place(location))
            if not any(d.span == diagnostic.span and d.code == "C203" for d in found):
                found.append(diagnostic)
    return sorted(found, key=lambda d: d.span.start if d.span else 0)


def _keys(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that a section of the schema knows."""
    current: object = model
    for part in location:
        if isinstance(part, int) or not (isinstance(current, type) and issubclass(current, BaseModel)):
            continue
        field = current.model_fields.get(part)
        current = field.annotation if field else None
        arguments = getattr(current, "__args__", ())
        current = next((a for a in (current, *arguments) if isinstance(a, type) and issubclass(a, BaseModel)), current)
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a YAML document names: its tree, and where its relative paths start; `outside` are the locations set by `--set`."""

    tree: Tree
    folder: Path
    outside: frozenset[Location] = frozenset()

    def path(self, text: str, location: Location) -> str:
        """A path of the document, as it can be opened from the working directory."""
        outside = any(location[: len(touched)] == touched for touched in self.outside)
        path = Path(text).expanduser()
        return os.path.normpath(path if outside else self.folder / path)

    def existing(self, patterns: Sequence[str], location: Location) -> tuple[str, ...]:
        """The files that a list's paths and globs name; raises `Refused` for every one that names none."""
        found: list[str] = []
        problems: list[Diagnostic] = []
        for number, pattern in enumerate(patterns):
            place = (*location, number)
            try:
                found += existing(self.path(pattern, place), self.tree.place(place))
            except Refused as refused:
                problems += refused.diagnostics
        if problems:
            raise Refused(problems)
        return tuple(dict.fromkeys(found))

    def program(self, rules: Sequence[str], knowledge: KnowledgeSection, prefixes: Mapping[str, str], time: TimeSection) -> ProgramSpec:
        """The program that a configuration or a rule test names; raises `Refused` with every file that cannot be read."""
        problems: list[Diagnostic] = []

        def documents(patterns: Sequence[str], location: Location) -> tuple[Document, ...]:
            read = []
            for path in paths(patterns, location):
                try:
                    read.append(read_document(path, self.tree.place(location)))
                except Refused as refused:
                    problems.extend(refused.diagnostics)
            return tuple(read)

        def paths(patterns: Sequence[str], location: Location) -> tuple[str, ...]:
            try:
                return self.existing(patterns, location)
            except Refused as refused:
                problems.extend(refused.diagnostics)
                return ()

        spec = ProgramSpec(
            documents(rules, ("rules",)),
            documents(knowledge.datalog, ("knowledge", "datalog")),
            tuple(map(os.path.abspath, paths(knowledge.graphs, ("knowledge", "graphs")))),
            Entailment(knowledge.entailment),
            knowledge.axiomatic,
            prefixes,
            UNITS[time.unit],
        )
        if problems:
            raise Refused(problems)
        return spec


@dataclass(frozen=True, slots=True)
class Config:
    """A validated configuration and its files."""

    settings: Settings
    files: Files

    def place(self, *location: str | int) -> Span:
        return self.files.tree.place(location)

    def program(self) -> ProgramSpec:
        """The program that the configuration names; raises `Refused` with every file that cannot be read."""
        settings = self.settings
        return self.files.program(settings.rules, settings.knowledge, settings.prefixes, settings.time)


def existing(path: str, span: Span | None) -> list[str]:
    """The files of a path or glob, sorted; raises `Refused` where there is none.

    >>> existing("no/such/*.ttl", None)
    Traceback (most recent call last):
    dotr.diagnostics.Refused: C301 no file matches no/such/*.ttl
    Relative paths are relative to the configuration file; those of --set to the working directory.
    """
    if os.path.isfile(path):
        return [path]
    hint = "Relative paths are relative to the configuration file; those of --set to the working directory."
    if glob.has_magic(path):
        found = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
        if found:
            return found
        raise Refused([Diagnostic("C301", f"no file matches {path}", span, hint)])
    raise Refused([Diagnostic("C301", f"there is no file {path}", span, hint)])


def read_document(path: str, span: Span | None = None) -> Document:
    """A text file; raises `Refused` where it cannot be read. UTF-8."""
    try:
        return Document(path, Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Refused([Diagnostic("C302", f"cannot read {path}: {error.strerror}", span)]) from None
    except UnicodeDecodeError as error:
        raise Refused([Diagnostic("C302", f"cannot read {path}: it is not UTF-8 (byte {error.start})", span)]) from None


def read_config(path: str, options: Sequence[str] = ()) -> Config:
    """The configuration in a file, with `--set` options; raises `Refused` with every problem found."""
    document = read_document(path)
    tree, touched = _apply(read_tree(document), options)
    if not isinstance(tree.data, dict):
        raise Refused([Diagnostic("C102", "a configuration is a mapping of keys to values", tree.place(()))])
    try:
        settings = Settings.model_validate(tree.data)
    except ValidationError as error:
        raise Refused(schema_problems(error, tree, Settings)) from None
    return Config(settings, Files(tree, Path(path).parent, touched))


def schema() -> str:
    """The JSON Schema of a configuration, as `dotr/config.schema.json` holds it."""
    return json.dumps(Settings.model_json_schema(), indent=2) + "\n"
