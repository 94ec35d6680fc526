"""Entailment rule sets: `*.dlog` beside this file; each rule has the name of its row in the W3C
tables.

Invariant: without `axiomatic` no rule derives a reflexive triple (`irreflexive.py`), and only rules
of hidden predicates have no premises.
Source: RDF 1.1 Semantics, section 9.2.1; OWL 2 Profiles (second edition), section 4.3.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Final, assert_never

from dotr.instant.datalog.entailment.irreflexive import irreflexive
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document

_ROW_NAME: Final = re.compile(r"^# ([a-z]+[0-9]*(?:-[a-z0-9]+)*)$", re.MULTILINE)


class Entailment(Enum):
    """The entailment regime of the background and of every instant: none, RDFS or OWL 2 RL
    (docs/entailment.md).

    The value is the word of `Program.load` and of the configuration (`knowledge.entailment`).

    >>> Entailment("rdfs")
    <Entailment.RDFS: 'rdfs'>
    """

    NONE = "none"
    RDFS = "rdfs"
    OWL2RL = "owl2rl"


@cache
def rule_set(entailment: Entailment, *, axiomatic: bool = False) -> tuple[DatalogRule, ...]:
    """The rules of an entailment regime.

    `axiomatic`: adds the axiomatic triples, and keeps reflexive conclusions.
    A row that concludes `false` has an empty head (semantics.md, section 2).
    >>> [rule.name for rule in rule_set(Entailment.RDFS)]
    ['rdfs2', 'rdfs3', 'rdfs5', 'rdfs7', 'rdfs7', 'rdfs9', 'rdfs11']
    """
    match entailment:
        case Entailment.NONE:
            return ()
        case Entailment.RDFS | Entailment.OWL2RL:
            if axiomatic:
                return _read(f"{entailment.value}.dlog") + _read(f"{entailment.value}_axioms.dlog")
            return irreflexive(_read(f"{entailment.value}.dlog"))
        case _:
            assert_never(entailment)


def _read(name: str) -> tuple[DatalogRule, ...]:
    """The rules of a file, each under the last row name above it."""
    from dotr.syntax.datalog import parse_datalog  # not in workers, which are given parsed rules

    document = Document(name, files(__package__).joinpath(name).read_text(encoding="utf-8"))
    rows = [(found.start(), found[1]) for found in _ROW_NAME.finditer(document.text)]
    starts = [start for start, _ in rows]
    return tuple(
        replace(rule, name=rows[bisect_right(starts, rule.span.start) - 1][1], of_rule_set=True)
        for rule in parse_datalog(document, {})
        if rule.span is not None
    )
