"""The server of an input killed with -9 while many clients send: each message that was answered with 202 is in the spool once.

`DOTR_KILLS=100` kills it that often.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from dotr.streams.formats.segments import Segments
from dotr.streams.merge.feeds import SegmentsFeed
from dotr.streams.records import Format, InputFile
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

KILLS = int(os.environ.get("DOTR_KILLS", "4"))
CLIENTS = 6
LEAST = 20
"""The messages that a server accepts before it is killed."""


class Client(threading.Thread):
    """A client that sends one numbered message after the other, each once; one without an answer is in doubt."""

    def __init__(self, name: int, port: int, stop: threading.Event) -> None:
        super().__init__()
        self.place = name
        self.port = port
        self.stop = stop
        self.accepted: list[int] = []
        self.in_doubt: list[int] = []

    def run(self) -> None:
        number = self.place
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        while not self.stop.is_set():
            number += CLIENTS
            body = json.dumps({"time": number, "graph": "", "padding": "x" * (number % 500)}).encode()
            try:
                connection.request("POST", "/in", body, {"Content-Type": "application/x-ndjson"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 202, answer.status
                self.accepted.append(number)
            except (OSError, HTTPException):
                self.in_doubt.append(number)
                connection.close()
                time.sleep(0.02)
        connection.close()


def _accepted(clients: Sequence[Client]) -> int:
    return sum(len(client.accepted) for client in clients)


def test_accepted_messages_outlive_kills(tmp_path: Path) -> None:
    port, stop, choose = free_port(), threading.Event(), random.Random(7)
    clients = [Client(name, port, stop) for name in range(CLIENTS)]
    command = [sys.executable, "-m", "tests.support.spool_server", str(port), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for client in clients:
        client.start()
    try:
        for _ in range(KILLS):
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as server:
                assert server.stdout is not None
                server.stdout.readline()
                before = _accepted(clients)
                while _accepted(clients) < before + LEAST:  # on a busy machine a server may need seconds for them
                    time.sleep(0.01)
                time.sleep(choose.uniform(0, 0.3))
                server.kill()
    finally:
        stop.set()
        for client in clients:
            client.join()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as server:  # its start repairs the spool
        assert server.stdout is not None
        server.stdout.readline()
        server.kill()
    feed = SegmentsFeed(Segments(InputFile("in", "", Format.NDJSON), tmp_path))
    records = []
    while (chunk := feed.read(1_000)) is not None:
        records += chunk.records
    feed.close()
    found = Counter((record.time or 0) // 1_000_000 for record in records)
    accepted = [number for client in clients for number in client.accepted]
    assert len(accepted) >= LEAST * KILLS
    assert [number for number in accepted if found[number] != 1] == []
    assert set(found) <= set(accepted) | {number for client in clients for number in client.in_doubt}
    assert max(found.values()) == 1
    assert [record.line for record in records] == list(range(1, len(records) + 1))
    for client in clients:  # in the order in which it sent them
        own = [number for record in records if (number := (record.time or 0) // 1_000_000) % CLIENTS == client.place]
        assert own == sorted(own)
