"""The start of a command: the modules that it may import, and its garbage collections."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Final

import pytest

from dotr.commands import main
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

LOADED: Final = "import sys; from dotr.commands import main; print(main(sys.argv[1:]), *sys.modules)"
LIBRARIES: Final = {
    "annotated_types",
    "orjson",  # where it is installed (the extra `fast`)
    "pydantic",
    "pydantic_core",
    "pyoxigraph",
    "pyparsing",
    "rdflib",
    "re2",
    "sortedcontainers",
    "typing_extensions",
    "typing_inspection",
    "yaml",
}
FOLDERS: Final = {
    "dotr",
    "dotr.commands",
    "dotr.engine",
    "dotr.errors",
    "dotr.evaluation",
    "dotr.evaluation.codegen",
    "dotr.evaluation.expressions",
    "dotr.evaluation.expressions.values",
    "dotr.evaluation.files",
    "dotr.evaluation.joins",
    "dotr.evaluation.triples",
    "dotr.instant",
    "dotr.instant.datalog",
    "dotr.instant.datalog.background",
    "dotr.instant.datalog.closure",
    "dotr.instant.datalog.entailment",
    "dotr.instant.datalog.strata",
    "dotr.instant.queries",
    "dotr.languages",
    "dotr.languages.rules",
    "dotr.languages.rules.lints",
    "dotr.languages.rules.resolution",
    "dotr.model",
    "dotr.runtimes",
    "dotr.runtimes.local",
    "dotr.runtimes.monitoring",
    "dotr.runtimes.pipeline",
    "dotr.streams",
    "dotr.streams.merge",
    "dotr.streams.sinks",
    "dotr.syntax",
    "dotr.syntax.datalog",
    "dotr.syntax.sparql",
    "dotr.syntax.turtle",
    "dotr.temporal",
    "dotr.temporal.layout",
    "dotr.temporal.matching",
    "dotr.temporal.matching.matcher",
}
"""Folders of which a command that reads NDJSON and writes NDJSON and TriG may import any module."""

MODULES: Final = {
    "dotr.streams.connectors": {"opening", "receivers", "registry"},
    "dotr.streams.formats": {"content", "csv", "json", "lines", "mapping", "messages", "rdf", "reading", "segments", "writing"},
    "dotr.streams.formats.csv": {"map", "rows"},
    "dotr.streams.formats.json": {"cuts", "lines", "map", "records"},
    "dotr.streams.formats.mapping": {"json_paths", "map_terms", "maps", "typed_cells"},
    "dotr.streams.formats.rdf": {"named_graphs"},
}
"""Modules of other folders that it may import, too: no transport, JSON-LD or message log."""

OF_CHECK: Final = {
    "dotr.commands.check",
    "dotr.commands.test",
    "dotr.errors.catalogue",
    "dotr.explanations",
    "dotr.languages.continuous",
    "dotr.languages.epsparql",
    "dotr.languages.lars",
}


@pytest.mark.parametrize(
    ("command", "folders"),
    [
        (["run", "configs/fire.yaml", "--engine", "local", "--fresh", "--set", "output=[{format: trig, path: /dev/stdout}]"], FOLDERS),
        (["check", "configs/fire.yaml"], FOLDERS | OF_CHECK),
    ],
    ids=["run", "check"],
)
def test_a_command_imports_what_its_configuration_names(command: list[str], folders: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    code, *loaded = done.stdout.splitlines()[-1].split()
    parts = [name.rpartition(".")[::2] for name in loaded if name.startswith("dotr.")]
    assert code == "0"
    assert [f"{folder}.{name}" for folder, name in parts if folder not in folders and name not in MODULES.get(folder, ())] == []
    libraries = {name.partition(".")[0] for name in loaded if "." in name} - sys.stdlib_module_names - {"dotr"}
    assert libraries <= LIBRARIES
    assert not {"asyncio", "multiprocessing", "sqlite3"} & set(loaded)


def test_a_command_loads_its_own_parser_alone(capsys: pytest.CaptureFixture[str]) -> None:
    loaded = "import sys; from dotr.commands import main; main(['why', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: ")
    assert {name for name in done.stdout.splitlines()[-1].split() if name.startswith("dotr.commands.")} == {
        "dotr.commands.common",
        "dotr.commands.why",
        "dotr.commands.why.why",
    }
    assert main(["whx"]) == 2
    assert "invalid choice: 'whx' (choose from 'run', 'reload', " in capsys.readouterr().err


def test_garbage_is_collected_as_before_when_a_command_has_ended() -> None:
    before = gc.get_threshold()
    assert main(["check", "no/such/file.yaml"]) == 2
    assert main(["check"]) == 2
    assert gc.get_threshold() == before
