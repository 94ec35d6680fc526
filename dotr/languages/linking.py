"""Linking of the units of a program: one space of labels, streams by name, cycles (semantics.md,
8).

Idea: first the files of each language are parsed (`UnitFiles`), then the rules, which read events
of units by label. Then all labels are known, and each language resolves the names in its files to
streams and makes its units. A name of a stream is looked up among the names of CONSTRUCT queries,
then the labels of units whose events have graphs, the streams that inputs feed, and the names of
inputs (continuous.md, 2). In a program without inputs every other name is that of a stream which
the caller feeds.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from dotr.engine.spec import RuleSet
from dotr.errors.diagnostics import CheckedFiles, Diagnostic, Severity, did_you_mean
from dotr.evaluation.expressions.kinds import time_misuses
from dotr.languages.codes import RuleCode, UnitCode
from dotr.model.algebra import Expression, Var, is_hidden
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource, Rule, SharedQuery, facts_of
from dotr.model.stream import InputStream
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.time import Forms
from dotr.model.traverse import subexpressions
from dotr.model.units import FedGraphs, GraphStream, MadeGraphs, UnitEvents
from dotr.syntax.scan import RESERVED, compared_variable
from dotr.temporal.layout.units import StreamUnit, refused_cycles


def label_problems(units: Sequence[UnitEvents]) -> Iterator[Diagnostic]:
    """Problems of labels: two units with one label (D222), and a label that no rule can read (D223,
    a warning)."""
    first: dict[Label, UnitEvents] = {}
    for unit in units:
        if first.setdefault(unit.label, unit) is not unit:
            line, column = first[unit.label].span.line_column
            at = f"{first[unit.label].span.document.name}:{line}:{column}"
            hint = f"The first is at {at}. Labels are one space: rename one."
            yield Diagnostic(UnitCode.LABEL_OF_UNIT, f"two units have the label {unit.label}", unit.span, hint)
        if unit.label.lower() in RESERVED:
            hint = "It is a word of the rule language. Choose another label, if a rule is to read it."
            yield Diagnostic(UnitCode.UNREADABLE_LABEL, f"no rule can read {unit.label} by label", unit.span, hint, Severity.WARNING)


class ResolvedUnits(NamedTuple):
    """The units of the files of one language, without those that have an error.

    - `problems`: those that need the whole program: unknown streams, labels, attributes.
    """

    units: Sequence[StreamUnit]
    problems: Sequence[Diagnostic] = ()


class UnitFiles(CheckedFiles, ABC):
    """The parsed files of one language in a program.

    - `events`: the events of their units; where two units have one label, both.
    - `diagnostics`: errors and warnings that need no other file.
    - `prefixes`: those that the files declare, and those of the configuration.
    """

    __slots__ = ()

    prefixes: Prefixes

    @property
    @abstractmethod
    def events(self) -> Sequence[UnitEvents]: ...

    @property
    def names(self) -> Mapping[str, Label]:
        """The labels of units that are streams under a name of their own, by that name."""
        return {}

    @abstractmethod
    def resolve(self, names: ProgramNames) -> ResolvedUnits:
        """The units, with the streams that they read. Call it only if no file has an error."""

    def joined(self, units: Sequence[StreamUnit], names: ProgramNames) -> Sequence[StreamUnit]:
        """The units of a program; those of this language that depend on themselves through the past
        are joined with what they depend on. Call it only if there is no cycle of another kind."""
        return units

    def without_cycle(self, unit: str) -> str:
        """The noun for units that may be in no cycle, where a unit of this name is in one: the unit, or
        all of its kind."""
        return unit


def resolve_units(files: Sequence[UnitFiles], ruleset: RuleSet, inputs: Sequence[InputStream]) -> ResolvedUnits:
    """The units of all files, with the streams that they read.

    Where no language has an error, cycles are checked (D404). Units that depend on themselves
    through the past are joined into one unit.
    """
    made, rules = [events for each in files for events in each.events], ruleset.rules
    own_names = {name: label for each in files for name, label in each.names.items()}
    names = ProgramNames(rules, made, own_names, inputs, ruleset.queries, ruleset.forms)
    resolved = [each.resolve(names) for each in files]
    units: Sequence[StreamUnit] = [unit for each in resolved for unit in each.units]
    problems = [problem for each in resolved for problem in each.problems]
    if not any(map(_is_error, problems)):
        barred = {unit.name: each.without_cycle(unit.name) for each, of in zip(files, resolved, strict=True) for unit in of.units}
        problems += _cycles(rules, units, barred)
    if not any(map(_is_error, problems)):
        for each in files:
            units = each.joined(units, names)
    return ResolvedUnits(units, problems)


def _is_error(problem: Diagnostic) -> bool:
    return problem.severity is Severity.ERROR


class ProgramNames:
    """Symbol table of a program: its labels and streams.

    - `labels`: the events of rules and units, by label; of rules with the place of the first.
    - `rules`: the rules of the program; `shared`: its shared queries, by label.
    - `forms`: the forms of the attributes of each label's events.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        made: Iterable[UnitEvents],
        queries: Mapping[str, Label],
        inputs: Sequence[InputStream],
        shared: Sequence[SharedQuery] = (),
        forms: Mapping[Label, Forms] = MappingProxyType({}),
    ) -> None:
        self.rules, self.forms = rules, forms
        self.shared = {each.label: each for each in shared}
        self.labels: dict[Label, UnitEvents] = {each.label: each for each in made}
        for rule in rules:
            attributes = {each.variable for each in rule.assignments}
            before = self.labels.get(rule.event, UnitEvents(rule.event, (), rule.span, True))
            self.labels[rule.event] = replace(before, attributes=tuple(sorted({*before.attributes, *attributes})))
        self._known: dict[str, GraphStream] = {}
        self._without_graphs: dict[str, Label] = {}
        self._is_open = not inputs
        for name, label in queries.items():
            if self.labels[label].has_graphs:
                self._known.setdefault(name, MadeGraphs(label))
        for label, each in self.labels.items():
            if each.has_graphs:
                self._known.setdefault(label, MadeGraphs(label))
            else:
                self._without_graphs[label] = label
        for name, label in queries.items():
            if name not in self._known:
                self._without_graphs[name] = label
        for fed in inputs:
            self._known.setdefault(fed.fed, FedGraphs(fed.fed))
        for fed in inputs:
            self._known.setdefault(fed.name, FedGraphs(fed.fed))

    def source_of(
        self, label: Label, attributes: Iterable[Variable], span: Span, problems: list[Diagnostic]
    ) -> EventSource | FactSource | None:
        """The source of the events of a label, or of the facts of a shared query.

        None, with a diagnostic added to `problems`, if there is no such label (D205) or if it lacks
        one of `attributes` (D207).
        """
        shared = self.shared.get(label)
        source = None if shared is None else facts_of(shared)
        made = self.labels.get(label)
        if source is None and made is None:
            known = sorted({*self.shared, *self.labels})
            hint = did_you_mean(label, known) or (f"Labels are {', '.join(known)}." if known else "No unit of the program makes events.")
            problems.append(Diagnostic(RuleCode.UNKNOWN_EVENT, f"no query and no event is called {label}", span, hint))
            return None
        has = source.attributes if source is not None else made.attributes if made is not None else ()
        unknown = [name for name in attributes if name not in has]
        for name in unknown:
            all_of_them = f"{label} has {', '.join(f'?{each}' for each in has)}." if has else f"{label} has no attributes."
            close = did_you_mean(name, has).replace("mean ", "mean ?")
            hint = f"{all_of_them} {close}".rstrip()
            problems.append(Diagnostic(RuleCode.UNKNOWN_ATTRIBUTE, f"{label} has no attribute ?{name}", span, hint))
        if unknown:
            return None
        return source if source is not None else EventSource(label, has)

    def stream_of(self, name: str, span: Span, problems: list[Diagnostic]) -> GraphStream | None:
        """The stream of graphs with a name; None, with a diagnostic added to `problems`, if there
        is none."""
        if name in self._known:
            return self._known[name]
        if name in self._without_graphs:
            problems.append(_no_graphs(self._without_graphs[name], span))
            return None
        if self._is_open:
            return FedGraphs(name)
        known = sorted(self._known)
        hint = did_you_mean(name, known) or f"Streams are {', '.join(known)}: `stream:` of an input, the name of an input, or a label."
        problems.append(Diagnostic(UnitCode.UNKNOWN_STREAM, f"there is no stream {name}", span, hint))
        return None


def _no_graphs(label: Label, span: Span) -> Diagnostic:
    hint = "Only events with graphs are a stream: those of rules and of CONSTRUCT."
    return Diagnostic(UnitCode.NO_GRAPHS, f"the events of {label} have no graphs, so they are no stream", span, hint)


def _cycles(rules: Sequence[Rule], units: Sequence[StreamUnit], barred: Mapping[str, str]) -> Iterator[Diagnostic]:
    """The error of each cycle (D404). `barred`: what is in no cycle, by the name of a unit."""
    for cycle in refused_cycles(rules, units):
        way = " needs ".join(cycle.labels)
        hint = f"{barred[cycle.unit]} is in no cycle, not even through the past. Let one of them read something else."
        if cycle.now:
            hint = "Each reads what the other makes at the same moment. Let one of them read what was before, as the left operand of SEQ."
        yield Diagnostic(UnitCode.CYCLE_OF_UNITS, f"a cycle: {way}", cycle.span, hint)


def unbound_warnings(
    found: Iterable[tuple[Variable, Iterable[Variable]]], span: Span, elsewhere: Container[Variable], told: Iterable[Variable] = ()
) -> Iterator[Diagnostic]:
    """Warnings (D219) of variables of conditions that nothing binds, each once.

    - `found`: the variables, each with those that are bound there, as of `traverse.never_bound`.
    - `span`: the text of the query; `elsewhere`: the variables that the query binds somewhere.
    - `told`: variables that another diagnostic names.
    """
    known = {name for name in told if name not in elsewhere}
    for name, bound in found:
        if name in known or is_hidden(name):
            continue
        known.add(name)
        near = did_you_mean(f"?{name}", [f"?{each}" for each in bound if not is_hidden(each)])
        if name in elsewhere:
            message, near = f"?{name} is not bound in these braces", "It is bound outside of them: move the condition there."
        else:
            message = f"?{name} is never bound in this query"
        hint = f"It has no value: a comparison with it can only err, and BOUND of it is false. {near}".rstrip()
        yield Diagnostic(RuleCode.NEVER_BOUND, message, compared_variable(span, name, "=<>!+-*/"), hint, Severity.WARNING)


def misuse_warnings(
    expressions: Iterable[Expression], forms: Forms, code: str, span: Span, calls: Mapping[Variable, str] = MappingProxyType({})
) -> Iterator[Diagnostic]:
    """Warnings of times that a unit's expressions use as numbers.

    - `span`: the text with the expressions.
    - `calls`: of hidden variables the pattern of their text.
    """
    for misuse in (found for each in expressions for found in time_misuses(each, forms, {}, {})):
        name = next(each.name for each in subexpressions(misuse.operand) if isinstance(each, Var) and each.name in forms)
        at = re.search(calls[name], span.text) if name in calls else None
        place = Span(span.document, span.start + at.start(), span.start + at.end()) if at else compared_variable(span, name, "=<>!+-*/")
        yield misuse.warning(code, place)
