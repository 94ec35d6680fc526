"""Programs that travel with their background."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.runtimes.frames.events import frame_job
from dotr.runtimes.frames.shipped import ShippedJob, ShippedStore
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.worker_cache import program_of

pytestmark = pytest.mark.core

RULE = "define Hot = [ [] a :Hot ] from T = [ SELECT ?f WHERE { ?t :room ?r . ?r :floor ?f } ] with Hot.?f = T.?f"
DATALOG = (
    "PREFIX : <http://e/> [?r, :floor, ?f] :- [?r, :in, ?h], [?h, :floor, ?f] . [?r, :low, true] :- [?r, :in, ?h], NOT [?r, :high, true] ."
)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProgramSpec:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    graph = tmp_path / "kb.ttl"
    graph.write_text("@prefix : <http://e/> . :hall :in :house . :house :floor 2 .")
    return ProgramSpec((Document("hot.dotr", RULE),), (Document("kb.dlog", DATALOG),), (str(graph),), prefixes={"": "http://e/"})


def test_a_background_in_memory_and_one_in_a_file_travel_alike(spec: ProgramSpec, tmp_path: Path) -> None:
    in_memory, stored = compile_program(spec, CachePolicy(None)), compile_program(spec, CachePolicy(tmp_path / "store", 0))
    assert in_memory.store is None
    assert stored.store is not None
    Path(spec.graphs[0]).unlink()
    for program in (in_memory, stored):
        shipped = ShippedJob.of(frame_job(program, [], 2)[0], program)
        assert ShippedJob.of(frame_job(program, [], 2)[0], program) == shipped
        arrived = program_of(Job.from_json(shipped.here()))
        assert arrived.store is not None
        assert sorted(arrived.knowledge.background) == sorted(program.knowledge.background)
        assert arrived.knowledge.loaded == program.knowledge.loaded == 2


def test_a_store_is_written_once_and_again_where_it_is_damaged_or_gone(spec: ProgramSpec) -> None:
    program = compile_program(spec, CachePolicy(None))
    store = ShippedStore.of(program)
    path = store.file().path
    written = path.stat().st_mtime_ns
    assert store.file().path.stat().st_mtime_ns == written
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    assert store.file().path.read_bytes() == content
    shipped = ShippedJob.of(frame_job(program, [], 2)[0], program)
    assert Job.from_json(shipped.here()).store == str(path)
    path.unlink()
    assert Path(Job.from_json(shipped.here()).store).read_bytes() == content
