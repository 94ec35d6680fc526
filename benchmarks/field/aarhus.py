"""The Aarhus job in process: days of real traffic, weather and parking, from CSV to output graphs.

`configs/aarhus.yaml` over the first days of August 2014, with its background made by `kb/aarhus.py`.
The definition is that of the five rules of `rules/city.dotr`, over the rows and the background.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import subprocess
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.field.measuring import Case, Effort
from benchmarks.field.peers import ROOT
from benchmarks.field.serve import Prepared
from benchmarks.field.works import Scale, Work
from tests.support.paths import DATA

STREAMS: Final = DATA / "citybench" / "streams"
BEGIN: Final = datetime(2014, 8, 1)
_TIMES: Final = {"Traffic": "TIMESTAMP", "Weather": "TIMESTAMP", "Parking": "updatetime"}
_MINUTE: Final = 60.0
_READING: Final = "reading alone: a row of CSV"


class Row(NamedTuple):
    """A row of a stream: seconds since 1970, and its cells by name."""

    time: float
    cells: dict[str, str]


def write_days(folder: Path, days: float) -> int:
    """Writes the streams of so many days as CSV; the number of their rows."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    # ISO 8601: the order of times is that of their texts. Rows that are out of order are so by less than a day.
    first, end, later = ((BEGIN + timedelta(days=number)).isoformat() for number in (0, days, days + 1))
    for kind, column in _TIMES.items():
        for source in sorted(STREAMS.glob(f"Aarhus{kind}Data*.csv.gz")):
            with (
                gzip.open(source, "rt", encoding="utf-8", newline="") as given,
                (folder / source.stem).open("w", encoding="utf-8") as out,
            ):
                header = next(given)
                out.write(header)
                place = next(csv.reader([header])).index(column)
                for line in given:
                    time = line.strip().split(",")[place].replace(" ", "T")
                    if first <= time < end:
                        out.write(line)
                        count += 1
                    elif time >= later:
                        break
    return count


def rows(folder: Path, kind: str) -> Iterator[Row]:
    """The rows of a kind of streams in order of time, without the late ones of each file."""
    found = []
    for path in sorted(folder.glob(f"Aarhus{kind}Data*.csv")):
        greatest = 0.0
        with path.open(encoding="utf-8", newline="") as file:
            for cells in csv.DictReader(file):
                time = datetime.fromisoformat(cells[_TIMES[kind]]).replace(tzinfo=UTC).timestamp()
                if time >= greatest:
                    found.append(Row(time, cells))
                    greatest = time
    return iter(sorted(found, key=lambda row: row.time))


class City(NamedTuple):
    """Sections of the background: the adjacent ones of each, its usual speed, and the car parks near it."""

    adjacent: dict[str, set[str]]
    usual: dict[str, float]
    near: dict[str, list[str]]


def city(background: Path) -> City:
    """The city of a background in Turtle and of the section table: of the sections that are watched, one is adjacent to another that starts
    at its end, unless that one only leads back."""
    text = background.read_text(encoding="utf-8")
    watched = set(re.findall(r"city:watches section:(\d+)", text))
    near = {
        section: re.findall(r"park:(\w+)", parks) for section, parks in re.findall(r"^section:(\d+) city:near (.*)$", text, re.MULTILINE)
    }
    with gzip.open(DATA / "citybench" / "trafficMetaData.csv.gz", "rt", encoding="utf-8", newline="") as file:
        table = [row for row in csv.DictReader(file) if row["REPORT_ID"] in watched]
    ends = {row["REPORT_ID"]: (row["POINT_1_NAME"], row["POINT_2_NAME"]) for row in table}
    usual = {row["REPORT_ID"]: float(row["NDT_IN_KMH"]) for row in table}
    adjacent = defaultdict(set)
    for one, (start, node) in ends.items():
        for other, (begin, end) in ends.items():
            if node == begin and start != end:
                adjacent[one].add(other)
                adjacent[other].add(one)
    return City(adjacent, usual, {section: near.get(section, []) for section in usual})


def by_definition(folder: Path, background: Path) -> int:
    """Number of events of the five rules."""
    known = city(background)
    wind = [row.time for row in rows(folder, "Weather") if row.cells["wspdm"] and float(row.cells["wspdm"]) >= 25]
    parked: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows(folder, "Parking"):
        taken = int(row.cells["vehiclecount"]) / int(row.cells["totalspaces"])
        if 0 <= taken <= 1:
            parked[row.cells["garagecode"]].append((row.time, taken))
    before: dict[str, tuple[float, int]] = {}
    warned: dict[str, list[float]] = defaultdict(list)
    count = 0
    for now, cells in rows(folder, "Traffic"):
        section, speed = cells["REPORT_ID"], int(cells["avgSpeed"])
        if int(cells["vehicleCount"]) == 0:
            continue
        # SlowInStrongWind: wind is measured at the time of the report, or up to half an hour before.
        last = bisect_left(wind, now + 0.001) - 1
        count += speed < 0.5 * known.usual[section] and last >= 0 and now - wind[last] <= 30 * _MINUTE
        since, other = before.get(section, (-1e9, 0))
        before[section] = (now, speed)
        if now - since > 30 * _MINUTE or speed >= 0.6 * other:
            continue
        # SuddenSlowDown, and its warnings; then SpreadingSlowDown, and SlowNearFullCarPark.
        count += 1 + len(known.adjacent[section])
        for neighbour in known.adjacent[section]:
            warned[neighbour].append(now)
        count += sum(0 < now - time <= 15 * _MINUTE for time in warned[section])
        for park in known.near[section]:
            place = bisect_left(parked[park], (now, -1.0)) - 1
            count += place >= 0 and now - parked[park][place][0] <= 60 * _MINUTE and parked[park][place][1] >= 0.9
    return count


def ours(folder: str, background: str) -> Prepared:
    """The job in process; the time excludes the construction of the pipeline."""
    from dotr.runtimes.local.run import run_local
    from dotr.runtimes.pipeline.build import Pipeline, build
    from dotr.runtimes.pipeline.config import read_config

    os.environ["DOTR_DATA"] = str(DATA)
    options = {
        "knowledge.graphs.0": background,
        **{f"input.{number}.path": f"{folder}/Aarhus{kind}Data*.csv" for number, kind in enumerate(_TIMES)},
        "output.0.path": f"{folder}/events.ndjson",
        "dead_letter": f"{folder}/rejected.ndjson",
    }
    built: list[Pipeline] = []

    def before() -> None:
        given = read_config(str(ROOT / "configs" / "aarhus.yaml"), [f"{name}={value}" for name, value in options.items()])
        built.append(build(given, fresh=True, on_spark=False))

    return Prepared(lambda: run_local(built.pop(), lambda totals: None).events, before=before)


def reading(folder: str) -> Callable[[], int]:
    """Reading of the rows without the job, by Python's `csv`."""

    def run() -> int:
        count = 0
        for path in sorted(Path(folder).glob("Aarhus*.csv")):
            with path.open(encoding="utf-8", newline="") as file:
                count += sum(1 for _ in csv.reader(file)) - 1
        return count

    return run


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """The first days, doubled from case to case."""
    if not STREAMS.is_dir():
        return
    background = folder / "background.ttl"
    command = [sys.executable, str(ROOT / "kb" / "aarhus.py"), "--data", str(DATA), "--output", str(background)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    lengths = {Scale.FULL: (3, 6, 12), Scale.QUICK: (1, 2), Scale.HUNDREDTH: (0.5,)}[scale]
    effort = Effort(own_warm_runs=5, warm_runs=5)
    sizes = {days: (folder / f"days-{days:g}", write_days(folder / f"days-{days:g}", days)) for days in lengths}
    where, size = sizes[lengths[-1]]
    own = ("benchmarks.field.aarhus:reading", str(where))
    alone = Case(_READING, {"reading": "csv"}, "element", size, size, own, effort=effort)
    yield alone
    for days, (where, size) in sizes.items():
        yield Case(
            name=f"{days:g} day{'s' if days > 1 else ''}, in process",
            parameters={"elements": size},
            unit="element",
            units=size,
            expected=by_definition(where, background),
            own=("benchmarks.field.aarhus:ours", str(where), str(background)),
            effort=effort,
            against=_READING,
        )


WORK: Final = Work(
    name="aarhus",
    title="The Aarhus job in process: CSV to output graphs",
    packages=("dotr",),
    minutes=1,
    cases=cases,
    axis="elements",
    nothing="CityBench's data are not in the folder that DOTR_DATA names",
    headlines={"12 days, in process": "a report of the streams of Aarhus, five rules over 59 road sections"},
)
