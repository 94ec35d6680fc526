"""The default scenario of the DOTR paper (section 5): 10 rules, 2 queries each, 1 triple a graph, 11 Datalog rules, 10,000 triples.

    python benchmarks/scenario.py [--graphs 30000] [--rules 10] [--background 10000] [--datalog 11]

Prints microseconds of CPU a graph from NDJSON text to output graphs in a file, in this process (the paper: 12,090). Compilation is not
counted.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from dotr.config import read_config
from dotr.runtimes.local import run_local
from dotr.runtimes.pipeline import build

PREFIX = "http://example.org/dotr#"

RULE = """\
rule R{number}
define CE{number} = [dotr_id1 :has_val ?num.]
from A = [SELECT ?sensorA ?valA ?roomA WHERE
  {{ ?sensorA :read_valA ?valA. ?sensorA :is_in_room ?roomA. FILTER(?valA > {limit}) }} ]
and last B = [SELECT ?sensorB ?valB ?roomB WHERE
  {{ ?sensorB :read_valB ?valB. ?sensorB :is_in_room ?roomB. FILTER(?valB > {limit} && ?roomB = A.?roomA) }} ] within 30s from A
with CE{number}.?num = A.?valA
"""


def write_scenario(folder: Path, graphs: int, rules: int, background: int, datalog: int, seed: int = 1) -> Path:
    """The scenario's files; returns the configuration."""
    random_ = random.Random(seed)
    rooms, sensors = 5, 10
    kb = [f"@prefix : <{PREFIX}> ."]
    kb += [f":sensor{s} :equips :object{s} ." for s in range(sensors)]
    kb += [f":object{s} :placed_in :room{s // 2} ." for s in range(sensors)]
    kb += [f":room{r} :number {r} ." for r in range(rooms)]
    kb += [f":sensor{k % sensors} :attribute{k % 97} :value{k} ." for k in range(background)]
    (folder / "kb.ttl").write_text("\n".join(kb), encoding="utf-8")
    lines = [f"@prefix : <{PREFIX}> .", ":is_in_room(?S, ?R) :- :equips(?S, ?O), :placed_in(?O, ?R) ."]
    lines += [f":near{k}(?S, ?R) :- :attribute{k}(?S, ?O), :placed_in(?O, ?R) ." for k in range(datalog - 1)]
    (folder / "kb.dlog").write_text("\n".join(lines), encoding="utf-8")
    texts = [f"PREFIX : <{PREFIX}>"] + [RULE.format(number=number, limit=number) for number in range(rules)]
    (folder / "rules.dotr").write_text("\n".join(texts), encoding="utf-8")
    with (folder / "stream.ndjson").open("w", encoding="utf-8") as file:
        for second in range(graphs):
            which = "A" if random_.random() < 0.2 else "B"
            graph = f":sensor{random_.randrange(sensors)} :read_val{which} {random_.randrange(rules, 1000 + rules)} ."
            file.write(json.dumps({"time": second, "graph": graph}) + "\n")
    config = folder / "scenario.yaml"
    config.write_text(
        json.dumps(
            {
                "name": "scenario",
                "prefixes": {"": PREFIX},
                "knowledge": {"graphs": ["kb.ttl"], "datalog": ["kb.dlog"]},
                "rules": ["rules.dotr"],
                "input": [{"name": "stream", "format": "ndjson", "path": "stream.ndjson"}],
                "output": [{"format": "ndjson", "path": "out.ndjson"}],
                "engine": "local",
            }
        ),
        encoding="utf-8",
    )
    return config


def measure(config: Path) -> tuple[float, int, int]:
    """Microseconds of CPU a graph, graphs, and output events of one run."""
    pipeline = build(read_config(str(config)), fresh=True, on_spark=False)
    start = time.process_time()
    totals = run_local(pipeline, lambda totals: None)
    return (time.process_time() - start) / totals.elements * 1e6, totals.elements, totals.events


def main() -> None:
    """Run the scenario and print what it cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=30_000)
    parser.add_argument("--rules", type=int, default=10)
    parser.add_argument("--background", type=int, default=10_000)
    parser.add_argument("--datalog", type=int, default=11)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = write_scenario(Path(folder), options.graphs, options.rules, options.background, options.datalog)
        found = sorted(measure(config) for _ in range(options.runs))
        micros, graphs, events = found[len(found) // 2]
        print(f"{micros:.1f} µs a graph (best {found[0][0]:.1f}, worst {found[-1][0]:.1f}): {graphs:,} graphs, {events:,} events")  # noqa: T201


if __name__ == "__main__":
    main()
