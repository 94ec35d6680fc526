"""What the state of stage two is of: for each place in it the rule that needs it, and what that rule means.

State itself is positional: so many stores, sets and queues a layer. Holdings say which of them a rule's roles stand in, so that another
program's layout can be filled from it (`change`). They are data, and stand beside the state.

A rule is known by its name, and told from a changed one by digests of its meaning: of what it says, not of how that is written. What it
says is in part said elsewhere, by every rule whose events it reads, directly or not. The background knowledge is no part of it: state
holds events, which were extracted at their instants by what was known then.
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
    """What a rule has: its layer, the port of each role (the anchor's first), the number of its first set of consumed events, and of the
    queue that its anchors wait in. `text` is the digest of the rule; it reads what `reads` make."""

    name: str
    digest: str
    reads: tuple[str, ...]
    layer: int
    ports: tuple[int, ...]
    first_consumed: int
    queue: int | None
    since: Micros | None

    def to_json(self) -> dict[str, object]:
        """Members that keep their names whatever the fields are called."""
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
        """The inverse of `to_json`; raises TypeError or KeyError."""
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
    """What a program's state is of. `knowledge` is the digest of the background, and of what applies to all rules; `keys` says of
    each layer's ports which of the stream's attributes keys them (None: all is in one partition; -1: it is anywhere)."""

    knowledge: str
    rules: tuple[RuleState, ...]
    keys: tuple[tuple[int | None, ...], ...]

    @property
    def meanings(self) -> dict[str, tuple[str, ...]]:
        """What each rule means: the digests of it and of all that it reads from."""
        texts = {rule.name: rule.digest for rule in self.rules}
        return {rule.name: (rule.digest, *sorted(texts[other] for other in rule.reads)) for rule in self.rules}

    @property
    def since(self) -> dict[str, Micros]:
        """The rules that came to be amid the stream, and when."""
        return {rule.name: rule.since for rule in self.rules if rule.since is not None}

    def to_json(self) -> dict[str, object]:
        """Members that keep their names whatever the fields are called."""
        return {"knowledge": self.knowledge, "rules": tuple(held.to_json() for held in self.rules), "keys": self.keys}

    @staticmethod
    def of_json(data: Mapping[str, object]) -> StateSchema:
        """The inverse of `to_json`, also of what another process has written, or a release that had further digests; raises TypeError,
        KeyError or ValueError."""
        found = json.loads(json.dumps(data))
        keys = tuple(tuple(keys) for keys in found["keys"])
        return StateSchema(knowledge=str(found["knowledge"]), rules=tuple(map(RuleState.of_json, found["rules"])), keys=keys)


def state_schema(program: CompiledProgram, layout: Layout | None = None, knowledge: str | None = None) -> StateSchema:
    """What the state of a program is of, where it is laid out as it is, or in this way; its graphs are read for it, unless the digest of
    its `knowledge` is there."""
    layout = layout or program.layout
    written = {rule.name: rule for rule in program.rules.rules}
    texts = {name: _digest([_plain_data(rule)]) for name, rule in written.items()}
    makers: dict[str, list[str]] = {}
    for rule in written.values():
        makers.setdefault(rule.event, []).append(rule.name)
    needs = {name: _direct_sources(rule, makers) for name, rule in written.items()}
    knowledge = knowledge or _knowledge_digest(program)
    held = []
    for layer in layout.layers:
        queues, firsts = layer.queues, layer.first_consumed
        for placed, first in zip(layer.rules, firsts, strict=False):
            name = placed.rule.name
            behind = _all_sources(name, needs)
            queue = queues[placed.ports[0], placed.rule.anchor.delay] if placed.rule.anchor.delay else None
            since = layer.ports[placed.ports[0]].since
            held.append(RuleState(name, texts[name], tuple(sorted(behind)), layer.number, placed.ports, first, queue, since))
    keys = tuple(tuple(-1 if port.spread else port.key_position for port in layer.ports) for layer in layout.layers)
    return StateSchema(knowledge, tuple(held), keys)


def _direct_sources(rule: Rule, makers: Mapping[str, Sequence[str]]) -> set[str]:
    return {name for role in roles(rule) if isinstance(role.source, EventSource) for name in makers.get(role.source.event, ())}


def _all_sources(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    """All rules that one needs, directly or not; itself where it is recursive."""
    found: set[str] = set()
    waiting = list(needs[name])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += needs[other]
    return found


def _knowledge_digest(program: CompiledProgram) -> str:
    spec = program.spec
    graphs = []
    for path in spec.graphs:
        digest = blake2b(digest_size=16)
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        graphs.append(digest.hexdigest())
    datalog = sorted(json.dumps(_plain_data(rule)) for document in spec.datalog for rule in parse_datalog(document, spec.prefixes))
    return _digest([sorted(graphs), datalog, spec.entailment.value, spec.axiomatic, spec.unit.written, spec.inconsistent.value])


def _digest(parts: Iterable[object]) -> str:
    return blake2b(json.dumps(list(parts)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _plain_data(noun: object) -> object:
    """A noun as plain data, by its written names: without places and documentation, and without the names of a query's variables that it
    does not project."""
    match noun:
        case None | bool() | int() | str():
            return noun
        case Enum():
            return MEMBERS[noun]
        case Span():
            return None
        case FactSource():
            return [FACTS.name, _plain_data(canonical(noun.query)), list(noun.attributes), list(noun.reported), noun.period]
        case tuple() | list():
            return [_plain_data(each) for each in noun]
        case frozenset() | set():
            return sorted(json.dumps(_plain_data(each)) for each in noun)
        case Mapping():
            return sorted(json.dumps([_plain_data(key), _plain_data(value)]) for key, value in noun.items())
        case _ if form := FORMS.get(type(noun)):
            return [form.name, *_members(noun, form)]
    raise TypeError(f"{type(noun).__name__} has no digest")


def _members(noun: object, form: WrittenForm) -> Iterator[list[object]]:
    """The fields by their written names, but for those that have the value which all rules had before there was the field."""
    for field, written in form.fields:
        value = getattr(noun, field)
        if isinstance(written, str):
            yield [written, _plain_data(value)]
        elif value != written.value:
            yield [written.written, _plain_data(value)]
