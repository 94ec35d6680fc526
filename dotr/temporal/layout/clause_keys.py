"""Keys of clauses: the attributes of a clause's event that its constraints equate with a value
bound before (semantics.md, 4; SPARQL `=`).

Idea: any event that a clause with a key selects has the value of the key, so it is in the bucket of
that value. Keys of one equality class have equal values in every binding: a run of clauses whose
keys are of one class is evaluated in one bucket.
Example: in `from A and each B [?r = A.?r] and last C [?r = B.?r && ?p = B.?q]` the clause C has the
keys ?r, of the class of A.?r, and ?p, of the class of B.?q.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from dotr.model.event_order import LabelledVariable, equated_pair
from dotr.model.rules import FactSource, Rule
from dotr.model.terms import Label, Variable
from dotr.temporal.layout.keys import AnyPartition, KeyedPartitions, SinglePartition, equality_roots
from dotr.temporal.layout.retention import positive_roles
from dotr.temporal.layout.stages import Stage


class ClauseKey(NamedTuple):
    """A key of a clause.

    - `attribute`: of the clause's event.
    - `value`: the attribute of a label bound before, or the variable of an aggregate, with which it
      is equated.
    - `equality_class`: named by its first member.
    """

    attribute: Variable
    value: LabelledVariable
    equality_class: LabelledVariable


@dataclass(frozen=True, slots=True)
class RuleKeys:
    """The keys of each clause of a rule, sorted.

    `members`: by equality class and positive label, the first attribute by name of the label's in
    the class.
    """

    rule: Rule
    of_clause: tuple[tuple[ClauseKey, ...], ...]
    members: Mapping[LabelledVariable, Mapping[Label, Variable]]

    @staticmethod
    def of(rule: Rule) -> RuleKeys:
        """The keys of a rule."""
        root = equality_roots(rule)
        of_clause = []
        for clause in rule.clauses:
            pairs = dict.fromkeys(filter(None, map(equated_pair, clause.role.constraints)))
            keys = [ClauseKey(name, (other.label, other.name), root((other.label, other.name))) for name, other in pairs]
            of_clause.append(tuple(sorted(keys)))
        members: dict[LabelledVariable, dict[Label, Variable]] = {}
        for role in positive_roles(rule):
            for name in role.source.attributes:
                members.setdefault(root((role.label, name)), {}).setdefault(role.label, name)
        return RuleKeys(rule, tuple(of_clause), members)

    def anchor_keys(self) -> list[Variable]:
        """The attributes of the anchor that may key the first stage: those that are equated with a
        key of the first clause that has one.
        """
        first = next((keys for keys in self.of_clause if keys), ())
        return sorted({key.equality_class[1] for key in first if key.equality_class[0] == self.rule.anchor.label})

    def stage_from(self, number: int, place: int, key: ClauseKey) -> Stage:
        """The later stage that begins with a clause, under one of its keys."""
        stage = self.stage(number, place, key.equality_class)
        assert isinstance(stage.split, KeyedPartitions)
        keyed = {**stage.split.attribute, self.rule.clauses[place].role.label: key.attribute}
        return replace(stage, split=KeyedPartitions(MappingProxyType(keyed)))

    def stage(self, number: int, first: int, equality_class: LabelledVariable, end: int | None = None) -> Stage:
        """The stage under an equality class that begins with the clause at `first`.

        It ends before the first clause whose keys are all of other classes; or at `end`, where
        clauses without a key of the class are replicated.
        """
        later = {clause.role.label for clause in self.rule.clauses[first:]}
        attribute = {label: name for label, name in self.members.get(equality_class, {}).items() if label not in later}
        replicated = set()
        place = first
        while place < (len(self.of_clause) if end is None else end):
            label, keys = self.rule.clauses[place].role.label, self.of_clause[place]
            own = next((key.attribute for key in keys if key.equality_class == equality_class), None)
            if own is not None:
                attribute[label] = own
            elif not keys or end is not None:
                replicated.add(label)
            else:
                break
            place += 1
        return Stage(number, first, place, KeyedPartitions(MappingProxyType(attribute)), frozenset(replicated))

    def spread_stage(self) -> Stage:
        """The first stage of a rule without `anchor_keys`: the clauses before the first one with a
        key.

        Anchors are spread over the buckets; ticks without attributes have one partition.
        """
        end = next((place for place, keys in enumerate(self.of_clause) if keys), len(self.of_clause))
        anchor = self.rule.anchor
        if isinstance(anchor.source, FactSource) and anchor.source.period is not None and not anchor.source.attributes:
            return Stage(0, 0, end, SinglePartition(f"{anchor.label} ticks without an attribute that could spread its ticks"))
        return Stage(0, 0, end, AnyPartition(), frozenset(clause.role.label for clause in self.rule.clauses[:end]))


def stages_under_one_key(rule: Rule, tied: Collection[Label]) -> dict[Variable, Stage]:
    """The stages that evaluate a whole rule under an attribute of its anchor, by that attribute.

    The attribute must also key the clauses of the labels in `tied`; other clauses that it does not
    key are replicated.
    """
    keys, end = RuleKeys.of(rule), len(rule.clauses)
    stages = {name: keys.stage(0, 0, (rule.anchor.label, name), end) for name in rule.anchor.source.attributes}
    return {name: stage for name, stage in stages.items() if not stage.replicated & set(tied)}
