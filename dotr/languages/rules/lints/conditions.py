"""Pass 10: finds conditions that never hold and operations that always err, from the text alone.

Before: `FILTER(?v > 5 && ?v < 3)`. After: the same rules, and a warning at `?v`.
Idea: a comparison of terms without a common kind (`kinds.py`) is never true; a function errs on an
argument of a kind outside its domain (`domains.py`); two comparisons in one conjunction may exclude
each other (`exclusive.py`).
Invariant: no false alarm. The kinds of a predicate's objects are those in `objects`; without an
entry, any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions import condition
from dotr.evaluation.expressions.casts import CASTS
from dotr.evaluation.expressions.functions import IN_ZONE, MATH, MATH_FUNCTIONS
from dotr.evaluation.expressions.kinds import (
    ANYTHING,
    ObjectKinds,
    Scope,
    TermKind,
    TermKinds,
    aggregate_kinds,
    expression_kinds,
    kinds_text,
    pattern_kinds,
    term_kind,
)
from dotr.languages.codes import RuleCode
from dotr.languages.rules.lints.unsatisfiable import (
    Conjunct,
    exclusive_comparisons,
    expression_text,
    first_atom,
    is_constant,
    span_of,
    split,
)
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, SplitQuery, event_reads, warning
from dotr.languages.rules.syntax import AggregateSyntax, ByLabel
from dotr.model.algebra import Attribute, Call, Const, Expression, Extend, Filter, Group, Pattern, Var, is_arithmetic, is_chain
from dotr.model.graphs import least_fixpoint
from dotr.model.places import Span
from dotr.model.terms import XSD, Label, Variable
from dotr.syntax import scan

_LITERALS: Final = frozenset({TermKind.NUMBER, TermKind.STRING, TermKind.BOOLEAN})
_TEXT: Final = frozenset({TermKind.STRING})
_NUMBER: Final = frozenset({TermKind.NUMBER})
_NODES: Final = frozenset({TermKind.IRI, TermKind.BLANK, TermKind.TRIPLE})
_ORDERED: Final = _LITERALS | {TermKind.OTHER}

_EventKinds: TypeAlias = Mapping[Label, Mapping[Variable, TermKinds]]


def check_conditions(program: ProgramDraft) -> ProgramDraft:
    """Report the warnings D313, D314 and D317."""
    events = _event_kinds(program)
    problems = [
        p
        for query in program.queries
        if query.query
        for p in (
            *_contradictions(_where_conjuncts(query.query), _query_kinds(query.query, program.object_kinds), {}),
            *_binding_errors(query.query, program.object_kinds),
        )
    ]
    for rule in program.rules:
        problems += _rule_problems(rule, events, program.object_kinds)
    return replace(program, kinds=events).with_problems(problems)


def _rule_problems(rule: RuleDraft, events: _EventKinds, objects: ObjectKinds) -> Iterator[Diagnostic]:
    bound: dict[Label, Mapping[Variable, TermKinds]] = {}
    aggregates: dict[Variable, TermKinds] = {}
    for role, clause in zip(rule.roles, (None, *rule.syntax.clauses), strict=True):
        own = _attribute_kinds(role, events, objects)
        narrowed = _narrowed(role, own)
        where = _where_conjuncts(role.query)
        own_problems = list(_contradictions(where, own, bound))
        if role.origin is RoleOrigin.OWN and role.query is not None:
            yield from own_problems
            yield from _binding_errors(role.query, objects)
        conjuncts = [Conjunct(c, role.query.text) for c in role.query.constraints] if role.query else []
        if isinstance(role.syntax, ByLabel) and role.syntax.filters is not None:
            conjuncts += [Conjunct(c, role.syntax.filters) for c in role.filters]
        if conjuncts:
            yield from (p for p in _contradictions([*where, *conjuncts], own, bound) if p not in own_problems)
        bound[role.label.text] = narrowed
        if isinstance(clause, AggregateSyntax):
            argument = ANYTHING if clause.argument is None else narrowed.get(clause.argument[1].text, ANYTHING)
            yield from _non_numeric_aggregate(clause, argument)
            aggregates[clause.variable.text] = aggregate_kinds(clause.function.text, argument)
            bound[role.label.text] = {clause.variable.text: aggregates[clause.variable.text]}
    if rule.condition is not None and rule.syntax.condition is not None:
        yield from _contradictions([Conjunct(rule.condition, rule.syntax.condition)], aggregates, bound)
    for assignment, expression in zip(rule.syntax.assignments, rule.expressions, strict=False):
        if expression is not None:
            yield from _type_errors(Conjunct(expression, assignment.expression), aggregates, bound)


def _non_numeric_aggregate(clause: AggregateSyntax, kinds: TermKinds) -> Iterator[Diagnostic]:
    """The warning for a sum or an average over an attribute that is never a number."""
    function = clause.function.text.lower()
    if function in NUMERIC_AGGREGATES and TermKind.NUMBER not in kinds and clause.argument is not None:
        variable = clause.argument[1]
        hint = f"Here ?{variable.text} is {kinds_text(kinds)}, so that ?{clause.variable.text} is unbound wherever there is an event."
        yield warning(RuleCode.CAN_ONLY_ERR, f"{function} takes numbers", variable.span, hint)


def _binding_errors(query: SplitQuery, objects: ObjectKinds) -> Iterator[Diagnostic]:
    """Type errors in the top-level BINDs of WHERE, and in the SELECT line."""
    pattern = query.select.pattern
    while isinstance(pattern, Extend | Filter | Group):
        if isinstance(pattern, Extend):
            yield from _type_errors(Conjunct(pattern.expression, query.text), pattern_kinds(pattern.pattern, objects), {})
        pattern = pattern.pattern


def _type_errors(conjunct: Conjunct, own: Mapping[Variable, TermKinds], bound: Scope) -> Iterator[Diagnostic]:
    """Type errors in the operations of an expression; one for each span."""
    reported: set[Span] = set()
    for misused in islice(misused_arguments(conjunct.expression, own, bound), _MAX_REPORTS):
        span, text = _misused_span(conjunct, misused), expression_text(misused.argument)
        if span not in reported:
            reported.add(span)
            hint = f"Here {text} is {kinds_text(misused.kinds)}. {misuse_hint(misused, text)}".rstrip()
            yield warning(RuleCode.CAN_ONLY_ERR, f"{_operation_text(misused.function)} can only err", span, hint)


def _misused_span(conjunct: Conjunct, misused: MisusedArgument) -> Span:
    match first_atom(misused.argument):
        case Var(name) if misused.function[0].isalpha():
            return scan.argument_variable(conjunct.text, name, misused.function)
        case Var(name) if is_arithmetic(misused.function):
            return scan.compared_variable(conjunct.text, name, "+-*/")
        case atom:
            return span_of(conjunct, atom)


def _operation_text(function: str) -> str:
    match function:
        case "!":
            return "the negation"
        case _ if function in MATH_FUNCTIONS:
            return f"math:{function[len(MATH) + 1 : -1]}(…)"
        case _ if function.startswith("<"):
            return f"xsd:{function[len(XSD) + 1 : -1]}(…)"
        case _ if function[0].isalpha() and not function.startswith("UNARY"):
            return f"{function}(…)"
        case _:
            return "this arithmetic"


def _query_kinds(query: SplitQuery, objects: ObjectKinds) -> Mapping[Variable, TermKinds]:
    return pattern_kinds(query.select.pattern, objects)


def _attribute_kinds(role: RoleDraft, events: _EventKinds, objects: ObjectKinds) -> Mapping[Variable, TermKinds]:
    if role.origin is RoleOrigin.EVENT:
        return events.get(role.source_label.text, {})
    return _query_kinds(role.query, objects) if role.query else {}


def _narrowed(role: RoleDraft, own: Mapping[Variable, TermKinds]) -> Mapping[Variable, TermKinds]:
    """The kinds of a role's attributes under its conditions: with `?v > 5`, ?v is a number."""
    narrowed = dict(own)
    conditions = [conjunct.expression for conjunct in _where_conjuncts(role.query)] + list(role.filters)
    for conjunct in (part.expression for each in conditions for part in split(Conjunct(each, role.label.span))):
        match conjunct:
            case Call("=" | "<" | "<=" | ">" | ">=", (Var(name), Const(term)) | (Const(term), Var(name))):
                # An empty intersection is a contradiction, which `_contradictions` reports.
                kinds = narrowed.get(name, ANYTHING)
                narrowed[name] = kinds & {term_kind(term)} or kinds
            case _:
                pass
    return narrowed


def _event_kinds(program: ProgramDraft) -> _EventKinds:
    """The kinds of each event's attributes, by the assignments of all rules.

    A least fixpoint from the empty sets, as rules may be recursive. An attribute without a kind
    belongs to an event that is never derived, and may be anything.
    """
    rules = program.rules_by_event
    nothing: TermKinds = frozenset()
    start: dict[Label, Mapping[Variable, TermKinds]] = {
        label: dict.fromkeys(names, nothing) for label, names in program.event_attributes.items()
    }
    for unit in program.units:
        start[unit.label] = {**start[unit.label], **dict.fromkeys(unit.attributes, ANYTHING)}
    found = least_fixpoint(
        start, event_reads(rules), lambda label, events: _assigned_kinds(rules[label], events[label], events, program.object_kinds)
    )
    return {label: {name: kinds or ANYTHING for name, kinds in names.items()} for label, names in found.items()}


def _assigned_kinds(
    rules: Iterable[RuleDraft], known: Mapping[Variable, TermKinds], events: _EventKinds, objects: ObjectKinds
) -> Mapping[Variable, TermKinds]:
    """The kinds of an event's attributes: those that are known, and those that its rules assign."""
    attributes = dict(known)
    for rule in rules:
        bound = {role.label.text: _narrowed(role, _attribute_kinds(role, events, objects)) for role in rule.roles}
        aggregates: dict[Variable, TermKinds] = {}
        for role, clause in zip(rule.roles[1:], rule.syntax.clauses, strict=True):
            if isinstance(clause, AggregateSyntax):
                own = bound[role.label.text]
                argument = ANYTHING if clause.argument is None else own.get(clause.argument[1].text, ANYTHING)
                aggregates[clause.variable.text] = aggregate_kinds(clause.function.text, argument)
        for assignment, expression in zip(rule.syntax.assignments, rule.expressions, strict=False):
            kinds = ANYTHING if expression is None else expression_kinds(expression, aggregates, bound)
            attributes[assignment.variable.text] = attributes.get(assignment.variable.text, frozenset()) | kinds
    return attributes


def _where_conjuncts(query: SplitQuery | None) -> list[Conjunct]:
    """The top-level conditions of WHERE, which every solution satisfies."""
    if query is None:
        return []

    def conditions(pattern: Pattern) -> tuple[Expression, ...]:
        match pattern:
            case Extend(inner, _, _):
                return conditions(inner)
            case Filter(_, expressions):
                return expressions
            case _:
                return ()

    return [Conjunct(expression, query.text) for expression in conditions(query.select.pattern)]


# --- conjunctions ---


_MAX_REPORTS: Final = 100
"""Maximal number of reports of one conjunction, since the search for each span takes time."""


def _contradictions(conjuncts: Iterable[Conjunct], own: Mapping[Variable, TermKinds], bound: Scope) -> Iterator[Diagnostic]:
    """Warnings for the conditions of one conjunction that can never hold, at most one for each."""
    return islice(_all_contradictions(conjuncts, own, bound), _MAX_REPORTS)


def _all_contradictions(conjuncts: Iterable[Conjunct], own: Mapping[Variable, TermKinds], bound: Scope) -> Iterator[Diagnostic]:
    satisfiable: list[Conjunct] = []
    for conjunct in (part for conjunction in conjuncts for part in split(conjunction)):
        yield from _type_errors(conjunct, own, bound)
        reason = _contradiction(conjunct.expression, own, bound)
        if reason is None:
            satisfiable.append(conjunct)
        else:
            code, message, hint = reason
            yield warning(code, message, span_of(conjunct), hint)
    yield from exclusive_comparisons(satisfiable)


_Reason: TypeAlias = tuple[RuleCode, str, str]


def _contradiction(expression: Expression, own: Mapping[Variable, TermKinds], bound: Scope) -> _Reason | None:
    """The code, message and hint of a condition that can never hold; None if it can."""
    if is_constant(expression):
        if condition(expression, ())():
            return None
        return RuleCode.NEVER_HOLDS, "this condition is constant, and false or an error", "Leave it out, or compare with a variable."
    kinds = expression_kinds(expression, own, bound)
    if kinds and kinds <= _NODES:
        return RuleCode.NEVER_HOLDS, f"{kinds_text(kinds)} is no condition", "Compare it, or use BOUND(…)."
    match expression:
        case Call("&&", arguments):
            return next((reason for a in arguments if (reason := _contradiction(a, own, bound))), None)
        case Call("||", arguments):
            reasons = [_contradiction(a, own, bound) for a in arguments]
            return reasons[0] if all(reasons) else None
        case Call(("=" | "!=" | "<" | "<=" | ">" | ">=") as operator, (left, right)):
            a, b = expression_kinds(left, own, bound), expression_kinds(right, own, bound)
            if not _comparable(operator, a, b):
                return _never_comparable(left, a, right, b)
            if operator in ("<", ">") and left == right:
                return RuleCode.NEVER_HOLDS, f"{expression_text(left)} is compared with itself", "Compare it with another event's: M.?v."
            return None
        case Call("IN", (tested, *members)) if members:
            a = expression_kinds(tested, own, bound)
            mismatches = [(member, b) for member in members if not _comparable("=", a, b := expression_kinds(member, own, bound))]
            return _never_comparable(tested, a, *mismatches[0]) if len(mismatches) == len(members) else None
        case _:
            return None


def _comparable(operator: str, a: TermKinds, b: TermKinds) -> bool:
    """True if a comparison of kinds `a` and `b` can be true; `!=` of unlike literals errs."""
    match operator:
        case "=":
            return bool(a & b)
        case "!=":
            return bool(a & b) or not (a <= _LITERALS and b <= _LITERALS)
        case _:
            return bool(a & b & _ORDERED)


def _never_comparable(left: Expression, a: TermKinds, right: Expression, b: TermKinds) -> _Reason:
    hint = f"Here {expression_text(left)} is {kinds_text(a)}, and {expression_text(right)} is {kinds_text(b)}."
    if _is_number_in_quotes(left) or _is_number_in_quotes(right):
        hint += " Write the number without quotes."
    elif (text := left if a <= _TEXT else right if b <= _TEXT else None) and (b if text is left else a) <= _NUMBER:
        if isinstance(text, Var | Attribute):
            hint += f" Write xsd:decimal({expression_text(text)})."
        elif not isinstance(text, Const):
            hint += " Cast the string by xsd:decimal(…)."
    elif a & b:
        hint += f" Such terms have no order: compare {'OBJECT' if a & b == {TermKind.TRIPLE} else 'STR'}(…)."
    return RuleCode.NEVER_COMPARABLE, "this comparison is never true", hint


def _is_number_in_quotes(expression: Expression) -> bool:
    return (
        isinstance(expression, Const)
        and term_kind(expression.term) is TermKind.STRING
        and expression.term[1:-1].replace(".", "", 1).isdigit()
    )


# Domains of functions: finds calls that err on all data.
#
# Idea: a call always errs if the kinds that its argument can have (`kinds.py`) and those that the
# function accepts (the table here) are disjoint.
# Invariant: the row of a function has all kinds that it accepts, so there is no false alarm.
# Source: SPARQL 1.1, section 17.

_PLAIN_NODES: Final = frozenset({TermKind.IRI, TermKind.BLANK})
_NO_TEXT: Final = frozenset({TermKind.BLANK, TermKind.TRIPLE})
_TRIPLE: Final = frozenset({TermKind.TRIPLE})
_PLAIN_LITERALS: Final = ANYTHING - _PLAIN_NODES - _TRIPLE
_PLAIN_TEXT: Final = frozenset({TermKind.STRING, TermKind.OTHER})
_QUANTITY: Final = frozenset({TermKind.NUMBER, TermKind.OTHER})
_MOMENT: Final = frozenset({TermKind.OTHER})
_IRI: Final = frozenset({TermKind.IRI})

ACCEPTED_KINDS: Final[Mapping[str, tuple[TermKinds, ...]]] = {
    **dict.fromkeys(("+", "-", "*", "/", "UNARY-", "UNARY+"), (_QUANTITY,)),
    "!": (_PLAIN_LITERALS,),
    **dict.fromkeys(("STRLEN", "UCASE", "LCASE", "ENCODE_FOR_URI", "CONCAT", "MD5", "SHA1", "SHA256", "SHA384", "SHA512"), (_PLAIN_TEXT,)),
    **dict.fromkeys(("STRSTARTS", "STRENDS", "CONTAINS", "STRBEFORE", "STRAFTER", "REGEX", "REPLACE", "LANGMATCHES"), (_PLAIN_TEXT,)),
    "SUBSTR": (_PLAIN_TEXT, _NUMBER),
    **dict.fromkeys(("ABS", "CEIL", "FLOOR", "ROUND", *MATH_FUNCTIONS), (_NUMBER,)),
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "TIMEZONE", "TZ"), (_MOMENT,)),
    IN_ZONE: (_MOMENT, frozenset({TermKind.STRING})),
    **dict.fromkeys(("LANG", "LANGDIR", "DATATYPE"), (_PLAIN_LITERALS,)),
    "STR": (ANYTHING - _NO_TEXT,),
    **dict.fromkeys(("SUBJECT", "PREDICATE", "OBJECT"), (_TRIPLE,)),
    "TRIPLE": (_PLAIN_NODES, _IRI, ANYTHING),
    "IRI": (_IRI | _PLAIN_TEXT,),
    "STRDT": (_PLAIN_TEXT, _IRI),
    **dict.fromkeys(("STRLANG", "STRLANGDIR"), (_PLAIN_TEXT,)),
    **{name: (_PLAIN_LITERALS if name != f"<{XSD}string>" else ANYTHING - _NO_TEXT,) for name in CASTS},
}
"""The kinds that each function accepts by argument; the last entry is for all further ones."""

NUMERIC_AGGREGATES: Final = ("sum", "avg", "median", "quantile", "variance", "stddev")


class MisusedArgument(NamedTuple):
    """Argument of which the possible `kinds` and the `accepted` kinds are disjoint."""

    function: str
    argument: Expression
    kinds: TermKinds
    accepted: TermKinds


def misused_arguments(expression: Expression, own: Mapping[Variable, TermKinds], bound: Scope) -> Iterator[MisusedArgument]:
    """The arguments outside of their function's domain, the innermost first.

    `own` are the kinds of variables, `bound` those of `M.?v`.
    """
    if not isinstance(expression, Call):
        return
    for argument in expression.arguments:
        yield from misused_arguments(argument, own, bound)
    accepted_kinds = (_QUANTITY,) if is_chain(expression.function) else ACCEPTED_KINDS.get(expression.function)
    if accepted_kinds is None:
        return
    for index, argument in enumerate(expression.arguments):
        accepted = accepted_kinds[min(index, len(accepted_kinds) - 1)]
        kinds = expression_kinds(argument, own, bound)
        if kinds and not kinds & accepted:
            yield MisusedArgument(expression.function, argument, kinds, accepted)


def misuse_hint(misused: MisusedArgument, argument_text: str) -> str:
    """The replacement to suggest for a misused argument with the given text; may be empty."""
    if TermKind.STRING in misused.accepted and TermKind.NUMBER not in misused.accepted and not misused.kinds <= _NO_TEXT:
        return f"Write STR({argument_text})."
    if TermKind.NUMBER in misused.accepted and TermKind.STRING in misused.kinds and TermKind.STRING not in misused.accepted:
        return f"Write xsd:decimal({argument_text})."
    return ""
