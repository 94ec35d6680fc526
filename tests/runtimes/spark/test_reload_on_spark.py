"""Reloads on Spark: what is written is what a run in process writes, and each element counts once."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from dotr.runtimes.spark.checkpoint.folder import Checkpoint
from tests.support.ports import free_port
from tests.support.reloaded import CONFIG, change, events, feed, reload, run_with, set_up

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("spark")
def test_run_goes_on_with_changed_rules_and_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: dict[str, list[str]] = {"local": [], "spark": []}
    served: dict[str, list[str]] = {"local": [], "spark": []}

    def run(engine: str) -> list[tuple[int, str, str]]:
        (tmp_path / engine).mkdir()
        monkeypatch.chdir(tmp_path / engine)
        port = free_port()
        config = CONFIG.replace("rules:", "knowledge: { graphs: [k.ttl] }\nrules:")
        set_up(config.replace("path: out }", f"path: out }}, {{ serve: {{ listen: {port} }} }}"))
        Path("k.ttl").write_text("<http://e/a> <http://e/zone> <http://e/A> .")
        change("rule Seen", "query Zone = [ SELECT ?zone WHERE { ?r :room/:zone ?zone } ]\nrule Seen")
        change("from Reading with Seen", "from Reading\nand each Zone as Now within [0, 0] from Reading with Seen.?zone = Now.?zone, Seen")

        def answer(code: int, name: str = "c.yaml") -> None:
            capsys.readouterr()
            assert reload(name) == code
            captured = capsys.readouterr()
            told[engine].append((captured.out if code == 0 else captured.err).replace("next batch", "next instant"))

        def world() -> None:
            feed(1, 3)
            with urlopen(f"http://127.0.0.1:{port}/stream?since=0&format=ndjson") as reader:
                reloads()
                for line in reader:
                    served[engine].append(json.loads(line)["id"])
                    if json.loads(line)["time"] == 9:
                        break

        def reloads() -> None:
            change("?n < 9", "?n < 8")
            answer(0)
            feed(3, 5)
            change("?v > 5)", "?v > 6)")
            answer(0, "ck")
            change("if ?n", "if if ?n")
            answer(2)
            change("if if ?n", "if ?n")
            feed(5, 8)
            Path("k.ttl").write_text("<http://e/a> <http://e/zone> <http://e/B> .")
            answer(0)
            feed(8, 10)

        assert run_with(world, engine) == 0
        return events()

    expected = run("local")
    assert run("spark") == expected
    assert told["spark"] == told["local"]
    assert len(served["spark"]) > 10  # over one connection
    assert served["spark"] == served["local"]
    assert "Heavy starts empty: its FILTER has changed" in told["local"][1]
    assert "The background knowledge, or a setting of it, has changed" in told["local"][3]
    assert [at for at, rule, _ in expected if rule == "Seen"] == list(range(10))
    layout = Checkpoint("ck").layout
    assert layout is not None
    assert layout.generation == 2
