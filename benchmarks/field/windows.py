"""Continuous queries over windows of Aarhus's traffic reports, from triples in memory to rows.

The expected rows are those of all windows by the definition: (t - RANGE, t] at each multiple t of
STEP, including the last windows, which end after the last report. They are compared by closing time, group
and value. Reports are left out of the real ones, so that windows close in gaps;
in the last case some reports are late, and those that are too late are in no window.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.field.measuring import Case, Effort, Start
from benchmarks.field.peers import ROOT, node
from benchmarks.field.serve import Prepared
from benchmarks.field.works import Scale, Text, Work
from tests.support.paths import DATA

if TYPE_CHECKING:
    from dotr.model.stream import FedGraph, Firing

NAMESPACE: Final = "http://example.org/"
STREAM: Final = NAMESPACE + "traffic"
LATENESS: Final = 600
"""Seconds that a report may come late in the case in which some do."""
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


class WindowQuery(NamedTuple):
    """A query: what it groups by, its pattern inside and outside of the window, its window and how late reports are, in seconds."""

    title: str
    group: str
    pattern: str
    outside: str
    width: int
    step: int
    lateness: int = 0


QUERIES: Final = (
    WindowQuery("RANGE 600 STEP 300", "section", "?section :speed ?v", "", 600, 300),
    WindowQuery("RANGE 3600 STEP 60", "section", "?section :speed ?v", "", 3600, 60),
    WindowQuery("RANGE 600 STEP 300, static join", "district", "?section :speed ?v", "?section :in ?district .", 600, 300),
    WindowQuery("RANGE 600 STEP 300, two chained rules", "city", "?city :citySpeed ?v", "", 600, 300),
    WindowQuery("RANGE 600 STEP 300, late reports", "section", "?section :speed ?v", "", 600, 300, LATENESS),
)


def real_reports(sections: int) -> list[Report]:
    """The first reports of some sections, in order; of the synthetic city, if the data of CityBench are absent."""
    files = sorted((DATA / "citybench" / "streams").glob("AarhusTrafficData*.csv.gz"))
    names = ("TIMESTAMP", "REPORT_ID", "avgSpeed") if files else ("time", "section", "speed")
    found = []
    for file in files[:sections] or [ROOT / "data" / "city" / "traffic.csv.gz"]:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as rows:
            for row in csv.DictReader(rows):
                if not row[names[2]].isdigit():
                    continue
                moment = datetime.fromisoformat(row[names[0]]).replace(tzinfo=UTC)
                found.append(Report(int(moment.timestamp()), row[names[1]], int(row[names[2]])))
                if len(found) % 100_000 == 0 or (files and moment.day > 3):
                    break
    return sorted(set(found))


def reports(size: int, sections: int) -> list[Report]:
    """So many reports, with gaps: one to four of twelve consecutive times have none."""
    given = real_reports(sections)
    choose = random.Random(1)
    times, left_out = sorted({report.second for report in given}), set[int]()
    for place in range(4, len(times), 12):
        left_out.update(times[place : place + choose.randrange(1, 5)])
    return [report for report in given if report.second not in left_out][:size]


def as_they_come(given: list[Report]) -> list[Report]:
    """The reports in another order: each sixth comes up to ten minutes late, each fiftieth twenty minutes or more."""
    choose = random.Random(1)

    def comes(report: Report) -> int:
        luck = choose.random()
        delay = 1_200 + choose.randrange(600) if luck < 0.02 else choose.randrange(LATENESS + 1) if luck < 0.18 else 0
        return report.second + delay

    return [report for _, report in sorted((comes(report), report) for report in given)]


def district(section: str) -> int:
    """One of ten districts."""
    return sum(map(ord, section)) % 10


def by_definition(given: list[Report], query: WindowQuery) -> dict[str, str]:
    """The rows of all windows: closing time, group, and greatest value; each with the kind of its closing."""

    def group(report: Report) -> str:
        return {"section": report.section, "district": f"district{district(report.section)}", "city": "city"}[query.group]

    greatest = [0, *accumulate((report.second for report in given), max)]
    in_time = [report for report, before in zip(given, greatest, strict=False) if before - report.second <= query.lateness]
    times = sorted({report.second for report in in_time})
    rows: dict[str, str] = {}
    for close in range(-(-times[0] // query.step) * query.step, times[-1] + query.width + 1, query.step):
        within = [report for report in in_time if close - query.width < report.second <= close]
        if close >= times[-1]:
            kind = "open at the end"
        else:
            kind = "in a gap" if min(time for time in times if time > close) > close + query.step else "elsewhere"
        for name in {group(report) for report in within}:
            rows[f"{close} {name} {max(report.speed for report in within if group(report) == name)}"] = kind
    return rows


def ours(path: str, number: str) -> Prepared:
    """dotr: elements of one triple to the rows of the query."""
    from dotr.engine.driver import Engine
    from dotr.engine.spec import ProgramSpec
    from dotr.languages.programs import compile_program
    from dotr.model.places import Document
    from dotr.model.time import Clock

    query, given = QUERIES[int(number)], [Report(*each) for each in json.loads(Path(path).read_text(encoding="utf-8"))]
    documents = (Document("q.rspql", text(query)),)
    rules = (Document("k.dlog", _CHAIN),) if query.group == "city" else ()
    program = compile_program(ProgramSpec(documents, rules, (str(Path(path).with_name("static.nt")),)))
    instants = instants_of(given, query.lateness)
    made: list[Firing] = []

    def run() -> int:
        made.clear()
        engine = Engine(program, Clock())
        for now, graphs in instants():
            made.extend(engine.step(now, graphs)[0])
        for moment in engine.finish():
            made.extend(moment)
        return len(made)

    return Prepared(run, rows=lambda: [row_text(firing) for firing in made])


def instants_of(given: list[Report], lateness: int) -> Callable[[], Iterable[tuple[int, list[FedGraph]]]]:
    """Returns a function that yields the instants of the reports, in µs; late reports are put in order at each call, as in a run."""
    from dotr.model.stream import Element, FedGraph
    from dotr.streams.lateness import Lateness
    from dotr.streams.merge.bounded import RecordSource, instants
    from dotr.streams.records import Format, InputFile, Record

    elements = []
    for report in given:
        triple = (f"<{NAMESPACE}{report.section}>", f"<{NAMESPACE}speed>", f'"{report.speed}"^^<{_INTEGER}>')
        elements.append(Element(report.second * 1_000_000, FedGraph.on(STREAM, (triple,))))
    if lateness:
        file = InputFile("reports", "", Format.NDJSON, delay=lateness * 1_000_000)
        records = [Record(0, 0, line, element.time, element, b"") for line, element in enumerate(elements, 1)]

        def in_order() -> Iterator[tuple[int, list[FedGraph]]]:
            for now, together in instants([RecordSource(file, iter(records), Lateness(file.delay))], lambda letter: None):
                yield now, [element.triples for element in together if isinstance(element.triples, FedGraph)]

        return in_order
    found: dict[int, list[FedGraph]] = {}
    for element in elements:
        assert isinstance(element.triples, FedGraph)
        found.setdefault(element.time, []).append(element.triples)
    return found.items


def row_text(firing: Firing) -> str:
    """The closing time in seconds, the last part of the group's name, and the greatest value."""
    terms = dict(firing.attributes)
    (most,) = (term for name, term in terms.items() if name.lstrip("?") == "most")
    (name,) = (term for name, term in terms.items() if name.lstrip("?") != "most")
    return f"{firing.time // 1_000_000} {name.rpartition('/')[2].rstrip('>')} {most.split(chr(34))[1]}"


def text(query: WindowQuery) -> str:
    """The query in RSP-QL."""
    window = f"FROM NAMED WINDOW <w> ON <{STREAM}> [RANGE {query.width}s STEP {query.step}s]"
    return _query(query, "REGISTER RSTREAM <Q> AS", window, "WINDOW <w>")


def rsp_js_text(query: WindowQuery) -> str:
    """The query in the syntax of rsp-js."""
    window = f"FROM NAMED WINDOW :w ON STREAM :traffic [RANGE {query.width} STEP {query.step}]"
    return _query(query, "REGISTER RStream <output> AS", window, "WINDOW :w")


def _query(query: WindowQuery, register: str, window: str, inside: str) -> str:
    """The parts of a query, one on each line, as rsp-js needs them."""
    where = ["WHERE {", f"{inside} {{ {query.pattern} }}", *([query.outside] if query.outside else []), "}"]
    return "\n".join(
        (f"PREFIX : <{NAMESPACE}>", register, f"SELECT ?{query.group} (MAX(?v) AS ?most)", window, *where, f"GROUP BY ?{query.group}")
    )


def static(given: list[Report]) -> str:
    """The districts of all sections, and their city, as N-Triples."""
    sections = sorted({report.section for report in given})
    lines = [f"<{NAMESPACE}{section}> <{NAMESPACE}in> <{NAMESPACE}district{district(section)}> ." for section in sections]
    lines += [f"<{NAMESPACE}district{number}> <{NAMESPACE}of> <{NAMESPACE}city> ." for number in range(10)]
    return "\n".join(lines)


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """Each query over the same reports: rsp-js unchanged, and with the additional ticks of our driver."""
    sections = {Scale.FULL: 59, Scale.QUICK: 20, Scale.HUNDREDTH: 4}[scale]
    size = {Scale.FULL: 1_500, Scale.QUICK: 500, Scale.HUNDREDTH: 80}[scale]
    in_order = reports(size, sections)
    joined = folder / "static.json"
    joined.with_suffix(".nt").write_text(static(in_order), encoding="utf-8")
    joined.write_text(json.dumps([line.strip(" .").split(" ") for line in static(in_order).splitlines()]), encoding="utf-8")
    for number, query in enumerate(QUERIES):
        if scale is Scale.QUICK and query.step == 60:
            continue
        given = as_they_come(in_order) if query.lateness else in_order
        path = folder / ("late.json" if query.lateness else "reports.json")
        path.write_text(json.dumps(given), encoding="utf-8")
        others: dict[str, Start] = {}
        for name, form in (("rsp-js 1.3.5", "as-is"), ("rsp-js 1.3.5, ticks", "ticks")):
            encoded = json.dumps({**query._asdict(), "text": rsp_js_text(query)})
            others[name] = partial(node, _RSP_JS, "rsp.js", str(path), str(joined), encoded, form)
        chained = query.group == "city"
        rows = by_definition(given, query)
        yield Case(
            name=query.title,
            parameters={"range": query.width, "step": query.step, "reports": len(given)},
            unit="report",
            units=len(given),
            expected=len(rows),
            own=("benchmarks.field.windows:ours", str(path), str(number)),
            others={} if chained else others,
            cannot=dict.fromkeys(others, "has no rules") if chained else {},
            effort=Effort(least_peer_runs=3, warm_runs=6, warm_seconds=10),
            rows=rows,
        )


def texts() -> Iterator[Text]:
    """The queries, and the two rules."""
    for query in (QUERIES[0], QUERIES[2]):
        yield Text(f"dotr, {query.title}", "sparql", text(query))
        yield Text(f"rsp-js, {query.title}", "sparql", rsp_js_text(query))
    yield Text("dotr, two chained rules", "", f"{_CHAIN}\n{text(QUERIES[3])}")


WORK: Final = Work(
    name="windows",
    title="Window queries over traffic reports: triples in memory to rows",
    packages=(
        "dotr/languages/continuous/windows",
        "dotr/temporal/horizons",
        "dotr/instant/queries",
        "dotr/engine",
        "dotr/languages/continuous",
        "dotr/streams",
    ),
    minutes=1,
    cases=cases,
    texts=texts,
)
