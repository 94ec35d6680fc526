"""The public names of the package `dotr`: imports, version, errors, programs and events
(docs/python.md).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

import dotr
from dotr import IRI, DotrError, Entailment, Event, Limits, Program, Session, Unit
from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.model.terms import XSD
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

FIRE, TTL, DLOG = ROOT / "rules/fire.dotr", ROOT / "kb/building.ttl", ROOT / "kb/building.dlog"
E = "http://e/"
COPY = """\
PREFIX : <http://e/>
rule Copy define Out = [ ?x a :Out ] from A = [ SELECT ?x ?v WHERE { ?x :v ?v } ] with Out.?x = A.?x, Out.?v = A.?v, Out.?at = time(A)
rule Late define Late = [ ?x a :Late ] from A = [ SELECT ?x WHERE { ?x a :Wait } ] delayed by 90 s with Late.?x = A.?x
"""
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


@pytest.fixture
def copy(tmp_path: Path) -> Program:
    (tmp_path / "copy.dotr").write_text(COPY, encoding="utf-8")
    return Program.load(tmp_path / "copy.dotr", prefixes={"": E})


def test_the_public_names_are_listed_and_documented() -> None:
    assert {"Program", "Session", "Event", "DotrError", "Unit", "Entailment", "Limits", "__version__"} <= set(dir(dotr))
    text = pydoc.plain(pydoc.render_doc(dotr))
    for name in ("class Program", "class Session", "class Event", "class DotrError", "advance(", "from_config(", dotr.__version__):
        assert name in text
    with pytest.raises(AttributeError, match="Programme"):
        _ = dotr.Programme


@pytest.mark.parametrize("name", [name for name in dotr.__all__ if name != "__version__"])
def test_every_public_class_and_method_has_a_docstring(name: str) -> None:
    public = getattr(dotr, name)
    assert public.__doc__
    members = [member for key, member in vars(public).items() if not key.startswith("_") and inspect.isroutine(member)]
    assert [member for member in members if not inspect.getdoc(member)] == []
    texts = [inspect.getdoc(each) or "" for each in (dotr, public, *members)]
    assert [line for text in texts for line in text.split("\n") if len(line) > 100 and not line.startswith((">>>", "..."))] == []


def test_importing_dotr_imports_nothing_else_of_it() -> None:
    code = "import sys, dotr; dir(dotr), dotr.__version__; print([m for m in sys.modules if m.startswith('dotr.') or m == 'pyoxigraph'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_version_is_that_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dotr {dotr.__version__}\n"


def test_every_error_class_is_a_dotr_error() -> None:
    modules = [
        importlib.import_module(found.name) for found in pkgutil.walk_packages(dotr.__path__, "dotr.") if "__main__" not in found.name
    ]
    errors = {
        value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__.startswith("dotr.") and not name.startswith("_")
    }
    assert len(errors) > 10
    assert {error for error in errors if not issubclass(error, DotrError)} == set()


def test_a_program_is_represented_in_two_lines(copy: Program, tmp_path: Path) -> None:
    assert repr(copy) == (
        "<dotr.Program: rules Copy, Late, which define Late, Out;\n"
        " times in s; background of no RDF files and no Datalog files, entailment none>"
    )
    many = [f"rule AVeryLongNameOfARule{n} define B{n} = [] from A = [ SELECT * WHERE {{ ?x a :A }} ]" for n in range(100)]
    (tmp_path / "many.dotr").write_text("PREFIX : <http://e/>\n" + "\n".join(many), encoding="utf-8")
    lines = repr(Program.load(tmp_path / "many.dotr", entailment="owl2rl", unit="ms")).split("\n")
    assert len(lines) == 2
    assert max(map(len, lines)) <= 120
    assert "AVeryLongNameOfARule0 and 99 more" in lines[0]


@pytest.mark.parametrize(("word", "member"), [("us", Unit.MICROSECOND), ("s", Unit.SECOND), ("d", Unit.DAY), (Unit.HOUR, Unit.HOUR)])
def test_unit_is_a_member_or_its_word(word: str | Unit, member: Unit) -> None:
    assert Program.load(FIRE, unit=word).spec.unit is member


@pytest.mark.parametrize(("word", "member"), [("rdfs", Entailment.RDFS), (Entailment.OWL2RL, Entailment.OWL2RL)])
def test_entailment_is_a_member_or_its_word(word: str | Entailment, member: Entailment) -> None:
    assert Program.load(FIRE, entailment=word).spec.entailment is member


@pytest.mark.parametrize(
    ("argument", "value", "names"),
    [
        ("unit", "parsec", "us, ms, s, min, h or d"),
        ("unit", "SECOND", "us, ms, s, min, h or d"),
        ("unit", 1_000_000, "us, ms, s, min, h or d"),
        ("unit", Entailment.RDFS, "us, ms, s, min, h or d"),
        ("entailment", "owl", "none, rdfs or owl2rl"),
        ("entailment", None, "none, rdfs or owl2rl"),
        ("inconsistent", "ignore", "report or reject"),
    ],
)
def test_unknown_word_is_refused_with_the_known_words(argument: str, value: object, names: str) -> None:
    arguments: dict[str, object] = {argument: value}
    with pytest.raises(DotrError, match=rf"{argument} should be {names}, not") as refused:
        Program.load(FIRE, **arguments)  # type: ignore[arg-type]
    assert isinstance(refused.value, Refused)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("limits", [Limits(rows=0), Limits(triples=-1), Limits(probes=1.5)])  # type: ignore[arg-type]
def test_a_limit_that_is_no_positive_integer_is_refused(limits: Limits) -> None:
    with pytest.raises(DotrError, match="should be a whole number above 0"):
        Program.load(FIRE, limits=limits)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_single_path_is_a_list_of_one_path(kind: type[str] | type[Path]) -> None:
    program = Program.load(kind(FIRE), kind(TTL), kind(DLOG))
    assert program.spec == Program.load([FIRE], [TTL], [DLOG]).spec
    assert program.spec.graphs == (str(TTL),)


def test_from_config_compiles_what_the_configuration_names(tmp_path: Path) -> None:
    program = Program.from_config(ROOT / "configs/fire.yaml")
    assert isinstance(program, Program)
    with program.session() as session:
        session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
        (event,) = session.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB .")
    assert event.values == {"room": "http://example.org/building#roomA"}
    with pytest.raises(DotrError, match="C302"):
        Program.from_config(str(tmp_path / "none.yaml"))
    (tmp_path / "bad.yaml").write_text("nme: x", encoding="utf-8")
    with pytest.raises(DotrError, match="C201"):
        Program.from_config(tmp_path / "bad.yaml")


def test_a_session_that_begins_with_a_datetime_has_datetimes(copy: Program) -> None:
    with copy.session() as session:
        (event,) = session.advance(NOON, ":a :v 1 ; a :Wait .")
        assert (event.time, event.values) == (NOON, {"x": IRI(E + "a"), "v": 1, "at": NOON})
        assert event.attributes["at"] == f'"2024-02-29T12:00:00Z"^^<{XSD}dateTime>'
        (naive,) = session.advance(datetime(2024, 2, 29, 12, 1), ":b :v 2 .")
        assert naive.time == NOON + timedelta(minutes=1)
        assert isinstance(naive.time, datetime)
        assert naive.time.tzinfo is UTC
        late, zoned = session.advance(datetime(2024, 2, 29, 14, 2, 0, 1, timezone(timedelta(hours=2))), ":c :v 3 .")
        assert (late.type, late.time) == ("Late", NOON + timedelta(seconds=90))
        assert zoned.time == NOON + timedelta(minutes=2, microseconds=1)


def test_a_datetime_not_after_the_last_raises(copy: Program) -> None:
    with copy.session() as session:
        session.advance(NOON)
        for time in (NOON, NOON.replace(tzinfo=None), NOON.astimezone(timezone(timedelta(hours=9))), NOON - timedelta(microseconds=1)):
            with pytest.raises(DotrError, match="is not after 2024-02-29 12:00"):
                session.advance(time, ":a :v 1 .")
        assert len(session.advance(NOON + timedelta(microseconds=1), ":a :v 1 .")) == 1


@pytest.mark.parametrize(("first", "second"), [(NOON, 2**40), (12, NOON)])
def test_mixing_integers_and_datetimes_raises(copy: Program, first: int | datetime, second: int | datetime) -> None:
    with copy.session() as session:
        session.advance(first, ":a :v 1 .")
        with pytest.raises(ValueError, match="its first one was") as error:
            session.advance(second, ":a :v 1 .")
        assert isinstance(error.value, DotrError)
        assert session.finish() == []


def test_a_refused_first_call_does_not_decide_the_form_of_times(copy: Program) -> None:
    with copy.session() as session:
        with pytest.raises(DotrError):
            session.advance(NOON, "no Turtle")
        with pytest.raises(DotrError, match="outside the years"):
            session.advance(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
        assert [event.time for event in session.advance(12, ":a :v 1 .")] == [12]


def test_a_time_that_the_unit_cannot_hold_is_a_datetime(tmp_path: Path) -> None:
    (tmp_path / "copy.dotr").write_text(COPY, encoding="utf-8")
    session = Program.load(tmp_path / "copy.dotr", unit="min", prefixes={"": E}).session()
    assert session.advance(1, ":a a :Wait .") == []
    assert [event.time for event in session.finish()] == [datetime(1970, 1, 1, 0, 2, 30, tzinfo=UTC)]


def test_finish_before_any_instant_has_no_events(copy: Program) -> None:
    assert copy.session().finish() == []


@pytest.mark.parametrize(
    ("turtle", "value"),
    [
        ("7", 7),
        (f'"-3"^^<{XSD}short>', -3),
        ("2.50", Decimal("2.50")),
        ("1e3", 1000.0),
        (f'"0.1"^^<{XSD}float>', 0.10000000149011612),
        (f'"-INF"^^<{XSD}double>', float("-inf")),
        ("true", True),
        (f'"0"^^<{XSD}boolean>', False),
        (r'"say \"hi\"\n"', 'say "hi"\n'),
        (":room", IRI("http://e/room")),
        (f'"2024-02-29T12:00:00Z"^^<{XSD}dateTime>', NOON),
        (f'"2024-02-29T24:00:00"^^<{XSD}dateTime>', datetime(2024, 3, 1)),
        (f'"2024-02-29T12:00:00.0000001Z"^^<{XSD}dateTime>', f'"2024-02-29T12:00:00.0000001Z"^^<{XSD}dateTime>'),
        (f'"-0044-03-15T12:00:00Z"^^<{XSD}dateTime>', f'"-0044-03-15T12:00:00Z"^^<{XSD}dateTime>'),
        (f'"2024-02-30T12:00:00Z"^^<{XSD}dateTime>', f'"2024-02-30T12:00:00Z"^^<{XSD}dateTime>'),
        (f'"2024-02-29"^^<{XSD}date>', f'"2024-02-29"^^<{XSD}date>'),
        (f'"300"^^<{XSD}byte>', f'"300"^^<{XSD}byte>'),
        ('"warm"@EN', '"warm"@en'),
        ('"1"^^<http://e/unit>', '"1"^^<http://e/unit>'),
    ],
)
def test_values_are_python_values(copy: Program, turtle: str, value: object) -> None:
    with copy.session() as session:
        (event,) = session.advance(1, f":a :v {turtle} .")
    found = event.values["v"]
    assert (type(found), found) == (type(value), value)
    if isinstance(found, datetime) and isinstance(value, datetime):
        assert found.tzinfo == value.tzinfo


def test_values_of_blank_nodes_and_triple_terms_are_their_text(copy: Program) -> None:
    with copy.session() as session:
        triple, blank = session.advance(1, ":a :v [] . :b :v <<( :s :p 1 )>> .")
    assert blank.values["v"] == blank.attributes["v"]
    assert blank.attributes["v"].startswith("_:")
    assert triple.values["v"] == f'<<( <{E}s> <{E}p> "1"^^<{XSD}integer> )>>'


def test_iri_value_is_a_term_of_triples(copy: Program) -> None:
    with copy.session() as session:
        (event,) = session.advance(1, ":a :v 7 .")
        (again,) = session.advance(2, [(event.values["x"], f"<{E}v>", "'8'")])
    assert again.values["x"] == event.values["x"]
    assert isinstance(again, Event)
    assert isinstance(session, Session)
