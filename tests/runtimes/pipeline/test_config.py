"""Configuration: schema, errors with their spans, `--set`, environment variables and paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

import dotr.runtimes.pipeline
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.languages.registry import RuleLanguage, of_language
from dotr.model.places import Document
from dotr.runtimes.pipeline.config import Config, read_config
from dotr.runtimes.pipeline.sections import Settings, keys_of, schema, schema_problems
from dotr.syntax.yaml import KeyPath, read_tree
from tests.conftest import Project

pytestmark = pytest.mark.core

MINIMAL = """\
name: x
rules: [r.dotr]
input:
  - { name: a, format: ndjson, path: a.ndjson }
output:
  - { path: out.ndjson }
"""


def configured(folder: Path, text: str, *options: str) -> Config:
    path = folder / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return read_config(str(path), options)


def refused(folder: Path, text: str, *options: str) -> str:
    with pytest.raises(Refused) as caught:
        configured(folder, text, *options)
    return str(caught.value)


def test_shipped_schema_is_current() -> None:
    assert Path(dotr.runtimes.pipeline.__file__).with_name("config.schema.json").read_text(encoding="utf-8") == schema()


def test_missing_keys_have_defaults(tmp_path: Path) -> None:
    settings = configured(tmp_path, MINIMAL).settings
    assert (settings.engine, settings.time.unit, settings.knowledge.entailment, settings.output[0].format) == (
        "spark",
        "s",
        "none",
        "ndjson",
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("name: x", "nam: x", 1, "unknown key nam"),
        ("rules: [r.dotr]", "rules: r.dotr", 2, "rules should be a list"),
        (
            "format: ndjson",
            "format: xml",
            4,
            "input.0.format should be ndjson, trig, nquads, csv, json, text, parquet, turtle, ntriples, jsonld, jelly or recording",
        ),
        ("name: x", "name: x\nknowledge: { entailments: rdfs }", 2, "Did you mean entailment?"),
        ("name: x", "name: x\nname: y", 2, "name is given twice"),
        ("name: x", "name: x: y", 1, "this is not YAML"),
        ("name: x", "name: ${DOTR_TEST_UNSET_VARIABLE}", 1, "the environment has no variable DOTR_TEST_UNSET_VARIABLE"),
    ],
)
def test_error_has_line(tmp_path: Path, old: str, new: str, line: int, expected: str) -> None:
    message = refused(tmp_path, MINIMAL.replace(old, new))
    assert expected in message
    assert f"c.yaml:{line}:" in message


def test_all_errors_are_reported(tmp_path: Path) -> None:
    message = refused(tmp_path, MINIMAL.replace("name: x", "nam: x").replace("path: out", "paths: out"))
    assert message.count("unknown key") == 2
    assert message.count("is missing") == 2


def test_set_option_sets_nested_value(tmp_path: Path) -> None:
    config = configured(tmp_path, MINIMAL, "output.0.path=elsewhere.ndjson", "spark.conf.a=1", "time.unit=ms", "spark.checkpoint=cp")
    assert config.settings.output[0].path == "elsewhere.ndjson"
    assert config.settings.spark.conf == {"a": 1}
    assert config.settings.time.unit == "ms"


def test_path_is_relative_to_file_and_set_path_to_working_directory(tmp_path: Path) -> None:
    config = configured(tmp_path, MINIMAL, "output.0.path=mine.ndjson")
    assert config.files.path("r.dotr", ("rules", 0)) == str(tmp_path / "r.dotr")
    assert config.files.path("mine.ndjson", ("output", 0, "path")) == "mine.ndjson"


def test_path_from_environment_is_relative_to_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured(tmp_path, MINIMAL.replace("a.ndjson", "'${DOTR_TEST_FOLDER:-data}/a.ndjson'"))
    here = ("input", 0, "path")
    assert config.files.path(config.settings.input[0].path, here) == str(tmp_path / "data/a.ndjson")
    monkeypatch.setenv("DOTR_TEST_FOLDER", "elsewhere")
    config = configured(tmp_path, MINIMAL.replace("a.ndjson", "'${DOTR_TEST_FOLDER:-data}/a.ndjson'"))
    assert config.files.path(config.settings.input[0].path, here) == "elsewhere/a.ndjson"


@pytest.mark.parametrize("option", ["output", "output.5.path=x", "name.deeper=x", "=x"])
def test_set_option_with_unknown_path_is_refused(tmp_path: Path, option: str) -> None:
    assert "C105" in refused(tmp_path, MINIMAL, option)


def test_set_value_is_validated(tmp_path: Path) -> None:
    message = refused(tmp_path, MINIMAL, "engine=flink")
    assert "--set:1:8" in message
    assert "engine should be spark or local" in message


def test_environment_variables_are_substituted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOTR_TEST_FOLDER", "there")
    config = configured(tmp_path, MINIMAL.replace("a.ndjson", "'${DOTR_TEST_FOLDER}/${DOTR_TEST_UNSET:-b}.ndjson'"))
    assert config.settings.input[0].path == "there/b.ndjson"


def test_all_missing_rule_files_are_reported(tmp_path: Path) -> None:
    config = configured(tmp_path, MINIMAL.replace("[r.dotr]", "[r.dotr, 's*.dotr']"))
    with pytest.raises(Refused) as caught:
        config.program()
    assert [d.code for d in caught.value.diagnostics] == ["C301", "C301"]
    assert "c.yaml:2:" in str(caught.value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"\\U00110000"', "C102 this is no character"),
        ('"\\ud800"', "C102 half a surrogate pair is no character"),
        ("!!timestamp abc", "C102 this is no timestamp"),
        ("!!bool x", "C102 this is no bool"),
        ('!!int ""', "C102 this is no int"),
        ("9" * 5000, "as a number it is too long"),
        ("!!float 1" + ":1" * 300 + ".5", "C102 this is no float"),
    ],
)
def test_invalid_scalar_is_refused_with_span(written: str, expected: str) -> None:
    with pytest.raises(Refused) as refused:
        read_tree(Document("c.yaml", f"a: {written}"))
    assert expected in str(refused.value)
    assert str(refused.value).startswith("c.yaml:1:")


@pytest.mark.parametrize(
    ("written", "value"),
    [("12:30", "12:30"), ("010", "010"), ("1_000", 1000), ("-5", -5), ("0x1F", 31), ("1.5", 1.5), (".5", 0.5), ("1:2.5", "1:2.5")],
)
def test_number_is_read_by_yaml_1_2(written: str, value: object) -> None:
    assert read_tree(Document("c.yaml", f"a: {written}")).data == {"a": value}


def test_origin_of_windows_and_streams_of_inputs_reach_the_program(tmp_path: Path) -> None:
    text = MINIMAL.replace("[r.dotr]", "[r.dotr, q.rspql]").replace("path: a.ndjson", 'path: a.ndjson, stream: ":temp"', 1)
    (tmp_path / "r.dotr").write_text("")
    (tmp_path / "q.rspql").write_text("")
    config = configured(tmp_path, text + 'windows: { origin: 3 }\nprefixes: { "": "http://e/" }\n')
    spec = config.program()
    assert spec.origin == 3_000_000
    assert [(each.fed, each.stream) for each in spec.inputs] == [("http://e/temp", "http://e/temp")]
    assert [document.name.rpartition("/")[2] for document in of_language(spec.rules, RuleLanguage.CONTINUOUS)] == ["q.rspql"]
    assert ProgramSpec.from_json(spec.to_json()) == spec


def test_origin_that_is_no_time_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "r.dotr").write_text("")
    config = configured(tmp_path, MINIMAL + "windows: { origin: soon }\n")
    with pytest.raises(Refused) as caught:
        config.program()
    assert "C205 windows.origin: 'soon' is neither an integer nor an ISO 8601 date-time" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [("r.txt", ".epsparql"), ("r.swrl", ".lars")],
)
def test_file_of_another_extension_is_refused_at_its_place(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / name).write_text("")
    config = configured(tmp_path, MINIMAL.replace("r.dotr", name))
    with pytest.raises(Refused) as caught:
        config.program()
    (problem,) = caught.value.diagnostics
    assert problem.code == "C319"
    assert why in str(problem)
    assert problem.span is not None
    assert problem.span.text == name


@pytest.mark.parametrize(
    ("section", "key", "meant"),
    [
        # what begins so, whatever other key has the same letters
        (("input", 0), "late", "lateness"),
        (("input", 0), "max", "max_bytes"),
        (("input", 0), "timezone", "time_zone"),
        ((), "rule", "rules"),
        # what the description speaks of
        (("input", 0), "file", "path"),
        (("input", 0), "separator", "delimiter"),
        (("input", 0), "time_column", "time"),
        (("input", 0), "timestamp", "time"),
        (("input", 0), "delay", "lateness"),
        (("input", 0), "template", "map"),
        (("output", 0), "topic", "kafka"),
        (("spark",), "cores", "buckets"),
        ((), "queries", "rules"),
        # what is misspelt
        (("input", 0), "formt", "format"),
        (("input", 0), "pth", "path"),
        ((), "engin", "engine"),
        # a few letters of another word are no misspelling
        *[(("input", 0), key, "") for key in ("shape", "id", "title", "wait", "timeout", "type")],
    ],
)
def test_hint_for_an_unknown_key_is_what_it_means(section: KeyPath, key: str, meant: str) -> None:
    known = keys_of(Settings, section)
    text = f"{{ {key}: x }}"
    for name in reversed(section):
        text = f"[ {text} ]" if isinstance(name, int) else f"{{ {name}: {text} }}"
    tree = read_tree(Document("c.yaml", text))
    with pytest.raises(ValidationError) as failed:
        Settings.model_validate(tree.data)
    (problem,) = (each for each in schema_problems(failed.value, tree, Settings) if each.code == "C201")
    assert problem.hint == (f"Did you mean {meant}?" if meant else f"Known here: {', '.join(known)}.")


def test_misspelt_file_is_told_with_the_nearest_name(project: Project) -> None:
    project.write("rules/high.dotr", project.read("r.dotr"))
    assert "C302 cannot read cc.yaml: there is no such file\nDid you mean c.yaml?" in project.refused("run", "cc.yaml")
    assert "C301 there is no file rules/hihg.dotr\nDid you mean rules/high.dotr?" in project.refused("check", "rules/hihg.dotr")
    assert "Did you mean c.yaml?" in project.refused("run", "C.yaml")
    assert "Did you mean r.dotr?" in project.refused("check", "R.dotr")
    assert "Is the path right?" in project.refused("check", "other.yaml")
    project.change("c.yaml", "[r.dotr]", "[rules/hig.dotr]")
    assert "Did you mean rules/high.dotr?" in project.refused("check", "c.yaml")
    assert "Relative paths are relative" in project.refused("check", "c.yaml", "--set", "rules.0=other/hig.dotr")
    project.change("c.yaml", "rules/hig.dotr", "“r.dotr”")
    assert 'Its quotes are typographic: write "r.dotr".' in project.refused("check", "c.yaml")
