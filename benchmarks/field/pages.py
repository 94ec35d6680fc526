"""Tables of README.md and docs/performance.md, made from the results.

A table is between `<!-- table NAME -->` and `<!-- end of table -->`; NAME is a work, `speed` (the
headlines of all works, for the README), `ahead` (the cases in which a peer is faster), `batches` (the two figures of each
case on Spark), `profile` (the steps of an instant), `scripts` (what other scripts printed), or `texts`
(the rules and queries of the systems, in the appendix docs/performance-texts.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.field.flame import PAPER_SHARES, read_profile
from benchmarks.field.measuring import FROM_SECOND_BATCH, spread
from benchmarks.field.peers import ROOT
from benchmarks.field.results import RESULTS, CaseResult, Figures, Result, SystemResult, all_results, by_kind, write_whole
from benchmarks.field.tables import comparison, grid, number, provenance, span
from benchmarks.field.works import Headlines

PAGES: Final = (ROOT / "README.md", ROOT / "docs" / "performance.md")
APPENDIX: Final = ROOT / "docs" / "performance-texts.md"
SCRIPTS: Final = RESULTS / "scripts" / "figures.json"
_BLOCK: Final = re.compile(r"(?P<begin><!-- table (?P<name>\w+) -->\n).*?(?P<end><!-- end of table -->)", re.DOTALL)

Tables = Mapping[str, Callable[[], str]]


def tables(results: Mapping[str, Result], headlines: Mapping[str, Headlines]) -> Tables:
    """All tables by name; `headlines`: for each work the cases that the README shows, in its words."""
    works = {name: partial(_table, name, results.get(name)) for name in headlines}
    several = {"ahead": partial(ahead, results), "speed": partial(speed, results, headlines)}
    return {
        **works,
        **several,
        "batches": partial(first_batches, results.get("spark")),
        "profile": profile,
        "scripts": scripts,
        "texts": texts,
    }


def rewritten(text: str, tables: Tables) -> str:
    """A page with its tables made anew.

    >>> print(rewritten("a\\n<!-- table x -->\\nold\\n<!-- end of table -->\\n", {"x": lambda: "new\\n"}))
    a
    <!-- table x -->
    new
    <!-- end of table -->
    <BLANKLINE>
    """

    def made(found: re.Match[str]) -> str:
        table = tables.get(found["name"])
        return found[0] if table is None else f"{found['begin']}{table()}{found['end']}"

    return _BLOCK.sub(made, text)


def names(text: str) -> list[str]:
    """Names of the tables of a page."""
    return [found["name"] for found in _BLOCK.finditer(text)]


def without_tables(text: str) -> str:
    """A page without its tables."""
    return _BLOCK.sub("", text)


def present_tables() -> Tables:
    """Tables of the results that are in the repository."""
    from benchmarks.field.works import works

    return tables({result.work: result.present() for result in all_results()}, {work.name: work.headlines for work in works().values()})


def rewrite() -> list[Path]:
    """Makes the tables of all pages anew; the pages that have changed."""
    made, changed = present_tables(), []
    for page in (*PAGES, APPENDIX):
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text, made)) != text:
            write_whole(page, new)
            changed.append(page)
    return changed


def _table(work: str, result: Result | None) -> str:
    if result is None:
        return f"\nNot measured at this commit or before: `benchmarks/run {work}`.\n\n"
    return f"\n{comparison(result)}\n{provenance(result)} Source: `benchmarks/results/{work}.json`.\n\n"


def speed(results: Mapping[str, Result], headlines: Mapping[str, Headlines]) -> str:
    """A row for each headline: dotr, and the systems measured beside it."""
    rows = [
        [f"{words[case.name]} (`benchmarks/run {result.work}`)", _figure(case.systems[0]), _others(case)]
        for name, words in headlines.items()
        if (result := results.get(name))
        for case in result.cases
        if case.name in words
    ]
    return f"\n{grid(['µs of CPU for', 'dotr', 'others in the same run'], rows)}\n"


def ahead(results: Mapping[str, Result]) -> str:
    """The cases in which a peer needs less CPU than dotr, or about as much: their ranges overlap."""
    rows, compared = [], 0
    for result in results.values():
        for case in result.cases:
            own = case.systems[0].work
            peers = [(each.system, each.work) for each in case.systems[1:] if each.work is not None]
            if own is None or not peers:
                continue
            compared += 1
            faster: list[str] = []
            level: list[str] = []
            for name, work in peers:
                if work.least <= own.greatest:
                    side = level if work.greatest >= own.least else faster
                    side.append(f"{name}: {number(work.median / own.median)} ×")
            if faster or level:
                rows.append([f"{case.name} (`benchmarks/run {result.work}`)", "; ".join(faster) or "–", "; ".join(level) or "–"])
    table = grid(["case", "needs less CPU than dotr, so much of it", "about as much: the ranges overlap"], rows)
    rest = f"In {compared - len(rows)} of {compared} cases each peer that gives the right results needs more than dotr."
    return f"\n{table}\nMedians, dotr's is 1. {rest} Source: all of `benchmarks/results`.\n\n"


def first_batches(result: Result | None) -> str:
    """The two figures of each case on Spark, and the CPU of its start by kind of process."""
    cases = [case for case in result.cases if case.systems[0].cold_parts] if result is not None else []
    if result is None or not cases:
        return "\nNot measured: `benchmarks/run spark`.\n\n"
    kinds = list(dict.fromkeys(kind for case in cases for kind in by_kind(case.systems[0].cold_parts)))
    rows = []
    for case in cases:
        own = case.systems[0]
        later = [repeat.parts[FROM_SECOND_BATCH] for repeat in own.repeats if FROM_SECOND_BATCH in repeat.parts]
        start = by_kind(own.cold_parts)
        figures = [number(start[kind]) if kind in start else "–" for kind in kinds]
        rows.append([case.name, span(own.work) if own.work else "–", span(Figures(*spread(later))) if later else "one batch", *figures])
    starts = (f"start: s of {kind}" for kind in kinds)
    table = grid(["µs of CPU, one element", "from the start of the query", "from the second batch on", *starts], rows)
    note = "The start is that of a first run, up to the end of its first batch. Source: `benchmarks/results/spark.json`."
    return f"\n{table}\n{note}\n\n"


def _others(case: CaseResult) -> str:
    return "; ".join(f"{each.system} {_figure(each)}" for each in case.systems[1:]) or "–"


def _figure(system: SystemResult) -> str:
    return (system.reason or "–") if system.work is None else span(system.work) + ("" if system.thread else " ᵖ")


def profile() -> str:
    """The shares of the steps of an instant, beside those of the paper's Table 1."""
    found = read_profile()
    if found is None:
        return "\nNot measured yet: `benchmarks/run flame`.\n\n"
    rows = [[step, f"{share} %", f"{PAPER_SHARES[step]} %" if step in PAPER_SHARES else "–"] for step, share in found.shares.items()]
    table = grid(["step", "of dotr's CPU", "of the paper's 12,090 µs, another engine and machine"], rows)
    made = f"{found.date}, commit {found.commit[:9]}"
    return f"\n{table}\n`benchmarks/run flame`, {made}; source: `benchmarks/results/profile/shares.json`.\n\n"


def scripts() -> str:
    """Figures that the scripts of `benchmarks/` printed, in other runs and at other hours."""
    found: list[list[str]] = json.loads(SCRIPTS.read_text(encoding="utf-8"))
    return f"\n{grid(['benchmark', 'measured', 'target'], found)}\nSource: `benchmarks/results/scripts/figures.json`.\n\n"


def texts() -> str:
    """The texts of all works that have some, each with its lines counted."""
    from benchmarks.field.works import works

    out = []
    for work in works().values():
        found = list(work.texts())
        out += [f"\n## {work.title}: `benchmarks/run {work.name}`\n"] if found else []
        for title, language, text in found:
            lines = text.strip("\n").splitlines()
            out.append(f"\n{title}: {len(lines)} line{'s' if len(lines) > 1 else ''}\n\n```{language}\n" + "\n".join(lines) + "\n```\n")
    return "".join(out) + "\n"
