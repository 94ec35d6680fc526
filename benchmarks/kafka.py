"""CPU time of a job over Kafka beside that of the same job on files: input and output are topics, or files.

    python -m benchmarks.kafka [--elements 60000] [--rounds 3] [--engine local|spark] [--in-only | --out-only]

A broker is started for it, whose CPU is not counted; all processes of the command are, including JVM and workers. Both jobs
read the same records (4 triples each, NDJSON) and write the same events (one for every third record, NDJSON). They take turns; the figure
is the ratio of the least CPU times.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.kafka_broker import Broker, running_broker
from tests.support.paths import ROOT

RULES = """\
PREFIX : <http://e/>
query Reading = [ SELECT ?room ?value WHERE { ?r a :Reading ; :room ?room ; :value ?value } ]
rule High define High = [ dotr_id1 a :High ; :room ?room ; :value ?value ]
from Reading as Now [ FILTER(?value >= 67) ]
and last Reading as Before [ FILTER(?room = Now.?room) ] within 1 h from Now
with High.?room = Now.?room, High.?value = Now.?value
"""
CONFIG = """\
name: kafka-benchmark
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, {input} }}]
output: [{{ format: ndjson, {output} }}]
spark: {{ master: "local[2]", checkpoint: {name}-checkpoint, batch: 20000, conf: {{ spark.ui.enabled: false }} }}
"""


def records(number: int) -> list[str]:
    """Readings of 50 rooms, one a second."""
    choose = random.Random(1)
    graph = "[] a :Reading ; :room :r{} ; :value {} ; :of :s{} ."
    return [
        json.dumps({"time": at, "graph": graph.format(choose.randrange(50), choose.randrange(100), choose.randrange(500))})
        for at in range(number)
    ]


def cpu_seconds(folder: Path, name: str, engine: str) -> float:
    """CPU seconds of a run, over all processes of its session, sampled every 50 ms."""
    command = [sys.executable, "-m", "dotr", "run", f"{name}.yaml", "--engine", engine, "--fresh", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
    ticks: dict[int, int] = {}
    while process.poll() is None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == process.pid:
                    ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
        time.sleep(0.05)
    assert process.returncode == 0
    return sum(ticks.values()) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--in-only", action="store_true", help="topics are read, and files written")
    only.add_argument("--out-only", action="store_true", help="files are read, and topics written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-benchmark-") as name, running_broker(Path(name) / "broker") as broker:
        compare(Path(name), broker, options)


def compare(folder: Path, broker: Broker, options: argparse.Namespace) -> None:
    """Run both jobs in turns, and print their CPU."""
    lines = records(options.elements)
    (folder / "a.ndjson").write_text("\n".join(lines))
    (folder / "r.dotr").write_text(RULES)
    broker.create("in")
    broker.produce_values("in", lines)
    server = f'bootstrap.servers: "{broker.servers}"'
    jobs = {
        "files": ("path: a.ndjson", "path: files-out"),
        "kafka": (
            "path: a.ndjson" if options.out_only else f"kafka: {{ {server}, subscribe: in, endingOffsets: latest }}",
            "path: kafka-out" if options.in_only else f"kafka: {{ {server}, topic: out, key: room }}",
        ),
    }
    for name, (source, target) in jobs.items():
        (folder / f"{name}.yaml").write_text(CONFIG.format(name=name, input=source, output=target))
    least = dict.fromkeys(jobs, float("inf"))
    for number in range(options.rounds):
        broker.create("out", 3)
        took = {name: cpu_seconds(folder, name, options.engine) for name in jobs}
        if not options.in_only:
            written = folder / "files-out"
            files = [written] if written.is_file() else sorted(written.iterdir())
            assert sorted(broker.values("out")) == sorted(line for file in files for line in file.read_text().splitlines())
        broker.delete("out")
        least = {name: min(least[name], seconds) for name, seconds in took.items()}
        sys.stdout.write(f"round {number}: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in took.items()) + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"{options.elements:,} elements, {options.engine}: kafka / files = {least['kafka'] / least['files']:.2f}\n")


if __name__ == "__main__":
    main()
