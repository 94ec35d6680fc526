"""Kept programs: the second command reads no text again, says the same, and believes no file but its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from dotr.commands.test.files import read_file
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.evaluation.files import trust
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.instant.datalog.entailment import Entailment
from dotr.languages import kept_programs
from dotr.languages import programs as of_languages
from dotr.languages.kept_programs import CheckedProgram, keep, kept_program
from dotr.languages.program_json import PROGRAM_CODEC
from dotr.languages.programs import compile_program
from dotr.model import calendars
from dotr.model.calendars import zone_of
from dotr.model.places import Document
from dotr.model.time import Unit
from dotr.runtimes.pipeline.config import read_config
from tests.conftest import Project
from tests.support.paths import ROOT, TESTS
from tests.support.properties import examples
from tests.support.strategies import ProgramText, programs

CONFIGS = ("city", "city-queries", "city-lars", "city-sequences", "mixed", "fire")
FILES = sorted((TESTS / "cases").glob("*.yaml"))
RULE = """
# dotr: allow D220 (read by a dashboard)
query Unread = [ SELECT ?x WHERE { ?x a :C } ]
rule R define Fire = [ [] a :Fire ; :in ?room ] from A
and last B [ FILTER(?room = A.?room) ] within 5 s from A
if BOUND(A.?room)
with Fire.?room = A.?room
query A = [ SELECT ?room WHERE { ?x :in ?room } ]
query B = [ SELECT ?room WHERE { ?x :hot ?room } ]
"""
DATALOG = ":in(?x, ?z) :- :in(?x, ?y), :in(?y, ?z) ."
SPEC = ProgramSpec((Document("r.dotr", RULE),), (Document("a.dlog", DATALOG),), prefixes={"": "http://e/"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept programs, which is not made yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOTR_KEEP_PROGRAMS", "1")
    return tmp_path / "cache" / "dotr" / "programs"


def checked(spec: ProgramSpec) -> CheckedProgram:
    with calendars.default_zone(spec.time_zone):
        return of_languages._checked_program(spec)


def written(spec: ProgramSpec, program: CheckedProgram) -> str:
    """The text of a program, which is that of an equal one with the same order of all mappings."""
    return PROGRAM_CODEC.encode(program, (*spec.rules, *spec.datalog))


def assert_kept_as_read(spec: ProgramSpec) -> None:
    read = checked(spec)
    keep(spec, read)
    kept = kept_program(spec)
    assert kept == read
    assert written(spec, kept) == written(spec, read)
    assert [str(each) for each in kept.warnings] == [str(each) for each in read.warnings]


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def no_text_is_read(spec: ProgramSpec) -> object:
    raise AssertionError(f"the texts of {spec.rules} are read")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cases_are_kept_as_they_were_read(path: Path, folder: Path) -> None:
    assert_kept_as_read(read_file(str(path))[0].spec)


@pytest.mark.parametrize("name", CONFIGS)
def test_configured_programs_are_kept_as_they_were_read(name: str, folder: Path) -> None:
    assert_kept_as_read(read_config(str(ROOT / "configs" / f"{name}.yaml"), []).program())


@examples(5)
@given(programs())
def test_random_programs_are_kept_as_they_were_read(text: ProgramText) -> None:
    files = (Document("random.dotr", text.rules),), (Document("random.dlog", text.datalog),)
    spec = ProgramSpec(*files, entailment=Entailment(text.entailment), unit=text.clock.unit)
    read = checked(spec)
    kept = PROGRAM_CODEC.decode(written(spec, read), (*spec.rules, *spec.datalog))
    assert kept == read
    assert written(spec, kept) == written(spec, read)


def test_places_are_in_the_texts_of_the_specification(folder: Path) -> None:
    keep(SPEC, checked(SPEC))
    assert "SELECT" not in only(folder).read_text()
    kept = kept_program(SPEC)
    assert kept is not None
    assert kept.rules.rules[0].span.document is SPEC.rules[0]
    assert [each.reason for each in kept.allowed] == ["read by a dashboard"]


def test_second_program_is_made_without_its_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_program(SPEC, CachePolicy.default())
    monkeypatch.setattr(of_languages, "_read_rules_and_units", no_text_is_read)
    second = compile_program(SPEC, CachePolicy.default())
    assert (second.layout, second.rules, second.closing_rules) == (first.layout, first.rules, first.closing_rules)
    assert (second.warnings, second.silenced) == (first.warnings, first.silenced)
    assert [each.diagnostic.code for each in second.silenced] == ["D220"]


def test_warnings_about_date_times_are_kept_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RULE.replace("if BOUND(A.?room)", "if time(A) - time(B) > 90")
    spec = ProgramSpec((Document("r.dotr", text),), prefixes={"": "http://e/"}, unit_given=True)
    warnings = compile_program(spec, CachePolicy.default()).warnings
    first = of_languages.warnings_with_form(spec, warnings, dated=True)
    monkeypatch.setattr(of_languages, "_read_rules_and_units", no_text_is_read)
    assert of_languages.warnings_with_form(spec, warnings, dated=True) == first
    assert len(first) > len(warnings)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(SPEC, rules=(Document("s.dotr", RULE),)), id="name of a file"),
        pytest.param(replace(SPEC, rules=(Document("r.dotr", f"{RULE} "),)), id="text"),
        pytest.param(replace(SPEC, datalog=(Document("a.dlog", f"{DATALOG}#"),)), id="Datalog"),
        pytest.param(replace(SPEC, prefixes={"": "http://f/"}), id="prefix"),
        pytest.param(replace(SPEC, entailment=Entailment.RDFS), id="entailment"),
        pytest.param(replace(SPEC, unit=Unit.HOUR), id="unit"),
        pytest.param(replace(SPEC, unit_given=True), id="unit given"),
        pytest.param(replace(SPEC, time_zone="Europe/Berlin"), id="zone"),
    ],
)
def test_another_program_is_not_taken_for_it(other: ProgramSpec, folder: Path) -> None:
    keep(SPEC, checked(SPEC))
    assert kept_program(other) is None
    assert kept_program(SPEC) is not None


def test_order_of_prefixes_is_part_of_the_program(folder: Path) -> None:
    one, two = {"": "http://e/", "x": "http://x/"}, {"x": "http://x/", "": "http://e/"}
    spec, other = replace(SPEC, prefixes=one), replace(SPEC, prefixes=two)
    keep(spec, checked(spec))
    assert kept_program(other) is None
    keep(other, checked(other))
    assert [list(each.rules.prefixes) for each in map(kept_program, (spec, other)) if each is not None] == [["", "x"], ["x", ""]]


def test_changed_parser_reads_the_texts_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "parser"
    (package / "part").mkdir(parents=True)
    (package / "__init__.py").touch()
    source = package / "part" / "grammar.py"
    source.write_text("A = 1\n")
    monkeypatch.setattr(kept_programs, "_PARSERS", ("parser",))
    monkeypatch.syspath_prepend(tmp_path)

    def again() -> CheckedProgram | None:
        kept_programs._parsers.cache_clear()
        return kept_program(SPEC)

    try:
        program = checked(SPEC)
        assert again() is None
        keep(SPEC, program)
        assert again() == program
        status = source.stat()
        source.write_text("A = 2\n")
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))  # the same size and time: the time of its change tells
        assert again() is None
    finally:
        kept_programs._parsers.cache_clear()


def test_programs_with_errors_are_not_kept(folder: Path) -> None:
    spec = replace(SPEC, datalog=(Document("a.dlog", ":in(?x) :-"),))
    found = []
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            compile_program(spec, CachePolicy.default())
        found.append(str(refused.value))
    assert found[0] == found[1]
    assert not folder.exists()


DAMAGES: Sequence[tuple[str, Callable[[bytes], bytes]]] = [
    ("empty", lambda data: b""),
    ("cut off", lambda data: data[:-5]),
    ("another constant", lambda data: data.replace(b"http://e/Fire", b"http://e/Firm")),
    ("no checksum", lambda data: data.partition(b"\n")[2]),
    ("no text", lambda data: b"\xff\xfe" * 50),
]


@pytest.mark.parametrize("damage", [pytest.param(change, id=name) for name, change in DAMAGES])
def test_damaged_file_is_read_anew_and_replaced(damage: Callable[[bytes], bytes], folder: Path) -> None:
    compile_program(SPEC, CachePolicy.default())
    path = only(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert kept_program(SPEC) is None
    compile_program(SPEC, CachePolicy.default())
    assert only(folder).read_bytes() == whole


@pytest.mark.parametrize(
    "text", ['[["Path","/etc/passwd"]]', '[["Document","a","b"]]', '[["CheckedProgram",1]]', '[["Severity","x"]]', "[[[],1]]", "[1", "\xe9"]
)
def test_text_of_another_form_is_read_anew(text: str, folder: Path) -> None:
    keep(SPEC, checked(SPEC))
    path = only(folder)
    data = text.encode()
    path.write_bytes(kept_programs._checksum(path, data) + b"\n" + data)
    assert kept_program(SPEC) is None


def test_file_under_the_name_of_another_program_is_not_believed(folder: Path) -> None:
    other = replace(SPEC, rules=(Document("r.dotr", RULE.replace("5 s", "9 s")),))
    keep(SPEC, checked(SPEC))
    path = only(folder)
    data = path.read_bytes()
    path.unlink()
    keep(other, checked(other))
    only(folder).write_bytes(data)
    assert kept_program(other) is None


def test_folder_that_others_can_write_to_is_not_used(folder: Path) -> None:
    keep(SPEC, checked(SPEC))
    folder.chmod(0o777)
    assert kept_program(SPEC) is None
    only(folder).unlink()
    keep(SPEC, checked(SPEC))
    assert list(folder.iterdir()) == []


def test_file_that_others_can_write_to_is_not_used(folder: Path) -> None:
    keep(SPEC, checked(SPEC))
    assert only(folder).stat().st_mode & 0o777 == 0o600
    only(folder).chmod(0o666)
    assert trust.distrust(only(folder)) is not None
    assert kept_program(SPEC) is None


def test_unwritable_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOTR_KEEP_PROGRAMS", "1")
    (tmp_path / "dotr").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        assert compile_program(SPEC, CachePolicy.default()).warnings == ()


def test_switched_off_it_neither_reads_nor_writes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(SPEC, checked(SPEC))
    monkeypatch.setenv("DOTR_KEEP_PROGRAMS", "0")
    assert kept_program(SPEC) is None
    keep(replace(SPEC, unit=Unit.HOUR), checked(SPEC))
    assert len(list(folder.iterdir())) == 1


def test_programs_without_a_policy_are_not_kept(folder: Path) -> None:
    compile_program(SPEC)
    compile_program(SPEC, CachePolicy(None))
    assert not folder.exists()


def test_longest_unused_files_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = checked(SPEC)
    monkeypatch.setattr(kept_programs, "_MAX_FILES", 3)
    now, specs = time.time(), [replace(SPEC, rules=(Document(f"r{number}.dotr", RULE),)) for number in range(5)]
    for number, spec in enumerate(specs[:3]):
        keep(spec, program)
        path = kept_programs._path(spec, "")
        assert path is not None
        os.utime(path, (1e9, now - 100 + number))
    assert kept_program(specs[0]) is not None  # used now, so that the second has been unused for longest
    for spec in specs[3:]:
        keep(spec, program)
    assert [kept_program(spec) is not None for spec in specs] == [True, False, False, True, True]
    monkeypatch.setattr(kept_programs, "_MAX_BYTES", len(only_text(specs[4])) + 1)
    keep(specs[1], program)
    assert [kept_program(spec) is not None for spec in specs] == [False, True, False, False, False]


def only_text(spec: ProgramSpec) -> bytes:
    path = kept_programs._path(spec, "")
    assert path is not None
    return path.read_bytes()


def test_unused_files_are_removed_after_a_month(folder: Path) -> None:
    old = replace(SPEC, unit=Unit.HOUR)
    keep(old, checked(old))
    os.utime(only(folder), (1e9, 1e9))
    keep(SPEC, checked(SPEC))
    assert only(folder) == kept_programs._path(SPEC, "")


def test_program_too_large_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_programs, "_LARGEST", 100)
    keep(SPEC, checked(SPEC))
    assert not folder.exists()


def test_zone_that_has_changed_is_read_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'rule R define E = [ [] a :E ] from every day at 07:00 in "Europe/Berlin" as T'
    spec = ProgramSpec((Document("r.dotr", text),), prefixes={"": "http://e/"})
    assert_kept_as_read(spec)
    berlin = zone_of("Europe/Berlin")
    monkeypatch.setattr(kept_programs, "zone_of", lambda name: replace(berlin, offsets=(0, *berlin.offsets[1:])))
    assert kept_program(spec) is None


def test_programs_are_kept_by_several_at_once(folder: Path) -> None:
    program = checked(SPEC)
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda _: keep(SPEC, program), range(20)):
            pass
    assert kept_program(SPEC) == program
    assert len(list(folder.iterdir())) == 1


CONFIG = """name: fire
prefixes: { "": "http://e/" }
knowledge: { datalog: [a.dlog] }
rules: [r.dotr]
input: [ { name: rows, format: csv, path: in.csv, time: t, map: "[] :in :{room} ; :hot :{heat} ." } ]
output: [ { format: ndjson, path: out.ndjson }, { format: trig, path: out.trig } ]
"""
TEST = """
rules: [r.dotr]
prefixes: { "": "http://e/" }
cases:
  - name: one
    stream: [ { at: 1, graph: ":x :in :a ; :hot :a ." }, { at: 2, graph: ":x :in :a ." } ]
    expect: [ { at: 2, event: Fire } ]
"""
COMMANDS = (
    ("run", "fire.yaml", "--engine", "local", "--fresh"),
    ("check", "fire.yaml"),
    ("check", "."),
    ("test", "t.yaml"),
    ("explain", "fire.yaml"),
)


def write(project: Project, rules: str) -> None:
    files = {"fire.yaml": CONFIG, "r.dotr": rules, "a.dlog": DATALOG, "t.yaml": TEST, "in.csv": "t,room,heat\n1,a,a\n2,a,b\n"}
    for name, text in files.items():
        project.write(name, text)


def test_commands_say_the_same_from_what_is_kept(folder: Path, project: Project) -> None:
    bad = "rule Odd define Odd = [ [] a :Odd ] from A as Q and each A as P within 5 s from Q if 1 = 'x'\n"
    write(project, RULE + bad)

    def results() -> list[object]:
        files = ("out.ndjson", "out.trig")
        return [(project.dotr(*command), [project.read(name) for name in files]) for command in COMMANDS]

    first = results()
    assert len(list(folder.iterdir())) >= 3
    again = results()
    folder.rename(folder.with_name("gone"))
    assert again == first == results()
    assert any("warning" in answer[0].err for answer in first)  # type: ignore[index]


def test_second_command_imports_no_parser(folder: Path, project: Project) -> None:
    write(project, RULE)
    commands = COMMANDS[:2] + COMMANDS[3:]
    assert [project.dotr(*command).code for command in commands] == [0, 0, 0, 0]
    code = (
        "import json, sys; from dotr.commands import main; print(json.dumps([list(map(main, json.loads(sys.argv[1]))), list(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(commands)], capture_output=True, text=True, check=True)
    codes, modules = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0, 0, 0, 0]
    parsers = ("rdflib", "pyparsing", "dotr.syntax.sparql", "dotr.syntax.datalog", "dotr.languages.rules.grammar")
    assert [name for name in modules if name.startswith(parsers)] == []
