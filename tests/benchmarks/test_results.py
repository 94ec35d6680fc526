"""Results of benchmarks: written and read, tables, plots, and what makes them stale."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.field import flame, machine, pages, results, tables
from benchmarks.field.measuring import Case, Measured, Repeat
from benchmarks.field.plots import plot, starts

pytestmark = pytest.mark.core


def repeats(*seconds: float) -> tuple[Repeat, ...]:
    return tuple(Repeat(each, 2 * each, 3 * each) for each in seconds)


def made(axis: str | None = "rules") -> results.Result:
    """A work of two cases, with a peer that is right once and wrong once."""
    cases = [Case(f"{rules} rules", {"rules": rules, "form": "last"}, "event", 1_000_000, 7, ("a:b",)) for rules in (1, 100)]
    parts = {"JVM, to the end of the first batch": 3.0, "workers in Python, to the end of the first batch": 2.0}
    own = Measured("dotr", None, Repeat(None, 0.5, 0.6, parts), repeats(3, 3, 3), True, repeats(3.2, 3, 3.1, 5, 3), 68.4)
    right = Measured("Peer <1>", None, Repeat(None, 2.5, 2.6), repeats(9, 5, 4), False, repeats(1, 2, 1.5, 1.25, 1), 300.0)
    wrong = Measured("Peer <1>", "wrong: 6 of 7")
    found = (results.case_result(cases[0], [own, right]), results.case_result(cases[1], [own, wrong]))
    return results.Result(
        "work", "A & B", "benchmarks/run work", "full", ("dotr/model",), axis, machine.commit(), "2026-01-01 10:00 UTC", 12.5,
        (0.1, 0.2, 0.3), (1.1, 0.4, 0.3), machine.this_machine(), found,
    )  # fmt: skip


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    results.write(made(), tmp_path / "work.json")
    assert results.read(tmp_path / "work.json") == made()


def test_the_table_has_medians_and_ranges_and_reasons() -> None:
    assert tables.comparison(made()).splitlines() == [
        "| µs of CPU, one event | dotr | Peer <1> |",
        "| --- | --- | --- |",
        "| 1 rules | 3.10 (3.00–5.00) | 1.25 (1.00–2.00) * |",
        "| 100 rules | 3.10 (3.00–5.00) | wrong: 6 of 7 |",
    ]
    page = tables.page(made())
    assert "load before 0.1 0.2 0.3, after 1.1 0.4 0.3" in page
    assert "| 1 rules | dotr | 3.10 (3.00–5.00) | 6.20 (6.00–10.0) | 9.30 (9.00–15.0) | 0.50 | 0.60 | 68 | 3 runs |" in page


@pytest.mark.parametrize("axis", ["rules", None])
def test_plots_are_svg(axis: str | None) -> None:
    for text in (plot(made(axis)), starts(made(axis))):
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_headlines_of_a_work_make_the_speed_table() -> None:
    text = pages.speed({"work": made()}, {"work": ("100 rules",), "other": ("x",)})
    assert "| 100 rules (`benchmarks/run work`) | 3.10 (3.00–5.00), one event | Peer <1> wrong: 6 of 7 |" in text
    assert "1 rules" not in text


def test_a_result_is_stale_after_a_change_of_what_it_measures() -> None:
    last = machine.git("log", "-1", "--format=%H", "--", "dotr")
    if not last:
        pytest.skip("no history here")
    assert not machine.is_stale(last, ["dotr"])
    assert machine.is_stale("0" * 40, ["dotr"])
    assert machine.is_stale(last + "+changes", ["dotr"])


def test_samples_are_taken_by_cpu_time_and_drawn() -> None:
    samples = flame.sampled(lambda: sum(number * number for number in range(2_000_000)))
    assert sum(samples.values()) > 1
    drawn = flame.drawn(flame.without_head(samples, "<lambda>"), "squares")
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
