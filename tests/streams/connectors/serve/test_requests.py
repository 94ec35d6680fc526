"""Checks of each request to a published stream, over real sockets: statuses, headers, negotiation, tokens, origins."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Final, NamedTuple

import pytest

from dotr.model.time import Clock
from dotr.streams.connectors.serve import server as serving
from dotr.streams.connectors.serve.kept import Keep
from dotr.streams.connectors.serve.section import About, DocumentReference
from dotr.streams.sinks.events import OutputTerms
from tests.support.patience import PATIENCE
from tests.support.published import DATED, PREFIXES, PublishedTest, published

pytestmark = pytest.mark.core

TRIG: Final = "application/trig"


class Reply(NamedTuple):
    status: int
    body: str
    headers: dict[str, str]

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])


def send(stream: PublishedTest, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
    """The answer to a request below the stream; names of headers have `_` for `-`."""
    authority, _, prefix = stream.address.removeprefix("http://").partition("/")
    connection = HTTPConnection(authority, timeout=PATIENCE)
    try:
        connection.request(method, f"/{prefix}{path}", body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return Reply(answer.status, answer.read().decode(), dict(answer.getheaders()))
    finally:
        connection.close()


def raw(stream: PublishedTest, sent: bytes) -> Reply:
    """The answer to some bytes."""
    host, _, port = stream.address.removeprefix("http://").partition("/")[0].partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as client:
        client.sendall(sent)
        answer = HTTPResponse(client)
        answer.begin()
        return Reply(answer.status, answer.read().decode(), dict(answer.getheaders()))


@pytest.fixture(scope="module")
def fires() -> Iterator[PublishedTest]:
    """Three events, at 1 to 3 s."""
    with published() as stream:
        stream.add([1, 2, 3])
        yield stream


@pytest.mark.parametrize(
    ("path", "headers", "status", "error"),
    [
        ("4000000-0", {}, 404, "no element has this ID, and no resource this name"),
        ("1000000-1", {}, 404, "no element has this ID, and no resource this name"),
        ("../../etc/passwd", {}, 404, "no element has this ID, and no resource this name"),
        ("elements/x", {}, 404, "no element has this ID, and no resource this name"),
        (
            "1000000-0",
            {"Accept": "text/html"},
            406,
            f"it accepts nothing that is here: {TRIG}, application/n-quads, application/ld+json, text/turtle",
        ),
        (
            "elements",
            {"Accept": "text/turtle"},
            406,
            f"it accepts nothing that is here: {TRIG}, application/n-quads, application/ld+json, application/x-ndjson",
        ),
        ("elements?since=soon", {}, 400, "since is neither a date-time nor an integer"),
        ("elements?until=", {}, 400, "until is neither a date-time nor an integer"),
        ("elements?limit=0", {}, 400, "limit is no whole number from 1 to 1,000"),
        ("elements?limit=1001", {}, 400, "limit is no whole number from 1 to 1,000"),
        ("elements?last=-1", {}, 400, "last is no whole number from 1 on"),
        ("elements?after=9000000-0", {}, 400, "after is no ID of an element that the stream has had"),
        ("elements?after=x", {}, 400, "after is no ID of an element that the stream has had"),
        ("elements?limit=1&limit=2", {}, 400, "the parameter limit is given twice"),
        ("elements?secret=1", {}, 400, "it has an unknown parameter; known here: after, format, label, last, limit, since, until"),
        ("elements?format=csv", {}, 400, "format is none of trig, nquads, jsonld, ndjson"),
        ("1000000-0?format=trig", {}, 400, "it has an unknown parameter; known here: none"),
        ("elements", {"Host": "evil.example"}, 403, "its Host is neither"),
        ("elements", {"X": "x" * 9_000}, 431, "its headers have more than 8,192 bytes"),
        ("elements", {"X": "x" * 5_000, "Y": "y" * 5_000}, 431, "its headers have more than 8,192 bytes"),
        (f"elements?label={'x' * 9_000}", {}, 414, "its address has more than 8,191 bytes"),
    ],
)
def test_invalid_request_has_a_status_and_an_error(
    fires: PublishedTest, path: str, headers: dict[str, str], status: int, error: str
) -> None:
    reply = send(fires, path, "GET", None, **headers)
    assert (reply.status, reply.error[: len(error)]) == (status, error)
    assert reply.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_other_methods_are_not_allowed(fires: PublishedTest, method: str) -> None:
    reply = send(fires, "elements", method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


def test_request_with_a_body_is_refused(fires: PublishedTest) -> None:
    assert send(fires, "elements", body=b"x").status == 400
    sent = b"GET /fire/ HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" % _host(fires)
    assert raw(fires, sent).status == 400


def _host(stream: PublishedTest) -> bytes:
    return stream.address.removeprefix("http://").partition("/")[0].encode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01 nonsense\r\n\r\n", 400),
        (b"GET /fire/ HTTP/9.9\r\n\r\n", 400),
        (b"GET /fire/ HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n", 400),
        (b"GET /fire/ HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /fire/elements HTTP/1.1\r\n\r\n", 400),
        (b"GET http://HOST/fire/elements HTTP/1.1\r\nHost: HOST\r\n\r\n", 200),
        (b"GET /%66ire/elements HTTP/1.1\r\nHost: HOST\r\n\r\n", 200),
        (b"GET /fire/elements HTTP/1.1\r\nHost: HOST\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(200)) + b"\r\n", 431),
        (b"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n", 404),
    ],
)
def test_requests_as_bytes(fires: PublishedTest, sent: bytes, status: int) -> None:
    reply = raw(fires, sent.replace(b"HOST", _host(fires)))
    assert (reply.status, reply.headers["Server"]) == (status, "dotr"), reply
    assert not any(word in str(reply).lower() for word in ("aiohttp", "python", "traceback"))
    assert status == 200 or "error" in json.loads(reply.body)


def test_head_has_the_headers_of_get_and_no_body(fires: PublishedTest) -> None:
    for path in ("elements", "1000000-0", "elements?limit=1", "9000000-0", "elements?x=1"):
        get, head = send(fires, path), send(fires, path, "HEAD")
        assert (head.status, head.body) == (get.status, "")
        assert {**head.headers, "Date": ""} == {**get.headers, "Date": ""}


def test_connection_goes_on_behind_head_and_304(fires: PublishedTest) -> None:
    connection = HTTPConnection(_host(fires).decode(), timeout=PATIENCE)
    tag = send(fires, "elements").headers["ETag"]
    statuses = []
    for method, headers in (("HEAD", {}), ("GET", {"If-None-Match": tag}), ("GET", {})):
        connection.request(method, "/fire/elements", headers=headers)
        answer = connection.getresponse()
        statuses.append((answer.status, len(answer.read()) > 0))
    connection.close()
    assert statuses == [(200, False), (304, False), (200, True)]


@pytest.mark.parametrize("named", ["{tag}", "W/{tag}", '"other", {tag}', "*", '"other",W/{tag} ,"b"'])
def test_known_answer_is_304(fires: PublishedTest, named: str) -> None:
    for path in ("elements", "2000000-0"):
        first = send(fires, path)
        again = send(fires, path, If_None_Match=named.format(tag=first.headers["ETag"]))
        assert (again.status, again.body) == (304, "")
        assert [again.headers[name] for name in ("ETag", "Vary", "Cache-Control")] == [
            first.headers[name] for name in ("ETag", "Vary", "Cache-Control")
        ]


def test_tag_is_of_the_number_and_the_names_of_an_element_too() -> None:
    """A run that is begun anew may serve the same event under another number, base or prefix."""
    tags: list[tuple[str, str, str]] = []
    for times, base, prefixes in (
        ([2], "http://e/", PREFIXES),
        ([1, 2], "http://e/", PREFIXES),
        ([2], "https://h/", PREFIXES),
        ([2], "http://e/", {"x": "http://e/"}),
    ):
        with published(base=base) as stream:
            stream.stream.begin(OutputTerms(DATED, prefixes=prefixes))
            stream.add(times)
            answers = [stream.get("2000000-0"), stream.get("elements?since=2"), stream.get("ldes/0")]
            tags.append((answers[0].headers["ETag"], answers[1].headers["ETag"], answers[2].headers["ETag"]))
    assert [len(set(each)) for each in zip(*tags, strict=True)] == [4, 4, 4]


def test_tags_differ_by_format_and_change_with_elements() -> None:
    with published() as stream:
        stream.add([1])
        tags = {send(stream, "elements", Accept=accept).headers["ETag"] for accept in (TRIG, "application/n-quads", "application/ld+json")}
        assert len(tags) == 3
        tag = send(stream, "elements").headers["ETag"]
        assert send(stream, "elements", If_None_Match=f'{tag[:-2]}"').status == 200
        stream.add([2])
        assert send(stream, "elements", If_None_Match=tag).status == 200
        assert send(stream, "1000000-0").headers["ETag"] == send(stream, "1000000-0").headers["ETag"]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", TRIG),
        ("*/*", TRIG),
        ("application/*", TRIG),
        ("text/*", "text/turtle"),
        ("application/ld+json;q=0.5, application/n-quads", "application/n-quads"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TRIG),
        ("application/trig;q=0, */*", "application/n-quads"),
        ("APPLICATION/LD+JSON; profile=x", "application/ld+json"),
        ("broken;q=x, text/turtle;q=0.1", "text/turtle"),
    ],
)
def test_reader_chooses_the_format(fires: PublishedTest, accept: str, media_type: str) -> None:
    reply = send(fires, "1000000-0", Accept=accept)
    assert (reply.status, reply.headers["Content-Type"].partition(";")[0], reply.headers["Vary"]) == (200, media_type, "Accept")


def ids(reply: Reply) -> list[str]:
    """The IDs in an answer in NDJSON."""
    assert reply.status == 200, reply
    return [json.loads(line)["id"] for line in reply.body.splitlines()]


def pulled(stream: PublishedTest, path: str) -> list[str]:
    return [id.removesuffix("000000-0") for id in ids(send(stream, path, Accept="application/x-ndjson"))]


def test_elements_are_selected_by_time_id_count_and_label() -> None:
    with published() as stream:
        stream.add([1, 2, 3])
        stream.add([4], event="Smoke")
        stream.add([5, 6])
        for query, expected in {
            "": "123456",
            "?since=3": "3456",
            "?until=3": "12",
            "?since=2&until=5": "234",
            "?since=1970-01-01T00:00:05Z": "56",
            "?since=1970-01-01T01:00:05%2B01:00": "56",
            "?since=1970-01-01T01:00:05+01:00": "56",
            "?after=2000000-0": "3456",
            "?after=6000000-0": "",
            "?after=1000000-0&until=1970-01-01T00:00:03": "2",
            "?last=2": "56",
            "?last=9": "123456",
            "?last=2&until=4": "23",
            "?label=Smoke": "4",
            "?label=Smoke&label=Fire": "123456",
            "?label=Fire&last=3": "356",
            "?label=Other": "",
            "?since=99": "",
            "?since=-5": "123456",
            "?format=ndjson": "123456",
        }.items():
            assert "".join(pulled(stream, f"elements{query}")) == expected, query


def test_next_page_is_behind_a_link() -> None:
    with published() as stream:
        stream.add(range(1, 601))
        first = send(stream, "elements", Accept="application/x-ndjson")
        assert len(ids(first)) == 250
        seen, reply, pages = ids(first), first, 1
        while found := re.fullmatch(r'<(.+)>; rel="next"', reply.headers.get("Link", "")):
            assert found[1].startswith(f"{stream.stream.base}elements?")
            reply = send(stream, found[1].removeprefix(stream.stream.base), Accept="application/x-ndjson")
            seen += ids(reply)
            pages += 1
        assert (seen, pages) == ([f"{second}000000-0" for second in range(1, 601)], 3)


def test_addresses_in_headers_are_encoded() -> None:
    about = About("F", tbox=DocumentReference(iri="https://h/é#"))
    with published(base="https://h/é/%C3%A4/", about=about) as stream:
        stream.add([1, 2])
        assert stream.get("elements?limit=1").headers["Link"].startswith("<https://h/%C3%A9/%C3%A4/elements?limit=1&")
        assert stream.get("tbox").headers["Location"] == "https://h/%C3%A9#"


def test_link_keeps_what_was_selected() -> None:
    with published(base="https://data.example/f/") as stream:
        stream.add([*range(1, 10)])
        reply = send(stream, "elements?label=Fire&label=%C3%A9&since=2&until=8&limit=2&format=nquads")
        assert reply.headers["Link"] == (
            '<https://data.example/f/elements?label=Fire&label=%C3%A9&since=2&until=8&limit=2&format=nquads&after=3000000-0>; rel="next"'
        )
        assert "Link" not in send(stream, "elements?limit=9").headers
        # what is behind the last one of a page is further, however many come meanwhile
        assert (
            send(stream, "elements?last=5&limit=3").headers["Link"]
            == '<https://data.example/f/elements?limit=3&after=7000000-0>; rel="next"'
        )


def test_element_that_has_left_is_gone() -> None:
    with published(keep=Keep(elements=250)) as stream:
        stream.add(range(1, 1_001))
        for path in ("1000000-0", "elements?after=1000000-0", "500500000-0"):
            reply = send(stream, path)
            assert (reply.status, json.loads(reply.body)["first"]) == (410, "751000000-0")
        assert send(stream, "751000000-0").status == 200
        assert send(stream, "elements?since=0&limit=1", Accept="application/x-ndjson").body.count("751000000-0") == 1


@pytest.mark.parametrize("path", ["/fire", "", "/a/b.c", "/%C3%A9"])
def test_stream_is_at_its_path(path: str) -> None:
    with published(path=path) as stream:
        stream.add([1])
        assert stream.stream.base == stream.address
        assert send(stream, "1000000-0").status == 200
        assert send(stream, "").status == 200


def test_name_of_the_base_is_a_host() -> None:
    with published(base="https://data.example/fire/") as stream:
        stream.add([1])
        for host, status in {"data.example": 200, "Data.Example:443": 200, "data.example:80": 403, "evil.example": 403, "": 403}.items():
            assert send(stream, "elements", Host=host).status == status, host
        assert send(stream, "elements", Host=f"localhost:{_host(stream).decode().partition(':')[2]}").status == 200


def test_token_is_needed_and_told_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    with published(tokens=lambda: "s3cret, other-1") as stream:
        stream.add([1])
        good = send(stream, "elements", Authorization="Bearer s3cret", Host="any.example")
        assert (good.status, good.headers["Cache-Control"]) == (200, "private, no-cache")
        assert send(stream, "1000000-0", Authorization="bearer  other-1").status == 200
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("elements", {}),
            ("elements", {"Authorization": "Basic s3cret"}),
            ("elements", {"Authorization": "s3cret"}),
            ("elements", {"Authorization": "Bearer s3cretx"}),
            ("elements?authorization=s3cret", {}),
            ("elements?s3cret", {}),
            ("s3cret", {}),
            ("elements?label=s3cret", {"Cookie": "token=s3cret"}),
            ("", {"X-Token": "s3cret"}),
        ]
        for path, headers in wrong:
            reply = send(stream, path, **headers)
            assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer"), path
            assert "s3cret" not in reply.body + str(reply.headers)
        reply = send(stream, "elements?authorization=s3cret", Authorization="Bearer s3cret")
        assert (reply.status, "s3cret" in reply.body) == (400, False)
        assert stream.stream.counts.refusals == {401: len(wrong), 400: 1}
    assert "s3cret" not in caplog.text


def test_only_named_origins_are_allowed() -> None:
    with published(origins=frozenset(["https://map.example"])) as stream:
        stream.add([1])
        plain, foreign = send(stream, "elements"), send(stream, "elements", Origin="https://evil.example")
        for reply in (plain, foreign):
            assert not [name for name in reply.headers if name.startswith("Access-Control")]
            assert reply.headers["Vary"] == "Accept, Origin"
        for path in ("elements", "1000000-0", "elements?x=1", "9000000-0"):
            named = send(stream, path, Origin="https://map.example")
            assert named.headers["Access-Control-Allow-Origin"] == "https://map.example"
            assert {"ETag", "Link"} <= set(named.headers["Access-Control-Expose-Headers"].split(", "))
        asked = send(stream, "events", "OPTIONS", Origin="https://map.example", Access_Control_Request_Method="GET")
        assert (asked.status, asked.body) == (204, "")
        assert "GET" in asked.headers["Access-Control-Allow-Methods"]
        assert {"Authorization", "Last-Event-ID"} <= set(asked.headers["Access-Control-Allow-Headers"].split(", "))
        assert "Access-Control-Allow-Origin" not in send(stream, "events", "OPTIONS", Origin="https://evil.example").headers
        assert send(stream, "elements", "OPTIONS").headers["Allow"] == "GET, HEAD, OPTIONS"


def test_only_what_never_changes_is_immutable() -> None:
    with published(is_durable=True) as stream:
        stream.add([1])
        assert "immutable" in send(stream, "1000000-0").headers["Cache-Control"]
        assert send(stream, "elements").headers["Cache-Control"] == "no-cache"
        assert send(stream, "9000000-0").headers["Cache-Control"] == "no-cache"
    with published(is_durable=True, tokens=lambda: "t") as stream:
        stream.add([1])
        assert send(stream, "1000000-0", Authorization="Bearer t").headers["Cache-Control"] == "private, max-age=31536000, immutable"
    with published() as stream:
        stream.add([1])
        assert send(stream, "1000000-0").headers["Cache-Control"] == "no-cache"


def test_integers_of_the_unit_are_seconds_of_dated_streams() -> None:
    with published(clock=DATED) as stream:
        stream.add([10, 11])
        assert pulled(stream, "elements?since=11") == pulled(stream, "elements?since=1970-01-01T00:00:11Z") == ["11"]


def test_times_without_a_zone_are_those_of_the_zone_in_which_times_are_shown() -> None:
    with published(clock=Clock(dated=True, zone="Europe/Berlin")) as stream:
        stream.add([10, 11])
        assert pulled(stream, "elements?since=1970-01-01T01:00:11") == pulled(stream, "elements?since=1970-01-01T00:00:11Z") == ["11"]
        assert pulled(stream, "elements?since=1970-01-01T01:00:11+01:00") == ["11"]


def test_silent_connections_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_CONNECTIONS", 8)
    with published(clients=2) as stream:
        stream.add([1])
        host, _, port = _host(stream).decode().partition(":")
        silent = []
        for number in range(60):
            client = socket.create_connection((host, int(port)), PATIENCE)
            if number % 2:
                client.sendall(b"GET /fire/elements HTTP/1.1\r\nHo")
            silent.append(client)
        assert send(stream, "elements").status == 200
        for client in silent:
            client.close()


def test_headers_have_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.5)
    with published() as stream:
        host, _, port = _host(stream).decode().partition(":")
        start = time.monotonic()
        with socket.create_connection((host, int(port)), PATIENCE) as client:
            for byte in b"GET /fire/":
                client.sendall(bytes([byte]))
            assert client.recv(1) == b""
        assert time.monotonic() - start > 0.4


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has this option")
def test_connection_that_takes_no_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "STALLED_SECONDS", 0.3)
    with published() as stream:
        stream.add(range(1, 1_001), graph=f'<http://e/a> <http://e/p> "{"x" * 20_000}" .')
        host, _, port = _host(stream).decode().partition(":")
        with socket.create_connection((host, int(port)), PATIENCE) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.sendall(b"GET /fire/elements?limit=1000 HTTP/1.1\r\nHost: %b\r\n\r\n" % _host(stream))
            time.sleep(3)
            with pytest.raises(ConnectionResetError):
                b"".join(iter(lambda: client.recv(1 << 20), b""))
        assert send(stream, "elements?limit=1").status == 200
