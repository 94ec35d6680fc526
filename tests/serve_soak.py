"""Kills of a pipeline on Spark that publishes a stream, with three readers, which go on behind their last element.

    python -m tests.serve_soak [--kills 100] [--minutes 60] [--seed 1]

The driver, its JVM, or everything at once is killed with SIGKILL before, in and after batches, and the command is given again, while files
come into a watched folder. One reader has Server-Sent Events, one a WebSocket, one asks for lists again and again. None of them may see an
ID with two contents, or a number twice or left out, and all have the elements of a run in process over the same files in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import aiohttp

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.victims import Found, Phase, Run, batch_phase

CONFIG = """
name: served
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input:
  - {{ name: a, format: ndjson, {input} }}
output:
  - {{ path: {out} }}
  - {{ serve: {{ listen: "127.0.0.1:{port}/fire", keep: {{ elements: 100000 }}, linger: 2 min }}, of: [Out, Wide, a] }}
spark: {{ master: "local[2]", checkpoint: {out}-checkpoint, batch: 100, buckets: 2 }}
"""
RULES = """
PREFIX : <http://e/>
rule Out define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 5 s from A with Out.?x = A.?x, Out.?y = B.?y
rule Wide define Wide = [ [] :x ?x ; :n ?n ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and ?n = count(*) of Out within 20 s from A with Wide.?x = A.?x, Wide.?n = ?n
"""
_NAME = re.compile(rb"/fire/(-?\d+-\d+)>")
_NUMBER = re.compile(rb'<urn:dotr:number> "(\d+)"')
_PAUSE = 0.02
_START_SECONDS = 300
"""Of a run, without a batch in the phase that was chosen; then any of the phases will do."""


class Reader:
    """The elements that a client has received: the texts by ID, and the IDs in their order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: dict[str, bytes] = {}
        self.problems: list[str] = []
        self.connections = 0

    @property
    def last(self) -> str | None:
        return next(reversed(self.texts), None)

    def take(self, id: str, text: bytes) -> None:
        if self.texts.setdefault(id, text) != text:
            self.problems.append(f"{self.name}: {id} has two contents")
        numbers = _NUMBER.findall(text)
        if numbers and int(numbers[0]) != [*self.texts].index(id):
            self.problems.append(f"{self.name}: {id} has the number {int(numbers[0])}, and is element {[*self.texts].index(id)}")


async def read_events(reader: Reader, session: aiohttp.ClientSession, base: str) -> None:
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": reader.last} if reader.last else {})}
    async with session.get(base + "/events?format=nquads" + ("" if reader.last else "&since=0"), headers=headers) as answer:
        reader.connections += answer.status == 200
        fields: dict[bytes, list[bytes]] = {}
        async for line in answer.content:
            name, _, value = line.rstrip(b"\n").partition(b": ")
            if name:
                fields.setdefault(name, []).append(value)
                continue
            if b"id" in fields and b"event" not in fields:
                reader.take(fields[b"id"][0].decode(), b"\n".join(fields[b"data"]))
            elif fields.get(b"event") not in (None, [b"end"]):
                reader.problems.append(f"{reader.name}: {fields}")
            fields = {}


async def read_socket(reader: Reader, session: aiohttp.ClientSession, base: str) -> None:
    place = f"after={reader.last}" if reader.last else "since=0"
    async with session.ws_connect(f"{base}/ws?format=nquads&{place}") as socket:
        reader.connections += 1
        async for message in socket:
            text = message.data.encode()
            reader.take(_NAME.findall(text)[0].decode(), text.rstrip(b"\n"))


async def read_lists(reader: Reader, session: aiohttp.ClientSession, base: str) -> None:
    while True:
        place = f"&after={reader.last}" if reader.last else ""
        async with session.get(f"{base}/elements?limit=1000{place}", headers={"Accept": "application/x-ndjson"}) as answer:
            reader.connections += 1
            if answer.status != 200:
                reader.problems.append(f"{reader.name}: {answer.status} {await answer.text()}")
            for line in (await answer.read()).splitlines():
                reader.take(json.loads(line)["id"], line)
        await asyncio.sleep(_PAUSE)


class Readers:
    """Three clients in a thread, which connect again until they are stopped."""

    def __init__(self, port: int) -> None:
        self.all = [Reader(name) for name in ("events", "socket", "lists")]
        self._base = f"http://127.0.0.1:{port}/fire"
        self._is_over = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()))
        self._thread.start()

    async def _read(self) -> None:
        async with aiohttp.ClientSession() as session:
            tasks = [
                asyncio.ensure_future(self._again(partial(read, reader, session, self._base)))
                for reader, read in zip(self.all, (read_events, read_socket, read_lists), strict=True)
            ]
            while not self._is_over:
                await asyncio.sleep(_PAUSE)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _again(self, read: Callable[[], object]) -> None:
        while True:
            with suppress(aiohttp.ClientError, OSError):
                await read()  # type: ignore[misc]
            await asyncio.sleep(_PAUSE)

    def wait_for(self, number: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while any(len(each.texts) < number for each in self.all) and time.monotonic() < deadline:
            time.sleep(_PAUSE)

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()


def soak(folder: Path, kills: int, until: float, choose: random.Random) -> tuple[Found, list[Reader]]:
    found, port = Found(), free_port()
    (folder / "r.dotr").write_text(RULES)
    (folder / "d").mkdir()
    config = folder / "soak.yaml"
    config.write_text(CONFIG.format(input='path: "d/*.ndjson", watch: true, settle: 0 s', out="out", port=port))
    run, readers, fed = Run(config, found), Readers(port), 0

    def feed() -> None:
        nonlocal fed
        new = folder / "new"
        new.write_text(
            "".join(json.dumps({"time": n // 2, "graph": f":s :v {choose.randrange(50)} ."}) + "\n" for n in range(fed, fed + 12))
        )
        fed += 12
        new.rename(folder / "d" / f"{fed:09d}.ndjson")

    def moment() -> tuple[int, Phase]:
        return batch_phase(folder / "out-checkpoint", [folder / "out"], run.started)

    try:
        while len(found.kills) < kills and time.monotonic() < until and not any(each.problems for each in readers.all):
            run.start()
            phase, who = choose.choice([*Phase]), choose.choice(["driver", "driver", "jvm", "all"])
            begun, before = time.monotonic(), moment()[0] - choose.choice([0, 1])  # a batch that was cut off may be cut off again
            pause, next_feed = choose.uniform(0, 1.0), 0.0
            while run.process.poll() is None:
                # On a slow machine files wait for the run: an element of the input gives about three of the stream.
                if time.monotonic() > next_feed and 3 * fed < 3_000 + max(len(each.texts) for each in readers.all):
                    feed()
                    next_feed = time.monotonic() + choose.uniform(0, 0.4)
                time.sleep(0.005)
                batch, now = moment()
                if time.monotonic() > begun + _START_SECONDS or (batch > before and now is phase):
                    time.sleep(pause if phase is Phase.BETWEEN else 0)
                    if run.kill(who, choose, moment, [*Phase]):
                        break
            killed = run.process.returncode is None
            code = run.ended()
            if not killed:
                raise RuntimeError(f"it ended with {code}: {run.stderr_text[-2000:]}")
            print(f"kill {len(found.kills)}: {found.kills[-1]}; {[len(each.texts) for each in readers.all]} elements", flush=True)  # noqa: T201
        process = run.start("--set", "input.0.watch=false")
        readers.wait_for(1)
        local = folder / "local.yaml"
        local.write_text(CONFIG.format(input='path: "d/*.ndjson"', out="local", port=free_port()).replace("linger: 2 min", "linger: 0 s"))
        here = os.getcwd()
        os.chdir(folder)
        try:
            run_local(build(read_config(str(local)), fresh=False, on_spark=False), lambda totals: None)
        finally:
            os.chdir(here)
        texts = [json.loads(line) for line in (folder / "local").read_text().splitlines()]
        expected = len(texts) + fed  # all events, and all elements of the input
        readers.wait_for(expected)
        process.terminate()
        run.ended()
    finally:
        if run.process.poll() is None:
            run.process.kill()
        readers.stop()
    events, socket, lists = readers.all
    found.events = expected
    found.problems += [problem for each in readers.all for problem in each.problems]
    found.problems += [
        f"{each.name} has {len(each.texts):,} of {expected:,} elements" for each in readers.all if len(each.texts) != expected
    ]
    if events.texts != socket.texts:
        found.problems.append("the events and the messages differ")
    if [*lists.texts] != [*events.texts]:
        found.problems.append("the lists have other IDs")
    fired = [json.loads(line) for line in lists.texts.values() if b'"rule"' in line]
    if [{**each, "id": ""} for each in fired] != [{**each, "id": ""} for each in texts]:
        found.problems.append("the events are not those of an undisturbed run in process")
    return found, readers.all


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60, help="no further kill after so many")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        until = time.monotonic() + options.minutes * 60
        found, readers = soak(Path(folder), options.kills, until, random.Random(options.seed))
    connections = ", ".join(f"{each.name} {each.connections}" for each in readers)
    print(f"{found}; connections: {connections}", flush=True)  # noqa: T201
    return bool(found.problems)


if __name__ == "__main__":
    sys.exit(main())
