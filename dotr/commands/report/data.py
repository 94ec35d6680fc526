"""Content of a report as values: totals, timeline, events, rules, dead letters and inputs.

All texts are as the page shows them; times are in µs since 1970.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from dotr.model import dataclass
from dotr.model.stream import Reason
from dotr.model.terms import Variable
from dotr.model.time import Clock, Micros
from dotr.runtimes.monitoring.totals import Totals


class LaneKind(Enum):
    """Kind of a row of the timeline."""

    INPUT = "input"
    FACT = "fact"
    RULE = "rule"
    DEAD_LETTER = "dead letter"


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline.

    `name`: an input, the label of a query, or a rule. `counts`: by number of bin.
    """

    kind: LaneKind
    name: str
    counts: Mapping[int, int]

    @property
    def total(self) -> int:
        """The sum of the counts."""
        return sum(self.counts.values())


class ReportedEvent(NamedTuple):
    """An event with its terms as Turtle.

    `name`: the IRI that dotr made for it, empty where its rule makes none. `proof`: its number
    among the proofs of the report.
    """

    time: Micros
    rule: str
    type: str
    attributes: tuple[tuple[Variable, str], ...]
    graph: tuple[tuple[str, str, str], ...]
    name: str
    proof: int | None = None


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A node of a proof tree: its text, its source place, and its premises."""

    text: str
    place: str
    premises: tuple[ProofStep, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """A rule in the table.

    `funnel`: the bindings left after each clause and the condition, empty where they are not
    counted. `errors`: by clause, bindings that end at an error of a condition.
    `reason_not_fired`: the reason why a rule without an event never fired.
    """

    name: str
    documentation: str
    place: str
    events: int
    first: Micros | None
    last: Micros | None
    anchors: int
    funnel: tuple[tuple[str, int], ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    reason_not_fired: str = ""


class RejectedExample(NamedTuple):
    """A dead letter of the report. `time`: None where it could not be read."""

    place: str
    time: Micros | None
    error: str
    text: str


@dataclass(frozen=True, slots=True)
class RejectedSummary:
    """The dead letters of one reason: their number, and the first ones."""

    reason: Reason
    count: int
    examples: tuple[RejectedExample, ...]


@dataclass(frozen=True, slots=True)
class InputSummary:
    """An input of the replay.

    `first`, `last`: times of its first and last element; `passed`: its watermark; `lag`: the
    distance in µs of the watermark behind that of the most advanced input (0: it has ended);
    `rejected`: the number of its dead letters.
    """

    name: str
    files: tuple[str, ...]
    elements: int
    rejected: int
    first: Micros | None
    last: Micros | None
    passed: Micros | None
    lag: Micros | None
    ended: bool


@dataclass(frozen=True, slots=True)
class ProgramPicture:
    """The picture of the program as SVG, and the same as text."""

    svg: str
    text: str


@dataclass(frozen=True)
class ReportData:
    """Content of a report.

    Attributes:
        name: the name of the pipeline.
        config: the path of the configuration.
        options: the values that change it, as those of `--set`.
        bin_width: width of a bin of the timeline in µs; 1: a bin is an instant.
        events: the events that are embedded, in the order of the output.
        proofs: proof trees, which events refer to by number.
    """

    name: str
    config: str
    options: tuple[str, ...]
    version: str
    clock: Clock
    totals: Totals
    first: Micros | None
    last: Micros | None
    bin_width: Micros
    lanes: tuple[Lane, ...]
    events: tuple[ReportedEvent, ...]
    proofs: tuple[ProofStep, ...]
    rules: tuple[RuleSummary, ...]
    rejected: tuple[RejectedSummary, ...]
    inputs: tuple[InputSummary, ...]
    program: ProgramPicture

    def command(self, name: str, arguments: str = "") -> str:
        """A command of dotr about this configuration, as a shell takes it."""
        return " ".join(filter(None, ["dotr", name, shlex.quote(self.config), arguments, self.changes]))

    @property
    def changes(self) -> str:
        """The options of a command that change the configuration."""
        return " ".join(f"--set {shlex.quote(option)}" for option in self.options)
