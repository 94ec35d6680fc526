"""No code but that of a store opens, lists, replaces or removes what may be at a URL: the modules that call POSIX are listed here, each for
one of four reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.posix_calls import posix_calls

pytestmark = pytest.mark.core

STORE: Final = "the store of this machine, and what it is made of"
OWN: Final = "files of this machine that no configuration names: commands' own, caches, Spark's installation, scratch of a run"
LOCAL: Final = "named by a configuration, and refused at a URL: spools, published streams, files that go on, certificates, locks of folders"
BESIDE: Final = "the way of the disk where a location is no URL, as fast as it was: `is_url` decides in the same function"

MODULES: Final = {
    "evaluation/files/caches.py": OWN,
    "evaluation/files/private_files.py": STORE,
    "evaluation/files/stores.py": STORE,
    "evaluation/files/trust.py": OWN,
    "commands/__init__.py": OWN,
    "commands/bundle/__init__.py": OWN,
    "commands/bundle/job.py": OWN,
    "commands/check/problems.py": OWN,
    "commands/new/__init__.py": OWN,
    "commands/report/writing.py": OWN,
    "commands/test/__init__.py": OWN,
    "commands/test/reports.py": OWN,
    "commands/test/updates.py": OWN,
    "evaluation/codegen/compilation.py": OWN,
    "evaluation/triples/file.py": OWN,
    "instant/datalog/background/compiled_cache.py": OWN,
    "instant/datalog/background/loading.py": BESIDE,
    "instant/datalog/background/sources.py": BESIDE,
    "instant/datalog/entailment/rule_sets.py": OWN,
    "languages/kept_programs.py": OWN,
    "model/__init__.py": OWN,
    "runtimes/external_sort.py": OWN,
    "runtimes/frames/shipped.py": OWN,
    "runtimes/local/run.py": OWN,
    "runtimes/pipeline/config.py": BESIDE,
    "runtimes/pipeline/output_files.py": BESIDE,
    "runtimes/pipeline/reloading.py": OWN,
    "runtimes/spark/checkpoint/damage.py": BESIDE,
    "runtimes/spark/checkpoint/figures.py": BESIDE,
    "runtimes/spark/checkpoint/folder.py": BESIDE,
    "runtimes/spark/checkpoint/message_spool.py": LOCAL,
    "runtimes/spark/checkpoint/standard_input_spool.py": LOCAL,
    "runtimes/spark/checkpoint/state_moves.py": BESIDE,
    "runtimes/spark/exchange/spilled_rows.py": BESIDE,
    "runtimes/spark/planning/index_files.py": OWN,
    "runtimes/spark/planning/planned_topics.py": OWN,
    "runtimes/spark/start/installation.py": OWN,
    "streams/connectors/mqtt/section.py": LOCAL,
    "streams/connectors/serve/descriptions/documents.py": LOCAL,
    "streams/connectors/serve/descriptions/resources.py": OWN,
    "streams/connectors/serve/kept_files.py": LOCAL,
    "streams/connectors/serve/section.py": LOCAL,
    "streams/formats/lines.py": BESIDE,
    "streams/formats/segments.py": LOCAL,
    "streams/merge/feeds.py": LOCAL,
    "streams/merge/file_marks.py": BESIDE,
    "streams/merge/folders.py": BESIDE,
    "streams/merge/tails.py": LOCAL,
    "streams/sinks/events.py": BESIDE,
    "streams/sinks/files.py": BESIDE,
}


def test_calls_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'open("a")\nlocation.open()\nos.replace(a, b)\n"text".replace("a", "b")\npath.read_text()\nlocation.glob("*")\nglob.glob("*")\n'
    )
    assert list(posix_calls(tmp_path)) == [
        ("a.py", 1, "open"),
        ("a.py", 3, "os.replace"),
        ("a.py", 5, "read_text"),
        ("a.py", 7, "glob.glob"),
    ]


def test_modules_that_call_posix_are_listed() -> None:
    calling = {module for module, _, _ in posix_calls()}
    assert {f"{module}:{line} {name}" for module, line, name in posix_calls() if module not in MODULES} == set()
    assert set(MODULES) - calling == set()
