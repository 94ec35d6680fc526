"""Readers of a published stream that break and return while a random program runs: what they collect is one piece of the output file
without a hole, or the hole is told."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.connectors.opening import PublishedOutputs
from dotr.streams.connectors.serve import kept
from dotr.streams.connectors.serve.sink import ServedEvents
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.properties import examples
from tests.support.served_readings import quads_of_line
from tests.support.strategies_continuous import continuous_programs
from tests.support.strategies_lars import lars_programs
from tests.support.strategies_temporal import temporal_programs
from tests.support.varied_programs import varied_program

Program: TypeAlias = tuple[dict[str, str], list[tuple[int, str, str]], str]
"""Files by name; elements as milliseconds, the name of the stream, and Turtle; the namespace of the empty prefix."""

EXAMPLE: Final = "http://example.org/"
MOST: Final = 300
"""Number of events beyond which an example is skipped: a recursive event may double its matches at every instant."""


def timed(elements: Iterable[tuple[float, str]]) -> list[tuple[int, str, str]]:
    return [(round(at * 1000), "in", turtle) for at, turtle in elements]


def of_rules(seed: int) -> Program:
    made = varied_program(seed)
    texts = [". ".join([" ".join(triple) for triple in each.triples]).replace("_:", "_:b") + " ." for each in made.elements]
    return {"r.dotr": made.rules}, timed(zip([each.time / 1e6 for each in made.elements], texts, strict=True)), "http://e/"


def programs() -> st.SearchStrategy[Program]:
    """Programs of all four languages."""
    return st.one_of(
        st.integers(0, 1 << 20).map(of_rules),
        continuous_programs().map(
            lambda p: (
                {"q.rspql": p.queries, "r.dotr": p.rules, "k.dlog": p.datalog},
                [(round(at * 1000), stream, turtle) for at, stream, turtle in p.elements],
                EXAMPLE,
            )
        ),
        lars_programs().map(
            lambda p: (
                {"a.lars": p.first, "b.lars": p.later, "r.dotr": p.rules, "q.rspql": p.queries, "k.dlog": p.datalog},
                timed(p.elements),
                EXAMPLE,
            )
        ),
        temporal_programs().map(lambda p: ({"q.epsparql": p.units, "r.dotr": p.rules, "k.dlog": p.datalog}, timed(p.elements), EXAMPLE)),
    )


class TooMany(Exception):
    """The end of an example with too many events."""


class Made:
    """Elements that the run has made so far: the IDs in their order; `first`: the number of the first that is kept."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.first = 0


class Reader:
    """A client that breaks and returns.

    `pieces`: what it has collected, by ID, in pieces between which a hole was told; `due`: the number of its next element.
    """

    def __init__(self, port: int, resource: str, made: Made) -> None:
        self._port, self._resource, self._made = port, resource, made
        self.pieces: list[dict[str, str]] = [{}]
        self.due = 0
        self._first = 0  # the number of the first that was kept when it connected
        self._answer: HTTPResponse | None = None
        self._connection: HTTPConnection | None = None

    def act(self, chance: random.Random) -> None:
        """Connect or go on, read some of what there is, and perhaps break."""
        if self._answer is None and not self._connect(chance.randrange(4)):
            return
        for _ in range(chance.choice((0, 1, 2, MOST))):
            if self.due >= len(self._made.ids) or not self._read():
                break
        if self._resource == "elements" or chance.random() < 0.4:
            self._break()

    def finish(self) -> None:
        """Read the rest of a stream that has ended."""
        self._break()
        while self.due < len(self._made.ids) and self._connect(0):
            while self.due < len(self._made.ids) and self._read():
                pass
            self._break()

    def _connect(self, last: int) -> bool:
        """Connect behind the last element, or with so many of the last ones; false where there is nothing any more."""
        while True:
            behind = next(reversed(self.pieces[-1]), "")
            headers = {"Accept": "text/event-stream" if self._resource == "events" else "application/x-ndjson"}
            path = f"/{self._resource}?" + ("format=nquads&" if self._resource == "events" else "")
            if behind and self._resource == "events":
                headers["Last-Event-ID"] = behind
            elif behind:
                path += f"after={behind}"
            else:
                path += f"last={last or MOST}"
            self._connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
            self._first = self._made.first
            self._connection.request("GET", path, headers=headers)
            self._answer = self._connection.getresponse()
            if self._answer.status == 410:
                body = json.loads(self._answer.read())
                self._told(behind, body["first"])
                self._break()
                continue
            if self._answer.status == 204:
                assert self.due == len(self._made.ids)
                self._break()
                return False
            assert self._answer.status == 200, self._answer.read()
            kept_or_asked = max(self._made.first, len(self._made.ids) - (last or MOST))
            self.due = self._made.ids.index(behind) + 1 if behind else kept_or_asked
            return True

    def _told(self, behind: str, first: str) -> None:
        """Note a hole: the last element that was read is not kept any more."""
        assert self._made.ids.index(behind) < self._first
        assert first == self._made.ids[self._first]
        self.pieces.append({})
        self.due = self._first

    def _read(self) -> bool:
        """Read an element; false where the server has closed the connection."""
        assert self._answer is not None
        try:
            lines = [self._answer.readline().decode()]
            while self._resource == "events" and lines[-1] not in ("", "\n"):
                lines.append(self._answer.readline().decode())
        except (HTTPException, OSError):
            lines = [""]
        if lines[-1] == "":
            self._break()
            return False
        if self._resource != "events":
            id, text = json.loads(lines[0])["id"], lines[0]
        elif lines[0] == "event: gap\n":
            self._told(next(reversed(self.pieces[-1])), lines[1].removeprefix("data: ").strip())
            return True
        elif lines[0].startswith("event: "):
            self._break()
            return False
        else:
            id, text = lines[0].removeprefix("id: ").strip(), "".join([line.removeprefix("data: ") for line in lines[1:]])
        assert id == self._made.ids[self.due]
        self.pieces[-1][id] = text
        self.due += 1
        return True

    def _break(self) -> None:
        for each in (self._answer, self._connection):
            if each is not None:
                each.close()
        self._answer = self._connection = None


def config(folder: Path, program: Program, port: int, keep: int) -> str:
    """Write the files of a pipeline, and return the path of its configuration."""
    files, elements, namespace = program
    for name, text in files.items():
        (folder / name).write_text(text)
    streams = sorted({stream for _, stream, _ in elements})
    for stream in streams:
        lines = [json.dumps({"time": at, "graph": turtle}) + "\n" for at, each, turtle in sorted(elements) if each == stream]
        (folder / f"{stream}.ndjson").write_text("".join(lines))
    prefixes = {"": namespace, **{name: f"http://www.w3.org/{iri}#" for name, iri in PREFIXES.items()}}
    settings = {
        "name": "random",
        "prefixes": prefixes,
        "time": {"unit": "ms"},
        "rules": [name for name, text in files.items() if text and not name.endswith(".dlog")],
        "knowledge": {"datalog": ["k.dlog"]} if files.get("k.dlog") else {},
        "input": [{"name": each, "stream": namespace + each, "format": "ndjson", "path": f"{each}.ndjson"} for each in streams],
        "output": [{"path": "out.ndjson"}, {"serve": {"listen": f"127.0.0.1:{port}", "keep": {"elements": keep}}}],
        "engine": "local",
    }
    path = folder / "c.yaml"
    path.write_text(json.dumps(settings))
    return str(path)


PREFIXES: Final = {"xsd": "2001/XMLSchema", "owl": "2002/07/owl", "rdfs": "2000/01/rdf-schema"}


@given(programs(), st.integers(0, 1 << 30))
@examples(12)
def test_readers_that_break_and_return_have_a_piece_of_the_file_or_are_told(program: Program, seed: int) -> None:
    chance, made, port = random.Random(seed), Made(), free_port()
    readers = [Reader(port, each, made) for each in ("events", "stream", "elements")]
    real = ServedEvents.end_instant

    def look(stream: kept.KeptElements) -> None:
        made.first = stream.first

    def end_instant(sink: ServedEvents) -> None:
        made.ids += [f"{firing.time}-{ordinal}" for firing, ordinal in sink._instant]
        real(sink)
        sink._stream.catch_up()
        look(sink._stream.kept)
        if len(made.ids) > MOST:
            raise TooMany
        for reader in readers:
            if made.ids and chance.random() < 0.6:
                reader.act(chance)

    def finish(publisher: PublishedOutputs, check: object) -> None:
        publisher._end(is_stopped=False)
        for reader in readers:
            if made.ids:
                reader.finish()

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.chdir(folder)
        patch.setattr(kept, "PAGE", chance.randint(1, 4))
        patch.setattr(ServedEvents, "end_instant", end_instant)
        patch.setattr(PublishedOutputs, "linger", finish)
        keep = chance.choice((1, 2, 5, 20, MOST))
        note(f"{program}, keep {keep}, page {kept.PAGE}, seed {seed}")
        with suppress(TooMany):
            try:
                run_local(build(read_config(config(folder, program, port, keep)), fresh=False, on_spark=False), lambda totals: None)
            except Refused as refused:
                note(str(refused))
                assume(False)
        assume(0 < len(made.ids) <= MOST)
        lines = [json.loads(line) for line in (folder / "out.ndjson").read_text().split("\n")[:-1]]
    assert len(lines) == len(made.ids)
    base = f"http://127.0.0.1:{port}/"
    for reader in readers:
        for number, piece in enumerate(reader.pieces):
            start = made.ids.index(next(iter(piece))) if piece else 0
            assert [*piece] == made.ids[start : start + len(piece)]
            for at, (id, text) in enumerate(piece.items(), start):
                if text[0] == "{":
                    assert json.loads(text) == {**lines[at], "id": id}
                else:
                    assert {each.removesuffix(" .") for each in text.split("\n") if each} == quads_of_line(lines[at], base + id, at)
            assert piece or number + 1 == len(reader.pieces)
        assert reader.due == len(made.ids)
