"""Published streams of a run on Spark: the same elements over crashes, restarts and changes, and as in process."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from dotr.commands.status.text import status
from dotr.errors.diagnostics import Refused
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import Checkpoint
from dotr.streams.connectors.opening import PublishedOutputs
from dotr.streams.connectors.serve.sink import ServedBatches
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.served_readings import Readings, assert_same, quads_of_line, read_now

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

CONFIG = """
name: served
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: a, format: ndjson, path: in.ndjson }
output:
  - { path: OUT }
  - { serve: { listen: "127.0.0.1:PORT/all", keep: { elements: 600 } } }
  - { serve: { listen: "127.0.0.1:PORT/high", keep: { elements: 5000 } }, of: [High, a] }
spark: { batch: 240, checkpoint: checkpoint, buckets: 1 }
"""
RULES = """
PREFIX : <http://e/>
rule Low define Low = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ] with Low.?x = A.?x
rule High define High = [ [] :x ?x ] from B = [ SELECT ?x WHERE { ?s :v ?x FILTER(?x > 100) } ]
and last C = [ SELECT ?y WHERE { ?s :v ?y } ] within 9 s from B with High.?x = B.?x
"""


class Crash(Exception):
    """The end of the run."""


class Reader:
    """A client that reads all that is kept, again and again."""

    def __init__(self, port: int, path: str) -> None:
        self.port, self.path = port, path
        self.seen: dict[str, str] = {}
        self.numbers: dict[str, int] = {}

    def get(self, resource: str, accept: str = "application/x-ndjson") -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", f"/{self.path}/{resource}", headers={"Accept": accept})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def read(self) -> None:
        """Read what is kept, a page behind the other: no ID has another content than before, and what was there is there or has left."""
        found: dict[str, str] = {}
        while text := self.get(f"elements?limit=1000&after={[*found][-1]}" if found else "elements?limit=1000")[1]:
            found |= {json.loads(line)["id"]: line for line in text.splitlines()}
        for id, line in found.items():
            assert self.seen.setdefault(id, line) == line
        if found and self.seen:
            after = [id for id in self.seen if place(id) >= place(next(iter(found)))]
            assert after == [*found]


def place(id: str) -> tuple[int, ...]:
    return tuple(map(int, id.split("-")))


def settled(folder: Path, out: str, port: int, changes: Callable[[str], str] = str) -> str:
    path = folder / f"{out}.yaml"
    path.write_text(changes(CONFIG.replace("OUT", out).replace("PORT", str(port))))
    return str(path)


def on_spark(path: str, report: Callable[[Totals], None] = lambda totals: None) -> Totals:
    from dotr.runtimes.spark.run import run_spark

    return run_spark(build(read_config(path), fresh=False, on_spark=True), report)


def crash(path: str, target: type, name: str, call: int) -> None:
    """A run in which a method raises `Crash` in place of its call of a number, from 0 on."""
    real, calls = getattr(target, name), iter(range(1_000_000))

    def failing(self: Any, *arguments: Any) -> Any:
        if next(calls) == call:
            raise Crash(name)
        return real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, name, failing)
        with pytest.raises(Exception, match=name):
            on_spark(path)


@pytest.mark.usefixtures("spark")
def test_elements_are_served_once_over_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "in.ndjson").write_text("".join(json.dumps({"time": n // 2, "graph": f":s{n} :v {n} ."}) + "\n" for n in range(700)))
    port = free_port()
    all_, high = Reader(port, "all"), Reader(port, "high")

    def read(totals: Totals) -> None:
        all_.read()
        high.read()

    def read_and_crash(totals: Totals) -> None:
        read(totals)
        if totals.elements:
            raise Crash("served, and not committed")

    path = settled(tmp_path, "out", port)
    crash(path, ServedBatches, "write_batch", 1)  # one output has batch 0, the other one has not
    with pytest.raises(Exception, match="served, and not committed"):
        on_spark(path, read_and_crash)
    crash(path, ServedBatches, "write_batch", 2)  # batch 0 is repeated, and batch 1 is in no output
    readings: list[Readings] = []

    def read_by_all_protocols(publisher: PublishedOutputs, check: object) -> None:
        publisher._end(is_stopped=False)
        (stream, *_) = publisher.streams.values()
        readings.append(read_now(stream.base, every=20, last=100, pages=["nquads"]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublishedOutputs, "linger", read_by_all_protocols)
        on_spark(settled(tmp_path, "out", port, lambda text: text.replace("5000", "600").replace("buckets: 1", "buckets: 2")), read)
    layout = Checkpoint("checkpoint").layout
    assert layout is not None
    assert (layout.buckets, layout.generation) == (2, 1)
    told = status("checkpoint", "text", quick=True).splitlines()
    assert (
        told[told.index("Published streams:") + 1] == f"  http://127.0.0.1:{port}/all/: {len(all_.seen):,} elements; the last 799 are kept"
    )
    assert json.loads(status("checkpoint", "json", quick=True))["streams"][1]["next"] == len(high.seen)
    written = [json.loads(line) for file in sorted((tmp_path / "out").glob("*.ndjson")) for line in file.read_text().splitlines()]
    newest = [*all_.seen][-799:]
    numbered = enumerate(zip(newest, written[-799:], strict=True), len(written) - 799)
    kept = {id: quads_of_line(line, f"{readings[0].base}{id}", number) for number, (id, line) in numbered}
    assert_same(readings[0], kept, every=20, last=100)
    local = Reader(port, "all"), Reader(port, "high")

    def read_locally(totals: Totals) -> None:
        with suppress(ConnectionRefusedError):  # the last report comes behind the end
            for each in local:
                each.read()

    run_local(
        build(
            read_config(settled(tmp_path, "local", port, lambda text: text.replace("elements: 600", "elements: 5000"))),
            fresh=False,
            on_spark=False,
        ),
        read_locally,
    )
    assert [{**json.loads(line), "id": 0} for line in all_.seen.values()] == [{**each, "id": 0} for each in written]
    assert all_.seen == local[0].seen
    assert high.seen == local[1].seen


def test_a_port_in_use_is_told_before_the_checkpoint_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "in.ndjson").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        path = settled(tmp_path, "out", taken.getsockname()[1])
        with pytest.raises(Refused) as refused:
            on_spark(path)
    assert [each.code for each in refused.value.diagnostics] == ["C228"]
    assert not (tmp_path / "checkpoint").exists()
