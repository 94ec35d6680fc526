"""Rules cut into stages, in buckets of logs and pages as Spark stores them, without Spark: replicated events are in no page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.engine.state import bucket as bucket_state
from dotr.engine.state import pages as paged_state
from dotr.engine.state.pages import replicated_ports
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import Clock
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.buckets.worker import BucketCache
from dotr.runtimes.spark.exchange.rows import RowKind, encode_dead_letters, encode_totals
from dotr.runtimes.spark.sink import Sink, cut_rules
from dotr.temporal import stage_two
from dotr.temporal.matching import event_store
from dotr.temporal.matching import events as match_buffer
from tests.support.layered_batches import LayeredRun, in_layers
from tests.support.random_chains import HEADER, ChainMaker
from tests.support.running import by_time, outputs, run_engine
from tests.temporal.matching.test_cut_matchers import MOST, example, seeds


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs from three events on, pages from four on, runs that are trimmed from three on, and matches in chunks."""
    monkeypatch.setattr(bucket_state, "SMALL", 2)
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", 3)
    monkeypatch.setattr(paged_state, "PAGE_EVENTS", 1)
    monkeypatch.setattr(event_store, "TRIM", 2)
    monkeypatch.setattr(match_buffer, "FLUSH_SIZE", 3)
    monkeypatch.setattr(stage_two, "_CHUNK_SIZE", 2)


def cuts_of(maker: ChainMaker, elements: Sequence[Element]) -> list[int]:
    """The ends of batches, as numbers of instants."""
    number = len({element.time for element in elements})
    return sorted(maker.random.sample(range(1, number), min(8, number - 1)))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", seeds(8))
def test_output_is_independent_of_logs_and_pages(seed: int) -> None:
    maker, whole, cut, elements = example(seed + 2_000_000)
    if not cut.layout.stateful_operators:
        pytest.skip("no state")
    expected = list(run_engine(whole, elements, Clock(), most=MOST).outputs)
    if len(expected) > MOST:
        pytest.skip("too many outputs")
    instants = list(by_time(elements).items())
    for buckets in (1, 2, 3):
        assert outputs(in_layers(cut.spec, instants, cuts_of(maker, elements), buckets, seed)) == expected


def letter(anchor: str, clause: str) -> DeadLetter:
    why = f"rule R goes over a limit at its anchor One {anchor}: more than 5 matches of a branch, at the clause {clause}"
    return DeadLetter(Reason.LIMIT, "rule R", "r.dotr", 6, 3, "R", why)


def test_sink_writes_one_dead_letter_for_an_anchor() -> None:
    """The dead letter of the clause that is first in the rule is written and counted, whichever buckets the branches were in."""
    text = """rule R define E = [ :one :v ?v ] from A as One and each B as Two [ FILTER(?k = One.?k) ] within 9 s from One
    and each C as Three [ FILTER(?w = Two.?v) ] within 9 s from Two with E.?v = Three.?v"""
    rules = cut_rules(compile_program(ProgramSpec((Document("r.dotr", HEADER + text),), cut=True)).layout)
    assert [rule.name for rule in rules] == ["R"]
    first = [letter("{1}", "each Three"), letter("{2}", "each Three")]
    second = [letter("{1}", "each Two"), letter("{2}", "each Three"), DeadLetter(Reason.LATE, "in", "a.csv", 1, 2, "x", "late")]
    written: list[DeadLetter] = []
    sink = Sink(lambda number, firings, letters: written.extend(letters), lambda totals: None, lambda each: each, Clock(), cut_rules=rules)
    rows = [(RowKind.DEAD, encode_dead_letters(letters)) for letters in (first, second)]
    rows.append((RowKind.COUNTS, encode_totals(Totals(dead_letters={Reason.LIMIT: 4, Reason.LATE: 1}))))
    sink.process(0, rows)
    assert Counter(written) == Counter([letter("{1}", "each Two"), letter("{2}", "each Three"), second[-1]])
    assert sink.totals.dead_letters == {Reason.LIMIT: 2, Reason.LATE: 1}


REPLICATED = """rule R define E = [ :one :v ?v ] from A as One and each B as Two [ FILTER(?k = One.?k) ] within 9 s from One
and last C as Three [ FILTER(?v > 0) ] within 9 s from Two
and ?n = count(Four.?v) of D as Four within 9 s from One
with E.?v = Three.?v"""


@pytest.mark.usefixtures("small")
def test_replicated_events_are_stored_once_in_a_bucket_of_pages() -> None:
    """Each bucket has one copy of each event that passes the clause's filter, whatever the number of pages."""
    spec = ProgramSpec((Document("r.dotr", HEADER + REPLICATED),), cut=True)
    run = LayeredRun(spec, 2)
    (layer,) = run.program.layout.layers
    replicated = sorted(replicated_ports(layer))
    assert len(replicated) == 2
    maker = ChainMaker(7)
    instants = list(by_time(maker.stream(60)).items())
    most_pages = 1
    for number, (time, graphs) in enumerate(instants):
        following = instants[number + 1][0] if number + 1 < len(instants) else time + 1
        caches: list[BucketCache] = run.caches
        run.batch([(time, graphs)], following - 1)
        for bucket in range(2):
            for pages in [cache[run.job, bucket].pages for cache in caches if (run.job, bucket) in cache]:
                most_pages = max(most_pages, pages.page_count)
                stores = [pages.single.stores] if pages.page_count == 1 else [each.state.stores for each in pages._decoded.values()]
                if pages.page_count > 1:
                    assert all(not len(state[port]) for state in stores for port in replicated)
    assert most_pages > 1
