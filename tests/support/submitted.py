"""Jobs that spark-submit sends to the YARN of the tests: from a folder with nothing but a bundle, to a driver in a container."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from dotr.commands import main
from dotr.evaluation.files.stores import Location
from tests.support.hadoop import Hadoop
from tests.support.outputs import joined
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.standalone import SPARK_HOME, clean_environment

_T = TypeVar("_T")

MEMORY: Final = {
    "spark.driver.memory": "600m",
    "spark.driver.memoryOverhead": "256m",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "256m",
    "spark.yarn.am.memory": "512m",
    "spark.executor.instances": "1",
    "spark.executor.cores": "2",
}
FAST: Final = {
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",  # in place of 400 MB that each job would copy to HDFS
    "spark.yarn.report.interval": "500ms",
    "spark.yarn.submit.file.replication": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def submitted(hadoop: Hadoop, bundle: Path, mode: str, command: str, settings: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
    """A running spark-submit of a bundle's script in the mode `client` or `cluster`, its output in `submit.log` beside the bundle."""
    of_machines = {f"spark.{kind}.HADOOP_CONF_DIR": str(hadoop.yarn()) for kind in ("yarn.appMasterEnv", "executorEnv")}
    given = {**MEMORY, **FAST, **of_machines, "spark.yarn.maxAppAttempts": "2", **settings}
    configured = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    files = ["--py-files", "dotr.zip", "--archives", "dotr-job.zip#dotr-job"]
    environment = clean_environment({"HADOOP_CONF_DIR": str(hadoop.yarn()), "PYSPARK_PYTHON": sys.executable})
    words = [
        str(SPARK_HOME / "bin/spark-submit"),
        "--master",
        "yarn",
        "--deploy-mode",
        mode,
        *configured,
        *files,
        "run_dotr.py",
        *command.split(),
    ]
    with (bundle.parent / "submit.log").open("wb") as log:
        return subprocess.Popen(words, cwd=bundle, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def fire_project(folder: Path, instants: int, out: str = "../out/fire") -> None:
    """The fire example in a folder, with a stream of its own: heat and smoke in turn, in batches of a sixth of it. `out`: the folder of its
    outputs and checkpoint, which may be a URL."""
    for each in ("configs", "rules", "kb"):
        shutil.copytree(ROOT / each, folder / each)
    config = folder / "configs/fire.yaml"
    text = config.read_text().replace("fire/checkpoint }", f"fire/checkpoint, batch: {instants // 6} }}")
    config.write_text(re.sub(r"\.\./out/fire([^ },\n]*)", rf'"{out}\1"', text))
    seen = ("a :Temp ; :has_val 70", "a :Smoke")
    place = ":is_from_sensor :s . :s :is_at_location :loc"
    lines = [{"time": 30 * at, "graph": f":r{at} {seen[at % 2]} ; {place}{'ABC'[at // 2 % 3]} ."} for at in range(instants)]
    (folder / "data/fire").mkdir(parents=True)
    (folder / "data/fire/stream.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def bundled_fire(folder: Path, instants: int, out: str = "") -> tuple[Path, Location]:
    """A bundle of the fire example, whose project is gone, and the folder that its output is to be in: `out`, or one on the disk."""
    fire_project(folder / "project", instants, out or "../out/fire")
    assert main(["bundle", str(folder / "project/configs/fire.yaml"), str(folder / "bundle")]) == 0
    for each in (folder / "project").iterdir():
        shutil.rmtree(each)
    return folder / "bundle", Location.of(out or str(folder / "project/out/fire"))


def expected(folder: Path, bundle: Path) -> dict[str, str]:
    """The outputs of a bundle's job in process, by the names of the files."""
    names = {"output.0.path": "fire.ndjson", "output.1.path": "fire.trig"}
    options = [word for key, name in names.items() for word in ("--set", f"{key}={folder}/{name}")]
    config = str(bundle / "dotr-job/configs/fire.yaml")
    assert main(["run", config, "--engine", "local", "--quiet", "--fresh", *options, "--set", f"dead_letter={folder}/dead.ndjson"]) == 0
    return {name: (folder / name).read_text() for name in names.values()}


def written(out: Location, folder: Path) -> dict[str, str]:
    """The outputs of a job on Spark, by their names; copied into a folder first."""
    found = {}
    for name in ("fire.ndjson", "fire.trig"):
        copies = folder / "written" / name
        copies.mkdir(parents=True)
        for each in (out / name).list():
            (copies / each.location.name).write_bytes(each.location.read())
        found[name] = joined(sorted(copies.iterdir()))
    return found


def batches(out: Location) -> int:
    """The number of batches that a job has committed."""
    return sum(each.location.name.isdecimal() for each in (out / "checkpoint/query/commits").list())


def containers(hadoop: Hadoop, application: str) -> dict[str, list[int]]:
    """The containers of an application that run, by the numbers of attempt and container (`01_000001`: the master of the first attempt),
    with their processes."""
    found: dict[str, list[int]] = {}
    place = re.compile(rf"{re.escape(str(hadoop.containers))}/.*/{application}/container_\d+_\d+_(\d+_\d+)(?:/|$)")
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # the process has ended since, or is another user's
                if (name := place.match(os.readlink(entry / "cwd"))) is not None:
                    found.setdefault(name[1], []).append(int(entry.name))
    return found


def application_of(bundle: Path) -> str:
    """The name of the application that a job was accepted as."""
    pattern = re.compile(r"Submitted application (application_\d+_\d+)")
    found = until(lambda: pattern.search((bundle.parent / "submit.log").read_text()))
    assert found is not None
    return found[1]


def until(condition: Callable[[], _T]) -> _T:
    """The value of a condition once it holds; raises TimeoutError where it never does."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.1)
    return value


def kill(processes: Iterable[int]) -> None:
    """End processes with -9."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def told(hadoop: Hadoop, application: str) -> str:
    """Logs of the containers of an application, and the output of spark-submit."""
    logs = sorted(hadoop.containers.glob(f"*/*logDir*/{application}/*/*"))
    return "\n".join(f"== {path.parent.name} {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in logs if path.is_file())
