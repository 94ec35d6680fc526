"""Event streams read from a server on loopback: statuses, ETags, formats, origins, and whole runs in process."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.time import Clock
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.inputs import read_inputs
from dotr.streams.connectors.ldes.source import ORDER, PAGE_BYTES, LdesReceiver
from dotr.streams.connectors.web_access import WebAccess
from dotr.streams.formats.messages import message_decoder
from dotr.streams.records import Format, GraphSettings, InputFile, Message
from tests.streams.connectors.test_ldes_traversal import Site as RandomSite
from tests.streams.connectors.test_ldes_traversal import random_site
from tests.support.event_pages import PREFIXES, ROOT, Site, member, relation
from tests.support.event_server import EventServer, event_server
from tests.support.inbox import MemoryInbox, until
from tests.support.interrupted import run_until
from tests.support.published import DATED, event_at, published

pytestmark = pytest.mark.core


class Inbox(MemoryInbox):
    """Inbox in memory. `before`: the messages of an earlier run."""

    def __init__(self, before: Sequence[Message] = ()) -> None:
        super().__init__(last=before[-1] if before else None)
        self.before = list(before)

    def earlier(self) -> Iterator[list[Message]]:
        half = len(self.before) // 2
        yield self.before[half:]
        yield self.before[:half]

    def names(self) -> list[str]:
        """The local names of the members so far; a dead letter is its reason in capitals."""
        names = [(each.why and each.reason.value.upper(), (each.key or b"").decode()) for each in list(self.messages)]
        return [reason or name.removeprefix("http://e/") for reason, name in names]

    def after(self, count: int) -> list[str]:
        """The names, once there are so many."""
        self.until(count)
        return self.names()


@contextmanager
def received(server: EventServer, inbox: Inbox, path: str = "/ldes", **settings: object) -> Iterator[LdesReceiver]:
    url = server.url(path)
    like = InputFile("a", url, Format.TURTLE)
    usual = {"like": like, "access": WebAccess(url, lambda: url), "poll": 0.05, "since": None, "allow": (), "spool": 1 << 30}
    receiver = LdesReceiver(**{**usual, **settings})  # type: ignore[arg-type]
    receiver.start(inbox)
    try:
        yield receiver
    finally:
        receiver.stop()


def test_a_stream_is_polled_with_its_etags(capfd: pytest.CaptureFixture[str]) -> None:
    site, inbox = Site(), Inbox()
    site.put("/ldes", ROOT + relation("/1", 1) + relation("/2", 3))
    site.put("/1", member("b", 2) + member("a", 1))
    site.put("/2", member("c", 3))
    site.headers["/1"] = {"Cache-Control": "public, immutable"}
    with event_server(site.answer) as server, received(server, inbox) as receiver:
        assert inbox.after(3) == ["a", "b", "c"]
        assert receiver.connected
        assert not receiver.ended
        site.put("/2", member("c", 3) + member("e", 5) + member("d", 4))
        assert inbox.after(5) == ["a", "b", "c", "d", "e"]
        until(lambda: site.log.count(("/2", 304)) > 1)
    assert site.log.count(("/1", 200)) == 1
    assert ("/1", 304) not in site.log
    assert site.log.count(("/ldes", 200)) == 1, "the page by which it begins is read once"
    accepted = server.requests[0]["Accept"]
    assert accepted.startswith("text/turtle, application/trig;q=0.9, ")
    [record] = message_decoder(InputFile("a", "", Format.NQUADS))(inbox.messages[0], True)
    assert record.time == 1_000_000
    assert record.element is not None
    assert len(record.element.triples) == 2


def test_an_entry_may_be_the_stream_or_an_overview() -> None:
    for entry in (":s tree:view </root> .", "<> tree:view </root> ."):
        site, inbox = Site(), Inbox()
        site.put("/ldes", entry)
        site.put(
            "/root",
            (ROOT if ":s" in entry else ROOT.replace(":s", "</ldes>"))
            + member("a", 1).replace(":s tree", ":s tree" if ":s" in entry else "</ldes> tree"),
        )
        with event_server(site.answer) as server, received(server, inbox):
            assert inbox.after(1) == ["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":s a ldes:EventStream .", "it describes no event stream (tree:view)"),
        (":s tree:view <> . :t tree:view <> .", "it is the view of several streams, or has several views: name one of them"),
        (":s tree:view <> .", "its stream has neither ldes:timestampPath nor ldes:sequencePath, so its members have no order"),
        (":s tree:view <https://other.example/> .", "the root page of its stream has another origin"),
        ("broken", "/ldes cannot be read: "),
    ],
)
def test_what_has_no_order_is_refused(text: str, expected: str) -> None:
    site = Site()
    site.put("/ldes", text)
    with event_server(site.answer) as server, pytest.raises(Refused, match="S165") as refused, received(server, Inbox()):
        pass
    assert expected in str(refused.value)


def test_statuses() -> None:
    site, inbox = Site(), Inbox()
    site.put("/ldes", ROOT + relation("/gone", 1) + relation("/1", 1))
    site.put("/1", member("a", 1))
    site.statuses = {"/gone": [410] * 99, "/1": [503, 408, 425, 429], "/ldes": [500]}
    with event_server(site.answer) as server, received(server, inbox) as receiver:
        # After a failure the wait is 0, 1, 2 … seconds: the first two attempts are enough to see that it comes again.
        until(lambda: len([status for path, status in site.log if path == "/1"]) >= 2)
        assert receiver.failure is None
        site.statuses["/1"] = []
        assert inbox.after(1) == ["a"]
        site.statuses["/1"] = [403]
        until(lambda: receiver.failure is not None)
        assert "it answers 403 (Forbidden)" in str(receiver.failure)


def test_pages_that_cannot_be_read_are_dead_letters_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("dotr.streams.connectors.ldes.source.PAGE_BYTES", 2_000)
    site, inbox = Site(), Inbox()
    links = "".join(map(relation, ("/broken", "/html", "/long", "/deep", "/bytes", "http://other.example/x", "/1")))
    site.put("/ldes", ROOT + links + member("a", 1))
    site.put("/broken", ":x :y")
    site.put("/html", "<html>", "text/html")
    site.put("/long", "#" * 2_000)
    site.put("/deep", ":x :y " + "[ :p " * 100 + "]" * 100 + " .")
    site.put("/bytes", '{"@context": "https://remote.example/", "@id": "x"}', "application/ld+json")
    site.put("/1", member("b", 2))
    with event_server(site.answer) as server, received(server, inbox):
        found = inbox.after(7)
        until(lambda: site.log.count(("/broken", 304)) > 1)
    assert sorted(found) == ["LIMIT", "LIMIT", "UNREADABLE", "UNREADABLE", "UNREADABLE", "a", "b"] == sorted(inbox.names())
    assert f"the page {server.url('/html')} cannot be read: its content-type is text/html" in "".join(each.why for each in inbox.messages)
    assert [each.body for each in inbox.messages if "/html" in each.why] == [(PREFIXES + "<html>").encode()]
    assert caplog.messages.count("input a: the page http://other.example/x has another origin, and is not read (allow names origins).") == 1
    assert PAGE_BYTES == 64 << 20


def test_further_origins_get_no_credentials() -> None:
    site, other, inbox = Site(), Site(), Inbox()
    other.put("/1", member("a", 1))
    with event_server(other.answer) as far, event_server(site.answer) as server:
        site.put("/ldes", ROOT + relation(far.url("/1"), 1))
        with received(server, inbox, access=WebAccess("", lambda: server.url("/ldes").replace("//", "//me:secret@")), allow=(far.url(""),)):
            assert inbox.after(1) == ["a"]
    assert "Authorization" in server.requests[0]
    assert all("Authorization" not in request for request in far.requests)


FORMATS = {
    "application/n-quads": "\n".join(
        [
            "<http://e/s> <https://w3id.org/tree#view> <{url}> .",
            "<http://e/s> <https://w3id.org/ldes#timestampPath> <http://e/at> .",
            "<http://e/s> <https://w3id.org/tree#member> <http://e/é> .",
            '<http://e/é> <http://e/at> "1970-01-01T00:00:01Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .',
            '<http://e/x> <http://e/y> "1" <http://e/é> .',
        ]
    ),
    "application/trig": ROOT
    + ':s tree:member <http://e/é> . <http://e/é> :at "1970-01-01T00:00:01Z"^^xsd:dateTime . <http://e/é> { :x :y "1" }',
    "application/ld+json": json.dumps(
        {
            "@context": {"@vocab": "http://e/", "tree": "https://w3id.org/tree#", "ldes": "https://w3id.org/ldes#"},
            "@id": "http://e/s",
            "tree:view": {"@id": ""},
            "ldes:timestampPath": {"@id": "http://e/at"},
            "tree:member": {
                "@id": "http://e/é",
                "at": {"@value": "1970-01-01T00:00:01Z", "@type": "http://www.w3.org/2001/XMLSchema#dateTime"},
                "@graph": [{"@id": "http://e/x", "y": "1"}],
            },
        }
    ),
}


@pytest.mark.parametrize("media_type", FORMATS)
def test_each_format_gives_the_same_member(media_type: str) -> None:
    site, inbox = Site(), Inbox()
    with event_server(site.answer) as server:
        site.put("/ldes", FORMATS[media_type].replace("{url}", server.url("/ldes")), media_type)
        with received(server, inbox):
            assert inbox.after(1) == ["é"]
    [record] = message_decoder(InputFile("a", "", Format.NQUADS))(inbox.messages[0], True)
    assert record.element is not None
    at = '"1970-01-01T00:00:01Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    assert set(record.element.triples) == {("<http://e/é>", "<http://e/at>", at), ("<http://e/x>", "<http://e/y>", '"1"')}


def test_a_declared_context_stands_for_a_remote_one() -> None:
    site, inbox = Site(), Inbox()
    document = json.loads(FORMATS["application/ld+json"])
    context = json.dumps({"@context": document["@context"]})
    site.put("/ldes", json.dumps({**document, "@context": "https://remote.example/"}), "application/ld+json")
    like = InputFile("a", "", Format.JSONLD, graphs=GraphSettings(contexts=(("https://remote.example/", context),)))
    with event_server(site.answer) as server, received(server, inbox, like=like):
        assert inbox.after(1) == ["é"]
    assert server.requests[0]["Accept"].startswith("application/ld+json, ")


def test_a_restart_takes_what_the_spool_has_and_a_polling_interval_counts() -> None:
    site, inbox = Site(), Inbox()
    site.put("/ldes", ROOT + ":s ldes:pollingInterval 2 .\n" + member("a", 1) + member("c", 2) + member("b", 2))
    with event_server(site.answer) as server:
        with received(server, inbox) as receiver:
            assert inbox.after(3) == ["a", "b", "c"]
            assert receiver._polling == 2
        later = Inbox(inbox.messages)
        site.put("/ldes", ROOT + "".join(map(member, "abcde", (1, 2, 2, 2, 3))))
        with received(server, later):
            assert later.after(2) == ["d", "e"]
            assert dict(later.messages[0].headers)[ORDER] == b"[2000000]"


def test_a_restart_after_any_message_emits_the_rest() -> None:
    chance = random.Random(7)
    for _ in range(5):
        pages, expected = random_site(chance, 12)
        pages.run()
        for cut in range(len(pages.messages) + 1):
            receiver = LdesReceiver(InputFile("a", "", Format.TURTLE), WebAccess("", lambda: ""), 1, None, (), 1 << 30)
            receiver._loop.close()  # it is not started
            receiver._inbox = inbox = Inbox(pages.messages[:cut])
            if inbox.last is not None:
                receiver.go_on_behind(inbox.last)
            again = RandomSite(pages.pages)
            traversal = again.traversal()
            traversal.go_on_behind(receiver._taken, receiver._rejected)
            asyncio.run(traversal.run())
            names = [
                (message.key or b"").decode().partition("#")[2] for message in [*pages.messages[:cut], *again.messages] if not message.why
            ]
            assert names == expected


def test_an_end() -> None:
    site, inbox = Site(), Inbox()
    site.put("/ldes", ROOT + "<> ldes:immutable true . " + relation("/1") + member("a", 1))
    site.put("/1", member("b", 2) + "<> ldes:immutable true .")
    with event_server(site.answer) as server, received(server, inbox) as receiver:
        until(lambda: receiver.ended)
    assert inbox.names() == ["a", "b"]
    assert [path for path, _ in site.log] == ["/ldes", "/1"]


@pytest.mark.parametrize(("form", "clock"), [(Format.TRIG, DATED), (Format.NQUADS, Clock()), (Format.JSONLD, DATED)])
def test_a_published_stream_is_read_in_its_order(form: Format, clock: Clock) -> None:
    times = [at // 3 for at in range(700)]
    inbox = Inbox()
    with published(clock=clock) as stream:
        for count in (300, 400):
            first, times = times[:count], times[count:]
            stream.stream.publish(
                [event_at(at, clock, f'<http://e/r> <http://e/at> "{at}" .')._replace(ordinal=n) for n, at in enumerate(first)]
            )
            if count == 300:
                access = WebAccess("", lambda: f"{stream.address}ldes")
                receiver = LdesReceiver(InputFile("a", "", form), access, 0.05, None, (), 1 << 30)
                receiver.start(inbox)
                inbox.until(300)
        inbox.until(700)
        receiver.stop()
    decode = message_decoder(InputFile("a", "", Format.NQUADS))
    records = [decode(message, True)[0] for message in inbox.messages]
    assert [record.time for record in records] == [at // 3 * 1_000_000 for at in range(700)]
    assert len({message.key for message in inbox.messages}) == 700
    elements = [record.element for record in records if record.element is not None]
    assert [("<http://e/r>", "<http://e/at>", f'"{at // 3}"') in element.triples for at, element in enumerate(elements)] == [True] * 700


RULES = "PREFIX : <http://e/>\ndefine B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x\n"
CONFIG = """
name: x
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: obs, format: turtle, {further}ldes: {{ url: "{url}", poll: 1 s{since} }} }}]
output: [{{ path: out.ndjson }}]
dead_letter: dead.ndjson
engine: local
"""


def project(folder: Path, url: str, since: str = "", further: str = "") -> str:
    (folder / "r.dotr").write_text(RULES)
    (folder / "c.yaml").write_text(CONFIG.format(url=url, since=since, further=further))
    return str(folder / "c.yaml")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_run_in_process(tmp_path: Path) -> None:
    site = Site()
    site.put("/ldes", ROOT + relation("/1", 3) + member("b", 2) + member("a", 1) + ":s tree:member :none . :none a :A .")
    site.put("/1", member("d", 4) + member("c", 3))
    with event_server(site.answer) as server:
        config = project(tmp_path, server.url("/ldes"), ', since: "1970-01-01T00:00:02Z"')
        assert run_until(["run", config, "--quiet"], lambda: until(lambda: len(lines(tmp_path / "out.ndjson")) > 1)) == 0
    found = lines(tmp_path / "out.ndjson")
    assert [(each["time"], each["attributes"]) for each in found[:2]] == [
        ("1970-01-01T00:00:02Z", {"x": "<http://e/b>"}),
        ("1970-01-01T00:00:03Z", {"x": "<http://e/c>"}),
    ]
    [letter] = lines(tmp_path / "dead.ndjson")
    assert (letter["reason"], letter["file"]) == ("unreadable", server.url("/ldes"))
    assert letter["error"] == "it has no ldes:timestampPath of its stream"
    assert "http://e/none" in str(letter["text"])


def test_a_stream_that_ends_ends_the_run(tmp_path: Path) -> None:
    site = Site()
    site.put("/ldes", ROOT + "<> ldes:immutable true . " + member("a", 1))
    with event_server(site.answer) as server:
        assert main(["run", project(tmp_path, server.url("/ldes")), "--quiet"]) == 0
    assert [each["time"] for each in lines(tmp_path / "out.ndjson")] == ["1970-01-01T00:00:01Z"]


def problems(config: str) -> list[str]:
    found: list[Diagnostic] = []
    try:
        read_inputs(read_config(config), found)
    except Refused as refused:
        found += refused.diagnostics
    return [str(each).splitlines()[0].partition(": ")[2] for each in found]


@pytest.mark.parametrize(
    ("since", "further", "expected"),
    [
        ("", "", []),
        (", allow: [https://a.example, 'http://b.example:81/']", 'time: ":at", lateness: 5 s, ', []),
        (", since: soon", "", ["C205 since: 'soon' is neither an integer nor an ISO 8601 date-time"]),
        (
            ", allow: [https://a.example/x]",
            "",
            ["C203 input.0.ldes.allow cannot be used: https://a.example/x is no origin: write its scheme, host and port alone"],
        ),
        ("", "one_per_instant: true, ", []),
    ],
)
def test_sections(tmp_path: Path, since: str, further: str, expected: list[str]) -> None:
    assert problems(project(tmp_path, "https://h/ldes", since, further)) == expected


def test_pages_are_rdf(tmp_path: Path) -> None:
    config = Path(project(tmp_path, "https://h/ldes"))
    config.write_text(config.read_text().replace("format: turtle", "format: ndjson"))
    assert problems(str(config)) == ["C204 pages of an event stream are RDF, and format is ndjson"]
