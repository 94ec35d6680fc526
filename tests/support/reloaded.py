"""Runs whose rules change while they go on: what they write must be the same in process and on Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from dotr.commands import main
from tests.support.interrupted import run_until
from tests.support.patience import PATIENCE

CONFIG = """\
name: live
prefixes: { "": "http://e/" }
rules: [r.dotr]
input: [{ name: in, format: ndjson, path: "in/*.ndjson", watch: true, settle: 0 s, idle: 50 ms }]
output: [{ format: ndjson, path: out }]
spark: { checkpoint: ck, trigger: 0 s }
"""
RULES = """\
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
rule Seen define Seen = [ [] :seen ?v ] from Reading with Seen.?v = Reading.?v
rule Left define Left = [ [] :left ?room ; :v ?v ; :n ?n ] from Reading as Now
and last Reading as Start [ FILTER(?room = Now.?room && ?v > 1) ] within 20 s from Now
and ?n = count(*) of Reading as Heavy [ FILTER(?room = Now.?room && ?v > 5) ] within 20 s from Now
if ?n < 9 with Left.?room = Now.?room, Left.?v = Start.?v, Left.?n = ?n consuming Start
"""
VALUES = [3, 7, 4, 8, 2, 9, 3, 6, 7, 5]


def events() -> list[tuple[int, str, str]]:
    """What is written, in order."""
    out = Path("out")
    files = sorted(out.glob("*.ndjson")) or [out]
    lines = [json.loads(line) for file in files if file.is_file() for line in file.read_text().splitlines()]
    return [(each["time"], each["rule"], json.dumps(each["attributes"], sort_keys=True)) for each in lines]


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def feed(first: int, end: int) -> None:
    """Elements of some seconds; returns when their instants are closed."""
    for second in range(first, end):
        graph = f"[] :room :a ; :value {VALUES[second]} ."
        new = Path("in", f".{second:03}")
        new.write_text(json.dumps({"time": second, "graph": graph}) + "\n")
        new.rename(f"in/{second:03}.ndjson")
    wait_for(lambda: (end - 1, "Seen") in {(at, rule) for at, rule, _ in events()})


def set_up(config: str = CONFIG) -> None:
    Path("in").mkdir()
    Path("in/000.ndjson").write_text(json.dumps({"time": 0, "graph": f"[] :room :a ; :value {VALUES[0]} ."}) + "\n")
    Path("c.yaml").write_text(config)
    Path("r.dotr").write_text(RULES)


def change(old: str, new: str, file: str = "r.dotr") -> None:
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new))


def run_with(world: Callable[[], None], engine: str) -> int:
    """The exit code of the run, which is stopped when `world` returns."""
    return run_until(["run", "c.yaml", "--engine", engine, "--quiet"], world)


def reload(name: str = "c.yaml") -> int:
    return main(["reload", name])
