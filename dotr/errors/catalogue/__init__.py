"""Catalogue of all codes of errors and warnings; `docs/errors.md` is generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dotr.errors.catalogue.background import DATALOG, KNOWLEDGE
from dotr.errors.catalogue.configuration import CONFIGURATION
from dotr.errors.catalogue.entries import ErrorCode
from dotr.errors.catalogue.queries import QUERIES, TEMPLATES
from dotr.errors.catalogue.running import INPUTS, SPARK
from dotr.languages.continuous.catalogue import WINDOWS
from dotr.languages.epsparql.catalogue import TEMPORAL
from dotr.languages.lars.catalogue import LARS
from dotr.languages.rules.catalogue import RULES

CHAPTERS: Final[Mapping[str, tuple[ErrorCode, ...]]] = {
    "C: configuration, rule tests, command line": CONFIGURATION,
    "D: rules": RULES,
    "Q: queries and conditions": QUERIES,
    "T: templates": TEMPLATES,
    "K: background knowledge and Datalog": (*KNOWLEDGE, *DATALOG),
    "I: inputs and outputs": INPUTS,
    "S: Spark": SPARK,
    "W: continuous queries": WINDOWS,
    "L: LARS": LARS,
    "E: EP-SPARQL": TEMPORAL,
}
