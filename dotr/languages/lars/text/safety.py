"""Checks of single LARS rules: unbound variables, heads, and windows.

Source: lars.md, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.instant.datalog.closure.safety import length_problems
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.model import (
    Always,
    At,
    ClassName,
    Counted,
    EventAtom,
    LarsFile,
    LarsLiteral,
    LarsNot,
    LarsPredicate,
    LarsRule,
    PropertyName,
    Since,
    Sometime,
    TimeWindow,
    TupleWindow,
    predicate_of,
    shares_any,
    variables_of_atom,
)
from dotr.languages.lars.text.statements import LarsRuleSyntax
from dotr.model.algebra import Var
from dotr.model.datalog import Bind, FilterItem, RelationAtom
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.time import Micros
from dotr.model.traverse import free_variables


def rule_problems(syntax: LarsRuleSyntax, file: LarsFile, derived: Set[LarsPredicate]) -> Iterator[Diagnostic]:
    """The errors of one rule; `derived`: the predicates that the file derives. A rule with syntax
    errors is checked in its parsed parts alone.
    """
    rule = syntax.rule
    yield from _head_predicates(rule, file)
    for literal in (*rule.literals, *rule.negated):
        yield from literal_problems(literal, file, derived)
    if not syntax.is_whole:
        return
    bound = _bound(rule)
    yield from length_problems(rule.name, len(bound), sum(len(literal.atoms) for literal in rule.literals), rule.span)
    yield from _binds(syntax)
    yield from _unbound_conditions(syntax, bound)
    yield from _unbound_heads(rule, bound)
    for item in rule.body:
        literals = (item,) if isinstance(item, LarsLiteral) else item.literals if isinstance(item, LarsNot) else ()
        for literal in literals:
            yield from _since(literal, bound | _bound_by(literals))


# --- variables ---


def _bound_by(literals: tuple[LarsLiteral, ...]) -> set[Variable]:
    """The variables that positive literals bind. Of `A SINCE B` only B binds its variables."""
    bound: set[Variable] = set()
    for literal in literals:
        match literal.reach:
            case Since(other):
                bound.update(variables_of_atom(other))
            case At(Var(name)):
                bound.update((*variables_of_atom(literal.atom), name))
            case _:
                bound.update(variables_of_atom(literal.atom))
    return bound


def _bound(rule: LarsRule) -> set[Variable]:
    """The variables that positive literals or BINDs bind.

    The order of BINDs is free: a BIND counts once all variables of its expression are bound.
    """
    bound = _bound_by(rule.literals)
    pending = [item for item in rule.body if isinstance(item, Bind)]
    while True:
        ready = [item for item in pending if set(free_variables(item.expression)) <= bound]
        if not ready:
            return bound
        bound.update(item.variable for item in ready)
        pending = [item for item in pending if item not in ready]


def _unbound(name: Variable, what: str, span: Span, bound: set[Variable]) -> Diagnostic:
    hint = did_you_mean(f"?{name}", sorted(f"?{each}" for each in bound)) or (
        "Variables are bound by literals that do not stand under NOT, of SINCE by its second atom, and by BIND."
    )
    return Diagnostic(LarsCode.UNBOUND, f"?{name} {what} is never bound", span, hint)


def _binds(syntax: LarsRuleSyntax) -> Iterator[Diagnostic]:
    bound = _bound_by(syntax.rule.literals)
    for item, place in zip(syntax.rule.body, syntax.places, strict=True):
        if isinstance(item, Bind):
            if item.variable in bound:
                hint = f"Compare: FILTER(?{item.variable} = …), or give the result another name."
                yield Diagnostic(LarsCode.BOUND_TWICE, f"BIND of ?{item.variable}, which is bound already", place, hint)
            bound.add(item.variable)


def _unbound_conditions(syntax: LarsRuleSyntax, bound: set[Variable]) -> Iterator[Diagnostic]:
    for item, place in zip(syntax.rule.body, syntax.places, strict=True):
        if isinstance(item, FilterItem | Bind):
            expression = item.condition if isinstance(item, FilterItem) else item.expression
            what = "of FILTER" if isinstance(item, FilterItem) else "of BIND"
            for name in sorted(set(free_variables(expression)) - bound):
                yield _unbound(name, what, place, bound)


def _head_predicates(rule: LarsRule, file: LarsFile) -> Iterator[Diagnostic]:
    for head in rule.heads:
        match predicate_of(head.atom):
            case PropertyName(None):
                hint = "Write one rule for each property: the file must say what it derives."
                yield Diagnostic(LarsCode.NO_HEAD, "a head with a variable predicate", head.span, hint)
            case ClassName(None):
                hint = "Write one rule for each class: the file must say what it derives."
                yield Diagnostic(LarsCode.NO_HEAD, "a head with a variable class", head.span, hint)
            case _ if file.is_background(head.atom):
                hint = "It stands behind BACKGROUND, so its atoms are looked for in the background alone. Derive another one."
                yield Diagnostic(LarsCode.NO_HEAD, "a head of BACKGROUND", head.span, hint)
            case _:
                pass


def _unbound_heads(rule: LarsRule, bound: set[Variable]) -> Iterator[Diagnostic]:
    times = {literal.reach.time.name for literal in rule.literals if isinstance(literal.reach, At) and isinstance(literal.reach.time, Var)}
    for head in rule.heads:
        if head.at is not None and head.at not in times:
            hint = (
                did_you_mean(f"?{head.at}", sorted(f"?{each}" for each in times))
                or f"Write `AT ?{head.at} IN [5 s]` behind an atom of the body."
            )
            yield Diagnostic(LarsCode.TIME_OF_HEAD, f"AT ?{head.at} of a head, without a literal AT ?{head.at}", head.span, hint)
        for name in variables_of_atom(head.atom):
            if name not in bound:
                yield _unbound(name, "of a head", head.span, bound)


def _since(literal: LarsLiteral, bound: set[Variable]) -> Iterator[Diagnostic]:
    if isinstance(literal.reach, Since):
        known = bound | set(variables_of_atom(literal.reach.other))
        for name in variables_of_atom(literal.atom):
            if name not in known:
                yield _unbound(name, "in front of SINCE", literal.atom_span, known)


# --- windows ---


def literal_problems(literal: LarsLiteral, file: LarsFile, derived: Set[LarsPredicate]) -> Iterator[Diagnostic]:
    """The errors of a literal's window; `derived`: the predicates that the file derives."""
    match literal.reach:
        case None:
            return
        case Sometime(window) | Always(window) | At(_, window) | Since(_, _, window):
            pass
    assert literal.window_span is not None
    match window:
        case TimeWindow():
            yield from _time_window(window, literal.window_span, file.resolution)
        case TupleWindow():
            yield from _tuple_window(literal, window, literal.window_span, file, derived)


def _time_window(window: TimeWindow, span: Span, resolution: Micros) -> Iterator[Diagnostic]:
    least, greatest = window.interval.bounds
    nearest, farthest = window.reach(resolution)
    if least > greatest:
        hint = "[5 s] is [0, 5 s]: both bounds belong to it. [0] is the point itself."
        if window.interval.low > window.interval.high:
            hint = "The nearer bound comes first: [1 s, 5 s] reaches from 1 s to 5 s before the point."
        yield Diagnostic(LarsCode.EMPTY_WINDOW, "no time lies in this window", span, hint)
    elif nearest > farthest:
        hint = f"Points are {_length(resolution)} apart: write bounds with a multiple of that between them, or a finer RESOLUTION."
        yield Diagnostic(LarsCode.EMPTY_WINDOW, "no point lies in this window", span, hint)


def _tuple_window(
    literal: LarsLiteral, window: TupleWindow, span: Span, file: LarsFile, derived: Set[LarsPredicate]
) -> Iterator[Diagnostic]:
    atom = literal.atom
    if isinstance(atom, RelationAtom):
        hint = "Tuple windows count what the stream brings. REPORT the atom, and count its EVENT in a second file."
        yield Diagnostic(LarsCode.COUNTED_CONCLUSIONS, f"a tuple window over {atom.relation}, which the file derives", span, hint)
    elif not isinstance(atom, EventAtom) and not file.is_background(atom) and shares_any(predicate_of(atom), derived):
        hint = "Tuple windows count what the stream brings. REPORT the atom, and count its EVENT in a second file."
        yield Diagnostic(LarsCode.COUNTED_CONCLUSIONS, "a tuple window over atoms that the file derives", span, hint)
    if isinstance(atom, EventAtom) and window.counted is Counted.ALL:
        hint = f"[LAST {window.count}] counts triples of the stream: write [LAST {window.count} MATCHING]."
        yield Diagnostic(LarsCode.COUNTED_EVENTS, f"[LAST {window.count}] over an EVENT", span, hint)
    own = variables_of_atom(atom)
    for name in window.per:
        if name not in own:
            hint = f"Its variables are {', '.join(f'?{each}' for each in own)}." if own else "It has none: write MATCHING."
            yield Diagnostic(LarsCode.PER_WHAT, f"PER ?{name}, which the atom has not", span, hint)


def _length(micros: Micros) -> str:
    return f"{micros / 1_000_000:g} s"
