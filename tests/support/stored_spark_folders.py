"""Checkpoint folders of Spark in the middle of a stream, one of each release.

`python -m tests.support.stored_spark_folders` writes that of this release. The program has every construct
(`kept_whole`) and reads two files, one with late elements. Larger buckets are kept as logs, for which
the bound is lowered here, the others as texts. Absolute paths are stored as a placeholder, replaced
when the folder is unpacked; checksums and Spark's own log, which are not needed, are left out.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from dotr.config import read_config
from dotr.model.time import LAST_MICRO
from dotr.monitoring.totals import Totals
from dotr.patterns.state import STATE_VERSION
from dotr.runtimes.pipeline import Pipeline, build
from dotr.runtimes.spark.checkpoint import FORMAT, Checkpoint
from dotr.state.state_log import HEAD_VERSION
from tests.support.stored_forms import CHECKSUM
from tests.support.stored_program import HOME, WHOLE, line

HERE: Final = b"/@FOLDER@"
"""Placeholder for the path of the folder of all files."""

CONFIG: Final = """
name: whole
prefixes: {{ "": "http://e/" }}
knowledge: {{ graphs: [whole.ttl], datalog: [whole.dlog] }}
rules: [whole.dotr]
input:
  - {{ name: even, format: ndjson, path: even.ndjson }}
  - {{ name: odd, format: ndjson, path: odd.ndjson, lateness: 3 s }}
output: [{{ format: ndjson, path: {out} }}]
dead_letter: {out}-dead.ndjson
spark: {{ master: "local[2]", checkpoint: checkpoint, batch: {batch} }}
"""

FEW: Final = 60
"""The number of events from which on a bucket is stored as logs in the new folder."""


def project(out: str, *, on_spark: bool, batch: int = 10) -> Pipeline:
    """The pipeline, in the working directory: Datalog rules are identified by the path of their file as it is given."""
    folder = Path()
    for name in ("whole.dotr", "whole.dlog", "whole.ttl"):
        shutil.copy(HOME / name, folder / name)
    even, odd = WHOLE.elements[::2], list(WHOLE.elements[1::2])
    for place in (6, 13):
        odd[place], odd[place + 1] = odd[place + 1], odd[place]  # too late: three seconds are less than four
    for name, elements in (("even", even), ("odd", odd)):
        (folder / f"{name}.ndjson").write_text("".join(map(line, elements)))
    config = folder / f"{out}.yaml"
    config.write_text(CONFIG.format(out=out, batch=batch))
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


def main() -> None:
    packed = HOME / f"spark-{FORMAT}-{STATE_VERSION}-{HEAD_VERSION}.tar.xz"
    if packed.exists():
        print(f"{packed} is there already, and stays as it is")  # noqa: T201
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        (folder / "sitecustomize.py").write_text(f"from dotr.runtimes.spark import keeping\n\nkeeping.SMALL = {FEW}\n")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.getcwd()])
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        from dotr.runtimes.spark.run import run_spark

        batches: list[Totals] = []

        def stop(totals: Totals) -> None:
            batches.append(totals)
            if len(batches) == 5:
                raise ZeroDivisionError("enough")

        with suppress(ZeroDivisionError):
            run_spark(project("out", on_spark=True), stop)
        position = Checkpoint(str(folder / "checkpoint")).offset()
        assert position is not None
        assert position.time < LAST_MICRO
        print(position)  # noqa: T201
        pack(folder, packed)


if __name__ == "__main__":
    main()
