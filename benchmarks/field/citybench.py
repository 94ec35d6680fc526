"""CityBench's twelve queries as rules over the streams of Aarhus, from NDJSON text to output graphs.

Each row of a query's streams is a graph of its own, taken from the streams in turn; times are
compressed to a number of graphs a second, as the DOTR paper did, whose engine took 3 to 7 ms a graph
for Q1 and Q2. A window of 3 s is an `each` or `last` in both orders. Patterns of the queries over the
library's and the city's events read the same files.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.field.measuring import Case, Effort
from benchmarks.field.works import Scale, Work
from tests.support.paths import DATA

FOLDER: Final = DATA / "citybench"
WITHIN: Final = 3_000
"""Milliseconds of all windows."""
_MOST_GRAPHS: Final = {100.0: 500, 1000.0: 500}
"""Graphs of a run by rate, where each joins with hundreds in three seconds."""
_NEAR: Final = 0.1
"""Square of degrees."""
_PLACE: Final = (56.21508593264829, 10.13978019262504)
"""Of the road section 158505."""
_T1, _T2, _WEATHER, _USER = "AarhusTrafficData182955", "AarhusTrafficData158505", "AarhusWeatherData0", "UserLocationService"
_P1, _P2 = "AarhusParkingDataKALKVAERKSVEJ", "AarhusParkingDataSKOLEBAKKEN"
_O1, _O2 = "AarhusPollutionData201399", "AarhusPollutionData184892"
_PREFIXES: Final = {
    "": "http://example.org/city#",
    "sensor": "http://www.insight-centre.org/dataset/SampleEventService#",
    "ssn": "http://purl.oclc.org/NET/ssnx/ssn#",
    "ct": "http://www.insight-centre.org/citytraffic#",
}


class Observation(NamedTuple):
    """A row of a stream: milliseconds, stream, and value (a user's: latitude and longitude)."""

    time: int
    stream: str
    value: tuple[float, ...]


class Query(NamedTuple):
    """A query: its streams, its rules, its number of results by definition, the events that it joins, and the most graphs of a run."""

    streams: tuple[str, ...]
    rules: str
    count: Callable[[list[Observation]], int]
    events: str = ""
    graphs: int = 5_000


def reading(label: str, stream: str, more: str = "") -> str:
    return f"query {label} = [ SELECT ?v WHERE {{ ?o ssn:observedBy sensor:{stream} ; :value ?v . {more} }} ]\n"


def both(form: str, condition: str = "", value: str = "A.?v + B.?v") -> str:
    """A rule for A after B, and one for B after A."""
    rules = (
        f"rule {one}{two} define C{one} = [ dotr_id :value ?v ] from {one} and {form} {two} within 3 s from {one} {condition}"
        f" with C{one}.?v = {value}\n"
        for one, two in ("AB", "BA")
    )
    return "".join(rules)


def near(label: str, position: str) -> str:
    """A query for the events near a position, and a rule that makes an event of each."""
    square = "(?lat2 - ?lat1) * (?lat2 - ?lat1) + (?lon2 - ?lon1) * (?lon2 - ?lon1)"
    return (
        f"query {label} = [ SELECT ?foi WHERE {{ {position} ?foi ct:hasFirstNode ?node . "
        f"?node ct:hasLatitude ?lat1 ; ct:hasLongitude ?lon1 . FILTER({square} < {_NEAR}) }} ]\n"
        f"rule R define C = [ dotr_id :near ?foi ] from {label} with C.?foi = {label}.?foi\n"
    )


def pairs(given: list[Observation], holds: Callable[[float, float], bool] = lambda one, other: True) -> int:
    """Pairs of observations of two streams, at most three seconds apart."""
    count = 0
    for place, later in enumerate(given):
        for earlier in reversed(given[:place]):
            if later.time - earlier.time > WITHIN:
                break
            count += later.stream != earlier.stream and earlier.time < later.time and holds(later.value[0], earlier.value[0])
    return count


def lasts(given: list[Observation]) -> int:
    """Observations with one of the other stream in the three seconds before."""
    return sum(_has_other(given, place) for place in range(len(given)))


def _has_other(given: list[Observation], place: int) -> bool:
    for earlier in reversed(given[:place]):
        if given[place].time - earlier.time > WITHIN:
            return False
        if earlier.stream != given[place].stream:
            return True
    return False


def distances(name: str) -> Callable[[list[Observation]], int]:
    """Pairs of an observation and an event near it."""

    def count(given: list[Observation]) -> int:
        found = 0
        for each in given:
            latitude, longitude = each.value if each.stream == _USER else _PLACE
            found += sum((latitude - lat) ** 2 + (longitude - lon) ** 2 < _NEAR for lat, lon in positions(name))
        return found

    return count


def positions(name: str) -> list[tuple[float, float]]:
    """The place of the events of a file."""
    with gzip.open(FOLDER / f"{name}.n3.gz", "rt", encoding="utf-8", errors="replace") as file:
        text = file.read()
    return [(float(lat), float(lon)) for lat, lon in re.findall(r"ct:hasLatitude (\S+) ;\s+ct:hasLongitude (\S+)", text)]


def silent(given: list[Observation]) -> int:
    """Traffic reports without an observation of the weather in the three seconds before."""
    return sum(each.stream == _T1 and not _has_other(given, place) for place, each in enumerate(given))


def crowded(given: list[Observation]) -> int:
    """Observations that are at least the fourth in three seconds, with themselves."""
    return sum(sum(each.time - WITHIN <= other.time for other in given[: place + 1]) > 3 for place, each in enumerate(given))


_TRAFFIC: Final = reading("A", _T1) + reading("B", _T2)
_PARKS: Final = reading("A", _P1) + reading("B", _P2)
_EXISTS: Final = "FILTER EXISTS { ?foi ct:hasFirstNode ?node }"
_CULTURE, _LIBRARY = "AarhusCulturalEvents", "AarhusLibraryEvents"

QUERIES: Final = {
    "Q1": Query((_T1, _T2), _TRAFFIC + both("each"), pairs),
    "Q2": Query((_WEATHER, _T2), reading("A", _WEATHER) + reading("B", _T2) + both("last"), lasts),
    "Q3": Query((_T1, _T2), _TRAFFIC + both("each", value="(A.?v + B.?v) / 2"), pairs),
    "Q4": Query(
        (_USER,),
        near("Near", f"?o ssn:observedBy sensor:{_USER} ; :latitude ?lat2 ; :longitude ?lon2 ."),
        distances(_CULTURE),
        _CULTURE,
        graphs=500,
    ),
    "Q5": Query(
        (_T2,),
        near("Near", f"?o ssn:observedBy sensor:{_T2} . sensor:{_T2} :latitude ?lat2 ; :longitude ?lon2 ."),
        distances(_CULTURE),
        _CULTURE,
        graphs=500,
    ),
    "Q6": Query(
        (_P1, _USER),
        reading("A", _P1) + f"query B = [ SELECT ?v WHERE {{ ?o ssn:observedBy sensor:{_USER} ; :latitude ?v }} ]\n" + both("each"),
        pairs,
    ),
    "Q7": Query((_P1, _P2), _PARKS + both("each", "if A.?v < 1 || B.?v < 1"), lambda given: pairs(given, lambda a, b: a < 1 or b < 1)),
    "Q8": Query(
        (_P1, _P2),
        reading("A", _P1, _EXISTS) + reading("B", _P2, _EXISTS) + both("each", "if A.?v > 0 || B.?v > 0"),
        lambda given: pairs(given, lambda a, b: a > 0 or b > 0),
        _LIBRARY,
    ),
    "Q9": Query((_P1, _P2), reading("A", _P1, _EXISTS) + reading("B", _P2, _EXISTS) + both("each"), pairs, _CULTURE),
    "Q10": Query((_O1, _O2), reading("A", _O1) + reading("B", _O2) + both("each"), pairs),
    "Q11": Query(
        (_T1, _WEATHER),
        reading("A", _T1)
        + reading("B", _WEATHER)
        + "rule R define C = [ dotr_id :value ?v ] from A and not B within 3 s from A with C.?v = A.?v\n",
        silent,
    ),
    "Q12": Query(
        (_T1,),
        reading("A", _T1)
        + "rule R define C = [ dotr_id :value ?n ] from A and ?n = count(*) of A as B within [0, 3 s] from A if ?n > 3 with C.?n = ?n\n",
        crowded,
    ),
}


def rows(stream: str) -> Iterator[tuple[float, ...]]:
    """The values of a stream."""
    with gzip.open(FOLDER / "streams" / f"{stream}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        if stream == _USER:
            yield from (tuple(map(float, line.rpartition("|")[2].split(","))) for line in file)
            return
        for row in csv.DictReader(file):
            match stream:
                case _ if "Parking" in stream:
                    yield (int(row["totalspaces"]) - int(row["vehiclecount"]),)
                case _ if "Pollution" in stream:
                    yield (int(row["ozone"]),)
                case _ if "Weather" in stream:
                    yield (float(row["tempm"] or 0),)
                case _:
                    yield (int(row["vehicleCount"]),)


def observations(streams: tuple[str, ...], size: int, rate: float) -> list[Observation]:
    """Rows of the streams in turn, so many a second."""
    turns = chain.from_iterable(zip_longest(*([(stream, value) for value in islice(rows(stream), size)] for stream in streams)))
    present = islice((each for each in turns if each is not None), size)
    return [Observation(int(number * 1000 / rate), stream, value) for number, (stream, value) in enumerate(present)]


def date(milliseconds: int) -> str:
    """A date-time so many milliseconds after the beginning.

    >>> date(1_500)
    '2014-08-01T00:00:01.500+00:00'
    """
    return (datetime(2014, 8, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


def graph(each: Observation) -> str:
    """The graph of an observation, in Turtle."""
    values = (":latitude", ":longitude") if each.stream == _USER else (":value",)
    return (
        f"[] ssn:observedBy sensor:{each.stream} ; "
        + " ; ".join(f"{name} {value!r}" for name, value in zip(values, each.value, strict=True))
        + " ."
    )


def write(folder: Path, query: Query, given: list[Observation]) -> Path:
    """The files of a query; returns the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    prefixes = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in _PREFIXES.items())
    (folder / "kb.ttl").write_text(f"{prefixes}sensor:{_T2} :latitude {_PLACE[0]} ; :longitude {_PLACE[1]} .\n", encoding="utf-8")
    (folder / "rules.dotr").write_text(
        "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in _PREFIXES.items()) + query.rules, encoding="utf-8"
    )
    with (folder / "stream.ndjson").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"time": date(each.time), "graph": graph(each)}) + "\n" for each in given)
    graphs = ["kb.ttl", *([str(FOLDER / f"{query.events}.n3.gz")] if query.events else [])]
    config = folder / "citybench.yaml"
    found = {
        "name": "citybench",
        "prefixes": _PREFIXES,
        "knowledge": {"graphs": graphs},
        "rules": ["rules.dotr"],
        "input": [{"name": "stream", "format": "ndjson", "path": "stream.ndjson"}],
        "output": [{"format": "ndjson", "path": "out.ndjson"}],
        "engine": "local",
    }
    config.write_text(json.dumps(found), encoding="utf-8")
    return config


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """Each query at 1 and 100 graphs a second; the first two from 0.1 to 1,000."""
    if not FOLDER.is_dir():
        return
    for name, query in QUERIES.items():
        for rate in (0.1, 1.0, 10.0, 100.0, 1000.0) if name in ("Q1", "Q2") else (1.0, 100.0):
            if scale is not Scale.FULL and rate != 1.0:
                continue
            most = min(query.graphs, _MOST_GRAPHS.get(rate, query.graphs))
            given = observations(query.streams, scale.of(most, most * 2 // 5), rate)
            config = write(folder / f"{name}-{rate:g}", query, given)
            yield Case(
                name=f"{name}, {rate:g} graph{'s' if rate > 1 else ''} a second",
                parameters={"query": name, "rate": f"{rate:g}", "graphs": len(given)},
                unit="graph",
                units=len(given),
                expected=query.count(given),
                own=("benchmarks.field.paper:ours", str(config)),
                effort=Effort(warm_runs=6, own_warm_runs=6, warm_seconds=4),
            )


WORK: Final = Work(
    name="citybench",
    title="CityBench's queries as rules: NDJSON text to output graphs",
    packages=("dotr",),
    minutes=3,
    cases=cases,
    nothing="CityBench's data are not in the folder that DOTR_DATA names",
)
