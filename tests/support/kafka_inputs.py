"""Pipelines that read a topic, the same stream as files, and runs of both."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from dotr.commands import main
from tests.support.kafka_broker import Broker, Sent
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

RULES = """PREFIX : <http://e/>
rule pair "The same sensor again, within five seconds."
define Pair = [ dotr_id1 :of ?s ; :now ?v ; :before ?w ]
from Now = [ SELECT ?s ?v WHERE { ?s :v ?v } ]
and last Before = [ SELECT ?s ?w WHERE { ?s :v ?w . FILTER (?s = Now.?s) } ] within 5 s from Now
with Pair.?s = Now.?s, Pair.?v = Now.?v, Pair.?w = Before.?w
"""


def line(time: int, sensor: int, value: object) -> str:
    """An element as a line of NDJSON."""
    return json.dumps({"time": time, "graph": f"<http://e/s{sensor}> <http://e/v> {value} ."})


def streams(seed: int, partitions: int, length: int, delay: int = 3) -> list[list[str]]:
    """Lines of so many partitions, a little out of order, some of them late or broken."""
    source = random.Random(seed)
    found: list[list[str]] = []
    for partition in range(partitions):
        times = [number // 2 + source.randint(0, delay) for number in range(length)]
        lines = [line(at, source.randint(0, 3), number) for number, at in enumerate(times)]
        for _ in range(length // 20):
            lines[source.randrange(length)] = source.choice(["no JSON", line(-50, partition, 1), '{"time": 5}'])
        found.append(lines)
    return found


def write_config(folder: Path, inputs: str, spark: str = "", more: str = "") -> Path:
    """A configuration with these inputs (YAML in flow style, one a line)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.dotr").write_text(RULES)
    config = folder / "pipeline.yaml"
    listed = "\n".join(f"  - {each}" for each in inputs.splitlines())
    config.write_text(
        f"name: kafkatest\nrules: [rules.dotr]\ninput:\n{listed}\n"
        f"output: [{{ format: ndjson, path: out/events{'' if spark else '.ndjson'} }}]\n"
        f"dead_letter: out/dead{'' if spark else '.ndjson'}\n{spark}{more}"
    )
    return config


def kafka_section(broker: Broker, topics: str, further: str = "") -> str:
    """The part `kafka: { … }` of an input."""
    return f'kafka: {{ bootstrap.servers: "{broker.servers}", subscribe: "{topics}"{", " + further if further else ""} }}'


def send(broker: Broker, topic: str, lines: Sequence[Sequence[str]]) -> None:
    """Send lines to the partitions of a topic."""
    broker.produce(topic, (Sent(text.encode(), partition=number) for number, each in enumerate(lines) for text in each))


def run(
    config: Path, *options: str, environment: Mapping[str, str] | None = None, seconds: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """The command `dotr run`, to its end: with an environment in a process of its own, else in this one."""
    words = ["run", config.name, *options]
    if environment is None:
        with chdir(config.parent), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = main(words)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
    return subprocess.run(
        [sys.executable, "-m", "dotr", *words],
        cwd=config.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


class Running:
    """The command `dotr run` in the background; `stderr_text` is its output on stderr."""

    def __init__(self, config: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self._log = config.with_suffix(".log")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dotr", "run", config.name, *options],
                cwd=config.parent,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def stderr_text(self) -> str:
        return self._log.read_text()

    def wait_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait for a condition while the command runs."""
        until = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.stderr_text[-3000:]
            assert time.monotonic() < until, f"nothing within {seconds} s: {self.stderr_text[-3000:]}"
            time.sleep(0.05)

    def stop(self, seconds: float = PATIENCE) -> int:
        """Stop the command as Ctrl-C does; returns its exit code."""
        self.process.terminate()
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Kill all processes of the command with -9."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait(PATIENCE)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *reason: object) -> None:
        self.kill()


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def metric(port: int, name: str) -> float | None:
    """A metric of a run without further labels; None where there is none."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        for text in page.read().decode().splitlines():
            if text.startswith(f"{name}{{"):
                return float(text.rpartition(" ")[2])
    return None


def written(path: Path) -> list[str]:
    """The lines of an output: of a file, or of all files of a folder in their order."""
    files = sorted(each for each in path.glob("*.ndjson") if not each.name.startswith((".", "_"))) if path.is_dir() else [path]
    return [text for file in files if file.exists() for text in file.read_text().splitlines()]


def dead_letters(path: Path) -> list[dict[str, object]]:
    """The dead letters of an output."""
    return [json.loads(text) for text in written(path)]


def expected(folder: Path, lines: Sequence[Sequence[str]], lateness: str = "3 s") -> tuple[list[str], list[tuple[object, object]]]:
    """The result of the same partitions as files: the events, and (reason, text) of the dead letters."""
    for number, each in enumerate(lines):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"p{number}.ndjson").write_text("".join(text + "\n" for text in each))
    config = write_config(folder, f"{{ name: a, format: ndjson, lateness: {lateness}, path: p*.ndjson }}")
    ended = run(config, "--engine", "local")
    assert ended.returncode == 0, ended.stderr
    dead = dead_letters(folder / "out/dead.ndjson")
    return written(folder / "out/events.ndjson"), sorted((each["reason"], each["text"]) for each in dead)
