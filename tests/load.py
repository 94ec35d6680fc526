"""Load through Kafka and HTTP in and out, with the memory of the run over time: is it flat, and is each event there once?

    python -m tests.load [SECONDS] [--engine spark] [--each 50] [--kill]          # 300 seconds, 50 elements of a time from each input

--kill: the broker is killed and started again half-way.

Both inputs have the same times, so that each waits for the other. There is a line of output each quarter of a minute: elements so far, and
the resident memory of Spark's JVM and of the Python processes of the run in MiB. The JVM has 512 MiB of heap: it fills them before it
frees any, so memory is flat from then on, or it is not. The run ends with 1 where an output lacks an event.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

from tests.support.kafka_broker import Broker, Sent, running_broker
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.victims import processes

RULES: Final = """\
PREFIX : <http://e/>
query Now = [ SELECT ?n ?room WHERE { ?s :n ?n ; :room ?room } ]
rule Seen define Seen = [ [] :n ?n ] from Now with Seen.?n = Now.?n
rule Again define Again = [ [] :room ?room ] from Now and last Now as Before [ FILTER(?room = Now.?room && ?n < 0) ] within 20 s from Now
with Again.?room = Now.?room
"""
CONFIG: Final = """\
name: load
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input:
  - {{ name: k, format: ndjson, idle: 2 min, kafka: {{ bootstrap.servers: "{servers}", subscribe: {topic} }} }}
  - {{ name: h, format: ndjson, idle: 2 min, http: {{ listen: "127.0.0.1:{listen}/in", tokens: "${{IN_TOKEN}}" }} }}
output:
  - {{ format: ndjson, kafka: {{ bootstrap.servers: "{servers}", topic: {topic}-out, delivery: at_least_once }} }}
  - {{ format: ndjson, http: {{ url: "http://127.0.0.1:{post}/out" }} }}
dead_letter: dead.ndjson
spark: {{ master: "local[2]", checkpoint: checkpoint, conf: {{ spark.ui.enabled: false, spark.driver.memory: 512m }} }}
"""


class Counter:
    """A server that counts the lines of each request, a repeated key once."""

    def __init__(self) -> None:
        self.port = free_port()
        self.lines: dict[str, int] = {}
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()

    async def _serve(self) -> None:
        application = web.Application(client_max_size=1 << 30)
        application.router.add_post("/out", self._count)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        await asyncio.Event().wait()

    async def _count(self, request: web.Request) -> web.Response:
        self.lines[request.headers["Idempotency-Key"]] = (await request.read()).count(b"\n")
        return web.Response()


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def element(at: int, number: int) -> str:
    return json.dumps({"time": at, "graph": f":s{number} :n {number} ; :room :r{number % 7} ."})


def send(port: int, body: bytes, run: subprocess.Popen[bytes]) -> None:
    """Post until accepted, or until the run has ended."""
    while run.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", "/in", body, {"Authorization": "Bearer t0ken", "Content-Type": "application/x-ndjson"})
            if connection.getresponse().status == 202:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.1)


class Resident(NamedTuple):
    """Resident memory in MiB: of Spark's JVM, and of all Python processes."""

    jvm: float
    python: float


def resident(pid: int) -> Resident:
    """The memory of a process and its children."""
    pages = {True: 0, False: 0}
    for each in processes(pid):
        try:
            is_java = Path(f"/proc/{each}/comm").read_text().startswith("java")
            pages[is_java] += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except OSError:
            continue
    return Resident(*(pages[is_java] * os.sysconf("SC_PAGE_SIZE") / (1 << 20) for is_java in (True, False)))


def load(folder: Path, broker: Broker, seconds: float, engine: str, each: int, *, kill: bool) -> int:
    """Run the load; returns the number of missing and repeated events."""
    server, listen, topic = Counter(), free_port(), broker.topic("load")
    broker.create(f"{topic}-out")
    (folder / "r.dotr").write_text(RULES)
    (folder / "c.yaml").write_text(CONFIG.format(servers=broker.servers, topic=topic, listen=listen, post=server.port))
    command = [sys.executable, "-m", "dotr", "run", "c.yaml", "--engine", engine]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IN_TOKEN": "t0ken"}
    with (folder / "run.log").open("wb") as log:
        run = subprocess.Popen(command, cwd=folder, stderr=log, env=environment, start_new_session=True)
    begun = shown = time.monotonic()
    at, killed = 0, not kill
    show(" seconds   elements   posted out   MiB of the JVM, of Python")
    while (now := time.monotonic()) < begun + seconds and run.poll() is None:
        at += 1
        broker.produce(topic, [Sent(element(at, 2 * (at * each + number)).encode()) for number in range(each)])
        send(listen, "\n".join(element(at, 2 * (at * each + number) + 1) for number in range(each)).encode(), run)
        if now >= shown:
            shown += 15
            memory = resident(run.pid)
            show(f"{now - begun:8.0f} {2 * at * each:10,} {sum(server.lines.values()):12,} {memory.jvm:12.0f} {memory.python:11.0f}")
        if not killed and now >= begun + seconds / 2:
            killed = True
            broker.restart()
            show("the broker was killed, and started again")
    expected, deadline = 2 * (at - 1) * each, time.monotonic() + 300  # the last instant stays open
    while sum(server.lines.values()) < expected and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.5)
    run.send_signal(signal.SIGTERM)
    code = run.wait(120)
    posted = sum(server.lines.values())
    values = [json.loads(record.value or b"{}")["attributes"]["n"] for record in broker.consume(f"{topic}-out")]
    show(f"exit code {code}; elements {2 * at * each:,}, expected events {expected:,}, posted {posted:,}, in the topic {len(values):,}")
    show((folder / "run.log").read_text()[-1500:])
    return abs(posted - expected) + abs(len(set(values)) - expected) + len(values) - len(set(values))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=300.0)
    parser.add_argument("--engine", default="local", choices=("local", "spark"))
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder) / "broker") as broker:
        return int(bool(load(Path(folder), broker, options.seconds, options.engine, options.each, kill=options.kill)))


if __name__ == "__main__":
    sys.exit(main())
