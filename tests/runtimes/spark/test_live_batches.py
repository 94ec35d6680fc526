"""Batches over growing inputs without Spark: planned, replayed from their offsets, and compared
with semantics.md, section 6."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.files.stores import Location
from dotr.model.stream import DeadLetter, Element
from dotr.model.time import LAST_MICRO
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, Cut, InputPosition, Offset
from dotr.runtimes.spark.exchange.task import InputRange, Task
from dotr.runtimes.spark.planning.planner import ScannedInput, ScannedPlan
from dotr.runtimes.spark.tasks.inputs import admit
from dotr.streams.formats.segments import SPOOL_END, Segments
from dotr.streams.lateness import Lateness
from dotr.streams.merge.bounded import RecordSource, in_time_order
from dotr.streams.merge.feeds import FeedRecords, FilesFeed, InputPoint, OneFile
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.merge.journal import NAME, Journal
from dotr.streams.merge.live import Heartbeats
from dotr.streams.merge.paces import NoRateLimit
from dotr.streams.records import Format, InputFile, Record
from tests.oracle.arrivals import Beats, Ends, Input, Outcome, Step, outcome
from tests.support.scripts import ScriptedFeed, Stopped, World, record_of, worlds

Batch = tuple[Offset, list[Cut]]


def planned(world: World, inputs: Sequence[Input], start: Offset, size: int, tasks: int) -> ScannedPlan:
    scanned = []
    for feed, spec, place in zip(world.feeds, inputs, start.positions, strict=True):
        feed.place = place.file * feed.length + place.offset
        idle = None if spec.idle is None else int(spec.idle * 1_000_000)
        scanned.append(
            ScannedInput.starting_at(
                place, feed, spec.delay, single=spec.single, apart=spec.apart, idle=idle, pace=NoRateLimit(), bounded=False
            )
        )
    return ScannedPlan(scanned, start, size, tasks, world.clock, ScriptedHeartbeats(world))


class ScriptedHeartbeats(Heartbeats):
    """The heartbeats of a script; what waits unread holds them back. Something is due at those of even times."""

    def __init__(self, world: World) -> None:
        super().__init__(0, due=lambda: None if world.heartbeat % 2 else world.heartbeat)
        self._world = world

    def bound(self, channels: object) -> int:
        return self._world.heartbeat if all(feed.place == len(feed.times) for feed in self._world.feeds) else -LAST_MICRO

    def is_wanted(self, at: int, first_open: int | None, channels: object) -> bool:
        return at > self.last


def paths(number: int, first: int, last: int) -> tuple[FoundFile, ...]:
    return tuple(FoundFile(f"{number}/{each}") for each in range(first, last + 1))


def files(feed: ScriptedFeed, input_range: InputRange) -> Iterator[tuple[int, InputFile, Iterator[Record]]]:
    for number, _ in enumerate(input_range.paths, input_range.file):
        first = number * feed.length + (input_range.offset if number == input_range.file else 0)
        last = (
            number * feed.length + input_range.stop
            if number == input_range.stop_file and input_range.stop != END
            else (number + 1) * feed.length
        )
        places = range(first, min(last, len(feed.times)))
        yield number, feed.spec, iter([record_of(place, feed.times[place], feed.length) for place in places])


def read(world: World, start: Offset, cuts: Sequence[Cut]) -> tuple[list[tuple[int, tuple[int, int]]], list[tuple[int, int, str]]]:
    """The elements of a batch's tasks as (time, (input, position)), and the dead letters."""
    found: list[tuple[int, tuple[int, int]]] = []
    rejected: list[tuple[int, int, str]] = []
    for cut in cuts:
        task = Task.of_json(Task.of_cut(start, cut, cuts[-1].time, paths).to_json())
        start = Offset.of_json(Offset(cut.time, cut.positions).to_json())
        for input_range in task.ranges:
            elements: list[Element] = []
            dead: list[DeadLetter] = []
            admit(files(world.feeds[input_range.input], input_range), input_range, task.after, task.until, elements, dead)
            found += [(e.time, (input_range.input, int(e.triples[0][0].strip("<x:>")))) for e in elements]
            rejected += [(input_range.input, int(letter.text), letter.reason.value) for letter in dead]
    return sorted(found), sorted(rejected)


def on_spark(inputs: list[Input], script: list[Step], size: int, tasks: int, *, restarting: bool) -> Outcome:
    world = World(inputs, script)
    plan = planned(world, inputs, Offset.start(len(inputs)), size, tasks)
    closed: dict[int, list[tuple[int, int]]] = {}
    dead: list[tuple[int, int, str]] = []

    def batches() -> None:
        nonlocal plan
        while True:
            while plan.scan():
                pass
            start = plan.offset
            cuts = plan.cuts()
            if not cuts:
                return
            found, rejected = read(world, start, cuts)
            where = [feed.place for feed in world.feeds]
            again = planned(world, inputs, start, size, tasks).replan(plan.offset)
            assert read(world, start, [again]) == (found, rejected)
            assert sum(cut.elements for cut in cuts) == len(found)
            for time, element in found:
                closed.setdefault(time, []).append(element)
            dead.extend(rejected)
            if restarting:
                plan = planned(world, inputs, Offset.of_json(plan.offset.to_json()), size, tasks)
            else:
                for feed, place in zip(world.feeds, where, strict=True):
                    feed.place = place

    for _ in range(len(script) + 1):
        batches()
        try:
            world.go_on()
        except Stopped:
            break
    assert list(closed) == sorted(closed)
    return Outcome([(time, sorted(elements)) for time, elements in closed.items()], sorted(dead))


@st.composite
def worlds_with_heartbeats(draw: st.DrawFn) -> tuple[list[Input], list[Step]]:
    """Worlds as those of `worlds`, with ascending heartbeats among the steps."""
    inputs, script = draw(worlds())
    beats = sorted(draw(st.sets(st.integers(0, 14), max_size=4)))
    places = sorted(draw(st.lists(st.integers(0, len(script)), min_size=len(beats), max_size=len(beats))))
    for number, (time, place) in enumerate(zip(beats, places, strict=True)):
        script.insert(place + number, Beats(time))
    return inputs, script


@given(worlds() | worlds_with_heartbeats(), st.integers(1, 5), st.integers(1, 3), st.booleans())
@settings(max_examples=90, deadline=None)
def test_live_batches_agree_with_the_specification(world: tuple[list[Input], list[Step]], size: int, tasks: int, restarting: bool) -> None:
    inputs, script = world
    if restarting:
        inputs = [replace(each, idle=None) for each in inputs]
    expected = outcome(inputs, script)
    found = on_spark(inputs, script, size, tasks, restarting=restarting)
    assert found.instants == expected.instants
    # A dead letter is reported when the position of its input passes it: one behind an element that is still open is reported later.
    assert set(found.dead) <= set(expected.dead)
    assert len(found.dead) == len(set(found.dead))
    if all(Ends(number) in script for number in range(len(inputs))):
        assert found.dead == expected.dead


def test_long_element_counts_several_times(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text("".join(json.dumps({"time": at, "graph": "#" * 4_700}) + "\n" for at in range(60)))
    feed = FilesFeed(OneFile(InputFile("a", str(tmp_path / "a.ndjson"), Format.NDJSON)), elements=False)
    start = Offset.start(1)
    scanned = ScannedInput.starting_at(start.positions[0], feed, 0, single=False, idle=None, pace=NoRateLimit(), bounded=False)
    growing = ScannedPlan([scanned], start, 200, 2)
    while growing.scan():
        pass
    batches = []
    while cuts := growing.cuts():
        batches.append([cut.time // 1_000_000 for cut in cuts])
    assert batches == [[9, 19], [29, 39], [49, LAST_MICRO // 1_000_000]]


def test_points_order_by_file_and_offset() -> None:
    assert InputPoint(0, 5, 1) < InputPoint(1, 0, 1)


def test_journal_keeps_appeared_files_and_drops_removed_ones(tmp_path: Path) -> None:
    journal = Journal(Location(str(tmp_path)), {})
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    a, b, c, d = (FoundFile.at(str(tmp_path / name)) for name in "abcd")
    journal.add("x", [a, b])
    journal.add("x", [c])
    (tmp_path / NAME).write_text((tmp_path / NAME).read_text() + '["x", 3, "cut o')
    again = Journal(Location(str(tmp_path)), {"x": 2})
    assert (again.files, again.next) == (journal.files, {"x": 3})
    again.add("x", [d])
    for name in ("a", "b", "c"):
        (tmp_path / name).unlink()
    last = Journal(Location(str(tmp_path)), {"x": 2})  # c is not read to its end: a reader will report that it is missing
    assert (last.files, last.next) == ({"x": {2: c, 3: d}}, {"x": 4})
    assert len((tmp_path / NAME).read_text().splitlines()) == 2


def test_segments_of_standard_input_have_line_numbers(tmp_path: Path) -> None:
    spooled = Segments(InputFile("x", "-", Format.NDJSON), tmp_path, framed=False)
    assert spooled.file(0) is None
    (tmp_path / "000000000000-000000000001.ndjson").touch()
    assert spooled.paths(0, 0) == (str(tmp_path / "000000000000-000000000001.ndjson"),)
    states = [spooled.closed]
    (tmp_path / SPOOL_END).touch()
    assert spooled.file(1) is None
    assert [*states, spooled.closed] == [False, True]
    spooled.remove(1)
    assert [path.name for path in tmp_path.iterdir()] == [SPOOL_END]


def test_full_plan_scans_the_inputs_that_it_waits_for(tmp_path: Path) -> None:
    """An input that starts late is scanned whatever the number of pending elements of the others, until these can close."""
    scanned = []
    for name, times in (("a", range(1, 50)), ("b", range(1, 4))):
        file = InputFile(name, str(tmp_path / name), Format.NDJSON)
        Path(file.path).write_text("".join(json.dumps({"time": at, "graph": ""}) + "\n" for at in times))
        feed = FilesFeed(OneFile(file), elements=False)
        position = Offset.start(1).positions[0]
        scanned.append(ScannedInput.starting_at(position, feed, 0, single=False, idle=None, pace=NoRateLimit(), bounded=False))
    first, second = scanned
    first.scan(20, 0, -LAST_MICRO)
    plan = ScannedPlan(scanned, Offset.start(2), 5, 2)
    assert plan.scan(full=True)
    assert (len(first.pending), len(second.pending)) == (20, 3)
    assert not plan.scan(full=True), "three instants can close"
    assert plan.cuts()
    for each in scanned:
        each.channel.feed.close()


class MessageFeed:
    """A partition without an end, whose messages have several records of one offset."""

    ended = False

    def __init__(self, spec: InputFile, messages: Sequence[Sequence[int]], place: int) -> None:
        self._spec, self._messages, self._place = spec, messages, place

    @property
    def end(self) -> InputPoint:
        return InputPoint(0, self._place, self._place)

    def read(self, most: int) -> FeedRecords | None:
        upto = min(len(self._messages), self._place + most)
        places, self._place = range(self._place, upto), upto
        return FeedRecords(0, self._spec, records_of_messages(self._messages, places)) if places else None

    def close(self) -> None:
        """Does nothing: a feed of lists has no resources."""


def records_of_messages(messages: Sequence[Sequence[int]], places: Iterable[int]) -> list[Record]:
    return [
        Record(place, place + 1, place, time, Element(time, ((f"<x:{place}-{number}>", "<x:>", "<x:>"),)), f"{place}-{number}".encode())
        for place in places
        for number, time in enumerate(messages[place])
    ]


@given(
    st.lists(st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 5]), st.booleans()), min_size=1, max_size=4), max_size=8),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_batches_that_end_amid_a_message(steps: list[list[tuple[int, bool]]], size: int, tasks: int, apart: bool, restarting: bool) -> None:
    latest, messages = 0, []
    for message in [*steps, [(100, False)]]:
        times = []
        for step, is_late in message:
            latest += step
            times.append(latest - 3 * is_late)
        messages.append(times)
    spec = InputFile("0", "k", Format.NDJSON, apart=apart)
    rejected: list[DeadLetter] = []
    lateness = Lateness.of(spec)
    source = RecordSource(spec, iter(records_of_messages(messages, range(len(messages)))), lateness)
    expected = [(element.time, element.triples) for element in in_time_order(source, rejected.append)][:-1]

    def plan_from(start: Offset) -> ScannedPlan:
        (place,) = start.positions
        feed = MessageFeed(spec, messages, place.offset)
        scanned = ScannedInput.starting_at(place, feed, 0, single=False, apart=apart, idle=None, pace=NoRateLimit(), bounded=False)
        return ScannedPlan([scanned], start, size, tasks)

    start = Offset(BEGINNING, (InputPosition(0, 0, BEGINNING),))
    plan = plan_from(start)
    elements: list[Element] = []
    dead: list[DeadLetter] = []
    while True:
        while plan.scan():
            pass
        cuts = plan.cuts()
        if not cuts:
            break
        for cut in cuts:
            for each in Task.of_cut(start, cut, cut.time).ranges:
                records = records_of_messages(messages, range(each.offset, len(messages) if each.stop == END else each.stop))
                admit(iter([(0, spec, iter(records))]), each, start.time, cut.time, elements, dead)
            start = Offset.of_json(Offset(cut.time, cut.positions).to_json())
        if restarting:
            plan = plan_from(start)
    assert [(element.time, element.triples) for element in elements] == expected
    assert sorted(letter.text for letter in dead) == sorted(letter.text for letter in rejected)
