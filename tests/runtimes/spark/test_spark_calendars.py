"""Ticks and windows by the calendars of many zones on Spark: the output of a run in process, over days on which clocks change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests.model.test_calendars import ODD

pytestmark = pytest.mark.spark

QUERIES = """PREFIX : <http://e/>
REGISTER RSTREAM Days AS SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <in> [LANDMARK STEP 6h RESTARTING EVERY DAY IN "Australia/Lord_Howe"] WHERE { WINDOW <w> { ?x a :X } }
REGISTER RSTREAM Ends AS CONSTRUCT { ?x a :Ended }
FROM WINDOW ON <in> [LANDMARK RESTARTING EVERY DAY AT 02:30 IN "Europe/Berlin"] WHERE { ?x a :X }
"""


def program(zones: tuple[str, ...]) -> str:
    """A rule a zone, each with ticks of another kind."""
    kinds = ("hour", "day at 02:30", "month", "sunday at 23:59", "day", "day at 01:30")
    rules = ["PREFIX : <http://e/>\nquery X = [ SELECT ?x { ?x a :X } ]"]
    for number, zone in enumerate(zones):
        anchor = f'every {kinds[number % len(kinds)]} in "{zone}" as T'
        count = "and ?n = count(*) of X within [0, 12 h] from T"
        local = f'<urn:dotr:function:inZone>(time(T), "{zone}")'
        made, given = f"R{number} = [ [] :n ?n ; :at ?at ]", f"R{number}.?n = ?n, R{number}.?at = {local}"
        rules.append(f"rule R{number} define {made} from {anchor} {count} with {given}")
    return "\n".join(rules)


@pytest.mark.usefixtures("spark")
def test_calendars_of_many_zones_on_spark(tmp_path: Path) -> None:
    from dotr.runtimes.spark.run import run_spark

    (tmp_path / "r.dotr").write_text(program((*ODD, "UTC", "America/Santiago", "Asia/Kolkata")))
    (tmp_path / "q.rspql").write_text(QUERIES)
    times = [f"2026-{day}T{hour:02}:17:00Z" for day in ("03-28", "03-29", "04-01", "04-05") for hour in range(0, 24, 5)]
    lines = [json.dumps({"time": time, "graph": f"<http://e/x{number}> a <http://e/X> ."}) for number, time in enumerate(times)]
    lines.append(lines[-2])  # late
    (tmp_path / "in.ndjson").write_text("\n".join(lines))
    config = {
        "name": "calendars",
        "time_zone": "America/St_Johns",
        "rules": ["r.dotr", "q.rspql"],
        "dead_letter": "local-rejected.ndjson",
        "input": [{"name": "in", "format": "ndjson", "path": "in.ndjson"}],
        "output": [{"path": "local.ndjson"}],
        "spark": {"master": "local[2]", "checkpoint": "checkpoint", "batch": 4},
    }
    (tmp_path / "c.yaml").write_text(json.dumps(config))
    run_local(build(read_config(str(tmp_path / "c.yaml")), fresh=False, on_spark=False), lambda totals: None)
    options = [f"output.0.path={tmp_path / 'spark'}", f"dead_letter={tmp_path / 'spark-rejected'}"]
    run_spark(build(read_config(str(tmp_path / "c.yaml"), options), fresh=False, on_spark=True), lambda totals: None)
    expected = (tmp_path / "local.ndjson").read_text()
    assert expected.count("\n") > 300
    assert expected.startswith('{"time": "2026-03-27T22:30:00-02:30"')
    assert written(tmp_path / "spark") == expected
    assert "-02:30" in (rejected := (tmp_path / "local-rejected.ndjson").read_text())
    assert written(tmp_path / "spark-rejected") == rejected
    assert json.loads((tmp_path / "checkpoint" / "dotr.json").read_text())["zone"] == "America/St_Johns"


def written(folder: Path) -> str:
    return "".join(each.read_text() for each in sorted(folder.glob("*.ndjson")))
