"""Reasons for which the query of a label has no fact."""

from __future__ import annotations

from dataclasses import dataclass

from dotr.explanations.replay import Replay
from dotr.model.rules import Role, Rule
from dotr.model.terms import Label
from dotr.model.time import Micros


@dataclass(frozen=True, slots=True)
class MissingFacts:
    """Explanation of a query that has no fact at any instant asked about.

    Attributes:
        label: the label of the query.
        instants: the number of instants asked about, each without a fact.
    """

    label: Label
    instants: int

    @property
    def summary(self) -> str:
        """`Temp has no fact at 2 instants`, for the parentheses of the first line."""
        return f"{self.label} has no fact at {self.instants} instant{'' if self.instants == 1 else 's'}"

    def lines(self) -> list[str]:
        """The lines below the first one, indented by four and more spaces."""
        return []

    def to_json(self) -> dict[str, object]:
        """The explanation as a JSON object."""
        return {"label": self.label, "instants": self.instants}


def explain_missing_facts(
    replay: Replay, rule: Rule, writer: object, *, role: Role | None = None, first: Micros | None = None, last: Micros | None = None
) -> MissingFacts | None:
    """Explanation of the missing facts of a query of a rule.

    Args:
        replay: the program and its stream.
        rule: a rule of `replay.program.rules.rules`.
        writer: the `TermWriter` of the explanation.
        role: a role of the rule, whose source is a `FactSource`; None: its anchor.
        first: the first time asked about in µs since 1970, None without a bound.
        last: the last time asked about, likewise; both ends are included.

    Returns:
        None where the query has a fact at one of the instants (or its source is an event): then
        there is nothing to explain here.
    """
    raise NotImplementedError
