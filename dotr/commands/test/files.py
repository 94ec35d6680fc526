"""Files of rule tests: sections, and the program that a file names (interface.md, A rule test)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Diagnostic, refuse
from dotr.evaluation.files.stores import Location
from dotr.languages.registry import RuleLanguage
from dotr.model import dataclass
from dotr.model.places import Document
from dotr.model.terms import WELL_KNOWN
from dotr.runtimes.pipeline.config import Config, ConfigFiles, matching_files, read_config, read_document
from dotr.runtimes.pipeline.sections import UNION_TAGS, KnowledgeSection, TimeSection, WindowsSection, ZoneName, path_of_graph, validated
from dotr.syntax.sections import Section
from dotr.syntax.yaml import KeyPath, Tree, read_tree


class ElementSection(Section):
    """Element of a test's stream; without a graph and a stream a heartbeat."""

    at: int | str
    graph: str | None = None
    stream: str | None = Field(min_length=1, default=None)


class RecordingSection(Section):
    """Recording as a test's stream: a file, or the part of it between two times, both included.

    `input` is the name of the configured input that reads it; `format`: it is the recording of a
    run, with the elements and heartbeats of all inputs.
    """

    file: str = Field(min_length=1)
    begin: int | str | None = Field(alias="from", default=None)
    end: int | str | None = Field(alias="to", default=None)
    input: str | None = None
    format: Literal["recording"] | None = None


class ExpectedSection(Section):
    """Expected output: event, rule, graph (up to blank and generated nodes), or all attributes;
    None matches any."""

    at: int | str
    event: str | None = None
    rule: str | None = None
    graph: str | None = None
    attributes: dict[str, str] | None = None


class FactSection(Section):
    """Expected fact of interest, with all of its attributes."""

    at: int | str
    fact: str
    attributes: dict[str, str] = Field(default={})


def _stream_tag(data: object) -> str:
    return UNION_TAGS[1 + isinstance(data, dict)]


class CaseSection(Section):
    """Case of a test file. `events`: the labels that are compared; None: as the file says."""

    name: str = Field(min_length=1)
    stream: Annotated[
        Annotated[list[ElementSection], Tag(UNION_TAGS[1])] | Annotated[RecordingSection, Tag(UNION_TAGS[2])], Discriminator(_stream_tag)
    ]
    expect: list[ExpectedSection] | None = None
    facts: list[FactSection] | None = None
    events: list[str] | None = None


class TestSection(Section):
    """Test file: cases over one program. `events`: the labels that are compared; None: all but
    internal events."""

    config: str | None = None
    rules: list[str] = Field(default=[])
    knowledge: KnowledgeSection = KnowledgeSection()
    prefixes: dict[str, str] = Field(default={})
    time: TimeSection = TimeSection()
    windows: WindowsSection = WindowsSection()
    time_zone: ZoneName | None = None
    events: list[str] | None = None
    cases: list[CaseSection] = Field(min_length=1)


def is_test(data: object) -> bool:
    """True where a YAML document is a rule test."""
    return isinstance(data, dict) and "cases" in data


@dataclass(frozen=True, slots=True)
class TestFile:
    """Parsed test file: its section, its program's specification and the prefixes of its graphs."""

    section: TestSection
    tree: Tree
    spec: ProgramSpec
    prefixes: Mapping[str, str]
    config: Config | None = None

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.tree.document.name

    def named_files(self) -> Iterator[str]:
        """Paths and globs of the files that the test names, and those that its configuration names,
        relative to the working directory."""
        if self.config is None:
            yield from _program_files(ConfigFiles(self.tree, Location.of(self.path).parent), self.section.rules, self.section.knowledge)
        else:
            yield self.config.path
            yield from _program_files(self.config.files, self.config.settings.rules, self.config.settings.knowledge)
        for number, case in enumerate(self.section.cases):
            if isinstance(case.stream, RecordingSection):
                yield self.recording_path(case.stream, number)

    def recording_path(self, recording: RecordingSection, case: int) -> str:
        """The path of the recording of a case, relative to the working directory."""
        return ConfigFiles(self.tree, Location.of(self.path).parent).path(recording.file, ("cases", case, "stream", "file"))

    @property
    def expected_prefixes(self) -> Mapping[str, str]:
        """Prefixes of expectations and differences, with the well-known ones, such as xsd:."""
        return {**WELL_KNOWN, **self.prefixes}


def _program_files(files: ConfigFiles, rules: Sequence[str], knowledge: KnowledgeSection) -> Iterator[str]:
    graphs = [path_of_graph(graph) for graph in knowledge.graphs]
    lists = ((("rules",), rules), (("knowledge", "datalog"), knowledge.datalog), (("knowledge", "graphs"), graphs))
    yield from (files.path(text, (*location, number)) for location, texts in lists for number, text in enumerate(texts))
    yield from (files.path(each.path, ("knowledge", "tables", number, "path")) for number, each in enumerate(knowledge.tables))
    for key, named in (("contexts", knowledge.contexts), ("imports", knowledge.imports)):
        yield from (files.path(text, ("knowledge", key, iri)) for iri, text in named.items())


def read_file(path: str) -> tuple[TestFile, list[Diagnostic]]:
    """Read and parse a test file, as `parse_file` does."""
    return parse_file(read_document(path))


def parse_file(document: Document) -> tuple[TestFile, list[Diagnostic]]:
    """Parse a test file; returns the problems of the files that it names, too. Raises `Refused`
    with its own problems."""
    path = document.name
    hint = "A rule test is a .yaml file with `cases`; a configuration is run by `dotr run`."
    if Path(path).suffix == ".dlog" or RuleLanguage.of(path) is not None:
        raise refuse("C202", f"{path} is no rule test", None, hint)
    tree = read_tree(document)
    if not is_test(tree.data):
        raise refuse("C202", f"{path} is no rule test: it has no cases", tree.span(()) if tree.data is not None else None, hint)
    section = validated(TestSection, _with_terms(tree.data, tree), tree)
    if section.config is None:
        if not section.rules:
            raise refuse("C202", "rules is missing", tree.span(()), "Name the rule files, or a `config` that does.")
        spec, problems = ConfigFiles(tree, Location.of(path).parent).spec(
            section.rules, section.knowledge, section.prefixes, section.time, section.windows, section.time_zone
        )
        return TestFile(section, tree, spec, section.prefixes), problems
    own = [key for key in ("rules", "knowledge", "time", "windows", "time_zone") if section.is_given(key)]
    if own:
        message = f"a test has either `config`, or {', '.join(f'`{key}`' for key in own)} of its own"
        raise refuse("C204", message, tree.key_span((own[0],)), "Leave one of the two out.")
    named = ConfigFiles(tree, Location.of(path).parent).path(section.config, ("config",))
    config = read_config(matching_files(named, tree.span(("config",)))[0])
    spec, problems = config.spec()
    return TestFile(section, tree, spec, {**spec.prefixes, **section.prefixes}, config), problems


def _with_terms(data: object, tree: Tree, location: KeyPath = ()) -> object:
    """Document with attribute values as spelled in YAML: `m: 3.0` is the term 3.0."""
    match data:
        case dict():
            return {key: _with_terms(value, tree, (*location, key)) for key, value in data.items()}
        case list():
            return [_with_terms(value, tree, (*location, number)) for number, value in enumerate(data)]
        case _:
            return tree.scalar_text.get(location, data) if location[-2:-1] == ("attributes",) else data
