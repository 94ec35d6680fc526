"""Limits of the bodies of rules in Datalog and LARS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.model.places import Span

_MAX_VARIABLES: Final = 80
"""Limit of variables in a body: each may be a nested loop, and Python allows fewer than 100."""

_MAX_ATOMS: Final = 128
"""Limit of atoms in a body, since a join of all atoms begins at each of them."""


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
