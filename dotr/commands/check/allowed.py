"""Comments `# dotr: allow CODE (reason)` in a check: the warnings that they suppress, and useless
comments (C222).

A comment that suppresses nothing is reported only if the check could have found its warning: in
files without errors, and for codes that need the data only where a configuration was checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from dotr.commands.test.files import TestFile
from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Allowance, Diagnostic, Severity, Silenced, did_you_mean, without_allowed
from dotr.languages.codes import RuleCode
from dotr.languages.registry import chapters
from dotr.model.places import Span
from dotr.model.terms import Label, Variable
from dotr.syntax.yaml import Tree

_CODE: Final = "C222"
_OF_RULES_ALONE: Final = frozenset(RuleCode) - {RuleCode.BACKGROUND_ALONE, RuleCode.NEVER_TICKS, RuleCode.NEVER_AS_TYPED}

_Key: TypeAlias = tuple[str, int, str]


class AllowedWarnings:
    """The allowing comments in checked files, and the warnings that they suppress."""

    def __init__(self) -> None:
        self._comments: dict[_Key, Allowance] = {}
        self._checked: set[_Key] = set()
        self._silenced: dict[_Key, list[Diagnostic]] = {}

    @property
    def silenced(self) -> list[Diagnostic]:
        """All warnings that comments suppress."""
        return [diagnostic for found in self._silenced.values() for diagnostic in found]

    def kept(self, diagnostics: Iterable[Diagnostic], allowed: Iterable[Allowance]) -> list[Diagnostic]:
        """The diagnostics that no comment suppresses; records the others, and the comments."""
        comments = list(allowed)
        self._comments.update((_key(each), each) for each in comments)
        kept, silenced = without_allowed(diagnostics, comments)
        self.note(silenced)
        return kept

    def note(self, silenced: Iterable[Silenced]) -> None:
        """Record warnings that the compiler has suppressed for a comment."""
        for each in silenced:
            self._silenced.setdefault(_key(each.allowance), []).append(each.diagnostic)

    def judge(self, allowed: Iterable[Allowance], *, with_data: bool) -> None:
        """Mark comments as completely checked: those without a suppressed warning are `problems`.

        `with_data`: the check had a configuration's data; otherwise only the codes that follow from
        the rules alone are marked.
        """
        self._checked.update(_key(each) for each in allowed if with_data or each.code in _OF_RULES_ALONE)

    def problems(self) -> Iterator[Diagnostic]:
        """A warning for each comment that suppresses nothing, or is malformed."""
        known = [entry.code for entries in chapters().values() for entry in entries]
        for key, each in self._comments.items():
            if not each.code:
                yield _warning("this comment cannot be read", each, "It is: # dotr: allow D501 (the links are few)")
            elif each.code not in known:
                hint = did_you_mean(each.code, known)
                yield _warning(f"there is no code {each.code}", each, hint or "docs/errors.md has all codes.")
            elif not each.reason:
                yield _warning(f"{each.code} is allowed without a reason", each, f"Write why: # dotr: allow {each.code} (the reason)")
            elif each.scope is None:
                yield _warning("this comment is above nothing", each, "Write it on a line of its own above the rule, query or entry.")
            elif key in self._checked and key not in self._silenced:
                yield _warning(f"there is no {each.code} to allow here", each, "Leave the comment out.")


def _key(allowance: Allowance) -> _Key:
    return os.path.realpath(allowance.place.document.name), allowance.place.start, allowance.code


def _warning(message: str, allowance: Allowance, hint: str) -> Diagnostic:
    return Diagnostic(_CODE, message, allowance.place, hint, Severity.WARNING)


def entry_spans(tree: Tree) -> list[Span]:
    """The entries of a YAML document that begin a line: keys with their values, and items of lists.

    >>> from dotr.syntax.yaml import read_tree
    >>> from dotr.model.places import Document
    >>> [span.text for span in entry_spans(read_tree(Document("t.yaml", "a: 1\\nb:\\n  - x\\n")))]
    ['a: 1', 'b:\\n  - x', '- x']
    """
    text = tree.document.text
    spans: list[Span] = []
    for location in filter(None, tree.locations):
        value, key = tree.span(location), tree.key_span(location)
        line = text.rfind("\n", 0, key.start) + 1
        first = line + len(text[line : key.start]) - len(text[line : key.start].lstrip(" "))
        if text[first] == "-" if isinstance(location[-1], int) else first == key.start:
            spans.append(Span(tree.document, first, len(text[: value.end].rstrip())))
    return spans


# Names in the expectations of a rule test that its program lacks: events, rules, labels and
# attributes.

_UNEXPECTED = "C210"


def unknown_names(test: TestFile, program: CompiledProgram) -> Iterator[Diagnostic]:
    """Warning (C210) for each unknown name in the expectations of a test."""
    rules = {rule.name: rule.event for rule in program.rules.rules}
    for number, case in enumerate(test.section.cases):
        for k, expected in enumerate(case.expect or ()):
            location = ("cases", number, "expect", k)
            if expected.event is None:
                pass
            elif expected.event not in program.attributes:
                yield _unknown(
                    test, (*location, "event"), f"no rule defines the event {expected.event}", expected.event, program.attributes
                )
            else:
                known = program.attributes[expected.event]
                yield from _attributes(test, location, expected.event, expected.attributes or {}, known)
            if expected.rule is not None and expected.rule not in rules:
                yield _unknown(test, (*location, "rule"), f"there is no rule {expected.rule}", expected.rule, rules)
        for k, fact in enumerate(case.facts or ()):
            location = ("cases", number, "facts", k)
            if fact.fact not in program.projected:
                yield _unknown(test, (*location, "fact"), f"no query is called {fact.fact}", fact.fact, program.projected)
            else:
                yield from _attributes(test, location, fact.fact, fact.attributes, program.projected[fact.fact])


def _attributes(
    test: TestFile, location: tuple[str | int, ...], label: Label, attributes: Mapping[str, str], known: Sequence[Variable]
) -> Iterator[Diagnostic]:
    for name in attributes:
        if name.removeprefix("?") not in known:
            message = f"{label} has no attribute {name}"
            yield _unknown(test, (*location, "attributes", name), message, name, known, f"{label} has {', '.join(known) or 'none'}.")


def _unknown(
    test: TestFile, location: tuple[str | int, ...], message: str, name: str, known: Iterable[str], instead: str = "The case can only fail."
) -> Diagnostic:
    hint = did_you_mean(name, sorted(known))
    return Diagnostic(_UNEXPECTED, message, test.tree.span(location), f"{instead} {hint}".rstrip(), Severity.WARNING)
