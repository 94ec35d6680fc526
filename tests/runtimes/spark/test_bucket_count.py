"""The number of buckets of the next start, as `dotr plan` prints it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.commands import main
from dotr.engine.state.schema import StateSchema, state_schema
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, required_layout
from dotr.runtimes.spark.exchange.positions import InputPosition, Offset

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
rule Rise define Rise = [ [] :in ?room ] from Reading as Now
and last Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 9 s from Now with Rise.?room = Now.?room
rule Fall define Fall = [ [] :in ?room ] from Reading as Now
and first Reading as Old [ FILTER(?room = Now.?room && ?v > Now.?v) ] within 9 s from Now with Fall.?room = Now.?room
"""
CONFIG = """\
name: width
prefixes: { "": "http://e/" }
rules: [r.dotr]
input: [{ name: in, format: ndjson, path: in.ndjson }]
output: [{ format: ndjson, path: out.ndjson }]
spark: { checkpoint: ck }
"""
STAYS = "The run goes on as it is."


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A checkpoint with 4 buckets after its first batch."""
    monkeypatch.chdir(tmp_path)
    Path("r.dotr").write_text(RULES)
    Path("in.ndjson").write_text("")
    Path("c.yaml").write_text(CONFIG)
    made = build(read_config("c.yaml"), fresh=False, on_spark=True)
    found = Checkpoint("ck")
    found.create()
    found.claim(replace(required_layout(made), buckets=4, partitions=4, holdings=state_schema(made.program)))
    offset = json.dumps(Offset(9_000_000, (InputPosition(5, 1, 9_000_000),)).to_json())
    for log, text in (("offsets", f"v1\n{{}}\n{offset}"), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
        (Path("ck/query") / log).mkdir(parents=True)
        (Path("ck/query") / log / "0").write_text(text)
    Path("ck/query/metadata").write_text('{"id": "d0013121-9667-4468-8302-ca311c472a98"}')
    return found


def planned(capsys: pytest.CaptureFixture[str], *settings: str) -> list[str]:
    assert main(["plan", "c.yaml", *(word for setting in settings for word in ("--set", setting))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["The checkpoint ck has come to 9.", "rule Fall keeps its state", "rule Rise keeps its state"]
    return lines[3:]


@pytest.mark.usefixtures("checkpoint")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["spark.master=local[4]"], [STAYS]),
        (["spark.master=local[5]"], ["The state moves from 4 to 5 buckets: local[5] has 5 cores."]),
        (["spark.master=local[2]"], ["The state moves from 4 to 2 buckets: local[2] has 2 cores."]),
        (["spark.master=local"], ["The state moves from 4 to 1 bucket: local has 1 core."]),
        (
            ["spark.master=local[3]"],
            ["The state stays in 4 buckets: local[3] has 3 cores, and it moves to more than 4 cores, or to at most 2.", STAYS],
        ),
        (["spark.master=local[8]", "spark.buckets=4"], [STAYS]),
        (["spark.buckets=3"], ["The state moves from 4 to 3 buckets: spark.buckets is 3."]),
        (
            [],
            [
                "The state stays in 4 buckets unless there are more than 4 cores at the start, or at most 2; then it moves to as many "
                "buckets as cores.",
                STAYS,
            ],
        ),
    ],
)
def test_plan_prints_the_move_of_the_next_start(settings: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(capsys, *settings) == expected


@pytest.mark.usefixtures("checkpoint")
def test_changed_number_of_groups_moves_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(capsys, "spark.groups=2", "spark.buckets=4") == ["The state of 2 of 2 rules moves to a new folder in the checkpoint."]


def test_resized_query_is_a_new_generation(checkpoint: Checkpoint) -> None:
    stored = checkpoint.layout
    assert stored is not None
    resized = checkpoint.resized(stored, 2)
    assert (resized.buckets, resized.partitions, resized.generation, resized.first) == (2, 2, 1, 1)
    assert resized.start == Offset(9_000_000, (InputPosition(5, 1, 9_000_000),))
    assert Checkpoint("ck").layout == stored
    for name in ("query-1", "moved-1"):
        (Path("ck") / name).mkdir()
    checkpoint.remove_leftovers()
    assert sorted(path.name for path in Path("ck").iterdir() if path.is_dir()) == ["query"]


def test_format_is_that_of_earlier_releases_without_rules_in_stages(checkpoint: Checkpoint) -> None:
    assert json.loads(Path("ck/dotr.json").read_text())["format"] == 2
    grouped = build(read_config("c.yaml", ["spark.groups=2"]), fresh=False, on_spark=True)
    schema = state_schema(grouped.program)
    assert schema.has_places
    assert StateSchema.of_json(schema.to_json()) == schema
    stored = checkpoint.layout
    assert stored is not None
    checkpoint.switch(replace(stored, holdings=schema))
    assert json.loads(Path("ck/dotr.json").read_text())["format"] == 3
    assert Checkpoint("ck").layout == replace(stored, holdings=schema)
