"""The wheel, built from the files that belong to it, in an empty environment: `python -m tests.wheel`, a step of `./verify`.

The wheel is installed beside nothing but its dependencies, from the package registry. There `dotr new` writes a project, whose rule tests
pass and whose pipeline runs. It takes half a minute.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import dotr
from tests.support.paths import ROOT

FILES: Final = (
    "dotr/py.typed",
    "dotr/runtimes/pipeline/config.schema.json",
    "dotr/instant/datalog/entailment/owl2rl.dlog",
    "dotr/commands/report/scripts/charts.js",
    "dotr/commands/report/styles/layout.css",
    "dotr/commands/report/uplot/uPlot.iife.min.js",
    "dotr/commands/report/uplot/uPlot.min.css",
    "dotr/commands/report/uplot/LICENSE",
)
PYTHON: Final = """
import dotr
assert dotr.__file__.startswith({prefix!r}), dotr.__file__
program = dotr.Program.from_config("config.yaml")
with program.session() as session:
    session.advance(0, "[] a :Reading ; :madeBy :s1 ; :value 40 .")
    (alarm,) = session.advance(300, "[] a :Reading ; :madeBy :s2 ; :value 65 .")
assert alarm.values == {{"machine": "http://example.org/plant#press", "before": 40, "now": 65}}, alarm.values
"""


def run(folder: Path, *command: str | Path) -> str:
    """What a command writes; its output is shown, and this program ends, where it fails."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run([str(word) for word in command], cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """The wheel of a copy of the sources: what an older build has left in the working folder gets into none."""
    source = folder / "source"
    shutil.copytree(ROOT / "dotr", source / "dotr", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(folder, sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", folder, source)
    (wheel,) = folder.glob("dotr-*.whl")
    return wheel


def check_content(wheel: Path) -> None:
    """The wheel holds the package with its data and its licence, and nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("dotr/", f"dotr-{dotr.__version__}.dist-info/")) for name in names), names
    assert not [name for name in FILES if name not in names], names
    assert any(re.search(r"dist-info/(licenses/)?LICENSE$", name) for name in names), names
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "dotr").rglob("*.py")}
    assert sources <= set(names), sources - set(names)


def main() -> None:
    """Build, look, install, run; ends with a message where a step fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        wheel = build(folder)
        check_content(wheel)
        empty = folder / "empty"
        run(folder, sys.executable, "-m", "venv", empty)
        run(folder, empty / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        program, project = empty / "bin/dotr", folder / "plant"
        assert run(folder, program, "--version") == f"dotr {dotr.__version__}\n"
        run(folder, program, "new", project)
        assert "2 passed, 0 failed" in run(project, program, "test", "tests")
        run(project, program, "check", "--strict", ".")
        run(project, program, "run", "config.yaml", "--quiet")
        run(project, program, "report", "config.yaml")
        assert "uPlot" in (project / "report.html").read_text(encoding="utf-8")
        assert len((project / "out/alarms.ndjson").read_text(encoding="utf-8").splitlines()) == 1
        run(project, empty / "bin/python", "-c", PYTHON.format(prefix=str(empty)))
    print(f"{wheel.name} installs in an empty environment, and runs there.")  # noqa: T201


if __name__ == "__main__":
    main()
