"""HTTP and server-sent events in, HTTP out on Spark: all processes killed while messages arrive, and the same command given again, in
this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from aiohttp import web

from dotr.commands import main
from tests.support.event_pages import ROOT as STREAM
from tests.support.event_pages import Site, member, relation
from tests.support.event_server import event_server, events
from tests.support.hostile_server import answer, hostile_server, silent
from tests.support.http_server import post_server
from tests.support.interrupted import run_until
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

pytestmark = pytest.mark.spark

RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 2 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG = """
name: web
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: a, format: ndjson, INPUT }
output: [OUTPUT]
dead_letter: NAME/dead.ndjson
spark: { master: "local[2]", checkpoint: NAME/checkpoint }
"""


def lines(numbers: range) -> list[str]:
    """Elements with a time each, among them a late one and broken ones."""
    texts = [json.dumps({"time": at - 3 * (at % 10 == 7), "graph": f":s{at} :v {at} ."}) for at in numbers]
    return ["broken" if at % 10 == 3 else text for at, text in zip(numbers, texts, strict=True)]


def write(folder: Path, name: str, source: str, output: str) -> None:
    text = CONFIG.replace("INPUT", source).replace("OUTPUT", output).replace("NAME", name)
    (folder / f"{name}.yaml").write_text(text)
    (folder / "r.dotr").write_text(RULES)


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dotr", "run", f"{name}.yaml", "--engine", "spark"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "run.log").open("ab") as log:
        return subprocess.Popen(command, start_new_session=True, stderr=log, env=environment, cwd=folder)


def until(condition: Callable[[], bool], folder: Path, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "".join(log.read_text() for log in folder.glob("run.log"))
        time.sleep(0.1)


def send(port: int, line: str, run: subprocess.Popen[bytes] | None = None) -> bool:
    """Send a line until it is accepted; False where the run has ended before. `run`: its process, if it has one of its own."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and (run is None or run.poll() is None):
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("POST", "/in", line.encode(), {"Content-Type": "application/x-ndjson"})
            if connection.getresponse().status == 202:
                return True
        except (OSError, HTTPException):
            time.sleep(0.05)
        finally:
            connection.close()
    return False


def batches(folder: Path, name: str) -> str:
    return "".join(file.read_text() for file in sorted((folder / name).glob("0*")))


def letters(text: str) -> set[tuple[str, int, str]]:
    """Reason, line and text of dead letters."""
    found = [(each["reason"], each["line"], each["text"]) for each in map(json.loads, text.splitlines())]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.usefixtures("spark")
def test_accepted_messages_are_in_the_output_once_whatever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    port = free_port()
    texts = lines(range(100, 160))
    published = [text.replace(":s", ":e") for text in lines(range(95, 158))]
    (tmp_path / "a.ndjson").write_text("\n".join(texts) + "\n")
    (tmp_path / "b.ndjson").write_text("\n".join(published) + "\n")
    second = "}\n  - { name: b, format: ndjson,"
    write(tmp_path, "file", f"path: a.ndjson {second} path: b.ndjson", "{ path: file/out.ndjson }")
    assert main(["run", "file.yaml", "--engine", "local", "--quiet"]) == 0
    expected = [each for each in (tmp_path / "file/out.ndjson").read_text().splitlines(keepends=True) if json.loads(each)["time"] < 159]
    assert len(expected) > 40

    async def publish(number: int, request: web.Request) -> web.StreamResponse:
        """The events behind the last one: some of them, and no more; for the next run the others, and the end."""
        first = int(request.headers.get("Last-Event-ID", "0"))
        chosen = published[first:] if number else published[:30]
        parts = [f"id: {first + n}\ndata: {text}\n\n" for n, text in enumerate(chosen, 1)]
        return await events(request, *parts, "event: end\n\n" if number else "", close=False)

    with post_server(lambda number, request: 503 if number % 4 == 1 else 200) as server, event_server(publish) as publisher:
        outputs = f"{{ path: http/out }}, {{ http: {{ url: '{server.url}/out' }} }}"
        source = f"http: {{ listen: '127.0.0.1:{port}/in' }} {second} sse: {{ url: '{publisher.url()}' }}"
        write(tmp_path, "http", source, outputs)
        run = start(tmp_path, "http")
        try:
            for text in texts[:15]:  # before there is a batch
                assert send(port, text, run)
            until(lambda: bool(server.accepted), tmp_path)
            for text in texts[15:30]:
                assert send(port, text, run)
        finally:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()

        def rest() -> None:
            for text in texts[30:]:
                assert send(port, text)
            until(lambda: len(batches(tmp_path, "http/out").splitlines()) >= len(expected), tmp_path)
            until(lambda: len(server.text().splitlines()) >= len(expected), tmp_path)

        assert run_until(["run", "http.yaml", "--engine", "spark"], rest) == 0
        assert [each.get("Last-Event-ID") for each in publisher.requests] == [None, "30"]
    assert batches(tmp_path, "http/out") == "".join(expected)
    assert server.text() == "".join(expected)
    by_key: dict[str, set[bytes]] = {}
    for each in server.requests:  # a repeated batch has the same bytes
        by_key.setdefault(each.key, set()).add(each.body)
    assert {len(bodies) for bodies in by_key.values()} == {1}
    assert [key.split("/")[:2] for key in by_key] == [["web", "1"]] * len(by_key)
    sent = letters(batches(tmp_path, "http/dead.ndjson"))
    assert sent == letters((tmp_path / "file/dead.ndjson").read_text())
    spool = tmp_path / "http/checkpoint/spool/of-a"
    assert len(list(spool.glob("*.messages"))) <= 2  # segments of written batches are removed


@pytest.mark.usefixtures("spark")
def test_run_stops_while_the_server_is_silent_and_posts_the_batch_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ndjson").write_text("\n".join(lines(range(100, 130))) + "\n")
    words = ["run", "web.yaml", "--engine", "spark"]
    with hostile_server(silent, answer(b"HTTP/1.1 200 OK")) as server:
        write(tmp_path, "web", "path: a.ndjson", f"{{ http: {{ url: '{server.url}/out' }} }}")
        assert run_until(words, lambda: until(lambda: bool(server.requests), tmp_path), signal.SIGTERM) == 0
        assert "An output does not take the batch under way" in capsys.readouterr().err
        assert main(words) == 0
    keys = [head.partition(b"Idempotency-Key: ")[2].split(b"\r\n")[0] for head in server.requests]
    assert keys == [b"web/0/0"] * 2


@pytest.mark.usefixtures("spark")
def test_members_of_an_event_stream_come_once_over_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    site = Site()
    site.put("/ldes", STREAM + relation("/1", 3) + member("b", 2) + member("a", 1) + ":s tree:member :none . :none a :A .")
    site.put("/1", member("d", 3) + member("c", 3))
    rules = "PREFIX : <http://e/>\nrule R define Out = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?x a :A } ] with Out.?x = A.?x\n"

    def found() -> list[tuple[object, object]]:
        text = "".join(each.read_text() for each in sorted(tmp_path.glob("spark/out/0*")))
        return [(each["time"], each["attributes"]) for each in map(json.loads, text.splitlines())]

    with event_server(site.answer) as server:
        write(tmp_path, "spark", f'ldes: {{ url: "{server.url("/ldes")}", poll: 1 s }}', "{ path: spark/out }")
        config = tmp_path / "spark.yaml"
        config.write_text(config.read_text().replace("format: ndjson", "format: turtle"))
        (tmp_path / "r.dotr").write_text(rules)
        assert run_until(["run", "spark.yaml", "--quiet"], lambda: until(lambda: len(found()) == 2, tmp_path)) == 0
        site.put("/1", "".join(member(*each) for each in (("d", 3), ("e", 3), ("c", 3), ("f", 4), ("g", 5))))
        assert run_until(["run", "spark.yaml", "--quiet"], lambda: until(lambda: len(found()) == 6, tmp_path)) == 0
    second = "1970-01-01T00:00:0{}Z".format
    expected = ((1, "a"), (2, "b"), (3, "c"), (3, "d"), (3, "e"), (4, "f"))
    assert found() == [(second(at), {"x": f"<http://e/{name}>"}) for at, name in expected]
    [letter] = [json.loads(line) for line in "".join(each.read_text() for each in tmp_path.glob("spark/dead.ndjson/0*")).splitlines()]
    assert (letter["reason"], letter["file"]) == ("unreadable", server.url("/ldes"))
