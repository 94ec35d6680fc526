"""Checkpoint folders of Spark in the middle of a stream, one of each release.

`python -m tests.support.stored_spark_folders` writes those of this release, of two programs: one has every construct of the rule language
(`stored_program`), the other units of all four languages (`stored_units`), in one bucket and in three. A program reads two files, one with
late elements. Larger buckets are kept as logs, for which the bounds are lowered here, the others as texts. Absolute paths are stored as a
placeholder, replaced when the folder is unpacked; checksums and Spark's own log, which are not needed, are left out.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Process
from pathlib import Path
from typing import Final, NamedTuple

from dotr.engine.state.log import HEAD_VERSION
from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import FORMAT, Checkpoint
from dotr.temporal.matching.state import STATE_VERSION
from tests.support.paths import ROOT
from tests.support.stored_checkpoints import SECOND
from tests.support.stored_forms import CHECKSUM
from tests.support.stored_program import HOME, WHOLE, line
from tests.support.stored_units import ELEMENTS, UNITS

HERE: Final = b"/@FOLDER@"
"""Placeholder for the path of the folder of all files."""

CONFIG: Final = """
name: {name}
prefixes: {{ "": "http://e/" }}
{program}
input:
  - {{ name: {first}, format: ndjson, path: even.ndjson }}
  - {{ name: {second}, format: ndjson, path: odd.ndjson, lateness: 3 s }}
output: [{{ format: ndjson, path: {out} }}]
dead_letter: {out}-dead.ndjson
spark: {{ master: "local[2]", checkpoint: checkpoint, batch: {batch}, buckets: {buckets} }}
"""


class Stored(NamedTuple):
    """A program whose checkpoint folders are stored.

    - `program`: its lines in the configuration.
    - `inputs`: the names of its inputs.
    - `size`: the number of elements of a batch of the stored run, which is ended in the fifth.
    - `few`: the number of entries from which on a bucket is stored as logs in a new folder.
    """

    home: Path
    program: str
    inputs: tuple[str, str]
    elements: Sequence[Element]
    size: int
    few: int


WHOLE_FOLDER: Final = Stored(
    HOME, "knowledge: { graphs: [whole.ttl], datalog: [whole.dlog] }\nrules: [whole.dotr]", ("even", "odd"), WHOLE.elements, 10, 60
)
UNITS_FOLDER: Final = Stored(
    UNITS, "rules: [units.dotr, units.rspql, units.lars, wide.lars, units.epsparql]", ("sorted", "loose"), ELEMENTS, 20, 8
)


def project(out: str, *, on_spark: bool, batch: int | None = None, stored: Stored = WHOLE_FOLDER, buckets: int = 2) -> Pipeline:
    """The pipeline, in the working directory: Datalog rules are identified by the path of their file as it is given."""
    folder = Path()
    for path in stored.home.iterdir():
        if path.suffix in (".dotr", ".rspql", ".lars", ".epsparql", ".dlog", ".ttl"):
            shutil.copy(path, folder / path.name)
    even, odd = stored.elements[::2], list(stored.elements[1::2])
    behind = 4 * SECOND // (odd[1].time - odd[0].time)
    for place in (6, 13):
        odd.insert(place + behind, odd.pop(place))  # too late: three seconds are less than four
    for name, elements in (("even", even), ("odd", odd)):
        (folder / f"{name}.ndjson").write_text("".join(map(line, elements)))
    config = folder / f"{out}.yaml"
    first, second = stored.inputs
    name, size = stored.home.name, batch or stored.size
    config.write_text(
        CONFIG.format(name=name, program=stored.program, first=first, second=second, out=out, batch=size, buckets=buckets), encoding="utf-8"
    )
    return build(read_config(str(config)), fresh=False, on_spark=on_spark)


def unpack(packed: Path, folder: Path) -> None:
    """Unpacks the checkpoint into the pipeline's folder."""
    with tarfile.open(packed) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read().replace(HERE, os.fsencode(folder)))


def pack(folder: Path, packed: Path) -> None:
    with tarfile.open(packed, "w:xz") as tar:
        for path in sorted((folder / "checkpoint").rglob("*")):
            if path.is_file() and not path.name.endswith(".crc") and path.name != "spark.log":
                data = path.read_bytes().replace(os.fsencode(folder), HERE)
                if path.name == "dotr.json":  # its checksum is that of the true paths
                    data = CHECKSUM.sub("", data.decode()).encode()
                member = tarfile.TarInfo(str(path.relative_to(folder)))
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def store(stored: Stored, packed: Path, buckets: int) -> None:
    """Write the folder of a run that is ended in its fifth batch, unless there is one."""
    if packed.exists():
        print(f"{packed} is there already, and stays as it is")  # noqa: T201
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        (folder / "sitecustomize.py").write_text(
            "from dotr.engine.state import bucket as bucket_state, units as unit_state\n\n"  # which keep little state otherwise
            f"bucket_state.SMALL = unit_state.INSIDE = {stored.few}\n"
        )
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT)])
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        from dotr.runtimes.spark.run import run_spark

        batches: list[Totals] = []

        def stop(totals: Totals) -> None:
            batches.append(totals)
            if len(batches) == 5:
                raise ZeroDivisionError("enough")

        with suppress(ZeroDivisionError):
            run_spark(project("out", on_spark=True, stored=stored, buckets=buckets), stop)
        position = Checkpoint(str(folder / "checkpoint")).offset()
        assert position is not None
        assert position.time < LAST_MICRO
        print(f"{packed}: {position}")  # noqa: T201
        pack(folder, packed)
    os.chdir(ROOT)


def main() -> None:
    version = f"spark-{FORMAT}-{STATE_VERSION}-{HEAD_VERSION}"
    for stored, packed, buckets in (
        (WHOLE_FOLDER, f"{version}.tar.xz", 2),
        (UNITS_FOLDER, f"{version}-in-1.tar.xz", 1),
        (UNITS_FOLDER, f"{version}-in-3.tar.xz", 3),
    ):
        process = Process(target=store, args=(stored, stored.home / packed, buckets))  # each with a JVM of its own
        process.start()
        process.join()


if __name__ == "__main__":
    main()
