"""Equal names in a compiled background: instants over the file equal instants in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.instant.datalog.background.compiled_store import CompiledStore, write_store
from dotr.instant.datalog.background.knowledge import Knowledge, close_background
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.terms import Triple
from tests.instant.datalog.test_entailment_rows import graph

pytestmark = pytest.mark.core

RULES = rule_set(Entailment.OWL2RL)
NAMES = ":a owl:sameAs :b , :c . :d owl:sameAs :e . :a :p :x . :b :p :y . :d :q :a . :f a owl:FunctionalProperty . :z :f :d"
INSTANTS = [
    ":b owl:sameAs :e",
    ":c :p :new",
    ":z :f :b",
    ":u :p :v",
    ":n owl:sameAs :a",
    ":a owl:differentFrom :b",
    ":b rdfs:subClassOf :k",
]


@pytest.mark.parametrize("background", [NAMES, f"{NAMES} . :a rdfs:subClassOf :b", f"{NAMES} . :a owl:sameAs :a", ":a :p :x"])
def test_instants_over_a_file_equal_instants_in_memory(tmp_path: Path, background: str) -> None:
    given = sorted(graph(background))
    closed = close_background(given, RULES)
    write_store(tmp_path / "kb", b"k" * 16, closed, 0.0)
    mapped = CompiledStore(tmp_path / "kb", b"k" * 16).knowledge(RULES)
    memory = Knowledge.load(given, RULES)
    assert set(mapped.background) == set(memory.background)
    assert (mapped.loaded, mapped.derived) == (memory.loaded, memory.derived)
    assert sum(closed.by_rule.values()) == memory.derived
    for text in INSTANTS:
        instant: list[Triple] = sorted(graph(text))
        one, other = mapped.close(instant), memory.close(instant)
        assert set(one.delta) == set(other.delta)
        assert len(one.delta) == len(list(one.delta))
        assert {c.rule for c in one.contradictions} == {c.rule for c in other.contradictions}
