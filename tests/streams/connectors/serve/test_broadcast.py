"""Clients of a published stream in an event loop, with connections that take what a test lets them take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.streams.connectors.serve import broadcast
from dotr.streams.connectors.serve.broadcast import BEHIND, HIGH, Broadcast, Chosen, Client, Ending, Framing, Kind
from dotr.streams.connectors.serve.elements import ElementFormat
from dotr.streams.connectors.serve.kept import Keep, KeptElement, KeptElements, NewElement
from dotr.streams.sinks.batches import ServedCounts
from tests.support.patience import PATIENCE
from tests.support.properties import examples

ALL = Keep()
EVERY = Chosen()
LINES = Framing(Kind.CHUNKS, ElementFormat.NDJSON)


@pytest.fixture(autouse=True)
def patience() -> Iterator[pytest.MonkeyPatch]:
    """No client is slow but in tests whose subject it is, however busy the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broadcast, "SLOW_SECONDS", PATIENCE)
        yield patch


@pytest.fixture
def soon_slow(patience: pytest.MonkeyPatch) -> None:
    patience.setattr(broadcast, "SLOW_SECONDS", 0.05)


class Connection(asyncio.Transport):
    """A connection whose socket takes all, or nothing while `is_blocked`; `taken` is what it has taken."""

    def __init__(self) -> None:
        super().__init__()
        self.is_blocked = False
        self.taken = b""
        self.writes = 0
        self._buffer = b""
        self._free = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        self._buffer += bytes(data)
        if not self.is_blocked:
            self.unblock()

    def unblock(self) -> None:
        self.is_blocked = False
        self.taken += self._buffer
        self._buffer = b""
        self._free.set()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def is_closing(self) -> bool:
        return False

    async def drain(self) -> None:
        if len(self._buffer) > HIGH:
            self._free.clear()
            await self._free.wait()

    @property
    def numbers(self) -> list[int]:
        return [int(line) for line in self.taken.split()]


class Stream:
    """A stream whose elements are their numbers, with `size` further bytes."""

    def __init__(self, keep: Keep = ALL, size: int = 0) -> None:
        self.kept = KeptElements(keep)
        self.rendered: list[int] = []
        self.broadcast = Broadcast(self.kept, self._render, ServedCounts("http://e/"))
        self._line = b"x" * size

    def _render(self, element: KeptElement, form: ElementFormat) -> bytes:
        self.rendered.append(element.number)
        return b"%d%b" % (element.number, b" " * len(self._line))

    def publish(self, number: int) -> None:
        start = self.kept.next
        fresh = [NewElement(n, 0, "AB"[n % 2], self._line) for n in range(start, start + number)]
        self.kept.append(fresh)
        self.broadcast.publish([KeptElement(n, *each) for n, each in enumerate(fresh, start)])

    def client(self, start: int, framing: Framing = LINES, chosen: Chosen = EVERY) -> tuple[Client, Connection]:
        connection = Connection()
        client = Client(self.broadcast, framing, start, chosen)
        self.broadcast.add(client)
        client.start(connection)
        return client, connection


async def turns(number: int = 50) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def ended(client: Client, connection: Connection) -> Ending:
    return await asyncio.wait_for(client.run(connection.drain), PATIENCE)


def in_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """The test, run in an event loop."""
    return wraps(test)(lambda: asyncio.run(test()))


@pytest.mark.core
@in_loop
async def test_elements_that_come_together_are_one_write() -> None:
    stream = Stream()
    client, connection = stream.client(0)
    stream.publish(3)
    assert connection.numbers == [0, 1, 2]
    assert connection.writes == 1
    assert (client.position, client.has_caught_up) == (3, True)


@pytest.mark.core
@in_loop
async def test_kept_elements_come_before_live_ones_without_gap_or_double() -> None:
    stream = Stream()
    stream.publish(700)
    client, connection = stream.client(3)
    running = asyncio.ensure_future(ended(client, connection))
    for _ in range(20):
        stream.publish(7)
        await turns(3)
    stream.broadcast.end(Ending.END)
    assert await running is Ending.END
    assert connection.numbers == [*range(3, 840)]


@pytest.mark.core
@in_loop
async def test_a_text_is_made_once_for_all_clients_of_a_format() -> None:
    stream = Stream()
    framings = [LINES, Framing(Kind.CHUNKS, ElementFormat.NDJSON, chunked=True)]
    for number in range(20):
        stream.client(0, framings[number % 2], Chosen(frozenset("AB")) if number % 3 else Chosen())
    for _ in range(5):
        stream.publish(9)
        await turns()
    assert stream.rendered == [*range(45)]


@pytest.mark.core
@pytest.mark.usefixtures("soon_slow")
@in_loop
async def test_a_client_that_takes_nothing_is_closed_and_the_others_have_all() -> None:
    stream = Stream(size=1_000)
    blocked, closed = stream.client(0)
    closed.is_blocked = True
    client, connection = stream.client(0)
    running = asyncio.ensure_future(ended(blocked, closed))
    for _ in range(30):
        stream.publish(60)
        await asyncio.sleep(0.01)
    assert await running is Ending.SLOW
    assert stream.broadcast.counts.slow == {"stream": 1}
    assert connection.numbers == [*range(1_800)]
    assert client.ending is None
    closed.unblock()
    assert closed.numbers == [*range(len(closed.numbers))]  # it has lost nothing of what it has


@pytest.mark.core
@in_loop
async def test_one_that_is_a_thousand_behind_and_takes_them_in_time_goes_on() -> None:
    stream = Stream(size=1_000)
    client, connection = stream.client(0)
    running = asyncio.ensure_future(ended(client, connection))
    for _ in range(3):
        connection.is_blocked = True
        stream.publish(2 * BEHIND)
        await turns(5)
        assert client.position < stream.broadcast.next
        connection.unblock()
        while client.position < stream.broadcast.next:
            await asyncio.sleep(0)
    stream.broadcast.end(Ending.END)
    assert await running is Ending.END
    assert connection.numbers == [*range(6 * BEHIND)]


@pytest.mark.core
@pytest.mark.parametrize(("arriving", "found"), [(0, Ending.END), (200, Ending.SLOW)])
def test_one_that_takes_little_goes_on_as_long_as_it_comes_nearer(patience: pytest.MonkeyPatch, arriving: int, found: Ending) -> None:
    patience.setattr(broadcast, "SLOW_SECONDS", 0.3)

    async def read() -> None:
        stream = Stream(size=1_000)
        client, connection = stream.client(0)
        connection.is_blocked = True
        running = asyncio.ensure_future(ended(client, connection))
        stream.publish(3 * BEHIND)
        while not running.done() and (arriving or client.position < 3 * BEHIND):
            connection.unblock()
            connection.is_blocked = True
            await asyncio.sleep(0.02)  # the second thousand alone is longer on its way than the limit
            stream.publish(arriving)
        connection.unblock()
        stream.broadcast.end(Ending.END)
        assert await running is found
        assert connection.numbers == [*range(len(connection.numbers))]

    asyncio.run(read())


@pytest.mark.core
@pytest.mark.usefixtures("soon_slow")
@in_loop
async def test_one_that_takes_a_large_batch_as_it_can_is_not_slow() -> None:
    """The batch takes many times as long as a socket may take nothing."""
    stream = Stream(size=10)
    client, connection = stream.client(0)

    async def drain() -> None:
        await asyncio.sleep(0.002)

    running = asyncio.ensure_future(asyncio.wait_for(client.run(drain), PATIENCE))
    for end in (4 * BEHIND, 8 * BEHIND):
        stream.publish(4 * BEHIND)
        while client.position < end and client.ending is None:
            await asyncio.sleep(0)
    stream.broadcast.end(Ending.END)
    assert await running is Ending.END
    assert connection.numbers == [*range(8 * BEHIND)]


@pytest.mark.core
@pytest.mark.usefixtures("soon_slow")
@in_loop
async def test_few_elements_with_too_many_bytes_are_too_far_behind() -> None:
    stream = Stream(size=1 << 20)
    client, connection = stream.client(0)
    connection.is_blocked = True
    running = asyncio.ensure_future(ended(client, connection))
    stream.publish(4)
    await asyncio.sleep(4 * broadcast.SLOW_SECONDS)
    assert client.ending is None
    stream.publish(2)
    assert await running is Ending.SLOW
    assert connection.get_write_buffer_size() < 3 << 20


@pytest.mark.core
@in_loop
async def test_a_live_client_loses_nothing_where_little_is_kept() -> None:
    stream = Stream(Keep(elements=1))
    client, connection = stream.client(0)
    running = asyncio.ensure_future(ended(client, connection))
    for _ in range(9):
        stream.publish(240)
        await turns()
    stream.broadcast.end(Ending.END)
    assert await running is Ending.END
    assert connection.numbers == [*range(9 * 240)]


@pytest.mark.core
@in_loop
async def test_one_whose_next_element_has_left_is_closed_and_not_sent_the_rest() -> None:
    stream = Stream(Keep(elements=1))
    stream.publish(240)
    client, connection = stream.client(0)
    stream.publish(240)  # the first page leaves, of which the client has a quarter
    assert await ended(client, connection) is Ending.SLOW
    assert connection.numbers == [*range(64)]


@pytest.mark.core
@in_loop
async def test_a_hole_before_live_elements_closes_those_that_it_concerns() -> None:
    stream = Stream(Keep(elements=1))
    client, connection = stream.client(0)
    late, rest = stream.client(502)
    stream.publish(3)
    await turns()
    stream.kept.append([NewElement(n, 0, "A", b"") for n in range(3, 500)])  # which nobody announces
    stream.publish(5)
    assert await ended(client, connection) is Ending.SLOW
    assert connection.numbers == [0, 1, 2]
    await turns()
    assert rest.numbers == [502, 503, 504]
    assert late.ending is None


@pytest.mark.core
@in_loop
async def test_labels_and_times_choose_elements() -> None:
    stream = Stream()
    labelled, first = stream.client(0, chosen=Chosen(frozenset("B")))
    since, second = stream.client(0, chosen=Chosen(since=3))
    until, third = stream.client(0, chosen=Chosen(until=5))
    running = asyncio.ensure_future(ended(until, third))
    stream.publish(4)
    await turns()
    stream.publish(3)
    assert await running is Ending.END
    assert [each.numbers for each in (first, second, third)] == [[1, 3, 5], [3, 4, 5, 6], [0, 1, 2, 3, 4]]
    assert labelled.position == since.position == 7
    assert (labelled.is_choosy, since.is_choosy) == (True, False)


@pytest.mark.core
@in_loop
async def test_a_stop_ends_at_once_and_an_end_with_the_last_element() -> None:
    stream = Stream(size=1_000)
    ends = [stream.client(0) for _ in range(2)]
    for _, connection in ends:
        connection.is_blocked = True
    stream.publish(300)
    await turns()
    running = [asyncio.ensure_future(ended(*each)) for each in ends]
    ends[0][0].end(Ending.STOP, 0)
    stream.broadcast.end(Ending.END)
    assert await running[0] is Ending.STOP
    await turns()
    assert not running[1].done()
    ends[1][1].unblock()
    assert await running[1] is Ending.END
    assert ends[1][1].numbers == [*range(300)]


@pytest.mark.core
@in_loop
async def test_elements_that_no_client_lacks_are_dropped() -> None:
    stream = Stream()
    client, _ = stream.client(0)
    for _ in range(10):
        stream.publish(60)
        await turns()
    assert len(stream.broadcast._passing) <= 60
    stream.broadcast.remove(client)
    assert not stream.broadcast.has_clients
    assert not stream.broadcast._passing


@pytest.mark.core
@in_loop
async def test_an_array_has_a_comma_between_elements_alone() -> None:
    stream = Stream()
    framing = Framing(Kind.CHUNKS, ElementFormat.JSONLD)
    stream.publish(2)
    _, early = stream.client(1, framing)
    stream.publish(1)
    await turns()
    _, late = stream.client(3, framing)
    stream.publish(2)
    await turns()
    assert early.taken == b"1,\n2,\n3,\n4"
    assert late.taken == b"3,\n4"


def steps() -> st.SearchStrategy[list[tuple[int, int]]]:
    """Steps of a stream and its clients: the number of new elements, or what else happens."""
    return st.lists(st.tuples(st.sampled_from((0, 0, 1, 5, 70, 130, 700)), st.integers(0, 9)), min_size=1, max_size=30)


@pytest.mark.random
@examples(25)
@given(steps(), st.integers(1, 900), st.sampled_from((0, 300, 5_000)))
def test_a_client_has_one_piece_of_the_stream_without_a_hole(steps: list[tuple[int, int]], keep: int, size: int) -> None:
    async def run() -> None:
        stream = Stream(Keep(elements=keep), size)
        clients: list[tuple[int, Client, Connection, asyncio.Future[Ending]]] = []
        for number, what in steps:
            stream.publish(number)
            if what < 4:
                start = stream.kept.first if what == 0 else stream.kept.next if what == 1 else stream.broadcast.next
                client, connection = stream.client(start)
                clients.append((start, client, connection, asyncio.ensure_future(client.run(connection.drain))))
            for place, (_, _, connection, _) in enumerate(clients):
                if (place + what) % 3 == 0:
                    connection.is_blocked = True
                elif (place + what) % 3 == 1:
                    connection.unblock()
            await turns(what)
        stream.broadcast.end(Ending.END)
        for start, client, connection, running in clients:
            connection.unblock()
            ending = await asyncio.wait_for(running, PATIENCE)
            connection.unblock()
            assert connection.numbers == [*range(start, client.position)]
            if ending is Ending.END:
                assert client.position == max(start, stream.kept.next)
            else:
                assert ending is Ending.SLOW

    asyncio.run(run())
