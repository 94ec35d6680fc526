"""Runs in process over server-sent events, WebSockets and polled URLs: real servers on loopback, settings, refusals, ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dotr.model.time import Clock
from tests.conftest import Project
from tests.support.event_server import event_server, events
from tests.support.inbox import until
from tests.support.interrupted import run_until
from tests.support.published import published

pytestmark = pytest.mark.core

FILE = "- { name: a, format: ndjson, path: a.ndjson }"


def reading(project: Project, source: str, more: str = "format: ndjson") -> None:
    """Put an input in place of the file."""
    project.change("c.yaml", FILE, f"- {{ name: a, idle: 200 ms, {more}, {source} }}")


def element(at: object, name: str = "a") -> str:
    return json.dumps({"time": at, "graph": f":{name} a :A ."})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def stopped(project: Project, meanwhile: Callable[[], None], *options: str) -> int:
    """The exit code of a run that is stopped after `meanwhile`."""
    return run_until([*(["run", "c.yaml", "--quiet"]), *(word for each in options for word in ("--set", each))], meanwhile)


def test_events_give_the_output_of_the_same_file(project: Project) -> None:
    texts = [element(at, f"x{at}") for at in range(1, 30)]
    project.write("a.ndjson", "\n".join(texts) + "\nbroken\n")
    assert project.dotr("run", "c.yaml", "--quiet").code == 0
    expected = (project.folder / "out.ndjson").read_text()

    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        first = int(request.headers.get("Last-Event-ID", "0"))
        sent = [*texts, "broken"][first : first + 20]
        parts = [f"id: {first + n + 1}\ndata: {each}\n\n" for n, each in enumerate(sent)]
        return await events(request, *parts, "event: end\ndata\n\n" if number else "")

    with event_server(answer) as server:
        reading(project, f"sse: {{ url: '{server.url()}?key=s3cret' }}")
        answered = project.dotr("run", "c.yaml", "--set", "output.0.path=o2.ndjson", "--set", "dead_letter=d2.ndjson")
    assert answered.code == 0, answered.err
    assert f"input a: {server.url()}: the server has ended the connection. It is tried again." in answered.err
    assert "s3cret" not in answered.err
    assert (project.folder / "o2.ndjson").read_text() == expected
    (letter,) = lines(project.folder / "d2.ndjson")
    assert (letter["file"], letter["line"], letter["reason"]) == (server.url(), 30, "unreadable")


def test_ids_and_names_are_cells(project: Project) -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        texts = ['id: 7\nevent: up\ndata: {"t": 1}\n\n', 'event: down\ndata: {"t": 2}\n\n', 'data: {"t": 3}\n\n', "event: end\n\n"]
        return await events(request, *texts)

    project.change("r.dotr", "SELECT ?x WHERE { ?x a :A }", "SELECT ?x WHERE { ?s :id ?i ; :event ?e BIND(CONCAT(?i, ?e) AS ?x) }")
    with event_server(answer) as server:
        more = "format: json, time: t, map: '[] :id {$id} ; :event {$event} .'"
        reading(project, f"sse: {{ url: '{server.url()}', events: [up, message] }}", more)
        assert project.dotr("run", "c.yaml").code == 0
    assert ['"7up"' in each["graph"] or '"7message"' in each["graph"] for each in lines(project.folder / "out.ndjson")] == [True, True]


def test_input_that_ends_without_a_message(project: Project) -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return web.Response(status=204)

    with event_server(answer) as server:
        reading(project, f"sse: {{ url: '{server.url()}' }}")
        assert project.dotr("run", "c.yaml").code == 0
    assert (project.folder / "out.ndjson").read_text() == ""


def test_lost_connection_without_ids_is_a_dead_letter(project: Project) -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return await events(request, f"data: {element(number + 1)}\n\n", "event: end\n\n" if number == 2 else "retry: 100\n")

    with event_server(answer) as server:
        reading(project, f"sse: {{ url: '{server.url()}' }}")
        assert project.dotr("run", "c.yaml").code == 0
    assert [each["time"] for each in lines(project.folder / "out.ndjson")] == [1, 2, 3]
    found = [(each["reason"], each["line"], each["text"]) for each in lines(project.folder / "dead.ndjson")]
    assert found == [("lost", 2, ""), ("lost", 4, "")]


@pytest.mark.parametrize("at_start", [True, False])
def test_refusals_end_the_run(project: Project, at_start: bool) -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        if at_start or number:
            return web.Response(status=403, text="no s3cret for you")
        return await events(request, f"data: {element(1)}\n\n")

    with event_server(answer) as server:
        reading(project, f"sse: {{ url: '{server.url()}' }}")
        answered = project.dotr("run", "c.yaml")
    assert answered.code == (2 if at_start else 1)
    assert f"input a: {server.url()}: it answers 403 (Forbidden)" in answered.err
    assert ("S165" in answered.err) == at_start
    assert "s3cret" not in answered.err


def test_credentials_are_sent_and_shown_nowhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IN_SECRET", "s3cret")

    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        if number == 2:
            return web.Response(status=401, text=f"not {request.headers['Authorization']}")
        return await events(request, f"data: {element(number + 1)}\n\n", "event: end\n\n")

    with event_server(answer) as server:
        reading(project, f"sse: {{ url: '{server.url()}', token: '${{IN_SECRET}}' }}")
        answers = [project.dotr("run", "c.yaml")]
        project.change(
            "c.yaml", f"url: '{server.url()}', token: '${{IN_SECRET}}'", f"url: '{server.url()}'".replace("://", "://me:${IN_SECRET}@")
        )
        answers += [project.dotr("run", "c.yaml", "--set", f"output.0.path=o{n}.ndjson", "--set", f"dead_letter=d{n}") for n in range(2)]
        assert [each["Authorization"] for each in server.requests] == ["Bearer s3cret", "Basic bWU6czNjcmV0", "Basic bWU6czNjcmV0"]
    assert [each.code for each in answers] == [0, 0, 2]
    written = "".join(path.read_text() for path in project.folder.rglob("*") if path.is_file())
    assert "s3cret" not in written + "".join(each.err + each.out for each in answers)


def test_answers_that_are_polled(project: Project) -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        text = f"<http://e/x{min(number, 6) // 3}> a <http://e/A> ." if number != 2 else "broken"
        return web.Response(text=text, content_type="text/turtle")

    with event_server(answer) as server:
        reading(project, f"http: {{ url: '{server.url()}', poll: 100 ms }}", "format: turtle, time: $received")
        before = time.time()
        assert stopped(project, lambda: until(lambda: len(lines(project.folder / "out.ndjson")) == 3)) == 0
    found = lines(project.folder / "out.ndjson")
    assert [("x0" in each["graph"], "x1" in each["graph"], "x2" in each["graph"]) for each in found] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert all(before - 1 < datetime.fromisoformat(each["time"]).timestamp() < time.time() + 1 for each in found)
    assert [each["reason"] for each in lines(project.folder / "dead.ndjson")] == ["unreadable"]


def test_silent_input_lets_the_clock_go_on(project: Project) -> None:
    """A connection on which nothing comes holds back no instant of another input."""
    stop = threading.Event()

    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        if request.path == "/silent":
            return await events(request, ": nothing\n", close=False)
        now = datetime.fromtimestamp(time.time()).astimezone().isoformat()
        return await events(request, f"data: {element(now)}\n\n", close=False)

    with event_server(answer) as server:
        silent = f"- {{ name: b, format: ndjson, sse: {{ url: '{server.url('/silent')}' }} }}"
        project.change("c.yaml", FILE, f"- {{ name: a, format: ndjson, sse: {{ url: '{server.url()}' }} }}\n  {silent}")
        project.change("c.yaml", "engine: local", "engine: local\nclock: 1 s")
        assert stopped(project, lambda: until(lambda: bool(lines(project.folder / "out.ndjson")))) == 0
    stop.set()


@pytest.mark.parametrize(
    "source",
    ["sse: { url: '{http}events?last=1000&format={form}' }", "websocket: { url: '{ws}ws?last=1000&format={form}', resume: true }"],
)
@pytest.mark.parametrize("form", ["trig", "nquads", "jsonld"])
def test_pipeline_reads_what_another_one_serves(project: Project, source: str, form: str) -> None:
    project.change("r.dotr", "SELECT ?x WHERE { ?x a :A }", "SELECT ?x WHERE { ?b :at ?x }")
    graph = '_:b <http://e/at> "3" .'
    with published(clock=Clock()) as stream:

        def publish() -> None:
            until(lambda: stream.stream.broadcast.has_clients)
            stream.add(range(4, 7), graph)
            stream.stream.end(is_stopped=False)

        stream.add([1, 2, 3], graph)
        source = source.replace("{http}", stream.address).replace("{ws}", stream.address.replace("http", "ws")).replace("{form}", form)
        reading(project, source, f"format: {form}")
        publishing = threading.Thread(target=publish)
        publishing.start()
        answered = project.dotr("run", "c.yaml")
        publishing.join()
    assert answered.code == 0, answered.err
    assert [each["time"] for each in lines(project.folder / "out.ndjson")] == [1, 2, 3, 4, 5, 6]
    assert lines(project.folder / "dead.ndjson") == []


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("sse: { url: 'ftp://h' }", "C203 input.0.sse.url cannot be used: it begins with neither http:// nor https://"),
        ("websocket: { url: 'https://h' }", "C203 input.0.websocket.url cannot be used: it begins with neither ws:// nor wss://"),
        ("sse: { url: 'https://h/#a' }", "a fragment (#) is sent to no server"),
        ("sse: { url: 'https://me:s3cret@h' }", "C225"),
        ("sse: { url: 'https://h', token: s3cret }", "C225"),
        ("sse: { url: 'https://me@h', token: '${T}' }", "C204 the URL has a user, and there is a token"),
        ("sse: { url: 'http://h', tls: { ca: ca.pem } }", "C204 tls is of https"),
        ("websocket: { url: 'ws://h', tls: { ca: ca.pem } }", "C204 tls is of wss"),
        ("sse: { url: 'https://h', tls: { ca: no.pem } }", "C301 cannot read no.pem: no such file or directory"),
        ("sse: { url: 'https://h', events: [] }", "C203 input.0.sse.events needs at least one entry"),
        ("sse: {}", "C202 input.0.sse.url is missing"),
        ("sse: { url: 'https://h', poll: 1 s }", "C201 unknown key poll"),
        ("sse: { url: 'https://h' }, path: a.ndjson", "C204 path and sse exclude each other"),
        ("sse: { url: 'https://h' }, websocket: { url: 'ws://h' }", "C204 sse and websocket exclude each other"),
        ("sse: { url: 'https://h' }, watch: true", "C204 watch is of files"),
        ("sse: { url: 'https://h' }, encoding: latin-1", "C204 encoding is of lines of a file, and this input is by sse"),
        ("websocket: { url: 'ws://h', resume: true }", "C204 resume goes on behind the graph that a message names"),
        ("http: { url: 'https://h' }", "C202 input.0.http.poll is missing"),
        ("http: { url: 'https://h', poll: 0 s }", "C203 input.0.http.poll cannot be used: it is at least 0.1 s"),
        ("http: { url: 'https://h', poll: soon }", "C203 input.0.http.poll cannot be used: "),
        ("http: { url: 'https://h', poll: 1 s, listen: 8081 }", "C204 listen and url exclude each other"),
        ("http: { url: 'https://h', poll: 1 s, tokens: '${T}' }", "C204 tokens is of listen, and the input has url"),
        ("http: { url: 'https://h', poll: 1 s, open: true }", "C204 open is of listen, and the input has url"),
        ("http: { listen: 8081, poll: 1 s }", "C204 poll is of url, and the input has listen"),
        ("http: { listen: 8081, token: '${T}' }", "C204 token is of url, and the input has listen"),
        ("http: { listen: 8081, tls: { ca: a } }", "C204 tls is of url, and the input has listen"),
        ("http: {}", "C202 input.0.http.listen is missing"),
    ],
)
def test_settings_that_are_refused(project: Project, source: str, reported: str) -> None:
    project.change("c.yaml", "path: a.ndjson }", f"{source} }}")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 2
    assert reported in answer.err
    assert "s3cret" not in answer.err + answer.out


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ("time: $timestamp", "C204 $timestamp is the time that Kafka gives a message, and this input is by sse"),
        ("time: t, map: '[] :p {$topic} .'", "T107 $topic is a property of messages of a broker, not of messages by sse"),
        ("time: t, map: '[] :p {$header.a} .'", "T107 $header.a is a property of messages of a broker, not of messages by sse"),
        ("time: t, map: '[] :p {$number} .'", "T109"),
    ],
)
def test_what_events_do_not_have(project: Project, settings: str, reported: str) -> None:
    settings = settings if "map" in settings else f"{settings}, map: '[] :p {{t}} .'"
    project.change("c.yaml", "format: ndjson, path: a.ndjson }", f"format: json, {settings}, sse: {{ url: 'https://h' }} }}")
    answer = project.dotr("check", "c.yaml")
    assert (answer.code, reported in answer.err) == (2, True), answer.err


@pytest.mark.parametrize(
    ("source", "warnings"),
    [
        ("sse: { url: 'https://h', events: [a, b], token: '${T}' }, spool: 1 GiB, ahead: 1 d, idle: 1 s", []),
        ("sse: { url: 'https://me:${T}@h/a?b=c' }", ["I113"]),
        ("websocket: { url: 'wss://h' }, idle: 1 s", ["I114"]),
        ("http: { url: 'https://h', poll: 30 s }, idle: never", []),
    ],
)
def test_settings_that_are_accepted_need_no_server_and_no_secret(project: Project, source: str, warnings: list[str]) -> None:
    project.change("c.yaml", "path: a.ndjson }", f"{source} }}")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 0, answer.err
    assert [code for code in ("I113", "I114", "I115", "I116") if code in answer.err + answer.out] == warnings


def test_run_ends_at_its_start_without_its_token(project: Project) -> None:
    reading(project, "sse: { url: 'http://127.0.0.1:1', token: '${NO_SUCH_TOKEN}' }")
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 2
    assert "S124 the environment of this process has no variable NO_SUCH_TOKEN" in answer.err
