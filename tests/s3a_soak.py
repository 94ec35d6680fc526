"""A pipeline of which all is in S3: configuration, rules, knowledge, input, outputs, dead letters and checkpoint, run, killed and run on.

    python -m tests.s3a_soak [--kills N] [--instants N] [--seed N]

Spark's own access is S3A, which needs the AWS SDK (686 MB, fetched once a machine); ours is obstore; the server is moto. The output is that
of the same pipeline in process on the disk, each event once, whatever the kills (SIGKILL to all processes of the run, at random times).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from dotr.evaluation.files.stores import Location, configure_storage
from tests.support.maven import OF_SOAKS, fetch
from tests.support.object_server import ACCESS_VARIABLE, S3, SECRET, SECRET_VARIABLE, running_server

JARS: Final = ("org.apache.hadoop:hadoop-aws:3.5.0", *OF_SOAKS)
_RULES: Final = """\
PREFIX : <http://e/>
rule Fire
define Fire = [ dotr_id a :Fire ; :room ?room ]
from Smoke = [ SELECT ?room1 WHERE { ?s a :Smoke ; :room ?room1 } ]
and last Heat = [ SELECT ?room2 WHERE { ?h a :Heat ; :room ?room2 . FILTER (?room2 = Smoke.?room1) } ] within 5 min from Smoke
with Fire.?room = Smoke.?room1
"""
_CONFIG: Final = """\
name: lake
prefixes: {{ "": "http://e/" }}
rules: [fire.dotr]
input: [{{ name: sensors, format: ndjson, path: "in/*.ndjson" }}]
output: [{{ format: ndjson, path: {out} }}]
dead_letter: {dead}
"""
_SPARK: Final = """\
{storage}spark:
  checkpoint: {url}/checkpoint
  batch: {batch}
  master: local[2]
  conf:
    spark.jars: {jars}
    spark.hadoop.fs.s3a.connection.expect.continue: false
    spark.hadoop.fs.s3a.optimized.copy.from.local.enabled: false
    spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled: true
"""


def _inputs(instants: int, seed: int) -> list[bytes]:
    """Three files of one stream; every hundredth record cannot be read."""
    draw = random.Random(seed)
    lines = []
    for at in range(instants):
        kind, room = draw.choice(("Heat", "Smoke", "Calm")), f":r{draw.randrange(50)}"
        graph = f":s{at} a :{kind} ; :room {room} ." if at % 100 else ":s a"
        lines.append(json.dumps({"time": at, "graph": graph}).encode() + b"\n")
    third = len(lines) // 3 + 1
    return [b"".join(lines[begin : begin + third]) for begin in range(0, len(lines), third)]


def _run(config: str, *options: str, kill_after: float | None = None) -> int | None:
    """The exit code of a run; None where it was killed."""
    process = subprocess.Popen([sys.executable, "-m", "dotr", "run", config, *options], start_new_session=True)
    try:
        return process.wait(kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: the command, the JVM and the workers
        process.wait()
        return None


def _lines(place: str) -> Counter[bytes]:
    files = [each.location for each in Location(place).list()] or [Location(place)]
    return Counter(line for file in files if file.look() is not None for line in file.read().splitlines())


def soak(s3: S3, folder: Path, kills: int, instants: int, seed: int) -> str:
    """The problem of a soak; empty if there is none."""
    url = f"s3a://{s3.bucket()}/fires"
    configure_storage(s3.settings())
    parts = {"fire.dotr": _RULES.encode()} | {f"in/{number}.ndjson": text for number, text in enumerate(_inputs(instants, seed))}
    for name, content in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        (Location(url) / name).put(content)
    jars = ",".join(str(fetch(each)) for each in JARS)
    (folder / "lake.yaml").write_text(_CONFIG.format(out="out.ndjson", dead="dead.ndjson") + "engine: local\n")
    own = _SPARK.format(storage=s3.yaml, url=url, batch=max(instants // 10, 1), jars=jars)
    (Location(url) / "lake.yaml").put((_CONFIG.format(out="out", dead="dead") + own).encode())
    os.environ |= {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_ACCESS_KEY_ID": os.environ[ACCESS_VARIABLE], "AWS_SECRET_ACCESS_KEY": SECRET}
    if _run(str(folder / "lake.yaml")) != 0:
        return "the run in process fails"
    draw, begin = random.Random(seed), time.monotonic()
    for number in range(kills):
        code = _run(f"{url}/lake.yaml", kill_after=draw.uniform(10, 60))
        sys.stdout.write(f"{time.monotonic() - begin:.0f} s: run {number + 1} {'killed' if code is None else f'ended with {code}'}\n")
        if code not in (None, 0):
            return f"a run ends with {code}"
    if (code := _run(f"{url}/lake.yaml")) != 0:
        return f"the last run ends with {code}"
    for ours, theirs in ((f"{url}/out", "out.ndjson"), (f"{url}/dead", "dead.ndjson")):
        found, expected = _lines(ours), _lines(str(folder / theirs))
        sys.stdout.write(f"{ours}: {sum(found.values())} lines, {sum(expected.values())} expected\n")
        if ours.endswith("out") and found != expected:
            return f"{ours} differs: {list((found - expected).items())[:3]} too many, {list((expected - found).items())[:3]} missing"
        if sum(found.values()) != sum(expected.values()):
            return f"{ours} has another number of lines"
    told = [each.location for each in Location(url).list(recursive=True) if SECRET.encode() in each.location.read()]
    return f"the secret stands in {told}" if told else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--instants", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    sys.stdout.write(f"--seed {options.seed}\n")
    os.environ |= {ACCESS_VARIABLE: "AKIATEST", SECRET_VARIABLE: SECRET}
    with running_server() as s3, tempfile.TemporaryDirectory() as folder:
        sys.exit(soak(s3, Path(folder), options.kills, options.instants, options.seed) or 0)


if __name__ == "__main__":
    main()
