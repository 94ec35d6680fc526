"""Latency from a file renamed into a watched folder to its output, on Spark `local[2]` and in process.

    python -m benchmarks.latency [--files 30] [--engine spark] [--state]

One rule without a clause, one element a file, every element an instant, so latency is that of the
runtime alone. With `--state` the rule has a window, so that on Spark an operator keeps state. A
file is sent when the output of the one before exists. The first files, during which the JVM and the
workers start, are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RULE = "PREFIX : <http://e/>\ndefine Out = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?x a :A } ] %swith Out.?x = A.?x\n"
CLAUSE = "and not B = [ SELECT ?x WHERE { ?x a :A . FILTER(?x = A.?x) } ] within 1 min from A "
CONFIG = """\
name: latency
prefixes: { "": "http://e/" }
rules: [r.dotr]
input: [{ name: a, format: ndjson, path: in/*.ndjson, watch: true, settle: 0 s, one_per_instant: true }]
output: [{ path: out/out.ndjson }]
spark: { master: "local[2]", checkpoint: out/checkpoint }
"""
WARM_UP = 5
PATIENCE_SECONDS = 600


def lines(output: Path) -> int:
    """Number of events."""
    files = sorted(output.glob("0*.ndjson")) or ([output] if output.is_file() else [])
    return sum(file.read_bytes().count(b"\n") for file in files)


def measure(folder: Path, engine: str, files: int, *, state: bool) -> list[float]:
    """Seconds from renaming a file to its event, for each file after the first few."""
    (folder / "in").mkdir()
    (folder / "r.dotr").write_text(RULE % (CLAUSE if state else ""))
    (folder / "c.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "dotr", "run", str(folder / "c.yaml"), "--engine", engine, "--quiet"]
    root = str(Path(__file__).resolve().parent.parent)
    # A file that exists at the start is an input of its own, which has ended: its event is written with that of the first new file.
    (folder / "in" / "000000.ndjson").write_text(json.dumps({"time": 0, "graph": ":a0 a :A ."}) + "\n")
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": root})
    output = folder / "out" / "out.ndjson"
    while not output.exists() and not (folder / "out" / "checkpoint" / "dotr.json").exists():
        time.sleep(0.1)
    found = []
    try:
        for number in range(1, 1 + WARM_UP + files):
            new = folder / f"{number}.ndjson"
            new.write_text(json.dumps({"time": number, "graph": f":a{number} a :A ."}) + "\n")
            began = time.perf_counter()
            new.rename(folder / "in" / f"{number:06d}.ndjson")
            while lines(output) <= number:
                if process.poll() is not None or time.perf_counter() - began > PATIENCE_SECONDS:
                    raise SystemExit(f"nothing came for file {number}")
                time.sleep(0.002)
            found.append(time.perf_counter() - began)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    return found[WARM_UP:]


def main() -> None:
    """Measure, and print the latencies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--state", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = sorted(measure(Path(folder), options.engine, options.files, state=options.state))
    median, most = statistics.median(found), found[int(0.95 * (len(found) - 1))]
    kind = f"{options.engine}{' with state' if options.state else ''}"
    print(f"{kind}: least {found[0] * 1000:.0f} ms, median {median * 1000:.0f} ms, 95 % within {most * 1000:.0f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
