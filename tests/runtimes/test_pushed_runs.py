"""Runs in process whose events are pushed: the end of the input, what lingers, and a stop, as clients meet them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.support.patience import PATIENCE
from tests.support.ports import free_port

RULE = """\
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ] with Out.?x = A.?x
"""
CONFIG = """\
name: pushed
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - INPUT
output:
  - { path: out.ndjson }
  - { serve: { listen: "127.0.0.1:PORT", linger: LINGER } }
engine: local
"""


@contextmanager
def running(folder: Path, port: int, linger: str, given: str, first: str = "") -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own, once its server answers: `first` is written to its standard input before."""
    (folder / "r.dotr").write_text(RULE)
    (folder / "c.yaml").write_text(CONFIG.replace("INPUT", given).replace("PORT", str(port)).replace("LINGER", linger))
    command = [sys.executable, "-m", "dotr", "run", "c.yaml"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(first)
        process.stdin.flush()
        try:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/elements", timeout=PATIENCE):
                        break
                except URLError:
                    assert process.poll() is None, process.communicate()
                    assert time.monotonic() < until
                    time.sleep(0.02)
            yield process
        finally:
            process.kill()


def instant(time: int, number: int = 1) -> str:
    return "".join(json.dumps({"time": time, "graph": f":s{n} :v {n} ."}) + "\n" for n in range(number))


def test_pull_goes_on_after_the_end_and_a_stop_ends_it(tmp_path: Path) -> None:
    (tmp_path / "in.ndjson").write_text("".join(instant(at, 2) for at in range(5)))
    port = free_port()
    with running(tmp_path, port, "1 h", "{ name: a, format: ndjson, path: in.ndjson }") as process:
        with urlopen(f"http://127.0.0.1:{port}/events?since=0&format=nquads", timeout=PATIENCE) as answer:
            text = answer.read().decode()
        assert text.endswith("event: end\ndata: \n\n")
        found = [line[4:] for line in text.splitlines() if line.startswith("id: ")]
        assert found == [f"{at * 1_000_000}-{n}" for at in range(5) for n in range(2)]
        with urlopen(f"http://127.0.0.1:{port}/stream?since=0", timeout=PATIENCE) as answer:
            assert [each["@id"].rpartition("/")[2] for each in json.loads(answer.read())] == found
        assert len((tmp_path / "out.ndjson").read_text().splitlines()) == 10  # the file is complete
        with urlopen(f"http://127.0.0.1:{port}/events", timeout=PATIENCE) as answer:
            assert answer.status == 204
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_an_instant_is_pushed_once_it_is_whole_and_a_stop_closes(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port, "0 s", "{ name: a, format: ndjson, path: '-' }", instant(0, 3)) as process:
        assert process.stdin is not None
        with urlopen(f"http://127.0.0.1:{port}/stream?format=ndjson", timeout=PATIENCE) as answer:
            for at in range(1, 4):
                process.stdin.write(instant(at, 3))
                process.stdin.flush()
                found = [json.loads(answer.readline()) for _ in range(3)]
                assert [each["id"] for each in found] == [f"{(at - 1) * 1_000_000}-{n}" for n in range(3)]
            process.stdin.close()
            assert len(answer.read().splitlines()) == 3  # the last instant, and the end
        assert process.wait(PATIENCE) == 0
