"""A checkpoint as a release leaves it, as text: `python -m tests.kept` writes that of this release, under its versions.

What it holds is what `dotr.json` and Spark's state hold: whose the state is, and each bucket's. A file that is there is never written
again: every later release must open it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dotr import Program
from dotr.engine.holdings import Holdings, holdings
from dotr.engine.program import compile_program
from dotr.engine.spec import ProgramSpec
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO, Clock
from dotr.outputs import output_order
from dotr.patterns.state import STATE_VERSION
from dotr.runtimes.spark.checkpoint import FORMAT
from tests.running import Batched

FOLDER = Path(__file__).parent / "checkpoints"
SECOND = 1_000_000

RULES = """PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]

rule Jump define Jump = [ [] :at ?room ; :by ?by ] from Reading as Now
and last Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 20 s from Now
with Jump.?room = Now.?room, Jump.?by = Now.?v - Old.?v consuming Old

rule Pair define Pair = [ dotr_id1 :one ?one ; :other ?other ] from Jump
and each Jump as Earlier [ FILTER(?by = Jump.?by) ] within 30 s from Jump
with Pair.?one = Jump.?room, Pair.?other = Earlier.?room

rule Quiet define Quiet = [ dotr_id1 :quiet ?room ] from Reading as High [ FILTER(?v > 4) ] delayed by 5 s
and not Reading as Next [ FILTER(?room = High.?room) ] within [0, 5 s) from High with Quiet.?room = High.?room
"""


def program() -> Program:
    return compile_program(ProgramSpec((Document("kept.dotr", RULES),)))


def elements() -> list[Element]:
    number = "http://www.w3.org/2001/XMLSchema#integer"
    return [
        Element(
            time * SECOND,
            (("_:r", "<http://e/room>", f"<http://e/r{time % 3}>"), ("_:r", "<http://e/value>", f'"{time * 5 % 7}"^^<{number}>')),
        )
        for time in range(0, 60, 2)
    ]


CUT = 40 * SECOND


def halves() -> tuple[list[Element], list[Element]]:
    """What comes before the checkpoint, and what comes after it."""
    return [e for e in elements() if e.time <= CUT], [e for e in elements() if e.time > CUT]


@dataclass(frozen=True)
class Kept:
    """What a file holds; `after` are the graphs of the firings that followed."""

    holdings: Holdings
    states: list[list[bytes]]
    after: list[tuple[int, str, object]]


def said(run: Batched) -> list[tuple[int, str, object]]:
    """What a run says of the rest."""
    firings = sorted(run.batch(halves()[1], LAST_MICRO), key=output_order)
    return [(firing.time, firing.rule, [list(triple) for triple in firing.graph]) for firing in firings]


def read(path: Path) -> Kept:
    data = json.loads(path.read_text())
    return Kept(
        Holdings.of_json(data["holdings"]),
        [[text.encode() for text in states] for states in data["states"]],
        [(t, r, g) for t, r, g in data["after"]],
    )


def main() -> None:
    path = FOLDER / f"format-{FORMAT}-state-{STATE_VERSION}.json"
    if path.exists():
        raise SystemExit(f"{path.name} is there already, and stays as it is")
    run = Batched(program(), Clock(), 2)
    run.batch(halves()[0], CUT)
    states = [[state.decode() for state in states] for states in run.states]
    data = {"holdings": holdings(program()).to_json(), "states": states, "after": said(run)}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
