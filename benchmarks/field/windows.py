"""Continuous queries over windows of Aarhus's traffic reports, from triples in memory to rows.

The rows that count are those of all windows by the definition: (t - RANGE, t] at each multiple t of
STEP, the last ones too, which end after the last report. The real reports have gaps.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.field.measuring import Case, Effort, Start
from benchmarks.field.peers import ROOT, node
from benchmarks.field.works import Scale, Work
from tests.support.paths import DATA

NAMESPACE: Final = "http://example.org/"
STREAM: Final = NAMESPACE + "traffic"
_INTEGER: Final = "http://www.w3.org/2001/XMLSchema#integer"
_RSP_JS: Final = "rsp-js@1.3.5"
_CHAIN: Final = (
    f"[?district, <{NAMESPACE}districtSpeed>, ?v] :- [?section, <{NAMESPACE}speed>, ?v], [?section, <{NAMESPACE}in>, ?district] .\n"
    f"[?city, <{NAMESPACE}citySpeed>, ?v] :- [?district, <{NAMESPACE}districtSpeed>, ?v], [?district, <{NAMESPACE}of>, ?city] ."
)


class Report(NamedTuple):
    """Speed of a road section at a second since 1970."""

    second: int
    section: str
    speed: int


class Asked(NamedTuple):
    """A query: what it groups by, its pattern inside and outside of the window, and its window in seconds."""

    title: str
    group: str
    pattern: str
    outside: str
    width: int
    step: int


QUERIES: Final = (
    Asked("RANGE 600 STEP 300", "section", "?section :speed ?v", "", 600, 300),
    Asked("RANGE 3600 STEP 60", "section", "?section :speed ?v", "", 3600, 60),
    Asked("RANGE 600 STEP 300, static join", "district", "?section :speed ?v", "?section :in ?district .", 600, 300),
    Asked("RANGE 600 STEP 300, two chained rules", "city", "?city :citySpeed ?v", "", 600, 300),
)


def reports(size: int) -> list[Report]:
    """The first reports of all sections, in order; of the synthetic city, where the data of CityBench are not here."""
    files = sorted((DATA / "citybench" / "streams").glob("AarhusTrafficData*.csv.gz"))
    names = ("TIMESTAMP", "REPORT_ID", "avgSpeed") if files else ("time", "section", "speed")
    found = []
    for file in files or [ROOT / "data" / "city" / "traffic.csv.gz"]:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as rows:
            for row in csv.DictReader(rows):
                if not row[names[2]].isdigit():
                    continue
                moment = datetime.fromisoformat(row[names[0]]).replace(tzinfo=UTC)
                found.append(Report(int(moment.timestamp()), row[names[1]], int(row[names[2]])))
                if len(found) % 100_000 == 0 or (files and moment.day > 3):
                    break
    return sorted(set(found))[:size]


def district(section: str) -> int:
    """One of ten districts."""
    return sum(map(ord, section)) % 10


def by_definition(given: list[Report], asked: Asked) -> int:
    """Number of rows: at each closing, the groups that a report of the window belongs to."""

    def group(report: Report) -> str | int:
        places: dict[str, str | int] = {"section": report.section, "district": district(report.section), "city": 0}
        return places[asked.group]

    rows = 0
    first, last = given[0].second, given[-1].second
    for close in range(-(-first // asked.step) * asked.step, last + asked.width + 1, asked.step):
        rows += len({group(report) for report in given if close - asked.width < report.second <= close})
    return rows


def ours(path: str, number: str) -> Callable[[], int]:
    """dotr: elements of one triple to the rows of the query."""
    from dotr.engine.driver import Engine
    from dotr.engine.program import compile_program
    from dotr.engine.spec import ProgramSpec
    from dotr.model.places import Document
    from dotr.model.stream import FedGraph
    from dotr.model.time import Clock

    asked, given = QUERIES[int(number)], [Report(*each) for each in json.loads(Path(path).read_text(encoding="utf-8"))]
    documents = (Document("q.rspql", text(asked)),)
    rules = (Document("k.dlog", _CHAIN),) if asked.group == "city" else ()
    program = compile_program(ProgramSpec(documents, rules, (str(Path(path).with_name("static.nt")),)))
    instants: dict[int, list[FedGraph]] = {}
    for report in given:
        triple = (f"<{NAMESPACE}{report.section}>", f"<{NAMESPACE}speed>", f'"{report.speed}"^^<{_INTEGER}>')
        instants.setdefault(report.second * 1_000_000, []).append(FedGraph.on(STREAM, (triple,)))

    def run() -> int:
        engine, rows = Engine(program, Clock()), 0
        for now, graphs in instants.items():
            rows += len(engine.step(now, graphs)[0])
        return rows + sum(map(len, engine.finish()))

    return run


def text(asked: Asked) -> str:
    """The query in RSP-QL."""
    return (
        f"PREFIX : <{NAMESPACE}> REGISTER RSTREAM <Q> AS SELECT ?{asked.group} (MAX(?v) AS ?most) "
        f"FROM NAMED WINDOW <w> ON <{STREAM}> [RANGE {asked.width}s STEP {asked.step}s] "
        f"WHERE {{ WINDOW <w> {{ {asked.pattern} }} {asked.outside} }} GROUP BY ?{asked.group}"
    )


def static(given: list[Report]) -> str:
    """The districts of all sections, and their city, as N-Triples."""
    sections = sorted({report.section for report in given})
    lines = [f"<{NAMESPACE}{section}> <{NAMESPACE}in> <{NAMESPACE}district{district(section)}> ." for section in sections]
    lines += [f"<{NAMESPACE}district{number}> <{NAMESPACE}of> <{NAMESPACE}city> ." for number in range(10)]
    return "\n".join(lines)


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """Each query over the same reports: rsp-js as it is, and helped to its windows."""
    given = reports(scale.of(1_500, 500))
    path, joined = folder / "reports.json", folder / "static.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    joined.with_suffix(".nt").write_text(static(given), encoding="utf-8")
    joined.write_text(json.dumps([line.strip(" .").split(" ") for line in static(given).splitlines()]), encoding="utf-8")
    for number, asked in enumerate(QUERIES):
        if scale is Scale.QUICK and asked.step == 60:
            continue
        others: dict[str, Start] = {}
        for name, form in (("rsp-js 1.3.5", "as-is"), ("rsp-js 1.3.5, ticks", "ticks")):
            others[name] = partial(node, _RSP_JS, "rsp.js", str(path), str(joined), json.dumps(asked._asdict()), form)
        chained = asked.group == "city"
        yield Case(
            name=asked.title,
            parameters={"range": asked.width, "step": asked.step, "reports": len(given)},
            unit="report",
            units=len(given),
            expected=by_definition(given, asked),
            own=("benchmarks.field.windows:ours", str(path), str(number)),
            others={} if chained else others,
            cannot=dict.fromkeys(others, "has no rules") if chained else {},
            effort=Effort(least_peer_runs=3, warm_runs=6, warm_seconds=10),
        )


WORK: Final = Work(
    name="windows",
    title="Window queries over traffic reports: triples in memory to rows",
    packages=("dotr/windows", "dotr/horizons", "dotr/queries", "dotr/engine", "dotr/languages/continuous"),
    minutes=3,
    cases=cases,
    headlines=("RANGE 600 STEP 300", "RANGE 600 STEP 300, static join"),
)
