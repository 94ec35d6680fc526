"""CPU of a published stream: elements and messages, clients at a rate, a first push, a job without clients, and what is kept.

    python -m benchmarks.serve [--clients 100] [--messages 2000] [--seconds 10] [--elements 60000] [--rounds 3]

Clients are in a process of their own, which reads and drops; what is counted is the CPU of the process that serves, of which the least of
the rounds is printed. Beside it stands aiohttp alone, which writes as many bytes to as many clients. A first push is on the clock: from
the line that closes an instant to the event at a client.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import multiprocessing
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web
from pyjelly.integrations.generic.generic_sink import GenericStatementSink
from pyjelly.integrations.generic.parse import parse_jelly_grouped

from benchmarks.kafka import RULES, cpu_seconds, records
from dotr.model.time import Clock
from dotr.streams.connectors.serve.broadcast import Framing, Kind
from dotr.streams.connectors.serve.elements import ElementFormat, ElementWriter
from dotr.streams.connectors.serve.kept import Keep, KeptElement, KeptElements, NewElement
from dotr.streams.connectors.serve.kept_files import StreamExtent, opened
from dotr.streams.connectors.sse.source import EventParser
from dotr.streams.connectors.websocket.source import FrameParser
from dotr.streams.sinks.batches import BatchHistory
from dotr.streams.sinks.events import OutputTerms
from tests.support.ports import free_port
from tests.support.published import PublishedTest, published

GRAPH = "\n".join(f'<http://e/reading{n}> <http://e/property{n}> "value {n} of a reading" .' for n in range(4))
CONFIG = """\
name: serve-benchmark
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, path: {path} }}]
output: [{{ path: {name}-out.ndjson }}{served}]
engine: local
"""


def read(url: str, number: int, connected: object, stop: object) -> None:
    """Read with so many connections until `stop` is set."""
    parts = urlsplit(url)
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{upgrade if parts.path.endswith('/ws') else ''}\r\n".encode()
    waiting = selectors.DefaultSelector()
    for _ in range(number):
        client = socket.create_connection((parts.hostname or "", parts.port or 0))
        client.sendall(request)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 "), "it is refused"
        waiting.register(client, selectors.EVENT_READ)
    connected.set()  # type: ignore[attr-defined]
    while not stop.is_set():  # type: ignore[attr-defined]
        for key, _ in waiting.select(0.2):
            key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
        time.sleep(0.002)  # so that it reads what many messages have brought, as one on another machine does


@contextmanager
def reading(url: str, number: int) -> Iterator[None]:
    """So many clients in another process."""
    context = multiprocessing.get_context("spawn")
    connected, stop = context.Event(), context.Event()
    process = context.Process(target=read, args=(url, number, connected, stop))
    process.start()
    assert connected.wait(60)
    try:
        yield
    finally:
        stop.set()
        process.join()


def cpu_of(act: Callable[[], None]) -> float:
    """CPU seconds of this process."""
    before = time.process_time()
    act()
    return time.process_time() - before


def wait(stream: PublishedTest, clients: int) -> None:
    """Wait until all clients have all elements."""
    broadcast = stream.stream.broadcast
    while (
        broadcast.next < stream.stream.kept.next
        or len(broadcast._all()) < clients
        or any(client.position < broadcast.next for client in broadcast._all())
    ):
        time.sleep(0.001)


def pushed(path: str, clients: int, messages: int, pause: float) -> float:
    """CPU of pushing messages, one every `pause` seconds."""
    with published(clock=Clock(), keep=Keep(), clients=clients) as stream, reading(f"{stream.address}{path}", clients):
        wait(stream, clients)

        def push() -> None:
            for at in range(messages):
                stream.add([at], graph=GRAPH)
                time.sleep(pause)
            wait(stream, clients)

        seconds = cpu_of(push)
        assert not stream.stream.counts.slow
        return seconds


def pushed_by_aiohttp(clients: int, messages: int, pause: float, text: bytes) -> float:
    """CPU of the same with aiohttp alone."""
    port, loop = free_port(), asyncio.new_event_loop()
    responses: list[web.StreamResponse] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        responses.append(response)
        await asyncio.sleep(3600)
        return response

    async def start() -> web.Server:
        manager = web.Server(handle)
        await loop.create_server(manager, "127.0.0.1", port)
        return manager

    async def push() -> None:
        for _ in range(messages):
            for response in responses:
                await response.write(text)
            await asyncio.sleep(pause)

    async def come() -> None:
        while len(responses) < clients:
            await asyncio.sleep(0.01)

    manager = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_until_complete, args=(come(),))
    thread.start()
    with reading(f"http://127.0.0.1:{port}/events", clients):
        thread.join()
        seconds = cpu_of(lambda: loop.run_until_complete(push()))
        loop.run_until_complete(manager.shutdown(0.1))
    loop.close()
    return seconds


def _write_all(write: ElementWriter, elements: Sequence[KeptElement], form: ElementFormat) -> None:
    for element in elements:
        write.text(element, form)


def sample(number: int) -> list[KeptElement]:
    """Elements of four triples."""
    line = json.dumps({"time": "2026-01-01T00:00:00Z", "rule": "R", "event": "Fire", "attributes": {}, "graph": GRAPH}).encode()
    return [KeptElement(n, n * 1_000_000, 0, "Fire", line) for n in range(number)]


def element_costs() -> None:
    """Print the CPU of an element a format."""
    write = ElementWriter("http://127.0.0.1:8080/fire/", OutputTerms(Clock(dated=True)))
    elements = sample(5_000)
    for form in ElementFormat:
        seconds = min(cpu_of(partial(_write_all, write, elements, form)) for _ in range(3))
        show(f"element in {form.value}", f"{seconds / len(elements) * 1e6:.1f} µs")


def stream_of(elements: Sequence[KeptElement]) -> list[NewElement]:
    return [NewElement(each.time, each.ordinal, each.label, bytes([*each.line])) for each in elements]


def message_costs() -> None:
    """Print the CPU of a message that is read, before its format, and of a frame by pyjelly alone."""
    write = ElementWriter("http://127.0.0.1:8080/fire/", OutputTerms(Clock(dated=True)))
    texts = [(each.id, write.text(each, ElementFormat.NQUADS)) for each in sample(5_000)]
    for kind, parser in ((Kind.EVENTS, EventParser), (Kind.WEBSOCKET, FrameParser)):
        framing = Framing(kind, ElementFormat.NQUADS)
        data = b"".join([framing.frame(*each) for each in texts])
        pieces = [data[start : start + (64 << 10)] for start in range(0, len(data), 64 << 10)]

        def read_all(parser: type[EventParser] | type[FrameParser] = parser, pieces: Sequence[bytes] = pieces) -> None:
            reader = parser(8 << 20)
            assert sum(len(reader.feed(piece)) for piece in pieces) == len(texts)

        show(f"message of /{kind.value} read, before its format", f"{min(cpu_of(read_all) for _ in range(3)) / len(texts) * 1e6:.1f} µs")
    frames = b"".join([write.text(each, ElementFormat.JELLY) for each in sample(5_000)])
    statements = [[*sink] for sink in parse_jelly_grouped(io.BytesIO(frames))]

    def write_alone() -> None:
        for each in statements:
            stream_of_quads, out = GenericStatementSink(), io.BytesIO()
            for statement in each:
                stream_of_quads.add(statement)
            stream_of_quads.serialize(out)

    show("frame of Jelly written by pyjelly alone", f"{min(cpu_of(write_alone) for _ in range(2)) / len(statements) * 1e6:.1f} µs")


def kept_costs(folder: Path) -> None:
    """Print the memory of what is kept, as a ratio to its N-Quads, and the CPU of a start over it."""
    write = ElementWriter("http://127.0.0.1:8080/fire/", OutputTerms(Clock(dated=True)))
    elements = sample(10_000)
    size = len(write.texts(elements, ElementFormat.NQUADS))
    tracemalloc.start()
    kept = KeptElements(Keep(elements=None))
    for start in range(0, len(elements), 250):
        kept.append(stream_of(elements[start : start + 250]))
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    show("10,000 kept, in memory", f"{memory / size:.2f} of their N-Quads")
    stored, _ = opened(folder / "kept", Keep(elements=None), StreamExtent("http://e/"), BatchHistory("", 0, 0))
    for number in range(40):
        stored.append_batch(number, [stream_of(elements[number * 250 : number * 250 + 250])])

    def start_again() -> None:
        opened(folder / "kept", Keep(elements=None), StreamExtent("http://e/"), BatchHistory("", 40, 40))

    show("start over 10,000 kept", f"{min(cpu_of(start_again) for _ in range(3)):.3f} s")


def first_push(folder: Path) -> float:
    """Seconds from the line that closes an instant to its event at a client, the median of 50."""
    port = free_port()
    served = f', {{ serve: {{ listen: "127.0.0.1:{port}" }} }}'
    (folder / "push.yaml").write_text(CONFIG.format(path="'-'", name="push", served=served))
    lines = iter(records(10_000))
    command = [sys.executable, "-m", "dotr", "run", "push.yaml", "--quiet"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None

        def give() -> None:
            assert process.stdin is not None
            process.stdin.write(next(lines).encode() + b"\n")
            process.stdin.flush()

        give()
        while True:
            try:
                client = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.05)
        client.sendall(f"GET /events?format=nquads HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        client.recv(1 << 16)
        took: list[float] = []
        client.settimeout(0.25)
        while len(took) < 50:
            start = time.perf_counter()
            give()
            try:
                client.recv(1 << 16)
                took.append(time.perf_counter() - start)
            except TimeoutError:  # the instant has no event
                pass
        process.terminate()
    return sorted(took)[len(took) // 2]


def without_clients(folder: Path, elements: int, rounds: int) -> dict[str, float]:
    """CPU seconds of a job, and of the same job whose output is served, too, to nobody."""
    (folder / "a.ndjson").write_text("\n".join(records(elements)))
    for name, served in (("plain", ""), ("served", f', {{ serve: {{ listen: "127.0.0.1:{free_port()}" }} }}')):
        (folder / f"{name}.yaml").write_text(CONFIG.format(path="a.ndjson", name=name, served=served))
    least = dict.fromkeys(("plain", "served"), float("inf"))
    for _ in range(rounds):
        least = {name: min(seconds, cpu_seconds(folder, name, "local")) for name, seconds in least.items()}
    return least


def show(what: str, figure: str) -> None:
    sys.stdout.write(f"{what:45} {figure}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--elements", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    clients, messages = options.clients, options.messages
    element_costs()
    message_costs()
    for path in ("events", "ws", "stream"):
        with_one, with_all = (min(pushed(path, each, messages, 0.001) for _ in range(options.rounds)) for each in (1, clients))
        show(f"message a client of /{path}", f"{(with_all - with_one) / messages / (clients - 1) * 1e6:.2f} µs")
    text = b"id: 0-0\ndata: " + b"x" * 900 + b"\n\n"
    alone, of_all = (min(pushed_by_aiohttp(each, messages, 0.001, text) for _ in range(options.rounds)) for each in (1, clients))
    show("message a client of aiohttp alone", f"{(of_all - alone) / messages / (clients - 1) * 1e6:.2f} µs")
    number = round(options.seconds * 10)
    seconds = pushed("events", clients, number, 0.1)
    show(f"{clients} clients of /events at 10 a second", f"{seconds / options.seconds * 1e3:.1f} ms of CPU a second")
    with tempfile.TemporaryDirectory(prefix="serve-benchmark-") as name:
        folder = Path(name)
        (folder / "r.dotr").write_text(RULES)
        show("first push behind the end of its instant", f"{first_push(folder) * 1e3:.1f} ms")
        kept_costs(folder)
        starts, whole = (without_clients(folder, number, options.rounds) for number in (1_000, options.elements))
        ratio = (whole["served"] - starts["served"]) / (whole["plain"] - starts["plain"])
        show("job whose output is served to nobody", f"{ratio:.3f} of the job, and {starts['served'] - starts['plain']:.2f} s at its start")


if __name__ == "__main__":
    main()
