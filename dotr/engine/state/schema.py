"""Schema of the state of stage two: the rule behind each store, set and queue, and the meaning of
that rule.

Slots of the state are positional: numbered stores, sets and queues of a layer. The schema names
which rule and role uses each slot, so that the layout of another program can be filled from it
(`dotr.engine.state.migration`). It is data, stored beside the state.

A rule is identified by name. State belongs to the events of a clause: a clause is identified by its
label, and compared by digests of what its stored events depend on, independent of its spelling. The
rules whose events it reads are excluded: events that a changed rule made before are kept.
Background knowledge is excluded: stored events were extracted at their instants with the knowledge
of that time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, NamedTuple, assert_never

from dotr.engine.program import CompiledProgram
from dotr.engine.state.forms import FACTS, FORMS, MEMBERS, NO_FURTHER, FurtherForms, WrittenForm
from dotr.engine.unit_runs import engine_unit
from dotr.evaluation.expressions import query_without_lengths
from dotr.evaluation.expressions.functions import WITHOUT_SETTINGS
from dotr.evaluation.files.stores import Location
from dotr.instant.queries.canonical_query import canonical
from dotr.model import dataclass
from dotr.model.algebra import Call, Filter
from dotr.model.datalog import DatalogRule
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource, Role, Rule, Window
from dotr.model.terms import Label, Variable
from dotr.model.time import Micros
from dotr.model.traverse import conjuncts
from dotr.model.units import FedGraphs, InstantTriples, IntervalEvents, MadeGraphs, UnitStream
from dotr.temporal.layout.layers import Layer, Layout, PlacedRule, Port, role_name
from dotr.temporal.layout.retention import Standing, anchor_delay, is_own, scope_of, standing
from dotr.temporal.layout.stages import BindingStream
from dotr.temporal.layout.units import ProgramUnit, labels_made, readings

ANY_PARTITION: Final = -1
"""In the place of the key of a port: an event is in the partition of its values."""

EVERY_PARTITION: Final = -2
"""In the place of the key of a port: an event is in every partition."""

NOTHING_KEPT: Final = -3
"""In the place of the key of a port at which bindings arrive: none of them is stored."""


class ClauseState(NamedTuple):
    """The digests on which the stored events of a clause, or the waiting events of a delayed anchor,
    depend, in the order in which they are stored.

    - `query`: the digest of the query without its filter; `event LABEL` where events are read.
    - `filter`: that of the conditions on an event alone, `window` that of the window (of an anchor:
      of its delay), `newest` that of the keys and conditions of which only the newest event is
      kept; empty where there is none.
    - `attributes`: the columns of the events.
    - `consumed`: the rule consumes the events.
    """

    label: Label
    query: str
    filter: str
    window: str
    newest: str
    attributes: tuple[Variable, ...]
    consumed: bool

    @property
    def reads_events(self) -> bool:
        """True where the events are composite ones, which may lack an attribute."""
        return self.query.startswith(_OF_EVENT)


@dataclass(frozen=True, slots=True)
class RuleState:
    """The slots of a rule: layer, port of each role (the anchor's first), number of its first set
    of consumed events, and queue of its delayed anchors. `digest` is the digest of the rule's text,
    `reads` names the rules that it reads from, and `since` has the start of each role amid the
    stream (µs). `layers` are those of the roles, where they differ: consumed events and queue are
    in the first. `once` has the keys of the rule's `once`, whose firings are at the last port;
    None: it has none. `clauses` are the meanings of the roles; empty in state of earlier releases.
    """

    name: str
    digest: str
    reads: tuple[str, ...]
    layer: int
    ports: tuple[int, ...]
    first_consumed: int
    queue: int | None
    since: tuple[Micros | None, ...]
    layers: tuple[int, ...] = ()
    once: tuple[str, ...] | None = None
    clauses: tuple[ClauseState, ...] = ()

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The layer and port of each role."""
        return tuple(zip(self.layers or [self.layer] * len(self.ports), self.ports, strict=True))

    def to_json(self) -> dict[str, object]:
        """JSON with fixed names of members: one layer, or, where there are several, the places."""
        return {
            "name": self.name,
            "text": self.digest,
            "reads": self.reads,
            **({"places": self.places} if self.layers else {"layer": self.layer, "ports": self.ports}),
            "consumed": self.first_consumed,
            "queue": self.queue,
            "since": self.since[0] if len(set(self.since)) == 1 else self.since,
            **({} if self.once is None else {"once": self.once}),
            **({"clauses": self.clauses} if self.clauses else {}),
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> RuleState:
        """The inverse of `to_json`. Raises TypeError, ValueError or KeyError."""
        places = data.get("places")
        layers, ports = ((data["layer"],), data["ports"]) if places is None else zip(*places, strict=True)
        return RuleState(
            name=data["name"],
            digest=data["text"],
            reads=tuple(data["reads"]),
            layer=layers[0],
            ports=tuple(ports),
            layers=() if places is None else tuple(layers),
            first_consumed=data["consumed"],
            queue=data["queue"],
            since=tuple(since) if isinstance(since := data["since"], list) else (since,) * len(ports),
            once=None if data.get("once") is None else tuple(data["once"]),
            clauses=tuple(
                ClauseState._make((*rest, tuple(attributes), consumed)) for *rest, attributes, consumed in data.get("clauses", ())
            ),
        )


@dataclass(frozen=True, slots=True)
class StateOfUnit:
    """The place of the state of a unit (a continuous query, a LARS file, an EP-SPARQL unit): its
    layer, and the number of its partition there.

    `kind` is its noun in messages. `digest` is that of its meaning and of its streams, `reads`
    names the rules and units that it reads from, directly or not. `key` has the variables that key
    a unit with a part in every bucket; empty for one with one partition.
    """

    name: str
    kind: str
    digest: str
    reads: tuple[str, ...]
    layer: int
    partition: int
    key: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """JSON with fixed names of members."""
        return {
            "name": self.name,
            "kind": self.kind,
            **({"key": self.key} if self.key else {}),
            "text": self.digest,
            "reads": self.reads,
            "layer": self.layer,
            "partition": self.partition,
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> StateOfUnit:
        """The inverse of `to_json`. Raises TypeError or KeyError."""
        reads, key = tuple(data["reads"]), tuple(data.get("key", ()))
        return StateOfUnit(data["name"], data["kind"], data["text"], reads, data["layer"], data["partition"], key)


@dataclass(frozen=True, slots=True)
class StateSchema:
    """The schema of a program's state. `knowledge` is the digest of the background and of the
    settings that apply to all rules. `keys` gives for each port of each layer the attribute that
    keys it (None: one partition; `ANY_PARTITION`, `EVERY_PARTITION`; `NOTHING_KEPT`). `units` are
    the continuous queries, LARS files and EP-SPARQL units. `groups` has `Port.group` of each port;
    empty where there is one group."""

    knowledge: str
    rules: tuple[RuleState, ...]
    keys: tuple[tuple[int | None, ...], ...]
    units: tuple[StateOfUnit, ...] = ()
    groups: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def states(self) -> tuple[RuleState | StateOfUnit, ...]:
        """The states of all rules and units."""
        return (*self.rules, *self.units)

    @property
    def is_of_whole_programs(self) -> bool:
        """True for a schema of an earlier release that stored the state of a program with queries
        as one value. It lists no units, so some port belongs to no rule."""
        of_rules = {place for rule in self.rules for place in rule.places}
        return not self.units and len(of_rules) < sum(key != NOTHING_KEPT for keys in self.keys for key in keys)

    @property
    def has_places(self) -> bool:
        """True if the roles of some rule are in several layers, or events in every partition, which
        earlier releases cannot read."""
        return bool(self.groups) or any(rule.layers for rule in self.rules) or any(EVERY_PARTITION in keys for keys in self.keys)

    @property
    def since(self) -> dict[str, Micros]:
        """The start (µs) of each clause that starts amid the stream (`role_name`), or of all of a
        rule in state of earlier releases."""
        found: dict[str, Micros] = {}
        for rule in self.rules:
            names = [role_name(rule.name, clause.label) for clause in rule.clauses] or [rule.name]
            found |= {name: since for name, since in zip(names, rule.since, strict=False) if since is not None}
        return found

    def to_json(self) -> dict[str, object]:
        """JSON with fixed names of members."""
        units = {"units": tuple(unit.to_json() for unit in self.units)} if self.units else {}
        groups = {"groups": self.groups} if self.groups else {}
        return {"knowledge": self.knowledge, "rules": tuple(rule.to_json() for rule in self.rules), "keys": self.keys, **units, **groups}

    @staticmethod
    def of_json(data: Mapping[str, object]) -> StateSchema:
        """The inverse of `to_json`, also for data from another process or from a release with
        further digests. Raises TypeError, KeyError or ValueError."""
        plain = json.loads(json.dumps(data))
        keys = tuple(tuple(keys) for keys in plain["keys"])
        return StateSchema(
            knowledge=str(plain["knowledge"]),
            rules=tuple(map(RuleState.of_json, plain["rules"])),
            keys=keys,
            units=tuple(map(StateOfUnit.of_json, plain.get("units", ()))),
            groups=tuple(tuple((number, count) for number, count in ports) for ports in plain.get("groups", ())),
        )


def state_schema(program: CompiledProgram, layout: Layout | None = None, knowledge: str | None = None) -> StateSchema:
    """The schema of a program's state in a layout (None: the program's own). Reads the graphs for
    their digest unless `knowledge` is given."""
    layout = layout or program.layout
    placed_rules = {placed.rule.name for layer in layout.layers for placed in layer.rules}
    written = {rule.name: rule for rule in program.rules.rules if rule.name in placed_rules}
    digests = {name: digest_of([plain_data(rule)]) for name, rule in written.items()}
    makers: dict[str, list[str]] = {}
    every: list[ProgramUnit] = [*written.values(), *program.units]
    for unit in every:
        for label in labels_made(unit):
            makers.setdefault(label, []).append(unit.name)
    needs = {unit.name: {name for reading in readings(unit) for name in makers.get(reading.label, ())} for unit in every}
    knowledge = knowledge or knowledge_digests(program).meaning
    stages: dict[str, list[tuple[Layer, PlacedRule, int]]] = {}
    for layer in layout.layers:
        for placed, consumed in zip(layer.rules, layer.first_consumed, strict=False):
            stages.setdefault(placed.rule.name, []).append((layer, placed, consumed))
    rule_states = []
    for name, of_rule in stages.items():
        of_rule.sort(key=lambda each: each[1].stage.number)
        (layer, placed, consumed), *_ = of_rule
        places = [(here.number, port) for here, stage, _ in of_rule for _, port in stage.roles]
        once = written[name].once
        places += [(here.number, stage.once) for here, stage, _ in of_rule if stage.once is not None]
        layers = tuple(number for number, _ in places)
        queue = layer.queues[placed.ports[0], anchor_delay(placed.rule.anchor)] if placed.delay else None
        rule_states.append(
            RuleState(
                name,
                digests[name],
                tuple(sorted(_all_sources(name, needs))),
                layer.number,
                tuple(port for _, port in places),
                consumed,
                queue,
                tuple(layout.layers[number].ports[port].since for number, port in places),
                layers if len(set(layers)) > 1 else (),
                None if once is None else once.keys,
                _clause_states(written[name]),
            )
        )
    keys = tuple(tuple(map(_written_key, layer.ports)) for layer in layout.layers)
    units = [
        StateOfUnit(
            placed.unit.name,
            meaning.noun,
            digest_of([meaning.text, [_stream_data(read.stream) for read in placed.unit.reads], *meaning.settings]),
            tuple(sorted(_all_sources(placed.unit.name, needs))),
            layer.number,
            placed.partition,
            placed.unit.key_names() if placed.is_spread else (),
        )
        for layer in layout.layers
        for placed in layer.units
        if (meaning := engine_unit(placed.unit).meaning(program.spec.origin)) is not None
    ]
    groups = tuple(tuple(port.group for port in layer.ports) for layer in layout.layers)
    has_groups = any(number for ports in groups for number, _ in ports)
    return StateSchema(knowledge, tuple(rule_states), keys, tuple(units), groups if has_groups else ())


_OF_EVENT: Final = "event "


def _clause_states(rule: Rule) -> tuple[ClauseState, ...]:
    """The meanings of the roles of a rule, the anchor's first."""
    found = [_clause_state(rule, rule.anchor, plain_data(list(anchor_delay(rule.anchor))), None)]
    for clause in rule.clauses:
        scope, newest = scope_of(clause), standing(rule, clause)
        labels = [scope.reference] if isinstance(scope, Window) else [scope.first, scope.second]
        window = [
            plain_data(scope.interval) if isinstance(scope, Window) else None,
            *["" if each == rule.anchor.label else each for each in labels],
        ]
        found.append(_clause_state(rule, clause.role, window, newest))
    return tuple(found)


def _clause_state(rule: Rule, role: Role, window: object, newest: Standing | None) -> ClauseState:
    source = role.source
    conditions = [each for constraint in role.constraints for each in conjuncts(constraint) if is_own(each, role.label)]
    own = [plain_data(each) for each in conditions]
    if isinstance(source, EventSource):
        query = f"{_OF_EVENT}{source.event}"
    else:
        select = replace(source.query, projection=source.projected)
        if isinstance(select.pattern, Filter):
            whole = canonical(select).pattern
            assert isinstance(whole, Filter), "renamed variables change no form"
            own += map(plain_data, whole.conditions)
            select = replace(select, pattern=select.pattern.pattern)
        query = _short([plain_data(canonical(select)), list(source.projected), plain_data(source.period)])
    filter_ = _short(sorted(map(json.dumps, own))) if own else ""
    kept = "" if newest is None else _short([newest.keys, plain_data(newest.own)])
    is_consumed = role.label in rule.consuming and role is not rule.anchor
    return ClauseState(role.label, query, filter_, _short(window), kept, source.attributes, is_consumed)


def _short(data: object) -> str:
    return digest_of([data])[:16]


def _written_key(port: Port) -> int | None:
    """The key of a port, as it is written down."""
    if isinstance(port.stream, BindingStream):
        return NOTHING_KEPT
    if port.is_replicated:
        return EVERY_PARTITION
    return ANY_PARTITION if port.spread else port.key_position


def _stream_data(stream: UnitStream) -> object:
    match stream:
        case FactSource():
            return plain_data(replace(stream, query=query_without_lengths(stream.query)))
        case EventSource():
            return plain_data(stream)
        case MadeGraphs(label):
            return ["made", label]
        case FedGraphs(name):
            return ["fed", name]
        case InstantTriples(asserted, predicates):
            return ["triples", asserted, None if predicates is None else sorted(predicates)]
        case IntervalEvents(label, names):
            return ["intervals", label, None if names is None else list(names)]
        case _:
            assert_never(stream)


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


class KnowledgeDigests(NamedTuple):
    """Digests of a program's background and of the settings that apply to all rules.

    - `meaning`: independent of the paths of the files.
    - `with_places`: that in checkpoints of earlier releases, with the file and line of each Datalog
      rule.
    """

    meaning: str
    with_places: str


def knowledge_digests(program: CompiledProgram) -> KnowledgeDigests:
    """The digests of a program's background. Reads the graphs; raises OSError."""
    spec = program.spec
    graphs, declared, tables = list[str](), dict(spec.reading.formats), dict(spec.reading.tables)
    for number, path in enumerate(spec.sources.files):
        digest = blake2b(digest_size=16)
        with Location(path).open() as file:
            while block := file.read(1 << 20):
                digest.update(block)
        graphs.append(digest.hexdigest() + declared.get(path, "") + tables.get(number, ""))
    settings = [spec.entailment.value, spec.axiomatic, spec.unit.written, spec.inconsistent.value, *spec.reading.contexts]
    settings += [iri for iri, _ in spec.reading.imports]

    def digest_with(datalog: Iterable[DatalogRule]) -> str:
        return digest_of([sorted(graphs), sorted(json.dumps(plain_data(rule)) for rule in datalog), *settings])

    return KnowledgeDigests(digest_with(replace(rule, name="") for rule in program.own_datalog), digest_with(program.own_datalog))


def digest_of(parts: Iterable[object]) -> str:
    """The digest of plain data, in hexadecimal."""
    return blake2b(json.dumps(list(parts)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def plain_data(value: object, further: FurtherForms = NO_FURTHER) -> object:
    """A rule, or a part of a unit, as plain data under written names: without places and
    documentation, and with variables that a query does not project renamed canonically.

    `further`: the forms of what rules do not have."""
    match value:
        case None | bool() | int() | str():
            return value
        case Enum():
            return MEMBERS[value] if value in MEMBERS else further.members[value]
        case Span():
            return None
        case Call(function, arguments) if len(arguments) > WITHOUT_SETTINGS.get(function, len(arguments)):
            return plain_data(Call(function, arguments[: WITHOUT_SETTINGS[function]]), further)
        case FactSource():
            return [
                FACTS.name,
                plain_data(canonical(value.query), further),
                list(value.attributes),
                list(value.projected),
                plain_data(value.period),
            ]
        case tuple() | list():
            return [plain_data(each, further) for each in value]
        case frozenset() | set():
            return sorted(json.dumps(plain_data(each, further)) for each in value)
        case Mapping():
            return sorted(json.dumps([plain_data(key, further), plain_data(entry, further)]) for key, entry in value.items())
        case _ if form := FORMS.get(type(value)) or further.forms.get(type(value)):
            return [form.name, *_members(value, form, further)]
    raise TypeError(f"{type(value).__name__} has no digest")


def _members(value: object, form: WrittenForm, further: FurtherForms) -> Iterator[list[object]]:
    """The fields under their written names, without those that have the default of `Unless`."""
    for field, written in form.fields:
        member = getattr(value, field)
        if isinstance(written, str):
            yield [written, plain_data(member, further)]
        elif member != written.value:
            yield [written.written, plain_data(member, further)]


# Renamed rules: rules with the meaning of a rule of an older program, under another name.
#
# Idea: a schema has only digests of the older rules. So each new rule is digested under the name of
# each removed rule, once with its event renamed likewise and once without, and the digests are
# compared.
# Example: `rule Jam define Jam = …` is now `rule Wave define Wave = …`. Digested under the name Jam,
# with its event as Jam, the rule Wave has the digest of the old rule, so it means what Jam meant.


def renamed_rules(program: CompiledProgram, before: StateSchema) -> dict[str, str]:
    """The older name of each rule that has only been renamed.

    Args:
        program: the program as it is now.
        before: the schema of the older program's state.
    """
    rules = {rule.name: rule for rule in program.rules.rules}
    older = {rule.name: rule.digest for rule in before.rules}
    found: dict[str, str] = {}
    while True:
        pairs = [(name, old) for name in sorted(rules.keys() - older.keys() - found.keys()) for old in sorted(older.keys() - rules.keys())]
        added = [(n, old) for n, old in pairs if old not in found.values() and older[old] in _digests(rules[n], old, found)]
        if not added:
            break
        found[added[0][0]] = added[0][1]
    return found


def _digests(rule: Rule, name: str, renamed: Mapping[str, str]) -> tuple[str, str]:
    """The digest of a rule under another name: its event renamed with it, and not."""
    names = {**renamed, rule.name: name}
    return digest_of([_renamed(plain_data(rule), names)]), digest_of([_renamed(plain_data(replace(rule, name=name)), renamed)])


def _renamed(data: object, names: Mapping[str, str]) -> object:
    """Plain data with other names in place of labels and names of rules."""
    match data:
        case str():
            return names.get(data, data)
        case list():
            return [_renamed(each, names) for each in data]
        case _:
            return data
