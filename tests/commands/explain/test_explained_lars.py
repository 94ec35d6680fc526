"""Explanations and drawings of LARS files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.commands.explain.text import explain

pytestmark = pytest.mark.core

FILES = {
    "c.yaml": "name: c\nrules: [r.dotr, a.lars]\ninput: [{ name: in, format: ndjson, path: in.ndjson }]\noutput: [{ path: out.ndjson }]\n",
    "in.ndjson": "",
    "r.dotr": "PREFIX : <http://example.org/>\nquery Near = [ SELECT ?s ?o WHERE { ?s :near ?o } ]\n"
    "define High = [ [] :of ?s ] from T = [ SELECT ?s WHERE { ?s :high ?v } ] with High.?s = T.?s\n",
    "a.lars": "PREFIX : <http://example.org/>\nRESOLUTION 2 s .\n"
    "Lasting(?s) :- EVENT High(?s) ALWAYS IN [4 s], EVENT Near(?s, ?o), :temp(?s, ?v) IN [LAST 2 PER ?s], NOT :temp(?s, 0) IN [8 s] .\n"
    "REPORT Lasting(?s) .\n",
}
TEXT = """\
LARS file a.lars
  points     of 2 s; the stream is all that holds at an instant (STREAM CLOSED)
  reports    Lasting: NEW, ?s, without a graph
  state      EVENT High: each point of 4 s
             EVENT Near: the point itself
             :temp: of each atom the last point of 8 s and [LAST 2 PER ?s] of it
  partition  keyed: Lasting by argument 1, EVENT High by ?s, EVENT Near by ?s, :temp by subject
  layer      1: it reads High, Near, complete before each point
"""


@pytest.fixture
def configuration(tmp_path: Path) -> str:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path / "c.yaml")


def test_retention_and_key_are_explained(configuration: str) -> None:
    assert TEXT in explain(configuration) + "\n"


def test_a_drawing_shows_the_file_and_its_events(configuration: str) -> None:
    drawn = explain(configuration, "mermaid")
    assert "LARS file a.lars" in drawn
    assert '-- "EVENT High" --> u0' in drawn
    assert "EVENT High" in explain(configuration, "svg")


def test_a_file_alone_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a.lars").write_text("Q(?x, ?y) :- <urn:p>(?x, ?v), <urn:p>(?y, ?v) .")
    found = explain(str(tmp_path / "a.lars"))
    assert "  partition  keyed: Q" not in found
    assert "  reports    nothing leaves the file" in found
    assert "one partition, on one core: no variable stands in all atoms of the rule at line 1" in found
