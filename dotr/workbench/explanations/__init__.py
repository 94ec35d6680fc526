"""Every code of an error or a warning: what it means, an example, and the way out. The one source of `docs/errors.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dotr.workbench.explanations.configuration import CONFIGURATION
from dotr.workbench.explanations.knowledge import DATALOG, KNOWLEDGE
from dotr.workbench.explanations.noun import CodeExplanation
from dotr.workbench.explanations.queries import QUERIES, TEMPLATES
from dotr.workbench.explanations.rules import RULES
from dotr.workbench.explanations.running import INPUTS, SPARK

CHAPTERS: Final[Mapping[str, tuple[CodeExplanation, ...]]] = {
    "C: configuration, rule tests, command line": CONFIGURATION,
    "D: rules": RULES,
    "Q: queries and conditions": QUERIES,
    "T: templates": TEMPLATES,
    "K: background knowledge and Datalog": (*KNOWLEDGE, *DATALOG),
    "I: inputs and outputs": INPUTS,
    "S: Spark": SPARK,
}
