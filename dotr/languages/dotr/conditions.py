"""Pass 9: conditions that can never hold, as far as the text alone proves it; and what is never used.

Before: `FILTER(?v > 5 && ?v < 3)`. After: the same rules, and a warning at `?v`. Idea: a comparison of terms that have no kind in common
(`kinds.py`) is never true; and of all that must hold together, no two comparisons of one variable with constants may exclude each other.
Invariant: no false alarm. Numbers are held against each other as the coarsest type (xsd:float) would round them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dotr.diagnostics import Diagnostic
from dotr.expressions import condition
from dotr.expressions.operators import to_double
from dotr.expressions.values import EXACT_TYPES, NUMERIC, Number, read, single
from dotr.languages.dotr import scan
from dotr.languages.dotr.codes import Code
from dotr.languages.dotr.kinds import ANYTHING, Kind, Kinds, Scope, aggregate_kinds, kind_of, kinds_in, kinds_of
from dotr.languages.dotr.program import Origin, Program, Question, RoleDraft, RuleDraft, warning
from dotr.languages.dotr.syntax import AggregateSyntax, ByLabel
from dotr.languages.sparql import references
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, Extend, Filter, Pattern, TimeOf, Var
from dotr.model.places import Span
from dotr.model.terms import Label, Term, Variable, is_iri, literal_parts

_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_LITERALS: Final = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOLEAN})
_ORDERED: Final = _LITERALS | {Kind.OTHER}

_Atom: TypeAlias = Var | Attribute | TimeOf
_Events: TypeAlias = Mapping[Label, Mapping[Variable, Kinds]]


@dataclass(frozen=True, slots=True)
class _Conjunct:
    """A condition, and the text in which it stands."""

    expression: Expression
    text: Span


def check_conditions(program: Program) -> Program:
    events = _event_kinds(program)
    problems = [p for query in program.queries if query.question for p in _judged(_where(query.question), _own(query.question), {})]
    for rule in program.rules:
        problems += _rule(rule, events)
    return program.reporting([*problems, *(_unused(program) if program.sound else ())])


def _rule(rule: RuleDraft, events: _Events) -> Iterator[Diagnostic]:
    bound: dict[Label, Mapping[Variable, Kinds]] = {}
    aggregates: dict[Variable, Kinds] = {}
    for role, clause in zip(rule.roles, (None, *rule.syntax.clauses), strict=True):
        own = _attributes(role, events)
        where = _where(role.question)
        own_problems = list(_judged(where, own, bound))
        if role.origin is Origin.OWN:
            yield from own_problems
        conjuncts = [_Conjunct(c, role.question.text) for c in role.question.constraints] if role.question else []
        if isinstance(role.syntax, ByLabel) and role.syntax.filters is not None:
            conjuncts += [_Conjunct(c, role.syntax.filters) for c in role.filters]
        if conjuncts:
            yield from (p for p in _judged([*where, *conjuncts], own, bound) if p not in own_problems)
        bound[role.label.text] = own
        if isinstance(clause, AggregateSyntax):
            argument = ANYTHING if clause.argument is None else own.get(clause.argument[1].text, ANYTHING)
            aggregates[clause.variable.text] = aggregate_kinds(clause.function.text, argument)
            bound[role.label.text] = {clause.variable.text: aggregates[clause.variable.text]}
    if rule.condition is not None and rule.syntax.condition is not None:
        yield from _judged([_Conjunct(rule.condition, rule.syntax.condition)], aggregates, bound)


def _own(question: Question) -> Mapping[Variable, Kinds]:
    return kinds_in(question.select.pattern)


def _attributes(role: RoleDraft, events: _Events) -> Mapping[Variable, Kinds]:
    if role.origin is Origin.EVENT:
        return events.get(role.read.text, {})
    return _own(role.question) if role.question else {}


def _event_kinds(program: Program) -> _Events:
    """The kinds of each event's attributes: those that the assignments of all rules give. Narrowed once, from anything: rules may be
    recursive."""
    found: dict[Label, dict[Variable, Kinds]] = {}
    for rule in program.rules:
        bound = {role.label.text: _attributes(role, {}) for role in rule.roles}
        attributes = found.setdefault(rule.syntax.event.text, {})
        for assignment, expression in zip(rule.syntax.assignments, rule.expressions, strict=False):
            kinds = ANYTHING if expression is None else kinds_of(expression, {}, bound)
            attributes[assignment.variable.text] = attributes.get(assignment.variable.text, frozenset()) | kinds
    return found


def _where(question: Question | None) -> list[_Conjunct]:
    """The conditions of the WHERE group itself, which all hold of every solution."""
    if question is None:
        return []

    def conditions(pattern: Pattern) -> tuple[Expression, ...]:
        match pattern:
            case Extend(inner, _, _):
                return conditions(inner)
            case Filter(_, found):
                return found
            case _:
                return ()

    return [_Conjunct(expression, question.text) for expression in conditions(question.select.pattern)]


# --- conjunctions ---


def _judged(conjuncts: Iterable[_Conjunct], own: Mapping[Variable, Kinds], bound: Scope) -> Iterator[Diagnostic]:
    """What can never hold among conditions that must all hold; at most one report for each."""
    sound: list[_Conjunct] = []
    for conjunct in (part for whole in conjuncts for part in _parts(whole)):
        reason = _never(conjunct.expression, own, bound)
        if reason is None:
            sound.append(conjunct)
        else:
            code, message, hint = reason
            yield warning(code, message, _place(conjunct), hint)
    yield from _together(sound, own, bound)


def _parts(conjunct: _Conjunct) -> Iterator[_Conjunct]:
    match conjunct.expression:
        case Call("&&", arguments):
            for argument in arguments:
                yield from _parts(_Conjunct(argument, conjunct.text))
        case _:
            yield conjunct


_Reason: TypeAlias = tuple[Code, str, str]


def _never(expression: Expression, own: Mapping[Variable, Kinds], bound: Scope) -> _Reason | None:
    """Why a condition can never hold, if it cannot."""
    if _constant(expression):
        if condition(expression, ())():
            return None
        return Code.NEVER_HOLDS, "this condition is constant, and false or an error", "Leave it out, or compare with a variable."
    match expression:
        case Call("&&", arguments):
            return next((reason for a in arguments if (reason := _never(a, own, bound))), None)
        case Call("||", arguments):
            reasons = [_never(a, own, bound) for a in arguments]
            return reasons[0] if all(reasons) else None
        case Call(("=" | "!=" | "<" | "<=" | ">" | ">=") as operator, (left, right)):
            a, b = kinds_of(left, own, bound), kinds_of(right, own, bound)
            return None if _comparable(operator, a, b) else _clash(left, a, right, b)
        case Call("IN", (tested, *members)) if members:
            a = kinds_of(tested, own, bound)
            clashes = [(member, b) for member in members if not _comparable("=", a, b := kinds_of(member, own, bound))]
            return _clash(tested, a, *clashes[0]) if len(clashes) == len(members) else None
        case _:
            return None


def _constant(expression: Expression) -> bool:
    match expression:
        case Const():
            return True
        case Call(_, arguments):
            return all(map(_constant, arguments))
        case _:
            return False


def _comparable(operator: str, a: Kinds, b: Kinds) -> bool:
    """Whether a comparison of these kinds can be true. `!=` of two literals whose values have nothing in common is an error."""
    match operator:
        case "=":
            return bool(a & b)
        case "!=":
            return bool(a & b) or not (a <= _LITERALS and b <= _LITERALS)
        case _:
            return bool(a & b & _ORDERED)


def _clash(left: Expression, a: Kinds, right: Expression, b: Kinds) -> _Reason:
    hint = f"Here {_shown(left)} is {_listed(a)}, and {_shown(right)} is {_listed(b)}."
    if _is_number_in_quotes(left) or _is_number_in_quotes(right):
        hint += " Write the number without quotes."
    elif a & b:
        hint += " Such terms have no order: compare STR(…)."
    return Code.NEVER_COMPARABLE, "this comparison is never true", hint


def _is_number_in_quotes(expression: Expression) -> bool:
    return isinstance(expression, Const) and kind_of(expression.term) is Kind.STRING and expression.term[1:-1].replace(".", "", 1).isdigit()


def _listed(kinds: Kinds) -> str:
    return " or ".join(kind.value for kind in Kind if kind in kinds)


def _shown(expression: Expression) -> str:
    match expression:
        case Var(name):
            return f"?{name}"
        case Attribute(label, name):
            return f"{label}.?{name}"
        case TimeOf(label):
            return f"time({label})"
        case Const(term):
            return _written(term)
        case Call(function, _) if function[0].isalpha():
            return f"{function}(…)"
        case _:
            return "the expression"


def _written(term: Term) -> str:
    """A term as an author would write it, but for prefixes."""
    return literal_parts(term)[0] if not is_iri(term) and kind_of(term) in (Kind.NUMBER, Kind.BOOLEAN) else term


# --- what comparisons with constants leave of one variable ---


@dataclass(frozen=True, slots=True)
class _Compared:
    """`atom operator term`."""

    atom: _Atom
    operator: str
    term: Term
    conjunct: _Conjunct

    def __str__(self) -> str:
        return f"{_shown(self.atom)} {self.operator} {_written(self.term)}"


def _together(conjuncts: Sequence[_Conjunct], own: Mapping[Variable, Kinds], bound: Scope) -> Iterator[Diagnostic]:
    """One report for each variable of which nothing is left."""
    compared: dict[_Atom, list[_Compared]] = {}
    for conjunct in conjuncts:
        if (found := _compared(conjunct)) is not None:
            compared.setdefault(found.atom, []).append(found)
    for atom, comparisons in compared.items():
        pair = next(((a, b) for i, b in enumerate(comparisons) for a in comparisons[:i] if _exclude(a, b)), None)
        if pair is not None:
            hint = "One of them must go, or they belong on both sides of ||."
            yield warning(Code.NEVER_HOLDS, f"{pair[0]} and {pair[1]} never hold together", _place(pair[1].conjunct, atom), hint)


def _compared(conjunct: _Conjunct) -> _Compared | None:
    match conjunct.expression:
        case Call(("=" | "<" | "<=" | ">" | ">=") as operator, (Var() | Attribute() | TimeOf() as atom, Const(term))):
            return _Compared(atom, operator, term, conjunct)
        case Call(("=" | "<" | "<=" | ">" | ">=") as operator, (Const(term), Var() | Attribute() | TimeOf() as atom)):
            return _Compared(atom, _MIRRORED[operator], term, conjunct)
        case _:
            return None


def _exclude(a: _Compared, b: _Compared) -> bool:
    """Whether no term satisfies both."""
    kinds = kind_of(a.term), kind_of(b.term)
    if Kind.OTHER in kinds:
        return False
    if kinds[0] is not kinds[1]:
        return True
    x, y = read(a.term), read(b.term)
    if type(x) in NUMERIC and type(y) in NUMERIC:
        return _apart(a.operator, x, b.operator, y) or _apart(b.operator, y, a.operator, x)  # type: ignore[arg-type]
    return a.operator == b.operator == "=" and x != y


def _apart(above: str, low: Number, below: str, high: Number) -> bool:
    """Whether what is `above` (`=`, `>`, `>=`) the one number cannot be `below` (`=`, `<`, `<=`) the other.

    >>> _apart(">", 5, "<", 3), _apart(">", 5, "<", 5), _apart(">=", 5, "<=", 5), _apart("<", 5, ">", 3)
    (True, True, False, False)
    """
    if above not in ("=", ">", ">=") or below not in ("=", "<", "<="):
        return False
    if single(to_double(low)) > single(to_double(high)):
        return True
    alike = type(low) is type(high) or {type(low), type(high)} <= EXACT_TYPES
    return alike and low == high and (above == ">" or below == "<")


# --- places ---


def _place(conjunct: _Conjunct, atom: _Atom | None = None) -> Span:
    """Where a condition stands, as near as its text tells: at what it compares."""
    atom = atom or _first_atom(conjunct.expression)
    match atom:
        case Var(name):
            return scan.compared_variable(conjunct.text, name)
        case Attribute(label, name):
            found = [r.span for r in references(conjunct.text) if (r.label, r.variable) == (label, name)]
            if not found:  # the variable of an aggregate
                return scan.compared_variable(conjunct.text, name)
        case TimeOf(label):
            found = [r.span for r in references(conjunct.text) if (r.label, r.variable) == (label, None)]
        case None:
            found = [Span(conjunct.text.document, *t.span()) for t in scan.tokens(conjunct.text) if t[0].lower() == "filter"]
    return found[-1] if found else conjunct.text


def _first_atom(expression: Expression) -> _Atom | None:
    match expression:
        case Var() | Attribute() | TimeOf():
            return expression
        case Call(_, arguments):
            return next((atom for argument in arguments if (atom := _first_atom(argument))), None)
        case Const() | Exists():
            return None


# --- what is never used ---


def _unused(program: Program) -> Iterator[Diagnostic]:
    for rule in program.rules:
        yield from _unused_aggregates(rule)
    yield from _unused_queries(program)


def _unused_aggregates(rule: RuleDraft) -> Iterator[Diagnostic]:
    """An aggregate that no text of the rule names again, and whose events it does not consume, changes nothing."""
    consumed = {word.text for word in rule.syntax.consuming}
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax) and clause.event.label.text not in consumed:
            name = clause.variable.text
            if sum(token.lastgroup == "variable" and token[0][1:] == name for token in scan.tokens(rule.syntax.span)) == 1:
                hint = f"Use ?{name} in `if`, in `with` or in a later clause, or leave the clause out: it changes nothing."
                yield warning(Code.UNUSED_AGGREGATE, f"?{name} is never used", clause.variable.span, hint)


def _unused_queries(program: Program) -> Iterator[Diagnostic]:
    """A shared query that no rule reads, in a file that has rules."""
    read = {role.read.text for rule in program.rules for role in rule.roles}
    with_rules = {id(rule.syntax.span.document) for rule in program.rules}
    for query in program.queries:
        label = query.syntax.label
        if label.text not in read and id(label.span.document) in with_rules:
            yield warning(Code.UNUSED_QUERY, f"no rule reads {label.text}", label.span, "Leave the query out, or let a rule read it.")
