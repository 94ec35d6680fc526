"""Pipelines in a row, each of which reads what the one before it publishes: by Server-Sent Events, a WebSocket, a Linked Data Event Stream.

    python -m tests.serve_chain [--rounds 3] [--seed 1]

Each of the four pipelines is killed once with SIGKILL (its driver, its JVM, or everything), at a moment that is chosen at random, and the
command is given again. Each has the events of one run in process over files in the end, the last one as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.victims import Found, Phase, Run, batch_phase

CONFIG = """
name: stage{stage}
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, {input} }}]
output: [{{ path: {out} }}, {{ serve: {{ listen: {port}, keep: {{ elements: 100000 }}, linger: 10 min }} }}]
dead_letter: {out}-dead
spark: {{ master: "local[1]", checkpoint: {out}-checkpoint, batch: 60, buckets: 1 }}
"""
RULES = """
PREFIX : <http://e/>
rule Out define Out = [ [] :v ?x ; :w ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 5 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
STAGES = range(4)
SOURCES = (
    "format: ndjson, path: in.ndjson",
    'format: nquads, sse: {{ url: "http://127.0.0.1:{port}/events?since={start}&format=nquads" }}',
    'format: jsonld, websocket: {{ url: "ws://127.0.0.1:{port}/ws?since={start}", resume: true }}',
    'format: trig, idle: 3 s, ldes: {{ url: "http://127.0.0.1:{port}/ldes", poll: 100 ms }}',
)
_PAUSE = 0.05


def _time(number: int, *, is_dated: bool) -> int | str:
    return f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z" if is_dated else number


def _lines(path: Path) -> list[str]:
    files = sorted(path.glob("*.ndjson")) if path.is_dir() else [path] if path.exists() else []
    return [line for file in files for line in file.read_text().splitlines()]


class Chain:
    """The pipelines in a folder, and the events that each of them is to have."""

    def __init__(self, folder: Path, elements: int, choose: random.Random) -> None:
        self.folder, self.found, self.choose = folder, Found(), choose
        is_dated = choose.random() < 0.5
        (folder / "r.dotr").write_text(RULES)
        texts = [
            json.dumps({"time": _time(n // 2, is_dated=is_dated), "graph": f":s :v {choose.randrange(50)} ."}) for n in range(elements)
        ]
        (folder / "in.ndjson").write_text("\n".join(texts) + "\n")
        ports = [free_port() for _ in STAGES]
        self.runs = []
        for stage in STAGES:
            source = SOURCES[stage].format(port=ports[stage - 1], start=_time(0, is_dated=is_dated))
            path = folder / f"stage{stage}.yaml"
            path.write_text(CONFIG.format(stage=stage, input=source, out=f"out{stage}", port=ports[stage]))
            self.runs.append(Run(path, self.found))
            expected = folder / f"expected{stage}.yaml"
            source = f"format: ndjson, path: {'in.ndjson' if stage == 0 else f'expected{stage - 1}'}"
            text = CONFIG.format(stage=stage, input=source, out=f"expected{stage}", port=ports[stage])
            expected.write_text(text.replace("linger: 10 min", "linger: 0 s"))
            with chdir(folder):
                run_local(build(read_config(expected.name), fresh=False, on_spark=False), lambda totals: None)
        self.expected = [_lines(folder / f"expected{stage}") for stage in STAGES]
        self.found.events = len(self.expected[-1])

    def lines(self, stage: int) -> list[str]:
        """The events that a pipeline has written."""
        return _lines(self.folder / f"out{stage}")

    def compare(self) -> None:
        """Note what differs."""
        for stage in STAGES:
            lines, expected = self.lines(stage), self.expected[stage]
            if lines != expected:
                place = next((n for n, pair in enumerate(zip(lines, expected, strict=False)) if pair[0] != pair[1]), len(lines))
                what = f"{len(lines):,} of {len(expected):,} events, which differ from {place} on: {lines[place : place + 2]}"
                self.found.problems.append(f"pipeline {stage} has {what}")
            if dead := _lines(self.folder / f"out{stage}-dead"):
                self.found.problems.append(f"pipeline {stage} has {len(dead)} dead letters: {dead[:2]}")

    def moment(self, stage: int) -> tuple[int, Phase]:
        """The last planned batch of a pipeline, and its phase."""
        out = self.folder / f"out{stage}"
        return batch_phase(self.folder / f"out{stage}-checkpoint", [out], self.runs[stage].started)


def run_chain(chain: Chain, kills: Sequence[int], *options: str) -> Found:
    """Run all pipelines until the last one has its events, and kill those of some numbers once each."""
    choose, runs = chain.choose, chain.runs
    least = {stage: choose.randrange(len(chain.expected[stage]) * 2 // 3) for stage in kills}
    begin = time.monotonic()
    for run in runs:
        run.start(*options)
    deadline = time.monotonic() + 4 * PATIENCE
    try:
        while time.monotonic() < deadline and (least or len(chain.lines(STAGES[-1])) < len(chain.expected[-1])):
            time.sleep(_PAUSE)
            for stage, run in enumerate(runs):
                if run.process.poll() is not None:
                    raise RuntimeError(f"pipeline {stage} has ended with {run.ended()}: {run.stderr_text[-2000:]}")
                if len(chain.lines(stage)) < least.get(stage, sys.maxsize):
                    continue
                if run.kill(choose.choice(["driver", "jvm", "all"]), choose, partial(chain.moment, stage), [*Phase]):
                    run.ended()
                    print(f"pipeline {stage}: {chain.found.kills[-1]}, with {len(chain.lines(stage)):,} events", flush=True)  # noqa: T201
                    del least[stage]
                    time.sleep(choose.choice([0, 0, 2]))
                    run.start(*options)
        for run in reversed(runs):
            run.process.terminate()
        for stage, run in enumerate(runs):
            if (code := run.ended()) not in (0, -signal.SIGTERM):
                chain.found.problems.append(f"pipeline {stage} has ended with {code}: {run.stderr_text[-2000:]}")
        chain.compare()
    finally:
        for run in runs:
            if run.process.poll() is None:
                os.killpg(run.process.pid, signal.SIGKILL)
    chain.found.seconds = time.monotonic() - begin
    return chain.found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--elements", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    problems = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            found = run_chain(Chain(Path(folder), options.elements, random.Random(seed)), STAGES)
        print(f"seed {seed}: {found}", flush=True)  # noqa: T201
        problems += len(found.problems)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
