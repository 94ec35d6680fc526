"""Inputs with a map on Spark: batches that end inside a message give the output of a run in process; so do the names of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr.commands import main

pytestmark = pytest.mark.spark

RULES = """PREFIX : <http://e/>
query T = [ SELECT ?room ?v ?no WHERE { ?room :temp ?v ; :part/:no ?no FILTER(?v > 20) } ]
rule Hot define Hot = [ dotr_id a :Hot ; :room ?room ; :no ?no ]
from T
and not T as Before [ FILTER(?room = T.?room && ?no = T.?no) ] within 2 min from T
with Hot.?room = T.?room, Hot.?no = T.?no
rule Known define Known = [ dotr_id :file ?file ; :no ?no ; :value ?value ]
from F = [ SELECT ?file ?no ?value WHERE { ?x :file ?file ; :no ?no ; :value ?value } ]
with Known.?file = F.?file, Known.?no = F.?no, Known.?value = F.?value
"""
CONFIG = """name: rooms
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - name: rooms
    format: json
    path: rooms.json
    time: at
    each: "data[]"
    time_format: "%d.%m.%Y %H:%M"
    time_zone: Europe/Berlin
    map: "<{id}> :temp {temperature.value} ; :part [ :no {parts[].n} ] ; :sent {^.sent} ."
  - name: values
    format: text
    path: "plant/*/*.txt"
    time: $value
    map: "[] :file '{$file}' ; :no '{$stem} {$file[-2]} {$number}' ; :value {$value} ."
  - name: rows
    format: csv
    path: "plant/*/*.csv"
    time: at
    columns: [at, v]
    map: "[] :file {$file[-1]} ; :no {$number} ; :value {v} ."
  - name: halls
    format: json
    path: halls.json
    time: ^.halls[].at[]
    each: ["halls[].at[]", "halls[].temp[]"]
    map: "<{^.halls[].id}> :temp {^.halls[].temp[]} ; :part [ :no {^.parts[].n} ] ."
output: [ { path: out } ]
dead_letter: dead
spark: { master: "local[2]", checkpoint: ck, batch: 20 }
"""


def test_batches_end_inside_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.dotr").write_text(RULES)
    Path("c.yaml").write_text(CONFIG)
    messages = [
        {
            "sent": number,
            "data": [
                {
                    "id": f"urn:room:{room}",
                    "at": f"01.03.2024 08:{2 * number + room % 2:02d}",
                    "temperature": {"value": [1] if (number, room) == (3, 2) else 18 + (number + room) % 7},
                    "parts": [{"n": 1}, {"n": 2}],
                }
                for room in (0, 2, 4, 1, 3)
            ],
        }
        for number in range(25)
    ]
    Path("rooms.json").write_text(json.dumps(messages, indent=1))
    times = [f"2024-03-01T07:{minute:02d}:10Z" for minute in range(0, 50, 2)]
    for hall in ("a", "b"):
        Path("plant", hall).mkdir(parents=True)
        Path(f"plant/{hall}/pump-1.txt").write_text("\n".join([*times[:9], "", "soon", *times[9:]]))
        Path(f"plant/{hall}/pump-2.csv").write_text("\n".join([*(f"{time},{number}" for number, time in enumerate(times)), "broken", ""]))
    start = 1_709_276_400  # 8 o'clock, as above; two objects a line, and one whose lists differ
    halls = [
        [
            {"id": f"urn:hall:{hall}", "at": [start + 240 * number + hall, start + 240 * number + hall + 60], "temp": [17 + number % 9, 25]}
            for hall in (0, 1)
        ]
        for number in range(12)
    ]
    halls[7][1]["temp"] = [1]
    texts = [json.dumps({"parts": [{"n": 1}, {"n": 2}], "halls": each}) for each in halls]
    Path("halls.json").write_text("".join(texts[number] + texts[number + 1] + "\n" for number in range(0, 12, 2)))
    assert main(["run", "c.yaml", "--engine", "local", "--quiet", "--set", "output.0.path=local", "--set", "dead_letter=rejected"]) == 0
    assert main(["run", "c.yaml", "--engine", "spark", "--quiet"]) == 0
    for local, spark, parts in (("local", "out", [""]), ("rejected", "dead", ['"input": "rooms"', '"input": "halls"'])):
        files = sorted(Path(spark).glob("*.ndjson"))
        lines = "".join(path.read_text() for path in files).splitlines()
        for part in parts:  # dead letters of one input are in its order
            assert [line for line in lines if part in line] == [line for line in Path(local).read_text().splitlines() if part in line] != []
    assert len(list(Path("out").glob("*.ndjson"))) > 2
    events = Path("local").read_text()
    assert "plant/b/pump-1.txt" in events
    assert "pump-1 b 27" in events
