"""`dotr check`: all problems of rule files, Datalog files, configurations and rule tests.

A rule file named by a checked configuration or test is checked as part of that program, with its
prefixes and the labels of its other files; a file of a folder also where a configuration of the
workspace, else a rule test, names it (`claimants`). Any other rule file is checked alone, or with
the remaining ones where it needs their labels. Programs without errors are reported with their
retained state.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from dotr.commands.check.allowed import AllowedWarnings, entry_spans, unknown_names
from dotr.commands.check.data import check_data, check_lists_of_times, objects_of_graphs, objects_of_inputs
from dotr.commands.check.misspelt_names import StreamTexts, misspelt_names, texts_of_inputs
from dotr.commands.check.retained_state import RetainedState, shown_prefixes, state
from dotr.commands.test.cases import read_cases, uncompared_events, unplaced_elements, wrong_lists_of_events
from dotr.commands.test.files import TestFile, is_test, read_file
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec, RuleSet
from dotr.engine.stream_terms import StreamObjects
from dotr.engine.unit_runs import engine_unit
from dotr.errors.diagnostics import Diagnostic, Refused, Severity, refuse
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.instant.datalog.background.knowledge import problems_of
from dotr.languages.allowances import allowances, allowances_above
from dotr.languages.codes import RuleCode
from dotr.languages.declarations import nothing_said
from dotr.languages.programs import compile_program, rules_alone, warnings_on_conditions, warnings_on_windows, warnings_with_form
from dotr.languages.registry import RuleLanguage, extension_problem
from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.model.rules import FactSource
from dotr.model.terms import Prefixes
from dotr.model.units import FedGraphs
from dotr.runtimes.pipeline.build import check_files
from dotr.runtimes.pipeline.config import Config, matching_files, read_config, read_document
from dotr.runtimes.pipeline.elements import grows
from dotr.runtimes.pipeline.outputs import chosen_events
from dotr.runtimes.pipeline.sections import SHOW_ATTRIBUTES, Settings
from dotr.syntax.yaml import read_tree
from dotr.temporal.layout.units import StreamUnit

YAML: Final = (".yaml", ".yml")
_NOT_ENTERED: Final = frozenset(["__pycache__", "node_modules"])
_RULE_FILES: Final = tuple(language.value for language in RuleLanguage)
_KINDS: Final = (*_RULE_FILES, ".dlog", *YAML)
_OF_OTHER_FILES: Final = (RuleCode.UNBOUND_LABEL, RuleCode.UNKNOWN_EVENT)


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check.

    - `diagnostics`: every problem once.
    - `file_count`: number of checked files; `skipped_count`: number of YAML files of other
      programs.
    - `states`: retained state of each program.
    - `accepted_count`: number of warnings accepted by configurations (`report.accept`) and
      comments.
    - `inputs`: lines about the data of each input, and about what Spark reads by one task.
    """

    diagnostics: tuple[Diagnostic, ...]
    file_count: int
    skipped_count: int
    states: tuple[RetainedState, ...]
    accepted_count: int = 0
    inputs: tuple[str, ...] = ()


def check(paths: Sequence[str], data: int | None = None, options: Sequence[str] = ()) -> Checked:
    """Check files, and the files of known kinds below folders.

    Args:
        paths: files and folders.
        data: the number of records that are checked of each input of a configuration; None: no
            data is read.
        options: `--set` options, for each of the configurations.
    """
    problems: list[Diagnostic] = []
    files: dict[str, None] = {}
    named: set[str] = set()
    below: set[str] = set()
    skipped_count = 0
    for path in paths:
        try:
            for file in _files_below(path) if Path(path).is_dir() else [_checked_file(path)]:
                if Path(path).is_dir() and not _is_dotr_yaml(file):
                    skipped_count += 1
                else:
                    files.setdefault(file)
                    (below if Path(path).is_dir() else named).add(file)
        except Refused as refused:
            problems += refused.diagnostics
    programs: _Programs = {}
    accepted: list[Diagnostic] = []
    allowed = AllowedWarnings()
    inputs: list[str] = []
    sample = _DataCheck(data, inputs, options)
    of_programs = [_check_yaml(file, programs, accepted, allowed, sample) for file in files if Path(file).suffix in YAML]
    if options and all(each.is_test for each in of_programs):
        problems.append(Diagnostic("C218", "--set changes a configuration, and none is among the files", None, "Name the configuration."))
    covered = {file for each in of_programs for file in each.files}
    in_folders = {os.path.realpath(file) for file in below if Path(file).suffix not in YAML} - covered
    if in_folders:
        folders = [path for path in paths if Path(path).is_dir()]
        claiming = claimants(folders, in_folders, {os.path.realpath(file) for file in files})
        problems += claiming.problems
        asked = {os.path.realpath(file) for file in files}
        of_programs += [_check_yaml(path, programs, accepted, allowed, None).in_files(asked) for path in claiming.paths]
        covered.update(file for each in of_programs for file in each.files)
    problems += _together(of_programs)
    rest = [file for file in files if os.path.realpath(file) not in covered]
    rule_files = [file for file in rest if Path(file).suffix in _RULE_FILES]
    problems += [problem for file in rule_files if (problem := extension_problem(file))]
    rule_files = [file for file in rule_files if extension_problem(file) is None]
    together = [file for file in rule_files if file in named]
    if all(file.endswith(".dotr") for file in together):
        together = []
    elif together:
        problems += _check_units(together, allowed)
    alone = [file for file in rule_files if file not in together]
    problems += _check_rules([file for file in alone if file.endswith(".dotr")], programs, allowed)
    for file in alone:
        if not file.endswith(".dotr"):
            problems += _check_units([file], allowed)
    for file in rest:
        if file.endswith(".dlog"):
            problems += _check_datalog(file, allowed)
    problems += allowed.problems()
    unique = {str(diagnostic): diagnostic for diagnostic in problems}
    accepted_count = len({str(each) for each in (*accepted, *allowed.silenced)})
    return Checked(tuple(unique.values()), len(files), skipped_count, tuple(programs.values()), accepted_count, tuple(inputs))


def _files_below(folder: str) -> list[str]:
    """Files of known kinds below a folder."""
    files = list(files_in(folder, _KINDS))
    if not files:
        raise refuse("C303", f"there is nothing below {folder} that dotr checks", None, f"It checks {', '.join(_KINDS)}.")
    return files


def _checked_file(path: str) -> str:
    (file, *_) = matching_files(path, None, "Is the path right? Relative paths are relative to the working directory.")
    if Path(file).suffix not in _KINDS:
        raise refuse("C303", f"{path} is nothing that dotr checks", None, f"It checks {', '.join(_KINDS)}.")
    return file


def _is_dotr_yaml(file: str) -> bool:
    """True if a file in a folder belongs to dotr; a YAML file may belong to another program."""
    if Path(file).suffix not in YAML:
        return True
    try:
        data = read_tree(read_document(file)).data
    except Refused:
        return True
    own = set(Settings.model_fields) - {"name", "time", "engine", "prefixes"}
    return is_test(data) or (isinstance(data, dict) and not own.isdisjoint(data))


_Programs: TypeAlias = dict[frozenset[str], RetainedState]
"""Retained state of the programs without errors, keyed by the names of their rule files."""


@dataclass(frozen=True, slots=True)
class _DataCheck:
    """The number of records that are read of each input (None: no data), the lines about them, and
    the `--set` options of configurations."""

    records: int | None
    lines: list[str]
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _ProgramProblems:
    """Problems of a configuration or rule test and of its program.

    - `path`: the YAML file; `is_test`: it is a rule test.
    - `files`: the real paths of the program's files of rules and Datalog.
    - `is_whole`: the program has all files that it names.
    """

    path: str
    problems: Sequence[Diagnostic]
    files: frozenset[str] = frozenset()
    is_test: bool = False
    is_whole: bool = True

    def in_files(self, asked: Collection[str]) -> _ProgramProblems:
        """Those for the check of some files of the program, by their real paths: the errors of its
        files, and the warnings in these files. An incomplete program has no warnings."""
        errors = [each for each in self.problems if each.severity is Severity.ERROR and _file_of(each) in self.files]
        warnings = [each for each in self.problems if each.severity is Severity.WARNING and self.is_whole and _file_of(each) in asked]
        return replace(self, problems=[each for each in self.problems if each in errors or each in warnings])


def _file_of(diagnostic: Diagnostic) -> str:
    """The real path of the file of a diagnostic; empty without a place."""
    return os.path.realpath(diagnostic.span.document.name) if diagnostic.span is not None else ""


def _together(programs: Sequence[_ProgramProblems]) -> Iterator[Diagnostic]:
    """The problems of several programs, each once.

    In a file that several configurations name, a problem of some of them names these; a problem of
    the file that a rule test shares with a configuration is the configuration's.
    """
    configurations = [each for each in programs if not each.is_test]
    found = {each.path: set(map(str, each.problems)) for each in configurations}
    told: set[str] = set()
    for program in programs:
        for problem in program.problems:
            text, file = str(problem), _file_of(problem)
            naming = [each.path for each in configurations if file in each.files and (each.is_whole or problem.severity is Severity.ERROR)]
            having = [path for path in naming if text in found[path]]
            if text in told:
                continue
            told.add(text)
            is_shared = len(having) in (0, len(naming))
            yield problem if is_shared else replace(problem, message=f"{problem.message} (in {', '.join(having)})")


def _check_yaml(
    path: str, programs: _Programs, accepted: list[Diagnostic], allowed: AllowedWarnings, data: _DataCheck | None
) -> _ProgramProblems:
    """Problems of a configuration or rule test and of its program.

    Adds the warnings that the configuration accepts to `accepted`, and lines about its data to
    `data.lines`. Without `data` the file is not checked itself, but for files that it names.
    """
    try:
        tree = read_tree(read_document(path))
        comments = list(allowances_above(tree.document, entry_spans(tree))) if data and "dotr:" in tree.document.text else []
        if is_test(tree.data):
            test, problems = read_file(path)
            is_whole = not problems
            graphs = [graph for case in read_cases(test, problems) for graphs in case.elements.values() for graph in graphs]
            found = _check_program(
                path, test.spec, problems, programs, objects_of_graphs(graphs), StreamTexts(graphs=tuple(graphs)), allowed, test
            )
            kept = allowed.kept([*problems, *found], comments)
            if not _errors(kept):
                allowed.judge(comments, with_data=True)
            return _ProgramProblems(path, kept, claimed_files(test.spec), is_test=True, is_whole=is_whole)
        config = read_config(path, data.options if data else ())
        spec, problems = config.spec()
        is_whole = not problems
        objects, texts = objects_of_inputs(config), texts_of_inputs(config)
        found = _check_program(path, spec, problems, programs, objects, texts, allowed, config=config)
        every = allowed.kept([*problems, *found, *(check_files(config, data.lines) if data else ())], comments)
        if data and data.records is not None and not _errors(every):
            checked = check_data(config, compile_program(spec, config.cache_policy()), data.records)
            every = [*warnings_with_form(spec, every, checked.dated), *allowed.kept(checked.warnings, comments)]
            data.lines.extend(checked.lines)
        if data and not _errors(every):
            if data.records is None:
                every += allowed.kept(check_lists_of_times(config), comments)
            tables = [section.name for section in config.settings.input if section.format == "parquet"]
            data.lines.extend(f"Input {name}: on Spark the times of a Parquet file are read by one task." for name in tables)
        if not _errors(every):
            allowed.judge(comments, with_data=True)
        accepted_here = [d for d in every if d.severity is Severity.WARNING and d.code in config.settings.report.accept]
        accepted += accepted_here
        return _ProgramProblems(path, [d for d in every if d not in accepted_here], claimed_files(spec), is_whole=is_whole)
    except Refused as refused:
        return _ProgramProblems(path, refused.diagnostics)


def _check_program(
    path: str,
    spec: ProgramSpec,
    missing: Sequence[Diagnostic],
    programs: _Programs,
    stream_objects: StreamObjects,
    texts: StreamTexts,
    allowed: AllowedWarnings,
    test: TestFile | None = None,
    config: Config | None = None,
) -> list[Diagnostic]:
    """Problems of a program, of the names that a test uses, and of the outputs of a configuration.

    Problems that are only consequences of missing files are left out."""
    try:
        program = compile_program(spec, CachePolicy.default() if config is None else config.cache_policy())
        comments = [each for document in (*spec.rules, *spec.datalog) for each in allowances(document)]
        of_rules = [*warnings_on_conditions(program, stream_objects), *misspelt_names(program, texts)]
        with_data = allowed.kept([*of_rules, *warnings_on_windows(program, stream_objects)], comments)
        is_shown = config is None or any(section.format in SHOW_ATTRIBUTES for section in config.settings.output)
        warnings = [each for each in program.warnings if each.code != RuleCode.UNUSED_ASSIGNMENT or not is_shown]
        problems = [*warnings, *program.notices, *with_data]
        if config is not None:
            problems += allowed.kept([*_output_problems(config, program), *_clock_warnings(config, program)], comments)
        allowed.note(program.silenced)
        allowed.judge(comments, with_data=test is None)
        _add_state(path, spec.rules, program.rules, programs, program.units, shown_prefixes(spec))
        if test is not None:
            problems += [*unknown_names(test, program), *unplaced_elements(test, program)]
            problems += [*wrong_lists_of_events(test, program), *uncompared_events(test, program)]
    except Refused as refused:
        problems = [*refused.diagnostics]
        for document in spec.datalog:
            problems += _safety(document, spec)
    return [d for d in problems if not (missing and d.code in _OF_OTHER_FILES)]


def _output_problems(config: Config, program: CompiledProgram) -> list[Diagnostic]:
    """Problems of the events and keys that outputs name, and warnings: of labels of units whose
    events have no graph, where no output shows such events (C238), and of internal events that no
    unit reads and no output names (D331)."""
    problems: list[Diagnostic] = []
    chosen = chosen_events(config, program, problems)
    formats = [(own, section.format) for own, section in zip(chosen, config.settings.output, strict=True)]
    for made in (made for unit in program.units for made in unit.makes if not made.has_graphs):
        if not any(form == "ndjson" and (own is None or made.label in own.labels) for own, form in formats):
            message = f"no output shows the events of {made.label}: they have no graph"
            hint = "Add an output of the format ndjson; the others leave events without a graph out."
            problems.append(Diagnostic("C238", message, made.span, hint, Severity.WARNING))
    shown = {label for own in chosen for label in (program.internal if own is None else own.labels)}
    read = {getattr(stream, "label", stream) for stream in program.layout.routes}
    for rule in program.rules.rules:
        if rule.internal and rule.event not in read | shown:
            message = f"{rule.event} is internal, no rule and no unit reads it, and no output names it"
            hint = f"Leave internal out, or write events: [{rule.event}] in an output."
            problems.append(Diagnostic(RuleCode.UNREAD_INTERNAL, message, rule.span, hint, Severity.WARNING))
    return problems


def _clock_warnings(config: Config, program: CompiledProgram) -> Iterator[Diagnostic]:
    """The warning (I117) of what fires as time goes on and reads inputs that grow, where there is no
    clock: it waits for the next element."""
    growing = [section.name for section in config.settings.input if grows(section)]
    if not growing or config.settings.clock is not None:
        return
    fed = {each.fed for each in config.streams() if each.name in growing}
    waiting = [
        (rule.name, rule.anchor.span)
        for rule in program.rules.rules
        if rule.anchor.delay or (isinstance(rule.anchor.source, FactSource) and rule.anchor.source.period is not None)
    ]
    for unit in program.units:
        read = [each.stream.name for each in unit.reads if isinstance(each.stream, FedGraphs)]
        if engine_unit(unit).waits and (not read or fed.intersection(read)):
            waiting.append((unit.name, unit.span))
    if waiting:
        name, span = waiting[0]
        others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        fire = "fire" if others else "fires"
        message = f"{name}{others} {fire} as time goes on, and while input {growing[0]} is silent no time goes on"
        hint = "Write clock: 10 s in the configuration: the time then follows the machine's; or accept it: report: { accept: [I117] }"
        yield Diagnostic("I117", message, span, hint, Severity.WARNING)


def _add_state(
    title: str,
    documents: Iterable[Document],
    rules: RuleSet,
    programs: _Programs,
    units: Sequence[StreamUnit] = (),
    prefixes: Prefixes | None = None,
) -> None:
    files = frozenset(os.path.realpath(document.name) for document in documents)
    if files and files not in programs:
        programs[files] = state(title, rules, units, prefixes)


def _safety(document: Document, spec: ProgramSpec) -> list[Diagnostic]:
    from dotr.syntax.datalog import parse_datalog

    try:
        return problems_of(parse_datalog(document, spec.prefixes))
    except Refused:
        return []  # reported already, by the compilation of the program


def _check_rules(paths: Sequence[str], programs: _Programs, allowed: AllowedWarnings) -> list[Diagnostic]:
    """Problems of rule files that no checked configuration or test names."""
    problems: list[Diagnostic] = []
    documents: list[Document] = []
    for path in paths:
        try:
            documents.append(read_document(path))
        except Refused as refused:
            problems += refused.diagnostics
    all_rules = rules_alone(documents) if len(documents) > 1 else RuleSet((), (), ())
    for document in documents:
        own_rules = rules_alone([document])
        alone = [*own_rules.diagnostics, *filter(None, [nothing_said(document)])]
        comments = allowances(document)
        if not own_rules.errors:
            _add_state(document.name, [document], own_rules, programs)
        elif any(d.code in _OF_OTHER_FILES for d in alone):
            with_others = [d for d in all_rules.diagnostics if d.span is not None and d.span.document is document]
            if len(documents) > 1 and _errors(with_others) < _errors(alone):
                alone = with_others
                if not all_rules.errors:
                    _add_state(", ".join(d.name for d in documents), documents, all_rules, programs)
        if not _errors(alone):
            allowed.judge(comments, with_data=False)
        problems += allowed.kept(_prefixes_once(alone, "prefix" in document.text.lower()), comments)
    return problems


def _check_units(paths: Sequence[str], allowed: AllowedWarnings) -> list[Diagnostic]:
    """Problems of rule files of several languages as one program, which no configuration names."""
    try:
        documents = tuple(map(read_document, paths))
        program = compile_program(ProgramSpec(documents), CachePolicy.default())
    except Refused as refused:
        declares = any("prefix" in each.span.document.text.lower() for each in refused.diagnostics if each.span)
        return _prefixes_once(refused.diagnostics, declares)
    comments = [each for document in documents for each in allowances(document)]
    allowed.note(program.silenced)
    allowed.judge(comments, with_data=False)
    return [*program.warnings, *program.notices]


def _errors(diagnostics: Iterable[Diagnostic]) -> int:
    return sum(d.severity is Severity.ERROR for d in diagnostics)


def _prefixes_once(diagnostics: Iterable[Diagnostic], declares: bool) -> list[Diagnostic]:
    """Keep each unknown prefix once in a file that declares none; its configuration may declare
    them."""
    kept_problems: list[Diagnostic] = []
    reported: set[str] = set()
    for diagnostic in diagnostics:
        if declares or not diagnostic.message.startswith("unknown prefix"):
            kept_problems.append(diagnostic)
        elif diagnostic.message not in reported:
            reported.add(diagnostic.message)
            prefix = _prefix(diagnostic.span)
            hint = (
                f"Declare it here (PREFIX {prefix} <…>), or check the file with the configuration that names it and declares its prefixes."
            )
            kept_problems.append(replace(diagnostic, hint=hint))
    return kept_problems


def _prefix(span: Span | None) -> str:
    return span.text.partition(":")[0] + ":" if span else ":"


def _check_datalog(path: str, allowed: AllowedWarnings) -> list[Diagnostic]:
    from dotr.syntax.datalog import parse_datalog

    try:
        document = read_document(path)
        allowed.kept([], allowances(document))
        rules = parse_datalog(document, {})
    except Refused as refused:
        declares = "prefix" in "".join(d.span.document.text.lower() for d in refused.diagnostics[:1] if d.span)
        return _prefixes_once(refused.diagnostics, declares)
    return [*problems_of(rules), *filter(None, [nothing_said(document)])]


# The programs that a file of rules or Datalog is a part of: those of the configurations, else the
# rule tests, of its workspace that name it.
#
# The workspace of a folder is the working directory where the folder lies in it, else the folder
# itself. Hidden folders, virtual environments and those of package managers are not entered.


@dataclass(frozen=True, slots=True)
class Claimants:
    """The YAML files of a workspace that name certain files.

    - `paths`: those whose programs have the files.
    - `problems`: of configurations that name one of the files and cannot be read, where no other
      file names it.
    """

    paths: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


def files_in(folder: str, endings: Sequence[str]) -> Iterator[str]:
    """The files below a folder with one of the endings of names, without those of folders that are
    not entered."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _NOT_ENTERED and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        yield from (os.path.normpath(os.path.join(place, name)) for name in sorted(names) if Path(name).suffix in endings)


def claimed_files(spec: ProgramSpec) -> frozenset[str]:
    """The real paths of a program's files of rules and Datalog."""
    return frozenset(os.path.realpath(document.name) for document in (*spec.rules, *spec.datalog))


def claimants(folders: Sequence[str], files: Collection[str], known: Collection[str]) -> Claimants:
    """The configurations of the workspaces of folders that name any of some files, and for the
    files that none names, the rule tests.

    Args:
        folders: the folders that are checked.
        files: the real paths of files below them.
        known: the real paths of YAML files that are left out, since they are checked anyway.
    """
    unclaimed = set(files)
    documents = [
        path
        for root in dict.fromkeys(map(_workspace, folders))
        for path in files_in(root, YAML)
        if os.path.realpath(path) not in known and _may_name_files(path)
    ]
    found: dict[str, None] = {}
    unreadable: list[tuple[Refused, str]] = []
    for tests in (False, True):
        left = set(unclaimed)
        for path in documents if left else ():
            try:
                if is_test(read_tree(read_document(path)).data) is not tests:
                    continue
                spec = read_file(path)[0].spec if tests else read_config(path).spec()[0]
            except Refused as refused:
                unreadable += [(refused, path)] if not tests else []
                continue
            if own := claimed_files(spec) & left:
                found.setdefault(path)
                unclaimed -= own
    names = [os.path.basename(file) for file in unclaimed]
    problems = [
        each for refused, path in unreadable if any(name in Path(path).read_text("utf-8") for name in names) for each in refused.diagnostics
    ]
    return Claimants(tuple(found), tuple(problems))


def _workspace(folder: str) -> str:
    here, path = os.getcwd(), os.path.realpath(folder)
    is_inside = here != os.sep and os.path.commonpath([os.path.realpath(here), path]) == os.path.realpath(here)
    return "." if is_inside else folder


def _may_name_files(path: str) -> bool:
    """True of a YAML file with keys of a configuration or a rule test, so that it may name
    files."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return False
    return ("input" in text or "cases" in text) and ("rules" in text or "config" in text)
