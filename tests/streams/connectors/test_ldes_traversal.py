"""Traversal of event streams without a network: order, bounds of relations, runs, and what members are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from dotr.model.time import Unit
from dotr.streams.connectors.ldes.pages import LEAST, KeyBound, StreamView, read_page
from dotr.streams.connectors.ldes.source import ORDER, Fetched, TooManyWaiting, Traversal, key_of_text
from dotr.streams.formats.messages import message_decoder
from dotr.streams.records import Format, GraphSettings, InputFile, Message

pytestmark = pytest.mark.core

HOST = "http://h/"
PREFIXES = """
@prefix : <http://h/#> . @prefix tree: <https://w3id.org/tree#> . @prefix ldes: <https://w3id.org/ldes#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix sh: <http://www.w3.org/ns/shacl#> .
"""
LIKE = InputFile("in", HOST, Format.NQUADS)


def at(second: int) -> str:
    return f'"1970-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"^^xsd:dateTime'


def member(name: str, second: int, further: str = "") -> str:
    return f":s tree:member :{name} . :{name} :at {at(second)} ; :v 1 {further} .\n"


def link(to: str, *bounds: tuple[str, str], path: str = ":at") -> str:
    relations = [f"[ a tree:{kind}Relation ; tree:node <{to}> ; tree:path {path} ; tree:value {value} ]" for kind, value in bounds]
    return f"<> tree:relation {', '.join(relations or [f'[ a tree:Relation ; tree:node <{to}> ]'])} .\n"


@dataclass
class Site:
    """Pages in Turtle or TriG by name, and what happened to them: requests and emitted members, in order."""

    pages: dict[str, str]
    immutable: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    async def fetch(self, url: str, etag: str) -> Fetched:
        name = url.removeprefix(HOST)
        self.log.append(f"<{name}>")
        if name in self.gone:
            return Fetched(read_page(b"", "text/turtle", url, 64, GraphSettings()))
        text = self.pages[name]
        if etag == str(hash(text)):
            return Fetched(None, etag)
        page = read_page((PREFIXES + text).encode(), "application/trig", url, 64, GraphSettings())
        return Fetched(page, str(hash(text)), name in self.immutable)

    async def emit(self, messages: Sequence[Message]) -> None:
        assert messages
        self.messages += messages
        self.log += [(message.key or b"").decode().partition("#")[2] for message in messages]

    @property
    def view(self) -> StreamView:
        page = read_page((PREFIXES + self.pages[""]).encode(), "application/trig", HOST, 64, GraphSettings())
        assert page.views(HOST) == ("http://h/#s", HOST)
        return page.described("http://h/#s")

    def traversal(self, *, since: int | None = None, limit: int = 1 << 30, like: InputFile = LIKE) -> Traversal:
        return Traversal(self.view, HOST, like, self.fetch, self.emit, since=since, limit=limit)

    def run(self, **settings: object) -> list[str]:
        """The log of one run."""
        asyncio.run(self.traversal(**settings).run())  # type: ignore[arg-type]
        return self.log


ROOT = ":s tree:view <> ; ldes:timestampPath :at .\n"


def test_a_page_is_read_when_members_before_it_are_emitted() -> None:
    site = Site(
        {
            "": ROOT + member("b", 5) + member("a", 1) + link("2", ("GreaterThanOrEqualTo", at(7))) + link("1", ("GreaterThan", at(5))),
            "1": member("d", 7) + member("c", 6),
            "2": member("f", 9) + member("e", 7),
        }
    )
    assert site.run() == ["<>", "a", "b", "<1>", "c", "<2>", "d", "e", "f"]


def test_without_relations_to_go_by_a_run_is_read_whole() -> None:
    pages = {
        "": ROOT + member("d", 4) + link("1") + link("2", ("Prefix", '"a"')) + link("3", ("GreaterThan", at(9)), path=":other"),
        "1": member("c", 3),
        "2": member("b", 2),
        "3": member("a", 1),
    }
    assert Site(pages).run() == ["<>", "<1>", "<2>", "<3>", "a", "b", "c", "d"]
    with pytest.raises(TooManyWaiting, match="members wait for those before them"):
        Site(pages).run(limit=300)


def test_relations_to_one_page_hold_together() -> None:
    bounds = ("GreaterThanOrEqualTo", at(3)), ("LessThan", at(9))
    page = read_page((PREFIXES + ROOT + link("1", *bounds)).encode(), "text/turtle", HOST, 64, GraphSettings())
    view = page.described("http://h/#s")
    [found] = page.links(view, Unit.SECOND, HOST)
    assert (found.least, found.most) == (KeyBound((3_000_000,), after=False), KeyBound((9_000_000,), after=False))
    equal = read_page((PREFIXES + ROOT + link("1", ("EqualTo", at(3)))).encode(), "text/turtle", HOST, 64, GraphSettings())
    assert equal.links(view, Unit.SECOND, HOST)[0][1:] == (KeyBound((3_000_000,), after=False), KeyBound((3_000_000,), after=True))
    zoneless = '"1970-01-03T00:00:00"^^xsd:dateTime'
    wide = read_page((PREFIXES + ROOT + link("1", ("EqualTo", zoneless))).encode(), "text/turtle", HOST, 64, GraphSettings())
    assert [each.key[0] // 3_600_000_000 for each in wide.links(view, Unit.SECOND, HOST)[0][1:]] == [34, 62]  # type: ignore[union-attr, operator]
    broken = read_page((PREFIXES + ROOT + link("1", ("GreaterThan", '"soon"'))).encode(), "text/turtle", HOST, 64, GraphSettings())
    assert broken.links(view, Unit.SECOND, HOST)[0][1:] == (LEAST, None)


def test_what_is_unusual_ends_no_run() -> None:
    site = Site(
        {
            "": ROOT + member("b", 2) + link("1") + link(""),
            "1": member("b", 2) + ":s tree:member :none . :none :v 1 .\n" + link("2", ("GreaterThan", at(2))),
            "2": link("1") + link("3") + ":s tree:member :two . :two :at " + f"{at(7)}, {at(8)} .",
            "3": "",
            "4": member("z", 1),
        },
        gone={"3"},
    )
    traversal = site.traversal()
    asyncio.run(traversal.run())
    assert site.log == ["<>", "<1>", "none", "b", "<2>", "two", "<3>"]
    assert [message.why for message in site.messages] == [
        "it has no ldes:timestampPath of its stream",
        "",
        "it has more than one ldes:timestampPath (times: latest or earliest chooses one)",
    ]
    site.log.clear()
    asyncio.run(traversal.run())
    assert site.log == ["<>", "<1>", "<2>", "<3>"], "nothing is emitted twice"


def test_a_member_is_its_triples_its_blank_nodes_and_its_graph() -> None:
    site = Site(
        {
            "": ROOT
            + member("a", 5, "; :has [ :p [ :q 2 ] ], :b ; :loop _:x")
            + "_:x :loop _:x . :a { :in :a _:g . _:g :r 3 } _:g { _:g :t 4 } :other { :no :no :no }\n"
            + member("b", 5)
        }
    )
    site.run()
    first, second = site.messages
    [record] = message_decoder(LIKE)(first, True)
    assert record.element is not None
    assert record.time == 5_000_000
    predicates = sorted(triple[1].rpartition("#")[2].removesuffix(">") for triple in record.element.triples)
    assert predicates == ["a", "at", "has", "has", "loop", "loop", "p", "q", "r", "t", "v"]
    assert "<http://h/#in> <http://h/#a> _:b" in first.body.decode()
    assert ":no" not in first.body.decode()
    assert b"http://h/#b> <http://h/#v>" not in first.body, "another member is not a part of it"
    [other] = message_decoder(LIKE)(second, True)
    assert other.element is not None
    assert len(other.element.triples) == 2


def test_ties_go_by_sequence_then_by_name() -> None:
    root = ":s tree:view <> ; ldes:timestampPath :at ; ldes:sequencePath ( :n [ sh:inversePath :of ] ) .\n"
    members = member("a", 1, "; :n :a1 . :x10 :of :a1 . :a1 :k 1") + member("b", 1) + member("c", 1)
    site = Site({"": root + members})
    assert site.run() == ["<>", "a", "b", "c"]
    numbered = ":s tree:view <> ; ldes:timestampPath :at ; ldes:sequencePath :n .\n"
    site = Site({"": numbered + member("a", 1, "; :n 10") + member("b", 1, "; :n 9") + member("d", 1, "; :n 9.0") + member("c", 1)})
    assert site.run() == ["<>", "c", "b", "d", "a"]


def test_a_stream_of_sequences_alone_goes_by_number() -> None:
    root = ":s tree:view <> ; ldes:sequencePath <urn:n> .\n" + link("1", ("GreaterThanOrEqualTo", "2"), path="<urn:n>")
    numbered = "".join(
        f":s tree:member :{name} . :{name} <urn:n> {n} ; <http://www.w3.org/ns/prov#generatedAtTime> {n + 40} .\n"
        for name, n in (("b", 1), ("a", 0))
    )
    site = Site({"": root + numbered, "1": ":s tree:member :c . :c <urn:n> 10 ; <http://www.w3.org/ns/prov#generatedAtTime> 50 ."})
    assert site.run() == ["<>", "a", "b", "<1>", "c"]
    decode = message_decoder(LIKE)
    assert [decode(message, True)[0].time for message in site.messages] == [40_000_000, 41_000_000, 50_000_000]
    later = Site(site.pages)
    assert later.run(since=41_000_000) == ["<>", "b", "<1>", "c"]


def test_since_leaves_out_members_and_pages() -> None:
    site = Site(
        {
            "": ROOT
            + link("1", ("LessThan", at(5)))
            + link("2", ("GreaterThanOrEqualTo", at(5)), ("LessThanOrEqualTo", at(8)))
            + link("3", ("LessThanOrEqualTo", at(6))),
            "1": member("a", 1),
            "2": member("c", 7) + member("b", 5),
            "3": member("d", 6),
        }
    )
    assert site.run(since=6_000_000) == ["<>", "<3>", "<2>", "d", "c"]


def test_later_runs_read_what_may_have_changed() -> None:
    site = Site({"": ROOT + link("1", ("LessThanOrEqualTo", at(4))) + link("2"), "1": member("a", 4), "2": member("b", 5)}, immutable={"1"})
    traversal = site.traversal()

    def again() -> list[str]:
        site.log.clear()
        assert not asyncio.run(traversal.run())
        return site.log

    assert again() == ["<>", "<1>", "<2>", "a", "b"]
    assert again() == ["<>", "<2>"]
    site.pages["2"] += member("d", 6) + member("c", 5)
    assert again() == ["<>", "<2>", "c", "d"]
    site.pages["2"] += member("late", 3)
    assert again() == ["<>", "<2>", "late"], "its lateness is judged as that of any element"
    site.pages[""] += link("3", ("GreaterThan", at(5)))
    site.pages["3"] = member("d", 6) + member("a", 4) + member("e", 6)
    assert again() == ["<>", "<2>", "<3>", "a", "e"] or site.log == ["<>", "<2>", "<3>", "e"]


def test_an_end_is_where_no_page_can_change() -> None:
    site = Site({"": ROOT + "<> ldes:immutable true .\n" + member("a", 1) + link("1"), "1": member("b", 2)}, immutable={"1"})
    traversal = site.traversal()
    assert asyncio.run(traversal.run())
    assert asyncio.run(traversal.run())
    assert site.log == ["<>", "<1>", "a", "b"]


def test_a_restart_goes_on_behind_what_was_taken() -> None:
    site = Site({"": ROOT + member("a", 1) + member("c", 2) + member("b", 2) + member("d", 3)})
    first = Site(dict(site.pages))
    first.pages[""] = ROOT + member("a", 1) + member("c", 2)
    first.run()
    traversal = site.traversal()
    taken = [(key_of_text(dict(message.headers)[ORDER].decode()), (message.key or b"").decode()) for message in first.messages]
    traversal.go_on_behind(taken[-1:], ())
    asyncio.run(traversal.run())
    assert site.log == ["<>", "b", "d"]


def random_site(chance: random.Random, pages: int) -> tuple[Site, list[str]]:
    """A tree of pages with bounds that hold, in circles, with members twice and without a time; and its members in order."""
    texts = [ROOT if not number else "" for number in range(pages)]
    times: dict[str, int] = {}
    low = [0] * pages
    for number in range(1, pages):
        parent = chance.randrange(max(0, number - 5), number)
        low[number] = low[parent] + chance.randrange(3)
        kind = chance.choice(("GreaterThanOrEqualTo", "GreaterThan", "none"))
        bounds = [] if kind == "none" else [(kind, at(low[number] - (kind == "GreaterThan")))]
        texts[parent] += link(f"{number}", *bounds)
        if chance.random() < 0.2:
            texts[number] += link(f"{chance.randrange(pages)}")
    for number in range(pages):
        for _ in range(chance.randrange(4)):
            name = f"m{chance.randrange(3 * pages)}"
            if name not in times:
                times[name] = low[number] + chance.randrange(8)
                texts[number] += member(name, times[name])
                if chance.random() < 0.2:
                    texts[chance.choice([each for each in range(pages) if low[each] <= times[name]])] += member(name, times[name])
        if chance.random() < 0.05:
            texts[number] += f":s tree:member :x{number} .\n"
    site = Site({("" if not number else f"{number}"): text for number, text in enumerate(texts)})
    site.pages["0"] = site.pages[""]
    return site, sorted(times, key=lambda name: (times[name], f"http://h/#{name}"))


@pytest.mark.parametrize("seed", range(30))
def test_random_pages_give_all_members_in_order(seed: int) -> None:
    site, expected = random_site(random.Random(seed), 25)
    site.run()
    assert [name for name in site.log if name.startswith("m")] == expected
    assert len(site.log) == len(set(site.log)), "no page is read twice, and no member emitted twice"
