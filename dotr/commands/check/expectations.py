"""Names in the expectations of a rule test that its program lacks: events, rules, labels and
attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dotr.commands.test.files import TestFile
from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Severity, did_you_mean
from dotr.model.terms import Label, Variable

_CODE = "C210"


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
            if fact.fact not in program.reported:
                yield _unknown(test, (*location, "fact"), f"no query is called {fact.fact}", fact.fact, program.reported)
            else:
                yield from _attributes(test, location, fact.fact, fact.attributes, program.reported[fact.fact])


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
    return Diagnostic(_CODE, message, test.tree.span(location), f"{instead} {hint}".rstrip(), Severity.WARNING)
