"""Checkpoints with one random mutation: a run from there is refused with a code, or has the same output."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from dotr.errors.diagnostics import DotrError
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config

pytestmark = [pytest.mark.spark, pytest.mark.fallbacks("totals")]

COUNT: Final = int(os.environ.get("DOTR_MUTATIONS", "5"))
RULES: Final = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x ?k WHERE { ?s :v ?x ; :k ?k } ]
and each B = [ SELECT ?y ?k2 WHERE { ?s :v ?y ; :k ?k2 . FILTER(?k2 = A.?k) } ] within 30 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG: Final = """
name: mutated
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, path: a.ndjson, lateness: 2 s }}]
output: [{{ path: {out}/out.ndjson }}]
dead_letter: {out}/dead.ndjson
spark: {{ master: "local[2]", checkpoint: {out}/checkpoint, batch: 12 }}
"""
CODE: Final = re.compile(r"\b[A-Z][0-9]{3}\b")


def flip(data: bytes, at: int) -> bytes:
    return data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]


MUTATIONS: Final[list[Callable[[bytes, random.Random], bytes | None]]] = [
    lambda data, chance: flip(data, chance.randrange(8 * len(data))) if data else b"x",
    lambda data, chance: flip(data, chance.randrange(8 * len(data))) if data else None,
    lambda data, chance: data[: chance.randrange(len(data))] if data else None,
    lambda data, _: bytes(len(data)),
    lambda data, _: data + data[-7:],
    lambda data, chance: re.sub(rb"[0-9]", lambda _: b"%d" % chance.randrange(10), data, count=1 + chance.randrange(3)),
    lambda *_: None,
]
"""A changed content; None: the file is missing."""


def run(out: str, stop: Callable[[Totals], None], *, on_spark: bool = True) -> None:
    from dotr.runtimes.spark.run import run_spark

    config = Path(f"{out}.yaml")
    config.write_text(CONFIG.format(out=out))
    (run_spark if on_spark else run_local)(build(read_config(str(config)), fresh=False, on_spark=on_spark), stop)


def written(path: Path) -> list[str]:
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
    return [line for file in files for line in file.read_text().splitlines()]


def outputs(out: str) -> list[list[str]]:
    return [written(Path(out, name)) for name in ("out.ndjson", "dead.ndjson")]


@pytest.mark.usefixtures("spark")
def test_mutated_checkpoint_is_refused_or_has_the_same_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.dotr").write_text(RULES)
    elements = [json.dumps({"time": at, "graph": f"[] :v {at} ; :k :k{at % 3} ."}) for at in range(30)]
    Path("a.ndjson").write_text("\n".join([*elements[:20], elements[5], *elements[20:]]))
    run("local", lambda _: None, on_spark=False)
    expected = outputs("local")
    assert len(expected[0]) > 25
    assert len(expected[1]) == 1
    batches: list[Totals] = []

    def stop(totals: Totals) -> None:
        batches.append(totals)
        if len(batches) == 2:
            raise ZeroDivisionError

    with suppress(ZeroDivisionError):
        run("half", stop)
    assert 0 < len(outputs("half")[0]) < len(expected[0])
    wrong: list[str] = []
    seed = int(os.environ.get("DOTR_MUTATIONS_SEED", "7"))
    for number in range(COUNT):
        chance = random.Random(seed * 10_000 + number)
        out = f"mutated-{number}"
        shutil.copytree("half", out)
        files = sorted(path for path in Path(out, "checkpoint").rglob("*") if path.is_file() and path.name != "spark.log")
        own = [path for path in files if path.parent.name == "checkpoint"]
        file = chance.choice(own if chance.random() < 0.25 else files)
        before = file.read_bytes()
        mutation = chance.randrange(len(MUTATIONS))
        data = MUTATIONS[mutation](before, chance)
        if data is None:
            file.unlink()
        else:
            file.write_bytes(data)
        about = f"{number}: mutation {mutation} of {file}"
        try:
            run(out, lambda _: None)
        except DotrError as refused:
            is_right, result = CODE.search(str(refused)) is not None, str(refused).splitlines()[0]
        except Exception as error:
            is_right, result = False, repr(error)
        else:
            is_right = outputs(out) == expected
            result = "the same output" if is_right else f"another output: {outputs(out)}"
        print(f"{about}: {result}")  # noqa: T201 (read where there are many)
        if not is_right:
            wrong.append(f"{about}: {result}")
        shutil.rmtree(out)
    assert wrong == []
