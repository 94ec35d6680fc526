"""The specification of a program as data. Its JSON, compiled in another process, is the same
program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from dotr.errors.diagnostics import CheckedFiles, Diagnostic
from dotr.evaluation.limits import LIMITS, Limits
from dotr.instant.datalog.background.sources import READING, Reading, Sources
from dotr.instant.datalog.entailment import Entailment
from dotr.model import dataclass
from dotr.model.algebra import Expression
from dotr.model.places import Document, Span
from dotr.model.rules import Rule, SharedQuery
from dotr.model.stream import InputStream
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.time import Forms, Micros, Unit

if TYPE_CHECKING:  # workers infer no kinds
    from dotr.evaluation.expressions.kinds import TermKinds


class Inconsistent(Enum):
    """The configuration's `knowledge.inconsistent`: an instant that contradicts itself or the
    background is used with a message, or rejected.
    """

    REPORT = "report"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """The texts of rules and Datalog, the paths of graphs, and the settings.

    - `rules`: the rule files of all languages; the extension determines the language.
    - `graphs`: paths, which are read where the program is compiled.
    - `since`: for each role of a rule that starts amid the stream, by name (`role_name`), the time
      of its start in µs since 1970. The role uses no older events.
    - `origin`: a time in µs since 1970 at which windows of continuous queries close.
    - `inputs`: those that a configuration declares.
    - `cut`: rules without a key for all their clauses are cut into stages, each in the bucket of a
      key, as on Spark.
    - `groups`: the number of groups into which the rules of a layer are divided.
    - `reading`: the declarations by which graphs are read.
    - `fires_at_end`: at the end of a bounded stream what is under way goes on; False: nothing
      happens after the last instant.
    - `unit_given`: the unit of integer times is in the configuration, so that times are integers.
    - `time_zone`: the zone of calendars that name none, and of times as they are shown; empty: UTC.
    """

    rules: tuple[Document, ...] = ()
    datalog: tuple[Document, ...] = ()
    graphs: tuple[str, ...] = ()
    entailment: Entailment = Entailment.NONE
    axiomatic: bool = False
    prefixes: Mapping[str, str] = field(default_factory=dict)
    unit: Unit = Unit.SECOND
    inconsistent: Inconsistent = Inconsistent.REPORT
    limits: Limits = LIMITS
    since: Mapping[str, Micros] = field(default_factory=dict)
    origin: Micros = 0
    inputs: tuple[InputStream, ...] = ()
    cut: bool = False
    groups: int = 1
    reading: Reading = READING
    fires_at_end: bool = True
    unit_given: bool = False
    time_zone: str = ""

    def to_json(self) -> str:
        r"""The specification as JSON.

        >>> spec = ProgramSpec(rules=(Document("a.dotr", "rule R"),), prefixes={"": "http://e/"})
        >>> ProgramSpec.from_json(spec.to_json()) == spec
        True
        """
        further: dict[str, object] = {}  # settings at their defaults are omitted, as in older releases
        if self.origin:
            further["origin"] = self.origin
        if self.inputs:
            further["inputs"] = [[each.name, each.stream] for each in self.inputs]
        if self.cut:
            further["cut"] = True
        if self.groups > 1:
            further["groups"] = self.groups
        if self.reading != READING:
            further["reading"] = self.reading.to_list()
        if not self.fires_at_end:
            further["fires_at_end"] = False
        if self.unit_given:
            further["unit_given"] = True
        if self.time_zone:
            further["time_zone"] = self.time_zone
        return json.dumps(
            {
                "rules": [[document.name, document.text] for document in self.rules],
                "datalog": [[document.name, document.text] for document in self.datalog],
                "graphs": list(self.graphs),
                "entailment": self.entailment.value,
                "axiomatic": self.axiomatic,
                "prefixes": dict(self.prefixes),
                "unit": self.unit.written,
                "inconsistent": self.inconsistent.value,
                "limits": self.limits.to_json(),
                "since": dict(self.since),
                **further,
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> ProgramSpec:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return cls(
            tuple(Document(name, text) for name, text in data["rules"]),
            tuple(Document(name, text) for name, text in data["datalog"]),
            tuple(data["graphs"]),
            Entailment(data["entailment"]),
            data["axiomatic"],
            data["prefixes"],
            Unit.from_written(data["unit"]),
            Inconsistent(data["inconsistent"]),
            Limits.from_json(data["limits"]),
            data["since"],
            data.get("origin", 0),
            tuple(InputStream(name, stream) for name, stream in data.get("inputs", ())),
            data.get("cut", False),
            data.get("groups", 1),
            Reading.from_list(data.get("reading", ())),
            data.get("fires_at_end", True),
            data.get("unit_given", False),
            data.get("time_zone", ""),
        )

    @property
    def sources(self) -> Sources:
        """The sources of the background knowledge."""
        return Sources(self.graphs, self.datalog, self.entailment, self.axiomatic, self.prefixes, self.reading)


@dataclass(frozen=True, slots=True)
class RolePlaces:
    """Places of the anchor or of a clause's event.

    - `attributes`: those that the text names, in the order of the SELECT line or of `with`.
    - `conditions`: the span of each conjunct of the FILTERs, those of the query included.
    """

    attributes: tuple[Variable, ...] = ()
    conditions: Mapping[Expression, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RulePlaces:
    """Places of a rule: of its anchor and clauses in the order written, and of each conjunct of
    `if`.
    """

    roles: tuple[RolePlaces, ...]
    condition: Mapping[Expression, Span] = field(default_factory=dict)


# Result of compiling rule files, in a module of its own: it can be imported without the parser.


@dataclass(frozen=True, slots=True)
class RuleSet(CheckedFiles):
    """Result of compiling rule files.

    - `rules`, `queries`: empty if there is an error.
    - `diagnostics`: those without a span, then by file and offset.
    - `prefixes`: those of files (of two declarations the first), then the configuration's.
    - `places`: places of the parts of rules, by rule name.
    - `forms`: the forms of the attributes of each label's events, rules' and units'.
    - `kinds`: the kinds of terms of these attributes.
    """

    rules: tuple[Rule, ...]
    queries: tuple[SharedQuery, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)
    places: Mapping[str, RulePlaces] = field(default_factory=dict, repr=False)
    forms: Mapping[Label, Forms] = field(default_factory=dict, repr=False)
    kinds: Mapping[Label, Mapping[Variable, TermKinds]] = field(default_factory=dict, repr=False)
