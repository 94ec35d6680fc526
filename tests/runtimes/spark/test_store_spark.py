"""Workers on Spark map the compiled background, without reading or closing its sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config

pytestmark = pytest.mark.spark

RULE = """
PREFIX : <http://e/>
rule R define Out = [ dotr_id1 a :Out ; :room ?room ]
from A = [ SELECT ?room WHERE { ?r a :Reading ; :sensor ?s . ?s :inside ?room } ]
and last B = [ SELECT ?room2 WHERE { ?r a :Reading ; :sensor ?s . ?s :inside ?room2 . FILTER(?room2 = A.?room) } ] within 10 s from A
with Out.?room = A.?room
"""
DATALOG = "PREFIX : <http://e/>\n[?s, :inside, ?b] :- [?s, :in, ?b] .\n[?s, :inside, ?c] :- [?s, :inside, ?b], [?b, :in, ?c] .\n"


STRATA = DATALOG.replace("[?s, :inside, ?b] :- [?s, :in, ?b] .", "[?s, :inside, ?b] :- [?s, :in, ?b], NOT :Closed(?b) .")
STRATA += "[?b, :beds, ?n] :- AGGREGATE([?s, :in, ?b] ON ?b BIND COUNT(?s) AS ?n) .\n"
STRATA += "[?s, :inside, :crowd] :- [?s, :in, ?b], [?b, :beds, ?n], FILTER(?n > 9) .\n"


def pipeline(folder: Path, engine: str, datalog: str = DATALOG) -> Pipeline:
    folder.mkdir(exist_ok=True)
    (folder / "r.dotr").write_text(RULE)
    (folder / "d.dlog").write_text(datalog)
    sensors = [f"<http://e/s{n}> <http://e/in> <http://e/room{n % 5}> .\n" for n in range(50)]
    rooms = [f"<http://e/room{n}> <http://e/in> <http://e/house> .\n" for n in range(5)]
    (folder / "g.nt").write_text("".join(sensors + rooms))
    graphs = [f"[] a :Reading ; :sensor :s{t * 7 % 60} ." + (" :house a :Closed ." if t % 5 == 4 else "") for t in range(40)]
    lines = [json.dumps({"time": t, "graph": graph}) for t, graph in enumerate(graphs)]
    (folder / "a.ndjson").write_text("\n".join(lines) + "\n")
    config = {
        "name": "mapped",
        "prefixes": {"": "http://e/"},
        "knowledge": {"graphs": ["g.nt"], "datalog": ["d.dlog"], "cache": "cache"},
        "rules": ["r.dotr"],
        "input": [{"name": "a", "format": "ndjson", "path": "a.ndjson"}],
        "output": [{"path": f"{engine}.ndjson"}],
        "spark": {"master": "local[2]", "checkpoint": "checkpoint", "batch": 15},
    }
    (folder / "c.yaml").write_text(json.dumps(config))
    return build(read_config(str(folder / "c.yaml")), fresh=False, on_spark=engine == "spark")


def lines_of(path: Path) -> list[str]:
    files = sorted(path.glob("*.ndjson")) if path.is_dir() else [path]
    return [line for file in files for line in file.read_text().splitlines()]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("datalog", [DATALOG, STRATA], ids=["plain", "strata"])
def test_workers_map_the_background(tmp_path: Path, datalog: str) -> None:
    from dotr.runtimes.spark.run import run_spark

    local = pipeline(tmp_path, "local", datalog)
    assert local.program.store is None
    run_local(local, lambda totals: None)
    spark = pipeline(tmp_path, "spark", datalog)
    assert spark.program.store is not None
    (tmp_path / "g.nt").write_text("this is no graph any more")  # whoever reads it now fails
    totals = run_spark(spark, lambda totals: None)
    found = lines_of(tmp_path / "spark.ndjson")
    assert totals.events == len(found) > 20
    assert found == lines_of(tmp_path / "local.ndjson")
