"""Result of compiling rule files, in a module of its own: it can be imported without the parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dotr.errors.checked_files import CheckedFiles
from dotr.errors.diagnostics import Diagnostic
from dotr.model.rule_places import RulePlaces
from dotr.model.rules import Rule, SharedQuery
from dotr.model.terms import Prefixes


@dataclass(frozen=True, slots=True)
class RuleSet(CheckedFiles):
    """Result of compiling rule files.

    - `rules`, `queries`: empty if there is an error.
    - `diagnostics`: those without a span, then by file and offset.
    - `prefixes`: those of files (of two declarations the first), then the configuration's.
    - `places`: places of the parts of rules, by rule name.
    """

    rules: tuple[Rule, ...]
    queries: tuple[SharedQuery, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)
    places: Mapping[str, RulePlaces] = field(default_factory=dict, repr=False)
