"""Checkpoints of each release, as text: `python -m tests.support.stored_checkpoints` writes that of this release.

The files hold the contents of `dotr.json` and of Spark's state: the assignment of state to rules, and
each bucket's state, as texts or as logs. An existing file is never written again: every later release
must open it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.state import bucket as keeping
from dotr.engine.state.bucket import BucketContext
from dotr.engine.state.log import HEAD_VERSION, Manifest, log_snapshot
from dotr.engine.state.pages import PagedState
from dotr.engine.state.schema import StateSchema, state_schema
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element, output_order
from dotr.model.terms import XSD, Triple
from dotr.model.time import LAST_MICRO, Clock
from dotr.runtimes.spark.checkpoint.folder import FORMAT
from dotr.temporal.matching.state import STATE_VERSION
from tests.support.paths import TESTS
from tests.support.running import Batched

FOLDER = TESTS / "checkpoints"
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


CUT = 40 * SECOND


@dataclass(frozen=True)
class Story:
    """A program and a stream whose state is stored in a folder as of `CUT`.

    `made` compiles the program on demand.
    """

    folder: Path
    made: Callable[[], CompiledProgram]
    elements: Sequence[Element]
    buckets: int

    def halves(self) -> tuple[list[Element], list[Element]]:
        """The elements before and after the checkpoint."""
        return [e for e in self.elements if e.time <= CUT], [e for e in self.elements if e.time > CUT]

    @property
    def kept(self) -> list[Path]:
        """The files."""
        return sorted(self.folder.glob("format-*.json"))


def program() -> CompiledProgram:
    return compile_program(ProgramSpec((Document("kept.dotr", RULES),)))


def reading(time: int) -> tuple[Triple, ...]:
    return ("_:r", "<http://e/room>", f"<http://e/r{time % 3}>"), ("_:r", "<http://e/value>", f'"{time * 5 % 7}"^^<{XSD}integer>')


SMALL = Story(FOLDER, program, [Element(time * SECOND, reading(time)) for time in range(0, 60, 2)], 2)
"""Three rules."""


@dataclass(frozen=True)
class Kept:
    """Contents of a file; `after` are the graphs of the firings that followed."""

    holdings: StateSchema
    states: list[list[bytes]]
    after: list[tuple[int, str, object]]


def remaining_outputs(run: Batched, story: Story = SMALL) -> list[tuple[int, str, object]]:
    """Output of a run over the rest of the stream."""
    firings = sorted(run.batch(story.halves()[1], LAST_MICRO), key=output_order)
    return [(firing.time, firing.rule, [list(triple) for triple in firing.graph or ()]) for firing in firings]


class Entries(dict[tuple[int, int], bytes]):
    """The segments of a bucket's logs."""

    def read(self, log: int, place: int) -> bytes | None:
        return self.get((log, place))

    def write(self, log: int, place: int, lines: bytes) -> None:
        self[log, place] = lines

    def remove(self, log: int, place: int) -> None:
        del self[log, place]


def as_logs(there: CompiledProgram, texts: list[list[bytes]], closed: int) -> list[list[object]]:
    """The states as logs, whatever their size."""
    found: list[list[object]] = []
    for layer, stage, states in zip(there.layout.layers, there.stage_two(Clock()), texts, strict=True):
        place = BucketContext(stage, layer, len(states), there.timed)
        found.append([])
        for text in states:
            pages, entries = place.empty_pages(), Entries()
            pages.set_single(stage.restore(text))
            digest = write_all(place, pages, closed, entries)
            found[-1].append([digest[1].decode(), [[*key, lines.decode()] for key, lines in sorted(entries.items())]])
    return found


def write_all(place: BucketContext, pages: PagedState, closed: int, entries: Entries) -> tuple[bytes, bytes]:
    small, keeping.SMALL = keeping.SMALL, -1  # type: ignore[misc]
    try:
        done = keeping.write_bucket(place, keeping.LoadedBucket(pages, b"", None), closed, entries)
    finally:
        keeping.SMALL = small  # type: ignore[misc]
    assert done.written is not None
    return done.digest, done.written


def of_logs(written: str, pieces: list[tuple[int, int, str]], place: BucketContext) -> bytes:
    """The text of a state that is stored as logs, as a worker opens it."""
    head = Manifest.decode(written.encode())
    assert head is not None
    entries = Entries({(log, number): lines.encode() for log, number, lines in pieces})
    kept = keeping.load_bucket(place, b"?", written.encode(), entries, None)
    text = log_snapshot(head, [(log, lines.encode()) for log, _, lines in pieces]).encode()
    assert kept.pages.single.encode() == text
    return text


def read(path: Path, story: Story = SMALL) -> Kept:
    data = json.loads(path.read_text())
    if "logs" in data:
        there = story.made()
        places = [
            BucketContext(stage, layer, story.buckets, there.timed)
            for stage, layer in zip(there.stage_two(Clock()), there.layout.layers, strict=True)
        ]
        states = [
            [of_logs(written, pieces, place) for written, pieces in buckets] for place, buckets in zip(places, data["logs"], strict=True)
        ]
    else:
        states = [[text.encode() for text in texts] for texts in data["states"]]
    return Kept(StateSchema.of_json(data["holdings"]), states, [(t, r, g) for t, r, g in data["after"]])


def main() -> None:
    from tests.support.stored_program import WHOLE

    for story in (SMALL, WHOLE):
        there = story.made()
        run = Batched(there, Clock(), story.buckets)
        run.batch(story.halves()[0], CUT)
        texts = [list(states) for states in run.states]
        contents = {"holdings": state_schema(there).to_json()}
        after = remaining_outputs(run, story)
        for name, key, states in (
            (f"format-{FORMAT}-state-{STATE_VERSION}.json", "states", [[text.decode() for text in states] for states in texts]),
            (f"format-{FORMAT}-logs-{HEAD_VERSION}.json", "logs", as_logs(there, texts, CUT)),
        ):
            path = story.folder / name
            if path.exists():
                print(f"{path} is there already, and stays as it is")  # noqa: T201
                continue
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(_lines({**contents, key: states, "after": after})) + "\n")


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """JSON with a line for each state and each firing."""
    for number, (key, value) in enumerate(data.items()):
        yield f'{", " if number else "{"}"{key}":'
        if isinstance(value, list):
            yield "[" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in value) + "]"
        else:
            yield json.dumps(value, ensure_ascii=False)
    yield "}"


if __name__ == "__main__":
    main()
