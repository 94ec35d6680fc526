"""Fallbacks are visible: an unexpected one fails a test; a run counts it, warns once, and
continues."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from dotr import Program
from dotr.commands import main
from dotr.errors import fallbacks
from dotr.errors.fallbacks import ExpectedError, FallbackKind, record_fallback, reraise_in_tests
from dotr.instant import stage_one
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.queries import JoinGroup, QueryPlan, join_groups, plan
from dotr.model.time import Clock
from dotr.runtimes.monitoring.display import json_report
from dotr.runtimes.monitoring.progress import LatestFigures
from dotr.runtimes.monitoring.prometheus import exposition
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.exchange.rows import RowKind as Row
from dotr.runtimes.spark.exchange.rows import fallback_rows
from dotr.runtimes.spark.sink import Sink
from dotr.temporal.matching import operator
from dotr.temporal.matching.events import EnteringBinding, StoredEvent
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.compile import Matcher
from dotr.temporal.stage_two import StageTwo
from tests.conftest import Project
from tests.support.paths import ROOT

LINES = "".join(f'{{"time": {time}, "graph": ":a{time} a :A ; :v {time} ."}}\n' for time in range(1, 6))

Break = Callable[[pytest.MonkeyPatch], None]


def _once(wrapped: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """A function that raises an error at its first call."""
    errors = [error]

    def call(*arguments: object) -> Any:
        if errors:
            raise errors.pop()
        return wrapped(*arguments)

    return call


def together(patch: pytest.MonkeyPatch) -> None:
    """Every generated join of several queries fails."""

    def fails(*_: object) -> None:
        raise KeyError("x")

    def broken(*arguments: object) -> Iterator[JoinGroup]:
        for unit in join_groups(*arguments):  # type: ignore[arg-type]
            unit.evaluate_uncounted = unit.evaluate = fails
            yield unit

    patch.setattr(stage_one, "join_groups", broken)


def query(patch: pytest.MonkeyPatch) -> None:
    """A plan outside join groups fails once."""

    def broken(*arguments: object) -> QueryPlan:
        found = plan(*arguments)  # type: ignore[arg-type]
        return dataclasses.replace(found, answers=_once(found.answers, ValueError("once")), delta_queries=None)

    patch.setattr(stage_one, "plan", broken)


def instant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Knowledge, "close", _once(Knowledge.close, RecursionError("once")))


def rules(patch: pytest.MonkeyPatch) -> None:
    """A matcher fails once."""
    failed: list[bool] = []

    def compiled(*arguments: object) -> Matcher:
        matcher = compile_matcher(*arguments)  # type: ignore[arg-type]

        def find(anchors: Iterable[StoredEvent | EnteringBinding], *rest: object) -> None:
            def watched() -> Iterator[StoredEvent | EnteringBinding]:
                for anchor in anchors:
                    if not failed:
                        failed.append(True)
                        raise ZeroDivisionError("once")
                    yield anchor

            matcher.find(watched(), *rest)  # type: ignore[arg-type]

        return dataclasses.replace(matcher, find=find)

    patch.setattr(operator, "compile_matcher", compiled)


def graphs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StageTwo, "_write", _once(StageTwo._write, AttributeError("once")))


BREAKS = {
    FallbackKind.TOGETHER: together,
    FallbackKind.QUERY: query,
    FallbackKind.INSTANT: instant,
    FallbackKind.RULES: rules,
    FallbackKind.GRAPHS: graphs,
}


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.fallbacks
def test_fallback_gives_the_same_output_and_is_counted_and_reported_once(
    project: Project, kind: FallbackKind, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("a.ndjson", LINES)
    project.dotr("run", "c.yaml")
    whole = project.read("out.ndjson")
    assert len(whole.splitlines()) == 5
    BREAKS[kind](monkeypatch)
    assert main(["run", "c.yaml", "--fresh", "--progress", "json"]) == 0
    err = capsys.readouterr().err
    assert project.read("out.ndjson") == whole
    assert project.read("dead.ndjson") == ""
    messages = [json.loads(line)["message"] for line in err.splitlines() if '"level"' in line]
    assert [message.partition(":")[0] for message in messages] == ["C401 warning"]
    assert kind.value in messages[0]
    assert ".py:" in messages[0]
    assert json.loads(err.splitlines()[-1])["fallbacks"] == (5 if kind is FallbackKind.TOGETHER else 1)


@pytest.mark.parametrize("kind", BREAKS)
def test_unexpected_fallback_fails_a_test(project: Project, kind: FallbackKind, monkeypatch: pytest.MonkeyPatch) -> None:
    BREAKS[kind](monkeypatch)
    assert main(["run", "c.yaml"]) == 1
    assert [each.partition(":")[0] for each in fallbacks.reraised] == [kind.name] + [FallbackKind.INSTANT.name] * (kind in EARLIER)
    fallbacks.reraised.clear()


EARLIER = (FallbackKind.TOGETHER, FallbackKind.QUERY)
"""Kinds whose errors are caught once more, by the fallback of the instant."""


def test_subprocess_of_a_test_raises_on_fallback(project: Project) -> None:
    project.write(
        "broken.py",
        "import sys\nfrom dotr.commands import main\nfrom dotr.instant.datalog.background.knowledge import Knowledge\n"
        "def close(*a):\n    Knowledge.close = whole\n    raise ValueError('once')\n"
        "whole, Knowledge.close = Knowledge.close, close\nsys.exit(main(['run', 'c.yaml']))\n",
    )

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
        return subprocess.run([sys.executable, "broken.py"], capture_output=True, text=True, env=environment, check=False)

    assert "ValueError: once" in (refused := run()).stderr
    assert refused.returncode == 1
    (project.folder / "out.ndjson").unlink()
    (project.folder / "dead.ndjson").unlink()
    assert run(**{fallbacks.EXPECTED: "instant"}).returncode == 0


@pytest.mark.fallbacks
def test_session_and_rule_tests_report_a_fallback(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    together(monkeypatch)
    assert main(["test", "t.yaml"]) == 0
    assert f"warning: a fault of dotr's own: {FallbackKind.TOGETHER.value}" in capsys.readouterr().err
    with Program.load(rules=["r.dotr"]).session() as session:
        for time in range(3):
            assert len(session.advance(time, "<x:a> a <http://e/A> .")) == 1
    assert len(caplog.messages) == 1


@pytest.mark.fallbacks
def test_rule_test_without_expectations_fails_where_a_query_or_a_rule_fails(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.change("t.yaml", 'expect: [ { at: 1, event: Out, attributes: { x: ":a" } } ]', "expect: []")

    def fails(*_: object) -> None:
        raise ValueError("always")

    def broken(*arguments: object) -> QueryPlan:
        return dataclasses.replace(plan(*arguments), answers=fails, delta_queries=None)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(stage_one, "plan", broken)
        answer = project.dotr("test", "t.yaml")
    assert answer.out == "FAILED t.yaml:4: one\n! at 1 the query of rule R fails: ValueError: always\n\n0 passed, 1 failed\n"
    write = StageTwo._write
    monkeypatch.setattr(StageTwo, "_write", lambda self, time, matched, seen: fails() if matched else write(self, time, matched, seen))
    assert "! at 1 rule R fails at it: ValueError: always\n" in project.dotr("test", "t.yaml").out


def raised() -> Exception:
    try:
        raise KeyError("x")
    except KeyError as error:
        return error


def test_an_expected_error_is_no_fallback() -> None:
    reraise_in_tests(ExpectedError("a limit"), FallbackKind.QUERY)
    record_fallback(ExpectedError("a limit"), FallbackKind.QUERY)
    assert fallbacks.drain_fallbacks() == []


def test_fallback_records_are_rows_of_a_batch_and_count_in_the_metrics(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        record_fallback(raised(), FallbackKind.QUERY)
    (line,) = fallback_rows()
    assert (line.kind, line.time) == (Row.FALLBACKS, 3)
    assert fallback_rows() == []
    sink = Sink(lambda number, firings, letters: None, lambda totals: None, lambda letter: letter, Clock())
    for number in range(2):
        sink.process(number, [(line.kind, line.payload)])
    assert sink.totals.fallbacks == 6
    (message,) = caplog.messages
    assert message.startswith("C401 warning: a fault of dotr's own: a query failed, and was evaluated again (KeyError: 'x', tests/")
    meter = LatestFigures("p", "spark")
    meter.update_totals(sink.totals)
    assert 'dotr_fallbacks_total{engine="spark",pipeline="p"} 6.0' in exposition(meter.read())
    assert json.loads(json_report(meter.read()))["fallbacks"] == 6


def test_totals_are_equal_with_different_fallbacks() -> None:
    assert Totals(fallbacks=1) == Totals()
    assert (Totals(fallbacks=1) + Totals(fallbacks=2)).fallbacks == 3
