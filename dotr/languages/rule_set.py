"""Rules and shared queries of a program, as their compiler gives them; no parser is loaded here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.checked_files import CheckedFiles
from dotr.model.rule_places import RulePlaces
from dotr.model.rules import Rule, SharedQuery
from dotr.model.terms import Prefixes


@dataclass(frozen=True, slots=True)
class RuleSet(CheckedFiles):
    """Result of compiling rule files. `rules` and `queries` are empty if there is an error.

    `diagnostics` are the errors and warnings, ordered by file and offset, those without a span
    first. `prefixes` are those that the files declare (of two files that declare one prefix, those
    of the first), then the configuration's. `places`, by rule name: places of the parts of rules.
    """

    rules: tuple[Rule, ...]
    queries: tuple[SharedQuery, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)
    places: Mapping[str, RulePlaces] = field(default_factory=dict, repr=False)
