"""Retention: clauses that need the newest event of each key alone, and what a session then keeps."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest

from dotr import Program, Session
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.temporal.layout.retention import standing
from dotr.temporal.matching.event_store import SLACK
from dotr.temporal.matching.state import State

pytestmark = pytest.mark.core

HEAD = """PREFIX : <http://e/>
query R = [ SELECT ?s ?v WHERE { ?s :v ?v } ]
query L = [ SELECT ?s ?v WHERE { ?s :limit ?v } ]
rule Out define Out = [ [] :of ?s ]
"""


def needed(text: str) -> tuple[str, ...] | None:
    """The key of the last clause of a rule that needs the newest event alone; None: it needs all of its window."""
    (rule,) = compile_rules([Document("r.dotr", f"{HEAD}{text} with Out.?s = time(A)")], {}).checked().rules
    found = standing(rule, rule.clauses[-1])
    return None if found is None else found.keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("from R as A and last L [ FILTER(?s = A.?s) ] before A", ("s",)),
        ("from R as A and last L [ FILTER(A.?s = ?s && ?v = A.?v && ?v > 3 && time(L) > 0) ] before A", ("s", "v")),
        ("from R as A and last L within 365 d from A", ()),
        ("from R as A and last L within [0, 365 d) from A", ()),
        ("from R as A and not R as B [ FILTER(?s = A.?s) ] within 1 h from A", ("s",)),
        ("from R as A and last R as B within 1 h from A", ()),
        ("from R as A and last R as B within [0, 1 h] from A", None),  # the anchor itself is the newest
        ("from R as A and also last R as B within [0, 1 h] from A", ()),
        ("from R as A delayed by 1 s and last R as B within 1 h from A", None),
        ("from R as A delayed by 1 s and also last R as B within 1 h from A", ()),
        ("from R as A and last L as B within 1 h from A and last L as C within 2 h from A", None),
        ("from R as A and last L as B within 1 h from A and also last L as C within 2 h from A", ()),
        ("from R as A and last L as B within 1 h from A and not L as C within 2 h from A", ()),
        ("from R as A and last L [ FILTER(?v < A.?v) ] within 1 h from A", None),
        ("from R as A and last L within [1 s, 1 h] from A", None),
        ("from R as A and first L within 1 h from A", None),
        ("from R as A and each L within 1 h from A", None),
        ("from R as A and last 1 L within 1 h from A", None),
        ("from R as A and last L as B within 1 h from A and not R as C within 1 h from B", None),
    ],
)
def test_clauses_that_need_the_newest_of_each_key(text: str, keys: tuple[str, ...] | None) -> None:
    assert needed(text) == keys


def test_what_is_consumed_needs_the_older_ones() -> None:
    (rule,) = (
        compile_rules([Document("r.dotr", f"{HEAD}from R and last L within 1 h from R with Out.?s = R.?s consuming L")], {}).checked().rules
    )
    assert standing(rule, rule.clauses[0]) is None


@pytest.mark.parametrize("window", ["before R", "within 365 d from R"])
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_session_keeps_events_in_proportion_to_the_keys(window: str, at_once: int, tmp_path: Path) -> None:
    """Also where elements of two keys come at a time; a saved session goes on."""
    older = {id(each) for each in gc.get_objects() if type(each) is State}
    rules = tmp_path / "r.dotr"
    rules.write_text(f"{HEAD}from R and last R as B [ FILTER(?s = R.?s) ] {window} with Out.?s = R.?s, Out.?v = B.?v, Out.?t = time(B)")
    program, chosen, last = Program.load(rules=rules), random.Random(1), dict[int, tuple[int, int]]()
    session, sizes = program.session(), list[int]()
    for time in range(1_200):
        keys = chosen.sample(range(10), at_once)
        events = session.advance(time, " ".join(f"<http://e/{key}> <http://e/v> {time % 7} ." for key in keys))
        found = sorted((event.attributes["s"], event.attributes["v"], event.attributes["t"]) for event in events)
        assert found == sorted((f"<http://e/{key}>", *map(_integer, last[key])) for key in keys if key in last)
        last |= dict.fromkeys(keys, (time % 7, time))
        if time % 300 == 299:
            sizes.append(len(session.save()))
            session = Session.restored(program, session.save())
    assert max(sizes) < 20_000  # of all events 100,000
    states = [each for each in gc.get_objects() if type(each) is State and id(each) not in older]
    assert max(map(len, states)) <= 2 * (10 + at_once) + SLACK


def _integer(number: int) -> str:
    return f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'
