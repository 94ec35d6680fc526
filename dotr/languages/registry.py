"""Languages of rule files (semantics.md, section 8): for each the extension of its files, their
reader, and its chapter of the catalogue of codes.

Readers and chapters are loaded where they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Diagnostic
from dotr.model.places import Document, Span

if TYPE_CHECKING:
    from dotr.errors.catalogue.entries import ErrorCode
    from dotr.languages.linking import UnitFiles


class RuleLanguage(Enum):
    """Language of a rule file; the value is the extension of its files."""

    RULES = ".dotr"
    CONTINUOUS = ".rspql"
    LARS = ".lars"
    EP_SPARQL = ".epsparql"

    @staticmethod
    def of(name: str) -> RuleLanguage | None:
        """The language of a file by its name; None for another extension.

        >>> RuleLanguage.of("rules/trend.rspql"), RuleLanguage.of("notes.txt")
        (<RuleLanguage.CONTINUOUS: '.rspql'>, None)
        """
        suffix = Path(name).suffix
        return RuleLanguage(suffix) if suffix in _EXTENSIONS else None


_EXTENSIONS = frozenset(language.value for language in RuleLanguage)


def extension_problem(name: str, span: Span | None = None) -> Diagnostic | None:
    """The error (C319) of a rule file with an unknown extension; None for a known one.

    `span`: the place of the file's name in a configuration.

    >>> print(extension_problem("rules/fire.txt"))
    C319 rules/fire.txt is no rule file: its extension names no language
    Rule files are .dotr (rules), .rspql (continuous queries), .lars and .epsparql.
    """
    language = RuleLanguage.of(name)
    if language is None:
        hint = "Rule files are .dotr (rules), .rspql (continuous queries), .lars and .epsparql."
        return Diagnostic("C319", f"{name} is no rule file: its extension names no language", span, hint)
    return None


def of_language(documents: tuple[Document, ...], language: RuleLanguage) -> tuple[Document, ...]:
    """The documents of a language, by extension; any unknown extension counts as rules.

    >>> of_language((Document("a.dotr", ""), Document("b.rspql", ""), Document("inline", "")), RuleLanguage.RULES)
    (Document(name='a.dotr', text=''), Document(name='inline', text=''))
    """
    return tuple(document for document in documents if (RuleLanguage.of(document.name) or RuleLanguage.RULES) is language)


def has_units(documents: Iterable[Document]) -> bool:
    """True if some rule file is in another language than that of rules."""
    return any(RuleLanguage.of(document.name) not in (None, RuleLanguage.RULES) for document in documents)


def read_unit_files(spec: ProgramSpec) -> list[UnitFiles]:
    """The parsed files of each language except that of rules; none for a language without files."""
    found: list[UnitFiles] = []
    if documents := of_language(spec.rules, RuleLanguage.CONTINUOUS):
        from dotr.languages.continuous.reading import compile_continuous

        found.append(compile_continuous(documents, spec.prefixes, spec.unit))
    if documents := of_language(spec.rules, RuleLanguage.LARS):
        from dotr.languages.lars.reading import compile_lars

        found.append(compile_lars(documents, spec.prefixes))
    if documents := of_language(spec.rules, RuleLanguage.EP_SPARQL):
        from dotr.languages.epsparql.reading import compile_temporal

        found.append(compile_temporal(documents, spec.prefixes))
    return found


def chapters() -> Mapping[str, tuple[ErrorCode, ...]]:
    """The chapters of the catalogue of codes with those of all languages, in the order of the page
    of errors.
    """
    from dotr.errors.catalogue import CHAPTERS
    from dotr.languages.continuous.catalogue import WINDOWS
    from dotr.languages.epsparql.catalogue import TEMPORAL
    from dotr.languages.lars.catalogue import LARS
    from dotr.languages.rules.catalogue import RULES

    (configuration, entries), *others = CHAPTERS.items()
    of_units = {"W: continuous queries": WINDOWS, "L: LARS": LARS, "E: EP-SPARQL": TEMPORAL}
    return {configuration: entries, "D: rules": RULES, **dict(others), **of_units}
