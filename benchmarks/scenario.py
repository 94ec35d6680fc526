"""The default scenario of the DOTR paper (section 5): 10 rules, 2 queries each, 1 triple a graph,
11 Datalog rules, 10,000 triples.

    python -m benchmarks.scenario [--graphs 30000] [--rules 10] [--background 10000] [--datalog 11]
                                  [--matching 2] [--filters range] [--one-per-instant]

Every rule matches, as in the paper, unless `--matching` sets the average number of matching rules.
The rules differ in a threshold, in the bounds of a range, or in the constant that they compare with.
Prints microseconds of CPU a graph from NDJSON text to output graphs in a file, in this process (the
paper: 12,090). Compilation is excluded, except that of the matchers of stage two, which a run
compiles when it begins.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config

PREFIX = "http://example.org/dotr#"

RULE = """\
rule R{number}
define CE{number} = [dotr_id1 :has_val ?num.]
from A = [SELECT ?sensorA ?valA ?roomA WHERE
  {{ ?sensorA :read_valA ?valA. ?sensorA :is_in_room ?roomA. FILTER({a}) }} ]
and last B = [SELECT ?sensorB ?valB ?roomB WHERE
  {{ ?sensorB :read_valB ?valB. ?sensorB :is_in_room ?roomB. FILTER({b} && ?roomB = A.?roomA) }} ] within 30s from A
with CE{number}.?num = A.?valA
"""

DATALOG_RULE = ":is_in_room(?S, ?R) :- :equips(?S, ?O), :placed_in(?O, ?R) ."

FILTERS = {
    "threshold": "{v} > {n}",
    "range": "{v} >= {n} && {v} < {n} + {width}",
    "bounds": "{v} >= {n} && {v} < {end}",
    "equality": "{v} = {n}",
    "double": "{v} > {n}e0",
    "date": '{v} > "{date}"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
    "string": '{v} = "s{n}"',
}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a scenario: `matching` rules match on average, None: all of them.

    Every graph is an instant; `single`: the configuration declares this.
    """

    graphs: int = 30_000
    rules: int = 10
    background: int = 10_000
    datalog: int = 11
    matching: int | None = None
    filters: str = "threshold"
    single: bool = False

    def condition(self, number: int, variable: str) -> str:
        """The filter of a rule's query on the value of a reading."""
        return FILTERS[self.filters].format(v=variable, n=number, end=number + self.width, width=self.width, date=day(number))

    @property
    def width(self) -> int:
        return self.matching or self.rules

    def value(self, random_: random.Random) -> str:
        """A value that a sensor reads."""
        match self.filters:
            case "threshold" | "double" | "date":
                number = random_.randrange(self.rules, 1000 + self.rules) if self.matching is None else random_.randrange(2 * self.matching)
                return f'"{day(number)}"^^<http://www.w3.org/2001/XMLSchema#dateTime>' if self.filters == "date" else str(number)
            case "string":
                return f'"s{random_.randrange(self.rules)}"'
            case _:
                return str(random_.randrange(self.rules))


def day(number: int) -> str:
    """A date-time that is later for a greater number."""
    return (datetime(2000, 1, 1) + timedelta(days=number)).isoformat()


def write_scenario(folder: Path, size: Size, seed: int = 1) -> Path:
    """The scenario's files; returns the configuration."""
    random_ = random.Random(seed)
    rooms, sensors = 5, 10
    kb = [f"@prefix : <{PREFIX}> ."]
    kb += [f":sensor{s} :equips :object{s} ." for s in range(sensors)]
    kb += [f":object{s} :placed_in :room{s // 2} ." for s in range(sensors)]
    kb += [f":room{r} :number {r} ." for r in range(rooms)]
    kb += [f":sensor{k % sensors} :attribute{k % 97} :value{k} ." for k in range(size.background)]
    (folder / "kb.ttl").write_text("\n".join(kb), encoding="utf-8")
    lines = [f"@prefix : <{PREFIX}> .", DATALOG_RULE]
    lines += [f":near{k}(?S, ?R) :- :attribute{k}(?S, ?O), :placed_in(?O, ?R) ." for k in range(size.datalog - 1)]
    (folder / "kb.dlog").write_text("\n".join(lines), encoding="utf-8")
    texts = [f"PREFIX : <{PREFIX}>"]
    texts += [RULE.format(number=n, a=size.condition(n, "?valA"), b=size.condition(n, "?valB")) for n in range(size.rules)]
    (folder / "rules.dotr").write_text("\n".join(texts), encoding="utf-8")
    with (folder / "stream.ndjson").open("w", encoding="utf-8") as file:
        for second in range(size.graphs):
            which = "A" if random_.random() < 0.2 else "B"
            graph = f":sensor{random_.randrange(sensors)} :read_val{which} {size.value(random_)} ."
            file.write(json.dumps({"time": second, "graph": graph}) + "\n")
    config = folder / "scenario.yaml"
    config.write_text(
        json.dumps(
            {
                "name": "scenario",
                "prefixes": {"": PREFIX},
                "knowledge": {"graphs": ["kb.ttl"], "datalog": ["kb.dlog"]},
                "rules": ["rules.dotr"],
                "input": [{"name": "stream", "format": "ndjson", "path": "stream.ndjson", "one_per_instant": size.single}],
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
    """Run the scenario and print its cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=30_000)
    parser.add_argument("--rules", type=int, default=10)
    parser.add_argument("--background", type=int, default=10_000)
    parser.add_argument("--datalog", type=int, default=11)
    parser.add_argument("--matching", type=int)
    parser.add_argument("--filters", choices=list(FILTERS), default="threshold")
    parser.add_argument("--one-per-instant", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        single = options.one_per_instant
        size = Size(options.graphs, options.rules, options.background, options.datalog, options.matching, options.filters, single)
        config = write_scenario(Path(folder), size)
        found = sorted(measure(config) for _ in range(options.runs))
        micros, graphs, events = found[len(found) // 2]
        each = f", {micros * graphs / events:.1f} µs an event" if events else ""
        span = f"(best {found[0][0]:.1f}, worst {found[-1][0]:.1f})"
        print(f"{micros:.1f} µs a graph {span}: {graphs:,} graphs, {events:,} events{each}")  # noqa: T201


if __name__ == "__main__":
    main()
