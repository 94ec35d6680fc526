"""Runs in process with HTTP inputs and outputs: real servers and clients on loopback, settings, refusals, stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.client import HTTPConnection
from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Project
from tests.support.hostile_server import SILENT, answer, hostile_server
from tests.support.http_server import post_server
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE, on_this_machine
from tests.support.ports import free_port

FILE = "- { name: a, format: ndjson, path: a.ndjson }"
OUTPUT = "- { path: out.ndjson }"


def listening(project: Project, more: str = "", at: str = "in", idle: str = "idle: 200 ms, ") -> int:
    """Put an HTTP input in place of the file; returns its port."""
    port = free_port()
    project.change("c.yaml", FILE, f"- {{ name: a, format: ndjson, {idle}http: {{ listen: '127.0.0.1:{port}/{at}'{more} }} }}")
    return port


@contextmanager
def running(project: Project, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    words = [word for option in options for word in ("--set", option)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", "dotr", "run", "c.yaml", *words]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=project.folder)
    try:
        yield run
    finally:
        run.kill()
        run.wait(PATIENCE)
        assert run.stderr is not None
        run.stderr.close()


def ended(run: subprocess.Popen[str], *signals: signal.Signals) -> tuple[int, str]:
    """Exit code and text of a run after the given signals."""
    for each in signals:
        run.send_signal(each)
        time.sleep(0.3)
    _, err = run.communicate(timeout=PATIENCE)
    return run.returncode, err


def post(port: int, *lines: str, path: str = "/in", content_type: str = "application/x-ndjson", **headers: str) -> int:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("POST", path, "\n".join(lines).encode(), {"Content-Type": content_type, **headers})
            status = connection.getresponse().status
            connection.close()
            return status
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def element(at: object, name: str = "a") -> str:
    return json.dumps({"time": at, "graph": f":{name} a :A ."})


def until_lines(path: Path, count: int) -> list[str]:
    deadline = time.monotonic() + PATIENCE
    while len(lines := path.read_text().splitlines() if path.exists() else []) < count:
        assert time.monotonic() < deadline, lines
        time.sleep(0.02)
    return lines


def test_sent_elements_give_the_output_of_the_same_file(project: Project) -> None:
    lines = [element(at, f"x{at}") for at in range(1, 30)]
    project.write("a.ndjson", "\n".join(lines) + "\nbroken\n")
    assert project.dotr("run", "c.yaml", "--quiet").code == 0
    expected = (project.folder / "out.ndjson").read_text()
    port = listening(project)
    with running(project, "output.0.path=o2.ndjson", "dead_letter=d2.ndjson") as run:
        assert [post(port, *lines[:7]), *(post(port, line) for line in lines[7:]), post(port, "broken")] == [202] * 24
        until_lines(project.folder / "o2.ndjson", 29)
        until_lines(project.folder / "d2.ndjson", 1)
        code, err = ended(run, signal.SIGINT)
        assert code == 0
        assert "Stopped: the output holds all instants so far." in err
    assert (project.folder / "o2.ndjson").read_text() == expected
    letter = json.loads((project.folder / "d2.ndjson").read_text())
    assert (letter["file"], letter["line"], letter["reason"]) == (f"http://127.0.0.1:{port}/in", 30, "unreadable")


def test_date_times_of_the_first_message_decide_the_output(project: Project) -> None:
    port = listening(project)
    with running(project) as run:
        assert post(port, "broken") == 202
        assert post(port, element("2026-01-01T00:00:00+01:00")) == 202
        assert json.loads(until_lines(project.folder / "out.ndjson", 1)[0])["time"] == "2025-12-31T23:00:00Z"
        assert ended(run, signal.SIGTERM)[0] == 0


def test_stop_before_the_first_message(project: Project) -> None:
    port = listening(project)
    with running(project) as run:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        code, err = ended(run, signal.SIGINT)
        assert (code, err) == (0, "Stopped before anything was read.\n")
    assert not (project.folder / "out.ndjson").exists()


def test_time_of_reception(project: Project) -> None:
    port = free_port()
    http = f"{{ name: a, format: json, time: $received, map: '<{{id}}> a :A .', http: {{ listen: '{port}' }}, idle: 100 ms }}"
    project.change("c.yaml", FILE, f"- {http}")
    with running(project) as run:
        before = time.time()
        assert post(port, '{"id": "http://e/a"}', path="/", content_type="application/json") == 202
        found = json.loads(until_lines(project.folder / "out.ndjson", 1)[0])
        assert ended(run, signal.SIGINT)[0] == 0
    assert before - 1 < datetime.fromisoformat(found["time"]).timestamp() < time.time() + 1


@pytest.mark.parametrize(
    ("http", "reported"),
    [
        ("{ listen: '0.0.0.0:8081/in' }", "C204 0.0.0.0 is not loopback: everybody who reaches it could send"),
        ("{ listen: '8081', tokens: '${T}', open: true }", "C204 open accepts messages without a token, and there are tokens"),
        ("{ listen: 'in' }", "C203 input.0.http.listen cannot be used: in is no address to listen at: write it like 127.0.0.1:8081/in"),
        ("{ listen: '8081', tokens: s3cret }", "C225"),
        ("{}", "C202 input.0.http.listen is missing"),
        ("{ listen: '8081', most: 1 }", "C201"),
    ],
)
def test_settings_that_are_refused(project: Project, http: str, reported: str) -> None:
    project.change("c.yaml", "path: a.ndjson }", f"http: {http} }}")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 2
    assert reported in answer.err
    assert "s3cret" not in answer.err + answer.out


@pytest.mark.parametrize(
    "http", ["{ listen: 8081 }, ahead: 1 d", "{ listen: '0.0.0.0:8081/in', tokens: '${T}' }", "{ listen: '0.0.0.0:81', open: true }"]
)
def test_settings_that_are_accepted_need_no_socket_and_no_secret(project: Project, http: str) -> None:
    project.change("c.yaml", "path: a.ndjson }", f"spool: 1 GiB, idle: 1 s, http: {http} }}")
    assert project.dotr("check", "c.yaml").code == 0


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ("path: a.ndjson, spool: 1 GiB", "C204 spool is the size of the copy of what is received"),
        ("http: { listen: 8081 }, spool: 1 G", "C203 input.0.spool cannot be used: 1 G is no size: write it like 10 GiB or 64 MiB"),
        ("http: { listen: 8081 }, watch: true", "C204 watch is of files"),
        ("path: a.ndjson, ahead: 1 d", "C204 ahead is counted from the timestamp of a message, and this input has none"),
        ("http: { listen: 8081 }, ahead: soon", "C205 ahead: "),
        ("http: { listen: 8081 }, path: a.ndjson", "C204 path and http exclude each other"),
    ],
)
def test_settings_that_exclude_each_other(project: Project, settings: str, reported: str) -> None:
    project.change("c.yaml", "path: a.ndjson }", f"{settings} }}")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 2
    assert reported in answer.err


def test_run_ends_at_its_start_where_the_port_is_taken(project: Project) -> None:
    port = listening(project)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        answer = project.dotr("run", "c.yaml")
    assert answer.code == 2
    assert f"C228 input a cannot listen at http://127.0.0.1:{port}/in: address already in use" in answer.err
    assert "c.yaml:5:" in answer.err


def test_run_ends_at_its_start_without_its_token(project: Project) -> None:
    listening(project, ", tokens: '${NO_SUCH_TOKEN}'")
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 2
    assert "S124 the environment of this process has no variable NO_SUCH_TOKEN" in answer.err


def test_token_is_in_no_output(project: Project) -> None:
    port = listening(project, ", tokens: '${IN_TOKENS}'")
    with running(project, IN_TOKENS="s3cret,other") as run:
        assert post(port, element(1)) == 401
        assert post(port, element(1), Authorization="Bearer s3cret") == 202
        until_lines(project.folder / "out.ndjson", 1)
        code, err = ended(run, signal.SIGINT)
    assert code == 0
    written = "".join(path.read_text() for path in project.folder.rglob("*") if path.is_file())
    assert "s3cret" not in err + written


class TestOutput:
    def test_events_are_posted_instant_by_instant(self, project: Project) -> None:
        project.write("a.ndjson", "\n".join(element(at, f"x{at % 3}") for at in (1, 1, 1, 2, 3)) + "\n")
        assert project.dotr("run", "c.yaml", "--quiet").code == 0
        with post_server() as server:
            project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: '{server.url}/out?a=b' }} }}")
            answer = project.dotr("run", "c.yaml", "--set", "dead_letter=d2.ndjson")
            assert answer.code == 0, answer.err
            assert f"5 elements, 3 instants, 3 facts, 3 events -> {server.url}/out\n" in answer.err
            assert [(each.path, each.key) for each in server.accepted] == [("/out?a=b", f"small/0/{at}000000") for at in (1, 2, 3)]
            assert server.text() == (project.folder / "out.ndjson").read_text()

    def test_refusal_ends_the_run(self, project: Project) -> None:
        with post_server(lambda number, request: web.Response(status=422, text="no such room")) as server:
            project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: '{server.url}/out' }} }}")
            answer = project.dotr("run", "c.yaml")
        assert answer.code == 1
        assert f"The run failed: {server.url}/out does not accept batch 1000000: it answers 422: no such room" in answer.err

    def test_server_that_fails_for_a_while_receives_all_events_in_order(self, project: Project) -> None:
        project.write("a.ndjson", "\n".join(map(element, range(4))) + "\n")
        with post_server(lambda number, request: 503 if number == 1 else None if number == 3 else 202) as server:
            project.change("c.yaml", OUTPUT, f"- {{ format: trig, http: {{ url: '{server.url}/out' }} }}")
            answer = project.dotr("run", "c.yaml")
            assert answer.code == 0, answer.err
            keys = [each.key for each in server.accepted]
            assert keys == [f"small/0/{at * 1_000_000}" for at in range(4)]

    def test_run_stops_while_the_server_is_down(self, project: Project) -> None:
        project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: 'http://127.0.0.1:{free_port()}/out' }} }}")
        with running(project) as run:
            assert run.stderr is not None
            assert "does not accept batch 1000000 now (connection refused): it is sent again until it does." in run.stderr.readline()
            code, err = ended(run, signal.SIGINT)
        assert code == 1
        assert "stopped before http://127.0.0.1" in err

    @pytest.mark.parametrize("name", ["silence", "a header byte by byte", "100 Continue for ever, slowly"])
    def test_run_stops_within_a_second_while_the_server_does_not_answer(self, project: Project, name: str) -> None:
        with hostile_server(SILENT[name]) as server:
            project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: '{server.url}/out' }} }}")
            with running(project) as run:
                deadline = time.monotonic() + PATIENCE
                while not server.requests:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                stopped = time.monotonic()
                run.send_signal(signal.SIGTERM)
                assert run.stderr is not None
                heard = run.stderr.readline()
                seconds = time.monotonic() - stopped
                code, _ = ended(run)
        assert (heard, code) == (
            f"The run failed: stopped before {server.url}/out accepted batch 1000000 (the output before that is kept)\n",
            1,
        )
        assert seconds < on_this_machine(1)

    @pytest.mark.parametrize(
        ("head", "body", "reported"),
        [
            (b"HTTP/1.1 307 There\r\nLocation: /\xc3\xa9", b"", "it redirects to what is no URL: /\xe9"),
            (b"HTTP/1.1 307 There\r\nLocation: /a b\x01", b"", "it redirects to what is no URL: /a b\\u0001"),
            (b"HTTP/1.1 400 s3cret\r\nX-A: s3cret", b'{"got": "Bearer s3cret"}', 'it answers 400: {"got": "Bearer ***"}'),
        ],
    )
    def test_strange_answer_ends_the_run(self, project: Project, head: bytes, body: bytes, reported: str) -> None:
        with hostile_server(answer(head, body)) as server:
            project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: '{server.url}/out', token: '${{OUT_TOKEN}}' }} }}")
            with running(project, OUT_TOKEN="s3cret") as run:
                code, err = ended(run)
            assert b"Authorization: Bearer s3cret" in server.requests[0]
            assert len(server.requests) == 1
        shown = f"The run failed: {server.url}/out does not accept batch 1000000: {reported} (the output before that is kept)\n"
        assert (code, err) == (1, shown)

    @pytest.mark.parametrize("token", ["", "s3cret\n", "s3 cret", "s3cr\xe9t"])
    def test_token_that_no_header_carries_is_refused(self, project: Project, token: str) -> None:
        project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: 'http://127.0.0.1:{free_port()}/', token: '${{OUT_TOKEN}}' }} }}")
        with running(project, OUT_TOKEN=token) as run:
            code, err = ended(run)
        assert code == 2
        assert err.startswith("S124 the variable OUT_TOKEN holds no token: it is empty, or has white space or characters that no header")
        assert "s3" not in err

    def test_password_with_characters_of_a_url_is_sent(self, project: Project) -> None:
        with post_server(lambda number, request: 403) as server:
            project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: '{server.url.replace('//', '//me:${OUT_PASSWORD}@')}/out' }} }}")
            with running(project, OUT_PASSWORD="a/b@c?d#e:f") as run:
                assert ended(run)[0] == 1
            assert b64decode(server.requests[0].headers["Authorization"].removeprefix("Basic ")) == b"me:a/b@c?d#e:f"

    def test_password_of_the_url_is_in_no_output(self, project: Project) -> None:
        with post_server(lambda number, request: 403) as server:
            url = server.url.replace("//", "//me:${OUT_PASSWORD}@")
            project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: '{url}/out?key=k3y' }} }}")
            with running(project, OUT_PASSWORD="s3cret") as run:
                code, err = ended(run)
            assert code == 1
            assert server.requests[0].headers["Authorization"].startswith("Basic ")
        assert "does not accept" in err
        assert "s3cret" not in err
        assert "k3y" not in err

    @pytest.mark.parametrize(
        ("http", "reported"),
        [
            ("{ url: 'ftp://h/' }", "C203 output.0.http.url cannot be used: it begins with neither http:// nor https://"),
            ("{ url: 'http://me:s3cret@h/' }", "C225"),
            ("{ url: 'http://me:${P}@h/', token: '${T}' }", "C204 the URL has a user, and there is a token"),
            ("{ url: 'http://h/', tls: { ca: ca.pem } }", "C204 tls is of https"),
            ("{ url: 'https://h/', tls: { ca: r.dotr } }", "C301 cannot read r.dotr: it holds no certificate"),
            ("{ url: 'https://h/', tls: { ca: none.pem } }", "C301 cannot read none.pem: no such file or directory"),
        ],
    )
    def test_settings_that_are_refused(self, project: Project, http: str, reported: str) -> None:
        project.change("c.yaml", OUTPUT, f"- {{ http: {http} }}")
        answer = project.dotr("check", "c.yaml")
        assert answer.code == 2
        assert reported in answer.err
        assert "s3cret" not in answer.err

    def test_table_cannot_be_posted(self, project: Project) -> None:
        project.change("c.yaml", OUTPUT, "- { format: parquet, http: { url: 'http://h/' } }")
        answer = project.dotr("check", "c.yaml")
        assert answer.code == 2
        assert "C204 parquet is a table, and a message holds one event" in answer.err


def test_input_and_output_are_one_chain(project: Project) -> None:
    port = listening(project)
    with post_server() as server:
        project.change("c.yaml", OUTPUT, f"- {{ http: {{ url: '{server.url}/out' }} }}")
        with running(project) as run:
            for at in range(1, 40):
                assert post(port, element(at, f"x{at}")) == 202
            deadline = time.monotonic() + PATIENCE
            while len(server.accepted) < 39:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert ended(run, signal.SIGINT)[0] == 0
        assert [each.key for each in server.accepted] == [f"small/0/{at}000000" for at in range(1, 40)]


def test_check_warns_of_an_input_that_is_never_idle(project: Project) -> None:
    project.change("c.yaml", "path: a.ndjson }", "http: { listen: 8081 } }")
    answer = project.dotr("check", "c.yaml")
    assert "I113 warning: no instant closes while input a is silent" in answer.err


@pytest.mark.parametrize(
    ("http", "who"),
    [
        ("listen: 8081", "every process of this machine"),
        ("listen: '0.0.0.0:8081/in', open: true", "everybody who reaches 0.0.0.0:8081"),
        ("listen: '0.0.0.0:8081/in', tokens: '${T}'", None),
    ],
)
def test_check_warns_of_an_input_without_tokens(project: Project, http: str, who: str | None) -> None:
    project.change("c.yaml", "path: a.ndjson }", f"idle: 1 s, http: {{ {http} }} }}")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 0
    assert ("I116" in answer.err) == (who is not None)
    if who is not None:
        assert f"I116 warning: input a accepts messages without a token: {who} can send" in answer.err
        project.write("c.yaml", project.read("c.yaml") + "report: { accept: [I116] }\n")
        assert "I116" not in project.dotr("check", "c.yaml").err


def test_page_of_another_site_sends_nothing(project: Project) -> None:
    port = listening(project)
    with running(project) as run:
        assert post(port, element(1)) == 202
        assert post(port, element(2), content_type="text/plain", Origin="https://evil.example") == 403
        assert post(port, element(2), Host="evil.example") == 403
        assert post(port, element(2), content_type="text/plain") == 415
        assert post(port, element(3)) == 202
        found = until_lines(project.folder / "out.ndjson", 2)
        assert [json.loads(line)["time"] for line in found] == [1, 3]
        assert ended(run, signal.SIGINT)[0] == 0


def test_message_longer_than_max_bytes_is_refused(project: Project) -> None:
    port = listening(project)
    project.change("c.yaml", "format: ndjson,", "format: ndjson, max_bytes: 100,")
    with running(project) as run:
        assert post(port, element(1)) == 202
        assert post(port, element(2, "a" * 100)) == 413
        until_lines(project.folder / "out.ndjson", 1)
        assert ended(run, signal.SIGINT)[0] == 0


def test_input_that_waits_for_another_accepts_a_bounded_number_of_messages(project: Project) -> None:
    """The other input has no file, so that no instant closes until one appears."""
    port = free_port()
    watched = "- { name: b, format: ndjson, path: 'd/*.ndjson', watch: true }"
    project.change("c.yaml", FILE, f"- {{ name: a, format: ndjson, http: {{ listen: '{port}' }} }}\n  {watched}")
    (project.folder / "d").mkdir()
    lines = [element(1, f"x{number}") for number in range(2_500)]
    with running(project) as run:
        accepted = refused = 0
        while refused < 10:  # in a row, a second long
            if post(port, *lines, path="/") == 202:
                accepted, refused = accepted + 1, 0
            else:
                refused += 1
                time.sleep(0.1)
        assert 4 <= accepted <= 9  # 10,000 in the queue, and as many in the merge
        deadline = time.monotonic() + PATIENCE
        project.write("d/new", element(5) + "\n").rename(project.folder / "d/b.ndjson")
        while post(port, element(6), path="/") != 202:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        until_lines(project.folder / "out.ndjson", 2_500)
        assert ended(run, signal.SIGINT)[0] == 0
