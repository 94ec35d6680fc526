"""Fault isolation, the same on both runtimes: an element or a rule that makes a stage fail twice is
a dead letter, and nothing else fails.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from dotr.api.session import Session
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Triple
from dotr.model.time import Clock
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark import run
from dotr.runtimes.spark.buckets.bucket_steps import bucket_context, step_bucket
from dotr.runtimes.spark.checkpoint.folder import CheckpointLayout
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.exchange.rows import SparkRow
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.exchange.worker_cache import input_of
from dotr.runtimes.spark.planning.planner import scanned_cuts
from dotr.runtimes.spark.sink import Sink
from dotr.runtimes.spark.tasks.stage_one_task import task_lines
from dotr.temporal.matching import operator
from dotr.temporal.matching.events import EnteringBinding, StoredEvent, anchor_of
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.compile import Matcher

pytestmark = [pytest.mark.core, pytest.mark.fallbacks("instant", "query", "rules")]

_RUNS = count()
"""Numbers of runs: workers cache compiled jobs by the name of the run."""

RULES = """
PREFIX : <http://e/>
rule Good define Good = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ] with Good.?x = A.?x
rule High define High = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x FILTER(?x > 1) } ]
  and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 9 s from A with High.?x = B.?y
rule Higher define Higher = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x FILTER(?x > 2) } ]
  and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 9 s from A with Higher.?x = B.?y
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    lines = [json.dumps({"time": time, "graph": f"[] :v {value} ."}) for time, value in [(1, 5), (2, 6), (2, 13), (3, 13), (4, 7)]]
    (tmp_path / "a.ndjson").write_text("\n".join(lines))
    (tmp_path / "c.yaml").write_text(
        "name: c\nprefixes: { '': 'http://e/' }\nrules: [r.dotr]\ninput: [{ name: a, format: ndjson, path: a.ndjson }]\n"
        "output: [{ path: out.ndjson }]\ndead_letter: dead.ndjson\n"
    )
    return tmp_path


def pipeline() -> Pipeline:
    return build(read_config("c.yaml"), fresh=True, on_spark=False)


def run_like_spark(prepared: Pipeline) -> tuple[list[str], list[DeadLetter], Totals]:
    """The results of Spark's workers and sink, run in this process with about one element a batch
    and two buckets.
    """
    layout = CheckpointLayout("c", "", tuple((f.input, f.delay, f.path) for f in prepared.inputs), 1, 2, 2)
    job = dataclasses.replace(run._job(prepared, layout, 2, (f"{next(_RUNS)}/query", "")), batch=2)
    fired: list[Firing] = []
    rejected: list[DeadLetter] = []

    def write(number: int, firings: Iterable[Sequence[Firing]], letters: Iterable[DeadLetter]) -> None:
        for some in firings:
            fired.extend(some)
        rejected.extend(letters)

    sink = Sink(write, lambda totals: None, lambda letter: letter, Clock())
    pages = [bucket_context(job, 0).empty_pages() for _ in job.keys(0)]
    start = Offset.start(1)
    for number, cut in enumerate(scanned_cuts([input_of(job, 0)], start, 1)):
        lines = task_lines(job, Task.of_cut(start, cut, cut.time))
        out: list[SparkRow] = [line for line in lines if line.key < 0]
        for bucket, key in enumerate(job.keys(0)):
            out += step_bucket(job, 0, bucket, pages[bucket], [line for line in lines if line.key == key])
        sink.process(number, [(line.kind, line.payload) for line in out])
        start = Offset(cut.time, cut.positions)
    return [f"{f.time // 1_000_000} {f.rule}" for f in fired], rejected, sink.totals


def run_on_both(prepared: Pipeline) -> tuple[Counter[str], list[str], Totals]:
    """Events, dead letters and totals, after a check that both runtimes have the same."""
    totals = run_local(prepared, lambda totals: None)
    events = Counter(f"{e['time']} {e['rule']}" for e in map(json.loads, Path("out.ndjson").read_text().splitlines()))
    letters = Path("dead.ndjson").read_text().splitlines()
    fired, rejected, counted = run_like_spark(prepared)
    assert Counter(fired) == events
    assert Counter((x.reason.value, x.input, Path(x.file).name, x.line, x.text, x.why) for x in rejected) == Counter(
        (x["reason"], x["input"], Path(x["file"]).name, x["line"], x["text"], x["error"]) for x in map(json.loads, letters)
    )
    assert counted == totals
    return events, letters, totals


@pytest.fixture
def hostile_closure(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Knowledge.close

    def closing(self: Knowledge, triples: Iterable[Triple]) -> Closure:
        triples = list(triples)
        if any('"13"' in value for _, _, value in triples):
            raise RecursionError("too deep")
        return close(self, triples)

    monkeypatch.setattr(Knowledge, "close", closing)


def test_element_that_cannot_be_closed_is_left_out_of_its_instant(folder: Path, hostile_closure: None) -> None:
    events, letters, totals = run_on_both(pipeline())
    assert events == {"1 Good": 1, "2 Good": 1, "2 High": 1, "2 Higher": 1, "4 Good": 1, "4 High": 1, "4 Higher": 1}
    assert [json.loads(letter)["line"] for letter in letters] == [3, 4]
    assert json.loads(letters[0]) == {
        "reason": "failed",
        "input": "a",
        "file": "a.ndjson",
        "line": 3,
        "time": 2,
        "text": '{"time": 2, "graph": "[] :v 13 ."}',
        "error": "RecursionError: too deep",
    }
    assert (totals.elements, totals.instants, totals.dead_letters) == (3, 3, {Reason.FAILED: 2})


def test_an_element_that_fails_once_is_retried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = Knowledge.close
    failed: list[bool] = []

    def closing(self: Knowledge, triples: Sequence[Triple]) -> Closure:
        if not failed:
            failed.append(True)
            raise MemoryError
        return close(self, triples)

    monkeypatch.setattr(Knowledge, "close", closing)
    prepared = pipeline()
    totals = run_local(prepared, lambda totals: None)
    assert (totals.dead_letters, totals.fallbacks) == ({}, 1)
    failed.clear()
    _, letters, totals = run_like_spark(prepared)
    assert (letters, totals.dead_letters, totals.fallbacks) == ([], {}, 1)


def fail_at_value(monkeypatch: pytest.MonkeyPatch, columns: set[str] | None) -> None:
    """Make matchers fail at the value 13: those with a constant of `columns`; None: those of all
    rules with a clause.
    """

    def compiled(*arguments: object) -> Matcher:
        matcher = compile_matcher(*arguments)  # type: ignore[arg-type]
        alike = arguments[0]
        table, steps = alike.table, alike.template.clauses  # type: ignore[attr-defined]
        mine = bool(steps) and (columns is None or any(columns & set(row) for row in table))

        def find(anchors: Iterable[StoredEvent | EnteringBinding], *rest: object) -> None:
            def watched() -> Iterator[StoredEvent | EnteringBinding]:
                for anchor in anchors:
                    yield anchor
                    if mine and any(value is not None and '"13"' in value for value in anchor_of(anchor)[2]):
                        raise ZeroDivisionError("hostile")

            matcher.find(watched(), *rest)  # type: ignore[arg-type]

        return dataclasses.replace(matcher, find=find)

    monkeypatch.setattr(operator, "compile_matcher", compiled)


def test_dead_letter_has_the_name_of_a_failed_rule_and_the_others_fire(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _, _ = run_on_both(pipeline())
    fail_at_value(monkeypatch, None)
    events, letters, totals = run_on_both(pipeline())
    failed = {"2 High", "2 Higher", "3 High", "3 Higher"}
    assert events == Counter({name: count - (name in failed) for name, count in expected.items() if count > (name in failed)})
    assert sorted((json.loads(each)["input"], json.loads(each)["line"], json.loads(each)["time"]) for each in letters) == [
        ("rule High", 4, 2),
        ("rule High", 4, 3),
        ("rule Higher", 6, 2),
        ("rule Higher", 6, 3),
    ]
    assert "rule High fails at it: ZeroDivisionError: hostile" in [json.loads(each)["error"] for each in letters]
    assert totals.dead_letters == {Reason.FAILED: 4}


def test_a_graph_that_cannot_be_closed_is_left_out_of_a_session(
    folder: Path, hostile_closure: None, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(pipeline().program)
    assert [event.rule for event in session.advance(1, "[] :v 13 .", "[] :v 5 .")] == ["Good"]
    assert session.advance(2, "[] :v 13 .") == []
    assert [record.getMessage() for record in caplog.records] == [
        "graph 1 of the instant 1 is left out, it fails: RecursionError: too deep",
        "graph 1 of the instant 2 is left out, it fails: RecursionError: too deep",
    ]
