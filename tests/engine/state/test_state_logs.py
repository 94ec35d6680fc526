"""State of growing buckets without Spark: cost per batch, independence of workers, pages and retries, expiry."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import dotr.runtimes.spark.run as run
from dotr.engine.state import bucket as bucket_state
from dotr.engine.state import pages as paged_state
from dotr.engine.state import segments as segment_store
from dotr.engine.state.bucket import load_bucket
from dotr.engine.state.log import Consumption, Manifest
from dotr.engine.state.pages import PagedState, decode_parts, encode_part
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.buckets.bucket_steps import bucket_context
from dotr.runtimes.spark.buckets.worker import BucketCache, process_batch
from dotr.runtimes.spark.checkpoint.folder import CheckpointLayout
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.exchange.rows import BucketSize, RowKind, SparkRow, decode_firings, decode_size
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.exchange.worker_cache import input_of
from dotr.runtimes.spark.planning.planner import scanned_cuts
from dotr.runtimes.spark.tasks.stage_one_task import task_lines
from dotr.temporal.layout.layers import Layer
from dotr.temporal.matching.events import StoredEvent
from tests.support.stored_checkpoints import RULES as TIMED

UNTIMED = """PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]

rule Jump define Jump = [ [] :at ?room ; :by ?by ] from Reading as Now
and last Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 40 s from Now
with Jump.?room = Now.?room, Jump.?by = Now.?v - Old.?v consuming Old

rule Again define Again = [ [] :again ?room ; :sum ?sum ] from Jump
and ?sum = sum(Before.?by) of Jump as Before [ FILTER(?room = Jump.?room) ] within 50 s from Jump
with Again.?room = Jump.?room, Again.?sum = ?sum

rule Pair define Pair = [ [] :one ?one ; :other ?other ] from Jump
and each Jump as Earlier [ FILTER(?by = Jump.?by) ] within 20 s from Jump
with Pair.?one = Jump.?room, Pair.?other = Earlier.?room
"""

AGAIN = """PREFIX : <http://e/>
define Again = [ [] :of ?key ; :rose ?rose ] from Reading = [ SELECT ?key ?v WHERE { ?key :value ?v } ]
and last Old = [ SELECT ?key ?v WHERE { ?key :value ?v FILTER(?key = Reading.?key) } ] within 1 h from Reading
with Again.?key = Reading.?key, Again.?rose = Reading.?v - Old.?v
"""


class StoreInMemory:
    """A bucket's entries in memory, with counts of reads and writes."""

    def __init__(self) -> None:
        self.stored: tuple[bytes, bytes] | None = None
        self.entries: dict[tuple[int, int], bytes] = {}
        self.reads = self.writes = self.bytes = 0

    def value(self) -> tuple[bytes, bytes] | None:
        return self.stored

    def set_value(self, digest: bytes, written: bytes) -> None:
        self.stored = digest, written
        self.writes += 1
        self.bytes += len(written)

    def read(self, log: int, place: int) -> bytes | None:
        self.reads += 1
        return self.entries.get((log, place))

    def write(self, log: int, place: int, lines: bytes) -> None:
        self.entries[log, place] = lines
        self.writes += 1
        self.bytes += len(lines)

    def remove(self, log: int, place: int) -> None:
        del self.entries[log, place]
        self.writes += 1


class SimulatedRun:
    """A pipeline batch by batch, as Spark runs it: each bucket in a random worker, batches replayed at
    random, or always (`twice`)."""

    def __init__(
        self, prepared: Pipeline, batch: int, *, workers: int = 1, seed: int = 0, decoded: int = 1 << 60, twice: bool = False
    ) -> None:
        buckets = 2
        layers = max(1, len(prepared.program.layout.layers))
        layout = CheckpointLayout("c", "", tuple((f.input, f.delay, f.path) for f in prepared.inputs), layers, buckets, buckets)
        self.job: Job = dataclasses.replace(run._job(prepared, layout, 1, (f"{next(_RUNS)}/query", "")), batch=batch)
        self.stores = [[StoreInMemory() for _ in range(buckets)] for _ in range(layers)]
        self.workers: list[BucketCache] = [{} for _ in range(workers)]
        self.fired: list[str] = []
        self.sizes: dict[tuple[int, int], BucketSize] = {}
        self._random = random.Random(seed)
        self._decoded = decoded
        self._twice = twice

    def batches(self) -> Iterator[int]:
        """Runs the whole input; yields the number of each finished batch."""
        start = Offset.start(len(self.job.inputs))
        for number, cut in enumerate(
            scanned_cuts([input_of(self.job, each) for each in range(len(self.job.inputs))], start, self.job.batch), 1
        ):
            lines = task_lines(self.job, Task.of_cut(start, cut, cut.time))
            for layer, stores in enumerate(self.stores):
                for bucket, store in enumerate(stores):
                    lines += self._bucket(layer, bucket, store, lines)
            for line in lines:
                if line.kind == RowKind.FIRINGS:
                    self.fired += [f"{f.time} {f.rule} {sorted(dict(f.attributes).items())}" for f in decode_firings(line.payload)]
                elif line.kind == RowKind.STATE:
                    size = decode_size(line.payload)
                    self.sizes[size.layer, size.bucket] = size
            start = Offset(cut.time, cut.positions)
            yield number

    def _bucket(self, layer: int, bucket: int, store: StoreInMemory, lines: list[SparkRow]) -> list[SparkRow]:
        key = self.job.keys(layer)[bucket]
        own = [line for line in lines if line.key == key]
        self._random.shuffle(own)
        if self._twice or (len(self.workers) > 1 and self._random.random() < 0.1):  # the task fails at its end
            stored, entries = store.stored, dict(store.entries)
            process_batch(self.job, layer, bucket, own, store, self._random.choice(self.workers), self._decoded)
            store.stored, store.entries = stored, entries
        if len(self.workers) > 1 and self._random.random() < 0.05:
            self._random.choice(self.workers).clear()
        return process_batch(self.job, layer, bucket, own, store, self._random.choice(self.workers), self._decoded)

    @property
    def all_stores(self) -> list[StoreInMemory]:
        return [store for stores in self.stores for store in stores]


_RUNS = itertools.count()


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (bucket_state, "SMALL", 8),
        (paged_state, "MAX_UNPAGED", 12),
        (paged_state, "PAGE_EVENTS", 1),
        (paged_state, "_LOAD_EVENTS", 7),
        (segment_store, "RECENT_BATCHES", 2),
        (segment_store, "MAX_SEGMENT_BYTES", 600),
        (segment_store, "SEGMENT_EVENTS", 3),
    ):
        monkeypatch.setattr(module, name, value)


def prepared(folder: Path, rules: str, elements: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.chdir(folder)
    Path("r.dotr").write_text(rules)
    Path("in.ndjson").write_text("".join(json.dumps({"time": time, "graph": graph}) + "\n" for time, graph in elements))
    Path("c.yaml").write_text(
        'name: c\nprefixes: { "": "http://e/" }\nrules: [r.dotr]\ninput: [{ name: a, format: ndjson, path: in.ndjson }]\n'
        "output: [{ path: out.ndjson }]\n"
    )
    return build(read_config("c.yaml"), fresh=True, on_spark=False)


def run_locally(made: Pipeline) -> list[str]:
    run_local(made, lambda totals: None)
    events = map(json.loads, Path("out.ndjson").read_text().splitlines())
    return sorted(f"{event['time']}000000 {event['rule']} {sorted(event['attributes'].items())}" for event in events)


def readings(seed: int, many: int) -> list[tuple[int, str]]:
    chosen = random.Random(seed)
    times = sorted(chosen.randrange(many) for _ in range(many))
    return [(time, f"[] :room :r{chosen.randrange(40)} ; :value {chosen.randrange(9)} .") for time in times]


@pytest.mark.usefixtures("_tiny")
@pytest.mark.parametrize("rules", [UNTIMED, TIMED], ids=["untimed", "timed"])
@pytest.mark.parametrize("seed", range(6))
def test_output_is_independent_of_workers_pages_and_retries(rules: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared(tmp_path, rules, readings(seed, 400), monkeypatch)
    expected = run_locally(made)
    assert len(expected) > 100
    simulated = SimulatedRun(made, (5, 11, 40)[seed % 3], workers=3, seed=seed, decoded=(0, 12, 1 << 60)[seed // 2])
    paged = logged = 0
    for _ in simulated.batches():
        loaded = [each for live in simulated.workers for each in live.values()]
        paged += any(each.pages.page_count > 1 for each in loaded)
        logged += any(each.manifest is not None for each in loaded)
    assert sorted(simulated.fired) == expected
    assert logged > 5
    assert (paged > 3) == (rules is UNTIMED)


ASKED = """PREFIX : <http://e/>
define Answer = [ [] :at ?room ; :was ?was ; :times ?times ] from Asked = [ SELECT ?room WHERE { ?a :ask ?room } ]
and last Old = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v FILTER(?room = Asked.?room) } ] within 40 s from Asked
and ?times = count(*) of Some = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v FILTER(?room = Asked.?room) } ] within 20 s from Asked
with Answer.?room = Asked.?room, Answer.?was = Old.?v, Answer.?times = ?times
"""


@pytest.mark.usefixtures("_tiny")
@pytest.mark.parametrize("alone", [12, 1 << 20], ids=["pages", "one page"])
def test_batch_without_additions_is_replayed_by_the_same_worker(alone: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings, then anchors that store nothing: events that expire in a batch of anchors are needed when it is replayed."""
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", alone)
    chosen = random.Random(1)
    anchors = [(200 + number // 4, f"[] :ask :r{chosen.randrange(40)} .") for number in range(160)]
    made = prepared(tmp_path, ASKED, readings(1, 200) + anchors, monkeypatch)
    expected = run_locally(made)
    assert len(expected) > 30
    simulated = SimulatedRun(made, 20, twice=True)
    for _ in simulated.batches():
        pass
    assert sorted(simulated.fired) == expected


@pytest.mark.usefixtures("_tiny")
@pytest.mark.parametrize("rules", [UNTIMED, TIMED], ids=["untimed", "timed"])
def test_every_batch_is_replayed_by_the_same_worker(rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared(tmp_path, rules, readings(7, 400), monkeypatch)
    expected = run_locally(made)
    simulated = SimulatedRun(made, 11, twice=True)
    for _ in simulated.batches():
        pass
    assert sorted(simulated.fired) == expected


def manifests(simulated: SimulatedRun) -> list[Manifest]:
    return [head for store in simulated.all_stores if store.stored and (head := Manifest.decode(store.stored[1]))]


def written_by_a_batch(folder: Path, live: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Mean entries written, bytes written and entries read per batch, over 60 batches that touch 200 of
    `live` keys. Batches that merge segments write much more than others."""
    folder.mkdir()
    chosen = random.Random(live)
    touched = [f":k{key} :value 1 ." for key in chosen.sample(range(live), 200)]
    elements = [(number // 50, f":k{number} :value 1 .") for number in range(live)]
    elements += [(live // 50 + number // 50, graph) for number, graph in enumerate(touched * 62)]
    simulated = SimulatedRun(prepared(folder, AGAIN, elements, monkeypatch), 200)
    found: list[tuple[int, int, int]] = []
    for _ in simulated.batches():
        stores = simulated.all_stores
        found.append(tuple(sum(getattr(store, name) for store in stores) for name in ("writes", "bytes", "reads")))
    first, last = found[-61], found[-1]
    assert sum(sum(size.event_counts) for size in simulated.sizes.values()) == 0
    writes, size, reads = ((b - a) // 60 for a, b in zip(first, last, strict=True))
    return writes, size, reads


def test_writes_of_a_batch_depend_on_touched_keys_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_state, "SMALL", 100)
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", 1_000)
    few = written_by_a_batch(tmp_path / "few", 1_000, monkeypatch)
    many = written_by_a_batch(tmp_path / "many", 30_000, monkeypatch)
    for before, after in zip(few, many, strict=True):
        assert after <= 3 * before


def test_batch_decodes_only_touched_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", 1_000)
    elements = [(number // 50, f":k{number} :value 1 .") for number in range(20_000)]
    elements += [(400 + number, f":k{number} :value 2 .") for number in range(400)]
    simulated = SimulatedRun(prepared(tmp_path, AGAIN, elements, monkeypatch), 100, decoded=2_000)
    loaded: list[int] = []
    load = PagedState._load_page

    def counted(self: PagedState, page: int) -> object:
        loaded.append(page)
        return load(self, page)

    monkeypatch.setattr(PagedState, "_load_page", counted)
    for number in simulated.batches():
        decoded = sum(each.pages.decoded_events for each in simulated.workers[0].values())
        assert decoded <= 2_000 + 400
        if number > 200:
            assert len(loaded) <= 100
        loaded.clear()
    assert len(simulated.fired) == 400


def test_state_of_idle_keys_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of idle keys are removed once the window has passed."""
    monkeypatch.setattr(bucket_state, "SMALL", 100)
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", 1_000)
    elements = [(number // 10, f":k{number} :value 1 .") for number in range(8_000)]
    elements += [(5_000 + number, ":late :value 1 .") for number in range(40)]
    simulated = SimulatedRun(prepared(tmp_path, AGAIN, elements, monkeypatch), 10)
    most = 0
    for number in simulated.batches():
        loaded = list(simulated.workers[0].values())
        most = max(most, sum(sum(each.pages.event_counts) for each in loaded))
        if number == 803:
            assert sum(sum(each.pages.event_counts) for each in loaded) <= 40
            assert (
                sum(len(store.stored[1]) + sum(map(len, store.entries.values())) for store in simulated.all_stores if store.stored) < 6_000
            )
    assert most == 8_000


def test_segments_stay_few_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_state, "SMALL", 10)
    elements = [(number * 10, f":k{number % 50} :value 1 .") for number in range(6_000)]  # 360 of them in an hour
    simulated = SimulatedRun(prepared(tmp_path, AGAIN, elements, monkeypatch), 4)
    for number in simulated.batches():
        if number > 500 and (there := manifests(simulated)):
            assert max(len(head.segments) for head in there) < 30
            assert max(sum(piece.size for piece in head.segments) for head in there) < 3 * 180 * 100


def event_counts(pages: PagedState, layer: Layer) -> list[int]:
    """Unexpired events of each port, in decoded pages and in spilled texts."""
    found = [0] * len(layer.ports)
    for page in range(pages.page_count):
        if page in pages._decoded:
            some = pages._decoded[page].state.event_counts
        else:
            texts = pages._spilled.read(page)
            closed = max((closed for closed, _ in texts), default=0)
            events, _ = decode_parts([body for _, body in texts])
            times = [[event[0] for event in events.get(port, ())] for port in range(len(found))]
            some = [sum(time > closed - (retention or 0) for time in each) for each, retention in zip(times, layer.retention, strict=True)]
        found = [a + b for a, b in zip(found, some, strict=True)]
    return found


def contents(pages: PagedState, layer: Layer, closed: int) -> list[tuple[list[StoredEvent], list[list[tuple[int, int]]]]]:
    """Unexpired events of each page by port, and the consumed ones of each set."""
    found = []
    for page in range(pages.page_count):
        each = pages._decoded.get(page) or pages._decode(page, 0)
        ports = [[event for event in store.log if event[0] > closed - store.retention] for store in each.state.stores]
        sets = zip(layer.consumed_ports, each.state.consumed, strict=True)
        consumed = [sorted(event[:2] for event in ports[port] if event[:2] in pairs) for port, pairs in sets]
        found.append(([event for events in ports for event in events], consumed))
    return found


@pytest.mark.usefixtures("_tiny")
@pytest.mark.parametrize("seed", range(4))
def test_spilled_texts_equal_the_logs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spilled texts of a worker, which are appended to and merged, have the events of the store; event counts agree."""
    monkeypatch.setattr(paged_state, "MAX_TEXTS", (2, 8)[seed % 2])
    made = prepared(tmp_path, UNTIMED, readings(seed, 600), monkeypatch)
    simulated = SimulatedRun(made, 11, workers=2, seed=seed, decoded=(24, 60)[seed // 2])
    compared = consumed = joined = 0
    for _ in simulated.batches():
        for live in simulated.workers:
            for (_, number), loaded in live.items():
                pages = loaded.pages
                if pages.page_count == 1 or loaded.manifest is None:
                    continue
                layer, bucket = divmod(number, 2)
                place, store = bucket_context(simulated.job, layer), simulated.stores[layer][bucket]
                assert pages.event_counts == event_counts(pages, place.layer)
                assert pages.decoded_events == sum(len(each.state) for each in pages._decoded.values())
                joined += sum(each.text_count == 1 and each.text_events > 2 for each in pages._decoded.values())
                if store.stored and store.stored[0] == loaded.digest:
                    closed = loaded.manifest.closed
                    found = contents(pages, place.layer, closed)
                    assert found == contents(load_bucket(place, *store.stored, store, None).pages, place.layer, closed)
                    compared += 1
                    consumed += any(any(sets) for _, sets in found)
    assert compared > 20
    assert consumed > 10
    assert joined > 5
    assert sorted(simulated.fired) == run_locally(made)


def test_page_writes_only_additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are written in proportion to their additions, and the texts of a page stay few. With a number, `last` keeps
    whole windows."""
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", 1_000)
    elements = [(number // 10, f":k{number % 500} :value {number} .") for number in range(30_000)]
    simulated = SimulatedRun(prepared(tmp_path, AGAIN.replace("and last ", "and last 1 "), elements, monkeypatch), 500, decoded=4_000)
    events: list[int] = []

    def counted(some: Mapping[int, Sequence[StoredEvent]], pairs: Sequence[Consumption]) -> bytes:
        events.append(sum(map(len, some.values())))
        return encode_part(some, pairs)

    monkeypatch.setattr(paged_state, "encode_part", counted)
    for number in simulated.batches():
        if number == 20:
            events.clear()
        paged = [each.pages for each in simulated.workers[0].values() if each.pages.page_count > 1]
        assert max((len(each._spilled.read(page)) for each in paged for page in range(each.page_count)), default=0) <= paged_state.MAX_TEXTS
    assert 500 * 40 < sum(events) <= 500 * 40 * (1 + 60 / paged_state.MAX_TEXTS)


def test_expired_texts_of_untouched_pages_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that only applies other workers' additions expires old events in its pages."""
    monkeypatch.setattr(bucket_state, "SMALL", 10)
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", 100)
    monkeypatch.setattr(paged_state, "PAGE_EVENTS", 4)
    elements = [(number * 10, f":k{number % 320} :value 1 .") for number in range(6_000)]  # 360 of them in an hour
    simulated = SimulatedRun(prepared(tmp_path, AGAIN, elements, monkeypatch), 4, decoded=60)
    (chosen,) = simulated.workers
    other: BucketCache = {}
    for number in simulated.batches():
        simulated.workers = [other if number % 8 else chosen]
        if number > 500 and number % 8 == 0:
            for each in chosen.values():
                assert each.pages.page_count > 1
                assert each.pages.decoded_events < 60
                assert sum(each.pages.event_counts) <= 2.2 * 200
