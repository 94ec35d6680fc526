"""Make the synthetic city: a made-up road network, and one made-up day of its traffic, weather and parking.

    python data/city/generate.py

Nothing in it was measured. The same seed makes the same data. Twelve roads with two directions each join eight junctions; every section
reports every five minutes. There are two rush hours, a few incidents that slow a section down and then back up into those that
lead to it, a storm in the afternoon, and car parks that fill towards noon. As in real data some reports counted no vehicle, some
cells are empty, a few rows come late, and one is broken.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable
from math import exp, pi, sin
from pathlib import Path

SEED = 20180603
DAY = "2024-05-14"
FOLDER = Path(__file__).resolve().parent
ROADS = ["AB", "BC", "CD", "DA", "AE", "BF", "CG", "DH", "EF", "FG", "GH", "HE"]
SECTIONS = [road for pair in ROADS for road in (pair, pair[::-1])]
USUAL = {section: 50 if section[0] in "ABCD" and section[1] in "ABCD" else 70 for section in SECTIONS}
PARKS = {"Market": 220, "Station": 480, "Harbour": 150}
NEAR = {"AB": "Market", "BA": "Market", "DA": "Station", "AD": "Station", "BF": "Harbour"}

PREFIXES = """\
# Synthetic: a city that does not exist, made by data/city/generate.py.
@prefix city: <http://example.org/city#> .
@prefix section: <http://example.org/city/section/> .
@prefix node: <http://example.org/city/node/> .
@prefix park: <http://example.org/city/park/> .
@prefix sensor: <http://example.org/city/sensor/> .
@prefix ct: <http://www.insight-centre.org/citytraffic#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .

ct:hasFirstNode rdfs:range ct:Node ; rdfs:subPropertyOf ct:hasPlace .
ct:hasSecondNode rdfs:range ct:Node ; rdfs:subPropertyOf ct:hasPlace .
ct:hasAvgSpeed rdfs:domain ct:AvgSpeed .
ct:hasVehicleCount rdfs:domain ct:VehicleCount .
"""


def background() -> str:
    """The road network and its sensors, as Turtle."""
    lines = [PREFIXES, *(f"park:{park} a city:CarPark ." for park in PARKS)]
    for name in SECTIONS:
        near = f" ; city:near park:{NEAR[name]}" if name in NEAR else ""
        lines.append(
            f"section:{name} a city:RoadSection ; ct:hasFirstNode node:{name[0]} ; ct:hasSecondNode node:{name[1]} ;"
            f" city:usualSpeed {USUAL[name]}{near} ."
        )
        lines.append(f"sensor:{name} city:watches section:{name} .")
    return "\n".join(lines) + "\n"


def clock(minute: int, second: int = 0) -> str:
    return f"{DAY}T{minute // 60:02}:{minute % 60:02}:{second:02}"


def rush(minute: int) -> float:
    """How busy the roads are, 0 to 1."""
    return min(1.0, 0.1 + sum(weight * exp(-(((minute - peak) / 75) ** 2)) for peak, weight in ((480, 0.8), (1020, 0.9))))


def incidents(random_: random.Random) -> dict[tuple[str, int], float]:
    """By section and minute the share of its speed that an incident leaves: it starts on one section and backs up into others."""
    slowed: dict[tuple[str, int], float] = {}
    for _ in range(9):
        start = random_.randrange(360, 1260, 5)
        length = random_.randrange(20, 50, 5)
        name = random_.choice(SECTIONS)
        stretch = [(name, start)] + [
            (other, start + random_.choice((5, 10)))
            for other in SECTIONS
            if other[1] == name[0] and other[0] != name[1] and random_.random() < 0.7
        ]
        for section, begin in stretch:
            for minute in range(begin, begin + length, 5):
                slowed[section, minute] = random_.uniform(0.15, 0.4)
    return slowed


def traffic(random_: random.Random) -> list[str]:
    """The day's reports, in time order but for a few late ones."""
    slowed = incidents(random_)
    rows = []
    for minute in range(0, 1440, 5):
        for name in SECTIONS:
            busy = rush(minute)
            vehicles = int(random_.expovariate(1 / (14 * busy)))
            speed = USUAL[name] * (1 - 0.25 * busy) * random_.uniform(0.9, 1.1) * slowed.get((name, minute), 1.0)
            rows.append(f"{clock(minute)},{name},{round(speed)},{vehicles}")
    for place in (700, 2900, 5100):
        rows.insert(place, rows[place - 100])  # a report that comes again, late
    rows.insert(4000, f"{clock(835)},AB,47")
    return rows


def weather(random_: random.Random) -> list[str]:
    """A reading every twenty minutes; a storm from about 14:00 to 18:00."""
    rows = []
    for minute in range(0, 1440, 20):
        wind = 8 + 24 * exp(-(((minute - 960) / 110) ** 2)) + random_.uniform(-2, 2)
        temperature = 11 + 6 * sin((minute - 540) / 1440 * 2 * pi)
        cells = [f"{wind:.1f}", f"{temperature:.1f}"] if minute not in (300, 620) else ["", ""]
        rows.append(f"{clock(minute)},{','.join(cells)}")
    return rows


def parking(random_: random.Random) -> list[str]:
    """A reading every ten minutes; one of a hundred makes no sense."""
    rows = []
    for minute in range(0, 1440, 10):
        for park, places in PARKS.items():
            full = min(1.0, 0.15 + 0.9 * exp(-(((minute - 780) / 240) ** 2)) + random_.uniform(-0.03, 0.03))
            taken = round(places * full) if random_.random() > 0.01 else places + 17
            rows.append(f"{clock(minute, 30)},{park},{taken},{places}")
    return rows


def write(name: str, header: str, rows: Iterable[str]) -> None:
    with (FOLDER / name).open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write("\n".join([header, *rows, ""]).encode())


def main() -> None:
    """Write the background and the three streams beside this file."""
    (FOLDER / "background.ttl").write_text(background(), encoding="utf-8")
    write("traffic.csv.gz", "time,section,speed,vehicles", traffic(random.Random(SEED)))
    write("weather.csv.gz", "time,wind,temperature", weather(random.Random(SEED + 1)))
    write("parking.csv.gz", "time,park,taken,places", parking(random.Random(SEED + 2)))


if __name__ == "__main__":
    main()
