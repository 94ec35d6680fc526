"""Programs that travel to other processes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import dotr

pytestmark = pytest.mark.core

loads = pickle.loads

RULE = """PREFIX : <http://e/>
rule Above "" define Hot = [ [] a :Hot ; :floor ?floor ] from T = [ SELECT ?floor WHERE { ?t :room ?room . ?room :floor ?floor } ]
with Hot.?floor = T.?floor
"""
QUERY = """PREFIX : <http://e/> REGISTER RSTREAM :q AS
SELECT ?r FROM NAMED WINDOW :w ON :temp [RANGE PT5S STEP PT5S] WHERE { WINDOW :w { ?r :v 1 } }
"""
OTHER_PROCESS = """
import pickle, sys
program = pickle.load(sys.stdin.buffer)
session = program.session()
print([event.values for event in session.advance(1, ":t :room :hall .")], [each.name for each in program.rules.rules], len(program.units))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "above.dotr").write_text(RULE)
    (tmp_path / "kb.ttl").write_text("@prefix : <http://e/> . :hall :in :house . :house :floor 2 .")
    (tmp_path / "kb.dlog").write_text("PREFIX : <http://e/> [?r, :floor, ?f] :- [?r, :in, ?h], [?h, :floor, ?f] .")
    return tmp_path


def load(folder: Path) -> dotr.Program:
    return dotr.Program.load(
        rules=[folder / "above.dotr"],
        text={"q.rspql": QUERY},
        graphs=folder / "kb.ttl",
        datalog=folder / "kb.dlog",
        prefixes={"": "http://e/"},
    )


def test_a_pickled_program_needs_no_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pickled = pickle.dumps(load(folder))
    for each in folder.iterdir():
        each.unlink()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    run = subprocess.run([sys.executable, "-c", OTHER_PROCESS], input=pickled, capture_output=True, check=True, env=environment)
    assert run.stdout.decode() == "[{'floor': 2}] ['Above'] 1\n"


def test_a_pickled_program_works_without_a_home_that_can_be_written(folder: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"} | {"HOME": "/proc/1"}
    run = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS], input=pickle.dumps(load(folder)), capture_output=True, check=True, env=environment
    )
    assert run.stdout.decode() == "[{'floor': 2}] ['Above'] 1\n"


def test_a_program_is_compiled_once_a_process_and_travels_on(folder: Path) -> None:
    program = load(folder)
    pickled = pickle.dumps(program)
    one, other = loads(pickled), loads(pickled)
    assert one is other
    assert repr(one) == repr(program)
    assert one.warnings == program.warnings
    assert loads(pickle.dumps(one)).session().advance(1, ":t :room :hall .") == program.session().advance(1, ":t :room :hall .")
    assert isinstance(copy.deepcopy(program), dotr.Program)


def test_a_session_says_how_it_travels(folder: Path) -> None:
    with pytest.raises(TypeError, match="a session cannot be pickled: pickle its program"):
        pickle.dumps(load(folder).session())
