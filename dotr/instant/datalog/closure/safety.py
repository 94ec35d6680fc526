"""Safety of rules: every variable that a rule uses is bound by a triple pattern, an AGGREGATE (keys
and results), or a BIND with bound arguments.

A variable under NOT alone is existential there; a variable in an AGGREGATE that is no key is local
to the AGGREGATE. The order of a body has no meaning (semantics.md, section 2), so the bound
variables are a fixpoint over the whole body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.model.algebra import TriplePattern, Var
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem, GroupAggregate, Not
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.traverse import free_variables, walk

_MAX_VARIABLES: Final = 80
"""Limit of variables in a body: each may be a nested loop, and Python allows fewer than 100."""

_MAX_ATOMS: Final = 128
"""Limit of atoms in a body, since a join of all atoms begins at each of them."""


def check_safety(rule: DatalogRule) -> list[Diagnostic]:
    """All reasons why a rule is refused.

    >>> from dotr.model.algebra import Const, Var
    >>> head = TriplePattern(Var("x"), Const("<p>"), Var("z"))
    >>> atom = TriplePattern(Var("x"), Const("<q>"), Var("y"))
    >>> print(check_safety(DatalogRule("r", (head,), (atom,)))[0])
    K301 rule r: no atom of the body binds ?z, which its head uses
    Bind it by an atom, or by BIND(… AS ?z).
    """
    problems: list[Diagnostic] = []
    bound = bound_by(rule.body)
    atoms = sum(isinstance(item, TriplePattern) for item in rule.body)
    problems += length_problems(rule.name, len(bound), atoms, rule.span)

    def report(code: str, names: Iterable[Variable], use: str, known: set[Variable] = bound) -> None:
        for name in dict.fromkeys(names):
            if name not in known:
                hint = did_you_mean(name, sorted(known)) or f"Bind it by an atom, or by BIND(… AS ?{name})."
                scope = "" if known is bound else " inside AGGREGATE"
                text = f"rule {rule.name}: no atom of the body{scope} binds ?{name}, which {use}"
                problems.append(Diagnostic(code, text, rule.span, hint))

    report("K301", (name for head in rule.head for name in free_variables(head)), "its head uses")
    for item in rule.body:
        match item:
            case FilterItem(condition):
                report("K302", free_variables(condition), "a FILTER uses")
            case Bind(expression, variable):
                report("K303", free_variables(expression), f"the BIND of ?{variable} uses")
            case GroupAggregate(body, keys, results):
                inner = bound_by(body)
                for part in body:
                    match part:
                        case FilterItem(condition):
                            report("K302", free_variables(condition), "a FILTER uses", inner)
                        case Bind(expression, variable):
                            report("K303", free_variables(expression), f"the BIND of ?{variable} uses", inner)
                        case TriplePattern():
                            pass
                report("K305", keys, "ON names", inner)
                for variable, call in results:
                    if call.argument is not None:
                        report("K305", free_variables(call.argument), f"{call.function} of ?{variable} uses", inner)
                problems += _not_local(rule, item, inner)
            case TriplePattern() | Not():
                pass
    return problems


def _not_local(rule: DatalogRule, aggregate: GroupAggregate, inner: set[Variable]) -> Iterator[Diagnostic]:
    """Variables local to an aggregate that are used outside of it."""
    outside = {name for head in rule.head for name in free_variables(head)}
    for item in rule.body:
        if item is not aggregate:
            outside |= _visible_variables(item)
    own = inner - set(aggregate.keys)
    for name in sorted(own & outside):
        text = f"rule {rule.name}: ?{name} belongs to an AGGREGATE alone, and occurs outside of it"
        yield Diagnostic("K306", text, rule.span, f"Group by it (`ON ?{name}`), or give one of the two another name.")
    for name, _ in aggregate.results:
        if name in inner:
            text = f"rule {rule.name}: ?{name} is a result of an AGGREGATE, and occurs inside it"
            yield Diagnostic("K306", text, rule.span, "Give the result a name of its own.")


def _visible_variables(item: BodyItem) -> set[Variable]:
    """All variables of an item, bound ones included; of an AGGREGATE its keys and results."""
    if isinstance(item, GroupAggregate):
        return {*item.keys, *(name for name, _ in item.results)}
    return {node.name if isinstance(node, Var) else node.variable for node in walk(item) if isinstance(node, Var | Bind)}


def bound_by(body: Sequence[BodyItem]) -> set[Variable]:
    """The variables that a body binds."""
    bound = {name for item in body if isinstance(item, TriplePattern) for name in free_variables(item)}
    for item in body:
        if isinstance(item, GroupAggregate):
            bound.update(item.keys, (name for name, _ in item.results))
    binds = [item for item in body if isinstance(item, Bind)]
    while ready := [bind for bind in binds if bind.variable not in bound and bound.issuperset(free_variables(bind))]:
        bound.update(bind.variable for bind in ready)
    return bound


def length_problems(name: str, variables: int, atoms: int, span: Span | None) -> Iterator[Diagnostic]:
    """The errors (K309) of a rule whose body has too many variables, or positive atoms.

    >>> for problem in length_problems("r.dlog:1", 3, 129, None):
    ...     print(problem)
    K309 rule r.dlog:1: more than 128 atoms in a body
    Split the rule: let a second rule derive a part of the body.
    """
    for count, most, what in ((variables, _MAX_VARIABLES, "variables"), (atoms, _MAX_ATOMS, "atoms")):
        if count > most:
            hint = "Split the rule: let a second rule derive a part of the body."
            yield Diagnostic("K309", f"rule {name}: more than {most} {what} in a body", span, hint)
