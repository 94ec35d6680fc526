"""Results of benchmarks: written and read, tables, plots, and what makes them stale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.field import flame, machine, pages, results, tables
from benchmarks.field.measuring import FROM_SECOND_BATCH, Case, Measured, Repeat
from benchmarks.field.peers import ROOT
from benchmarks.field.plots import plot, starts
from benchmarks.field.works import Work, works

pytestmark = pytest.mark.core


FIRST = Case("1 rules", {"rules": 1, "form": "last"}, "event", 1_000_000, 7, ("a:b",))


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


def test_earlier_commit_is_in_the_result_but_on_no_page() -> None:
    before = Measured("dotr before, 0123abc", None, Repeat(None, 1.0, 1.2), repeats(6, 6, 6), True, repeats(6.2, 6, 6.1, 10, 6), 80.0)
    cases = [replace(case, systems=(*case.systems, *results.case_result(FIRST, [before]).systems)) for case in made().cases]
    result = replace(made(), cases=tuple(cases))
    assert "| 1 rules | dotr before, 0123abc | 0.51 | 0.50 | 0.86 |" in tables.page(result)
    assert "Ratios" not in tables.page(made())
    assert result.present() == made()


@pytest.mark.parametrize("axis", ["rules", None])
def test_plots_are_svg(axis: str | None) -> None:
    for text in (plot(made(axis)), starts(made(axis))):
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_headlines_of_a_work_make_the_speed_table() -> None:
    text = pages.speed({"work": made()}, {"work": {"100 rules": "an event, a hundred rules"}, "other": {"x": "y"}})
    assert "| an event, a hundred rules (`benchmarks/run work`) | 3.10 (3.00–5.00) | Peer <1> wrong: 6 of 7 |" in text
    assert "1 rules" not in text


def committed(root: Path, **files: str) -> str:
    """A commit with these files (the last word of a name is its ending) in a repository, and its name."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    assert machine.git("add", "-A", root=root) is not None
    assert machine.git(*identity, "commit", "-q", "-m", "change", root=root) is not None
    made = machine.git("rev-parse", "HEAD", root=root)
    assert made
    return made


def test_a_result_is_stale_after_a_change_of_what_it_measures(tmp_path: Path) -> None:
    if machine.git("init", "-q", root=tmp_path) is None:
        pytest.skip("git is not here")
    first = committed(tmp_path, dotr__a__x_py="1", dotr__b__y_py="1")
    assert not machine.is_stale(first, ["dotr/a"], tmp_path)
    second = committed(tmp_path, dotr__b__y_py="2")
    assert [machine.is_stale(first, [package], tmp_path) for package in ("dotr/a", "dotr/b", "dotr")] == [False, True, True]
    assert not machine.is_stale(second, ["dotr"], tmp_path)
    committed(tmp_path, dotr__b__README_md="text")
    assert not machine.is_stale(second, ["dotr"], tmp_path)
    assert machine.is_stale("0" * 40, ["dotr/a"], tmp_path)
    assert machine.is_stale(second + "+changes", ["dotr/a"], tmp_path)


@pytest.mark.parametrize("work", works().values(), ids=works())
def test_each_work_names_packages_that_are_there(work: Work) -> None:
    assert work.packages
    assert [package for package in work.packages if not (ROOT / package).exists()] == []


def test_peers_that_are_faster_or_level_are_told_with_their_multiples() -> None:
    result = made()
    shown = pages.ahead({"work": result})
    assert "| 1 rules (`benchmarks/run work`) | Peer <1>: 0.40 × | – |" in shown
    assert "In 0 of 1 cases each peer" in shown
    slower = replace(result.cases[0].systems[1], thread=results.Figures(4, 6.2, 9))
    level = replace(result, cases=(replace(result.cases[0], systems=(result.cases[0].systems[0], slower)),))
    assert "| 1 rules (`benchmarks/run work`) | – | Peer <1>: 2.00 × |" in pages.ahead({"work": level})


def test_a_case_on_spark_has_two_figures_and_its_start() -> None:
    result = made()
    own = result.cases[0].systems[0]
    several = tuple(replace(repeat, parts={FROM_SECOND_BATCH: figure}) for repeat, figure in zip(own.repeats, (5, 4, 6, 3, 7), strict=True))
    case = replace(result.cases[0], systems=(replace(own, repeats=several),))
    shown = pages.first_batches(replace(result, cases=(case, *result.cases[1:])))
    assert "| start: s of JVM | start: s of workers in Python |" in shown
    assert "| 1 rules | 3.10 (3.00–5.00) | 5.00 (3.00–7.00) | 3.00 | 2.00 |" in shown
    assert "| 100 rules | 3.10 (3.00–5.00) | one batch | 3.00 | 2.00 |" in shown


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "x.json"
    results.write_whole(path, "first")
    results.write_whole(path, "second")
    assert path.read_text(encoding="utf-8") == "second"
    assert [each.name for each in path.parent.iterdir()] == ["x.json"]


def test_multiples_of_another_case_stand_in_the_table() -> None:
    result = made()
    one, other = result.cases
    multiples = results.with_multiples([one, replace(other, against="1 rules")])
    assert [case.times for case in multiples] == [None, 1.0]
    header, _, first, second = tables.comparison(replace(result, cases=multiples)).splitlines()
    assert (header.split(" | ")[-1], first.split(" | ")[-1], second.split(" | ")[-1]) == ("against |", "– |", "1.00 × 1 rules |")


def test_samples_are_taken_by_cpu_time_and_drawn() -> None:
    samples = flame.sampled(lambda: sum(number * number for number in range(2_000_000)))
    assert sum(samples.values()) > 1
    drawn = flame.drawn(flame.without_head(samples, "<lambda>"), "squares")
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
