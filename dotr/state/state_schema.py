"""Schema of the state of stage two: the rule behind each store, set and queue, and the meaning of
that rule.

Slots of the state are positional: so many stores, sets and queues in a layer. The schema records
which rule and role uses each slot, so that the layout of another program can be filled from it
(`state_migration`). It is data, stored beside the state.

A rule is identified by name, and compared by a digest of its meaning, independent of its spelling.
The meaning includes the rules whose events it reads, directly or not. Background knowledge is
excluded: stored events were extracted at their instants with the knowledge of that time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

from dotr.engine.program import CompiledProgram
from dotr.languages.datalog import parse_datalog
from dotr.layout.layers import Layout
from dotr.layout.retention import roles
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource, Rule
from dotr.model.time import Micros
from dotr.queries.canonical_query import canonical
from dotr.state.written_forms import FACTS, FORMS, MEMBERS, WrittenForm


@dataclass(frozen=True, slots=True)
class RuleState:
    """The slots of a rule: layer, port of each role (the anchor's first), number of its first set
    of consumed events, and queue of its delayed anchors. `digest` is the digest of the rule's text,
    `reads` names the rules that it reads from, and `since` is its start amid the stream (µs)."""

    name: str
    digest: str
    reads: tuple[str, ...]
    layer: int
    ports: tuple[int, ...]
    first_consumed: int
    queue: int | None
    since: Micros | None

    def to_json(self) -> dict[str, object]:
        """JSON with fixed names of members."""
        return {
            "name": self.name,
            "text": self.digest,
            "reads": self.reads,
            "layer": self.layer,
            "ports": self.ports,
            "consumed": self.first_consumed,
            "queue": self.queue,
            "since": self.since,
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> RuleState:
        """The inverse of `to_json`. Raises TypeError or KeyError."""
        return RuleState(
            name=data["name"],
            digest=data["text"],
            reads=tuple(data["reads"]),
            layer=data["layer"],
            ports=tuple(data["ports"]),
            first_consumed=data["consumed"],
            queue=data["queue"],
            since=data["since"],
        )


@dataclass(frozen=True, slots=True)
class StateSchema:
    """The schema of a program's state. `knowledge` is the digest of the background and of the
    settings that apply to all rules. `keys` gives for each port of each layer the attribute that
    keys it (None: one partition; -1: any partition)."""

    knowledge: str
    rules: tuple[RuleState, ...]
    keys: tuple[tuple[int | None, ...], ...]

    @property
    def meanings(self) -> dict[str, tuple[str, ...]]:
        """The digests of each rule and of all rules that it reads from."""
        texts = {rule.name: rule.digest for rule in self.rules}
        return {rule.name: (rule.digest, *sorted(texts[other] for other in rule.reads)) for rule in self.rules}

    @property
    def since(self) -> dict[str, Micros]:
        """The start of each rule that was added amid the stream (µs)."""
        return {rule.name: rule.since for rule in self.rules if rule.since is not None}

    def to_json(self) -> dict[str, object]:
        """JSON with fixed names of members."""
        return {"knowledge": self.knowledge, "rules": tuple(rule.to_json() for rule in self.rules), "keys": self.keys}

    @staticmethod
    def of_json(data: Mapping[str, object]) -> StateSchema:
        """The inverse of `to_json`, also for data from another process or from a release with
        further digests. Raises TypeError, KeyError or ValueError."""
        plain = json.loads(json.dumps(data))
        keys = tuple(tuple(keys) for keys in plain["keys"])
        return StateSchema(knowledge=str(plain["knowledge"]), rules=tuple(map(RuleState.of_json, plain["rules"])), keys=keys)


def state_schema(program: CompiledProgram, layout: Layout | None = None, knowledge: str | None = None) -> StateSchema:
    """The schema of a program's state in a layout (None: the program's own). Reads the graphs for
    their digest unless `knowledge` is given."""
    layout = layout or program.layout
    written = {rule.name: rule for rule in program.rules.rules}
    digests = {name: digest_of([plain_data(rule)]) for name, rule in written.items()}
    makers: dict[str, list[str]] = {}
    for rule in written.values():
        makers.setdefault(rule.event, []).append(rule.name)
    needs = {name: _direct_sources(rule, makers) for name, rule in written.items()}
    knowledge = knowledge or knowledge_digest(program)
    rule_states = []
    for layer in layout.layers:
        queues, firsts = layer.queues, layer.first_consumed
        for placed, first in zip(layer.rules, firsts, strict=False):
            name = placed.rule.name
            upstream = _all_sources(name, needs)
            queue = queues[placed.ports[0], placed.rule.anchor.delay] if placed.rule.anchor.delay else None
            since = layer.ports[placed.ports[0]].since
            rule_states.append(RuleState(name, digests[name], tuple(sorted(upstream)), layer.number, placed.ports, first, queue, since))
    keys = tuple(tuple(-1 if port.spread else port.key_position for port in layer.ports) for layer in layout.layers)
    return StateSchema(knowledge, tuple(rule_states), keys)


def _direct_sources(rule: Rule, makers: Mapping[str, Sequence[str]]) -> set[str]:
    """The rules that define events which a rule reads."""
    return {name for role in roles(rule) if isinstance(role.source, EventSource) for name in makers.get(role.source.event, ())}


def _all_sources(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    """The rules that a rule depends on, directly or not; includes the rule if it is recursive."""
    sources: set[str] = set()
    waiting = list(needs[name])
    while waiting:
        other = waiting.pop()
        if other not in sources:
            sources.add(other)
            waiting += needs[other]
    return sources


def knowledge_digest(program: CompiledProgram) -> str:
    """The digest of a program's background and of the settings that apply to all rules. Reads the
    graphs; raises OSError."""
    spec = program.spec
    graphs = []
    for path in spec.graphs:
        digest = blake2b(digest_size=16)
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        graphs.append(digest.hexdigest())
    datalog = sorted(json.dumps(plain_data(rule)) for document in spec.datalog for rule in parse_datalog(document, spec.prefixes))
    return digest_of([sorted(graphs), datalog, spec.entailment.value, spec.axiomatic, spec.unit.written, spec.inconsistent.value])


def digest_of(parts: Iterable[object]) -> str:
    return blake2b(json.dumps(list(parts)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def plain_data(noun: object) -> object:
    """A rule as plain data under written names: without places and documentation, and with
    variables that a query does not project renamed canonically."""
    match noun:
        case None | bool() | int() | str():
            return noun
        case Enum():
            return MEMBERS[noun]
        case Span():
            return None
        case FactSource():
            return [FACTS.name, plain_data(canonical(noun.query)), list(noun.attributes), list(noun.reported), noun.period]
        case tuple() | list():
            return [plain_data(each) for each in noun]
        case frozenset() | set():
            return sorted(json.dumps(plain_data(each)) for each in noun)
        case Mapping():
            return sorted(json.dumps([plain_data(key), plain_data(value)]) for key, value in noun.items())
        case _ if form := FORMS.get(type(noun)):
            return [form.name, *_members(noun, form)]
    raise TypeError(f"{type(noun).__name__} has no digest")


def _members(noun: object, form: WrittenForm) -> Iterator[list[object]]:
    """The fields under their written names, without those that have the default of `Unless`."""
    for field, written in form.fields:
        value = getattr(noun, field)
        if isinstance(written, str):
            yield [written, plain_data(value)]
        elif value != written.value:
            yield [written.written, plain_data(value)]
