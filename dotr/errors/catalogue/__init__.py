"""Catalogue of the codes of errors and warnings that are of no language; `docs/errors.md` is
generated from it and from the chapters of languages (`dotr.languages.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dotr.errors.catalogue.configuration import CONFIGURATION
from dotr.errors.catalogue.entries import ErrorCode
from dotr.errors.catalogue.inputs import INPUTS, TEMPLATES
from dotr.errors.catalogue.spark import SPARK
from dotr.errors.catalogue.stage_one import DATALOG, KNOWLEDGE, QUERIES

CHAPTERS: Final[Mapping[str, tuple[ErrorCode, ...]]] = {
    "C: configuration, rule tests, command line": CONFIGURATION,
    "Q: queries and conditions": QUERIES,
    "T: templates": TEMPLATES,
    "K: background knowledge and Datalog": (*KNOWLEDGE, *DATALOG),
    "I: inputs and outputs": INPUTS,
    "S: Spark": SPARK,
}
