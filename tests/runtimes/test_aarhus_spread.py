"""The rules of the main job spread over two buckets: counted, on real input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dotr.engine.driver import Moment
from dotr.engine.program import CompiledProgram
from dotr.languages.programs import compile_program
from dotr.model.stream import Element
from dotr.model.terms import Term
from dotr.model.time import Clock
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.merge.bounded import merged
from dotr.temporal.layout.keys import SinglePartition, bucket
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import LayerResult, StageTwo
from tests.support.paths import ROOT
from tests.support.running import Batched

DATA: Final = Path(os.environ.get("DOTR_DATA") or ROOT.parent / "shared" / "data")

pytestmark = pytest.mark.skipif(
    not (DATA / "citybench" / "streams").is_dir(),
    reason="needs CityBench's data (github.com/CityBench/Benchmark) in the folder that DOTR_DATA names",
)

ELEMENTS: Final = int(os.environ.get("DOTR_ELEMENTS", "70000"))
"""The first elements of the stream; all are a million."""


class Counted(Batched):
    """Two buckets that count, by rule and stage, the anchors and bindings that each receives."""

    def __init__(self, program: CompiledProgram) -> None:
        super().__init__(program, Clock(), 2)
        self.lookups: dict[tuple[str, int], Counter[int]] = {}
        self.keys: dict[tuple[str, int], Counter[Term | None]] = {}
        self.copies: dict[tuple[int, int], dict[int, list[object]]] = {}

    def stepped(self, layer: int, bucket: int, moment: Moment, result: LayerResult) -> None:
        """Counts the bindings that later stages receive, also by key, and notes the events at replicated ports."""
        here = self.program.layout.layers[layer]
        for number, each in enumerate(here.ports):
            if each.is_replicated:
                copies = self.copies.setdefault((layer, number), {}).setdefault(bucket, [])
                copies += [(moment.time, *arrival) for arrival in moment.arrivals.get(number, ())]
        for placed in here.rules:
            if placed.stage.enters is not None:
                port = here.ports[placed.ports[0]]
                for _, values in moment.arrivals.get(placed.ports[0], ()):
                    which = (placed.rule.name, placed.stage.number)
                    assert port.key_position is not None
                    self.lookups.setdefault(which, Counter())[bucket] += 1
                    self.keys.setdefault(which, Counter())[values[port.key_position]] += 1

    def finished(self, number: int, bucket: int, layer: StageTwo, state: State) -> None:
        """Counts the anchors of first stages."""
        counts = layer.rule_counts(state.counter)
        here = self.program.layout.layers[number]
        for placed in here.rules:
            if placed.stage.is_first and placed.rule.name in counts:
                self.lookups.setdefault((placed.rule.name, 0), Counter())[bucket] += counts[placed.rule.name].anchors


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    folder = tmp_path_factory.mktemp("aarhus")
    command = [sys.executable, str(ROOT / "kb/aarhus.py"), "--data", str(DATA), "--output", str(folder / "background.ttl")]
    subprocess.run(command, check=True, capture_output=True)
    options = {
        "knowledge.graphs.0": folder / "background.ttl",
        "output.0.path": folder / "events.ndjson",
        "dead_letter": folder / "letters",
    }
    config = read_config(str(ROOT / "configs/aarhus.yaml"), [f"{key}={value}" for key, value in options.items()])
    pipeline = build(config, fresh=False, on_spark=False)
    program = compile_program(replace(pipeline.program.spec, cut=True))
    elements = [element for _, together in merged(pipeline.inputs, lambda letter: None) for element in together]
    run = Counted(program)
    counted = elements[:ELEMENTS]
    run.batch([Element(time, triples) for time, triples in counted], counted[-1].time)
    return run


def share(counts: Counter[int]) -> float:
    """The share of the busier bucket."""
    return max(counts.values()) / counts.total()


def test_no_rule_is_on_one_core_and_there_are_no_warnings(counted: Counted) -> None:
    placed = [placed for layer in counted.program.layout.layers for placed in layer.rules]
    assert {each.rule.name for each in placed if not each.stage.is_whole} == {"SlowNearFullCarPark"}
    assert not any(isinstance(each.split, SinglePartition) for each in placed)
    assert not counted.program.warnings


def test_busier_bucket_has_the_share_expected_of_hashing(counted: Counted) -> None:
    shares = {which: share(counts) for which, counts in counted.lookups.items()}
    assert {name for name, _ in shares} == {rule.name for rule in counted.program.rules.rules}
    assert shares["SuddenSlowDown", 0] <= 0.56
    assert shares["SlowInStrongWind", 0] <= 0.55
    slow_downs = {shares[name, 0] for name in ("WarnNeighbours", "SpreadingSlowDown", "SlowNearFullCarPark")}
    assert max(slow_downs) <= 0.66
    by_park = counted.keys["SlowNearFullCarPark", 1]
    hashed = Counter[int]()
    for park, number in by_park.items():
        hashed[bucket(park, 2)] += number
    assert counted.lookups["SlowNearFullCarPark", 1] == hashed


def test_only_replicated_events_are_copied(counted: Counted) -> None:
    """Each bucket has each strong wind once, with one ordinal, and no other wind."""
    layers = counted.program.layout.layers
    (which,) = counted.copies
    assert layers[which[0]].ports[which[1]].attributes == ("wind",)
    copies = counted.copies[which]
    assert copies[0] == copies[1]
    assert len(copies[0]) == 5
