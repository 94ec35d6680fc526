"""Jobs on YARN whose containers are killed, in client and in cluster mode: each event once, as in process.

    python -m tests.yarn_kills [N] [--seed S]          # N kills a job (2): of the application master and of executors in turn

The last job is submitted by the commands of docs/operation.md, with its environment packed (230 MB), and none of it is killed. A job takes
a minute on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

from dotr.evaluation.files.stores import Location
from tests.docs.test_commands import blocks
from tests.support.hadoop import Hadoop, running
from tests.support.patience import PATIENCE
from tests.support.standalone import clean_environment
from tests.support.submitted import (
    FAST,
    MEMORY,
    application_of,
    batches,
    bundled_fire,
    containers,
    expected,
    fire_project,
    kill,
    submitted,
    told,
    written,
)

_INSTANTS = 600


def _by_the_page(hadoop: Hadoop, folder: Path) -> None:
    """Run the block of the page as it is written, but for settings of memory and of speed, and compare the output."""
    fire_project(folder, _INSTANTS)
    (block,) = (block.text for block in blocks("docs/operation.md") if "--master yarn" in block.text)
    settings = folder / "spark"
    settings.mkdir()
    lines = [f"{name} {value}\n" for name, value in {**MEMORY, **FAST}.items()]
    (settings / "spark-defaults.conf").write_text("".join(lines))
    environment = clean_environment({"SPARK_CONF_DIR": str(settings)})
    subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, check=True, timeout=PATIENCE)
    assert written(Location.of(str(folder / "out/fire")), folder) == expected(folder, folder / "job")


def _killed(hadoop: Hadoop, folder: Path, mode: str, place: str, kills: int, chosen: random.Random) -> None:
    """Run a job of which containers are killed, the application master first, and compare the output."""
    bundle, out = bundled_fire(folder, _INSTANTS, place)
    settings = {"spark.yarn.maxAppAttempts": "3", "spark.yarn.max.executor.failures": "100"}
    job = submitted(hadoop, bundle, mode, "run dotr-job/configs/fire.yaml", settings)
    try:
        application = application_of(bundle)
        for number in range(kills):
            before = batches(out)
            while job.poll() is None and batches(out) <= before:
                time.sleep(0.05)
            time.sleep(chosen.random())
            found = containers(hadoop, application)
            masters = [name for name in found if name.endswith("_000001")]
            names = masters if number % 2 == 0 else sorted(found.keys() - set(masters))
            for name in names[:1]:
                kill(found[name])
            print(f"{mode}: {names[:1]} of {sorted(found)} killed behind batch {batches(out)}", flush=True)  # noqa: T201
        assert job.wait(PATIENCE) == 0, told(hadoop, application)
    finally:
        job.kill()
        job.wait()
    assert written(out, folder) == expected(folder, bundle), out


def main() -> None:
    """Run the jobs of the command line, and raise where an output differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=2)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory() as temporary:
        hadoop = running(Path(temporary), os.getpid())
        os.environ["HADOOP_CONF_DIR"] = str(hadoop.yarn())
        for mode in ("cluster", "client"):
            for out in ("", hadoop.folder(mode)):
                _killed(hadoop, Path(temporary) / mode / ("hdfs" if out else "disk"), mode, out, options.kills, random.Random(options.seed))
        _by_the_page(hadoop, Path(temporary) / "page")
    print("all outputs are those of a run in process", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
