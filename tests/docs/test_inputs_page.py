"""The table of docs/inputs.md: each row is run."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Project
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

ROWS = re.findall(r"^\| (\S+) \| `([^`]*)` \| `([^`]*)` \| `(\S+) :(\w+) ([^`]*)` \|$", (ROOT / "docs/inputs.md").read_text(), re.MULTILINE)
RULES = """PREFIX : <http://example.org/>
query Q = [ SELECT ?v WHERE {{ ?s :{} ?v }} ]
rule R define E = [ [] :v ?v ] from Q with E.?v = Q.?v
"""


@pytest.mark.parametrize(("name", "lines", "keys", "time", "predicate", "value"), ROWS)
def test_row_gives_its_triple(project: Project, name: str, lines: str, keys: str, time: str, predicate: str, value: str) -> None:
    project.write(name, lines.replace("⏎", "\n") + "\n")
    project.write("r.dotr", RULES.format(predicate))
    project.write(
        "c.yaml",
        f'name: c\nprefixes: {{ "": "http://example.org/" }}\nrules: [r.dotr]\ninput: [{{ name: a, path: {name}, {keys} }}]\n'
        "output: [{ format: csv, path: out.csv }]\n",
    )
    ran = project.dotr("run", "c.yaml", "--engine", "local")
    assert ran.code == 0, ran.err
    assert project.read("out.csv").splitlines()[1] == f"{time},R,E,{value.strip(chr(34))}"


def test_rows_are_read() -> None:
    assert len(ROWS) == 14
