"""Written names of checkpoints and digests are independent of the names in the code."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest

import dotr
from dotr.engine.state import forms as written
from dotr.engine.state.forms import FORMS, MEMBERS, OMITTED, Unless, WrittenForm
from dotr.engine.state.schema import plain_data
from dotr.evaluation.expressions.functions import IN_ZONE
from dotr.languages.programs import compile_program
from dotr.model.algebra import Call, Const, MatchPattern, Var, WindowBlock
from dotr.model.calendars import Calendar, Zone, calendar_of
from dotr.model.datalog import DatalogRule
from dotr.model.places import Span
from dotr.model.rules import FactSource, Once, Rule
from dotr.model.templates import Cell, CellIri, CellLiteral, CellType
from dotr.model.time import Unit
from dotr.runtimes.spark.exchange import names as stored_names
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.syntax.datalog import parse_datalog
from tests.support.stored_checkpoints import FOLDER
from tests.support.stored_forms import FILES, FULL, OFFSET, PLAIN, ROWS, SMALL, kept, sent
from tests.support.stored_program import HOME, WHOLE, spec


@pytest.mark.parametrize("number", range(2), ids=["kept", "sent"])
def test_written_texts_equal_the_stored_ones(number: int) -> None:
    """The order of members counts: the texts are hashed."""
    makes: tuple[Callable[[], dict[str, object]], ...] = kept, sent
    known, made = json.loads(FILES[number].read_text()), json.loads(json.dumps(makes[number]()))
    assert list(made) == list(known)
    for name in known:
        assert json.dumps(made[name], indent=1) == json.dumps(known[name], indent=1), name


def test_stored_specifications_and_jobs_are_read() -> None:
    known = json.loads(FILES[1].read_text())
    assert type(SMALL).from_json(known["specification"][0]) == SMALL
    assert type(FULL).from_json(known["specification"][1]).limits == FULL.limits
    assert [type(PLAIN).from_json(text) for text in known["inputs"]] == [PLAIN, ROWS]
    assert [Job.from_json(text).to_json() for text in known["job"]] == known["job"]
    assert Offset.of_json(json.loads(json.loads(FILES[0].read_text())["offset"])) == OFFSET


MODULES: Final = {path.stem for path in Path(dotr.__file__).parent.rglob("*.py")}
CLASSES: Final = {
    *(kind.__name__ for kind in FORMS),
    *["FactSource", "DateTime", "Date", "Time", "RuleState", "StateSchema", "Manifest", "LogSegment", "Job", "InputFile"],
}
OTHERS: Final = {"Sequence", "Group", "Var"}
"""Classes of Python's or a library's, too."""
ENUMS: Final = {"EACH", "LAST", "FIRST", "ASCENDING", "DESCENDING", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY"}
FIELDS: Final = {
    "anchor",
    "assignments",
    "consuming",
    "low_closed",
    "high_closed",
    "backward",
    "conditions",
    "of_rule_set",
    "negated",
    "reported",
    "oldest",
    "batch",
    "event_counts",
    "segments",
    "set_count",
    "recent",
    "generation",
    "buckets",
    "moved",
    "dated",
    "ports",
    "inconsistent",
    "axiomatic",
    "constraints",
}
NAMES: Final = re.compile(rf"\b(?:{'|'.join(sorted((CLASSES | ENUMS | FIELDS) - OTHERS - MODULES))})\b")
INSIDE: Final = re.compile(r"\{\{|\{[^{}]*\}")
"""Replacement fields of an f-string, or an escaped brace."""


def _renamed(text: str) -> str:
    """The module with other names; string literals stay, and names of modules in imports."""
    lines = text.splitlines(keepends=True)
    for each in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        (row, start), (last, end) = each.start, each.end
        of_a_module = re.match(r"\s*(?:from|import) ", each.line) and "import" not in each.line[:start].split()
        if each.type == tokenize.NAME and NAMES.fullmatch(each.string) and not of_a_module:
            new = f"{each.string}_x"
        elif each.type == tokenize.STRING and "f" in each.string.partition(each.string[-1])[0].lower():  # up to Python 3.11 a token
            new = INSIDE.sub(lambda found: NAMES.sub(r"\g<0>_x", found[0]), each.string)
        else:
            continue
        lines[row - 1 : last] = (lines[row - 1][:start] + new + lines[last - 1][end:]).splitlines(keepends=True)
    return "".join(lines)


def test_renamed_code_writes_the_same(tmp_path: Path) -> None:
    """Classes, members of enumerations and fields are renamed as by a script."""
    root = Path(dotr.__file__).parent.parent
    shutil.copytree(root / "dotr", tmp_path / "dotr", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(root / "tests" / "oracle", tmp_path / "tests" / "oracle", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(FOLDER, tmp_path / "tests" / "checkpoints")
    shutil.copytree(root / "tests" / "support", tmp_path / "tests" / "support", ignore=shutil.ignore_patterns("__pycache__"))
    count = 0
    for path in tmp_path.rglob("*.py"):
        text = path.read_text()
        path.write_text(_renamed(text))
        count += path.read_text() != text
    assert count > 100
    for path in FILES:
        (tmp_path / "tests" / "checkpoints" / path.name).unlink()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.stored_forms"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for path in FILES:
        assert (tmp_path / "tests" / "checkpoints" / path.name).read_text() == path.read_text()


NAMING: Final = {"asdict", "astuple", "_asdict", "_fields", "__members__", "__dataclass_fields__"}


def test_no_code_lists_field_names() -> None:
    """No function that lists field names is called anywhere."""
    for path in Path(dotr.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            assert name not in NAMING, f"{path}:{getattr(node, 'lineno', 0)}"


def _types_in(hint: Any) -> Iterator[type]:
    for each in get_args(hint) or (hint,):
        if isinstance(each, type):
            yield each
        elif get_args(each):
            yield from _types_in(each)


def _rule_classes() -> set[type]:
    """Classes and enumerations reachable from a rule or a Datalog rule."""
    found: set[type] = set()
    waiting: list[type] = [Rule, DatalogRule]
    while waiting:
        kind = waiting.pop()
        if kind not in found and kind is not Span and (is_dataclass(kind) or issubclass(kind, Enum)):
            found.add(kind)
            if is_dataclass(kind):
                hints = get_type_hints(kind)
                waiting += [each for field in fields(kind) for each in _types_in(hints[field.name])]
    return found


def test_every_part_of_a_rule_has_a_written_name() -> None:
    found = _rule_classes()
    beside_the_digest = {FactSource, Once}  # a change of `once` keeps the state of its rule
    assert {kind for kind in found if not issubclass(kind, Enum)} - beside_the_digest == set(FORMS)
    assert {member for kind in found if issubclass(kind, Enum) for member in kind} == set(MEMBERS)


def test_a_field_without_a_written_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Window:
        interval: int
        further: int = 0

    with pytest.raises(TypeError, match=r"Window: the fields .*further.* have no written names"):
        written._form(Window, "Window", interval="interval")
    with pytest.raises(TypeError, match="'gone'"):
        written._form(Window, "Window", interval="interval", further=OMITTED, gone="gone")
    with pytest.raises(TypeError, match="Window has no digest"):
        plain_data(Window(1))
    kind, form = written._form(Window, "Old", interval="span", further=Unless("more", 0))
    monkeypatch.setattr("dotr.engine.state.schema.FORMS", {kind: form})
    assert form == WrittenForm("Old", (("interval", "span"), ("further", Unless("more", 0))))
    assert plain_data([Window(1), Window(1, 2)]) == [["Old", ["span", 1]], ["Old", ["span", 1], ["more", 2]]]


def _nouns(noun: object) -> Iterator[object]:
    if isinstance(noun, tuple):
        for each in noun:
            yield from _nouns(each)
    elif is_dataclass(noun) and not isinstance(noun, Span):
        yield type(noun)
        for field in fields(noun):
            yield from _nouns(getattr(noun, field.name))
    elif isinstance(noun, Enum):
        yield noun


def test_stored_checkpoint_covers_every_written_name() -> None:
    rules = tuple(WHOLE.made().rules.rules)
    clauses = tuple(rule for document in spec().datalog for rule in parse_datalog(document, {}))
    found = set(_nouns((rules, clauses)))
    assert {*FORMS, *MEMBERS, FactSource} - found == {
        Cell,
        *CellType,
        CellIri,
        CellLiteral,
        WindowBlock,
        MatchPattern,
        Calendar,
        Zone,
    }  # in maps, continuous queries, and ticks by calendars


def test_spark_names_equal_those_of_the_stored_folder() -> None:
    for packed in HOME.glob("spark-*.tar.xz"):
        with tarfile.open(packed) as tar:
            texts = {member.name: file.read().decode(errors="replace") for member in tar if (file := tar.extractfile(member)) is not None}
        for layer in range(2):
            metadata = texts[f"checkpoint/query/state/{layer}/_metadata/v2/0"].splitlines()[1]
            variables = json.loads(json.loads(metadata)["operatorPropertiesJson"])["stateVariables"]
            assert [each["stateName"] for each in variables] == [stored_names.BUCKET, stored_names.LOG]
            schema = next(text for name, text in texts.items() if f"state/{layer}/_stateSchema" in name)
            for name in (stored_names.KEY, stored_names.DIGEST, stored_names.WRITTEN, stored_names.LOG_NUMBER, stored_names.PLACE):
                assert f'"name":"{name}"' in schema
            assert f'"name":"{stored_names.LINES}","type":"binary"' in schema
        assert list(json.loads(texts["checkpoint/dotr.json"])["holdings"]) == ["knowledge", "rules", "keys"]


def test_units_have_written_names() -> None:
    assert [Unit.from_written(unit.written) for unit in Unit] == list(Unit)
    with pytest.raises(KeyError):
        Unit.from_written("parsec")
    assert compile_program(SMALL).spec.unit.written == "SECOND"


def test_digests_have_the_name_of_a_zone_and_not_its_changes() -> None:
    """Other data of zones keep a state; another calendar does not."""
    berlin = calendar_of("day", "06:00", "Europe/Berlin")
    later = replace(berlin, zone=Zone("Europe/Berlin", (), (0,)))
    assert (
        plain_data(berlin)
        == plain_data(later)
        == ["Calendar", ["unit", "day"], ["minute", 360], ["zone", ["Zone", ["name", "Europe/Berlin"]]]]
    )
    assert plain_data(berlin) != plain_data(calendar_of("day", "06:00", "Europe/Paris"))
    name = Const('"Europe/Berlin"')
    assert plain_data(Call(IN_ZONE, (Var("t"), name, Const('"UTC 0"')))) == plain_data(Call(IN_ZONE, (Var("t"), name)))
