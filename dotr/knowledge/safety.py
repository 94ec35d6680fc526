"""Whether a rule can be evaluated: every variable that it needs is bound by a triple pattern, or by a BIND whose own are bound.

The order of a body has no meaning (semantics.md, section 2), so what is bound is a fix-point over the whole body.
"""

from __future__ import annotations

from collections.abc import Iterable

from dotr.diagnostics import Diagnostic, did_you_mean
from dotr.knowledge.ordering import variables
from dotr.model.algebra import TriplePattern
from dotr.model.datalog import Bind, DatalogRule, Not, Test
from dotr.model.terms import Variable


def check_safety(rule: DatalogRule) -> list[Diagnostic]:
    """Every reason why a rule is refused.

    >>> from dotr.model.algebra import Const, Var
    >>> head = TriplePattern(Var("x"), Const("<p>"), Var("z"))
    >>> print(check_safety(DatalogRule("r", (head,), (TriplePattern(Var("x"), Const("<q>"), Var("y")),)))[0])
    K301 rule r: no atom of the body binds ?z, which its head uses
    Bind it by an atom, or by BIND(… AS ?z).
    """
    problems: list[Diagnostic] = []
    bound = _bound(rule)

    def report(code: str, names: Iterable[Variable], where: str) -> None:
        for name in dict.fromkeys(names):
            if name not in bound:
                hint = did_you_mean(name, sorted(bound)) or f"Bind it by an atom, or by BIND(… AS ?{name})."
                problems.append(Diagnostic(code, f"rule {rule.name}: no atom of the body binds ?{name}, which {where}", rule.span, hint))

    report("K301", (name for head in rule.head for name in variables(head)), "its head uses")
    for item in rule.body:
        match item:
            case Test(condition):
                report("K302", variables(condition), "a FILTER uses")
            case Bind(expression, variable):
                report("K303", variables(expression), f"the BIND of ?{variable} uses")
            case Not():
                problems.append(
                    Diagnostic(
                        "K304",
                        f"rule {rule.name}: NOT is not evaluated yet",
                        rule.span,
                        "Write the condition in the query that uses the result: FILTER NOT EXISTS { … }.",
                    )
                )
            case TriplePattern():
                pass
    return problems


def _bound(rule: DatalogRule) -> set[Variable]:
    bound = {name for item in rule.body if isinstance(item, TriplePattern) for name in variables(item)}
    binds = [item for item in rule.body if isinstance(item, Bind)]
    while ready := [bind for bind in binds if bind.variable not in bound and bound.issuperset(variables(bind))]:
        bound.update(bind.variable for bind in ready)
    return bound
