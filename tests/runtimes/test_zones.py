"""`time_zone` of a pipeline (live.md, 5): the default of inputs, ticks, windows and --at, and the zone in which times are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.commands.check.data import check_data
from dotr.languages.programs import compile_program
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config

pytestmark = pytest.mark.core

RULES = """PREFIX : <http://e/>
query Car = [ SELECT ?car WHERE { ?c :car ?car } ]
rule Daily define Daily = [ dotr_id1 :cars ?n ; :at ?at ]
from every day as Day and ?n = count(*) of Car within 25 h from Day with Daily.?n = ?n, Daily.?at = time(Day)
rule Seen define Seen = [ dotr_id1 :car ?car ] from Car with Seen.?car = Car.?car
"""
QUERY = """PREFIX : <http://e/>
REGISTER RSTREAM Days AS SELECT (COUNT(*) AS ?cars) FROM NAMED WINDOW <w> ON <cars> [LANDMARK RESTARTING EVERY DAY]
WHERE { WINDOW <w> { ?x :car ?car } }
"""
ROWS = """when;car
28.03.2026 23:30;a
29.03.2026 03:00;b
28.03.2026 10:00;late
30.03.2026 12:00;c
"""
INPUT = """  - name: cars
    format: csv
    path: cars.csv
    delimiter: ";"
    time: when
    time_format: "%d.%m.%Y %H:%M"
    map: '[] <http://e/car> {car} ; <http://e/at> {when:dateTime} .'
"""


def config(folder: Path, zone: str = "Europe/Berlin", own: str = "") -> str:
    """The path of a configuration; `own`: the zone of its input."""
    folder.mkdir(exist_ok=True)
    (folder / "r.dotr").write_text(RULES)
    (folder / "q.rspql").write_text(QUERY)
    (folder / "cars.csv").write_text(ROWS)
    (folder / "c.yaml").write_text(
        f"name: cars\n{f'time_zone: {zone}' if zone else ''}\nrules: [r.dotr, q.rspql]\ninput:\n{INPUT}"
        + (f"    time_zone: {own}\n" if own else "")
        + "output:\n  - { path: out.ndjson }\n  - { format: trig, path: out.trig }\n  - { format: csv, path: out.csv }\n"
        "dead_letter: rejected.ndjson\nengine: local\n"
    )
    return str(folder / "c.yaml")


def run(path: str) -> None:
    run_local(build(read_config(path), fresh=False, on_spark=False), lambda totals: None)


def test_times_are_read_counted_and_shown_in_the_zone(tmp_path: Path) -> None:
    run(config(tmp_path))
    lines = [json.loads(line) for line in (tmp_path / "out.ndjson").read_text().splitlines()]
    assert [(line["time"], line["rule"], line["attributes"].get("n", line["attributes"].get("cars", ""))[1:2]) for line in lines] == [
        ("2026-03-28T23:30:00+01:00", "Seen", ""),
        ("2026-03-29T00:00:00+01:00", "Daily", "1"),
        ("2026-03-29T00:00:00+01:00", "Days", "1"),
        ("2026-03-29T03:00:00+02:00", "Seen", ""),
        ("2026-03-30T00:00:00+02:00", "Daily", "2"),
        ("2026-03-30T00:00:00+02:00", "Days", "1"),
        ("2026-03-30T12:00:00+02:00", "Seen", ""),
        ("2026-03-31T00:00:00+02:00", "Days", "1"),
    ]
    assert '"2026-03-28T23:00:00Z"^^' in lines[1]["attributes"]["at"]
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("2026-03-28T23:30:00+01:00,Seen")
    assert 'prov:generatedAtTime "2026-03-29T03:00:00+02:00"^^xsd:dateTime' in (tmp_path / "out.trig").read_text()
    (letter,) = map(json.loads, (tmp_path / "rejected.ndjson").read_text().splitlines())
    assert letter["time"] == "2026-03-28T10:00:00+01:00"
    assert letter["error"] == "an element of 2026-03-29T03:00:00+02:00 came before this one of 2026-03-28T10:00:00+01:00"


def test_late_local_times_without_a_form_are_told_with_their_offset(tmp_path: Path) -> None:
    path = Path(config(tmp_path))
    path.write_text(re.sub(" *time_format.*\n", "", path.read_text()))
    rows = "when;car\n2026-03-29T03:30;a\n2026-03-29 01:30:00;b\n"
    (tmp_path / "cars.csv").write_text(rows)
    run(str(path))
    (letter,) = map(json.loads, (tmp_path / "rejected.ndjson").read_text().splitlines())
    assert letter["error"] == "an element of 2026-03-29T03:30:00+02:00 came before this one of 2026-03-29T01:30:00+01:00"


def test_no_event_depends_on_how_it_is_shown(tmp_path: Path) -> None:
    """Zones of inputs and calendars named where they stand; the output differs in the times that it shows alone."""
    for name, zone in (("a", "Europe/Berlin"), ("b", "Asia/Tokyo"), ("c", "")):
        path = config(tmp_path / name, zone, own="Europe/Berlin")
        for file in (tmp_path / name / "r.dotr", tmp_path / name / "q.rspql"):
            file.write_text(re.sub("(?i)(every day)", r'\1 in "Europe/Berlin"', file.read_text()))
        run(path)
    for output in ("out.ndjson", "out.trig", "rejected.ndjson"):
        texts = [re.sub(r"\d{4}-[\dT:-]+(?:Z|[+-]\d\d:\d\d)", "", (tmp_path / name / output).read_text()) for name in "abc"]
        texts = [text.replace(str(tmp_path / name), "") for name, text in zip("abc", texts, strict=True)]
        assert texts[0] == texts[1] == texts[2]
    assert [(tmp_path / name / "out.ndjson").read_text()[10:35] for name in "abc"] == [
        "2026-03-28T23:30:00+01:00",
        "2026-03-29T07:30:00+09:00",
        '2026-03-28T22:30:00Z", "r',
    ]


@pytest.mark.parametrize("at", ["29.03.2026 03:00", "2026-03-29T03:00:00+02:00", "2026-03-29 03:00", "2026-03-29T01:00:00Z"])
def test_at_has_the_form_of_the_file_or_of_the_output(at: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path)
    assert main(["why-not", path, "--rule", "Seen", "--at", at]) in (0, 1)
    assert main(["facts", path, "--at", at]) == 0
    assert re.search(r"^2026-03-29T03:00:00\+02:00   \S*cars.csv:3$", capsys.readouterr().out, re.MULTILINE)


def test_at_in_a_gap_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["facts", config(tmp_path), "--at", "2026-03-29 02:30"]) == 2
    error = capsys.readouterr().err
    assert "there is no 2026-03-29 02:30 in Europe/Berlin" in error
    assert "2024-03-01T08:00:00+01:00" in error


@pytest.mark.parametrize(
    ("at", "told"), [("31.02.2026 03:00", "31.02.2026 is no date (%d.%m.%Y)"), ("2026-02-31 03:00", "there is no 2026-02-31")]
)
def test_a_day_that_does_not_exist_is_told_in_the_form_in_which_it_was_written(
    at: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["facts", config(tmp_path), "--at", at]) == 2
    assert f"C219 --at: {told}" in capsys.readouterr().err


def test_why_and_its_messages_show_the_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path)
    assert main(["why", path, "--rule", "Daily", "--at", "2026-03-30T00:00:00+02:00"]) == 0
    out = capsys.readouterr().out
    assert 'every day at 00:00 in "Europe/Berlin"' in out
    assert "2026-03-30T00:00:00+02:00" in out
    assert "Z " not in re.sub(r'"[^"]*"\^\^\S+', "", out)  # terms are in UTC


def test_wrong_zones_are_refused_with_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config(tmp_path, "Europe/Berlim")]) == 2
    assert "Did you mean Europe/Berlin?" in capsys.readouterr().err


def test_mixed_times_tell_the_zone_of_the_pipeline(tmp_path: Path) -> None:
    path = config(tmp_path)
    text = Path(path).read_text().replace('    time_format: "%d.%m.%Y %H:%M"\n', "").replace(" ; <http://e/at> {when:dateTime}", "")
    Path(path).write_text(text)
    (tmp_path / "cars.csv").write_text("when;car\n2026-03-28T23:30:00;a\n2026-03-29T03:00:00+02:00;b\n")
    assert "I109" in (told := checked(path))
    assert "read in Europe/Berlin, the time_zone of the pipeline" in told
    (tmp_path / "cars.csv").write_text("when;car\n2026-03-28T23:30:00;a\n")
    assert "I109" not in (told := checked(path))
    assert "I110" not in told


def checked(path: str) -> str:
    configuration = read_config(path)
    return "\n".join(map(str, check_data(configuration, compile_program(configuration.program()), 100).warnings))
