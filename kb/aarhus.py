"""Make what the section table of the Aarhus job does not say: which sections have a recorded sensor, and where car parks are.

    python kb/aarhus.py [--data FOLDER] [--output FILE]

The output has `city:watches` from the sensor of each stream to its section, the car parks with their coordinates, and `city:near`
between a watched section and a car park at most 500 m from the straight line between its ends. The rest of the table is
`knowledge.tables` of `configs/aarhus.yaml`.
The data folder is `DOTR_DATA`, by default `../shared/data` relative to this repository.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import re
import sys
from collections.abc import Iterator, Mapping
from math import cos, hypot, radians
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
NEAR_METRES = 500.0

PREFIXES = """\
@prefix city: <http://example.org/city#> .
@prefix section: <http://example.org/city/section/> .
@prefix park: <http://example.org/city/park/> .
@prefix sensor: <http://www.insight-centre.org/dataset/SampleEventService#> .
@prefix ct: <http://www.insight-centre.org/citytraffic#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""

_LATITUDE = re.compile(r':FoI-parking-(\d+)\b.*?hasStartLatitude\s+"([^"]+)".*?hasStartLongitude\s+"([^"]+)"', re.DOTALL)
_PROPERTY = re.compile(r":parkingproperty-(\d+)\s.*?isPropertyOf\s+:FoI-parking-(\d+)", re.DOTALL)
_OBSERVES = re.compile(r":AarhusParkingData(\w+)\s+a\s+ces:PrimitiveEventService\s*;\s*ssn:observes\s+:parkingproperty-(\d+)")


Point = tuple[float, float]
"""Latitude and longitude in degrees."""


def metres(place: Point, start: Point, end: Point) -> float:
    """The distance of a place from the straight line between two points, on a plane that touches the Earth at the place (a sphere of
    6,371 km: right to a few centimetres at these distances).

    >>> round(metres((56.0, 10.0), (57.0, 10.0), (58.0, 10.0)))
    111195
    >>> round(metres((56.0, 10.0), (56.01, 9.0), (56.01, 11.0)))
    1112
    """

    def plane(point: Point) -> tuple[float, float]:
        return 6_371_000 * radians(point[1] - place[1]) * cos(radians(place[0])), 6_371_000 * radians(point[0] - place[0])

    (x, y), (end_x, end_y) = plane(start), plane(end)
    dx, dy = end_x - x, end_y - y
    along = max(0.0, min(1.0, -(x * dx + y * dy) / (dx * dx + dy * dy))) if dx or dy else 0.0
    return hypot(x + along * dx, y + along * dy)


def car_parks(repository: str) -> Iterator[tuple[str, Point]]:
    """The name and place of each car park of the sensor repository's text (N3), in the order of their names."""
    places = {number: (float(latitude), float(longitude)) for number, latitude, longitude in _LATITUDE.findall(repository)}
    features = dict(_PROPERTY.findall(repository))
    for name, observed in sorted(_OBSERVES.findall(repository)):
        yield name, places[features[observed]]


def section(row: Mapping[str, str], parks: list[tuple[str, Point]]) -> str:
    """The Turtle of one row of the section table."""
    first, second = ((float(row[f"POINT_{end}_LAT"]), float(row[f"POINT_{end}_LNG"])) for end in (1, 2))
    near = [f"park:{park}" for park, place in parks if metres(place, first, second) <= NEAR_METRES]
    watched = f"sensor:AarhusTrafficData{row['REPORT_ID']} city:watches section:{row['REPORT_ID']} ."
    return f"{watched}\nsection:{row['REPORT_ID']} city:near {', '.join(near)} ." if near else watched


def background(data: Path) -> Iterator[str]:
    """The Turtle of the whole background, a block a subject."""
    with gzip.open(data / "citybench" / "SensorRepository.n3.gz", "rt", encoding="utf-8") as file:
        parks = list(car_parks(file.read()))
    yield PREFIXES
    for name, (latitude, longitude) in parks:
        yield f'park:{name} a city:CarPark ; ct:hasLat "{latitude}"^^xsd:double ; ct:hasLon "{longitude}"^^xsd:double .'
    with gzip.open(data / "citybench" / "trafficMetaData.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["REPORT_ID"]))
    watched = {
        path.name.removeprefix("AarhusTrafficData").split(".")[0] for path in (data / "citybench" / "streams").glob("AarhusTrafficData*")
    }
    for row in rows:
        if row["REPORT_ID"] in watched:
            yield section(row, parks)


def main() -> int:
    """Write the background; 2 where the data are not to be found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DOTR_DATA") or REPOSITORY.parent / "shared" / "data"))
    parser.add_argument("--output", type=Path, default=REPOSITORY / "out" / "aarhus" / "background.ttl")
    options = parser.parse_args()
    try:
        text = "\n".join(background(options.data)) + "\n"
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"{error.filename}: {error.strerror}. DOTR_DATA or --data names the folder that holds citybench/.", file=sys.stderr)  # noqa: T201
        return 2
    print(f"{options.output}: {text.count('city:watches')} road sections, {text.count('a city:CarPark')} car parks", file=sys.stderr)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
